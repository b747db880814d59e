"""What the detector hears in training: speech with pauses in rooms, on lines, in noise, at any level; and no speech.

A batch is a function of the seed and the step alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.fft import irfft, next_fast_len, rfft, rfftfreq

from .labels import FRAME, PAUSE, SPEECH, UNCERTAIN
from .model import CHUNK
from .sounds import Sound, Sounds

CHUNKS = 256
SAMPLES = CHUNKS * CHUNK
GRID = 32  # samples; divides a chunk and a label's frame
RATE = 16000
TAIL = 12000  # longest reverberation
PADDED = next_fast_len(SAMPLES + TAIL, real=True)
HERTZ = rfftfreq(PADDED, 1 / RATE).astype(np.float32)
BANDS = np.linspace(0, RATE / 2, 200, dtype=np.float32)  # where colourings are drawn; between them they are straight

NOISES = {"noise": 0.42, "music": 0.2, "tones": 0.09, "coloured": 0.15, "clicks": 0.06, "babble": 0.08}


@dataclass(frozen=True)
class Batch:
    """`sound` `[rows, samples]`; `target` and `weight` `[rows, chunks]`."""

    sound: torch.Tensor
    target: torch.Tensor
    weight: torch.Tensor


def level(pcm: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.dot(pcm, pcm) / len(pcm) + 1e-14))


def decibels(value: float) -> float:
    return 10.0 ** (value / 20)


def chunk_targets(canvas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels on the grid, `[rows, samples / 32]`, to target and weight a chunk: speech where half of it is."""
    cells = canvas.reshape(len(canvas), -1, CHUNK // GRID)
    share = (cells == SPEECH).mean(2)
    unsure = (cells == UNCERTAIN).mean(2)
    # a chunk that speech only enters, or that is near the threshold, trains less
    weight = np.where((share > 0.1) & (share < 0.6), 0.4, 1.0) * (1 - 0.8 * unsure)
    return (share >= 0.5).astype(np.float32), weight.astype(np.float32)


class Scenes:
    """Draws batches from the sounds that are not held out, or from those that are."""

    def __init__(self, sounds: Sounds, seed: int, held_out: bool = False):
        self._sounds, self._seed = sounds, seed
        kept = [sound for sound in sounds.all if sound.held_out == held_out and sound.frames >= 40]
        self._noise = {kind: [s for s in kept if s.corpus == kind] for kind in NOISES}
        self._speech = [sound for sound in kept if sound.corpus not in NOISES]
        # by the square root of their length: short utterances of many speakers count too
        weight = np.sqrt([sound.frames for sound in self._speech])
        self._chance = np.cumsum(weight / weight.sum())

    def batch(self, step: int, rows: int) -> Batch:
        rng = np.random.default_rng((self._seed, step))
        made = [self._scene(rng) for _ in range(rows)]
        target, weight = chunk_targets(np.stack([canvas for _, canvas, _ in made]))
        weight *= np.array([[trust] for _, _, trust in made], dtype=np.float32) ** (1 - target)
        sound = np.stack([sound for sound, _, _ in made])
        return Batch(torch.from_numpy(sound), torch.from_numpy(target), torch.from_numpy(weight))

    def _scene(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
        """Sound, labels on the grid, and how far pauses are to be trusted."""
        canvas = np.full(SAMPLES // GRID, PAUSE, dtype=np.uint8)
        band = line(rng)
        if rng.random() < 0.24:
            sound = self._backdrop(rng, ("noise", "music", "tones", "coloured", "clicks"))
            sound = irfft(rfft(sound, PADDED) * equaliser(rng) * band, PADDED)[:SAMPLES]
            sound *= decibels(rng.uniform(-75, -8)) / level(sound)
            if rng.random() < 0.1:
                sound = np.zeros(SAMPLES)
            return _finish(sound, rng), canvas, 1.0
        speech = self._speech_canvas(rng, canvas)
        spectrum = rfft(speech, PADDED) * equaliser(rng)
        if rng.random() < 0.5:
            spectrum *= rfft(room(rng), PADDED)
        ratio = rng.uniform(-4, 30) if rng.random() < 0.85 else 60.0
        kinds = tuple(NOISES) if ratio > 3 else tuple(kind for kind in NOISES if kind != "babble")
        noise, trust = np.zeros(SAMPLES, dtype=np.float32), 1.0
        if ratio < 50:
            kind = self._kind(rng, kinds)
            noise = self._backdrop(rng, (kind,))
            trust = 0.3 if kind == "babble" else 1.0
        hiss = rng.standard_normal(SAMPLES, dtype=np.float32) * np.float32(decibels(-rng.uniform(35, 75)))
        noise = noise / max(level(noise), 1e-4) * decibels(-ratio) if ratio < 50 else noise
        mixed = irfft(spectrum * band + rfft(noise + hiss, PADDED) * equaliser(rng) * band, PADDED)[:SAMPLES]
        loudness = rng.uniform(-36, -13) if rng.random() < 0.7 else rng.uniform(-62, -36)
        spoken = np.repeat(canvas == SPEECH, GRID)
        reference = level(mixed[spoken]) if spoken.any() else level(mixed)
        return _finish(mixed * (decibels(loudness) / reference), rng), canvas, trust

    def _speech_canvas(self, rng: np.random.Generator, canvas: np.ndarray) -> np.ndarray:
        """Utterances and pauses; active speech has the level 1. Fills in the labels."""
        speech = np.zeros(SAMPLES, dtype=np.float32)
        at = 0 if rng.random() < 0.25 else int(rng.uniform(0, 3) * RATE)
        long_pauses = rng.random() < 0.4
        while at < SAMPLES - RATE // 4:
            sound = self._speech[int(np.searchsorted(self._chance, rng.random()))]
            frames = int(min(sound.frames, rng.uniform(60, 900)))
            start = int(rng.integers(0, sound.frames - frames + 1))
            pcm, labels = self._sounds.pcm(sound, start, frames), self._sounds.labels(sound, start, frames)
            active = np.repeat(labels == SPEECH, FRAME)
            if active.any():
                pcm = pcm * (decibels(rng.uniform(-4, 2)) / level(pcm[active]))
            edge = np.minimum(1, np.arange(len(pcm), dtype=np.float32) / 80)
            pcm = pcm * edge * edge[::-1]
            at -= at % GRID
            count = min(len(pcm), SAMPLES - at)
            speech[at : at + count] = pcm[:count]
            cells = np.repeat(labels, FRAME // GRID)
            canvas[at // GRID : at // GRID + count // GRID] = cells[: count // GRID]
            at += count + int((rng.uniform(0.8, 4) if long_pauses else rng.exponential(0.5)) * RATE)
        return speech

    def _kind(self, rng: np.random.Generator, kinds: tuple[str, ...]) -> str:
        chance = np.array([NOISES[kind] for kind in kinds])
        return kinds[int(rng.choice(len(kinds), p=chance / chance.sum()))]

    def _backdrop(self, rng: np.random.Generator, kinds: tuple[str, ...]) -> np.ndarray:
        """`[samples]` of one sound, at times of two, each repeated to length."""
        out = np.zeros(SAMPLES, dtype=np.float32)
        for number in range(1 if rng.random() < 0.75 else 2):
            kind = self._kind(rng, kinds)
            layer = self._babble(rng) if kind == "babble" else self._loop(rng, self._pick(rng, self._noise[kind]))
            out += layer / level(layer) * (1 if number == 0 else decibels(-rng.uniform(0, 15)))
        return out

    def _pick(self, rng: np.random.Generator, among: list[Sound]) -> Sound:
        return among[int(rng.integers(len(among)))]

    def _loop(self, rng: np.random.Generator, sound: Sound) -> np.ndarray:
        """A sound from a random place on, at a random speed, repeated with pauses at times."""
        pcm = self._sounds.pcm(sound)
        speed = rng.uniform(0.75, 1.35)
        pcm = np.interp(np.arange(0, len(pcm) - 1, speed), np.arange(len(pcm)), pcm).astype(np.float32)
        if rng.random() < 0.3:
            pcm = np.concatenate([pcm, np.zeros(int(rng.uniform(0, 3) * RATE), dtype=np.float32)])
        return np.take(pcm, np.arange(SAMPLES) + int(rng.integers(len(pcm))), mode="wrap")

    def _babble(self, rng: np.random.Generator) -> np.ndarray:
        """Five to nine voices at once."""
        out = np.zeros(SAMPLES, dtype=np.float32)
        for _ in range(int(rng.integers(5, 10))):
            voice = self._loop(rng, self._speech[int(np.searchsorted(self._chance, rng.random()))])
            out += voice / level(voice)
        return out


def equaliser(rng: np.random.Generator, hertz: np.ndarray = HERTZ) -> np.ndarray:
    """A smooth random colouring over frequency."""
    if rng.random() < 0.3:
        return np.ones_like(hertz)
    octaves = np.log2(np.maximum(BANDS, 60) / 1000)
    curve = rng.uniform(-4, 4) * octaves
    for waves in (0.5, 1.1):
        curve = curve + rng.uniform(-4, 4) * np.cos(2 * np.pi * waves * octaves / 3 + rng.uniform(0, 6.3))
    return np.interp(hertz, BANDS, 10 ** (np.clip(curve, -24, 18) / 20)).astype(np.float32)


def line(rng: np.random.Generator, hertz: np.ndarray = HERTZ) -> np.ndarray:
    """The band of a microphone or line."""
    gain = np.ones_like(BANDS)
    if rng.random() < 0.35:
        high = rng.choice([3400, rng.uniform(2500, 7500)])
        gain /= 1 + (BANDS / high) ** 16
    if rng.random() < 0.35:
        low = rng.choice([300, rng.uniform(40, 250)])
        gain *= 1 - 1 / (1 + (BANDS / low) ** 6)
    return np.interp(hertz, BANDS, gain).astype(np.float32)


def room(rng: np.random.Generator) -> np.ndarray:
    """An impulse response: the direct sound, then noise that dies away."""
    t = np.arange(TAIL, dtype=np.float32) / RATE
    response = rng.standard_normal(TAIL, dtype=np.float32) * np.exp(-6.9 * t / rng.uniform(0.1, 0.75))
    response[: int(rng.uniform(0.001, 0.02) * RATE)] = 0
    response *= decibels(-rng.uniform(2, 20)) / np.sqrt((response**2).sum())
    response[0] = 1
    return response


def _finish(sound: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Clipped to full scale; at times rounded to 16 bits, or on a constant offset."""
    if rng.random() < 0.05:
        sound = sound + rng.uniform(-0.02, 0.02)
    sound = np.clip(sound, -1, 1)
    if rng.random() < 0.6:
        sound = np.round(sound * 32767) / 32767
    return sound.astype(np.float32)
