"""The transducer loss is the sum over all alignments."""

from itertools import combinations

import torch

from recipes.rnnt_loss import rnnt_loss


def brute_force(log_probs: torch.Tensor, targets: list[int], blank: int) -> torch.Tensor:
    """Sums every order of `len(targets)` labels and `frames` blanks that ends in a blank."""
    frames, moves = log_probs.shape[0], log_probs.shape[0] + len(targets)
    totals = []
    for label_at in combinations(range(moves - 1), len(targets)):
        t = u = 0
        total = torch.zeros(())
        for move in range(moves):
            if move in label_at:
                total = total + log_probs[t, u, targets[u]]
                u += 1
            else:
                total = total + log_probs[t, u, blank]
                t += 1
        assert t == frames
        totals.append(total)
    return -torch.stack(totals).logsumexp(0)


def test_matches_brute_force_with_padding():
    torch.manual_seed(0)
    blank = 4
    logits = torch.randn(3, 5, 4, 5, dtype=torch.float32, requires_grad=True)
    targets = torch.tensor([[1, 2, 2], [3, 0, 0], [0, 0, 0]])
    frames, labels = torch.tensor([5, 3, 4]), torch.tensor([3, 1, 0])
    log_probs = logits.log_softmax(-1)
    next_label = torch.nn.functional.pad(targets, (0, 1), value=blank)[:, None, :, None].expand(-1, 5, -1, -1)
    losses = rnnt_loss(log_probs[..., blank], log_probs.gather(-1, next_label)[..., 0], frames, labels)
    losses.sum().backward()
    gradient = logits.grad.clone()

    again = logits.detach().clone().requires_grad_()
    expected = torch.stack([
        brute_force(again[i, : frames[i], : labels[i] + 1].log_softmax(-1), targets[i, : labels[i]].tolist(), blank)
        for i in range(3)
    ])  # fmt: skip
    expected.sum().backward()
    torch.testing.assert_close(losses, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient, again.grad, rtol=1e-4, atol=1e-5)
