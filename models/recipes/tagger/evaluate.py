"""How many personal words are hidden, how many hidden words are personal, and in how many harmless sentences something is hidden.

Words count, not findings: a word that touches a hidden finding is hidden, whatever the label. To hide what redaction
shows by default, an organisation say, is wrong; words of countries, which the program decides on by the sentence, are not counted.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from . import tag
from .model import Tagger
from .wordpiece import Pieces

SHOWN = {"ORGANIZATION", "EVENT", "DATE", "MONEY_AMOUNT", "LANGUAGE"}  # by default
Span = tuple[int, int, str]


def touching(word: re.Match[str], spans: list[Span]) -> list[str]:
    """Labels of the spans that share a letter with a word."""
    return [label for start, end, label in spans if start < word.end() and end > word.start()]


@dataclass
class Score:
    """Counts of words, and of harmless sentences with findings."""

    personal: int = 0
    hidden: int = 0
    right: int = 0
    sentences: int = 0
    false: int = 0
    missed: Counter = field(default_factory=Counter)
    of_label: Counter = field(default_factory=Counter)

    def add(self, text: str, gold: list[Span], found: list[Span]) -> None:
        self.sentences += 1
        self.false += bool(found)
        for word in re.finditer(r"\w\S*", text):
            within = touching(word, gold)
            if "COUNTRY" in within:
                continue
            hidden = bool(touching(word, found))
            self.personal += bool(within)
            self.hidden += hidden
            self.right += hidden and bool(within)
            if within:
                self.of_label[within[0]] += 1
                self.missed[within[0]] += not hidden

    def line(self) -> str:
        hidden, precision = 100 * self.right / max(1, self.personal), 100 * self.right / max(1, self.hidden)
        return f"{hidden:5.1f} / {precision:5.1f} % of {self.personal}"


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def hidden_only(spans: list[Span]) -> list[Span]:
    return [span for span in spans if span[2] not in SHOWN]


def of_program(program: Path, texts: list[str], tagger: Path | None) -> list[list[Span]]:
    """What `auricle analyze --pii` hides, with a tagger or without."""
    command = [str(program), "analyze", "--pii", "--lines", "--tagger", str(tagger or "off"), "-"]
    output = subprocess.run(command, input="".join(f"{text}\n" for text in texts), capture_output=True, text=True, check=True).stdout
    rows = [json.loads(line)["entities"] for line in output.splitlines()]
    if len(rows) != len(texts):
        raise SystemExit(f"{len(rows)} results for {len(texts)} lines")
    return [[(entity["start_char"], entity["end_char"], entity["label"]) for entity in row] for row in rows]


def of_tagger(model: Tagger, pieces: Pieces, texts: list[str], least: float) -> list[list[Span]]:
    found = tag.find(model, pieces, texts)
    return [[(one.start, one.end, one.label) for one in row if one.confidence >= least] for row in found]


def score(lines: list[dict], found: list[list[Span]]) -> dict[str, Score]:
    """Scores by form; `harmless written` and `harmless spoken` are forms of their own."""
    scores: dict[str, Score] = {}
    for line, spans in zip(lines, found, strict=True):
        gold = hidden_only([(e["start_char"], e["end_char"], e["label"]) for e in line["entities"]])
        scores.setdefault(line["form"], Score()).add(line["text"], gold, hidden_only(spans))
    return scores


def row(name: str, scores: dict[str, Score]) -> str:
    cells = [scores[form].line() for form in ("written", "spoken") if form in scores]
    for form in ("harmless written", "harmless spoken"):
        if form in scores:
            cells.append(f"{100 * scores[form].false / scores[form].sentences:4.1f} % of {scores[form].sentences}")
    return f"| {name} | " + " | ".join(cells) + " |"


def missed(scores: dict[str, Score]) -> str:
    labels = Counter()
    for one in scores.values():
        labels.update(one.missed)
    whole = Counter()
    for one in scores.values():
        whole.update(one.of_label)
    return ", ".join(f"{label} {count} of {whole[label]}" for label, count in labels.most_common() if count)


def evaluate(folder: Path | None, program: Path | None, sets: list[Path], least: float | None, show: bool) -> None:
    """Prints a table a set: the program without a tagger, the tagger alone at a confidence, the program with it."""
    from .model import load

    model = load(folder) if folder else None
    pieces = Pieces(folder / "tokenizer.json") if folder else None
    if folder and least is None:
        least = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("auricle_least_confidence", 0.5)
    for path in sets:
        lines = read(path)
        texts = [line["text"] for line in lines]
        found: dict[str, list[list[Span]]] = {}
        if program:
            found["program"] = of_program(program, texts, None)
        if model:
            found["tagger"] = of_tagger(model, pieces, texts, least)
        if program and model:
            found["both"] = of_program(program, texts, folder)
        print(f"{path.name}: {len(lines)} sentences")
        print("| | Written: hidden / precision | Spoken | Harmless written, false | Harmless spoken, false |\n|---|---|---|---|---|")
        for name, spans in found.items():
            print(row(name, score(lines, spans)))
        for name, spans in found.items():
            print(f"missed by {name}: {missed(score(lines, spans))}")
        if show:
            show_wrong(lines, list(found.values())[-1])


def show_wrong(lines: list[dict], found: list[list[Span]]) -> None:
    """Prints the sentences in which other words are hidden than are personal, with these words."""
    for line, spans in zip(lines, found, strict=True):
        gold = hidden_only([(e["start_char"], e["end_char"], e["label"]) for e in line["entities"]])
        wrong = []
        for word in re.finditer(r"\w\S*", line["text"]):
            inside, hidden = bool(touching(word, gold)), bool(touching(word, hidden_only(spans)))
            if inside != hidden:
                wrong.append(("missed " if inside else "hidden ") + word.group())
        if wrong:
            print(f"{line['form']}: {line['text']}\n    {', '.join(wrong)}")
