"""Conversations of readers who never met, for speaker labels: sound files, and who speaks when as RTTM.

    python -m recipes.conversations --corpus DATA/mini-librispeech-en --corpus ... --noise DATA/noise --out SET --seed 1

The readers are those that `recipes.speakers` holds out from training, or with `--everyone` all there are, for an evaluation set. Readings are cut at their pauses into turns, none is heard
twice; people answer after a pause or a little before the other has ended, in a room, beside noise.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
import soundfile
from scipy.signal import fftconvolve

from .prepare import SOUND, decode
from .speakers.readers import ONE_READER, held_out

RATE = 16000
HOP = RATE // 100
LOUD_DB, PAUSE_FRAMES = 30.0, 30  # speech lies within so many dB of the loudest; shorter pauses belong to it
TURN_S = (1.0, 9.0)
OVERLAP_CHANCE, OVERLAP_S = 0.15, 1.2
SPEAKERS = (2, 3, 4, 5)


def speech_runs(pcm: np.ndarray) -> list[tuple[int, int]]:
    """Runs of speech in samples, by level."""
    frames = pcm[: len(pcm) // HOP * HOP].reshape(-1, HOP)
    level = 10 * np.log10((frames.astype(np.float64) ** 2).mean(1) + 1e-10)
    level = np.convolve(level, np.ones(3) / 3, "same")
    loud = np.flatnonzero(level > np.percentile(level, 98) - LOUD_DB)
    if not len(loud):
        return []
    cuts = np.flatnonzero(np.diff(loud) > PAUSE_FRAMES)
    starts, ends = np.concatenate([[loud[0]], loud[cuts + 1]]), np.concatenate([loud[cuts], [loud[-1]]]) + 1
    return [(int(a) * HOP, int(b) * HOP) for a, b in zip(starts, ends, strict=True)]


def turns_of(pcm: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """A reading cut at its pauses into turns of some length."""
    turns: list[np.ndarray] = []
    begun: int | None = None
    wanted = rng.uniform(*TURN_S)
    runs = speech_runs(pcm)
    for number, (start, end) in enumerate(runs):
        begun = start if begun is None else begun
        if end - begun >= wanted * RATE or number + 1 == len(runs):
            if end - begun >= TURN_S[0] * RATE:
                turns.append(pcm[begun:end])
            begun, wanted = None, rng.uniform(*TURN_S)
    return turns


def room(rng: np.random.Generator) -> np.ndarray:
    """A room's impulse response: noise that dies away; the direct sound is added by the caller."""
    seconds = rng.uniform(0.15, 0.6)
    tail = rng.standard_normal(int(seconds * RATE)) * np.exp(-6.9 * np.arange(int(seconds * RATE)) / (seconds * RATE))
    return (tail / np.sqrt((tail**2).sum())).astype(np.float32)


def rms(pcm: np.ndarray) -> float:
    return float(np.sqrt(np.mean(pcm.astype(np.float64) ** 2)) + 1e-9)


class Readers:
    """Held-out readers, or everyone, with the turns that nobody has heard yet."""

    def __init__(self, corpora: list[Path], rng: np.random.Generator, everyone: bool = False):
        self._rng = rng
        self._files: dict[str, list[Path]] = defaultdict(list)
        for corpus in corpora:
            for path in sorted(p for p in corpus.iterdir() if p.suffix in SOUND):
                name = ONE_READER.get(corpus.name, path.name.split("-")[0])
                if everyone or held_out(name):
                    self._files[name].append(path)

    def names(self) -> list[str]:
        return sorted(self._files)

    def turns(self, name: str, most_s: float) -> list[np.ndarray]:
        """Turns of a reader, of so many seconds together at most."""
        found, length = [], 0
        for at in self._rng.permutation(len(self._files[name])):
            for turn in turns_of(decode(self._files[name][int(at)]), self._rng):
                if length < most_s * RATE:
                    found.append(turn)
                    length += len(turn)
        return found


def conversation(readers: Readers, names: list[str], seconds: float, noise: list[Path], rng: np.random.Generator):
    """`[samples]`, and (start, end, name) in seconds."""
    share = rng.dirichlet(np.full(len(names), 3.0)) * 0.6 + 0.4 / len(names)
    waiting = {name: readers.turns(name, seconds * part * 1.3) for name, part in zip(names, share, strict=True)}
    level = {name: 0.05 * 10 ** (rng.uniform(-5, 5) / 20) for name in names}
    response, near = room(rng), {name: rng.uniform(0.05, 0.5) for name in names}
    out = np.zeros(int((seconds + 20) * RATE), dtype=np.float32)
    spoken: list[tuple[float, float, str]] = []
    at, last = int(rng.uniform(0.2, 1.5) * RATE), ""
    while at < seconds * RATE and any(waiting.values()):
        left = {n: sum(map(len, own)) for n, own in waiting.items() if own and n != last}
        if not left:
            left = {n: sum(map(len, own)) for n, own in waiting.items() if own}
        chance = np.array(list(left.values()), dtype=np.float64)
        name = list(left)[int(rng.choice(len(left), p=chance / chance.sum()))]
        turn = waiting[name].pop()
        dry = turn * (level[name] / rms(turn))
        if spoken and name != last and rng.random() < OVERLAP_CHANCE:
            at = max(0, at - int(rng.uniform(0.2, OVERLAP_S) * RATE))
        else:
            at += int(np.clip(rng.normal(0.45, 0.4), 0.05, 2.5) * RATE)
        wet = dry + near[name] * fftconvolve(dry, response)[: len(dry)].astype(np.float32)
        out[at : at + len(wet)] += wet[: len(out) - at]
        spoken += [((at + a) / RATE, (at + b) / RATE, name) for a, b in speech_runs(turn)]
        at, last = at + len(wet), name
    out = out[: at + int(0.5 * RATE)]
    if noise:
        sound = decode(noise[int(rng.integers(len(noise)))])
        sound = np.tile(sound, -(-len(out) // len(sound)))[: len(out)]
        out = out + sound * (0.05 * 10 ** (-rng.uniform(12, 30) / 20) / rms(sound))
    return out * (0.9 / max(0.9, float(np.abs(out).max()))), spoken


def rttm(name: str, spoken: list[tuple[float, float, str]]) -> str:
    rows = (f"SPEAKER {name} 1 {a:.3f} {b - a:.3f} <NA> <NA> {who} <NA> <NA>" for a, b, who in sorted(spoken))
    return "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, action="append", required=True)
    parser.add_argument("--everyone", action="store_true", help="corpora of which nothing was trained on")
    parser.add_argument("--noise", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--speakers", type=int, help="in each; 2 to 5 in turn if left out")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    readers = Readers(args.corpus, rng, args.everyone)
    noise = sorted(p for p in args.noise.iterdir() if p.suffix in SOUND) if args.noise else []
    args.out.mkdir(parents=True, exist_ok=True)
    for number in range(args.count):
        count = args.speakers or SPEAKERS[number % len(SPEAKERS)]
        names = [str(name) for name in rng.choice(readers.names(), count, replace=False)]
        pcm, spoken = conversation(readers, names, args.seconds, noise, rng)
        name = f"{args.seed}-{number:02}-{len({who for *_, who in spoken})}"
        soundfile.write(args.out / f"{name}.flac", pcm, RATE)
        (args.out / f"{name}.rttm").write_text(rttm(name, spoken), encoding="utf-8")
        print(f"{name}: {len(pcm) / RATE:.0f} s, {', '.join(names)}", flush=True)


if __name__ == "__main__":
    main()
