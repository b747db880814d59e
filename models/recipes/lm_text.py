"""What a language model is trained on: texts in the public domain from packages, and transcripts of speech.

Each source is a list of passages; a passage is a list of words in lower case, as error rates compare them. Sentences that
share six words in a row with an excluded text are cut out, and split the passage there.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from . import text_pool
from .targets import normalise_target, score_words
from .text_pool import ngrams, sword, transcripts

PACKAGES = [*text_pool.PACKAGES, "sword-text-web", "dict-wn", "wamerican-small"]

ABBREVIATIONS = {
    "mr": "mister", "mrs": "missus", "dr": "doctor", "st": "saint", "capt": "captain", "col": "colonel",
    "gen": "general", "lieut": "lieutenant", "rev": "reverend", "messrs": "messieurs", "esq": "esquire", "etc": "et cetera",
}  # fmt: skip
_ABBREVIATED = re.compile(rf"\b({'|'.join(ABBREVIATIONS)})\b\.?", re.I)


def world_english_bible(root: Path) -> list[str]:
    return sword(root, "engWEB2015eb", r"</(?:p|lg|chapter)>|<chapter[^>]*>")


def wordnet(root: Path) -> list[str]:
    """Definitions and examples, each once."""
    text = gzip.decompress(next(root.rglob("wn.dict.dz")).read_bytes()).decode("utf-8", "replace")
    text = re.sub(r"\[(?:syn|ant|also):.*?\]", "", text, flags=re.S)
    senses = re.split(r"\n\S.*\n|\n +(?:n|v|adj|adv)? ?\d+: ", text)
    return sorted({part for sense in senses for part in re.split(r'[;"]', " ".join(sense.split())) if " " in part.strip()})


SOURCES = {name: read for name, (read, _) in text_pool.SOURCES.items()} | {
    "world-english-bible": world_english_bible, "wordnet": wordnet,
}  # fmt: skip


def passages(paragraphs: list[str], banned: set[tuple[str, ...]]) -> list[list[str]]:
    """Paragraphs as words. A sentence with a digit or a symbol, or that shares words with a banned text, splits its own."""
    found: list[list[str]] = []
    for paragraph in paragraphs:
        flat = _ABBREVIATED.sub(lambda m: ABBREVIATIONS[m[1].lower()], " ".join(paragraph.split()))
        open_passage: list[str] = []
        for sentence in re.split(r"(?<=[.?!])['\"”’)]*\s+", flat):
            text = normalise_target(sentence)
            words = score_words(text) if text else []
            if not words or ngrams(words) & banned:
                found.append(open_passage)
                open_passage = []
            else:
                open_passage += words
        found.append(open_passage)
    return [passage for passage in found if len(passage) > 1 and not ngrams(passage) & banned]


def read_sources(root: Path, corpora: list[Path], banned: set[tuple[str, ...]]) -> dict[str, list[list[str]]]:
    """Passages by source."""
    sources = {name: passages(read(root), banned) for name, read in SOURCES.items()}
    return sources | {"transcripts": passages(transcripts(corpora), banned)}


def dictionary(root: Path) -> set[str]:
    """Words that count as words even where the texts do not have them."""
    words = next(root.rglob("american-english-small")).read_text(encoding="utf-8").split()
    return {word for word in words if re.fullmatch(r"[a-z]+('[a-z]+)?", word)}
