"""Cells scored in blocks are the joint network's, and so are their gradients."""

import pytest
import torch

from recipes import joint
from recipes.alignment import cells_of
from recipes.rnnt_loss import NEVER


@pytest.mark.parametrize("cells", [7, 1024])
def test_blocks_are_the_whole(cells, monkeypatch):
    monkeypatch.setattr(joint, "CELLS", cells)
    torch.manual_seed(0)
    blank = 10
    heard = torch.randn(2, 6, 8, requires_grad=True)
    predicted = torch.randn(2, 4, 8, requires_grad=True)
    head = torch.nn.Linear(8, 11)
    targets = torch.tensor([[1, 2, 2], [3, 0, 0]])
    inside = cells_of(targets, torch.tensor([6, 4]), torch.tensor([3, 1]), 6)
    inside[0, 0, 2:] = inside[0, 5, 0] = False  # a band
    weights = torch.randn(2, 2, 6, 4)

    scores = head(torch.relu(heard[:, :, None] + predicted[:, None])).log_softmax(-1)
    index = torch.nn.functional.pad(targets, (0, 1), value=blank)[:, None, :, None].expand(-1, 6, -1, -1)
    whole = [torch.where(inside, part, NEVER) for part in (scores[..., blank], scores.gather(-1, index)[..., 0])]
    parameters = (heard, predicted, head.weight, head.bias)
    expected = torch.autograd.grad(sum((w * x).sum() for w, x in zip(weights, whole, strict=True)), parameters)

    blocks = joint.transducer_moves(heard, predicted, head, targets, inside, blank)
    found = torch.autograd.grad(sum((w * x).sum() for w, x in zip(weights, blocks, strict=True)), parameters)
    torch.testing.assert_close(list(blocks), whole)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
