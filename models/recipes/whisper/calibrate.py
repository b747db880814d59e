"""Rounds a checkpoint's matrices to 4 bits by what goes through them: the start of learning with few bits."""

from __future__ import annotations

import torch

from . import network, quantise
from .features import LogMel
from .windows import Windows


@torch.no_grad()
def calibrate(weights: network.Weights, shape: network.Shape, log_mel: LogMel, windows: Windows, batches: int) -> network.Weights:
    """The weights with every matrix of few bits rounded, calibrated on so many batches."""
    moments: dict[str, torch.Tensor] = {}

    def watch(name: str, x: torch.Tensor) -> None:
        rows = x.detach().flatten(0, -2).float()
        with torch.autocast("cpu", enabled=False):
            found = rows.T @ rows
        moments[name] = moments[name] + found if name in moments else found

    network.watcher = watch
    try:
        for number in range(batches):
            batch = windows.batch(number)
            features = log_mel(batch.sound)[:, :, : 2 * batch.frames]
            with torch.autocast("cpu", torch.bfloat16):
                hidden, _ = network.decode(weights, shape, batch.tokens, network.encode(weights, shape, features))
            watch(network.EMBEDDINGS, hidden[batch.weight > 0])
    finally:
        network.watcher = None
    four = {name for name, value in weights.items() if quantise.kind_of(name, value) == "Q4_K"}
    return {name: quantise.calibrated(value, moments[name]) if name in four else value for name, value in weights.items()}
