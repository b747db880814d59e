"""Speaks sentences with espeak-ng and flite and stores them as a corpus folder.

    python -m recipes.synthesize --pool pool.txt --out DATA/synthetic-en --hours 5

Each utterance draws its voice, rate and pitch anew. The first part of a file name is the voice, so a voice can be
held out as a speaker can. Rerunning with more --hours goes on where the folder ends.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from scipy.signal import resample_poly

from .work_queue import prefetch

SAMPLE_RATE = 16000
FLITE_VOICES = ["slt", "rms", "awb", "kal16"]
ESPEAK_ACCENTS = ["en-us", "en-gb", "en-gb-x-rp", "en-gb-scotland", "en-us-nyc"]
ESPEAK_VARIANTS = ["", "f1", "f2", "f3", "f4", "f5", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "klatt2", "Andy", "Annie",
                   "anika", "belinda", "david", "john", "linda", "michael", "steph", "zac"]  # fmt: skip
ESPEAK_SHARE = 0.4


def speak(text: str, rng: random.Random, wav: Path) -> str:
    """Writes `wav` and returns the voice's name."""
    if rng.random() < ESPEAK_SHARE:
        accent, variant = rng.choice(ESPEAK_ACCENTS), rng.choice(ESPEAK_VARIANTS)
        voice = accent + (f"+{variant}" if variant else "")
        rate, pitch = rng.randint(125, 195), rng.randint(25, 75)
        command = ["espeak-ng", "-v", voice, "-s", str(rate), "-p", str(pitch), "-w", str(wav), text]
        name = f"espeak_{accent.replace('-', '_')}_{variant or 'base'}"
    else:
        voice = rng.choice(FLITE_VOICES)
        stretch = rng.uniform(0.85, 1.25)
        mean = {"slt": 170, "rms": 95, "awb": 120, "kal16": 105}[voice] * rng.uniform(0.85, 1.2)
        command = ["flite", "-voice", voice, "--setf", f"duration_stretch={stretch:.3f}",
                   "--setf", f"int_f0_target_mean={mean:.1f}", "-o", str(wav), "-t", text]  # fmt: skip
        name = f"flite_{voice}"
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return name


def read_16k(wav: Path) -> np.ndarray:
    """The sound at 16 kHz, `[samples]`, its level set to a usual one."""
    pcm, rate = soundfile.read(wav, dtype="float32")
    if rate != SAMPLE_RATE:
        common = np.gcd(rate, SAMPLE_RATE)
        pcm = resample_poly(pcm, SAMPLE_RATE // common, rate // common).astype(np.float32)
    return pcm * (0.06 / max(1e-4, float(np.sqrt(np.mean(pcm**2)))))


def utterance(number: int, text: str) -> tuple[str, np.ndarray]:
    """The file's name and the sound of the pool's sentence `number`, always the same."""
    with tempfile.TemporaryDirectory() as scratch:
        wav = Path(scratch) / "spoken.wav"
        voice = speak(text, random.Random(number), wav)
        return f"{voice}-{number:06d}.flac", np.clip(read_16k(wav), -1, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hours", type=float, default=5.0)
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="sentences spoken at a time")
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    table = args.out / "refs.tsv"
    done = table.read_text(encoding="utf-8").splitlines() if table.exists() else []
    seconds = sum(soundfile.info(args.out / line.split("\t")[0]).duration for line in done)
    pool = args.pool.read_text(encoding="utf-8").splitlines()
    numbers = range(len(done), len(pool) if seconds < args.hours * 3600 else 0)
    # threads do: what takes time are the synthesisers, which are programs of their own
    with table.open("a", encoding="utf-8") as rows:
        for name, pcm in prefetch(lambda n: utterance(n, pool[n]), numbers, args.processes):
            soundfile.write(args.out / name, pcm, SAMPLE_RATE, subtype="PCM_16")
            rows.write(f"{name}\t{pool[int(name.rpartition('-')[2].removesuffix('.flac'))]}\n")
            rows.flush()
            seconds += len(pcm) / SAMPLE_RATE
            if seconds >= args.hours * 3600:
                break
    print(f"{seconds / 3600:.2f} h in {args.out}")


if __name__ == "__main__":
    main()
