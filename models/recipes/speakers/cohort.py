"""Directions of other people, by which the engine says how much alike two voices are: `cohort.safetensors` beside the model.

    python -m recipes.speakers cohort --model starter/voice --corpus DATA/mini-librispeech-en --corpus ...

They are people of the training: those who are held out choose the engine's threshold.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from ..features import FRAMES_PER_SECOND, log_mel
from ..prepare import SOUND, decode
from .export import load
from .readers import ONE_READER, held_out

WINDOW, HOP = 3 * FRAMES_PER_SECOND // 2, FRAMES_PER_SECOND // 2  # as the engine's
RECORDINGS = 3  # of a person
PEOPLE = 200
SEED = 7


def people(corpora: list[Path]) -> dict[str, list[Path]]:
    """Some recordings of each person of the training, in a fixed order."""
    found: dict[str, list[Path]] = defaultdict(list)
    for corpus in corpora:
        for path in sorted(path for path in corpus.iterdir() if path.suffix in SOUND):
            name = ONE_READER.get(corpus.name, path.name.split("-")[0])
            if not held_out(name) and len(found[name]) < RECORDINGS:
                found[name].append(path)
    return {name: own for name, own in sorted(found.items()) if own}


@torch.no_grad()
def direction(model: nn.Module, mel: np.ndarray) -> np.ndarray:
    """The mean direction of a recording's windows, of unit length."""
    last = max(0, len(mel) - WINDOW)
    starts = [*range(0, last, HOP), last]
    windows = np.stack([mel[start : start + WINDOW] for start in starts])
    rows = nn.functional.normalize(model(torch.from_numpy(np.ascontiguousarray(windows, dtype=np.float32))), dim=1)
    return nn.functional.normalize(rows.mean(0), dim=0).numpy()


def cohort(folder: Path, corpora: list[Path]) -> None:
    model = load(folder)
    everybody = people(corpora)
    chosen = np.random.default_rng(SEED).permutation(list(everybody))[:PEOPLE]
    rows = []
    for name in sorted(chosen):
        own = np.mean([direction(model, log_mel(decode(path))) for path in everybody[name]], axis=0)
        rows.append(own / np.linalg.norm(own))
    save_file({"cohort": torch.from_numpy(np.stack(rows)).half()}, folder / "cohort.safetensors")
    (folder / "cohort.safetensors").chmod(0o644)
    print(f"{folder / 'cohort.safetensors'}: {len(rows)} of {len(everybody)} people")
