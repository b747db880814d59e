"""The store of sounds: `<name>.pcm` (16 kHz, 16-bit), `<name>.labels` (a byte a 10 ms frame) and `<name>.index`.

    python -m recipes.vad prepare --corpus DATA/mini-librispeech-en --noise DATA/noise --out STORE

Synthetic sounds are made into the same store, so that training reads all of them alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..batches import HELD_OUT
from ..prepare import SOUND, decode
from . import synthetic
from .labels import FRAME, PAUSE, label

HELD_OUT_NOISE = 27  # ESC-10 files are numbered in the set's order; those from here on are held out
SYNTHETIC_CLIPS, SYNTHETIC_SECONDS = 90, 16.0
HELD_OUT_CLIPS = 10  # the last of each synthetic kind


@dataclass(frozen=True)
class Sound:
    """One recording's place in a store; `frames` of 10 ms."""

    corpus: str
    file: str
    first: int
    frames: int

    @property
    def held_out(self) -> bool:
        if self.corpus in synthetic.KINDS:
            return int(self.file) >= SYNTHETIC_CLIPS - HELD_OUT_CLIPS
        if self.corpus == "noise":
            return int(Path(self.file).stem.rsplit("-", 1)[1]) >= HELD_OUT_NOISE
        return self.file.split("-")[0] in HELD_OUT


class Sounds:
    """Read access to a store."""

    def __init__(self, folder: Path):
        self.all: list[Sound] = []
        self._pcm: dict[str, np.ndarray] = {}
        self._labels: dict[str, np.ndarray] = {}
        for index in sorted(folder.glob("*.index")):
            name = index.stem
            self._pcm[name] = np.memmap(index.with_suffix(".pcm"), dtype=np.int16, mode="r")
            self._labels[name] = np.memmap(index.with_suffix(".labels"), dtype=np.uint8, mode="r")
            for line in index.read_text(encoding="utf-8").splitlines():
                file, first, frames = line.split("\t")
                self.all.append(Sound(name, file, int(first), int(frames)))

    def pcm(self, sound: Sound, start: int = 0, frames: int | None = None) -> np.ndarray:
        """`[frames * 160]`, f32; `start` and `frames` in 10 ms."""
        count = min(frames or sound.frames, sound.frames - start)
        at = (sound.first + start) * FRAME
        return self._pcm[sound.corpus][at : at + count * FRAME].astype(np.float32) / 32768

    def labels(self, sound: Sound, start: int = 0, frames: int | None = None) -> np.ndarray:
        """`[frames]` of PAUSE, UNCERTAIN, SPEECH."""
        count = min(frames or sound.frames, sound.frames - start)
        return self._labels[sound.corpus][sound.first + start : sound.first + start + count]


def write(name: str, sounds: Iterable[tuple[str, np.ndarray, np.ndarray]], out: Path) -> None:
    """Writes a corpus of (file, `[samples]`, labels); the index last, so that what has one is whole."""
    rows, first = [], 0
    with (out / f"{name}.pcm").open("wb") as pcm_file, (out / f"{name}.labels").open("wb") as label_file:
        for file, pcm, labels in sounds:
            frames = len(labels)
            pcm_file.write((np.clip(pcm[: frames * FRAME], -1, 1) * 32767).astype(np.int16).tobytes())
            label_file.write(labels.tobytes())
            rows.append(f"{file}\t{first}\t{frames}")
            first += frames
    (out / f"{name}.index").write_text("\n".join(rows) + "\n", encoding="utf-8")
    print(f"{name}: {len(rows)} sounds, {first / 360000:.2f} h", flush=True)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in SOUND)


def spoken(corpus: Path) -> Iterable[tuple[str, np.ndarray, np.ndarray]]:
    """Recordings whose level tells speech from pause."""
    for path in files(corpus):
        pcm = decode(path)
        labels = label(pcm)
        if labels is not None:
            yield path.name, pcm, labels


def noises(folder: Path) -> Iterable[tuple[str, np.ndarray, np.ndarray]]:
    for path in files(folder):
        pcm = decode(path)
        yield path.name, pcm, np.full(len(pcm) // FRAME, PAUSE, dtype=np.uint8)


def made_up(kind: str) -> Iterable[tuple[str, np.ndarray, np.ndarray]]:
    for number in range(SYNTHETIC_CLIPS):
        pcm = synthetic.make(kind, number, SYNTHETIC_SECONDS)
        yield str(number), pcm, np.full(len(pcm) // FRAME, PAUSE, dtype=np.uint8)


def prepare(corpora: list[Path], noise: Path, out: Path) -> None:
    """Stores what is not stored yet."""
    out.mkdir(parents=True, exist_ok=True)
    wanted = {kind: made_up(kind) for kind in synthetic.KINDS}
    wanted |= {"noise": noises(noise)}
    wanted |= {corpus.name: spoken(corpus) for corpus in corpora}
    for name, sounds in wanted.items():
        if not (out / f"{name}.index").exists():
            write(name, sounds, out)
