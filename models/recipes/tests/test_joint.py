"""Cells scored in blocks are the joint network's, and so are their gradients."""

import pytest
import torch

from recipes import joint


@pytest.mark.parametrize("cells", [7, 1024])
def test_blocks_are_the_whole(cells, monkeypatch):
    monkeypatch.setattr(joint, "CELLS", cells)
    torch.manual_seed(0)
    blank = 10
    heard = torch.randn(2, 6, 8, requires_grad=True)
    predicted = torch.randn(2, 4, 8, requires_grad=True)
    head = torch.nn.Linear(8, 11)
    targets = torch.tensor([[1, 2, 2], [3, 0, 0]])
    frames, labels = torch.tensor([6, 4]), torch.tensor([3, 1])
    weights = torch.randn(2, 2, 6, 4)

    inside = (torch.arange(6)[None, :, None] < frames[:, None, None]) & (
        torch.arange(4)[None, None] <= labels[:, None, None]
    )
    scores = head(torch.relu(heard[:, :, None] + predicted[:, None])).log_softmax(-1)
    index = torch.nn.functional.pad(targets, (0, 1), value=blank)[:, None, :, None].expand(-1, 6, -1, -1)
    whole = (scores[..., blank] * inside, scores.gather(-1, index)[..., 0] * inside)
    parameters = (heard, predicted, head.weight, head.bias)
    expected = torch.autograd.grad(sum((w * x).sum() for w, x in zip(weights, whole, strict=True)), parameters)

    blocks = joint.transducer_moves(heard, predicted, head, targets, frames, labels, blank)
    found = torch.autograd.grad(sum((w * x).sum() for w, x in zip(weights, blocks, strict=True)), parameters)
    torch.testing.assert_close(blocks, whole)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
