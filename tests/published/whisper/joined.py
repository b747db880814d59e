"""Long recordings of read speech: `python tests/published/whisper/joined.py --set CORPUS --out FOLDER [--minutes 25] [--from 0]`.

Joins utterances of a corpus (sounds and `refs.tsv`) until they fill the minutes, readers in turn, nothing between them. Writes
`joined.flac`, `joined.txt` (the words), and `parts/` with the same utterances one by one and their `refs.tsv`.
"""

import argparse
import random
from pathlib import Path

import numpy
import soundfile

RATE = 16_000


def read(path: Path) -> numpy.ndarray:
    samples, rate = soundfile.read(path, dtype="float32")
    if rate != RATE:
        raise SystemExit(f"{path}: {rate} Hz, 16,000 are needed")
    return samples


def choose(corpus: Path, minutes: float, first: int) -> list[tuple[str, str]]:
    """Utterances of all readers in turn; another `first` gives others."""
    rows = [line.split("\t") for line in (corpus / "refs.tsv").read_text().splitlines()]
    readers: dict[str, list[tuple[str, str]]] = {}
    for name, text in rows:
        readers.setdefault(name.split("-")[0], []).append((name, text))
    random.Random(1).shuffle(order := sorted(readers))
    turns = max(map(len, readers.values()))
    in_turn = [readers[reader][turn] for turn in range(turns) for reader in order if turn < len(readers[reader])]
    chosen, seconds = [], 0.0
    for name, text in in_turn[first:]:
        if seconds >= 60 * minutes:
            break
        seconds += soundfile.info(corpus / name).duration
        chosen.append((name, text))
    return chosen


def join(corpus: Path, out: Path, minutes: float, first: int = 0) -> Path:
    """Writes the recording unless it is there; returns its path."""
    recording = out / "joined.flac"
    if recording.exists():
        return recording
    (out / "parts").mkdir(parents=True, exist_ok=True)
    chosen = choose(corpus, minutes, first)
    sounds, refs = [], []
    for name, text in chosen:
        sounds.append(read(corpus / name))
        part = Path(name).with_suffix(".flac").name
        soundfile.write(out / "parts" / part, sounds[-1], RATE)
        refs.append(f"{part}\t{text}\n")
    (out / "parts" / "refs.tsv").write_text("".join(refs))
    (out / "joined.txt").write_text("\n".join(text for _, text in chosen) + "\n")
    soundfile.write(recording, numpy.concatenate(sounds), RATE)
    print(f"{recording}: {len(chosen)} utterances, {sum(map(len, sounds)) / RATE / 60:.1f} min")
    return recording


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--from", type=int, default=0, dest="first", help="number of the first utterance")
    arguments = parser.parse_args()
    join(arguments.set, arguments.out, arguments.minutes, arguments.first)
