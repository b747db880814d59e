"""What the detector is worth on readers, sounds and music that were never trained on.

    python -m recipes.vad evaluate --store STORE --model starter/vad

Truth is the level of the clean speech before anything is added to it (`labels.py`); segments are made as the engine makes
them: on at 0.5, off at 0.35, speech from 250 ms, silence from 100 ms, 30 ms around.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from scipy.stats import rankdata

from .labels import SPEECH
from .model import CHUNK, Detector, load
from .scenes import GRID, RATE, SAMPLES, Scenes, chunk_targets, decibels, level
from .sounds import Sounds

ROWS = 100
ON, OFF = 0.5, 0.35
LEAST_SPEECH, LEAST_SILENCE, PADDING = 4000, 1600, 480  # samples


def segments(chances: np.ndarray, samples: int) -> list[tuple[int, int]]:
    """Speech as (first sample, end), from the chances of each chunk."""
    found, start, quiet = [], None, None
    for number, chance in enumerate(chances):
        at = number * CHUNK
        if chance >= ON:
            quiet = None
            if start is None:
                start = at
        elif chance < OFF and start is not None:
            quiet = at if quiet is None else quiet
            if at - quiet >= LEAST_SILENCE:
                if quiet - start > LEAST_SPEECH:
                    found.append((start, quiet))
                start = quiet = None
    if start is not None and samples - start > LEAST_SPEECH:
        found.append((start, samples))
    return [(max(0, start - PADDING), min(samples, end + PADDING)) for start, end in found]


def auc(scores: np.ndarray, truth: np.ndarray) -> float:
    """Area under the receiver operating characteristic."""
    ranks, ones = rankdata(scores), int(truth.sum())
    return float((ranks[truth].sum() - ones * (ones + 1) / 2) / (ones * (len(truth) - ones)))


def onsets(canvas: np.ndarray) -> list[int]:
    """Samples at which 250 ms of speech begin after 300 ms without."""
    speech = (canvas == SPEECH).astype(np.int8)
    starts = np.flatnonzero(np.diff(speech) == 1) + 1
    before, after = int(0.3 * RATE) // GRID, int(0.25 * RATE) // GRID
    return [
        int(at) * GRID
        for at in starts
        if at >= before and at + after <= len(speech) and not speech[at - before : at].any() and speech[at : at + after].all()
    ]


def chances(model: Detector, sound: np.ndarray) -> np.ndarray:
    """`[rows, samples]` to `[rows, chunks]`."""
    with torch.no_grad():
        parts = torch.from_numpy(sound.astype(np.float32)).split(25)
        return torch.cat([torch.sigmoid(model(part)) for part in parts]).numpy()


class HeldOut(Scenes):
    """Scenes of what training never hears, mixed to order."""

    def __init__(self, sounds: Sounds, seed: int):
        super().__init__(sounds, seed, held_out=True)

    def spoken(self, noise: str, ratio_db: float, level_db: float) -> tuple[np.ndarray, np.ndarray]:
        """`[rows, samples]` of speech at `level_db` of full scale, and its labels on the grid."""
        rng = np.random.default_rng(self._seed)
        sounds, canvases = [], []
        for _ in range(ROWS):
            canvas = np.zeros(SAMPLES // GRID, dtype=np.uint8)
            speech = self._speech_canvas(rng, canvas)
            other = rng.standard_normal(SAMPLES) if noise == "hiss" else self._backdrop(rng, (noise,))
            mixed = speech + other / level(other) * decibels(-ratio_db)
            sounds.append(_rounded(mixed * decibels(level_db)))
            canvases.append(canvas)
        return np.stack(sounds), np.stack(canvases)

    def empty(self, noise: str) -> np.ndarray:
        """`[rows, samples]` without speech, from faint to loud."""
        rng = np.random.default_rng(self._seed)
        sounds = []
        for _ in range(ROWS):
            if noise == "silence":
                other = rng.choice([0, 1, 3]) / 32768 * rng.standard_normal(SAMPLES)
            else:
                other = self._backdrop(rng, (noise,))
                other = other / level(other) * decibels(rng.uniform(-55, -10))
            sounds.append(_rounded(other))
        return np.stack(sounds)


def _rounded(sound: np.ndarray) -> np.ndarray:
    return np.round(np.clip(sound, -1, 1) * 32767) / 32767


def score_speech(model: Detector, scenes: HeldOut, noise: str, ratio_db: float, level_db: float) -> str:
    sound, canvas = scenes.spoken(noise, ratio_db, level_db)
    target, weight = chunk_targets(canvas)
    scored, truth = chances(model, sound), target.astype(bool)
    sure = weight == 1
    errors, missed, heard, said = [], 0, 0, 0
    for row, labels in zip(scored, canvas, strict=True):
        found = segments(row, SAMPLES)
        for onset in onsets(labels):
            near = min((abs(start - onset) for start, _ in found), default=SAMPLES)
            if near <= RATE // 2:
                errors.append(near / RATE * 1000)
            else:
                missed += 1
        inside = np.zeros(SAMPLES // GRID, dtype=bool)
        for start, end in found:
            inside[start // GRID : end // GRID] = True
        said += int((labels == SPEECH).sum())
        heard += int((inside & (labels == SPEECH)).sum())
    median, late = np.percentile(errors, [50, 90]) if errors else (np.nan, np.nan)
    return (
        f"| {noise} | {ratio_db:.0f} | {level_db:.0f} | {auc(scored.ravel(), truth.ravel()):.3f} "
        f"| {auc(scored[sure], truth[sure]):.3f} | {100 * heard / said:.1f} | {median:.0f} | {late:.0f} "
        f"| {100 * missed / max(1, missed + len(errors)):.0f} |"
    )


def evaluate(store: Path, path: Path) -> None:
    model = load(path)
    scenes = HeldOut(Sounds(store), seed=5)
    minutes = ROWS * SAMPLES / RATE / 60
    print(f"{ROWS} scenes a line, {minutes:.0f} minutes; held-out readers and sounds; levels in dB of full scale\n")
    print("| Beside the speech | SNR dB | Level | AUC | AUC, sure frames | Speech inside segments % | Onset error, median ms "
          "| 90th percentile | Onsets without a start within 500 ms % |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for noise, ratio, loudness in [
        ("hiss", 50, -25), ("noise", 20, -25), ("noise", 10, -25), ("noise", 5, -25), ("noise", 0, -25),
        ("music", 10, -25), ("coloured", 5, -25), ("hiss", 25, -40), ("hiss", 25, -50), ("hiss", 25, -60),
    ]:  # fmt: skip
        print(score_speech(model, scenes, noise, ratio, loudness), flush=True)
    print("\n| Without speech, -55 to -10 dB | Segments, s an hour | an hour |")
    print("|---|---|---|")
    for noise in ("silence", "noise", "music", "tones", "coloured", "clicks"):
        found = [segment for row in chances(model, scenes.empty(noise)) for segment in segments(row, SAMPLES)]
        seconds = sum(end - start for start, end in found) / RATE
        print(f"| {noise} | {seconds * 60 / minutes:.0f} | {len(found) * 60 / minutes:.0f} |", flush=True)
