"""Training batches of the vocoder: short crops of mels and waveforms, a function of the seed and the step alone.

All sound lies on the device that trains.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch

from . import acoustic
from .annotate import Utterances
from .clips import Clip, Clips, held_out
from .sound import HOP, LogMel
from .training import mixed_precision

FRAMES = 48  # of a crop; 0.77 s
LOOK_EVERY_S = 20.0
PREDICTED_TOGETHER = 48  # clips


def as_cumulated(shares: np.ndarray) -> np.ndarray:
    return np.cumsum(shares / shares.sum())


class Crops:
    """Recordings and their own mels; the speakers in `favoured` are heard `weight` times as often as their share."""

    def __init__(self, clips: Clips, seed: int, favoured: tuple[str, ...] = (), weight: float = 3.0,
                 device: torch.device = torch.device("cpu")):  # fmt: skip
        self._seed, self._log_mel, self._device = seed, LogMel().to(device), device
        self._sound = clips.everything().to(device)
        self._used = [clip for clip in clips.all if not held_out(clip) and clip.samples > FRAMES * HOP]
        self._shares = as_cumulated(np.array([clip.seconds * (weight if clip.speaker in favoured else 1.0) for clip in self._used]))

    def batch(self, step: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Mels `[rows, mels, FRAMES + 1]` and sound `[rows, FRAMES * HOP]`."""
        rng = np.random.default_rng((self._seed, step))
        chosen = [self._used[number] for number in np.searchsorted(self._shares, rng.random(rows) * self._shares[-1])]
        starts = [clip.first + int(rng.integers(clip.samples - FRAMES * HOP + 1)) for clip in chosen]
        gains = 10 ** (rng.uniform(-6, 2, rows) / 20)  # some clips are louder within than others
        gains = torch.from_numpy(gains.astype(np.float32)).to(self._device)
        heard = (stretches(self._sound, starts, FRAMES * HOP) / 32768 * gains[:, None]).clamp(-1, 1)
        return self._log_mel(heard), heard


class PredictedCrops:
    """Recordings and the mels that the acoustic model of a run predicts for them, at the recording's own times, pitch and energy.

    The model is read again where its run has gone on.
    """

    def __init__(self, clips: Clips, utterances: Utterances, folder: Path, seed: int, device: torch.device = torch.device("cpu")):
        self._seed, self._device, self._folder, self._utterances = seed, device, folder, utterances
        self._sound = clips.everything().to(device)
        used = [u for u in utterances.all if not held_out(clips.all[u.clip]) and u.frames >= FRAMES + 2]
        self._used = sorted(used, key=lambda one: one.frames)
        self._clips: list[Clip] = [clips.all[one.clip] for one in self._used]
        self._first = np.cumsum([0, *(one.frames for one in self._used)])
        self._shares = as_cumulated(np.array([one.frames for one in self._used], dtype=float))
        self._mels: torch.Tensor | None = None
        self._looked, self._read = -LOOK_EVERY_S, 0.0

    def ready(self) -> bool:
        """True once there is a model, whose newest weights have then predicted the mels."""
        if time.monotonic() - self._looked >= LOOK_EVERY_S:
            self._looked, written = time.monotonic(), self._written()
            if written > self._read:
                self._predict()
                self._read = written
        return self._mels is not None

    def _written(self) -> float:
        """When the weights were; 0 before."""
        files = [self._folder / name for name in ("model.safetensors", "model.gguf", "checkpoint.pt")]
        return max((path.stat().st_mtime for path in files if path.exists()), default=0.0)

    @torch.no_grad()
    def _predict(self) -> None:
        from .train_acoustic import collate

        model, voices = acoustic.load(self._folder).to(self._device), sorted(self._utterances.voices)
        mels = []
        together = PREDICTED_TOGETHER if self._device.type == "cuda" else 1
        for at in range(0, len(self._used), together):
            some = self._used[at : at + together]
            batch = collate(self._utterances, voices, some).to(self._device)
            with mixed_precision(self._device):
                predicted = acoustic.teacher_forced(model, batch)
            mels += [mel[: one.frames].half() for mel, one in zip(predicted.mel, some, strict=True)]
        self._mels = torch.cat(mels)
        print(f"mels of {len(self._used)} clips are predicted", flush=True)

    def batch(self, step: int, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """As `Crops.batch`; `ready` comes first."""
        rng = np.random.default_rng((self._seed, step, 1))
        numbers = np.searchsorted(self._shares, rng.random(rows) * self._shares[-1])
        starts = [int(rng.integers(self._used[number].frames - FRAMES - 1)) for number in numbers]
        mels = stretches(self._mels, [int(self._first[n]) + start for n, start in zip(numbers, starts, strict=True)], FRAMES + 1)
        places = [self._clips[n].first + start * HOP for n, start in zip(numbers, starts, strict=True)]
        return mels.mT, stretches(self._sound, places, FRAMES * HOP) / 32768


def stretches(everything: torch.Tensor, starts: list[int], length: int) -> torch.Tensor:
    """`[rows, length, ...]`, f32, of `[places, ...]`."""
    at = torch.tensor(starts).to(everything.device)
    return everything[at[:, None] + torch.arange(length, device=everything.device)].float()
