"""What a run needs to go on: parameters, optimisers, how far it is.

Batches are drawn from the seed and the step's number, so no generator's state is part of it.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from safetensors.torch import load_file

from . import few_bits
from .model import Recogniser


def save_checkpoint(trainer, path: Path) -> None:
    """Written beside and moved into place, so that a crash leaves the one before."""
    partial = path.with_suffix(".partial")
    torch.save(
        {
            "model": trainer.model.state_dict(),
            "optimisers": [o.state_dict() for o in trainer.optimisers],
            "step": trainer.step,
            "hours": trainer.hours,
            "transducer_ready": trainer.transducer_ready,
        },
        partial,
    )
    os.replace(partial, path)


def load_checkpoint(trainer, path: Path, start: Path | None) -> None:
    """The run's own checkpoint; else an exported folder with its `training/heads.safetensors`; else nothing."""
    if path.exists():
        kept = torch.load(path, map_location=trainer.device, weights_only=True)
        trainer.model.load_state_dict(kept["model"])
        for optimiser, state in zip(trainer.optimisers, kept["optimisers"], strict=True):
            optimiser.load_state_dict(state)
        trainer.step, trainer.hours = kept["step"], kept["hours"]
        trainer.transducer_ready = kept["transducer_ready"]
    elif start is not None:
        start_from(trainer.model, start)
        trainer.transducer_ready = True


def start_from(model: Recogniser, folder: Path) -> None:
    """An exported folder with its `training/heads.safetensors`, into a model of its shape."""
    heads = load_file(folder / "training" / "heads.safetensors")
    model.mel_mean.copy_(heads.pop("mel_mean"))
    model.mel_std.copy_(heads.pop("mel_std"))
    model.load_state_dict({k: v.float() for k, v in heads.items()}, strict=False)
    model.load_published_state(few_bits.load(folder))
