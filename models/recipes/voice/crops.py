"""Training batches of the vocoder: short crops of mels and waveforms, a function of the seed and the step alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from . import acoustic
from .annotate import Utterances
from .clips import Clips, held_out
from .sound import HOP, LogMel

FRAMES = 48  # of a crop; 0.77 s


class Crops:
    """Recordings and their own mels; the speakers in `favoured` are heard `weight` times as often as their share."""

    def __init__(self, clips: Clips, seed: int, favoured: tuple[str, ...] = (), weight: float = 3.0):
        self._clips, self._seed, self._log_mel = clips, seed, LogMel()
        self.used = [clip for clip in clips.all if not held_out(clip) and clip.samples > FRAMES * HOP]
        shares = np.array([clip.seconds * (weight if clip.speaker in favoured else 1.0) for clip in self.used])
        self._shares = np.cumsum(shares / shares.sum())

    def batch(self, step: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Mels `[rows, mels, FRAMES + 1]` and sound `[rows, FRAMES * HOP]`."""
        rng = np.random.default_rng((self._seed, step))
        sounds = []
        for number in np.searchsorted(self._shares, rng.random(rows) * self._shares[-1]):
            clip = self.used[number]
            start = int(rng.integers(clip.samples - FRAMES * HOP + 1))
            gain = 10 ** (rng.uniform(-6, 2) / 20)  # some clips are louder within than others
            sounds.append(self._clips.sound(clip, start, FRAMES * HOP) * gain)
        heard = torch.from_numpy(np.stack(sounds).clip(-1, 1))
        return self._log_mel(heard), heard


class PredictedCrops:
    """Recordings and the mels that the acoustic model predicts for them, at the recording's own times, pitch and energy."""

    def __init__(self, clips: Clips, utterances: Utterances, folder: Path, seed: int):
        from .train_acoustic import collate

        self._clips, self._seed = clips, seed
        model = acoustic.load(folder)
        self.used, self._mels = [], []
        voices = sorted(utterances.voices)
        for utterance in utterances.all:
            clip = clips.all[utterance.clip]
            if held_out(clip) or utterance.frames < FRAMES + 2:
                continue
            with torch.no_grad():
                predicted = acoustic.teacher_forced(model, collate(utterances, voices, [utterance]))
            self.used.append(clip)
            self._mels.append(predicted.mel[0, : utterance.frames].half())
        print(f"mels of {len(self.used)} clips are predicted", flush=True)
        shares = np.array([len(mel) for mel in self._mels], dtype=float)
        self._shares = np.cumsum(shares / shares.sum())

    def batch(self, step: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """As `Crops.batch`."""
        rng = np.random.default_rng((self._seed, step))
        mels, sounds = [], []
        for number in np.searchsorted(self._shares, rng.random(rows) * self._shares[-1]):
            mel, clip = self._mels[number], self.used[number]
            start = int(rng.integers(len(mel) - FRAMES - 1))
            mels.append(mel[start : start + FRAMES + 1].float().T)
            sounds.append(self._clips.sound(clip, start * HOP, FRAMES * HOP))
        return torch.stack(mels), torch.from_numpy(np.stack(sounds))
