"""The Vocos vocoder (Siuzdak 2023, arXiv 2306.00814): ConvNeXt blocks over mel frames, then magnitudes and phases of an STFT.

Tensor names are those of the published module (`backbone.*`, `head.*`).
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from .sound import HOP, MELS, WINDOW
from .training import load_modules

LOUDEST = 1e2  # magnitudes are clipped here, as published


class ConvNeXtBlock(nn.Module):
    """`[rows, channels, frames]` to the same."""

    def __init__(self, channels: int, inner: int, layers: int):
        super().__init__()
        self.dwconv = nn.Conv1d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, inner)
        self.pwconv2 = nn.Linear(inner, channels)
        self.gamma = nn.Parameter(torch.full((channels,), 1 / layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.dwconv(x).transpose(1, 2))
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + y.transpose(1, 2)


class Backbone(nn.Module):
    """`[rows, mels, frames]` to `[rows, frames, channels]`."""

    def __init__(self, mels: int, channels: int, inner: int, layers: int):
        super().__init__()
        self.embed = nn.Conv1d(mels, channels, 7, padding=3)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.convnext = nn.ModuleList(ConvNeXtBlock(channels, inner, layers) for _ in range(layers))
        self.final_layer_norm = nn.LayerNorm(channels, eps=1e-6)
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Conv1d | nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embed(mel).transpose(1, 2)).transpose(1, 2)
        for block in self.convnext:
            x = block(x)
        return self.final_layer_norm(x.transpose(1, 2))


class Head(nn.Module):
    """`[rows, frames, channels]` to `[rows, (frames - 1) * hop]`."""

    def __init__(self, channels: int):
        super().__init__()
        self.out = nn.Linear(channels, WINDOW + 2)
        self.istft = nn.Module()
        self.istft.register_buffer("window", torch.hann_window(WINDOW))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        magnitude, phase = self.out(x).float().transpose(1, 2).chunk(2, dim=1)
        spectrum = torch.polar(magnitude.exp().clamp(max=LOUDEST), phase)
        return inverse_stft(spectrum, self.istft.window)


def inverse_stft(spectrum: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
    """`torch.istft` with centred frames, without its check of the window, for which a GPU would be waited for."""
    frames, length = spectrum.shape[2], WINDOW + HOP * (spectrum.shape[2] - 1)

    def added(parts: torch.Tensor) -> torch.Tensor:
        return F.fold(parts, (1, length), (1, WINDOW), stride=(1, HOP))[:, 0, 0, WINDOW // 2 : length - WINDOW // 2]

    sound = added(torch.fft.irfft(spectrum, dim=1) * window[:, None])
    return sound / added(window.square()[None, :, None].expand(1, -1, frames))


class Vocos(nn.Module):
    def __init__(self, channels: int = 288, inner: int = 768, layers: int = 8):
        super().__init__()
        self.shape = {"channels": channels, "inner": inner, "layers": layers}
        self.backbone = Backbone(MELS, channels, inner, layers)
        self.head = Head(channels)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(mel))


def load(folder: Path) -> Vocos:
    """From a run or an export."""
    shape = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    model = Vocos(**{name: shape[name] for name in ("channels", "inner", "layers")})
    model.load_state_dict(load_modules(folder))
    return model.eval()
