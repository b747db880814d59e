"""The silero form: STFT by convolution, magnitudes, four convolutions, an LSTM cell, one output a chunk of 512 samples.

Tensor names and shapes are those of the published `silero_vad_16k.safetensors`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

CHUNK, CONTEXT, PAD = 512, 64, 64
WINDOW, HOP, BINS = 256, 128, 129
HIDDEN = 128


def fourier_basis() -> torch.Tensor:
    """`[258, 1, 256]`: cosines, then sines, under a periodic Hann window."""
    angle = 2 * torch.pi * torch.arange(BINS)[:, None] * torch.arange(WINDOW)[None] / WINDOW
    basis = torch.cat([torch.cos(angle), -torch.sin(angle)]) * torch.hann_window(WINDOW)
    return basis[:, None].contiguous()


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 2 * BINS, WINDOW, stride=HOP, bias=False)
        self.conv1 = nn.Conv1d(BINS, 128, 3, padding=1)
        self.conv2 = nn.Conv1d(128, 64, 3, stride=2, padding=1)
        self.conv3 = nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.conv4 = nn.Conv1d(64, 128, 3, padding=1)
        self.lstm_cell = nn.LSTMCell(128, HIDDEN)
        self.final_conv = nn.Conv1d(HIDDEN, 1, 1)
        self.stft_conv.weight.requires_grad_(False)

    def initialise(self) -> None:
        """The Fourier basis, and first filters of many sensitivities, for speech of any level."""
        with torch.no_grad():
            self.stft_conv.weight.copy_(fourier_basis())
            self.conv1.weight *= torch.logspace(-0.3, 1.7, 128)[torch.randperm(128)][:, None, None]
            self.lstm_cell.bias_ih[HIDDEN : 2 * HIDDEN] += 1  # remember at first

    def magnitudes(self, sound: torch.Tensor) -> torch.Tensor:
        """`[rows, samples]`, a whole number of chunks, to `[rows * chunks, 129, 4]`."""
        chunks = F.pad(sound, (CONTEXT, 0)).unfold(1, CONTEXT + CHUNK, CHUNK)
        chunks = F.pad(chunks.reshape(-1, CONTEXT + CHUNK), (0, PAD), "reflect")
        basis = self.stft_conv.weight[:, 0]
        parts = chunks.unfold(1, WINDOW, HOP) @ basis.T
        return (parts[..., :BINS] ** 2 + parts[..., BINS:] ** 2).sqrt().transpose(1, 2)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        """`[rows, samples]` to scores before the sigmoid, `[rows, chunks]`."""
        with torch.no_grad():
            x = self.magnitudes(sound)
        for conv in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = convolve(x, conv).relu()
        x = x.reshape(len(sound), -1, HIDDEN).transpose(0, 1)
        return self.head(self.recur(x))

    def recur(self, x: torch.Tensor) -> torch.Tensor:
        """`[chunks, rows, 128]` to hidden states of the same shape, from a state of zeros."""
        cell = self.lstm_cell
        zeros = x.new_zeros(1, x.shape[1], HIDDEN)
        weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
        return torch.lstm(x, (zeros, zeros), weights, True, 1, 0.0, self.training, False, False)[0]

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        weight, bias = self.final_conv.weight[:, :, 0], self.final_conv.bias
        return F.linear(hidden.relu(), weight, bias)[..., 0].transpose(0, 1)


def convolve(x: torch.Tensor, conv: nn.Conv1d) -> torch.Tensor:
    """The convolution as one product: over a few frames of thousands of chunks that is faster."""
    windows = F.pad(x, (1, 1)).unfold(2, 3, conv.stride[0])  # [n, channels, frames, 3]
    n, channels, frames, _ = windows.shape
    rows = windows.permute(0, 2, 1, 3).reshape(n * frames, channels * 3)
    out = F.linear(rows, conv.weight.reshape(conv.out_channels, -1), conv.bias)
    return out.reshape(n, frames, -1).transpose(1, 2)


def load(path: Path) -> Detector:
    """A folder with `model.safetensors`, or such a file."""
    model = Detector()
    model.load_state_dict(load_file(path / "model.safetensors" if path.is_dir() else path))
    return model.eval()
