"""Convolutions over channels-last tensors, written as shifted multiply-adds.

With few channels and small kernels a CPU's library convolutions spend most of a training step in their backward pass.
`compile_kernels` fuses each of these into one loop, a third of the time again, where a C++ compiler is at hand.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F


def _causal(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    taps, frames = weight.shape[-1], x.shape[1]
    weight = weight.to(x.dtype)
    x = F.pad(x, (0, 0, taps - 1, 0))
    y = bias.to(x.dtype)
    for tap in range(taps):
        y = y + x[:, tap : tap + frames] * weight[:, 0, tap]
    return y


def _halving(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    frames, bands = x.shape[1] // 2 + 1, x.shape[2] // 2 + 1
    weight = weight.to(x.dtype)
    x = F.pad(x, (0, 0, 2, 1, 2, 1))
    y = bias.to(x.dtype)
    for i in range(3):
        for j in range(3):
            y = y + x[:, i : i + 2 * frames - 1 : 2, j : j + 2 * bands - 1 : 2] * weight[:, 0, i, j]
    return y


_kernels = {"causal": _causal, "halving": _halving}


def compile_kernels() -> None:
    """From here on, both kernels are compiled at their first use."""
    _kernels["causal"] = torch.compile(_causal, dynamic=True)
    _kernels["halving"] = torch.compile(_halving, dynamic=True)


def depthwise_causal(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """`[batch, frames, channels]` under a kernel `[channels, 1, taps]` that sees only the past."""
    return _kernels["causal"](x, weight, bias)


def depthwise_halving(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """`[batch, frames, bands, channels]` under a kernel `[channels, 1, 3, 3]` of stride 2, causally padded."""
    return _kernels["halving"](x, weight, bias)


def stem(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """`[batch, frames, bands]` (already padded) under a kernel `[channels, 1, 3, 3]` of stride 2."""
    patches = x.unfold(1, 3, 2).unfold(2, 3, 2).flatten(3)
    return F.linear(patches, weight.flatten(1), bias)
