"""The transducer's joint network and its softmax, a cache's worth of cells at a time.

Scores for every cell `(t, u)` and token would be written to memory and read again by half a dozen passes, which took more
than half of a training step. Here a block of cells is scored, reduced to the two probabilities that the loss reads, and
forgotten; the backward pass scores it again. Padding is never computed, nor what else is left out (`alignment.near_path`).
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from .rnnt_loss import NEVER

CELLS = 1024  # of 384 tokens: what a core's second cache holds with its gradient
CELLS_GPU = 65536


def _moves(logits: torch.Tensor, index: torch.Tensor, blank: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores `[cells, vocab]` to each cell's normaliser and log-probabilities of blank and of the token `index`."""
    logits = logits.float()
    normaliser = logits.logsumexp(-1)
    label = logits.gather(-1, index[:, None])[:, 0]
    return normaliser, logits[:, blank] - normaliser, label - normaliser


def _moves_gradient(
    logits: torch.Tensor,
    normaliser: torch.Tensor,
    index: torch.Tensor,
    blank: int,
    by_blank: torch.Tensor,
    by_label: torch.Tensor,
) -> torch.Tensor:
    """The gradient of `_moves` by its scores, in their type."""
    tokens = torch.arange(logits.shape[1], device=logits.device)
    gradient = -(by_blank + by_label)[:, None] * (logits.float() - normaliser[:, None]).exp()
    gradient = gradient + torch.where(tokens == blank, by_blank[:, None], 0.0)
    gradient = gradient + torch.where(tokens == index[:, None], by_label[:, None], 0.0)
    return gradient.to(logits.dtype)


_kernels = {"moves": _moves, "gradient": _moves_gradient}


def compile_kernels() -> None:
    """From here on, the passes over a block are compiled at their first use."""
    for name, kernel in (("moves", _moves), ("gradient", _moves_gradient)):
        _kernels[name] = torch.compile(kernel, dynamic=True)


def _blocks(inside: torch.Tensor):
    """The cells `[batch, T, U + 1]` that are `inside`, some at a time: flat places of each, of its frame and of its label."""
    steps, width = inside.shape[1:]
    for cells in inside.flatten().nonzero()[:, 0].split(CELLS if inside.device.type == "cpu" else CELLS_GPU):
        frames = cells // width
        yield cells, frames, frames // steps * width + cells % width


class _Cells(torch.autograd.Function):
    @staticmethod
    def forward(ctx, heard, predicted, weight, bias, index, inside, blank):
        heard, predicted, index = heard.flatten(0, 1), predicted.flatten(0, 1), index.flatten()
        found = [heard.new_full((inside.numel(),), NEVER, dtype=torch.float32) for _ in range(3)]
        for cells, frames, labels in _blocks(inside):
            hidden = F.relu(heard[frames] + predicted[labels])
            for kept, values in zip(found, _kernels["moves"](F.linear(hidden, weight, bias), index[labels], blank), strict=True):
                kept[cells] = values
        normaliser, by_blank, by_label = found
        ctx.save_for_backward(heard, predicted, weight, bias, index, inside, normaliser)
        ctx.blank = blank
        return by_blank.view(inside.shape), by_label.view(inside.shape)

    @staticmethod
    def backward(ctx, by_blank, by_label):
        heard, predicted, weight, bias, index, inside, normaliser = ctx.saved_tensors
        by_blank, by_label = by_blank.flatten(), by_label.flatten()
        sums = [torch.zeros_like(part, dtype=torch.float32) for part in (heard, predicted, weight, bias)]
        to_heard, to_predicted, to_weight, to_bias = sums
        for cells, frames, labels in _blocks(inside):
            hidden = F.relu(heard[frames] + predicted[labels])
            scores = F.linear(hidden, weight, bias)
            gradient = _kernels["gradient"](
                scores, normaliser[cells], index[labels], ctx.blank, by_blank[cells], by_label[cells]
            )
            to_weight += gradient.t() @ hidden
            to_bias += gradient.sum(0, dtype=torch.float32)
            to_hidden = ((gradient @ weight) * (hidden > 0)).float()
            to_heard.index_add_(0, frames, to_hidden)
            to_predicted.index_add_(0, labels, to_hidden)
        batch, steps, width = inside.shape
        to_heard, to_predicted = to_heard.view(batch, steps, -1), to_predicted.view(batch, width, -1)
        return to_heard.to(heard.dtype), to_predicted.to(predicted.dtype), to_weight, to_bias, None, None, None


def transducer_moves(
    heard: torch.Tensor,
    predicted: torch.Tensor,
    head: torch.nn.Linear,
    targets: torch.Tensor,
    inside: torch.Tensor,
    blank: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of blank and of the next label, `[batch, T, U + 1]` each, `NEVER` where `inside`, so shaped, is false.

    `heard` `[batch, T, hidden]` and `predicted` `[batch, U + 1, hidden]` are both projected to the joint's space already;
    `targets` `[batch, U]`. Under autocast the products are in its type.
    """
    device = heard.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else head.weight.dtype
    index = F.pad(targets, (0, 1), value=blank)
    inputs = (part.to(dtype) for part in (heard, predicted, head.weight, head.bias))
    with torch.autocast(device, enabled=False):
        return _Cells.apply(*inputs, index, inside, blank)
