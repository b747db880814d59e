"""New utterances out of old ones: words of several speakers, end to end.

A model that has heard the same few thousand sentences many times knows them by heart, whole, and so listens less; what is
joined anew each time can only be heard. Half of it is runs of words as they come, the other half sentences of books, each
covered by the longest runs found. After aligned data augmentation (Lam et al. 2021, arXiv 2104.01393), which exchanges single
words. Needs the tables of `recipes.words`.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np

from .features import Stored

MEAN_RUN = 4  # words
SHORTEST = 8  # frames; less is a word whose place is not known
TRIED = 12  # places a word of a sentence is taken from, of which the one with the longest run in common is likeliest
FRAMES_A_WORD = 33
STOPS = ".,?!;:"


def load_words(folder: Path) -> dict[tuple[str, str], list[int]]:
    """(corpus, file) to the frames between its words."""
    found = {}
    for table in sorted(folder.glob("*.words")):
        for line in table.read_text(encoding="utf-8").splitlines():
            file, frames = line.split("\t")
            found[table.stem, file] = [int(frame) for frame in frames.split(",")]
    return found


def names_among(texts: list[str]) -> set[str]:
    """Words that have a capital within sentences: they keep it where others lose it."""
    found = set()
    for text in texts:
        words = text.split()
        found |= {word for before, word in zip(words, words[1:]) if word[0].isupper() and not ends_sentence(before)}
    return {word.rstrip(STOPS) for word in found}


def spoken(word: str) -> str:
    return word.rstrip(STOPS).lower()


def ends_sentence(word: str) -> bool:
    return word.endswith((".", "?", "!"))


class Joiner:
    """Draws from utterances `(stored, text)` whose words are known, by `weights`; `sentences` are ones to be said with their words."""

    def __init__(
        self,
        utterances: list[tuple[Stored, str]],
        weights: np.ndarray,
        words: dict[tuple[str, str], list[int]],
        sentences: list[str],
    ):
        self._known: list[tuple[Stored, list[str], list[int]]] = []
        kept = []
        for (stored, text), weight in zip(utterances, weights, strict=True):
            bounds, written = words.get((stored.recorded, stored.file)), text.split()
            if bounds is None or len(bounds) != len(written) + 1:
                continue
            scale = stored.frames / bounds[-1]
            self._known.append((stored, written, [min(round(bound * scale), stored.frames) for bound in bounds]))
            kept.append(weight * stored.frames)
        self._chance = np.cumsum(kept) / np.sum(kept)
        self._names = names_among([text for _, text in utterances])
        # people's words where there are any, a machine's for the rest
        self._places: dict[str, list[tuple[int, int]]] = {}
        for machine in (False, True):
            new: dict[str, list[tuple[int, int]]] = {}
            for number, (stored, written, _) in enumerate(self._known):
                if stored.synthetic == machine:
                    for at, word in enumerate(written):
                        new.setdefault(spoken(word), []).append((number, at))
            self._places = new | self._places
        self._sentences = [s.split() for s in sentences if all(spoken(word) in self._places for word in s.split())]

    def draw(self, frames: int, rng: np.random.Generator) -> tuple[tuple[Stored, ...], str]:
        """Parts of about `frames` in all, and what they say."""
        if self._sentences and rng.random() < 0.5:
            parts, said = self._of_sentences(frames, rng)
            if parts:
                return parts, said
        return self._of_runs(frames, rng)

    def _part(self, number: int, first: int, last: int) -> Stored:
        """The words `first..last` of an utterance."""
        stored, _, bounds = self._known[number]
        return replace(stored, first=stored.first + bounds[first], frames=bounds[last] - bounds[first])

    def _of_runs(self, frames: int, rng: np.random.Generator) -> tuple[tuple[Stored, ...], str]:
        parts: list[Stored] = []
        said: list[str] = []
        length = 0
        while length < 0.8 * frames:
            number = int(np.searchsorted(self._chance, rng.random()))
            _, words, bounds = self._known[number]
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

    def _of_sentences(self, frames: int, rng: np.random.Generator) -> tuple[tuple[Stored, ...], str]:
        """As many whole sentences as find room; none where none does."""
        parts: list[Stored] = []
        said: list[str] = []
        left = frames
        for _ in range(12):
            sentence = self._sentences[int(rng.integers(len(self._sentences)))]
            if len(sentence) * FRAMES_A_WORD > left:
                continue
            covered = self._covered(sentence, rng)
            length = sum(part.frames for part in covered)
            if length <= left:
                parts += covered
                said += sentence
                left -= length
        return tuple(parts), " ".join(said)

    def _covered(self, sentence: list[str], rng: np.random.Generator) -> list[Stored]:
        """The words of a sentence, in runs as long as a few tries find."""
        wanted = [spoken(word) for word in sentence]
        parts, at = [], 0
        while at < len(wanted):
            places = self._places[wanted[at]]
            found = []
            for number, first in (places[int(rng.integers(len(places)))] for _ in range(TRIED)):
                said = self._known[number][1][first : first + len(wanted) - at]
                alike = itertools.takewhile(lambda pair: spoken(pair[0]) == pair[1], zip(said, wanted[at:]))
                run = sum(1 for _ in alike)
                part = self._part(number, first, first + run)
                found.append((part.frames >= SHORTEST, run + 1.5 * rng.random(), run, part))
            *_, run, part = max(found, key=lambda option: option[:2])
            parts.append(part)
            at += run
        return parts

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
