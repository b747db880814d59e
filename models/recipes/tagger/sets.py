"""Evaluation sets of what others wrote: the templates of the package presidio-evaluator (MIT), and harmless sentences.

Names, towns and streets are those of the package mimesis (MIT) that are on no list of the training, of seventeen languages written in
Latin letters; nothing of either package is trained on. Nor is The Devil's Dictionary or the Jargon File, both in the public domain.

`marked.tsv` names the sentences of the harmless sets that do hold something that redaction hides by default: the set, the first twelve
digits of the SHA-256 of the sentence, the label. All sentences were read for it, before anything was measured on the marked sets. Marked are
names of persons, of history and of tales, too, places that are no countries, what is said of one person's work and health, and sentences in
another language. Terms that bear a name ("Murphy's Law") and what is said of a kind of people are not.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
import subprocess
import sys
from pathlib import Path

from .. import text_pool
from .heard import digits_heard
from .lexicon import invent, is_plain, read_list, sentences, slots
from .names import Lexicon, capitalise
from .sentences import heard_word
from .values import Piece, Values
from .wordpiece import normalise

MARKED = Path(__file__).parent / "marked.tsv"
TESTS = Path(__file__).parents[3] / "tests"
MODERATION, PII = TESTS / "fixtures/moderation/harmless.txt", TESTS / "pii/generate.py"
LOCALES = ["en", "cs", "da", "de", "es", "et", "fi", "fr", "hr", "hu", "it", "nl", "no", "pl", "pt", "sv", "tr"]
SLOTS = {
    "phone_number": "PHONE", "credit_card_number": "CC", "email": "EMAIL", "url": "URL", "age": "AGE", "iban": "BANK", "ssn": "SSN",
    "ip_address": "IP", "us_driver_license": "DL", "date_of_birth": "DOB", "job": "J", "nationality": "N", "nation_woman": "N",
    "nation_plural": "N", "zipcode": "ZIP", "postcode": "ZIP", "year": "year", "date_time": "date", "day_of_week": "day",
    "country": "country",
}  # fmt: skip


def latin(names: list[str], known: set[str]) -> list[str]:
    """Names in Latin letters that are not known, as they are written."""
    return [
        name
        for name in names
        if re.fullmatch(r"[^\W\d_]+(?:[ '-][^\W\d_]+)*", name) and normalise(name).isascii() and normalise(name) not in known
    ]


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in parts for text in strings(part)]


class Filler:
    """Values of templates, with names that were never trained on."""

    def __init__(self, root: Path, rng: random.Random):
        known = set(read_list("given.txt")) | set(read_list("surnames.txt")) | set(" ".join(read_list("names-by-hand.txt")).split())
        towns = set(read_list("cities.txt"))
        self._rng, self._known = rng, {"given": [], "family": [], "town": [], "street": []}
        for locale in LOCALES:
            person = json.loads((root / f"mimesis/datasets/{locale}/person.json").read_text(encoding="utf-8"))
            address = json.loads((root / f"mimesis/datasets/{locale}/address.json").read_text(encoding="utf-8"))
            found = {"given": latin(strings(person["names"]), known), "family": latin(strings(person["surnames"]), known),
                     "town": latin(strings(address["city"]), towns),
                     "street": latin(strings(address["street"]["name"]), set())}  # fmt: skip
            for kind, names in found.items():
                rng.shuffle(names)
                self._known[kind].append(names)
        lists = slots() | {"noun": read_list("words.txt"), "N": read_list("nationalities.txt")}
        self._kinds = lists["firm_kind"]
        given, family = self._all("given"), self._all("family")
        self._values = Values(
            Lexicon(given, family, self._all("town"), invent(given, 50, rng), invent(family, 50, rng), ["x"], lists), rng
        )

    def _all(self, kind: str) -> list[str]:
        return [normalise(name) for names in self._known[kind] for name in names]

    def _one(self, kind: str) -> str:
        """Every language as often."""
        return self._rng.choice(self._rng.choice([names for names in self._known[kind] if names]))

    def draw(self, slot: str) -> list[Piece]:
        rng = self._rng
        if slot in SLOTS:
            pieces = self._values.draw(SLOTS[slot])
            return [(written, said, "COUNTRY") for written, said, _ in pieces] if slot == "country" else pieces
        if slot.startswith("prefix"):
            return [("Mr.", "mister", None)]
        number = str(rng.randint(1, 250))
        named = {
            "person": lambda: f"{self._one('given')} {self._one('family')}", "street_name": lambda: f"{self._one('street')} Street",
            "city": lambda: self._one("town"), "building_number": lambda: number, "secondary_address": lambda: f"Apt. {number}",
            "organization": lambda: f"{self._one('family')} {rng.choice(self._kinds)}",
            "state_abbr": lambda: rng.choice(["TX", "OH", "NY", "WA"]),
            "address": lambda: f"{number} {self._one('street')} Street, {self._one('town')}",
        }  # fmt: skip
        if slot in named:
            label = {"person": "PERSON_NAME", "organization": "ORGANIZATION"}.get(slot, "LOCATION")
            text = named[slot]()
        elif slot.startswith(("first_name", "last_name", "name")):
            label = "PERSON_NAME"
            text = (
                self._one("given")
                if slot.startswith("first")
                else self._one("family")
                if slot.startswith("last")
                else named["person"]()
            )
        else:
            raise SystemExit(f"a slot of a template that is not known: {slot}")
        said = re.sub(
            r"\d+",
            lambda digits: digits_heard(rng, digits.group()),
            text.replace("Apt.", "apartment").replace(",", "").lower(),
        )
        return [(capitalise(rng, text), said, label)]


def templates(root: Path, seed: int = 11) -> list[dict]:
    """Every template once as written and once as heard."""
    rng = random.Random(seed)
    filler = Filler(root, rng)
    lines = []
    for template in (root / "presidio_evaluator/data_generator/raw_data/templates.txt").read_text(encoding="utf-8").splitlines():
        for form in ("written", "spoken"):
            text, entities = "", []
            for part in re.split(r"(\{\{\w+\}\})", template.replace("\\n", " ")):
                if not part.startswith("{{"):
                    words = re.split(r"(\s+)", part)
                    text += part if form == "written" else "".join(word if word.isspace() else heard_word(word) for word in words)
                    continue
                for written, said, label in filler.draw(part[2:-2]):
                    shown = written if form == "written" else said
                    if label:
                        entities.append({"text": shown, "label": label, "start_char": len(text), "end_char": len(text) + len(shown)})
                    text += shown
            lines.append({"text": text, "form": form, "entities": entities})
    return lines


def harmless(root: Path, seed: int = 4) -> list[str]:
    """Definitions of The Devil's Dictionary without capitals within them, and the sentences that moderation must not flag."""
    found = [
        sentence for sentence in sentences(text_pool.devils_dictionary(root))
        if sentence[:1].isupper() and is_plain(sentence) and not re.search(r"\d|[A-Z]{2}", sentence) and 5 < len(sentence.split()) < 30
    ]  # fmt: skip
    random.Random(seed).shuffle(found)
    return found[:250] + MODERATION.read_text(encoding="utf-8").splitlines()


def jargon(root: Path, seed: int = 4) -> list[str]:
    """Sentences of the Jargon File, with the capitals that they have, but without digits, formulas and abbreviations."""
    entries = re.split(r"\n(?=\S)", gzip.decompress(next(root.rglob("jargon.dict.dz")).read_bytes()).decode("utf-8"))
    quotes = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"'})
    paragraphs = (re.sub("[{}]", "", part).translate(quotes) for entry in entries for part in re.split(r"\n\s*\n", entry)[1:])
    every = {sentence.strip() for paragraph in paragraphs for sentence in text_pool.split_sentences(paragraph)}
    found = [
        sentence for sentence in sorted(every)
        if sentence[:1].isupper() and sentence[-1] in ".?!" and 5 < len(sentence.split()) < 30
        and not re.search(r"[/\\<>=_|^~*@#\[\]()]|\d|\b[A-Z]{2}|See\b|--|\bcf\b|\.\.\.|[^\x00-\x7f]", sentence)
    ]  # fmt: skip
    random.Random(seed).shuffle(found)
    return found[:420]


def readings(texts: list[str]) -> list[dict]:
    """Harmless sentences as written, and those without digits as heard."""
    lines = []
    for text in texts:
        lines.append({"text": text, "form": "harmless written", "entities": []})
        heard = " ".join(filter(None, map(heard_word, text.split())))
        if not re.search(r"\d", heard):
            lines.append({"text": heard, "form": "harmless spoken", "entities": []})
    return lines


def unmarked(name: str, texts: list[str]) -> list[str]:
    """Sentences of a set that `marked.tsv` does not name.

    Raises: SystemExit where it names one that is not there: the set is another than the one that was read.
    """
    rows = (line.split("\t") for line in MARKED.read_text(encoding="utf-8").splitlines())
    marked = {digest for of, digest, _ in rows if of == name}
    digests = {text: hashlib.sha256(text.encode()).hexdigest()[:12] for text in texts}
    if not marked <= set(digests.values()):
        raise SystemExit(f"{MARKED.name} names sentences that are not in the set {name}")
    return [text for text in texts if digests[text] not in marked]


def rules(seed: int = 21) -> list[dict]:
    """The sentences that the rules of the finders were corrected on, of `tests/pii`."""
    made = subprocess.run([sys.executable, PII, str(seed)], capture_output=True, text=True, check=True).stdout.splitlines()
    lines = []
    for line in map(json.loads, made):
        text, form = line["text"], line["form"]
        spans = [(span["start"], span["end"], span["label"]) for span in line["spans"]]
        if form == "harmless":
            form += " written" if text[0].isupper() else " spoken"
        entities = [{"text": text[start:end], "label": label, "start_char": start, "end_char": end} for start, end, label in spans]
        lines.append({"text": text, "form": form, "entities": entities})
    return lines


def write(root: Path, out: Path) -> None:
    """Writes the sets; of the harmless ones `NAME.jsonl` without the marked sentences, `NAME-all.jsonl` with them."""
    out.mkdir(parents=True, exist_ok=True)
    sets = {"templates": templates(root), "rules": rules()}
    for name, texts in (("harmless", harmless(root)), ("jargon", jargon(root))):
        sets |= {name: readings(unmarked(name, texts)), f"{name}-all": readings(texts)}
    for name, lines in sets.items():
        (out / f"{name}.jsonl").write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
        print(f"{name}: {len(lines)} lines")
