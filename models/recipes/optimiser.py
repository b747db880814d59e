"""Muon for the encoder's matrices, AdamW for the rest.

Muon (Jordan 2024) takes the orthogonal factor of a matrix's momentum as its update, scaled as Moonlight
(arXiv 2502.16982) does so that both optimisers share one learning rate. It needs fewer steps than AdamW, and the
matrix products it adds are shared out between the processes.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import distributed, nn

from .work_queue import WorkQueue

_NS = (3.4445, -4.7750, 2.0315)


def orthogonal_factor(matrix: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Newton-Schulz iteration towards U V^T of `matrix` `[rows, columns]`, or of each of `[matrices, rows, columns]`."""
    x = matrix.bfloat16()
    flipped = x.shape[-2] > x.shape[-1]
    if flipped:
        x = x.mT
    x = x / (torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = _NS[0] * x + (_NS[1] * gram + _NS[2] * gram @ gram) @ x
    return (x.mT if flipped else x).to(matrix.dtype)


class Muon(torch.optim.Optimizer):
    """For parameters that are matrices once trailing kernel dimensions of size one are dropped."""

    PARTS = 12  # what the processes share out among them

    def __init__(self, parameters, lr: float, queue: WorkQueue, momentum: float = 0.95, weight_decay: float = 0.02):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self._queue = queue

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            for p in parameters:
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p)
            torch._foreach_lerp_([self.state[p]["momentum"] for p in parameters], [p.grad for p in parameters], 1 - group["momentum"])
            if self._together(parameters):
                self._step_together(group, parameters)
                continue
            ends = torch.tensor([p.numel() for p in parameters]).cumsum(0).tolist()
            updates = torch.zeros(ends[-1], device=parameters[0].device)
            for part in self._queue.deal(self.PARTS):
                for p, end in list(zip(parameters, ends, strict=True))[part :: self.PARTS]:
                    nesterov = p.grad.lerp(self.state[p]["momentum"], group["momentum"])
                    matrix = nesterov.reshape(p.shape[0], -1)
                    update = orthogonal_factor(matrix) * (0.2 * max(matrix.shape) ** 0.5)
                    updates[end - p.numel() : end] = update.reshape(-1)
            if distributed.is_initialized():
                distributed.all_reduce(updates)
            for p, end in zip(parameters, ends, strict=True):
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(updates[end - p.numel() : end].view_as(p), alpha=-group["lr"])


    @staticmethod
    def _together(parameters: list[torch.Tensor]) -> bool:
        return parameters[0].is_cuda

    def _step_together(self, group: dict, parameters: list[torch.Tensor]) -> None:
        """The step of one process on a GPU: matrices of one shape side by side, as it is the launches that take the time."""
        by_shape: dict[tuple[int, int], list[torch.Tensor]] = defaultdict(list)
        for p in parameters:
            by_shape[p.shape[0], p.numel() // p.shape[0]].append(p)
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        for shape, alike in by_shape.items():
            nesterov = torch._foreach_lerp([p.grad for p in alike], [self.state[p]["momentum"] for p in alike], group["momentum"])
            updates = orthogonal_factor(torch.stack([one.reshape(shape) for one in nesterov])) * (0.2 * max(shape) ** 0.5)
            torch._foreach_add_(alike, [one.view_as(p) for one, p in zip(updates, alike, strict=True)], alpha=-group["lr"])


def build_optimisers(model: nn.Module, lr: float, muon: bool, queue: WorkQueue) -> list[torch.optim.Optimizer]:
    """One or two optimisers over all parameters; biases, norms and tables do not decay."""
    matrices, decayed, plain = [], [], []
    for name, p in model.named_parameters():
        matrix = p.ndim >= 2 and p.numel() == p.shape[0] * p.shape[1] and min(p.shape[:2]) > 1
        if muon and matrix and name.startswith("asr.encoder.") and "bias_" not in name:
            matrices.append(p)
        elif p.ndim >= 2 and "embedding" not in name and "bias_" not in name:
            decayed.append(p)
        else:
            plain.append(p)
    groups = [{"params": decayed, "weight_decay": 0.02}, {"params": plain, "weight_decay": 0.0}]
    optimisers: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98))]
    if matrices:
        optimisers.append(Muon(matrices, lr=lr, queue=queue))
    return optimisers
