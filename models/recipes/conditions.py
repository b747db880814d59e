"""Evaluation sets made from another: over a telephone, in noise, and said by a synthetic voice that is never trained on.

    python -m recipes.conditions --set EVAL/librispeech-sample --noise DATA/noise --out WORK/conditions

Writes the folders `telephone`, `noise-10db` and `synthetic` with their `refs.tsv`, the same each time.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
from scipy.signal import butter, resample_poly, sosfilt

from .prepare import SOUND, decode
from .synthesize import SAMPLE_RATE, read_16k
from .targets import read_table

VOICE = "awb"  # one of batches.HELD_OUT


def telephone(pcm: np.ndarray) -> np.ndarray:
    """300 to 3,400 Hz, 8 kHz, 8-bit mu-law."""
    band = butter(4, [300, 3400], "bandpass", fs=SAMPLE_RATE, output="sos")
    narrow = resample_poly(sosfilt(band, pcm), 1, 2)
    peak = max(1e-4, float(np.abs(narrow).max()))
    bent = np.sign(narrow) * np.log1p(255 * np.abs(narrow / peak)) / np.log(256)
    bent = np.round(bent * 127) / 127
    return resample_poly(np.sign(bent) * peak * np.expm1(np.abs(bent) * np.log(256)) / 255, 2, 1)


def noisy(pcm: np.ndarray, noise: np.ndarray, ratio_db: float) -> np.ndarray:
    """With `noise`, repeated as often as needed, `ratio_db` below the mean power of the speech."""
    noise = np.resize(noise, len(pcm))
    level = np.sqrt(np.mean(pcm**2) / (np.mean(noise**2) + 1e-12)) * 10 ** (-ratio_db / 20)
    return pcm + noise * level


def write(folder: Path, texts: dict[str, str], sound: Callable[[str], np.ndarray]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, text in texts.items():
        name_out = f"{Path(name).stem}.flac"
        pcm = sound(name)
        pcm = pcm / max(1.0, float(np.abs(pcm).max()))
        soundfile.write(folder / name_out, pcm, SAMPLE_RATE, subtype="PCM_16")
        rows.append(f"{name_out}\t{text}\n")
    (folder / "refs.tsv").write_text("".join(rows), encoding="utf-8")
    print(f"{folder}: {len(rows)} utterances")


def spoken(text: str) -> np.ndarray:
    with tempfile.TemporaryDirectory() as scratch:
        wav = Path(scratch) / "spoken.wav"
        subprocess.run(["flite", "-voice", VOICE, "-o", wav, "-t", text], check=True, stdout=subprocess.DEVNULL)
        return read_16k(wav)


def make(source: Path, noise: Path, out: Path) -> None:
    """The three sets, from the set `source` and a folder of sounds."""
    texts = read_table(source / "refs.tsv")
    write(out / "telephone", texts, lambda name: telephone(decode(source / name)))
    rng = np.random.default_rng(7)
    sounds = sorted(p for p in noise.iterdir() if p.suffix in SOUND)
    noises = {name: sounds[int(rng.integers(len(sounds)))] for name in texts}
    write(out / "noise-10db", texts, lambda name: noisy(decode(source / name), decode(noises[name]), 10.0))
    write(out / "synthetic", texts, lambda name: spoken(texts[name].lower()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", type=Path, required=True, help="an evaluation set")
    parser.add_argument("--noise", type=Path, required=True, help="a folder of sounds")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    make(args.set, args.noise, args.out)


if __name__ == "__main__":
    main()
