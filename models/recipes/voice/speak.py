"""Text to sound with an exported voice, through the published classes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from . import acoustic, g2p, vocos
from .symbols import ID, Lexicon, sequence


class Voice:
    """An export, or the folders of runs that it is made of."""

    def __init__(self, acoustic_folder: Path, vocoder_folder: Path, g2p_folder: Path | None):
        self.voices = list(json.loads((acoustic_folder / "voices.json").read_text(encoding="utf-8")))
        self.lexicon = Lexicon(g2p.G2p(g2p_folder) if g2p_folder else None)
        self.acoustic = acoustic.load(acoustic_folder)
        self.vocoder = vocos.load(vocoder_folder)

    @classmethod
    def exported(cls, folder: Path) -> Voice:
        return cls(folder / "acoustic", folder / "vocoder", folder / "g2p")

    @torch.no_grad()
    def mel(self, text: str, voice: str) -> torch.Tensor:
        """`[frames, mels]` of one sentence."""
        symbols = sequence(text, self.lexicon)
        if symbols is None:
            raise ValueError(f"unknown words in {text!r}")
        ids = torch.tensor([[ID[symbol] for symbol in symbols]])
        speaker = torch.tensor([self.voices.index(voice)])
        return self.acoustic(ids, speaker_ids=speaker, return_dict=True).spectrogram[0]

    @torch.no_grad()
    def speak(self, text: str, voice: str) -> np.ndarray:
        """`[samples]` at 16 kHz of one sentence."""
        return self.vocoder(self.mel(text, voice).T[None])[0].numpy()
