"""Weights of few bits in the blocks of GGUF: what they are after rounding, and their bytes.

`Q4_K` and `Q5_K`: blocks of 256, in runs of 32 with a 6-bit scale and a 6-bit minimum. `Q8_0`: runs of 32 with a scale. All lie along
a row.
"""

from __future__ import annotations

import numpy as np
import torch

RUN, BLOCK = 32, 256
# The largest code of a weight, by form.
LARGEST = {"Q4_K": 15, "Q5_K": 31}
# Ranges that a search of a run's step begins with, as parts of the range of its values, and how often each is fitted.
TRIED, FITS = (1.05, 1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7), 2
# Runs that are searched at a time.
TOGETHER = 1 << 16

# The step and the minimum (at most 0) of each run of a matrix, `[runs, 1]`.
Grid = tuple[torch.Tensor, torch.Tensor]


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
    if "embed_positions" in name:
        return "Q8_0"
    # For their size these cost most in 4 bits, above all in the attention that word times come from.
    return "Q5_K" if "encoder." in name and name.endswith(("self_attn.v_proj.weight", "self_attn.out_proj.weight")) else "Q4_K"


def of_few_bits(weights: dict[str, torch.Tensor]) -> dict[str, int]:
    """The largest codes of the matrices that have a grid."""
    kinds = {name: kind_of(name, value) for name, value in weights.items()}
    return {name: LARGEST[kind] for name, kind in kinds.items() if kind in LARGEST}


def grid(weight: torch.Tensor, importance: torch.Tensor, largest: int) -> Grid:
    """The grid, as a file stores it, whose rounding error is least where each column `[inputs]` counts by its importance."""
    runs = weight.reshape(-1, RUN).split(TOGETHER)
    important = importance.reshape(-1, RUN).repeat(len(weight), 1).split(TOGETHER)
    found = [_searched(*part, largest) for part in zip(runs, important, strict=True)]
    step, least = (torch.cat(part) for part in zip(*found, strict=True))
    return _stored(step), -_stored(-least)


def _searched(runs: torch.Tensor, important: torch.Tensor, largest: int) -> Grid:
    def total(values: torch.Tensor) -> torch.Tensor:
        return (important * values).sum(1, keepdim=True)

    low, high = runs.amin(1, keepdim=True).clamp(max=0), runs.amax(1, keepdim=True).clamp(min=0)
    weight, mean = important.sum(1, keepdim=True), total(runs)
    best = None
    for part in TRIED:
        step, least = ((high - low) * part / largest).clamp(min=1e-8), low * part
        for _ in range(FITS):
            # Least squares for the codes of this grid; a file has no minimum above 0.
            codes = _codes(runs, step, least, largest)
            first, second, product = total(codes), total(codes * codes), total(codes * runs)
            spread = weight * second - first * first
            fitted_least = (second * mean - first * product) / spread.clamp(min=1e-20)
            fitted = torch.where(fitted_least > 0, product / second.clamp(min=1e-20), (weight * product - first * mean) / spread.clamp(min=1e-20))
            sound = (spread > 1e-20) & (fitted > 0)
            step, least = torch.where(sound, fitted, step), torch.where(sound, fitted_least.clamp(max=0), least)
            error = total((runs - _codes(runs, step, least, largest) * step - least).square())
            if best is None:
                best = (error, step, least)
            else:
                better = error < best[0]
                best = tuple(torch.where(better, new, old) for new, old in zip((error, step, least), best, strict=True))
    return best[1:]


def _stored(values: torch.Tensor) -> torch.Tensor:
    """Scales of runs as multiples (0 to 63) of one in 16 bits for each block."""
    of_block, whole = _sixths(values)
    return (of_block * whole).reshape(-1, 1)


def _sixths(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One scale a block, `[blocks, 1]`, and whole multiples of it, `[blocks, 8]`."""
    blocks = values.reshape(-1, BLOCK // RUN)
    of_block = (blocks.amax(1, keepdim=True) / 63).half().float()
    return of_block, (blocks / of_block.clamp(min=1e-12)).round().clamp(0, 63)


def _codes(runs: torch.Tensor, step: torch.Tensor, least: torch.Tensor, largest: int) -> torch.Tensor:
    return ((runs - least) / step.clamp(min=1e-12)).round().clamp(0, largest)


def rounded(weight: torch.Tensor, found: Grid, largest: int) -> torch.Tensor:
    """The weight on its grid."""
    step, least = found
    return (_codes(weight.reshape(-1, RUN), step, least, largest) * step + least).reshape(weight.shape)


def calibrated(weight: torch.Tensor, moments: torch.Tensor, found: Grid, largest: int) -> torch.Tensor:
    """The weight `[outputs, inputs]` on its grid so that the outputs change least: what a column's rounding gets wrong is taken off the
    columns that follow, by how much they are alike (GPTQ), the strongest column first. `moments` `[inputs, inputs]` are the second
    moments of the inputs."""
    order = moments.diagonal().argsort(descending=True)
    step, least = (part.reshape(len(weight), -1).repeat_interleave(RUN, 1)[:, order] for part in found)
    damped = moments[order][:, order].double() + 0.01 * moments.diagonal().mean() * torch.eye(len(moments))
    upper = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(damped)), upper=True).float()
    rest, out = weight[:, order], torch.empty_like(weight)
    for first in range(0, weight.shape[1], RUN):
        part = slice(first, first + RUN)
        wrong = torch.empty(len(weight), RUN)
        for column in range(first, first + RUN):
            value = rest[:, column]
            nearest = _codes(value, step[:, column], least[:, column], largest) * step[:, column] + least[:, column]
            wrong[:, column - first] = (value - nearest) / upper[column, column]
            within = slice(column, first + RUN)
            rest[:, within] -= torch.outer(wrong[:, column - first], upper[column, within])
            out[:, order[column]] = nearest
        rest[:, part.stop :] -= wrong @ upper[part, part.stop :]
    return out


def _eighths(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales of the runs, and whole multiples of them; a scale in 16 bits may be too small for the largest value."""
    runs = weight.reshape(-1, RUN)
    scale = (runs.abs().amax(1, keepdim=True) / 127).half().float()
    return scale, (runs / scale.clamp(min=1e-12)).round().clamp(-127, 127)


def as_stored(name: str, weight: torch.Tensor, found: Grid | None) -> torch.Tensor:
    """The weight as a file holds it."""
    match kind_of(name, weight):
        case "Q4_K" | "Q5_K" as kind:
            return rounded(weight, found, LARGEST[kind])
        case "Q8_0":
            scale, codes = _eighths(weight)
            return (codes * scale).reshape(weight.shape)
        case "F16":
            return weight.half().float()
    return weight


def pack(kind: str, weight: torch.Tensor, found: Grid | None) -> bytes:
    """The bytes of a tensor in a form."""
    match kind:
        case "F32":
            return weight.float().numpy().tobytes()
        case "F16":
            return weight.half().numpy().tobytes()
        case "Q8_0":
            scale, codes = _eighths(weight.float())
            return np.concatenate([scale.half().numpy().view(np.uint8), codes.to(torch.int8).numpy().view(np.uint8)], 1).tobytes()
        case "Q4_K" | "Q5_K":
            return _pack_runs(weight.float(), found, LARGEST[kind])
    raise ValueError(kind)


def _pack_runs(weight: torch.Tensor, found: Grid, largest: int) -> bytes:
    step, least = found
    codes = _codes(weight.reshape(-1, RUN), step, least, largest).to(torch.uint8).numpy().reshape(-1, BLOCK // RUN, RUN)
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
    head = [scale.half().numpy().view(np.uint8), minimum.half().numpy().view(np.uint8)]
    # The fifth bit of a run's codes has a place in 32 bytes that all runs share.
    fifth = [] if largest < 16 else [np.bitwise_or.reduce((codes >> 4) << np.arange(BLOCK // RUN, dtype=np.uint8)[:, None], 1)]
    # Two runs share 32 bytes: the first has the lower halves.
    pairs = codes.reshape(-1, BLOCK // RUN // 2, 2, RUN) & 15
    halves = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(len(packed), -1)
    return np.concatenate([*head, packed, *fifth, halves], 1).tobytes()
