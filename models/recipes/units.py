"""Sentences that nobody has said, in readers' own voices: unit selection over log-mels.

A reader's recordings are known by their phones (`recipes.words`). A sentence of a book is looked up as phones, and covered by the
longest pieces found among one reader's; pieces meet in the middle of a phone, where speech changes least (Hunt and Black 1996,
"Unit selection in a concatenative speech synthesis system"). So a model hears real voices say words, and orders of words, that
their few hours of recordings do not hold, and learns to spell.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .features import FRAMES_PER_SECOND, Stored
from .aligned_mix import AlignedUtterance
from .phones import Pronunciations

PAUSE = 0  # among phones, whose ids begin at 1
NONE = -1  # between utterances
LONGEST = 16  # phones of a piece
TRIED = 24  # places that a piece is taken from, of which the one with the longest run in common is likeliest
LEAST_S = 300  # of a reader's recordings
PAUSE_FRAMES = 30  # between the phones of two words; more is a pause
PAUSES = {",": 0.5, ";": 0.8, ":": 0.8, ".": 1.0, "?": 1.0, "!": 1.0}  # how likely a reader is to pause there


class Voice:
    """The phones of one reader's recordings, with where each one's middle is."""

    def __init__(self, utterances: list[tuple[Stored, list[int], list[int]]]):
        """Utterances with their phones and the middles of these, in frames."""
        self.utterances = [stored for stored, _, _ in utterances]
        self.seconds = sum(stored.frames for stored in self.utterances) / FRAMES_PER_SECOND
        end = np.full(LONGEST, NONE)
        self.phones = np.concatenate([part for _, phones, _ in utterances for part in (phones, end)]).astype(np.int64)
        self.middles = np.concatenate([part for _, _, middles in utterances for part in (middles, end)]).astype(np.int64)
        lengths = [len(phones) + LONGEST for _, phones, _ in utterances]
        self.of_utterance = np.repeat(np.arange(len(utterances)), lengths)
        self.frames_a_phone = self.seconds * FRAMES_PER_SECOND / max(1, int((self.phones != NONE).sum()))
        pairs = self.phones[:-1] * 1000 + self.phones[1:]
        pairs[(self.phones[:-1] == NONE) | (self.phones[1:] == NONE)] = NONE
        order = np.argsort(pairs, kind="stable")
        keys, firsts = np.unique(pairs[order], return_index=True)
        self._places = dict(zip(keys.tolist(), np.split(order, firsts[1:]), strict=True))
        self._places.pop(NONE, None)

    def say(self, phones: np.ndarray, rng: np.random.Generator) -> list[Stored] | None:
        """Pieces from the middle of the first phone to the middle of the last; none where a phone is never said."""
        pieces, at = [], 0
        while at + 1 < len(phones):
            places = self._places.get(int(phones[at] * 1000 + phones[at + 1]))
            if places is None:
                halves = self._halves(phones[at : at + 2], rng)
                if halves is None:
                    return None
                pieces += halves
                at += 1
                continue
            tried = places if len(places) <= TRIED else places[rng.integers(len(places), size=TRIED)]
            wanted = phones[at : at + LONGEST]
            same = self.phones[tried[:, None] + np.arange(len(wanted))] == wanted
            runs = np.cumprod(same, axis=1).sum(1)
            best = int((runs + 2 * rng.random(len(runs))).argmax())
            first, run = int(tried[best]), int(runs[best]) - 1
            pieces.append(self._piece(first, int(self.middles[first]), int(self.middles[first + run])))
            at += run
        return pieces

    def _piece(self, place: int, first: int, end: int) -> Stored:
        stored = self.utterances[int(self.of_utterance[place])]
        return replace(stored, first=stored.first + first, frames=max(1, end - first))

    def _halves(self, pair: np.ndarray, rng: np.random.Generator) -> list[Stored] | None:
        """Two phones that the reader never says together: the end of the one and the beginning of the other."""
        pieces = []
        for phone, (before, after) in zip(pair, ((0, 1), (-1, 0)), strict=True):
            places = np.flatnonzero(self.phones == phone)
            # next to a pause, half of the way to its middle would be silence
            beside = self.phones[places + before + after]
            places = places[beside > PAUSE]
            if not len(places):
                return None
            place = int(rng.choice(places))
            middle = (int(self.middles[place + before]) + int(self.middles[place + after])) // 2
            ends = (int(self.middles[place]), middle) if after else (middle, int(self.middles[place]))
            pieces.append(self._piece(place, *ends))
        return pieces


def with_pauses(known: AlignedUtterance, words: list[list[int]]) -> tuple[list[int], list[int]] | None:
    """An utterance's phones and their middles, with the pauses around it and within it."""
    if len(known.middles) != sum(map(len, words)):
        return None
    phones, middles = [PAUSE], [0]
    number = 0
    for word, bound in zip(words, known.bounds, strict=False):
        next_middles = known.middles[number : number + len(word)]
        if number and next_middles[0] - middles[-1] > PAUSE_FRAMES:
            phones.append(PAUSE)
            middles.append(min(max(bound, middles[-1]), next_middles[0]))
        phones += word
        middles += next_middles
        number += len(word)
    return [*phones, PAUSE], [*middles, known.stored.frames]


class Units:
    """Draws sentences and readers who are made to say them."""

    def __init__(self, utterances: list[AlignedUtterance], sentences: list[str], pronunciations: Pronunciations):
        by_reader: dict[tuple[str, str], list[tuple[Stored, list[int], list[int]]]] = {}
        for known in utterances:
            words = [pronunciations.phones(word) for word in known.words]
            found = None if known.stored.synthetic or not all(words) else with_pauses(known, words)
            if found:
                by_reader.setdefault((known.stored.corpus, known.stored.speaker), []).append((known.stored, *found))
        voices = (Voice(said) for said in by_reader.values())
        self.voices = [voice for voice in voices if voice.seconds >= LEAST_S]
        pronounced = ((sentence, [pronunciations.phones(word) for word in sentence.split()]) for sentence in sentences)
        self.sentences = [(sentence, words) for sentence, words in pronounced if words and all(words)]

    def draw(self, frames: int, rng: np.random.Generator) -> tuple[tuple[Stored, ...], str] | None:
        """A reader's pieces of about `frames` in all, and what they say; none where no sentence finds room."""
        voice = self.voices[int(rng.integers(len(self.voices)))]
        phones, said = [PAUSE], []
        for _ in range(12):
            sentence, words = self.sentences[int(rng.integers(len(self.sentences)))]
            more = self._phones(sentence, words, rng)
            if (len(phones) + len(more)) * voice.frames_a_phone <= frames:
                phones += more
                said.append(sentence)
        pieces = voice.say(np.array(phones), rng) if said else None
        if pieces is None or sum(piece.frames for piece in pieces) > 1.1 * frames:
            return None
        return tuple(pieces), " ".join(said)

    @staticmethod
    def _phones(sentence: str, words: list[list[int]], rng: np.random.Generator) -> list[int]:
        """A sentence's phones and the pauses at its marks, one at its end."""
        phones = []
        for word, spoken in zip(sentence.split(), words, strict=True):
            phones += spoken
            if rng.random() < PAUSES.get(word[-1], 0.0):
                phones.append(PAUSE)
        return phones if phones[-1] == PAUSE else [*phones, PAUSE]


def blend(pieces: list[np.ndarray], colours: list[np.ndarray]) -> np.ndarray:
    """End to end as if of one recording: each piece's recording has a mean spectrum, its colour `[mels]`, and all get the same."""
    common = np.mean(colours, axis=0)
    return np.concatenate([piece + (common - colour) for piece, colour in zip(pieces, colours, strict=True)])
