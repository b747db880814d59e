"""Words to pieces: WordPiece over lower-cased text without accents, with every digit as 0; and the case of a word.

`train_tokenizer` makes `tokenizer.json`; `Pieces` reads it and splits a word as the `tokenizers` library does, without it, so that
processes that only train need numpy and torch alone.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path

PAD, UNKNOWN, START, END, MASK = 0, 1, 2, 3, 4
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def train_tokenizer(words: Iterator[str], size: int, out: Path) -> None:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=True, lowercase=True),
        normalizers.Replace(Regex("[0-9]"), "0"),
    ])  # fmt: skip
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    alphabet = list("abcdefghijklmnopqrstuvwxyz0'-.,?!@#$%&*()/:;_\"+=£€")
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=SPECIAL, initial_alphabet=alphabet, limit_alphabet=100, show_progress=False
    )
    tokenizer.train_from_iterator(words, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", START), ("[SEP]", END)])
    tokenizer.save(str(out), pretty=False)


def case_of(word: str) -> int:
    """Token type of a word: 0 no capital, 1 the first letter alone, 2 all letters and at least two, 3 others."""
    letters = [letter for letter in word if letter.isalpha()]
    upper = [letter.isupper() for letter in letters]
    if not any(upper):
        return 0
    if len(upper) > 1 and all(upper):
        return 2
    return 1 if upper[0] and not any(upper[1:]) else 3


class Pieces:
    """Splits words; remembers what it has split."""

    def __init__(self, path: Path):
        self.vocabulary: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]
        self._known: dict[str, tuple[int, ...]] = {}

    def __call__(self, word: str) -> tuple[int, ...]:
        found = self._known.get(word)
        if found is None:
            found = self._known[word] = tuple(piece for chunk in chunks(normalise(word)) for piece in self._split(chunk))
            if len(self._known) > 400_000:
                self._known.clear()
        return found

    def _split(self, chunk: str) -> list[int]:
        pieces, start = [], 0
        while start < len(chunk):
            mark = "##" if start else ""
            end = next((end for end in range(len(chunk), start, -1) if mark + chunk[start:end] in self.vocabulary), None)
            if end is None or len(chunk) > 100:
                return [UNKNOWN]
            pieces.append(self.vocabulary[mark + chunk[start:end]])
            start = end
        return pieces


def normalise(word: str) -> str:
    if word.isascii():
        text = word.lower()
    else:
        text = "".join(letter for letter in unicodedata.normalize("NFD", word) if unicodedata.category(letter) != "Mn").lower()
    return "".join("0" if letter in "0123456789" else letter for letter in text if not unicodedata.category(letter).startswith("C"))


def chunks(word: str) -> list[str]:
    """Cut at punctuation, which stands alone."""
    found, open_chunk = [], ""
    for letter in word:
        if is_punctuation(letter) or letter.isspace() or is_ideograph(letter):
            found += [open_chunk, "" if letter.isspace() else letter]
            open_chunk = ""
        else:
            open_chunk += letter
    return [chunk for chunk in (*found, open_chunk) if chunk]


def is_punctuation(letter: str) -> bool:
    return unicodedata.category(letter).startswith("P") or letter in "$+<=>^`|~"


def is_ideograph(letter: str) -> bool:
    return 0x4E00 <= ord(letter) <= 0x9FFF or 0x3400 <= ord(letter) <= 0x4DBF or 0xF900 <= ord(letter) <= 0xFAFF
