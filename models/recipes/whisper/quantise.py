"""Weights of few bits in the blocks of GGUF: what they are after rounding, and their bytes.

`Q4_K`: blocks of 256, in runs of 32 with a 6-bit scale and a 6-bit minimum. `Q8_0`: runs of 32 with a scale. Both lie along a row.
"""

from __future__ import annotations

import numpy as np
import torch

RUN, BLOCK = 32, 256
NAMES = {"F32": 0, "F16": 1, "Q8_0": 8, "Q4_K": 12}
# Ranges that are tried for a run, as parts of the range of its values: outliers may be worth less than a finer step.
TRIED = (1.0, 0.95, 0.9, 0.85, 0.8)


def kind_of(name: str, value: torch.Tensor) -> str:
    """The stored form of a tensor."""
    if value.ndim < 2:
        return "F32"
    if value.ndim > 2:
        # A convolution is stored as a matrix of its outputs.
        return "F16" if value[0].numel() % RUN else "Q8_0"
    if value.shape[1] % BLOCK:
        return "F16"
    # Positions are added to every frame as they are.
    return "Q8_0" if "embed_positions" in name else "Q4_K"


def steps(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The step and the minimum (at most 0) of each run as a file stores them, `[runs, 1]`; rounding error is least over `TRIED`."""
    runs = weight.reshape(-1, RUN)
    low, high = runs.amin(1, keepdim=True).clamp(max=0), runs.amax(1, keepdim=True).clamp(min=0)
    best = None
    for part in TRIED:
        step = ((high - low) * part / 15).clamp(min=1e-8)
        least = low * part
        error = (runs - _round(runs, step, least)).square().sum(1, keepdim=True)
        if best is None:
            best = [error, step, least]
        else:
            better = error < best[0]
            best = [torch.where(better, new, old) for new, old in zip((error, step, least), best, strict=True)]
    return _stored(best[1]), -_stored(-best[2])


def _stored(values: torch.Tensor) -> torch.Tensor:
    """Scales of runs as multiples (0 to 63) of one in 16 bits for each block."""
    of_block, whole = _sixths(values)
    return (of_block * whole).reshape(-1, 1)


def _sixths(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One scale a block, `[blocks, 1]`, and whole multiples of it, `[blocks, 8]`."""
    blocks = values.reshape(-1, BLOCK // RUN)
    of_block = (blocks.amax(1, keepdim=True) / 63).half().float()
    return of_block, (blocks / of_block.clamp(min=1e-12)).round().clamp(0, 63)


def _round(runs: torch.Tensor, step: torch.Tensor, least: torch.Tensor) -> torch.Tensor:
    return ((runs - least) / step.clamp(min=1e-12)).round().clamp(0, 15) * step + least


def rounded(weight: torch.Tensor, found: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """The weight as 4 bits hold it, by the steps and minimums of its runs."""
    return _round(weight.reshape(-1, RUN), *found).reshape(weight.shape)


def calibrated(weight: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """The weight `[outputs, inputs]` rounded to 4 bits so that the outputs change least: what a column's rounding gets wrong is taken off
    the columns that follow, by how much they are alike (GPTQ). `moments` `[inputs, inputs]` are the second moments of the inputs."""
    step, least = (part.reshape(len(weight), -1) for part in steps(weight))
    damped = moments.double() + 0.01 * moments.diagonal().mean() * torch.eye(len(moments))
    upper = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(damped)), upper=True).float()
    rest, out = weight.clone(), torch.empty_like(weight)
    for first in range(0, weight.shape[1], RUN):
        run = slice(first, first + RUN)
        wrong = torch.empty(len(weight), RUN)
        for column in range(first, first + RUN):
            value = rest[:, column]
            out[:, column] = _round(value, step[:, first // RUN], least[:, first // RUN])
            wrong[:, column - first] = (value - out[:, column]) / upper[column, column]
            within = slice(column, first + RUN)
            rest[:, within] -= torch.outer(wrong[:, column - first], upper[column, within])
        rest[:, run.stop :] -= wrong @ upper[run, run.stop :]
    return out


def _eighths(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales of the runs, and whole multiples of them; a scale in 16 bits may be too small for the largest value."""
    runs = weight.reshape(-1, RUN)
    scale = (runs.abs().amax(1, keepdim=True) / 127).half().float()
    return scale, (runs / scale.clamp(min=1e-12)).round().clamp(-127, 127)


def as_stored(name: str, weight: torch.Tensor) -> torch.Tensor:
    """The weight as a file holds it."""
    match kind_of(name, weight):
        case "Q4_K":
            return rounded(weight, steps(weight))
        case "Q8_0":
            scale, codes = _eighths(weight)
            return (codes * scale).reshape(weight.shape)
        case "F16":
            return weight.half().float()
    return weight


def pack(kind: str, weight: torch.Tensor) -> bytes:
    """The bytes of a tensor in a form."""
    match kind:
        case "F32":
            return weight.float().numpy().tobytes()
        case "F16":
            return weight.half().numpy().tobytes()
        case "Q8_0":
            return _pack_8(weight.float())
        case "Q4_K":
            return _pack_4(weight.float())
    raise ValueError(kind)


def _pack_8(weight: torch.Tensor) -> bytes:
    scale, codes = _eighths(weight)
    return np.concatenate([scale.half().numpy().view(np.uint8), codes.to(torch.int8).numpy().view(np.uint8)], 1).tobytes()


def _pack_4(weight: torch.Tensor) -> bytes:
    step, least = steps(weight)
    codes = ((weight.reshape(-1, RUN) - least) / step.clamp(min=1e-12)).round().clamp(0, 15).to(torch.uint8).numpy()
    (scale, scales), (minimum, minimums) = _sixths(step), _sixths(-least)
    scales, minimums = scales.to(torch.uint8).numpy(), minimums.to(torch.uint8).numpy()
    # The first four runs have their 6 bits in a byte; the upper bits of these bytes hold those of the last four.
    packed = np.concatenate(
        [
            scales[:, :4] | (scales[:, 4:] >> 4) << 6,
            minimums[:, :4] | (minimums[:, 4:] >> 4) << 6,
            (scales[:, 4:] & 15) | (minimums[:, 4:] & 15) << 4,
        ],
        1,
    )
    # Two runs share 32 bytes: the first has the lower halves.
    pairs = codes.reshape(-1, BLOCK // RUN // 2, 2, RUN)
    halves = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(len(packed), -1)
    head = [scale.half().numpy().view(np.uint8), minimum.half().numpy().view(np.uint8)]
    return np.concatenate([*head, packed, halves], 1).tobytes()
