"""The best path is found, and the lattice's cells near it hold what a transducer may do."""

from itertools import product

import numpy as np
import torch
from torch.nn import functional as F

from recipes.alignment import best_path, cells_of, near_path
from recipes.rnnt_loss import rnnt_loss


def collapsed(path: tuple[int, ...]) -> list[int]:
    return [now for before, now in zip((0, *path), path) if now not in (0, before)]


def test_the_best_path_is_the_best_of_all_paths():
    rng = np.random.default_rng(2)
    for labels in ([1], [1, 2], [2, 2], [1, 2, 1], [1, 1, 1]):
        scores = rng.normal(0, 2, (6, 3))
        log_probs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        paths = [path for path in product(range(3), repeat=6) if collapsed(path) == labels]
        best = max(paths, key=lambda path: sum(log_probs[frame, label] for frame, label in enumerate(path)))
        begins = [frame for frame, label in enumerate(best) if label and label != (0, *best)[frame]]
        assert best_path(log_probs, labels).tolist() == begins
        # the paths that were compared are those that PyTorch sums over
        total = np.logaddexp.reduce([sum(log_probs[frame, label] for frame, label in enumerate(path)) for path in paths])
        args = torch.tensor([labels]), torch.tensor([6]), torch.tensor([len(labels)])
        loss = F.ctc_loss(torch.from_numpy(log_probs)[:, None], *args, 0, "sum")
        np.testing.assert_allclose(-float(loss), total, rtol=1e-6)
    assert best_path(np.zeros((2, 3)), [1, 1]) is None


def test_cells_near_the_path_are_those_where_each_label_comes_within_the_margin():
    labels, frames, counts, blank = torch.tensor([[1, 2], [3, 0]]), torch.tensor([7, 5]), torch.tensor([2, 1]), 4
    by_token = torch.full((8, 2, 5), -9.0)
    by_token[..., blank] = 0.0
    by_token[2, 0, 1] = by_token[5, 0, 2] = by_token[4, 1, 3] = 5.0
    found = near_path(by_token, labels, frames, counts, blank, margin=1)
    drawn = [["".join(".#"[int(cell)] for cell in told) for told in utterance.t()] for utterance in found]
    assert drawn == [["####....", ".######.", "....###."], ["#####...", "...##...", "........"]]
    assert torch.equal(found & cells_of(labels, frames, counts, 8), found)


def test_an_utterance_without_a_path_keeps_all_its_cells():
    labels, frames, counts = torch.tensor([[1, 1, 1]]), torch.tensor([4]), torch.tensor([3])
    by_token = torch.zeros(4, 1, 3)  # three equal labels need five frames
    assert torch.equal(near_path(by_token, labels, frames, counts, 2, 1), cells_of(labels, frames, counts, 4))


def test_a_wide_band_is_the_whole_loss_and_a_narrow_one_a_part_of_it():
    torch.manual_seed(6)
    labels, frames, counts, blank = torch.tensor([[1, 2, 1], [3, 3, 0]]), torch.tensor([12, 9]), torch.tensor([3, 2]), 4
    by_token = torch.randn(12, 2, 5).mul(2).log_softmax(-1)
    scores = torch.randn(2, 12, 4, 5).log_softmax(-1)
    index = F.pad(labels, (0, 1), value=blank)[:, None, :, None].expand(-1, 12, -1, -1)
    moves = scores[..., blank], scores.gather(-1, index)[..., 0]

    def loss(cells):
        return rnnt_loss(*(torch.where(cells, move, -1e30) for move in moves), frames, counts)

    whole = loss(cells_of(labels, frames, counts, 12))
    torch.testing.assert_close(loss(near_path(by_token, labels, frames, counts, blank, 12)), whole)
    narrow = loss(near_path(by_token, labels, frames, counts, blank, 1))
    assert (narrow > whole).all() and (narrow < 100).all()
