"""The words and the lines that sentences are made of.

Names and towns are the lists of the engine's finders (`engine/src/text/analysis/lists`), and names invented after them by an
order-3 Markov chain over letters. Nouns, verbs, adjectives and definitions are WordNet's, lines of text those of public-domain books, of
the messages of the presidents of the United States to Congress and of a corpus of chat. Words of the evaluation set are left out.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter, defaultdict
from pathlib import Path

from .. import text_pool
from .names import Lexicon, save
from .wordpiece import normalise

HERE = Path(__file__).parent
LISTS = HERE.parents[2] / "engine/src/text/analysis/lists"
BOOKS = ["austen", "moby-dick", "sherlock-holmes", "tom-sawyer", "messages-to-congress"]
TITLES = "Mr|Mrs|Miss|Dr|Sir|Lady|Captain|Colonel|Admiral|Lord|Inspector|Major|Judge|Aunt|Uncle|Cousin|Old|Young|Poor"
# Capitals within a sentence that belong to nobody.
CAPITALS = set(
    "I I'm I'll I'd I've God Lord Heaven Congress Government American Americans United States State Nation Nations Union President "
    "Constitution Federal House Senate Representatives Republic Treaty Treasury Army Navy War Department Secretary Supreme Court English "
    "French German Spanish Christian Christmas Easter Sunday Monday Tuesday Wednesday Thursday Friday Saturday January February March "
    "April May June July August September October November December Mr Mrs Miss Sir Madam Lady Dr OK TV Internet".split()
)
HELD_OUT = HERE / "dev.jsonl"


def read_list(name: str) -> list[str]:
    return [line.split("\t")[0] for line in (LISTS / name).read_text(encoding="utf-8").splitlines() if line]


def held_out_words() -> set[str]:
    """Words of the evaluation set's names and places that are no words of the dictionary."""
    lines = [json.loads(line) for line in HELD_OUT.read_text(encoding="utf-8").splitlines()]
    spans = [e["text"] for line in lines for e in line["entities"] if e["label"] in ("PERSON_NAME", "LOCATION", "ORGANIZATION")]
    words = {word for span in spans for word in re.findall(r"[^\W\d_]+", span.lower())}
    return words - set(read_list("words.txt"))


def invent(names: list[str], count: int, rng: random.Random) -> list[str]:
    """Names that are on no list, by an order-3 chain over letters."""
    following: dict[str, Counter[str]] = defaultdict(Counter)
    for name in names:
        padded = f"^^^{name}$"
        for at in range(3, len(padded)):
            following[padded[at - 3 : at]][padded[at]] += 1
    known, made = set(names), set()
    tables = {state: (list(counts), list(counts.values())) for state, counts in following.items()}
    while len(made) < count:
        name, state = "", "^^^"
        while (letter := rng.choices(*tables[state])[0]) != "$":
            name, state = name + letter, state[1:] + letter
        if 3 <= len(name) <= 14 and name not in known and re.search("[aeiouy]", name):
            made.add(name)
    return sorted(made)


def wordnet_lists(root: Path, words: set[str]) -> dict[str, list[str]]:
    """Nouns, adjectives and verbs of WordNet that the small dictionary has, with what endings make of them, and its rarer nouns."""
    text = gzip.decompress(next(root.rglob("wn.dict.dz")).read_bytes()).decode("utf-8", "replace")
    kinds: dict[str, set[str]] = {"n": set(), "adj": set(), "v": set()}
    rare = set()
    for head, kind in re.findall(r"^([a-z]{3,})\n +(n|adj|v) ", text, re.M):
        if head in words:
            kinds[kind].add(head)
        elif kind == "n":
            rare.add(head)
    nouns, verbs = sorted(kinds["n"]), sorted(kinds["v"])

    def ending(stems: list[str], *rules: tuple[str, str]) -> list[str]:
        """Words of the dictionary that are a stem less the first of a rule and with the second."""
        made = {stem.removesuffix(cut) + added for stem in stems for cut, added in rules if stem.endswith(cut)}
        return sorted(made & words)

    plural = (("", "s"), ("", "es"), ("y", "ies"))
    return {"noun": nouns, "adj": sorted(kinds["adj"]), "verb": verbs, "nouns": ending(nouns, *plural), "verbs": ending(verbs, *plural),
            "verbed": ending(verbs, ("", "ed"), ("e", "ed"), ("y", "ied")), "verbing": ending(verbs, ("", "ing"), ("e", "ing")),
            "rare": sorted(rare)}  # fmt: skip


def slots() -> dict[str, list[str]]:
    rows = (line.split(": ", 1) for line in (HERE / "patterns/slots.txt").read_text(encoding="utf-8").splitlines() if line)
    return {name: values.split("|") for name, values in rows}


def chat_lines(root: Path) -> list[str]:
    """Sentences of ChatterBot's English corpus; it is YAML of one shape."""
    found = []
    for path in sorted((root / "chatterbot_corpus/data/english").glob("*.yml")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"^(?:- )? *- +(.+)$", line):
                found.append(match[1].strip("'\" "))
    return found


def is_plain(sentence: str) -> bool:
    """No capital within it but those that belong to nobody."""
    words = sentence.split()
    capital = [word for word in words[1:] if re.match(r"\W*[A-Z]", word)]
    return 2 < len(words) <= 40 and all(
        re.sub(r"\W+$|'s$", "", re.sub(r"^\W+", "", word)).rstrip(".,;:!?'") in CAPITALS for word in capital
    )


class Cast:
    """The people of the books, and other names that a sentence may begin with."""

    def __init__(self, given: list[str], family: list[str], known: set[str], common: set[str]):
        """`known` are names of the lists, `common` the words of the dictionary."""
        self._people, self._known, self._common = set(given) | set(family), known, common
        first, last = "|".join(given), "|".join(family)
        self._name = re.compile(
            rf"\b(?:(?P<title>{TITLES})\.? (?:(?:{first}) )?(?:{last}|{first})|(?P<full>(?:{first}) (?:{last}))|(?P<given>{first})|{last})\b"
        )

    def begins(self, sentence: str) -> bool:
        """True if the first word is a name, and no word of the dictionary that is none of the books' people."""
        first = re.sub(r"'s$|\W+$", "", re.sub(r"^\W+", "", sentence.split()[0])).rstrip(".,;:!?'")
        return first in self._people or (normalise(first) in self._known and first.lower() not in self._common)

    def slotted(self, sentence: str) -> str | None:
        """A sentence whose only names are those of the books' people, with slots in their places."""

        def slot(name: re.Match[str]) -> str:
            if name["title"]:
                return f"{name['title']} {{{'G' if name['title'] in ('Aunt', 'Uncle', 'Cousin', 'Old', 'Young', 'Poor') else 'F'}}}"
            return "{FULL}" if name["full"] else "{G}" if name["given"] else "{F}"

        text, count = self._name.subn(slot, sentence)
        # Two slots side by side are a name of another form.
        rest = re.sub(rf"\b(?:{TITLES}) (?=x)", "", re.sub(r"\{\w+\}", "x", text))
        return text if count and "x x" not in rest and is_plain(rest) and not self.begins(rest) else None


def sentences(paragraphs: list[str]) -> list[str]:
    marks = str.maketrans({"’": "'", "“": '"', "”": '"', "_": "", "*": ""})
    flat = (text.translate(marks).replace("--", " - ") for text in paragraphs)
    return [sentence.strip() for text in flat for sentence in text_pool.split_sentences(text)]


def text_lines(root: Path, rng: random.Random, most: int, cast: Cast) -> dict[str, list[str]]:
    """Sentences without names, whose pronouns a name may replace; those with one place after a preposition; those with names of people."""
    lists = {"plain": set(), "placed": set(), "peopled": set()}
    towns = set(read_list("cities.txt")) | {"bath", "lyme", "england", "brighton"}
    for name in BOOKS:
        found = [s for s in sentences(text_pool.SOURCES[name][0](root)) if 12 < len(s) < 260 and s[0].isupper() and s[-1] in ".?!\"'"]
        rng.shuffle(found)
        lists["plain"] |= set([s for s in found if is_plain(s) and not cast.begins(s)][:most])
        lists["peopled"] |= {text for s in found if (text := cast.slotted(s))}
        for s in found:
            place = re.search(r"\b(?:in|to|from|at|near|for) ([A-Z][a-z]+)(?=[ ,.;])", s)
            if place and place[1].lower() in towns and is_plain(s.replace(place[1], "x")) and not cast.begins(s):
                lists["placed"].add(s.replace(place[1], "{L}"))
    lists["plain"] |= {s for s in chat_lines(root) if is_plain(s) and not cast.begins(s)}
    for table in sorted((HERE.parent / "text").glob("*.tsv")):
        rows = [line.split("\t", 1)[1] for line in table.read_text(encoding="utf-8").splitlines()]
        lists["plain"] |= {s for s in sentences(rows) if s[:1].isupper() and is_plain(s) and not cast.begins(s)}
    return {name: sorted(lines) for name, lines in lists.items()}


def definitions(root: Path, most: int, rng: random.Random) -> list[str]:
    from ..lm_text import wordnet

    found = [s for s in wordnet(root) if 3 <= len(s.split()) <= 25 and re.fullmatch(r"[a-zI ,.'()-]+", s)]
    return sorted(rng.sample(found, min(most, len(found))))


def prepare(packages: Path, out: Path, seed: int = 5) -> None:
    """Writes `lexicon.json.xz`."""
    rng = random.Random(seed)
    hidden = held_out_words()
    given, surnames, towns, by_hand = (
        [entry for entry in entries if not set(re.findall(r"[a-z]+", entry)) & hidden]
        for entries in (*map(read_list, ("given.txt", "surnames.txt", "cities.txt")), " ".join(read_list("names-by-hand.txt")).split())
    )
    given += 3 * by_hand  # few, of many origins
    lists = wordnet_lists(packages, set(read_list("words.txt"))) | slots()
    files = {"J": "occupations", "M": "conditions", "X": "procedures", "D": "drugs", "N": "nationalities"}
    for slot, name in files.items():
        lists[slot] = sorted(set(lists.get(slot, [])) | set(read_list(f"{name}.txt")))
    lists["word"] = sorted(set(read_list("words.txt")) - set(read_list("given.txt")) - hidden)
    names = set(given) | set(surnames) | set(towns) | set(read_list("given.txt")) | set(read_list("surnames.txt"))
    terms = {word for slot in files for term in lists[slot] for word in (term, term.split()[0])}
    lists["ordinary"] = sorted((set(read_list("words.txt")) | set(lists["rare"])) - names - terms - hidden)
    beliefs = [line.split("\t") for line in (LISTS / "beliefs.txt").read_text(encoding="utf-8").splitlines() if line]
    lists["R"] = [belief for belief, label in beliefs if label == "RELIGION"]
    lists["V"] += [belief for belief, label in beliefs if label == "POLITICAL_AFFILIATION"]
    lexicon = Lexicon(given, surnames, towns, invent(given, 12000, rng), invent(surnames, 25000, rng), invent(towns, 12000, rng), lists)
    cast = Cast(lists.pop("cast_given"), lists.pop("cast_family"), set(given) | set(surnames), set(read_list("words.txt")))
    lists |= text_lines(packages, rng, 60000, cast) | {"defined": definitions(packages, 110000, rng)}
    out.mkdir(parents=True, exist_ok=True)
    save(lexicon, out / "lexicon.json.xz")
    for name, entries in [*((key, value) for key, value in vars(lexicon).items() if key != "lists"), *lists.items()]:
        print(f"{name}: {len(entries)}")
