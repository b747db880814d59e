"""Labelled sentences: patterns filled with invented values, and lines of text whose pronouns names replace.

A pattern is a line of `patterns/`: `(this|that)` is a choice, `{SLOT}` a value. A sentence comes out as words with labels, written
(cased, punctuated, digits) or as it is heard (lower case, no punctuation, numbers as words), or in between, as recognisers write.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path

from .names import Lexicon
from .values import Piece, Values

PATTERNS = Path(__file__).parent / "patterns"
FILLERS = ["um", "uh", "er", "you know", "like", "I mean", "well", "so", "yeah", "okay", "actually", "sort of"]
# What comes before "her" when it is no possessive: it stands alone.
ALONE = set(
    "to and that the a an in on at with for from as if when but or by of what how where why about into out up down over off away so very "
    "again then there here too now".split()
)
# How often a pattern of names gets none, and what stands in their slots then.
NAMELESS = 0.1
NAMED = ("people", "places")
NAMED_SLOTS = {"G", "F", "FULL", "P", "K", "L", "ORG", "NATURE", "SCHOOL", "HOSPITAL", "TEAM"}
PERSONS = (
    ["{ordinary}", "the {ordinary}", "the {noun}", "the {adj} {noun}", "my {rel}", "your {rel}", "a {ordinary}", "a {adj} {ordinary}"]
    + ["{nouns}", "the {modern}", "(he|she|they|you|it|we|someone|somebody|everyone|nobody|everybody|who|this|that|people)"]
    + ["{verbing}", "{adj}", "(mate|sir|madam|love|dear|darling|honey|folks|guys|team|boss|buddy|kid|doctor|officer|captain)"]
)  # fmt: skip
PLACES = (
    ["the {ordinary}", "the {place}", "a {adj} {noun}", "the {adj} {ordinary}", "{ordinary}", "{nouns}", "the {noun}", "{adj}"]
    + ["(here|there|town|home|abroad|the north|the south|the city|the country|the village|a farm|downtown|the coast|work|school)"]
)  # fmt: skip
# Recognisers write these with capitals.
CAPITAL = ("PERSON_NAME", "LOCATION", "ORGANIZATION", "NATIONALITY", "RELIGION", "EVENT")


@dataclass(frozen=True)
class Choice:
    """One of several patterns."""

    ways: list[list]


def parse(text: str) -> list:
    """A pattern as texts, slots (`{NAME}`) and choices, nested."""
    stack: list[list[list]] = [[[]]]
    for token in re.findall(r"[(|)]|\{\w+\}|[^(|){}]+", text):
        if token == "(":
            stack.append([[]])
        elif token == "|" and len(stack) > 1:
            stack[-1].append([])
        elif token == ")":
            ways = stack.pop()
            stack[-1][-1].append(Choice(ways))
        else:
            stack[-1][-1].append(token)
    if len(stack) != 1:
        raise ValueError(f"brackets of the pattern {text}")
    return stack[0][0]


def read_patterns(name: str) -> list[list]:
    lines = (PATTERNS / name).read_text(encoding="utf-8").splitlines()
    return [parse(line) for line in lines if line and not line.startswith("#")]


Words = list[tuple[str, str]]
"""Words with a label each: `B-` and `I-` of a label, or `O`."""


class Sentences:
    """Draws labelled sentences."""

    SHARES = {
        "people": 0.19, "places": 0.12, "personal": 0.1, "harmless": 0.19, "words": 0.02, "plain": 0.13, "named": 0.06, "peopled": 0.06,
        "placed": 0.01, "defined": 0.12,
    }  # fmt: skip

    def __init__(self, lexicon: Lexicon, rng: random.Random):
        self._lists, self._rng, self._values = lexicon.lists, rng, Values(lexicon, rng)
        self._patterns = {name: read_patterns(f"{name}.txt") for name in ("people", "places", "personal", "harmless", "words")}
        self._kinds, self._weights = list(self.SHARES), list(self.SHARES.values())

    def draw(self, reading: str) -> Words:
        """One sentence in a reading: `written`, `heard`, `lower`, `cased` or `capitals`."""
        rng = self._rng
        kind = rng.choices(self._kinds, self._weights)[0]
        if kind in self._patterns:
            pieces = self._filled(rng.choice(self._patterns[kind]), kind in NAMED and rng.random() < NAMELESS)
        elif kind == "named":
            pieces = self._named(rng.choice(self._lists["plain"]))
        elif kind in ("placed", "peopled"):
            pieces = self._filled(re.split(r"(\{\w+\})", rng.choice(self._lists[kind])), rng.random() < NAMELESS)
        else:
            pieces = [(text := rng.choice(self._lists[kind]), text, None)]
        return self._read(pieces, reading)

    def _filled(self, parts: list, nameless: bool = False) -> list[Piece]:
        """A pattern with values; `nameless` with ordinary words in the place of names."""
        pieces: list[Piece] = []
        for part in parts:
            if isinstance(part, Choice):
                pieces += self._filled(self._rng.choice(part.ways), nameless)
            elif nameless and part[1:-1] in NAMED_SLOTS:
                pieces += self._nameless(part[1:-1])
            elif part.startswith("{"):
                pieces += self._values.draw(part[1:-1])
            else:
                pieces.append((part, part, None))
        return pieces

    def _nameless(self, slot: str) -> list[Piece]:
        """What stands where a name could: it is the word that tells, not the place."""
        rng = self._rng
        ways = PERSONS if slot in ("G", "F", "FULL", "P", "K") else PLACES
        return self._filled(parse(rng.choice(ways)))

    def _named(self, line: str) -> list[Piece]:
        """A line with names in the place of pronouns."""
        rng = self._rng
        words = re.split(r"(\s+)", line)
        name = {who: self._values.draw(rng.choice(["G", "G", "P", "FULL", "K"])) for who in ("he", "she")}
        chance = 0.4 + 0.6 * rng.random()
        pieces: list[Piece] = []
        for at, word in enumerate(words):
            core = re.match(r"(\W*)(\w+)(('s|'d|'ll)?)(\W*)$", word)
            low = core[2].lower() if core else ""
            following = words[at + 2].lower() if at + 2 < len(words) else ""
            alone = bool(core and core[5]) or not following or following.strip(".,;:!?") in ALONE
            if not core or low not in ("he", "him", "his", "she", "her", "they", "them") or rng.random() > chance:
                pieces.append((word, word, None))
                continue
            own = low == "his" or (low == "her" and not alone)
            mark = "'s" if own and not core[5] else core[3]
            if low in ("they", "them"):
                if core[3]:
                    pieces.append((word, word, None))
                    continue
                middle: list[Piece] = [*self._values.draw("G"), (" and ", " and ", None), *self._values.draw("G")]
            elif rng.random() < 0.12:
                # A person without a name.
                whose, slot = rng.choice([("my ", "rel"), ("the ", "noun")])
                middle = [(whose, whose, None), *self._values.draw(slot)]
            else:
                middle = name["he" if low in ("he", "him", "his") else "she"]
            pieces += [(core[1], core[1], None), *middle, (mark + core[5], mark + core[5], None)]
        return pieces

    def _read(self, pieces: list[Piece], reading: str) -> Words:
        rng = self._rng
        heard = reading in ("heard", "cased") or (reading == "lower" and rng.random() < 0.5)
        text, spans = "", []
        for written, said, label in pieces:
            shown = shown_as((written, said, label), reading, heard)
            if label:
                spans.append((len(text), len(text) + len(shown), label))
            text += shown
        words: Words = []
        opened = -1
        for match in re.finditer(r"\S+", text):
            word, start, end = match.group(), match.start(), match.end()
            inside = next((n for n, span in enumerate(spans) if span[0] < end and start < span[1]), -1)
            label = "O" if inside < 0 else ("I-" if inside == opened else "B-") + spans[inside][2]
            opened = inside
            if reading == "heard":
                word = heard_word(word)
                if not word:
                    continue
            elif reading == "lower":
                word = word.lower()
            elif reading == "capitals":
                word = word.upper()
            words.append((word, label))
        if reading in ("written", "cased") and words:
            first = words[0][0]
            words[0] = (first[:1].upper() + first[1:], words[0][1])
        if reading == "written" and rng.random() < 0.06:
            words = self._capitals(words)
        if reading in ("heard", "cased") and rng.random() < 0.25:
            words = self._hesitated(words, reading)
        return words

    def _capitals(self, words: Words) -> Words:
        """Capitals of words that are no names, as in headings, agendas and contracts: of a few, or of all but the short ones."""
        few = self._rng.random() < 0.5
        return [
            (word[:1].upper() + word[1:], label)
            if label == "O" and (self._rng.random() < 0.2 if few else len(word) > 3) else (word, label)
            for word, label in words
        ]  # fmt: skip

    def _hesitated(self, words: Words, reading: str) -> Words:
        """Fillers and words said twice, as in talk."""
        rng = self._rng
        at = rng.randrange(len(words) + 1)
        if at < len(words) and words[at][1].startswith("I-"):
            return words
        if 0 < at < len(words) and words[at][1] == "O" and rng.random() < 0.3:
            return words[:at] + [words[at]] + words[at:]
        filler = rng.choice(FILLERS).lower().split()
        if reading == "cased" and rng.random() < 0.6:
            filler[-1] += ","
        return words[:at] + [(word, "O") for word in filler] + words[at:]


def shown_as(piece: Piece, reading: str, heard: bool) -> str:
    """A piece in a reading in which numbers are heard, or written."""
    written, said, label = piece
    digits = any(letter.isdigit() for letter in written)
    if not heard:
        return written
    if reading == "cased" and label in CAPITAL:
        return said.title() if digits else written
    return said if label or digits or (reading == "heard" and said != written.lower()) else written


def heard_word(word: str) -> str:
    """A word in lower case without the punctuation around it; empty if nothing is left."""
    word = re.sub(r"[^\w'&%$£€@/.:-]+|^['.:-]+|[.:]+$|(?<!s)'+$", "", word.lower())
    return word if word.endswith("s'") else word.rstrip("'")


READINGS = {"written": 0.4, "heard": 0.36, "cased": 0.12, "lower": 0.1, "capitals": 0.02}


def talk(sentences: Sentences, rng: random.Random, least: int) -> Words:
    """Sentences one after another, in one reading, of at least so many words."""
    reading = rng.choices(list(READINGS), list(READINGS.values()))[0]
    words: Words = []
    while len(words) < least:
        words += sentences.draw(reading)
    return words
