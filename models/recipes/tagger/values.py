"""Invented values for the slots of patterns, as written and as heard.

A slot gives pieces: written text, heard text, and the label, or none for what is not personal.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from .heard import below_hundred, digits_heard, number_heard, ordinal, year_heard
from .names import LETTERS, Lexicon, Names, capitalise

VARIABLES = ["x", "y", "z", "n", "m", "k", "x and y", "i and j", "n x n", "m by n", "p and q", "n plus one", "x squared"]

Piece = tuple[str, str, str | None]

MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


class Values:
    """Draws values for slots."""

    def __init__(self, lexicon: Lexicon, rng: random.Random):
        self._names, self._rng = Names(lexicon, rng), rng
        name, names = self._name, self._names
        self._makers: dict[str, Callable[[], list[Piece]]] = {
            "P": self._person, "G": lambda: name(names.given()), "F": lambda: name(names.family()), "FULL": lambda: name(names.full()),
            "K": self._titled, "L": lambda: self._place(names.town()), "ADDR": lambda: [(*names.address(), "LOCATION")],
            "STREET": lambda: [(*names.street(), "LOCATION")],
            "ZIP": self._zip, "NATURE": lambda: self._place(names.form("nature")), "ORG": lambda: self._firm(names.organisation()),
            "SCHOOL": lambda: self._firm(names.form("school")), "HOSPITAL": lambda: self._firm(names.form("hospital")),
            "TEAM": lambda: self._firm(f"{names.town()} {names.one('team_end')}"), "AGE": self._age, "DOB": self._birth,
            "PHONE": self._phone, "EMAIL": self._email, "USER": self._user, "PW": self._password, "PIN": self._pin, "ACC": self._account,
            "CC": self._card, "EXP": self._expiry, "CVV": lambda: self._digits("CREDIT_CARD_CVV", rng.choice([3, 3, 3, 4])),
            "SSN": self._social, "PASS": lambda: self._code("PASSPORT_NUMBER", ["9", "A8", "AA7", "A7"]),
            "DL": lambda: self._code("DRIVERS_LICENSE", ["A7", "A8", "A12", "9", "AA6"]),
            "HC": lambda: self._code("HEALTHCARE_NUMBER", ["10", "AAA9", "8", "7", "A9"]),
            "VI": lambda: self._code("VEHICLE_ID", ["AAA4", "AA2AAA", "7AAA", "A3AAA", "AAA3", "AA4A"]), "BANK": self._bank,
            "IP": self._ip, "URL": self._url, "J": lambda: self._listed("J", "OCCUPATION"),
            "N": lambda: self._listed("N", "NATIONALITY", True),
            "R": lambda: self._listed("R", "RELIGION", True), "V": lambda: self._listed("V", "POLITICAL_AFFILIATION", True),
            "M": lambda: [(*self._condition(), "MEDICAL_CONDITION")], "X": lambda: self._listed("X", "MEDICAL_PROCESS"),
            "D": lambda: self._listed("D", "DRUG"), "EVENT": lambda: self._event(),
            "day": lambda: self._plain(rng.choice(DAYS)), "month": lambda: self._plain(rng.choice(MONTHS)), "time": self._time,
            "n": self._small, "big": self._big, "money": self._money, "date": self._date, "year": self._year,
            "letter": lambda: self._plain(rng.choice(LETTERS)), "initial": lambda: self._name(rng.choice(LETTERS).lower()),
            "noun": lambda: self._word("noun"), "nouns": lambda: self._word("nouns"), "adj": lambda: self._word("adj"),
            "Noun": lambda: self._word("noun", True), "Nouns": lambda: self._word("nouns", True), "Adj": lambda: self._word("adj", True),
            "Verbing": lambda: self._word("verbing", True), "F0": lambda: self._plain(names.written(names.family())),
            "N0": lambda: self._plain(self._names.one("N").capitalize()), "M0": lambda: [(*self._condition(), None)],
            "D0": lambda: self._plain(self._names.one("D")), "J0": lambda: self._plain(self._names.one("J")), "abbr": self._abbreviation,
            "coined": lambda: self._plain(self._coined()), "ident": self._identifier, "product": self._product,
            "variable": lambda: self._plain(rng.choice([rng.choice(LETTERS), rng.choice(LETTERS).lower(), rng.choice(VARIABLES)])),
            "ordinary": lambda: self._plain(self._coined() if rng.random() < 0.04 else names.one("ordinary")),
            "ref": lambda: [(*self._code("", ["5", "6", "7", "8", "AA5", "A6", "4", "10"])[0][:2], None)],
        }  # fmt: skip

    def draw(self, slot: str) -> list[Piece]:
        maker = self._makers.get(slot)
        if maker is None:
            written, _, heard = self._names.one(slot).partition("=")
            return [(written, heard or written.lower(), None)]
        return maker()

    # people, places and organisations

    def _name(self, name: str) -> list[Piece]:
        heard = name.replace("-", " ") if self._rng.random() < 0.6 else name
        return [(self._names.written(name), heard, "PERSON_NAME")]

    def _titled(self) -> list[Piece]:
        titles = self._names.lexicon.lists["title"]
        title, heard = self._rng.choice(titles[:14] if self._rng.random() < 0.7 else titles).split("=")
        chance = self._rng.random()
        name = self._names.family() if chance < 0.6 else self._names.given() if chance < 0.78 else self._names.full()
        return [(title, heard, None), (" ", " ", None), *self._name(name)]

    def _person(self) -> list[Piece]:
        chance = self._rng.random()
        if chance < 0.42:
            return self._name(self._names.given())
        if chance < 0.82:
            return self._name(self._names.full())
        return self._titled() if chance < 0.93 else self._name(self._names.family())

    def _place(self, name: str) -> list[Piece]:
        return self._named(name, "LOCATION")

    def _firm(self, name: str) -> list[Piece]:
        return self._named(name, "ORGANIZATION")

    def _named(self, name: str, label: str) -> list[Piece]:
        heard = name
        for form in self._names.lexicon.lists["firm_form"]:
            written, said = form.split("=")
            heard = heard.removesuffix(written) + said if heard.endswith(f" {written}") else heard
        heard = heard.replace("&", "and").replace("St.", "saint").replace(".", "").lower()
        if self._rng.random() < 0.5:
            heard = heard.replace("-", " ")
        if name.startswith("the "):
            return [("the ", "the ", None), (name[4:], heard[4:], label)]
        return [(name, heard, label)]

    def _zip(self) -> list[Piece]:
        code = self._names.postcode()
        return [(code, digits_heard(self._rng, code), "LOCATION")]

    # numbers and codes

    def _many(self, count: int) -> str:
        return "".join(self._rng.choice("0123456789") for _ in range(count))

    def _digits(self, label: str, count: int) -> list[Piece]:
        number = self._many(count)
        return [(number, digits_heard(self._rng, number), label)]

    def _code(self, label: str, forms: list[str]) -> list[Piece]:
        rng, form, text = self._rng, self._rng.choice(forms), ""
        number = ""
        for letter in form + "A":
            if letter.isdigit():
                number += letter
                continue
            text += self._many(int(number)) if number else ""
            number = ""
            text += rng.choice(LETTERS)
        text = text[:-1]
        spaced = rng.choice(["", " ", "-"]) if label in ("VEHICLE_ID", "HEALTHCARE_NUMBER", "ACCOUNT_NUMBER") else ""
        cut = len(text) // 2
        return [(f"{text[:cut]}{spaced}{text[cut:]}", digits_heard(rng, text), label)]

    def _account(self) -> list[Piece]:
        return self._code("ACCOUNT_NUMBER", ["6", "7", "8", "9", "10", "12", "AA6", "AAA5", "A7", "5", "11"])

    def _social(self) -> list[Piece]:
        number = self._many(9)
        written = self._rng.choice([f"{number[:3]}-{number[3:5]}-{number[5:]}", f"{number[:3]} {number[3:5]} {number[5:]}", number])
        return [(written, digits_heard(self._rng, number), "US_SOCIAL_SECURITY_NUMBER")]

    def _card(self) -> list[Piece]:
        number = self._rng.choice("3456") + self._many(15)
        groups = [number[at : at + 4] for at in range(0, 16, 4)]
        return [(self._rng.choice([" ", "-", ""]).join(groups), digits_heard(self._rng, number), "CREDIT_CARD_NUMBER")]

    def _expiry(self) -> list[Piece]:
        rng = self._rng
        month, year = rng.randint(1, 12), rng.randint(25, 35)
        zero = "oh " if month < 10 else ""
        said = [f"{MONTHS[month - 1].lower()} {year_heard(2000 + year)}", f"{zero}{below_hundred(month)} {below_hundred(year)}",
                f"{below_hundred(month)} slash {below_hundred(year)}"]  # fmt: skip
        written = [f"{month:02}/{year}", f"{month}/20{year}", f"{MONTHS[month - 1]} 20{year}"]
        return [(rng.choice(written), rng.choice(said), "CREDIT_CARD_EXPIRATION")]

    def _pin(self) -> list[Piece]:
        return self._digits("PASSWORD", self._rng.choice([4, 4, 4, 5, 6]))

    def _phone(self) -> list[Piece]:
        rng = self._rng
        a, b, c, d = self._many(3), self._many(3), self._many(4), self._many(2)
        written = rng.choice([f"{a}-{b}-{c}", f"({a}) {b}-{c}", f"{a} {b} {c}", f"{a}.{b}.{c}", f"+1 {a} {b} {c}", f"0{a}{d} {b}{d}0",
                              f"0{a[:2]} {c} {b}{d}", f"+{d} {a} {c}{d}", f"{b}-{c}", f"{a}{b}{c}", f"0{d}{a} {b} {b}",
                              f"+{d} {a} {d} {d} {b}"])  # fmt: skip
        said = digits_heard(rng, written)
        return [(written, f"plus {said}" if written[0] == "+" else said, "PHONE_NUMBER")]

    def _handle(self) -> tuple[str, str]:
        rng = self._rng
        given, family = self._names.given().replace("'", "").replace("-", ""), rng.choice(self._names.lexicon.surnames).replace("'", "")
        noun, number = self._names.one("noun"), self._many(rng.choice([1, 2, 2, 3, 4]))
        said = digits_heard(rng, number) if rng.random() < 0.7 else number_heard(int(number))
        return rng.choice([
            (f"{given}.{family}", f"{given} dot {family}"), (f"{given}{family}", f"{given} {family}"),
            (f"{given}{number}", f"{given} {said}"),
            (f"{given}_{family}", f"{given} underscore {family}"), (f"{given[0]}{family}", f"{given[0]} {family}"),
            (f"{noun}{number}", f"{noun} {said}"), (f"{given}-{family}{number}", f"{given} dash {family} {said}"),
            (f"{noun}_{given}", f"{noun} underscore {given}"), (f"{family}.{noun}", f"{family} dot {noun}"),
        ])  # fmt: skip

    def _email(self) -> list[Piece]:
        rng = self._rng
        local, said = self._handle()
        host = self._names.one("host") if rng.random() < 0.6 else self._names.compound().lower()
        ending = self._names.one("host_end")
        return [(f"{local}@{host}.{ending}", f"{said} at {host} dot {ending.replace('.', ' dot ')}", "EMAIL_ADDRESS")]

    def _user(self) -> list[Piece]:
        return [(*self._handle(), "USERNAME")]

    def _password(self) -> list[Piece]:
        rng = self._rng
        one, two = self._names.one("noun"), self._names.one("noun")
        number, mark = self._many(rng.choice([1, 2, 4])), rng.choice("!?#$%&*")
        names = {
            "!": "exclamation mark",
            "?": "question mark",
            "#": "hash",
            "$": "dollar sign",
            "%": "percent",
            "&": "ampersand",
            "*": "star",
        }
        said = digits_heard(rng, number)
        return [(*rng.choice([
            (f"{one}{two}{number}", f"{one} {two} {said}"), (f"{one.capitalize()}{number}{mark}", f"{one} {said} {names[mark]}"),
            (f"{one}-{two}-{number}", f"{one} dash {two} dash {said}"), (f"{one}{mark}{two}", f"{one} {names[mark]} {two}"),
            (f"{number}{one.capitalize()}", f"{said} {one}"), (f"{one} {two}", f"{one} {two}"),
            (f"{one[:3]}{number}{mark}{two[:2].upper()}", " ".join([*one[:3], said, names[mark], *two[:2]])),
        ]), "PASSWORD")]  # fmt: skip

    def _bank(self) -> list[Piece]:
        rng = self._rng
        if rng.random() < 0.5:
            country = rng.choice(["DE", "FR", "GB", "NL", "ES", "IT", "PL"])
            number = " ".join([f"{country}{self._many(2)}", *(self._many(4) for _ in range(3)), self._many(2)])
        else:
            number = rng.choice([self._many(9), f"{self._many(2)}-{self._many(2)}-{self._many(2)}", self._many(6)])
        return [(number, digits_heard(rng, number), "BANKING_INFORMATION")]

    def _ip(self) -> list[Piece]:
        parts = [str(self._rng.randint(0, 255)) for _ in range(4)]
        return [(".".join(parts), " dot ".join(digits_heard(self._rng, part) for part in parts), "IP_ADDRESS")]

    def _url(self) -> list[Piece]:
        rng = self._rng
        host, ending, path = self._names.compound().lower(), self._names.one("host_end"), self._names.one("noun")
        said = f"{host} dot {ending.replace('.', ' dot ')}"
        return [(*rng.choice([
            (f"www.{host}.{ending}", f"w w w dot {said}"), (f"https://{host}.{ending}/{path}", f"{said} slash {path}"),
            (f"{host}.{ending}", said),
        ]), "URL")]  # fmt: skip

    def _age(self) -> list[Piece]:
        age = self._rng.randint(2, 99)
        return [(str(age), below_hundred(age), "PERSON_AGE")]

    def _day_of(self, first: int, last: int) -> tuple[str, str]:
        rng = self._rng
        day, month, year = rng.randint(1, 28), rng.choice(MONTHS), rng.randint(first, last)
        number = MONTHS.index(month) + 1
        written = [f"{month} {day}, {year}", f"{day} {month} {year}", f"{number:02}/{day:02}/{year}", f"{year}-{number:02}-{day:02}",
                   f"{day}.{number}.{year}", f"the {day}th of {month} {year}", f"{month[:3]} {day} {year}"]  # fmt: skip
        said = [f"{month} {ordinal(day)} {year_heard(year)}", f"the {ordinal(day)} of {month} {year_heard(year)}",
                f"{month} {below_hundred(day)} {year_heard(year)}", f"{ordinal(day)} {month} {year_heard(year)}",
                f"{below_hundred(number)} {below_hundred(day)} {year_heard(year)}"]  # fmt: skip
        return rng.choice(written), rng.choice(said).lower()

    def _birth(self) -> list[Piece]:
        return [(*self._day_of(1925, 2020), "DATE_OF_BIRTH")]

    def _date(self) -> list[Piece]:
        return [(*self._day_of(2015, 2030), None)]

    def _time(self) -> list[Piece]:
        rng = self._rng
        hour, minute = rng.randint(1, 12), rng.choice([0, 0, 15, 30, 45, rng.randint(1, 59)])
        written = [
            f"{hour}:{minute:02}",
            f"{hour}.{minute:02}",
            f"{hour}:{minute:02} pm",
            f"{below_hundred(hour)} o'clock",
            "noon",
            "midnight",
        ]
        said = f"{below_hundred(hour)}" + (
            f" {'oh ' if minute < 10 else ''}{below_hundred(minute)}" if minute else rng.choice([" o'clock", "", " pm"])
        )
        return [(rng.choice(written), said, None)]

    def _small(self) -> list[Piece]:
        number = self._rng.randint(1, 99)
        return [(str(number) if self._rng.random() < 0.7 else below_hundred(number), below_hundred(number), None)]

    def _big(self) -> list[Piece]:
        number = self._rng.choice([self._rng.randint(100, 999), self._rng.randint(1000, 99999), 100 * self._rng.randint(10, 999)])
        return [(f"{number:,}" if self._rng.random() < 0.6 else str(number), number_heard(number), None)]

    def _money(self) -> list[Piece]:
        rng = self._rng
        number, (mark, name) = (
            rng.choice([rng.randint(1, 99), rng.randint(100, 9999)]),
            rng.choice([("$", "dollars"), ("£", "pounds"), ("€", "euros")]),
        )
        return [(f"{mark}{number}" if rng.random() < 0.6 else f"{number} {name}", f"{number_heard(number)} {name}", None)]

    def _year(self) -> list[Piece]:
        year = self._rng.randint(1850, 2030)
        return [(str(year), year_heard(year), None)]

    # words

    def _plain(self, text: str) -> list[Piece]:
        return [(text, text.lower(), None)]

    def _word(self, slot: str, capital: bool = False) -> list[Piece]:
        """One in eight nouns is of today or rare; one in fifty has a capital of its own."""
        chance = self._rng.random()
        word = self._names.one({"noun": "modern" if chance < 0.06 else "rare" if chance < 0.12 else slot}.get(slot, slot))
        capital = capital or 0.5 < chance < 0.52
        return [(word.capitalize() if capital else word, word, None)]

    def _listed(self, slot: str, label: str, capital: bool = False) -> list[Piece]:
        word = self._names.one(slot)
        return [(" ".join(part.capitalize() for part in word.split()) if capital else word, word.replace("-", " "), label)]

    def _condition(self) -> tuple[str, str]:
        """Those called after a person have a capital."""
        name = self._names.one("M")
        written = name.capitalize() if re.match(r"[a-z]+'s?\b|parkinsons|alzheimers|down ", name) else name
        return written, name.replace("-", " ").lower()

    def _abbreviation(self) -> list[Piece]:
        rng = self._rng
        chosen = rng.random() < 0.5
        return self._plain(self._names.one("abbr") if chosen else "".join(rng.choice(LETTERS) for _ in range(rng.choice([2, 3, 3, 4]))))

    def _coined(self) -> str:
        """A word that no dictionary has and that English could: "submendish", "lampbase"."""
        rng, one = self._rng, self._names.one
        stem = one(rng.choice(["noun", "noun", "verb", "adj"]))
        return rng.choice([
            lambda: one("prefix") + stem, lambda: stem.removesuffix("e") + one("suffix"), lambda: stem + one("noun"),
            lambda: f"{one('prefix')}{stem}{one('suffix')}", lambda: f"{one('prefix')}-{stem}", lambda: f"{stem}-{one('verbed')}",
        ])()  # fmt: skip

    def _identifier(self) -> list[Piece]:
        """A name in a program, and how it is said: in parts, or as one word."""
        rng, one = self._rng, self._names.one
        parts = [one(rng.choice(["noun", "tech", "verb", "adj"])).replace(" ", "").strip(".") for _ in range(rng.choice([2, 2, 3]))]
        camel = "".join(part.capitalize() for part in parts)
        written = rng.choice([camel, camel, camel[:1].lower() + camel[1:], "_".join(parts), ".".join([parts[0], camel]), "-".join(parts)])
        return [(written, " ".join(parts) if rng.random() < 0.5 else written.replace("_", " ").lower(), None)]

    def _product(self) -> list[Piece]:
        """An invented name of a program or a thing."""
        rng, names = self._rng, self._names
        name = rng.choice([names.compound, lambda: names.one("noun").capitalize(), lambda: names.one("tech").capitalize(),
                           lambda: capitalise(rng, rng.choice(names.lexicon.invented_towns))])()  # fmt: skip
        return self._plain(name + rng.choice(["", "", "", "", " Pro", " Plus", "DB", "JS", "Lab", " Studio", "OS", " Cloud"]))

    def _event(self) -> list[Piece]:
        kind = self._rng.choice(["Marathon", "Festival", "Book Fair", "Open", "Grand Prix", "Film Festival", "Summit"])
        return self._named(f"{self._names.town()} {kind}", "EVENT")
