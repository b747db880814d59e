"""What a training step hears: crops of voices in rooms, on lines, beside noise and other people.

A batch is a function of the seed and the step alone. All sound is log-mels, as `augment.py` has it; nothing that moves
pitch or formants is used, because those are whose voice it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..augment import add_hiss, band_limit, mix, resample_time, reverberate, tilt
from ..augment import DECIBEL
from ..batches import NOISE
from ..features import FRAMES_PER_SECOND, MelStore, Stored
from .readers import training_voices

SHORTEST_S, LONGEST_S = 1.2, 2.6
GRID = 10  # lengths are multiples of so many frames: a CPU's library makes code for each new one
ORIGINAL_SHARE = 0.4  # of crops, at the speed that was read


@dataclass(frozen=True)
class Batch:
    """`mels` `[rows, frames, mels]`; `voices` and `utterances` `[rows]`, places in the lists of `Crops`.

    `targets` `[rows, embedding]` are the crops' own directions, where they have some.
    """

    mels: torch.Tensor
    voices: torch.Tensor
    utterances: torch.Tensor
    targets: torch.Tensor | None = None


class Crops:
    """Draws batches of the training voices."""

    def __init__(self, store: MelStore, seed: int, strength: float = 1.0, longest_s: float = LONGEST_S):
        self._store, self._seed, self._strength, self._longest_s = store, seed, strength, longest_s
        self.voices = training_voices(store)
        self._utterances = list(self.voices.values())
        self.utterances = [u for own in self._utterances for u in own]
        self._first = np.cumsum([0, *(len(own) for own in self._utterances)])
        self._noise = [u for u in store.utterances if u.recorded == NOISE and u.corpus == NOISE]
        # Readers with much speech are heard more often, but not in proportion.
        weight = np.array([sum(u.frames for u in own) ** 0.4 for own in self._utterances])
        original = np.array(["@" not in name for name in self.voices])
        for group, share in ((original, ORIGINAL_SHARE), (~original, 1 - ORIGINAL_SHARE)):
            if group.any():
                weight[group] *= share / weight[group].sum()
        self._chance = np.cumsum(weight / weight.sum())

    def batch(self, step: int, rows: int) -> Batch:
        rng = np.random.default_rng((self._seed, step))
        frames = int(rng.uniform(SHORTEST_S, self._longest_s) * FRAMES_PER_SECOND) // GRID * GRID
        voices = np.minimum(np.searchsorted(self._chance, rng.random(rows)), len(self._utterances) - 1)
        chosen = [self._utterance(rng, int(voice)) for voice in voices]
        mels = np.stack([
            self._augment(rng, int(voice), self._part(rng, self.utterances[place], frames))
            for voice, place in zip(voices, chosen, strict=True)
        ])  # fmt: skip
        return Batch(torch.from_numpy(mels), torch.from_numpy(voices.astype(np.int64)), torch.tensor(chosen))

    def _utterance(self, rng: np.random.Generator, voice: int) -> int:
        chance = np.cumsum([u.frames for u in self._utterances[voice]])
        return int(self._first[voice] + np.searchsorted(chance, rng.uniform(0, chance[-1])))

    def _part(self, rng: np.random.Generator, utterance: Stored, frames: int) -> np.ndarray:
        """The louder of two random parts: it is seldom a pause."""
        mel = self._store.mel(utterance)
        if len(mel) <= frames:
            return np.take(mel, np.arange(frames) + int(rng.integers(len(mel))), axis=0, mode="wrap")
        starts = rng.integers(0, len(mel) - frames + 1, 2)
        return max((mel[start : start + frames] for start in starts), key=lambda part: float(part.mean()))

    def _augment(self, rng: np.random.Generator, voice: int, mel: np.ndarray) -> np.ndarray:
        s, frames = self._strength, len(mel)
        if rng.random() < 0.4 * s:
            mel = reverberate(mel, seconds=rng.uniform(0.15, 0.8), level=rng.uniform(0.05, 0.6))
        mel = mel + tilt(rng, s * 9 * DECIBEL)
        if rng.random() < 0.25 * s:
            mel = mel + band_limit(rng)
        mel = mel + rng.uniform(-18, 12) * DECIBEL
        if self._noise and rng.random() < 0.45 * s:
            other = self._store.mel(self._noise[rng.integers(len(self._noise))])
            mel = mix(mel, other, rng.uniform(0, 25), rng)
        if rng.random() < 0.25 * s:
            for _ in range(int(rng.integers(1, 4))):
                mel = mix(mel, self._other(rng, voice), rng.uniform(10, 25), rng)
        mel = add_hiss(mel, rng)
        if rng.random() < 0.3 * s:
            # another tempo with the same pitch and formants
            mel = np.take(resample_time(mel, rng.uniform(0.88, 1.14)), np.arange(frames), axis=0, mode="wrap")
        return _mask(rng, mel) if rng.random() < 0.6 * s else mel

    def _other(self, rng: np.random.Generator, voice: int) -> np.ndarray:
        """Somebody else's speech."""
        other = (voice + int(rng.integers(1, len(self._utterances)))) % len(self._utterances)
        own = self._utterances[other]
        return self._store.mel(own[int(rng.integers(len(own)))])


def _mask(rng: np.random.Generator, mel: np.ndarray) -> np.ndarray:
    """One range of bands and one of frames at the crop's mean."""
    mel, mean = mel.copy(), mel.mean()
    width = int(rng.integers(0, 12))
    first = int(rng.integers(0, mel.shape[1] - width))
    mel[:, first : first + width] = mean
    width = int(rng.integers(0, 16))
    first = int(rng.integers(0, len(mel) - width))
    mel[first : first + width] = mean
    return mel
