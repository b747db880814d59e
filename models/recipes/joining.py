"""New utterances out of old ones: words of several speakers, end to end.

A model that has heard the same few thousand sentences many times knows them by heart, whole, and so listens less; what is
joined anew each time can only be heard. After aligned data augmentation (Lam et al. 2021, arXiv 2104.01393), which exchanges
single words. Needs the tables of `recipes.words`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .features import Stored

MEAN_RUN = 4  # words
SHORTEST = 8  # frames; less is a word whose place is not known
STOPS = ".,?!;:"


@dataclass(frozen=True)
class Known:
    """An utterance whose words are known: the frames that part them, and the middle of each phone."""

    stored: Stored
    words: list[str]
    bounds: list[int]
    middles: list[int]


def load_words(folder: Path, utterances: list[tuple[Stored, str]]) -> list[Known]:
    """The utterances, given with their texts, that the tables in `folder` know; frames are at each one's own speed."""
    tables = {}
    for table in sorted(folder.glob("*.words")):
        for line in table.read_text(encoding="utf-8").splitlines():
            file, *columns = line.split("\t")
            tables[table.stem, file] = [[int(frame) for frame in column.split(",")] for column in columns]
    found = []
    for stored, text in utterances:
        bounds, middles = tables.get((stored.recorded, stored.file), ([0], []))
        if len(bounds) == len(text.split()) + 1:
            scale = stored.frames / bounds[-1]
            bounds, middles = ([min(round(frame * scale), stored.frames) for frame in frames] for frames in (bounds, middles))
            found.append(Known(stored, text.split(), bounds, middles))
    return found


def names_among(texts: list[str]) -> set[str]:
    """Words that have a capital within sentences: they keep it where others lose it."""
    found = set()
    for text in texts:
        words = text.split()
        found |= {word for before, word in zip(words, words[1:]) if word[0].isupper() and not ends_sentence(before)}
    return {word.rstrip(STOPS) for word in found}


def ends_sentence(word: str) -> bool:
    return word.endswith((".", "?", "!"))


class Joiner:
    """Draws runs of words from utterances, by `weights` and length."""

    def __init__(self, utterances: list[Known], weights: np.ndarray):
        self._known = utterances
        chance = weights * [known.stored.frames for known in utterances]
        self._chance = np.cumsum(chance) / np.sum(chance)
        self._names = names_among([" ".join(known.words) for known in utterances])

    def _part(self, number: int, first: int, last: int) -> Stored:
        """The words `first..last` of an utterance."""
        stored, bounds = self._known[number].stored, self._known[number].bounds
        return replace(stored, first=stored.first + bounds[first], frames=bounds[last] - bounds[first])

    def draw(self, frames: int, rng: np.random.Generator) -> tuple[tuple[Stored, ...], str]:
        """Parts of about `frames` in all, and what they say."""
        parts: list[Stored] = []
        said: list[str] = []
        length = 0
        while length < 0.8 * frames:
            number = int(np.searchsorted(self._chance, rng.random()))
            words, bounds = self._known[number].words, self._known[number].bounds
            first = int(rng.integers(len(words)))
            last = min(len(words), first + int(rng.geometric(1 / MEAN_RUN)))
            while last > first + 1 and length + bounds[last] - bounds[first] > frames:
                last -= 1
            part = self._part(number, first, last)
            if part.frames < SHORTEST:
                continue
            parts.append(part)
            said += self._fitting(words[first:last], said, starts=first == 0 or ends_sentence(words[first - 1]))
            length += part.frames
        return tuple(parts), " ".join(said)

    def _fitting(self, words: list[str], before: list[str], starts: bool) -> list[str]:
        """The run with the capital that its new place asks for."""
        first = words[0]
        if not before or ends_sentence(before[-1]):
            first = first[0].upper() + first[1:]
        elif starts and first.rstrip(STOPS) not in self._names:
            first = first[0].lower() + first[1:]
        return [first, *words[1:]]


def join(mels: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """End to end, the parts within 3 dB of one level."""
    levels = [float(np.log(np.exp(mel).mean())) for mel in mels]
    wanted = float(np.mean(levels))
    spread = rng.uniform(-0.7, 0.7, len(mels))
    return np.concatenate([mel + np.float32(wanted - level + by) for mel, level, by in zip(mels, levels, spread, strict=True)])
