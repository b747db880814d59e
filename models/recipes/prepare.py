"""Decodes corpus folders and stores their log-mels.

    python -m recipes.prepare --corpus DATA/mini-librispeech-en --corpus DATA/noise --out STORE

A corpus is a folder of sound files, with `refs.tsv` (`file<TAB>text`) unless it is noise. A corpus already in the
store is left as it is. `--speed 0.87` stores it beside itself, played slower (0.87) or faster: pitch, formants and tempo
move together, so that a reader sounds like another one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import soundfile
import torch
from scipy.signal import resample_poly
from torch import multiprocessing as processes

from .features import VARIANT, log_mel
from .targets import read_table

SOUND = {".opus", ".flac", ".wav", ".ogg"}


def decode(path: Path) -> np.ndarray:
    """`[samples]` at 16 kHz, mono, f32."""
    try:
        pcm, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError:  # it refuses some very short Opus files that ffmpeg reads
        command = ["ffmpeg", "-v", "error", "-i", path, "-f", "f32le", "-ac", "1", "-ar", "16000", "-"]
        raw = subprocess.run(command, check=True, capture_output=True).stdout
        return np.frombuffer(raw, dtype=np.float32).copy()
    pcm = pcm.mean(1)
    if rate != 16000:
        common = np.gcd(rate, 16000)
        pcm = resample_poly(pcm, 16000 // common, rate // common).astype(np.float32)
    return pcm


def stored_mel(path: Path, speed: Fraction) -> np.ndarray:
    """`[frames, mels]`, f16."""
    pcm = decode(path)
    if speed != 1:
        pcm = resample_poly(pcm, speed.denominator, speed.numerator).astype(np.float32)
    return log_mel(pcm).astype(np.float16)


def start_worker() -> None:
    torch.set_num_threads(1)  # the processes are the threads


def store(
    corpus: Path, name: str, out: Path, mels_of: Callable[[list[Path]], Iterable[np.ndarray]], limit: int | None = None
) -> None:
    """Writes `<name>.mel` and, last, `<name>.index`."""
    index = out / f"{name}.index"
    if index.exists():
        return
    out.mkdir(parents=True, exist_ok=True)
    listed = read_table(corpus / "refs.tsv") if (corpus / "refs.tsv").exists() else None
    # a file that is not listed may be half written: a recipe that speaks a corpus lists the whole files
    files = sorted(p for p in corpus.iterdir() if p.suffix in SOUND and (listed is None or p.name in listed))[:limit]
    rows, first = [], 0
    with (out / f"{name}.mel").open("wb") as mels:
        for path, mel in zip(files, mels_of(files), strict=True):
            mels.write(mel.tobytes())
            rows.append(f"{path.name}\t{first}\t{len(mel)}")
            first += len(mel)
    index.write_text("\n".join(rows) + "\n", encoding="utf-8")
    print(f"{name}: {len(rows)} utterances, {first / 360000:.2f} h", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, action="append", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="at most so many utterances a corpus")
    parser.add_argument("--speed", type=Fraction, default=Fraction(1), help="stored as CORPUS@SPEED where it is not 1")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if not 0.5 <= args.speed <= 2:
        parser.error("--speed goes from 0.5 to 2")
    mel = partial(stored_mel, speed=args.speed.limit_denominator(40))
    suffix = "" if args.speed == 1 else f"{VARIANT}{float(args.speed):g}"
    if args.processes == 1:
        for corpus in args.corpus:
            store(corpus, corpus.name + suffix, args.out, lambda files: map(mel, files), args.limit)
        return
    with processes.get_context("spawn").Pool(args.processes, start_worker) as workers:
        for corpus in args.corpus:
            store(corpus, corpus.name + suffix, args.out, lambda files: workers.imap(mel, files, chunksize=8), args.limit)


if __name__ == "__main__":
    main()
