"""Begins a training with an export, whose batch norms are folded away: they come back so that the first step changes nothing."""

from __future__ import annotations

import torch
from torch import nn

from .model import Embedder


@torch.no_grad()
def restore_norms(model: Embedder, mels: torch.Tensor) -> None:
    """Sets each batch norm to undo, by scale and shift, what it will take off a batch like `mels` `[rows, frames, mels]`."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]

    def measure(norm: nn.BatchNorm1d, inputs: tuple[torch.Tensor]) -> None:
        values = inputs[0].float()
        over = (0, 2) if values.ndim == 3 else (0,)
        variance, mean = torch.var_mean(values, over, correction=0)
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)
        norm.bias.copy_(mean)
        norm.weight.copy_((variance + norm.eps).sqrt())

    hooks = [norm.register_forward_pre_hook(measure) for norm in norms]
    model.eval()(mels)
    model.train()
    for hook in hooks:
        hook.remove()
