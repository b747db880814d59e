"""Log-mel features as the family computes them."""

from __future__ import annotations

import numpy as np
import torch
from transformers.audio_utils import mel_filter_bank


class LogMel:
    """`[rows, samples]` at 16 kHz to `[rows, mels, samples / 160]`."""

    def __init__(self, mels: int):
        bank = mel_filter_bank(201, mels, 0.0, 8000.0, 16000, norm="slaney", mel_scale="slaney")
        self._filters = torch.from_numpy(bank.astype(np.float32)).T
        self._window = torch.hann_window(400)

    def __call__(self, sound: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(sound, 400, 160, window=self._window, return_complex=True)[..., :-1]
        mels = (self._filters @ spectrum.abs().square()).clamp(min=1e-10).log10()
        mels = torch.maximum(mels, mels.amax((1, 2), keepdim=True) - 8)
        return (mels + 4) / 4
