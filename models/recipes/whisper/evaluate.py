"""Words wrong of checkpoints, by the engine: by language, by the length of the window, beside noise.

    python -m recipes.whisper evaluate --auricle ../target/release/auricle --set EVAL/librispeech-sample=en --noise DATA/noise \
        --checkpoint published=base --checkpoint short=short --checkpoint starter=starter/asr-multi --work WORK

Both texts are compared in lower case, letters and digits alone. A row is a group of clips, a column a checkpoint.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import soundfile

from ..conditions import noisy, write
from ..prepare import SOUND, decode
from ..scoring import distance
from ..targets import read_table

# Lengths that divide clips into groups, s.
LENGTHS = (4.0, 10.0)
RATIO_DB = 10.0


@dataclass(frozen=True)
class Clip:
    path: Path
    text: str
    groups: tuple[str, ...]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower().replace("'", "").replace("\u2019", ""))


def clips(folder: Path, language: str, noise: Path | None, work: Path) -> list[Clip]:
    """The clips of a set, and the same beside noises."""
    texts = read_table(folder / "refs.tsv")
    found = []
    for name, text in texts.items():
        seconds = soundfile.info(folder / name).duration
        shorter = next((f"up to {limit:g} s" for limit in LENGTHS if seconds <= limit), "longer")
        found.append(Clip(folder / name, text, (f"{folder.name}, {language}", shorter)))
    if noise is not None:
        sounds = [decode(path) for path in sorted(noise.iterdir()) if path.suffix in SOUND]
        beside = work / f"{folder.name}-noise"
        if not (beside / "refs.tsv").exists():
            order = {name: sounds[number * 37 % len(sounds)] for number, name in enumerate(texts)}
            write(beside, texts, lambda name: noisy(decode(folder / name), order[name], RATIO_DB))
        label = f"{folder.name}, noise {RATIO_DB:g} dB below"
        found += [Clip(beside / name, text, (label,)) for name, text in read_table(beside / "refs.tsv").items()]
    return found


def transcribe(auricle: Path, checkpoint: Path, precision: str, paths: list[Path]) -> list[str]:
    command = [auricle, "transcribe", "--quiet", "--device", "cpu", "--precision", precision, "--model", checkpoint, "--format", "json"]
    out = subprocess.run([*command, *paths], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line)["text"] for line in out.splitlines()]


def evaluate(
    auricle: Path, sets: dict[Path, str], noise: Path | None, checkpoints: dict[str, Path], precision: str, work: Path
) -> None:
    every = [clip for folder, language in sets.items() for clip in clips(folder, language, noise, work)]
    groups = list(dict.fromkeys(group for clip in every for group in clip.groups))
    table = {group: [] for group in groups}
    for checkpoint in checkpoints.values():
        heard = transcribe(auricle, checkpoint, precision, [clip.path for clip in every])
        for group in groups:
            of_group = [(words(clip.text), words(text)) for clip, text in zip(every, heard, strict=True) if group in clip.groups]
            errors = sum(distance(said, found) for said, found in of_group)
            table[group].append(f"{100 * errors / sum(len(said) for said, _ in of_group):.2f}")
    print("| Words wrong, % | " + " | ".join(checkpoints) + " |\n|---|" + "---|" * len(checkpoints))
    for group, rates in table.items():
        print(f"| {group} | " + " | ".join(rates) + " |")
