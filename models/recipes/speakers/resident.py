"""The crops of `crops.py` made on the device that trains: all mels lie there, and a step's rows are changed side by side.

A batch is a function of the seed and the step.
"""

from __future__ import annotations

import numpy as np
import torch

from ..augment import DECIBEL
from ..batches import NOISE
from ..features import FRAMES_PER_SECOND, LOG_FLOOR, MELS, MelStore, Stored
from .crops import GRID, LONGEST_S, SHORTEST_S, Batch, Crops

MOST_OTHERS = 3  # people who are heard beside the voice


class Chances:
    """Uniform draws of `rows` rows, a column at a time, made by the CPU; `noise` is made on the device."""

    def __init__(self, rng: np.random.Generator, rows: int, device: torch.device, columns: int = 64):
        drawn = torch.from_numpy(rng.random((columns, rows), dtype=np.float32))
        self._columns = iter(drawn.to(device).unbind())
        self._generator = torch.Generator(device).manual_seed(int(rng.integers(2**31)))

    def __call__(self, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
        """`[rows]`."""
        return low + (high - low) * next(self._columns)

    def below(self, high: torch.Tensor | int) -> torch.Tensor:
        """Whole numbers from 0 to `high` - 1."""
        drawn = (self() * high).long()
        return drawn.clamp(max=high - 1) if isinstance(high, int) else torch.minimum(drawn, high - 1)


    def noise(self, like: torch.Tensor) -> torch.Tensor:
        """Normal deviates."""
        return torch.randn(like.shape, generator=self._generator, device=like.device)


class Mels:
    """Utterances' mels end to end on a device."""

    def __init__(self, store: MelStore, utterances: list[Stored], device: torch.device):
        self.frames = torch.tensor([u.frames for u in utterances], device=device)
        self.first = self.frames.cumsum(0) - self.frames
        self._mels = torch.empty(int(self.frames.sum()), MELS, dtype=torch.float16, device=device)
        at = 0
        for utterance in utterances:
            self._mels[at : at + utterance.frames] = torch.from_numpy(store.mel(utterance).astype(np.float16))
            at += utterance.frames

    def part(self, utterances: torch.Tensor, starts: torch.Tensor, frames: int) -> torch.Tensor:
        """`[..., frames, mels]`, f32, of utterances from frames on; a short one comes again."""
        along = starts[..., None] + torch.arange(frames, device=starts.device)
        return self._mels[self.first[utterances][..., None] + along % self.frames[utterances][..., None]].float()


class ResidentCrops(Crops):
    """As `Crops`, on a device."""

    def __init__(self, store: MelStore, seed: int, strength: float, device: torch.device, longest_s: float = LONGEST_S):
        super().__init__(store, seed, strength, longest_s)
        self._device = device
        self._mels = Mels(store, self.utterances, device)
        self._ends = np.cumsum([0, *(u.frames for u in self.utterances)])
        self._noises = Mels(store, self._noise, device) if self._noise else None
        self._firsts = torch.from_numpy(self._first).to(device)

    def batch(self, step: int, rows: int) -> Batch:
        rng = np.random.default_rng((self._seed, step))
        frames = int(rng.uniform(SHORTEST_S, self._longest_s) * FRAMES_PER_SECOND) // GRID * GRID
        voices = np.minimum(np.searchsorted(self._chance, rng.random(rows)), len(self.voices) - 1)
        low, high = self._ends[self._first[voices]], self._ends[self._first[voices + 1]]
        places = np.searchsorted(self._ends, low + (high - low) * rng.random(rows), side="right") - 1
        chances = Chances(rng, rows, self._device)
        voice, place = (torch.from_numpy(numbers.astype(np.int64)).to(self._device) for numbers in (voices, places))
        mels = self._altered(chances, voice, self._louder(chances, place, frames))
        return Batch(mels, voice, place)

    def _louder(self, chances: Chances, place: torch.Tensor, frames: int) -> torch.Tensor:
        """The louder of two random parts: it is seldom a pause."""
        last = self._mels.frames[place] - frames
        # one that is shorter than the crop begins anywhere
        choice = torch.where(last >= 0, last + 1, self._mels.frames[place])
        parts = self._mels.part(place.expand(2, -1), torch.stack([chances.below(choice), chances.below(choice)]), frames)
        first_is = (parts[0].mean((1, 2)) >= parts[1].mean((1, 2)))[:, None, None]
        return torch.where(first_is, parts[0], parts[1])

    def _altered(self, chances: Chances, voice: torch.Tensor, mels: torch.Tensor) -> torch.Tensor:
        s, frames = self._strength, mels.shape[1]

        def sometimes(chance: float, changed: torch.Tensor) -> torch.Tensor:
            return torch.where((chances() < chance * s)[:, None, None], changed, mels)

        mels = sometimes(0.4, reverberated(mels, chances(0.15, 0.8), chances(0.05, 0.6)))
        mels = mels + tilts(chances, s * 9 * DECIBEL)[:, None]
        mels = sometimes(0.25, mels + band_limits(chances)[:, None])
        mels = mels + chances(-18, 12)[:, None, None] * DECIBEL
        if self._noises is not None:
            which = chances.below(len(self._noises.frames))
            noise = self._noises.part(which, chances.below(self._noises.frames[which]), frames)
            mels = sometimes(0.45, mixed(mels, noise, chances(0, 25)))
        others, count = mels, chances.below(MOST_OTHERS)
        for number in range(MOST_OTHERS):
            other = (voice + 1 + chances.below(len(self.voices) - 1)) % len(self.voices)
            own = self._firsts[other + 1] - self._firsts[other]
            who = self._firsts[other] + chances.below(own)
            babble = self._mels.part(who, chances.below(self._mels.frames[who]), frames)
            others = torch.where((count >= number)[:, None, None], mixed(others, babble, chances(10, 25)), others)
        mels = sometimes(0.25, others)
        floor = level(mels) - chances(25, 70)[:, None, None] * DECIBEL + tilts(chances, 6 * DECIBEL)[:, None]
        mels = torch.logaddexp(mels, floor + 0.5 * chances.noise(mels)).clamp(min=LOG_FLOOR)
        mels = sometimes(0.3, resampled(mels, chances(0.88, 1.14)))
        return sometimes(0.6, masked(chances, mels))


def level(mels: torch.Tensor) -> torch.Tensor:
    """The log of the mean power, `[rows, 1, 1]`."""
    return mels.exp().mean((1, 2), keepdim=True).log()


def reverberated(mels: torch.Tensor, seconds: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
    """As `augment.reverberate`: the tail's filter as a matrix."""
    decay = 10 ** (-6 / (seconds * FRAMES_PER_SECOND))
    since = torch.arange(mels.shape[1], device=mels.device)
    since = since[:, None] - since - 1
    tail = (share * (1 - decay))[:, None, None] * decay[:, None, None] ** since.clamp(min=0) * (since >= 0)
    power = mels.exp()
    return (power + tail @ power).log()


def tilts(chances: Chances, size: float) -> torch.Tensor:
    """`augment.tilt` of each row, `[rows, mels]`."""
    slope = chances(-1, 1)
    band = torch.linspace(-1, 1, MELS, device=slope.device)
    curve = slope[:, None] * band
    for waves in (1, 2):
        curve = curve + chances(-0.5, 0.5)[:, None] * torch.cos(torch.pi * waves * band + chances(0, 2 * torch.pi)[:, None])
    return size * curve


def mel_bins(hertz: torch.Tensor) -> torch.Tensor:
    """`augment.mel_bin` of each row."""

    def slaney(value: torch.Tensor) -> torch.Tensor:
        return torch.where(value < 1000, 3 * value / 200, 15 + (value / 1000).log() * 27 / np.log(6.4))

    return (MELS + 1) * slaney(hertz) / slaney(torch.tensor(8000.0, device=hertz.device)) - 1


def band_limits(chances: Chances) -> torch.Tensor:
    """`augment.band_limit` of each row, `[rows, mels]`."""
    low, high = mel_bins(chances(60, 400))[:, None], mel_bins(chances(2800, 7000))[:, None]
    bins = torch.arange(MELS, device=low.device)
    beyond = (low - bins).clamp(min=0) * chances(0.3, 3)[:, None] + (bins - high).clamp(min=0) * chances(0.5, 6)[:, None]
    return -torch.minimum(beyond, chances(15, 60)[:, None]) * DECIBEL


def mixed(mels: torch.Tensor, other: torch.Tensor, ratio_db: torch.Tensor) -> torch.Tensor:
    """As `augment.mix`, with the other sound already cut."""
    quieter = level(mels) - (other.exp().mean((1, 2), keepdim=True) + 1e-9).log() - ratio_db[:, None, None] * DECIBEL
    return torch.logaddexp(mels, other + quieter)


def resampled(mels: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
    """As `augment.resample_time`, again from the start where it gets shorter, cut where it gets longer."""
    frames = mels.shape[1]
    count = (frames / rate).round().clamp(min=16)[:, None]
    at = torch.arange(frames, device=mels.device) % count * (frames - 1) / (count - 1)
    low = at.long().clamp(max=frames - 2)
    part = (at - low)[..., None]
    rows = torch.arange(len(mels), device=mels.device)[:, None]
    return mels[rows, low] * (1 - part) + mels[rows, low + 1] * part


def masked(chances: Chances, mels: torch.Tensor) -> torch.Tensor:
    """One range of bands and one of frames at the crop's mean."""

    def place(size: int, widest: int) -> torch.Tensor:
        width = chances.below(widest)
        first = chances.below(size - width)
        along = torch.arange(size, device=mels.device)
        return (along >= first[:, None]) & (along < (first + width)[:, None])

    hidden = place(mels.shape[2], 12)[:, None] | place(mels.shape[1], 16)[:, :, None]
    return torch.where(hidden, mels.mean((1, 2), keepdim=True), mels)
