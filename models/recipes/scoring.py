"""Word and character error rates, as speech papers count them."""

from __future__ import annotations

from dataclasses import dataclass

from .targets import score_words


def distance(reference: list[str] | str, hypothesis: list[str] | str) -> int:
    """Levenshtein distance."""
    row = list(range(len(hypothesis) + 1))
    for i, r in enumerate(reference, start=1):
        previous, row[0] = row[0], i
        for j, h in enumerate(hypothesis, start=1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (r != h))
    return row[-1]


@dataclass
class ErrorRates:
    """Summed over a set, not averaged over utterances."""

    word_errors: int = 0
    words: int = 0
    character_errors: int = 0
    characters: int = 0

    def add(self, reference: str, hypothesis: str) -> None:
        r, h = score_words(reference), score_words(hypothesis)
        self.word_errors += distance(r, h)
        self.words += len(r)
        self.character_errors += distance(" ".join(r), " ".join(h))
        self.characters += len(" ".join(r))

    @property
    def wer(self) -> float:
        return 100 * self.word_errors / max(1, self.words)

    @property
    def cer(self) -> float:
        return 100 * self.character_errors / max(1, self.characters)
