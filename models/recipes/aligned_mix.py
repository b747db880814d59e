"""Makes new utterances from runs of words of several utterances and speakers.

A model that hears the same few thousand sentences many times memorises them. A new mix in each batch cannot be memorised. The method
follows aligned data augmentation (Lam et al. 2021, arXiv 2104.01393), which exchanges single words. It needs the word alignments of
`recipes.words`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .features import Stored

MEAN_RUN = 4  # words
SHORTEST = 8  # frames; a shorter run is a failed alignment
STOPS = ".,?!;:"


@dataclass(frozen=True)
class AlignedUtterance:
    """An utterance with the frames that separate its words, and the middle frame of each phone."""

    stored: Stored
    words: list[str]
    bounds: list[int]
    middles: list[int]


def load_alignments(folder: Path, utterances: list[tuple[Stored, str]]) -> list[AlignedUtterance]:
    """Returns the utterances, given with their texts, that have alignments in `folder`; frames are at the speed of the utterance."""
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
            found.append(AlignedUtterance(stored, text.split(), bounds, middles))
    return found


def names_among(texts: list[str]) -> set[str]:
    """Words with a capital letter within a sentence; they keep it in a mix."""
    found = set()
    for text in texts:
        words = text.split()
        found |= {word for before, word in zip(words, words[1:]) if word[0].isupper() and not ends_sentence(before)}
    return {word.rstrip(STOPS) for word in found}


def ends_sentence(word: str) -> bool:
    return word.endswith((".", "?", "!"))


class AlignedMixer:
    """Draws runs of words from utterances with probabilities by `weights` and length."""

    def __init__(self, utterances: list[AlignedUtterance], weights: np.ndarray):
        self._utterances = utterances
        weight = weights * [utterance.stored.frames for utterance in utterances]
        self._cumulative = np.cumsum(weight) / np.sum(weight)
        self._names = names_among([" ".join(utterance.words) for utterance in utterances])

    def _part(self, number: int, first: int, last: int) -> Stored:
        """The words `first..last` of an utterance."""
        stored, bounds = self._utterances[number].stored, self._utterances[number].bounds
        return replace(stored, first=stored.first + bounds[first], frames=bounds[last] - bounds[first])

    def draw(self, frames: int, rng: np.random.Generator) -> tuple[tuple[Stored, ...], str]:
        """Returns parts of about `frames` frames in all, and their text."""
        parts: list[Stored] = []
        text: list[str] = []
        length = 0
        while length < 0.8 * frames:
            number = int(np.searchsorted(self._cumulative, rng.random()))
            words, bounds = self._utterances[number].words, self._utterances[number].bounds
            first = int(rng.integers(len(words)))
            last = min(len(words), first + int(rng.geometric(1 / MEAN_RUN)))
            while last > first + 1 and length + bounds[last] - bounds[first] > frames:
                last -= 1
            part = self._part(number, first, last)
            if part.frames < SHORTEST:
                continue
            parts.append(part)
            text += self._fitting(words[first:last], text, starts=first == 0 or ends_sentence(words[first - 1]))
            length += part.frames
        return tuple(parts), " ".join(text)

    def _fitting(self, words: list[str], before: list[str], starts: bool) -> list[str]:
        """The run, with upper or lower case for its place in the new sentence."""
        first = words[0]
        if not before or ends_sentence(before[-1]):
            first = first[0].upper() + first[1:]
        elif starts and first.rstrip(STOPS) not in self._names:
            first = first[0].lower() + first[1:]
        return [first, *words[1:]]


def concatenate(mels: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Concatenates the parts at levels within 3 dB of their mean."""
    levels = [float(np.log(np.exp(mel).mean())) for mel in mels]
    wanted = float(np.mean(levels))
    offsets = rng.uniform(-0.7, 0.7, len(mels))
    return np.concatenate([mel + np.float32(wanted - level + by) for mel, level, by in zip(mels, levels, offsets, strict=True)])
