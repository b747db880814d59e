"""The transducer's joint network and its softmax, a cache's worth of cells at a time.

Scores for every cell `(t, u)` and token would be written to memory and read again by half a dozen passes, which took more
than half of a training step. Here a block of cells is scored, reduced to the two probabilities that the loss reads, and
forgotten; the backward pass scores it again. Padding is never computed.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

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


def _blocks(frames: torch.Tensor, labels: torch.Tensor):
    """`(utterance, first frame, end, columns)` that cover every cell of every utterance."""
    cells = CELLS if frames.device.type == "cpu" else CELLS_GPU
    for row, (steps, count) in enumerate(zip(frames.tolist(), labels.tolist(), strict=True)):
        width = count + 1
        size = max(1, cells // width)
        for first in range(0, steps, size):
            yield row, first, min(steps, first + size), width


class _Cells(torch.autograd.Function):
    @staticmethod
    def forward(ctx, heard, predicted, weight, bias, index, frames, labels, blank):
        shape = (*heard.shape[:2], predicted.shape[1])
        normaliser, by_blank, by_label = (heard.new_zeros(shape, dtype=torch.float32) for _ in range(3))
        for row, first, end, width in _blocks(frames, labels):
            hidden = F.relu(heard[row, first:end, None] + predicted[row, None, :width]).flatten(0, 1)
            wanted = index[row, :width].repeat(end - first)
            found = _kernels["moves"](F.linear(hidden, weight, bias), wanted, blank)
            for kept, values in zip((normaliser, by_blank, by_label), found, strict=True):
                kept[row, first:end, :width] = values.view(end - first, width)
        ctx.save_for_backward(heard, predicted, weight, bias, index, frames, labels, normaliser)
        ctx.blank = blank
        return by_blank, by_label

    @staticmethod
    def backward(ctx, by_blank, by_label):
        heard, predicted, weight, bias, index, frames, labels, normaliser = ctx.saved_tensors
        to_heard, to_predicted = torch.zeros_like(heard), torch.zeros_like(predicted, dtype=torch.float32)
        to_weight, to_bias = torch.zeros_like(weight, dtype=torch.float32), torch.zeros_like(bias, dtype=torch.float32)
        for row, first, end, width in _blocks(frames, labels):
            hidden = F.relu(heard[row, first:end, None] + predicted[row, None, :width]).flatten(0, 1)
            wanted = index[row, :width].repeat(end - first)
            of_cells = [values[row, first:end, :width].flatten() for values in (normaliser, by_blank, by_label)]
            scores = F.linear(hidden, weight, bias)
            gradient = _kernels["gradient"](scores, of_cells[0], wanted, ctx.blank, *of_cells[1:])
            to_weight += gradient.t() @ hidden
            to_bias += gradient.sum(0, dtype=torch.float32)
            to_hidden = ((gradient @ weight) * (hidden > 0)).view(end - first, width, -1)
            to_heard[row, first:end] = to_hidden.sum(1, dtype=torch.float32).to(heard.dtype)
            to_predicted[row, :width] += to_hidden.sum(0, dtype=torch.float32)
        return to_heard, to_predicted.to(predicted.dtype), to_weight, to_bias, None, None, None, None


def transducer_moves(
    heard: torch.Tensor,
    predicted: torch.Tensor,
    head: torch.nn.Linear,
    targets: torch.Tensor,
    frames: torch.Tensor,
    labels: torch.Tensor,
    blank: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of blank and of the next label, `[batch, T, U + 1]` each, zero where an utterance has no cell.

    `heard` `[batch, T, hidden]` and `predicted` `[batch, U + 1, hidden]` are both projected to the joint's space already;
    `targets` `[batch, U]`; valid `frames` and `labels` `[batch]`. Under autocast the products are in its type.
    """
    device = heard.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else head.weight.dtype
    index = F.pad(targets, (0, 1), value=blank)
    inputs = (part.to(dtype) for part in (heard, predicted, head.weight, head.bias))
    with torch.autocast(device, enabled=False):
        return _Cells.apply(*inputs, index, frames, labels, blank)
