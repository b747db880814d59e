"""The recordings that the voice is trained on, with their speakers and texts.

A store is a folder with `sound.i16` (16 kHz, clips end to end) and `clips.tsv` (corpus, file, speaker, first sample,
samples, text).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..prepare import SOUND, decode
from ..targets import load_targets
from .sound import RATE, trimmed

# Speakers whose name is not the first part of the file name.
ONE_READER = {"kathleen-en": "kathleen", "ljspeech-en": "ljspeech"}
LONGEST_S, SHORTEST_S = 18.0, 0.8


@dataclass(frozen=True)
class Clip:
    corpus: str
    file: str
    speaker: str
    first: int
    samples: int
    text: str

    @property
    def seconds(self) -> float:
        return self.samples / RATE


class Clips:
    """Read access to a store."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._sound = np.memmap(folder / "sound.i16", dtype=np.int16, mode="c")  # copy on write: what torch takes for writable
        rows = (line.split("\t") for line in (folder / "clips.tsv").read_text(encoding="utf-8").splitlines())
        self.all = [Clip(corpus, file, speaker, int(first), int(n), text) for corpus, file, speaker, first, n, text in rows]

    def sound(self, clip: Clip, start: int = 0, samples: int | None = None) -> np.ndarray:
        """`[samples]`, f32, from `start` of the clip on."""
        first = clip.first + start
        end = clip.first + clip.samples if samples is None else first + samples
        return np.array(self._sound[first:end], dtype=np.float32) / 32768

    def everything(self) -> torch.Tensor:
        """All clips end to end, `[samples]`, i16."""
        return torch.from_numpy(np.asarray(self._sound))

    def seconds_by_speaker(self) -> dict[str, float]:
        seconds: dict[str, float] = {}
        for clip in self.all:
            seconds[clip.speaker] = seconds.get(clip.speaker, 0.0) + clip.seconds
        return dict(sorted(seconds.items(), key=lambda one: -one[1]))


def prepare(corpora: list[Path], restored: Path | None, out: Path, limit: int | None = None) -> None:
    """Decodes, trims and levels the clips of the corpora; those without a text with punctuation are left out."""
    out.mkdir(parents=True, exist_ok=True)
    rows, first = [], 0
    with (out / "sound.partial").open("wb") as sounds:
        for corpus in corpora:
            targets = load_targets(corpus, restored)
            files = sorted(path for path in corpus.iterdir() if path.suffix in SOUND and path.name in targets)
            seconds = 0.0
            for path in files[:limit]:
                sound = trimmed(decode(path))
                if not SHORTEST_S <= len(sound) / RATE <= LONGEST_S:
                    continue
                sounds.write((sound * 32767).astype(np.int16).tobytes())
                speaker = ONE_READER.get(corpus.name, path.name.split("-")[0])
                rows.append("\t".join((corpus.name, path.name, speaker, str(first), str(len(sound)), targets[path.name])))
                first += len(sound)
                seconds += len(sound) / RATE
            print(f"{corpus.name}: {seconds / 3600:.2f} h", flush=True)
    (out / "sound.partial").rename(out / "sound.i16")
    (out / "clips.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def held_out(clip: Clip) -> bool:
    """One clip in fifty is never trained on, chosen by its name."""
    return zlib.crc32(clip.file.encode()) % 50 == 0
