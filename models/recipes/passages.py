"""Text that nobody says, for the prediction network: it hears only its own past, so it can learn from books alone."""

from __future__ import annotations

import numpy as np
import torch
from tokenizers import Tokenizer

SHORTEST, LONGEST = 4, 160  # tokens


class Passages:
    """Draws batches of lines of similar length; a batch is a function of the seed, the step and the pass alone."""

    def __init__(self, tokenizer: Tokenizer, lines: list[str], seed: int):
        rows = [torch.tensor(line.ids) for line in tokenizer.encode_batch(lines)]
        self._rows = sorted((row for row in rows if SHORTEST <= len(row) <= LONGEST), key=len)
        if not self._rows:
            raise SystemExit(f"no line of the text has {SHORTEST} to {LONGEST} tokens")
        self._seed = seed

    def batch(self, step: int, number: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """About so many tokens, padding counted in: `[lines, tokens]`, padded with 0, and how many are valid."""
        rng = np.random.default_rng((self._seed, step, number, 1))
        last = int(rng.integers(len(self._rows)))
        count = max(1, tokens // len(self._rows[last]))
        near = np.arange(max(0, last - 8 * count), last + 1)
        rows = [self._rows[i] for i in rng.choice(near, size=min(count, len(near)), replace=False)]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])
