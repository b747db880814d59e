"""Muon: the step on a GPU is that of the CPU."""

import torch

from recipes.optimiser import Muon, orthogonal_factor
from recipes.work_queue import WorkQueue


def test_matrices_side_by_side_take_the_steps_they_take_alone():
    torch.manual_seed(0)
    alone = [torch.nn.Parameter(torch.randn(*shape)) for shape in ((8, 6), (8, 6), (6, 8, 1), (5, 5))]
    together = [torch.nn.Parameter(p.detach().clone()) for p in alone]
    one, other = (Muon(parameters, lr=0.1, queue=WorkQueue()) for parameters in (alone, together))
    other._together = lambda parameters: True
    for _ in range(3):
        for p, q in zip(alone, together, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        one.step()
        other.step()
    for p, q in zip(alone, together, strict=True):
        torch.testing.assert_close(p, q, atol=1e-3, rtol=1e-3)
    assert (alone[0] - one.state[alone[0]]["momentum"]).abs().max() > 0


def test_the_factor_of_a_matrix_is_nearly_orthogonal():
    torch.manual_seed(0)
    for shape in ((12, 30), (30, 12), (3, 12, 30)):
        values = torch.linalg.svdvals(orthogonal_factor(torch.randn(*shape)))
        assert (0.5 < values).all() and (values < 1.4).all()
