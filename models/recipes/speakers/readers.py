"""Whose voice an utterance is, and whose voices training never hears."""

from __future__ import annotations

import zlib
from collections import defaultdict
from fractions import Fraction

from ..batches import HELD_OUT, NOISE
from ..features import VARIANT, MelStore, Stored

# Playing a recording slower or faster moves pitch and formants together: each speed makes speakers of its own.
SPEEDS = (Fraction(5, 6), Fraction(10, 11), Fraction(1), Fraction(11, 10), Fraction(6, 5))
ONE_READER = {"kathleen-en": "kathleen", "ljspeech-en": "ljspeech"}
HELD_OUT_PART = 16  # about one speaker in so many is held out, besides those of the other recipes
LEAST_FRAMES = 120


def reader(utterance: Stored) -> str:
    """The person, by the first part of the file's name; corpora of LibriSpeech share their numbers."""
    return ONE_READER.get(utterance.recorded, utterance.speaker)


def held_out(name: str) -> bool:
    return name in HELD_OUT or (name not in ONE_READER.values() and zlib.crc32(name.encode()) % HELD_OUT_PART == 0)


def stored_as(corpus: str, speed: Fraction) -> str:
    return corpus if speed == 1 else f"{corpus}{VARIANT}{float(speed):.3f}"


def training_voices(store: MelStore) -> dict[str, list[Stored]]:
    """Utterances by voice, which is a reader at a speed; in a fixed order."""
    voices: dict[str, list[Stored]] = defaultdict(list)
    for utterance in store.utterances:
        if utterance.recorded != NOISE and utterance.frames >= LEAST_FRAMES and not held_out(reader(utterance)):
            voices[reader(utterance) + utterance.corpus.removeprefix(utterance.recorded)].append(utterance)
    return dict(sorted(voices.items()))


def held_out_readers(store: MelStore, most: int) -> dict[str, list[Stored]]:
    """At most so many utterances of each held-out reader, spread over what there is, at the speed they were read at."""
    readers: dict[str, list[Stored]] = defaultdict(list)
    for utterance in store.utterances:
        if utterance.recorded == utterance.corpus != NOISE and held_out(reader(utterance)):
            readers[reader(utterance)].append(utterance)
    return {name: own[:: max(1, len(own) // most)][:most] for name, own in sorted(readers.items())}
