"""The sounds that the recipe hears: `<name>.pcm` (16 kHz, 16-bit) and `<name>.tsv` (file, first sample, samples, language, text).

    python -m recipes.whisper prepare --data DATA --restored recipes/text --declaration UDHR --out STORE
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..batches import HELD_OUT
from ..prepare import decode
from ..targets import read_table
from ..vad import synthetic
from ..vad.sounds import HELD_OUT_NOISE, files, made_up

NOISE = "noise"
SPOKEN = "declaration"
# Of a corpus of one voice every so many-th utterance is held out.
HELD_OUT_OF_ONE_VOICE = 10
# Without text: their loss would need one.
WITHOUT_TEXT = ("speechocean-more-en", "librispeech-readers-en")


@dataclass(frozen=True)
class Sound:
    """A recording's place in a store."""

    corpus: str
    file: str
    first: int
    samples: int
    language: str
    text: str
    held_out: bool

    @property
    def voice(self) -> str:
        """Utterances of one voice may follow one another."""
        return self.corpus + self.file.split("-")[0] if self.corpus != SPOKEN else f"{SPOKEN}-{self.language}"


class Store:
    """Read access."""

    def __init__(self, folder: Path):
        self.sounds: list[Sound] = []
        self._pcm: dict[str, np.ndarray] = {}
        for index in sorted(folder.glob("*.tsv")):
            self._pcm[index.stem] = np.memmap(index.with_suffix(".pcm"), dtype=np.int16, mode="r")
            for number, line in enumerate(index.read_text(encoding="utf-8").splitlines()):
                file, first, samples, language, text = line.split("\t")
                held_out = _is_held_out(index.stem, file, number)
                self.sounds.append(Sound(index.stem, file, int(first), int(samples), language, text, held_out))

    def pcm(self, sound: Sound) -> np.ndarray:
        """`[samples]`, f32."""
        return self._pcm[sound.corpus][sound.first : sound.first + sound.samples].astype(np.float32) / 32768


def _is_held_out(corpus: str, file: str, number: int) -> bool:
    if corpus == NOISE:
        return int(Path(file).stem.rsplit("-", 1)[1]) >= HELD_OUT_NOISE
    if corpus in ("kathleen-en", "ljspeech-en", "kerstin-de", "nathalie-nl"):
        return number % HELD_OUT_OF_ONE_VOICE == 0
    return file.split("-")[0] in HELD_OUT


def write(name: str, sounds: Iterable[tuple[str, np.ndarray, str, str]], out: Path) -> None:
    """Writes a corpus unless it is there; the table last."""
    table = out / f"{name}.tsv"
    if table.exists():
        return
    rows, first = [], 0
    with table.with_suffix(".pcm").open("wb") as file:
        for name_of, pcm, text, language in sounds:
            file.write((np.clip(pcm, -1, 1) * 32767).astype(np.int16).tobytes())
            rows.append(f"{name_of}\t{first}\t{len(pcm)}\t{language}\t{text}")
            first += len(pcm)
    table.write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    print(f"{name}: {len(rows)} sounds, {first / 57_600_000:.2f} h", flush=True)


def spoken(corpus: Path, restored: Path) -> Iterable[tuple[str, np.ndarray, str, str]]:
    """Recordings with texts that have case and punctuation."""
    table = restored / f"{corpus.name}.tsv"
    texts = read_table(table if table.exists() else corpus / "refs.tsv")
    for path in files(corpus):
        if path.name in texts:
            yield path.name, decode(path), texts[path.name], corpus.name.rsplit("-", 1)[1]


def prepare(data: Path, restored: Path, declaration: Path | None, languages: Iterable[str], out: Path) -> None:
    """Stores what is not stored yet."""
    out.mkdir(parents=True, exist_ok=True)
    for corpus in sorted(path for path in data.iterdir() if path.is_dir()):
        if corpus.name == NOISE:
            write(NOISE, ((path.name, decode(path), "", "") for path in files(corpus)), out)
        elif corpus.name not in WITHOUT_TEXT:
            write(corpus.name, spoken(corpus, restored), out)
    for kind in synthetic.KINDS:
        write(kind, ((name, pcm, "", "") for name, pcm, _ in made_up(kind)), out)
    if declaration is not None:
        from .declaration import speak

        write(SPOKEN, speak(declaration, languages), out)
