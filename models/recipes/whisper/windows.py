"""What the recipe hears: windows of 1 to 30 s, with the text that the decoder is led through.

A batch is a function of the seed and the step alone. Its rows are about equally long, so that little of it is padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.fft import irfft, next_fast_len, rfft, rfftfreq
from tokenizers import Tokenizer

from ..vad.scenes import TAIL, decibels, equaliser, level, line, room
from ..vad.synthetic import KINDS
from .store import NOISE, SPOKEN, Sound, Store

RATE, FRAME, WINDOW = 16000, 320, 480_000
# Encoder frames behind the sound: the least that the engine leaves, and as many more as a batch may draw.
MARGIN, MORE_MARGIN = 64, 48
# Rows of a batch share about so many frames.
FRAMES, MOST_ROWS, FEWEST_ROWS = 8000, 16, 5
# Parts of the windows: no speech at all; speech of the declaration; cut in the middle of a word; with noise, a room or a line.
SILENT, DECLARED, CUT, CHANGED = 0.12, 0.12, 0.12, 0.5
# What checkpoints of this family write where there is no speech.
MADE_UP = ("", "", " you", " Thank you.", " Thanks for watching!", " .", " Bye.", " I'm sorry.")


@dataclass(frozen=True)
class Batch:
    """`sound` `[rows, samples]` of 30 s; `frames` that the student's encoder has; `tokens` `[rows, count]`, `weight` of each position:
    0 behind a row's end; `heard` `[rows, frames]`, true for frames of the row's sound."""

    sound: torch.Tensor
    frames: int
    tokens: torch.Tensor
    weight: torch.Tensor
    heard: torch.Tensor


class Windows:
    """Draws batches from the sounds that are not held out, or from those that are."""

    def __init__(self, store: Store, tokenizer: Tokenizer, seed: int, held_out: bool = False):
        self._store, self._seed, self._tokenizer = store, seed, tokenizer
        kept = [sound for sound in store.sounds if sound.held_out == held_out]
        self._noise = [sound for sound in kept if sound.corpus == NOISE or sound.corpus in KINDS]
        speech = [sound for sound in kept if sound.text]
        self._declared = [sound for sound in speech if sound.corpus == SPOKEN]
        self._speech = [sound for sound in speech if sound.corpus != SPOKEN]
        self._of_voice: dict[str, list[Sound]] = {}
        for sound in speech:
            self._of_voice.setdefault(sound.voice, []).append(sound)
        # German and Dutch have one short corpus each: a sixth of the windows together.
        weight = np.sqrt([sound.samples * (3.0 if sound.language != "en" else 1.0) for sound in self._speech])
        self._chance = np.cumsum(weight / weight.sum())
        self._special = {text: tokenizer.token_to_id(text) for text in ("<|startoftranscript|>", "<|transcribe|>", "<|notimestamps|>", "<|endoftext|>")}
        self._languages = [sound.language for sound in speech]

    def batch(self, step: int) -> Batch:
        rng = np.random.default_rng((self._seed, step))
        seconds = float(rng.choice([rng.uniform(1, 5), rng.uniform(4, 14), rng.uniform(12, 29.5)], p=[0.4, 0.35, 0.25]))
        rows = int(np.clip(FRAMES / (seconds * 50 + MARGIN), FEWEST_ROWS, MOST_ROWS))
        made = [self._row(rng, int(seconds * RATE * rng.uniform(0.85, 1))) for _ in range(rows)]
        sound = torch.zeros(rows, WINDOW)
        longest = max(len(pcm) for pcm, _ in made)
        frames = min(1500, -(-longest // FRAME) + MARGIN + int(rng.integers(0, MORE_MARGIN)))
        count = max(len(tokens) for _, tokens in made)
        ids = torch.full((rows, count), self._special["<|endoftext|>"])
        weight, heard = torch.zeros(rows, count), torch.zeros(rows, frames, dtype=torch.bool)
        for row, (pcm, tokens) in enumerate(made):
            sound[row, : len(pcm)] = torch.from_numpy(pcm)
            ids[row, : len(tokens)] = torch.tensor(tokens)
            weight[row, : len(tokens)] = 1
            heard[row, : -(-len(pcm) // FRAME)] = True
        # The first position tells the language and whether there is speech.
        weight[:, 0] = 3
        return Batch(sound, frames, ids, weight, heard)

    def _row(self, rng: np.random.Generator, samples: int) -> tuple[np.ndarray, list[int]]:
        if rng.random() < SILENT:
            pcm, language = self._no_speech(rng, samples), str(rng.choice(self._languages))
            return pcm, self._tokens(rng, language, [(0, samples, str(rng.choice(MADE_UP)))])
        among = self._declared if self._declared and rng.random() < DECLARED else None
        first = among[int(rng.integers(len(among)))] if among else self._speech[int(np.searchsorted(self._chance, rng.random()))]
        pcm, texts = self._talk(rng, first, samples)
        if rng.random() < CHANGED:
            pcm = self._changed(rng, pcm)
        loudest = np.abs(pcm).max() + 1e-6
        pcm = pcm * np.float32(decibels(rng.uniform(-30, -1)) / loudest)
        return pcm, self._tokens(rng, first.language, texts)

    def _talk(self, rng: np.random.Generator, first: Sound, samples: int) -> tuple[np.ndarray, list[tuple[int, int, str]]]:
        """Utterances of one voice with pauses; the texts with their first and last samples."""
        parts, texts, at, sound = [], [], 0, first
        while True:
            pcm = self._store.pcm(sound)
            if texts and at + len(pcm) > samples:
                break
            text, whole = sound.text, len(pcm)
            if whole > samples or rng.random() < CUT:
                pcm = pcm[: min(samples, max(RATE, int(whole * rng.uniform(0.3, 1))))]
                words = text.split(" ")
                text = " ".join(words[: max(1, round(len(words) * len(pcm) / whole))])
            parts.append(pcm)
            texts.append((at, at + len(pcm), f" {text}"))
            at += len(pcm)
            if len(pcm) < whole:
                break
            pause = int(rng.exponential(0.3) * RATE)
            if at + pause + RATE > samples:
                break
            parts.append(np.zeros(pause, dtype=np.float32))
            at += pause
            voice = self._of_voice[sound.voice]
            sound = voice[int(rng.integers(len(voice)))]
        return np.concatenate(parts), texts

    def _backdrop(self, rng: np.random.Generator, samples: int) -> np.ndarray:
        sound = self._noise[int(rng.integers(len(self._noise)))]
        pcm = np.take(self._store.pcm(sound), np.arange(samples) + int(rng.integers(sound.samples)), mode="wrap")
        return pcm / max(level(pcm), 1e-4)

    def _no_speech(self, rng: np.random.Generator, samples: int) -> np.ndarray:
        if rng.random() < 0.15:
            return np.zeros(samples, dtype=np.float32)
        if rng.random() < 0.2:
            return rng.standard_normal(samples, dtype=np.float32) * np.float32(decibels(rng.uniform(-75, -20)))
        return (self._backdrop(rng, samples) * decibels(rng.uniform(-60, -12))).clip(-1, 1).astype(np.float32)

    def _changed(self, rng: np.random.Generator, pcm: np.ndarray) -> np.ndarray:
        """In a room, on a line, beside a noise."""
        size = next_fast_len(len(pcm) + TAIL, real=True)
        hertz = rfftfreq(size, 1 / RATE).astype(np.float32)
        spectrum = rfft(pcm, size)
        if rng.random() < 0.4:
            spectrum *= rfft(room(rng), size)
        through = equaliser(rng, hertz) * line(rng, hertz)
        mixed = irfft(spectrum, size)[: len(pcm)]
        if rng.random() < 0.6:
            mixed += self._backdrop(rng, len(pcm)) * level(mixed) * decibels(-rng.uniform(0, 30))
        return irfft(rfft(mixed, size) * through, size)[: len(pcm)].astype(np.float32)

    def _tokens(self, rng: np.random.Generator, language: str, texts: list[tuple[int, int, str]]) -> list[int]:
        special = self._special
        tokens = [special["<|startoftranscript|>"], self._tokenizer.token_to_id(f"<|{language}|>"), special["<|transcribe|>"]]
        timed = rng.random() < 0.85
        if not timed:
            tokens.append(special["<|notimestamps|>"])

        def time(sample: int) -> list[int]:
            return [special["<|notimestamps|>"] + 1 + min(1500, round(sample / FRAME))] if timed else []

        for first, last, text in texts:
            encoded = self._tokenizer.encode(text, add_special_tokens=False).ids
            tokens += time(first) + encoded + (time(last) if encoded else [])
        return tokens[:440] + [special["<|endoftext|>"]]
