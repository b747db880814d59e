"""The transducer loss (Graves 2012), by forward and backward recursions over anti-diagonals in log space.

All cells `(t, u)` with the same `t + u` depend only on the diagonal before, so the loop is over `frames + labels`
and each pass works on `[batch, labels + 1]` at once.
"""

from __future__ import annotations

import torch

NEVER = -1e30  # finite, so that differences of two impossible cells are not NaN


def _skew(cells: torch.Tensor) -> torch.Tensor:
    """`[batch, T, U]` to `[T + U - 1, batch, U]`: row `n` holds the cells with `t + u == n`, impossible ones elsewhere."""
    batch, frames, width = cells.shape
    skewed = cells.new_full((batch, frames + width - 1, width), NEVER)
    rows = torch.arange(frames, device=cells.device)[:, None] + torch.arange(width, device=cells.device)[None]
    skewed[:, rows, torch.arange(width, device=cells.device)] = cells
    return skewed.transpose(0, 1).contiguous()


def _unskew(skewed: torch.Tensor, frames: int) -> torch.Tensor:
    width = skewed.shape[2]
    rows = torch.arange(frames, device=skewed.device)[:, None] + torch.arange(width, device=skewed.device)[None]
    return skewed.transpose(0, 1)[:, rows, torch.arange(width, device=skewed.device)]


class _Transducer(torch.autograd.Function):
    """Log-probabilities of blank `[batch, T, U + 1]` and of the next label `[batch, T, U + 1]` to losses `[batch]`."""

    @staticmethod
    def forward(ctx, blank, label, frames, labels):
        batch, steps, width = blank.shape
        u = torch.arange(width, device=blank.device)
        inside = (torch.arange(steps, device=blank.device)[None, :, None] < frames[:, None, None]) & (
            u[None, None] <= labels[:, None, None]
        )
        # a label move out of the last column, or any move out of the padding, cannot happen
        blank = torch.where(inside, blank, NEVER)
        label = torch.where(inside & (u[None, None] < labels[:, None, None]), label, NEVER)
        by_blank, by_label = _skew(blank), _skew(label)
        count = len(by_blank)
        last_row, rows = frames - 1 + labels, torch.arange(batch, device=blank.device)

        alpha = torch.full_like(by_blank, NEVER)
        alpha[0, :, 0] = 0
        for n in range(1, count):
            waited = alpha[n - 1] + by_blank[n - 1]
            alpha[n] = waited
            alpha[n, :, 1:] = torch.logaddexp(waited[:, 1:], alpha[n - 1, :, :-1] + by_label[n - 1, :, :-1])

        beta = torch.full_like(by_blank, NEVER)
        final = by_blank[last_row, rows, labels]
        ends = torch.zeros_like(by_blank, dtype=torch.bool)
        ends[last_row, rows, labels] = True
        for n in range(count - 1, -1, -1):
            if n + 1 < count:
                waited = beta[n + 1] + by_blank[n]
                beta[n] = waited
                beta[n, :, :-1] = torch.logaddexp(waited[:, :-1], beta[n + 1, :, 1:] + by_label[n, :, :-1])
            beta[n] = torch.where(ends[n], by_blank[n], beta[n])

        total = alpha[last_row, rows, labels] + final
        # each move's posterior: what came before it, itself, what comes after
        after_blank = torch.full_like(beta, NEVER)
        after_blank[:-1] = beta[1:]
        after_blank = torch.where(ends, 0.0, after_blank)
        after_label = torch.full_like(beta, NEVER)
        after_label[:-1, :, :-1] = beta[1:, :, 1:]
        grad_blank = -(alpha + by_blank + after_blank - total[None, :, None]).exp()
        grad_label = -(alpha + by_label + after_label - total[None, :, None]).exp()
        ctx.save_for_backward(_unskew(grad_blank, steps), _unskew(grad_label, steps))
        return -total

    @staticmethod
    def backward(ctx, grad):
        blank, label = ctx.saved_tensors
        scale = grad[:, None, None]
        return blank * scale, label * scale, None, None


def rnnt_loss(
    by_blank: torch.Tensor, by_label: torch.Tensor, frames: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Negative log-likelihood of each utterance, `[batch]`.

    Log-probabilities of blank and of the next label in each cell, `[batch, T, U + 1]`; valid `frames` and `labels` `[batch]`.
    """
    return _Transducer.apply(by_blank, by_label, frames, labels)
