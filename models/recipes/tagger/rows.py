"""Rows of pieces to train on, made by as many processes as there are cores."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .model import TAGS
from .names import load
from .sentences import Sentences, Words, talk
from .wordpiece import END, PAD, START, Pieces, case_of

LENGTHS = {32: 0.4, 64: 0.35, 128: 0.25}
"""Pieces of a row, and how often; of short ones there is only a sentence or two."""
NONE = 255
"""The tag where no word begins."""
_TAG = {tag: number for number, tag in enumerate(TAGS)}


@dataclass
class Rows:
    """Pieces, token types and tags `[rows, pieces]`, a byte each but for the first."""

    ids: np.ndarray
    types: np.ndarray
    tags: np.ndarray


def fill(rows: Rows, row: int, words: Words, pieces: Pieces) -> None:
    """Writes as many words as fit between the marks of start and end."""
    rows.ids[row, 0], at, last = START, 1, rows.ids.shape[1] - 1
    for word, tag in words:
        ids = pieces(word)
        if at + len(ids) > last:
            break
        if ids:
            rows.ids[row, at : at + len(ids)] = ids
            rows.types[row, at : at + len(ids)] = case_of(word)
            rows.tags[row, at] = _TAG[tag]
            at += len(ids)
    rows.ids[row, at] = END


class Maker:
    """Makes rows from a seed."""

    def __init__(self, lexicon: Path, tokenizer: Path, seed: int):
        self._rng = random.Random(seed)
        self._sentences, self._pieces = Sentences(load(lexicon), self._rng), Pieces(tokenizer)

    def make(self, budget: int) -> Rows:
        """Rows of one length that hold about `budget` pieces."""
        rng = self._rng
        length = rng.choices(list(LENGTHS), list(LENGTHS.values()))[0]
        count = max(1, budget // length)
        rows = Rows(
            np.full((count, length), PAD, np.uint16), np.zeros((count, length), np.uint8), np.full((count, length), NONE, np.uint8)
        )
        for row in range(count):
            least = {32: rng.choice([1, 1, 10, 20]), 64: rng.choice([20, 40, 60]), 128: 126}[length]
            fill(rows, row, talk(self._sentences, rng, least), self._pieces)
        return rows


def stream(lexicon: Path, tokenizer: Path, seed: int, budget: int, processes: int) -> Iterator[Rows]:
    """Rows without end, from processes that start at once; without processes they are made here."""
    if not processes:
        maker = Maker(lexicon, tokenizer, seed)
        return iter(lambda: maker.make(budget), None)
    # A fork of a process whose threads have computed may wait for them for ever.
    context = multiprocessing.get_context("spawn")
    queue = context.Queue(4 * processes)
    for number in range(processes):
        context.Process(target=_work, args=(lexicon, tokenizer, 1000 * seed + number, budget, queue), daemon=True).start()
    return iter(lambda: Rows(*queue.get()), None)


def _work(lexicon: Path, tokenizer: Path, seed: int, budget: int, queue) -> None:
    maker = Maker(lexicon, tokenizer, seed)
    while True:
        rows = maker.make(budget)
        queue.put((rows.ids, rows.types, rows.tags))
