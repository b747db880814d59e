"""Sounds without speech, made up: notes, chords, drums, tones, sweeps, hum, clicks and coloured noise."""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

RATE = 16000
SCALES = ((0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 10), (0, 2, 4, 7, 9), (0, 3, 5, 6, 7, 10))


def envelope(samples: int, attack: float, decay: float, release: float, sustain: float) -> np.ndarray:
    """Attack and release in seconds; the level falls to `sustain` with the time constant `decay`."""
    t = np.arange(samples) / RATE
    shape = sustain + (1 - sustain) * np.exp(-t / decay)
    shape *= np.minimum(1, t / max(attack, 1e-3))
    return shape * np.minimum(1, (t[-1] - t) / max(release, 1e-3) + 1e-3)


def instrument(rng: np.random.Generator):
    """A voice that sounds a frequency for a number of samples."""
    partials = int(rng.integers(1, 22))
    strength = np.arange(1, partials + 1) ** -rng.uniform(0.3, 2.2) * rng.uniform(0.3, 1, partials)
    if rng.random() < 0.25:
        strength[1::2] *= 0.05  # a clarinet's odd partials
    stretch = rng.choice([0.0, rng.uniform(0, 4e-4)])
    attack, decay = 10 ** rng.uniform(-2.6, -0.7), 10 ** rng.uniform(-1, 0.7)
    sustain, release = rng.choice([0.0, rng.uniform(0.2, 1.0)]), rng.uniform(0.01, 0.2)
    vibrato, rate = rng.choice([0.0, rng.uniform(0.001, 0.02)]), rng.uniform(4, 7.5)
    tremolo = rng.choice([0.0, 0.0, rng.uniform(0.1, 0.7)])
    breath = rng.choice([0.0, rng.uniform(0.0, 0.08)])
    modulation = rng.choice([0.0, 0.0, rng.uniform(0.5, 6.0)])
    ratio = rng.choice([0.5, 1.0, 1.41, 2.0, 3.0, 3.5])

    def play(frequency: float, samples: int) -> np.ndarray:
        t = np.arange(samples) / RATE
        phase = 2 * np.pi * frequency * t + vibrato * frequency / rate * np.sin(2 * np.pi * rate * t)
        if modulation:  # frequency modulation: bells, brass, electric pianos
            sound = np.sin(phase + modulation * np.exp(-t / decay) * np.sin(ratio * phase))
        else:
            sound = np.zeros(samples)
            for k in range(1, partials + 1):
                if k * frequency < 7800:
                    sound += strength[k - 1] * np.sin(k * np.sqrt(1 + stretch * k * k) * phase)
        sound += breath * rng.standard_normal(samples)
        sound *= 1 + tremolo * np.sin(2 * np.pi * rate * t)
        return sound * envelope(samples, attack, decay, release, sustain)

    return play


def music(rng: np.random.Generator, seconds: float) -> np.ndarray:
    """One to four instruments in one key and metre, with or without drums."""
    total = int(seconds * RATE)
    out = np.zeros(total)
    beat = 60 / rng.uniform(50, 190)
    scale, root = SCALES[rng.integers(len(SCALES))], rng.uniform(100, 200)
    for _ in range(rng.integers(1, 5)):
        play, octave, level = instrument(rng), 2.0 ** rng.integers(-1, 4), 10 ** rng.uniform(-0.7, 0)
        chord, lengths = rng.random() < 0.35, rng.choice([0.25, 0.5, 1, 2, 4], size=3)
        rest, step, at = rng.uniform(0, 0.4), int(rng.integers(7)), 0.0
        while at < seconds:
            length = beat * float(rng.choice(lengths))
            step = int(np.clip(step + rng.integers(-3, 4), -4, 12))
            samples = min(int(length * rng.uniform(0.7, 1.3) * RATE), total - int(at * RATE))
            if rng.random() > rest and samples > 200:
                for degree in (step, step + 2, step + 4) if chord else (step,):
                    pitch = scale[degree % len(scale)] + 12 * (degree // len(scale))
                    frequency = min(root * octave * 2 ** (pitch / 12), 5000)
                    out[int(at * RATE) : int(at * RATE) + samples] += level * play(frequency, samples)
            at += length
    if rng.random() < 0.5:
        out += rng.uniform(0.3, 1.5) * drums(rng, total, beat) * (np.abs(out).max() + 0.1)
    return out


def drums(rng: np.random.Generator, total: int, beat: float) -> np.ndarray:
    """A pattern of kicks, noise bursts and ticks."""
    out = np.zeros(total)
    hits = []
    for kind in range(3):
        length = int(RATE * (0.25, 0.18, 0.06)[kind])
        t = np.arange(length) / RATE
        if kind == 0:
            hit = np.sin(2 * np.pi * (50 * t + 8 * (1 - np.exp(-t * 30)))) * np.exp(-t * 14)
        else:
            hit = rng.standard_normal(length) * np.exp(-t * (25, 70)[kind - 1])
            hit = np.diff(hit, prepend=0.0) if kind == 2 else hit
        hits.append(hit)
    pattern = rng.random((3, 8)) < np.array([[0.3], [0.25], [0.6]])
    for number in range(int(total / RATE / (beat / 2))):
        at = int(number * beat / 2 * RATE)
        for kind, hit in enumerate(hits):
            if pattern[kind, number % 8]:
                out[at : at + len(hit)] += hit[: total - at] * rng.uniform(0.5, 1)
    return out


def tones(rng: np.random.Generator, seconds: float) -> np.ndarray:
    """Signals of machines: steady and interrupted tones, key tones, sweeps, sirens, square and saw waves."""
    total = int(seconds * RATE)
    t = np.arange(total) / RATE
    frequency = 10 ** rng.uniform(1.7, 3.75)
    kind = rng.integers(6)
    if kind == 0:
        sound = np.sin(2 * np.pi * frequency * t)
    elif kind == 1:
        sound = np.sin(2 * np.pi * frequency * t) + np.sin(2 * np.pi * rng.uniform(300, 3000) * t)
    elif kind == 2:
        slow = rng.uniform(0.1, 8)
        swing = rng.choice([np.sin(2 * np.pi * slow * t), 2 * ((slow * t) % 1) - 1])
        sound = np.sin(2 * np.pi * np.cumsum(frequency * 2 ** (rng.uniform(0.1, 1.5) * swing)) / RATE)
    elif kind == 3:
        sound = np.sign(np.sin(2 * np.pi * min(frequency, 1500) * t))
    elif kind == 4:
        sound = 2 * ((min(frequency, 1500) * t) % 1) - 1
    else:
        sound = np.sin(2 * np.pi * frequency * t) * (1 + np.sin(2 * np.pi * rng.uniform(2, 60) * t))
    if rng.random() < 0.6:  # on and off, at regular or irregular times
        period = rng.uniform(0.08, 2.0)
        gate = ((t + (0.2 * period * np.sin(7 * t) if rng.random() < 0.5 else 0)) % period) < rng.uniform(0.2, 0.8) * period
        sound = sound * lfilter([0.02], [1, -0.98], gate.astype(float))
    return sound + rng.choice([0, 1e-3]) * rng.standard_normal(total)


def coloured(rng: np.random.Generator, seconds: float) -> np.ndarray:
    """Noise with a random slope and up to three resonances, steady, gusting or in bursts."""
    total = int(seconds * RATE)
    spectrum = np.fft.rfft(rng.standard_normal(total))
    hertz = np.fft.rfftfreq(total, 1 / RATE)
    gain = np.maximum(hertz, 20.0) ** -rng.uniform(-0.5, 1.6)
    gain /= gain.max()
    for _ in range(rng.integers(0, 4)):
        centre, width = 10 ** rng.uniform(2, 3.85), rng.uniform(0.02, 0.4)
        gain *= 1 + 10 ** rng.uniform(0, 1.5) * np.exp(-((np.log(np.maximum(hertz, 1) / centre) / width) ** 2))
    sound = np.fft.irfft(spectrum * gain, total)
    if rng.random() < 0.5:
        knots = rng.uniform(-1, 1, int(seconds * 10 ** rng.uniform(-0.5, 1.0)) + 2)
        swell = np.interp(np.linspace(0, len(knots) - 1, total), np.arange(len(knots)), knots)
        sound *= 10 ** (swell * rng.uniform(0.1, 1.0))
    return sound


def clicks(rng: np.random.Generator, seconds: float) -> np.ndarray:
    """Mains hum with partials, clicks, knocks and typing over a faint hiss."""
    total = int(seconds * RATE)
    t = np.arange(total) / RATE
    sound = 0.02 * rng.standard_normal(total)
    if rng.random() < 0.6:
        mains = rng.choice([50.0, 60.0])
        for k in range(1, 12):
            sound += 10 ** rng.uniform(-2, 0) / k * np.sin(2 * np.pi * mains * k * t + rng.uniform(0, 6))
    for _ in range(rng.poisson(seconds * rng.uniform(0.2, 8))):
        length = int(RATE * 10 ** rng.uniform(-3, -0.9))
        at = int(rng.integers(max(1, total - length)))
        knock = rng.standard_normal(length) * np.exp(-np.arange(length) / length * 6)
        knock = lfilter([1], [1, -rng.uniform(0, 0.97)], knock)
        sound[at : at + length] += knock * rng.uniform(0.3, 4) / (np.abs(knock).max() + 1e-9)
    return sound


KINDS = {"music": music, "tones": tones, "coloured": coloured, "clicks": clicks}


def make(kind: str, seed: int, seconds: float) -> np.ndarray:
    """`[samples]`, f32, peak 1; a function of its arguments alone."""
    rng = np.random.default_rng((list(KINDS).index(kind), seed))
    sound = KINDS[kind](rng, seconds)
    return (sound / (np.abs(sound).max() + 1e-9)).astype(np.float32)
