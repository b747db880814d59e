"""What the teacher's embeddings ask of the student: a direction for every training utterance.

The teacher's numbers, less their mean over the training voices, are turned to the axes along which the voices differ most. Axes keep
most of their size: made equal, those of little spread, which are mostly noise, outweigh what can be learned.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

EVENED = 0.25  # the power of an axis's variance that is divided out: 0 leaves the sizes, 1 makes them equal
LEAST_VARIANCE = 1e-4  # of an axis, as a share of the largest
VOICE_SHARE = 0.5  # of a voice's mean in the target of its utterances


class Axes:
    """Principal axes of the voices' means of `rows` `[utterances, n]`; `voices` are their numbers from 0 without gaps."""

    def __init__(self, rows: np.ndarray, voices: np.ndarray, kept: int):
        self.mean = rows.mean(0)
        counts = np.bincount(voices)
        means = np.zeros((len(counts), rows.shape[1]))
        np.add.at(means, voices, rows - self.mean)
        means /= counts[:, None]
        values, vectors = np.linalg.eigh(means.T @ means / len(means))
        values, vectors = values[::-1][:kept], vectors[:, ::-1][:, :kept]
        self.matrix = vectors / np.maximum(values, LEAST_VARIANCE * values[0]) ** (EVENED / 2)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """`[utterances, kept]`, of unit length."""
        turned = (rows - self.mean) @ self.matrix
        return turned / np.linalg.norm(turned, axis=1, keepdims=True)

    def save(self, path: Path) -> None:
        np.savez(path, mean=self.mean, matrix=self.matrix)

    @classmethod
    def load(cls, path: Path) -> Axes:
        """Those of an earlier run: its embeddings lie along them, and other utterances would give others."""
        axes = cls.__new__(cls)
        with np.load(path) as stored:
            axes.mean, axes.matrix = stored["mean"], stored["matrix"]
        return axes


def directions(rows: np.ndarray, voices: np.ndarray, axes: Axes) -> np.ndarray:
    """The targets of training utterances, `[utterances, kept]`, f32, of unit length."""
    turned = axes(rows)
    means = np.stack([turned[voices == voice].mean(0) for voice in range(voices.max() + 1)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    mixed = (1 - VOICE_SHARE) * turned + VOICE_SHARE * means[voices]
    return (mixed / np.linalg.norm(mixed, axis=1, keepdims=True)).astype(np.float32)


def distance(embeddings: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """One less the mean cosine."""
    return 1 - F.cosine_similarity(embeddings.float(), targets, dim=1).mean()
