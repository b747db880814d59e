"""Distances between waveforms: log-mels, and STFT magnitudes at several resolutions (Yamamoto et al. 2020, arXiv 1910.11480)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .sound import LogMel

WINDOWS = (256, 512, 1024, 2048)


def magnitudes(sound: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
    spectrum = torch.stft(sound, len(window), len(window) // 4, window=window, return_complex=True)
    return (spectrum.real**2 + spectrum.imag**2).clamp(min=1e-9).sqrt()


class SpectralLoss(nn.Module):
    """The losses by name, of `said` against `heard`, both `[rows, samples]`."""

    def __init__(self) -> None:
        super().__init__()
        self.log_mel = LogMel()
        for window in WINDOWS:
            self.register_buffer(f"window_{window}", torch.hann_window(window), persistent=False)

    def forward(self, said: torch.Tensor, heard: torch.Tensor) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            wanted = self.log_mel(heard)
        mel = F.l1_loss(self.log_mel(said), wanted)
        logs, convergence = said.new_zeros(()), said.new_zeros(())
        for size in WINDOWS:
            window = getattr(self, f"window_{size}")
            with torch.no_grad():
                target = magnitudes(heard, window)
            got = magnitudes(said, window)
            logs = logs + F.l1_loss(got.log(), target.log()) / len(WINDOWS)
            convergence = convergence + (got - target).norm() / target.norm() / len(WINDOWS)
        return {"mel": mel, "log": logs, "convergence": convergence}
