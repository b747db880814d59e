"""What the teacher's embeddings ask of the student: a direction for every training utterance.

The teacher's numbers are turned by linear discriminant analysis over the training voices: their spread within a voice becomes a
unit sphere, and the directions that tell voices apart best are kept. Cosines of what is left separate voices better than the teacher's own.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

SHRINK = 0.6  # of the spread within a voice, towards a sphere
VOICE_SHARE = 0.5  # of a voice's mean in the target of its utterances


class Discriminant:
    """`rows` `[utterances, n]` and their `voices`."""

    def __init__(self, rows: np.ndarray, voices: np.ndarray, kept: int):
        self.mean = rows.mean(0)
        centred = rows - self.mean
        names, inverse, counts = np.unique(voices, return_inverse=True, return_counts=True)
        means = np.zeros((len(names), rows.shape[1]))
        np.add.at(means, inverse, centred)
        means /= counts[:, None]
        inside = centred - means[inverse]
        within = inside.T @ inside / max(1, len(rows) - len(names))
        within = (1 - SHRINK) * within + SHRINK * np.trace(within) / len(within) * np.eye(len(within))
        values, vectors = np.linalg.eigh(within)
        whiten = vectors / np.sqrt(values)
        spread = means @ whiten
        values, vectors = np.linalg.eigh(spread.T @ spread / len(names))
        self.matrix = whiten @ vectors[:, ::-1][:, :kept]

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """`[utterances, kept]`, of unit length."""
        turned = (rows - self.mean) @ self.matrix
        return turned / np.linalg.norm(turned, axis=1, keepdims=True)


def directions(rows: np.ndarray, voices: np.ndarray, kept: int) -> np.ndarray:
    """The targets of training utterances, `[utterances, kept]`, f32, of unit length."""
    turned = Discriminant(rows, voices, kept)(rows)
    means = np.stack([turned[voices == voice].mean(0) for voice in range(voices.max() + 1)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    mixed = (1 - VOICE_SHARE) * turned + VOICE_SHARE * means[voices]
    return (mixed / np.linalg.norm(mixed, axis=1, keepdims=True)).astype(np.float32)


def distance(embeddings: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """One less the mean cosine."""
    return 1 - F.cosine_similarity(embeddings.float(), targets, dim=1).mean()
