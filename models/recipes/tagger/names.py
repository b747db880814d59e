"""Invented names of people, places and organisations, as they are written."""

from __future__ import annotations

import json
import lzma
import random
from dataclasses import dataclass
from pathlib import Path

from .heard import below_hundred, digits_heard, number_heard, ordinal

SHORT_KINDS = {"Street": "St.", "Road": "Rd.", "Avenue": "Ave.", "Drive": "Dr.", "Boulevard": "Blvd.", "Lane": "Ln."}
LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"


@dataclass
class Lexicon:
    """Lists of folded words; `prepare` makes them."""

    given: list[str]
    surnames: list[str]
    towns: list[str]
    invented_given: list[str]
    invented_surnames: list[str]
    invented_towns: list[str]
    lists: dict[str, list[str]]
    """Other lists by slot: `noun`, `adj`, `J` and so on; a value is `written` or `written=heard`."""


def save(lexicon: Lexicon, path: Path) -> None:
    path.write_bytes(lzma.compress(json.dumps(vars(lexicon)).encode()))


def load(path: Path) -> Lexicon:
    return Lexicon(**json.loads(lzma.decompress(path.read_bytes())))


def capitalise(rng: random.Random, name: str) -> str:
    """A folded name as it is written."""
    return " ".join("-".join(_capitalised(rng, part) for part in word.split("-")) for word in name.split(" "))


def _capitalised(rng: random.Random, part: str) -> str:
    part = part[:1].upper() + part[1:]
    inner = 2 if part[:2] in ("O'", "D'") or (part[:2] == "Mc" and rng.random() < 0.8) else 0
    return part[:inner] + part[inner:][:1].upper() + part[inner + 1 :] if inner and len(part) > 3 else part


class Names:
    """Draws names."""

    def __init__(self, lexicon: Lexicon, rng: random.Random):
        self.lexicon, self._rng = lexicon, rng
        self._particles = set(lexicon.lists["particle"])

    def one(self, slot: str) -> str:
        return self._rng.choice(self.lexicon.lists[slot])

    # people

    def given(self) -> str:
        rng, lexicon = self._rng, self.lexicon
        return rng.choice(lexicon.given if rng.random() < 0.75 else lexicon.invented_given)

    def family(self) -> str:
        rng, lexicon = self._rng, self.lexicon
        name = rng.choice(lexicon.surnames if rng.random() < 0.72 else lexicon.invented_surnames)
        chance = rng.random()
        if chance < 0.05:
            return f"{self.one('particle')} {name}"
        if chance < 0.07:
            return f"o'{name}"
        return f"{name}-{rng.choice(lexicon.surnames)}" if chance < 0.11 else name

    def full(self) -> str:
        """Given and family name, sometimes with a second of either or an initial."""
        chance, given, family = self._rng.random(), self.given(), self.family()
        if chance < 0.8:
            return f"{given} {family}"
        if chance < 0.88:
            return f"{given} {self.given()} {family}"
        if chance < 0.92:
            return f"{given} {family} {self.family()}"
        if chance < 0.96:
            return f"{given}-{self.given()} {family}"
        return f"{given} {self._rng.choice(LETTERS).lower()} {family}"

    def written(self, name: str) -> str:
        """A person's folded name as it is written: particles in either case, initials with a dot or without."""
        low, dot = self._rng.random() < 0.7, self._rng.random() < 0.7
        words = name.split(" ")
        shown = [word if low and len(words) > 1 and word in self._particles else capitalise(self._rng, word) for word in words]
        return " ".join(f"{word}." if len(word) == 1 and dot else word for word in shown)

    # places

    def town(self) -> str:
        rng, lexicon = self._rng, self.lexicon
        chance = rng.random()
        if chance < 0.72:
            town = rng.choice(lexicon.towns)
        elif chance < 0.88:
            town = rng.choice(lexicon.invented_towns)
        else:
            town = self.one("town_form").format(rng.choice(lexicon.invented_towns if rng.random() < 0.7 else lexicon.surnames))
        return capitalise(rng, town)

    def landmark(self) -> str:
        """What streets, valleys and beaches are called after: a surname, a town, a word."""
        rng, lexicon = self._rng, self.lexicon
        chance = rng.random()
        if chance < 0.4:
            return capitalise(rng, rng.choice(lexicon.surnames))
        if chance < 0.55:
            return capitalise(rng, rng.choice(lexicon.towns))
        if chance < 0.75:
            return self.compound()
        return capitalise(rng, self.one("noun") if chance < 0.9 else f"{self.one('firm_start')} {self.one('firm_end')}")

    def compound(self) -> str:
        return self.one("firm_start").capitalize() + self.one("firm_end")

    def form(self, slot: str) -> str:
        """A form of a list, such as `University of {L}`, with names in its slots."""
        form = self.one(slot)
        makers = {
            "{L}": self.town,
            "{F}": lambda: self.written(self.family()),
            "{G}": lambda: self.written(self.given()),
            "{W}": self.landmark,
        }
        for mark, make in makers.items():
            if mark in form:
                form = form.replace(mark, make())
        return form

    def street(self) -> tuple[str, str]:
        """A street, and how it is said."""
        rng = self._rng
        chance = rng.random()
        if chance < 0.1:
            street = self.one("street_form").format(self.landmark())
            return street, street.lower()
        if chance < 0.17:
            number = rng.randint(1, 99)
            ending = "th" if 10 < number < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
            heard = ordinal(number) if number < 31 else f"{below_hundred(number)}th"
            kind, side = rng.choice(["Street", "Avenue"]), rng.choice(["", "", "East ", "West ", "North "])
            return f"{side}{number}{ending} {kind}", f"{side}{heard} {kind}".lower()
        kinds = self.lexicon.lists["street_kind"]
        kind, name = rng.choice(kinds[:5] if rng.random() < 0.6 else kinds), self.landmark()
        written = SHORT_KINDS[kind] if kind in SHORT_KINDS and rng.random() < 0.1 else kind
        return f"{name} {written}", f"{name} {kind}".lower()

    def address(self) -> tuple[str, str]:
        """A street and a number, with a flat, a town, a state and a code or without, and how it is said."""
        rng = self._rng
        if rng.random() < 0.04:
            box = str(rng.randint(10, 9999))
            return f"P.O. Box {box}", f"p o box {digits_heard(rng, box)}"
        number = rng.choice([rng.randint(1, 99), rng.randint(1, 99), rng.randint(100, 999), rng.randint(1000, 9999)])
        heard = number_heard(number) if number < 100 or rng.random() < 0.3 else digits_heard(rng, str(number))
        letter = rng.choice("ABCD") if rng.random() < 0.1 else ""
        street, said = self.street()
        written, said = f"{number}{letter} {street}", f"{heard}{letter and ' ' + letter.lower()} {said}"
        if rng.random() < 0.2:
            unit, kind = rng.randint(1, 40), rng.choice(["Flat", "Apartment", "Unit", "Suite", "Apt", "Room"])
            parts = [(written, said), (f"{kind} {unit}", f"{kind.lower()} {number_heard(unit)}")]
            (first, first_said), (last, last_said) = parts if rng.random() < 0.5 else parts[::-1]
            written, said = f"{first}, {last}", f"{first_said} {last_said}"
        if rng.random() < 0.55:
            town = self.town()
            written, said = f"{written}{rng.choice([',', ',', ''])} {town}", f"{said} {town.lower()}"
            if rng.random() < 0.4:
                state = self.one("state")
                written, said = f"{written}, {state}", f"{said} {state.lower()}"
            if rng.random() < 0.4:
                code = self.postcode()
                written, said = f"{written} {code}", f"{said} {digits_heard(rng, code)}"
        return written, said.replace("-", " ")

    def postcode(self) -> str:
        rng = self._rng
        if rng.random() < 0.6:
            return "".join(rng.choice("0123456789") for _ in range(5))
        letters = "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 2)))
        return f"{letters}{rng.randint(1, 29)} {rng.randint(1, 9)}{rng.choice(LETTERS)}{rng.choice(LETTERS)}"

    # organisations

    def organisation(self) -> str:
        rng = self._rng
        name, kind = self.written(self.family()), self.one("firm_kind")
        forms = {
            "known": 0.12, "pair": 0.1, "person": 0.23, "compound": 0.23, "invented": 0.08, "town": 0.08, "the": 0.04,
            "legal": 0.05, "bare": 0.07,
        }  # fmt: skip
        form = rng.choices(list(forms), list(forms.values()))[0]
        if form == "known":
            return self.one("known_firm")
        if form == "pair":
            return f"{name} {rng.choice(['&', 'and'])} {self.written(self.family())}"
        if form == "person":
            return f"{name} {kind}"
        if form == "compound":
            return f"{self.compound()} {kind}"
        if form == "invented":
            return f"{capitalise(rng, rng.choice(self.lexicon.invented_towns))} {kind}"
        if form == "town":
            return f"{self.town()} {rng.choice(['Credit Union', 'Council', 'Mutual', 'Gazette', 'Chamber of Commerce', 'Times', kind])}"
        if form == "the":
            return f"the {self.landmark()} {rng.choice(['Trust', 'Foundation', 'Project', 'Group', 'Hotel', 'Theatre', 'Institute'])}"
        if form == "legal":
            return f"{name} {kind if rng.random() < 0.4 else ''} {self.one('firm_form').split('=')[0]}".replace("  ", " ")
        return self.compound()
