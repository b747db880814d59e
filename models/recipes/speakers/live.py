"""Crops at any speed, whose directions the teacher gives as they are made: the student learns what it does, not a list of voices.

All sound lies on the device that trains: of each corpus at the speed it was read at, `<corpus>.i16` (16 kHz, utterances end to end,
without long pauses) and `<corpus>.lengths.npy` (samples of each, in the order of its index).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from ..features import FRAMES_PER_SECOND, HOP, RATE, VARIANT, MelStore, log_mels
from .crops import GRID, LONGEST_S, SHORTEST_S, Batch
from .distil import Axes
from .resident import Chances, ResidentCrops
from .teacher import Teacher

HEARD_S = 3.2  # by the teacher; what the student hears is a part of it
SLOWEST, FASTEST = 0.8, 1.22
UNCHANGED = 0.25  # of the crops
OWN_SHARE = 0.5  # of the crop's own direction in its target; the rest is its utterance's at the nearest stored speed
QUIET_DB, REACH_FRAMES = 30.0, 15  # what is quieter than the loud frames by so much, and so far from them, is a pause


def without_pauses(pcm: np.ndarray) -> np.ndarray:
    """The sound without pauses of more than 0.3 s, which say nothing of a voice."""
    frames = pcm[: len(pcm) // HOP * HOP].reshape(-1, HOP).astype(np.float64)
    if not len(frames):
        return pcm
    levels = 10 * np.log10((frames**2).mean(1) + 1e-9)
    loud = levels > np.percentile(levels, 95) - QUIET_DB
    near = np.convolve(loud, np.ones(2 * REACH_FRAMES + 1), mode="same") > 0.5
    return frames[near].reshape(-1).astype(pcm.dtype)


def store_sound(store: Path, corpus: str, recordings: list[np.ndarray]) -> None:
    """Writes f32 recordings, in the order of the corpus's index."""
    cut = [(without_pauses(pcm).clip(-1, 1) * 32767).astype(np.int16) for pcm in recordings]
    (store / f"{corpus}.i16").write_bytes(np.concatenate(cut).tobytes())
    np.save(store / f"{corpus}.lengths.npy", np.array([len(pcm) for pcm in cut]))


class LiveCrops(ResidentCrops):
    """As `ResidentCrops`; `Batch.targets` are the directions. `targets` are those of `utterances`."""

    def __init__(self, folder: Path, store: MelStore, seed: int, strength: float, device: torch.device, teacher: Teacher, axes: Axes,
                 targets: torch.Tensor, longest_s: float = LONGEST_S):  # fmt: skip
        super().__init__(store, seed, strength, device, longest_s)
        self._teacher, self._targets = teacher.to(device), targets.to(device)
        self._mean, self._matrix = (torch.from_numpy(np.asarray(part, np.float32)).to(device) for part in (axes.mean, axes.matrix))
        voice_of = np.repeat(np.arange(len(self.voices)), np.diff(self._first))
        places = {(u.corpus, u.file): number for number, u in enumerate(self.utterances)}
        recorded = sorted({u.recorded for u in self.utterances if (folder / f"{u.recorded}.i16").exists()})
        self._speeds = np.array(sorted({speed_of(u.corpus) for u in self.utterances}))
        sounds, lengths, table = [], [], []
        for corpus in recorded:
            own = np.load(folder / f"{corpus}.lengths.npy")
            sound, first = np.memmap(folder / f"{corpus}.i16", dtype=np.int16, mode="r"), np.cumsum([0, *own])
            names = [line.split("\t")[0] for line in (folder / f"{corpus}.index").read_text(encoding="utf-8").splitlines()]
            for number, name in enumerate(names):
                at = [places.get((stored_at(corpus, speed), name), -1) for speed in self._speeds]
                if at[int(np.abs(self._speeds - 1).argmin())] >= 0 and own[number] > RATE // 2:
                    sounds.append(sound[first[number] : first[number + 1]])
                    lengths.append(own[number])
                    table.append(at)
        self._sound = torch.from_numpy(np.concatenate(sounds)).to(device)
        self._lengths, self._table = np.array(lengths), np.array(table)
        self._begins = np.cumsum([0, *self._lengths[:-1]])
        middle = self._table[:, int(np.abs(self._speeds - 1).argmin())]
        self._voice_of = voice_of
        # as in `Crops`: a reader with much speech is heard more often, but not in proportion
        seconds = np.bincount(voice_of[middle], weights=self._lengths, minlength=len(self.voices))
        chance = self._lengths * seconds[voice_of[middle]] ** -0.6
        self._odds = np.cumsum(chance / chance.sum())

    def batch(self, step: int, rows: int) -> Batch:
        rng = np.random.default_rng((self._seed, step))
        frames = int(rng.uniform(SHORTEST_S, self._longest_s) * FRAMES_PER_SECOND) // GRID * GRID
        chosen = np.minimum(np.searchsorted(self._odds, rng.random(rows)), len(self._odds) - 1)
        speeds = np.exp(rng.uniform(np.log(SLOWEST), np.log(FASTEST), rows))
        speeds[rng.random(rows) < UNCHANGED] = 1
        nearest = np.abs(np.log(speeds[:, None] / self._speeds)).argmin(1)
        at = self._table[chosen, nearest]
        at = np.where(at >= 0, at, self._table[chosen].max(1))
        sound = self._stretches(rng, chosen, speeds)
        place, voice = (torch.from_numpy(numbers.astype(np.int64)).to(self._device) for numbers in (at, self._voice_of[at]))
        own = F.normalize((self._teacher.of_sound(sound) - self._mean) @ self._matrix, dim=1)
        targets = F.normalize(OWN_SHARE * own + (1 - OWN_SHARE) * self._targets[place], dim=1)
        begin = int(rng.integers(sound.shape[1] - frames * HOP + 1))
        mels = log_mels(sound[:, begin : begin + frames * HOP])
        return Batch(self._altered(Chances(rng, rows, self._device), voice, mels), voice, place, targets)

    def _stretches(self, rng: np.random.Generator, chosen: np.ndarray, speeds: np.ndarray) -> torch.Tensor:
        """`[rows, samples]`: sounds from a random place on, at a speed each, by cubic interpolation; a short one comes again."""
        samples = int(HEARD_S * RATE)
        last = self._lengths[chosen] - speeds * samples
        starts = (rng.random(len(chosen)) * np.where(last > 0, last, self._lengths[chosen])).astype(np.int64)
        numbers = np.stack([self._begins[chosen], self._lengths[chosen], starts])
        first, length, start = torch.from_numpy(numbers).to(self._device)[:, :, None]
        along = torch.from_numpy(speeds.astype(np.float32)).to(self._device)[:, None] * torch.arange(samples, device=self._device)
        whole = along.floor()
        part, whole = along - whole, whole.long() + start
        before, at, after, beyond = (self._sound[first + (whole + step) % length].float() / 32768 for step in (-1, 0, 1, 2))
        slope, bend = (after - before) / 2, before - 2.5 * at + 2 * after - beyond / 2
        return ((((beyond - before) / 2 + 1.5 * (at - after)) * part + bend) * part + slope) * part + at


def speed_of(corpus: str) -> float:
    return float(corpus.split(VARIANT)[1]) if VARIANT in corpus else 1.0


def stored_at(corpus: str, speed: float) -> str:
    """The name of a corpus at a speed of `speed_of`."""
    return corpus if speed == 1 else f"{corpus}{VARIANT}{speed:.3f}"
