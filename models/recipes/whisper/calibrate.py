"""Rounds a checkpoint's matrices to few bits by what goes through them: the start of learning with few bits."""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import network, quantise
from .features import LogMel
from .windows import Windows

Moments = dict[str, torch.Tensor]


@torch.no_grad()
def calibrate(
    weights: network.Weights, shape: network.Shape, log_mel: LogMel, windows: Windows, batches: int
) -> tuple[network.Weights, dict[str, quantise.Grid]]:
    """The weights as a file holds them, and the grids of those of few bits, calibrated on so many batches: layer by layer, each with
    what comes out of the rounded ones before it."""
    largest = quantise.of_few_bits(weights)
    weights = {name: value if name in largest else quantise.as_stored(name, value, None) for name, value in weights.items()}
    grids: dict[str, quantise.Grid] = {}
    drawn = [windows.batch(number) for number in range(batches)]
    features = [log_mel(batch.sound)[:, :, : 2 * batch.frames] for batch in drawn]

    def encoded() -> list[torch.Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            return [network.encode(weights, shape, seen) for seen in features]

    def decoded() -> list[torch.Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            return [network.decode(weights, shape, batch.tokens, seen)[0] for batch, seen in zip(drawn, frames, strict=True)]

    def settle(moments: Moments) -> None:
        for name in moments.keys() & largest.keys():
            found = moments[name]
            grids[name] = quantise.grid(weights[name], found.diagonal(), largest[name])
            weights[name] = quantise.calibrated(weights[name], found, grids[name], largest[name])

    for layer in range(shape.encoder_layers):
        settle(_watched(f"model.encoder.layers.{layer}.", encoded))
    frames = encoded()
    for layer in range(shape.decoder_layers):
        settle(_watched(f"model.decoder.layers.{layer}.", decoded))
    last = torch.cat([hidden[batch.weight > 0] for hidden, batch in zip(decoded(), drawn, strict=True)]).float()
    settle({network.EMBEDDINGS: last.T @ last})
    return weights, grids


def _watched(prefix: str, run: Callable[[], list[torch.Tensor]]) -> Moments:
    """The second moments of what goes into the matrices whose names begin so."""
    moments: Moments = {}

    def watch(name: str, x: torch.Tensor) -> None:
        if name.startswith(prefix):
            rows = x.flatten(0, -2).float()
            with torch.autocast("cpu", enabled=False):
                found = rows.T @ rows
            moments[name] = moments[name] + found if name in moments else found

    network.watcher = watch
    try:
        run()
    finally:
        network.watcher = None
    return moments
