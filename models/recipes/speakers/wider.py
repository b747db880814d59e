"""More channels for a trained embedding, which computes the same until it is trained on."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from .model import Block, Embedder, Normed


class Copies:
    """Which old channel each new one copies: in turn, within each of `groups` equal parts."""

    def __init__(self, before: int, after: int, groups: int, generator: torch.Generator):
        old, new = before // groups, after // groups
        self._of = torch.cat([group * old + torch.arange(new) % old for group in range(groups)])
        self._before, self._generator = before, generator

    def outputs(self, value: torch.Tensor) -> torch.Tensor:
        """`[before, ...]` to `[after, ...]`."""
        return value[self._of]

    def inputs(self, weight: torch.Tensor) -> torch.Tensor:
        """`[outputs, before, ...]` to `[outputs, after, ...]`: copies share what their channel had, unequally, so that they part."""
        shape = (weight.shape[0], len(self._of))
        share = 0.5 + torch.rand(shape, generator=self._generator)
        whole = torch.zeros(shape[0], self._before).index_add_(1, self._of, share)
        share = share / whole[:, self._of]
        return weight[:, self._of] * share.reshape(*shape, *[1] * (weight.ndim - 2))


@torch.no_grad()
def widened(model: Embedder, channels: int, seed: int = 0) -> Embedder:
    """A model of `channels` channels, and as many times the pooled ones, that gives what `model` does in evaluation."""
    before, generator = model.shape, torch.Generator().manual_seed(seed)
    shape = replace(before, channels=channels, pooled=before.pooled * channels // before.channels)
    wide, blocks = Embedder(shape), len(shape.dilations)
    part = Copies(before.channels // before.parts, channels // before.parts, 1, generator)
    block = Copies(before.channels, channels, before.parts, generator)
    joined = Copies(before.channels * blocks, channels * blocks, before.parts * blocks, generator)
    pooled = Copies(before.pooled, shape.pooled, 1, generator)
    moments = Copies(2 * before.pooled, 2 * shape.pooled, 2, generator)

    def copy(new: nn.Module, old: nn.Module, outputs: Copies | None, inputs: Copies | None) -> None:
        """A layer or a batch norm."""
        for name, value in old.state_dict().items():
            if name == "weight" and value.ndim > 1 and inputs:
                value = inputs.inputs(value)
            new.state_dict()[name].copy_(outputs.outputs(value) if outputs and value.ndim else value)

    def normed(new: Normed, old: Normed, outputs: Copies, inputs: Copies | None) -> None:
        copy(new.conv, old.conv, outputs, inputs)
        copy(new.norm, old.norm, outputs, None)

    def one_block(new: Block, old: Block) -> None:
        normed(new.first, old.first, block, block)
        for mine, its in zip(new.parts, old.parts, strict=True):
            normed(mine, its, part, part)
        normed(new.last, old.last, block, block)
        copy(new.squeeze, old.squeeze, None, block)
        copy(new.excite, old.excite, block, None)

    normed(wide.front, model.front, block, None)
    for new, old in zip(wide.blocks, model.blocks, strict=True):
        one_block(new, old)
    normed(wide.join, model.join, pooled, joined)
    copy(wide.attend, model.attend, None, pooled)
    copy(wide.context, model.context, None, moments)
    copy(wide.weigh, model.weigh, pooled, None)
    copy(wide.pooled_norm, model.pooled_norm, moments, None)
    copy(wide.embed, model.embed, None, moments)
    copy(wide.norm, model.norm, None, None)
    return wide
