"""Which label is emitted when, and the cells of the transducer's lattice that are near that."""

from __future__ import annotations

import numpy as np
import torch


def best_path(log_probs: np.ndarray, labels: list[int], blank: int = 0) -> np.ndarray | None:
    """The frame at which each of `labels` begins on the likeliest CTC path through `log_probs` `[frames, classes]`.

    None where the frames are too few for the labels.
    """
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    # a label may follow another without a blank between them, unless they are equal
    skips = np.zeros(len(states), dtype=bool)
    skips[3::2] = states[3::2] != states[1:-2:2]
    score = np.full(len(states), -np.inf)
    score[:2] = log_probs[0, states[:2]]
    came = np.zeros((len(log_probs), len(states)), dtype=np.int8)
    for frame in range(1, len(log_probs)):
        ways = np.full((3, len(states)), -np.inf)
        ways[0], ways[1, 1:] = score, score[:-1]
        ways[2, 2:] = np.where(skips[2:], score[:-2], -np.inf)
        came[frame] = ways.argmax(0)
        score = ways.max(0) + log_probs[frame, states]
    at = len(states) - 1 if score[-1] > score[-2] else len(states) - 2
    if not np.isfinite(score[at]):
        return None
    path = np.zeros(len(log_probs), dtype=np.int64)
    for frame in range(len(log_probs) - 1, -1, -1):
        path[frame] = at
        at -= int(came[frame, at])
    return np.array([np.flatnonzero(path == 2 * number + 1)[0] for number in range(len(labels))])


def cells_of(labels: torch.Tensor, frames: torch.Tensor, counts: torch.Tensor, steps: int) -> torch.Tensor:
    """The lattice's cells `[batch, steps, U + 1]` of `labels` `[batch, U]`; `counts` of these and `frames` steps are valid."""
    told = torch.arange(labels.shape[1] + 1, device=labels.device)
    frame = torch.arange(steps, device=labels.device)
    return (frame[None, :, None] < frames[:, None, None]) & (told[None, None] <= counts[:, None, None])


def near_path(
    by_token: torch.Tensor, labels: torch.Tensor, frames: torch.Tensor, counts: torch.Tensor, blank: int, margin: int
) -> torch.Tensor:
    """Of `cells_of`, those where each label comes within `margin` frames of its place on the likeliest CTC path.

    `by_token` `[steps, batch, vocab]` are a CTC head's log-probabilities. An utterance without a path keeps all its cells.
    (After alignment restricted transducers, Mahadeokar et al. 2020, arXiv 2011.03072.)
    """
    inside = cells_of(labels, frames, counts, len(by_token))
    scores, steps = by_token.detach().float().cpu().numpy(), torch.arange(inside.shape[1])[:, None]
    for row, (count, told) in enumerate(zip(frames.tolist(), counts.tolist(), strict=True)):
        begins = best_path(scores[:count, row], labels[row, :told].tolist(), blank)
        if begins is not None:
            never = inside.shape[1] + margin
            begins = torch.from_numpy(np.concatenate([[-never], begins, [never]]))
            near = (begins[:-1] - margin <= steps) & (steps <= begins[1:] + margin)
            inside[row, :, : told + 1] &= near.to(inside.device)
    return inside
