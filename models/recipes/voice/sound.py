"""Waveforms and log-mels of the voice: 16 kHz, window 1024, hop 256, 80 bands, as the published Vocos module computes them."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

RATE = 16000
WINDOW = 1024
HOP = 256
MELS = 80
FLOOR = 1e-5  # magnitudes below it are silence; digital silence stays within the range of recordings
LEVEL = 0.07  # root mean square of the speech of every clip
SPEECH_DB = 35.0  # frames this far below a clip's loud ones are silence


def mel_filters(rate: int = RATE, window: int = WINDOW, bands: int = MELS) -> torch.Tensor:
    """Triangles on the HTK mel scale from 0 Hz to half the rate, `[bins, bands]`; what torchaudio's `MelScale` holds."""
    frequencies = torch.linspace(0, rate / 2, window // 2 + 1)
    highest = 2595 * np.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, float(highest), bands + 2) / 2595) - 1)
    slopes = edges[None] - frequencies[:, None]
    rising = -slopes[:, :-2] / (edges[1:-1] - edges[:-2])
    falling = slopes[:, 2:] / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


class LogMel(nn.Module):
    """`[rows, samples]` to `[rows, bands, 1 + samples / hop]`: frames are centred, magnitudes are not squared."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(WINDOW), persistent=False)
        self.register_buffer("filters", mel_filters(), persistent=False)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(sound, WINDOW, HOP, window=self.window, return_complex=True)
        # the square root of a square has no slope at zero
        magnitudes = (spectrum.real**2 + spectrum.imag**2).clamp(min=1e-16).sqrt()
        return (self.filters.T @ magnitudes).clamp(min=FLOOR).log()


def levels_db(sound: np.ndarray, frame: int = 160) -> np.ndarray:
    """The level of each frame, dB of full scale."""
    frames = sound[: len(sound) // frame * frame].reshape(-1, frame)
    return 10 * np.log10((frames**2).mean(1) + 1e-10)


def trimmed(sound: np.ndarray, before_s: float = 0.08, after_s: float = 0.16) -> np.ndarray:
    """The clip without the silence at its ends, at the common level."""
    levels = levels_db(sound)
    if not len(levels):
        return sound
    smooth = np.convolve(levels, np.ones(3) / 3, mode="same")
    loud = np.percentile(levels, 95)
    speech = np.flatnonzero(smooth > loud - SPEECH_DB)
    first = max(0, int(speech[0] * 160 - before_s * RATE))
    last = min(len(sound), int((speech[-1] + 1) * 160 + after_s * RATE))
    active = levels[levels > loud - 20]
    gain = LEVEL / 10 ** (float(10 * np.log10((10 ** (active / 10)).mean())) / 20)
    cut = sound[first:last] * gain
    return (cut * min(1.0, 0.98 / max(1e-6, float(np.abs(cut).max())))).astype(np.float32)
