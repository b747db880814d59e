"""Augmentation on log-mels: one recording made to sound like many speakers, rooms and microphones.

Everything works on `[frames, mels]` in the log domain and draws from the generator it is given, so a step's batch
depends on its number alone. Mixing happens in the power domain: log-mels of a sum are nearly the log of summed powers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.signal import lfilter
from transformers.audio_utils import hertz_to_mel

from .features import FRAMES_PER_SECOND, LOG_FLOOR, MELS, MelStore, Stored

DECIBEL = float(np.log(10.0) / 10.0)


@dataclass(frozen=True)
class Augmentation:
    """`strength` scales every range; 0 leaves the sound as it is."""

    strength: float = 0.45
    noise: tuple[Stored, ...] = ()
    babble: tuple[Stored, ...] = ()
    masks: bool = False  # SpecAugment: hurts while a model still underfits

    def __call__(self, mel: np.ndarray, store: MelStore, rng: np.random.Generator) -> np.ndarray:
        if self.strength == 0:
            return mel
        s = self.strength
        mel = resample_time(mel, 1 + s * rng.uniform(-0.22, 0.22))
        mel = mel @ warp_matrix(round(1 + s * rng.uniform(-0.24, 0.24), 2))
        if rng.random() < 0.6 * s:
            mel = reverberate(mel, seconds=rng.uniform(0.15, 0.7), level=rng.uniform(0.05, 0.4))
        mel = mel + tilt(rng, s * 12 * DECIBEL)
        if rng.random() < 0.5 * s:
            mel = mel + band_limit(rng)
        # not scaled: users' recordings are as far apart whatever the speaker's strangeness is
        mel = mel + rng.uniform(-18, 12) * DECIBEL
        if self.noise and rng.random() < 1.1 * s:
            other = store.mel(self.noise[rng.integers(len(self.noise))])
            mel = mix(mel, other, rng.uniform(2, 28), rng)
        if self.babble and rng.random() < 0.3 * s:
            other = store.mel(self.babble[rng.integers(len(self.babble))])
            mel = mix(mel, other, rng.uniform(8, 25), rng)
        mel = add_hiss(mel, rng)
        return specaugment(mel, rng) if self.masks else mel


def resample_time(mel: np.ndarray, rate: float) -> np.ndarray:
    """Faster (rate > 1) or slower speech, by linear interpolation between frames."""
    frames = max(16, round(len(mel) / rate))
    at = np.linspace(0, len(mel) - 1, frames)
    low = np.minimum(at.astype(np.int64), len(mel) - 2)
    part = (at - low)[:, None].astype(np.float32)
    return mel[low] * (1 - part) + mel[low + 1] * part


@lru_cache(maxsize=128)
def warp_matrix(factor: float) -> np.ndarray:
    """`[mels, mels]`: moves formants by `factor` (vocal-tract length), by linear interpolation between bands."""
    at = np.clip(np.arange(MELS) * factor, 0, MELS - 1)
    low = np.minimum(at.astype(np.int64), MELS - 2)
    matrix = np.zeros((MELS, MELS), dtype=np.float32)
    matrix[low, np.arange(MELS)] += 1 - (at - low)
    matrix[low + 1, np.arange(MELS)] += at - low
    return matrix


def reverberate(mel: np.ndarray, seconds: float, level: float) -> np.ndarray:
    """An exponential tail that falls 60 dB in `seconds`, `level` of the direct sound's power."""
    decay = 10 ** (-6 / (seconds * FRAMES_PER_SECOND))
    power = np.exp(mel)
    tail = lfilter([0, level * (1 - decay)], [1, -decay], power, axis=0)
    return np.log(power + tail).astype(np.float32)


def tilt(rng: np.random.Generator, size: float) -> np.ndarray:
    """A smooth random colouring, `[mels]`: a slope and two slow waves."""
    band = np.linspace(-1, 1, MELS, dtype=np.float32)
    curve = rng.uniform(-1, 1) * band
    for waves in (1, 2):
        curve = curve + rng.uniform(-0.5, 0.5) * np.cos(np.pi * waves * band + rng.uniform(0, 2 * np.pi))
    return (size * curve).astype(np.float32)


def band_limit(rng: np.random.Generator) -> np.ndarray:
    """What a telephone, a worn tape or a cheap microphone leaves, `[mels]`: low and high bands fall away."""
    low, high = mel_bin(rng.uniform(60, 400)), mel_bin(rng.uniform(2800, 7000))
    bins = np.arange(MELS, dtype=np.float32)
    beyond = np.maximum(low - bins, 0) * rng.uniform(0.3, 3) + np.maximum(bins - high, 0) * rng.uniform(0.5, 6)
    return (-np.minimum(beyond, rng.uniform(15, 60)) * DECIBEL).astype(np.float32)


def mel_bin(hertz: float) -> float:
    """The band whose middle is at `hertz`, with its fraction."""
    return float((MELS + 1) * hertz_to_mel(hertz, "slaney") / hertz_to_mel(8000.0, "slaney") - 1)


def mix(mel: np.ndarray, other: np.ndarray, ratio_db: float, rng: np.random.Generator) -> np.ndarray:
    """Adds another sound, repeated or cut to length, `ratio_db` below this one."""
    start = int(rng.integers(len(other)))
    other = np.take(other, np.arange(start, start + len(mel)), axis=0, mode="wrap")
    level = float(np.log(np.exp(mel).mean()) - np.log(np.exp(other).mean() + 1e-9)) - ratio_db * DECIBEL
    return np.logaddexp(mel, other + level, dtype=np.float32)


def add_hiss(mel: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A noise floor of some level, so that digital silence is never what marks synthetic speech."""
    floor = float(np.log(np.exp(mel).mean())) - rng.uniform(25, 70) * DECIBEL + tilt(rng, 6 * DECIBEL)
    flutter = rng.standard_normal(mel.shape, dtype=np.float32) * 0.5
    return np.maximum(np.logaddexp(mel, floor.astype(np.float32) + flutter), LOG_FLOOR)


def specaugment(mel: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two masked band ranges and one masked time range a 4 s, at the utterance's mean."""
    mel = mel.copy()
    mean = mel.mean()
    for _ in range(2):
        width, first = int(rng.integers(0, 15)), int(rng.integers(0, MELS - 15))
        mel[:, first : first + width] = mean
    for _ in range(1 + len(mel) // 400):
        width, first = int(rng.integers(0, 20)), int(rng.integers(0, max(1, len(mel) - 20)))
        mel[first : first + width] = mean
    return mel
