"""How well a model tells held-out readers apart: equal error rates over all pairs of utterances."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ..features import FRAMES_PER_SECOND, MelStore, log_mel
from ..prepare import SOUND, decode
from .readers import held_out_readers, reader

SHORT_S = 2.0
MOST_UTTERANCES = 12  # of a reader
GRID = 40  # frames


def equal_error_rate(same: np.ndarray, different: np.ndarray) -> float:
    """Where as many pairs of one speaker fall below a threshold as pairs of two lie above it, 0 to 1; NaN without either."""
    if not len(same) or not len(different):
        return float("nan")
    scores = np.concatenate([same, different])
    order = np.argsort(scores, kind="stable")
    target = np.concatenate([np.ones(len(same)), np.zeros(len(different))])[order]
    missed = np.concatenate([[0], np.cumsum(target)]) / len(same)
    accepted = 1 - np.concatenate([[0], np.cumsum(1 - target)]) / len(different)
    at = int(np.argmin(np.abs(missed - accepted)))
    return float(missed[at] + accepted[at]) / 2


def pair_error(embeddings: np.ndarray, readers: np.ndarray) -> float:
    """Equal error rate over all pairs; `embeddings` `[utterances, n]` of unit length."""
    first, second = np.triu_indices(len(readers), 1)
    scores = (embeddings @ embeddings.T)[first, second]
    same = readers[first] == readers[second]
    return equal_error_rate(scores[same], scores[~same])


def short_part(mel: np.ndarray, number: int) -> np.ndarray:
    """Two seconds from a place that the utterance's number draws."""
    frames = int(SHORT_S * FRAMES_PER_SECOND)
    if len(mel) <= frames:
        return mel
    start = int(np.random.default_rng(number).integers(0, len(mel) - frames + 1))
    return mel[start : start + frames]


@torch.no_grad()
def embed(model: nn.Module, mels: Iterable[np.ndarray]) -> np.ndarray:
    """`[utterances, n]`, of unit length. Each runs alone: nothing is padded."""
    training = model.training
    model.eval()
    device = next(model.parameters()).device
    rows = [model(torch.from_numpy(np.ascontiguousarray(mel, dtype=np.float32))[None].to(device))[0] for mel in mels]
    model.train(training)
    return torch.nn.functional.normalize(torch.stack(rows)).cpu().numpy()


def held_out_mels(store: MelStore) -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
    """Utterances and their readers: `readers` of LibriSpeech, `accents` of speechocean. A reader's only one is halved."""
    groups: dict[str, tuple[list[np.ndarray], list[str]]] = {"readers": ([], []), "accents": ([], [])}
    for name, own in held_out_readers(store, MOST_UTTERANCES).items():
        mels, names = groups["readers" if name.isdigit() else "accents"]
        parts = [store.mel(utterance) for utterance in own]
        if len(parts) == 1:
            half = len(parts[0]) // 2
            parts = [parts[0][:half], parts[0][half:]]
        mels.extend(parts)
        names.extend([reader(own[0])] * len(parts))
    return {group: (mels, np.array(names)) for group, (mels, names) in groups.items() if mels}


def errors(model: nn.Module, mels: list[np.ndarray], readers: np.ndarray) -> tuple[float, float]:
    """Percent, over whole utterances and over two seconds of each."""
    whole = pair_error(embed(model, mels), readers)
    short = pair_error(embed(model, (short_part(mel, n) for n, mel in enumerate(mels))), readers)
    return 100 * whole, 100 * short


def folder_mels(folder: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """Sound files named `<reader>-...`, as those of LibriSpeech are."""
    files = sorted(path for path in folder.iterdir() if path.suffix in SOUND)
    return [log_mel(decode(path)) for path in files], np.array([path.name.split("-")[0] for path in files])
