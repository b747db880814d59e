"""The text a model is taught to write: normalisation, and where each utterance's target comes from."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

PUNCTUATION = ".,?!'-;:"
ALLOWED = re.compile(r"[A-Za-z.,?!'\-;: ]+")

_REPLACED = {
    "\u2019": "'", "\u2018": "'", "\u201b": "'", "`": "'", "\u00b4": "'",
    "\u2013": "-", "\u2012": "-", "\u2010": "-", "\u2011": "-",
    "\u2014": ", ", "\u2015": ", ", "--": ", ", "\u2026": ".", "...": ".",
    "&": " and ", "\u00e6": "ae", "\u00c6": "Ae", "\u0153": "oe", "\u0152": "Oe",
}  # fmt: skip


def normalise_target(text: str) -> str | None:
    """Text as the model writes it, or None where it holds something that is not spelled out (a digit, a symbol).

    Quotes and brackets are dropped, dashes become commas, accents are removed.
    """
    for old, new in _REPLACED.items():
        text = text.replace(old, new)
    text = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in text if not unicodedata.combining(c))
    text = re.sub(r'["“”„«»()\[\]{}_*/]', " ", text)
    text = re.sub(r"(?<![A-Za-z])'|'(?![A-Za-z])", " ", text)  # quotation marks, not apostrophes
    text = re.sub(r"\s-|-\s", " ", " " + text + " ")
    text = re.sub(r"\s+([.,?!;:])", r"\1", text)
    text = re.sub(r"([.,?!;:])[.,?!;:]+", r"\1", text)
    text = re.sub(r"([.,?!;:])(?=[A-Za-z])", r"\1 ", text)
    text = re.sub(r"\s+", " ", text).strip(" ,;:-")
    return text if text and ALLOWED.fullmatch(text) and re.search("[A-Za-z]", text) else None


def score_words(text: str) -> list[str]:
    """The words that count in the error rate: lower case, no punctuation, apostrophes kept inside words."""
    text = text.lower().replace("\u2019", "'")
    text = re.sub(r"[^a-z0-9' ]+", " ", text.replace("-", " "))
    return [w.strip("'") for w in text.split() if w.strip("'")]


def read_table(path: Path) -> dict[str, str]:
    """A `file<TAB>text` table."""
    rows = (line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines() if "\t" in line)
    return {name: text.strip() for name, text in rows}


def load_targets(corpus: Path, restored: Path | None) -> dict[str, str]:
    """Targets of one corpus folder, `{file: text}`.

    Transcripts without case and punctuation teach a model to write none, so they count only through the table
    of the same name under `restored`, and only where that table keeps every word of the transcript.
    """
    targets = {}
    transcripts = read_table(corpus / "refs.tsv")
    tables = sorted(restored.glob(f"{corpus.name}*.tsv")) if restored else []
    one_case = sum(transcript.isupper() or transcript.islower() for transcript in transcripts.values())
    cased = one_case < len(transcripts) / 2
    written = {name: text for table in tables for name, text in read_table(table).items()}
    for name, transcript in transcripts.items():
        text = written.get(name)
        if text is not None and score_words(text) != score_words(transcript):
            text = None
        if text is None and cased:
            text = transcript
        text = normalise_target(text) if text else None
        if text:
            targets[name] = text
    return targets
