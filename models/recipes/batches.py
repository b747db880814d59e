"""What to train on next: utterances with targets, drawn by weight into batches of similar length.

A batch is a function of the seed, the step and the pass alone, so a resumed run goes on as it would have.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from .augment import Augmentation
from .features import FRAMES_PER_SECOND, MELS, MelStore, Stored
from .joining import Joiner, join, load_words
from .phones import Pronunciations
from .targets import load_targets

# Readers of mini-librispeech and a synthetic voice that are never trained on: models are picked by these.
HELD_OUT = ("32", "669", "1737", "7312", "flite_awb")
NOISE = "noise"


@dataclass(frozen=True)
class Example:
    """A recording with its targets, or the parts of several that are heard end to end."""

    parts: tuple[Stored, ...]
    text: str
    tokens: tuple[int, ...]
    phones: tuple[int, ...]

    @property
    def frames(self) -> int:
        return sum(part.frames for part in self.parts)

    @property
    def synthetic(self) -> bool:
        return self.parts[0].synthetic

    @property
    def too_dense(self) -> bool:
        """More tokens than frames once sped up: a wrong transcript."""
        return len(self.tokens) * 9 > self.frames


@dataclass(frozen=True)
class Targets:
    """Makes an example of sounds and what they say."""

    tokenizer: Tokenizer
    pronunciations: Pronunciations

    def example(self, parts: tuple[Stored, ...], text: str) -> Example:
        return Example(parts, text, tuple(self.tokenizer.encode(text).ids), tuple(self.pronunciations.phones(text) or ()))


@dataclass(frozen=True)
class Batch:
    """`mel` `[batch, frames, mels]`, zero past each of `frames`; tokens and phones padded with 0."""

    mel: torch.Tensor
    frames: torch.Tensor
    tokens: torch.Tensor
    token_counts: torch.Tensor
    phones: torch.Tensor
    phone_counts: torch.Tensor

    def to(self, device: torch.device) -> Batch:
        return Batch(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))

    @property
    def seconds(self) -> float:
        return int(self.frames.sum()) / FRAMES_PER_SECOND


def load_examples(
    store: MelStore, corpora: list[Path], restored: Path | None, targets: Targets
) -> tuple[list[Example], list[Example]]:
    """Training and held-out examples; utterances without a target are left out."""
    texts = {corpus.name: load_targets(corpus, restored) for corpus in corpora if corpus.name != NOISE}
    targets.pronunciations.learn([text for table in texts.values() for text in table.values()])
    training, held_out = [], []
    for stored in store.utterances:
        text = texts.get(stored.recorded, {}).get(stored.file)
        if text is None or not 0.6 <= stored.frames / FRAMES_PER_SECOND <= 24:
            continue
        example = targets.example((stored,), text)
        if example.too_dense:
            continue
        if stored.speaker not in HELD_OUT:
            training.append(example)
        elif stored.corpus == stored.recorded:
            held_out.append(example)
    return training, held_out


def pick_dev(held_out: list[Example], readers: int = 40, synthetic: int = 12) -> dict[str, list[Example]]:
    """A small fixed draw of the held-out speakers."""
    groups = {"readers": (False, readers), "synthetic": (True, synthetic)}
    dev = {}
    for name, (spoken_by_machine, count) in groups.items():
        found = [e for e in held_out if e.synthetic == spoken_by_machine and e.frames < 1500]
        order = np.random.default_rng(3).permutation(len(found))[:count]
        dev[name] = [found[i] for i in order]
    return dev


class Sampler:
    """Draws batches; `cap_s` is the longest utterance allowed yet."""

    def __init__(self, examples: list[Example], store: MelStore, augmentation: Augmentation, real_share: float, seed: int):
        self._examples = sorted(examples, key=lambda e: e.frames)
        self._frames = np.array([e.frames for e in self._examples])
        machine = np.array([e.synthetic for e in self._examples])
        weights = np.ones(len(self._examples))
        if machine.any() and (~machine).any():
            weights[machine] *= (1 - real_share) / self._frames[machine].sum()
            weights[~machine] *= real_share / self._frames[~machine].sum()
        self._weights = weights
        self._store, self._augmentation, self._seed = store, augmentation, seed
        self._joiner: Joiner | None = None

    def join_words(self, share: float, words: Path, sentences: list[str], targets: Targets) -> None:
        """From now on, `share` of the utterances are words of several, joined."""
        utterances = [(e.parts[0], e.text) for e in self._examples]
        known = load_words(words)
        if not known:
            raise SystemExit(f"no words are known in {words}: run recipes.words first, or leave --joined-share out")
        self._joiner = Joiner(utterances, self._weights, known, sentences)
        self._joined_share, self._targets = share, targets

    def batch(self, step: int, rank: int, cap_s: float, budget_s: float) -> Batch:
        """About `budget_s` seconds of sound, padding counted in."""
        rng = np.random.default_rng((self._seed, step, rank))
        allowed = max(8, int(np.searchsorted(self._frames, cap_s * FRAMES_PER_SECOND)))
        chance = self._weights[:allowed] * self._frames[:allowed]
        anchor = int(rng.choice(min(allowed, len(chance)), p=chance / chance.sum()))
        longest = self._frames[anchor]
        first = min(int(np.searchsorted(self._frames, longest * 0.85)), max(0, anchor - 24))
        count = max(1, int(budget_s * FRAMES_PER_SECOND / longest))
        near = np.arange(first, anchor + 1)
        chance = self._weights[near]
        chosen = rng.choice(near, size=min(count, len(near)), replace=False, p=chance / chance.sum())
        examples = [self._examples[i] for i in chosen]
        if self._joiner:
            examples = [self._joined(e, rng) if rng.random() < self._joined_share else e for e in examples]
        return self.collate(examples, rng)

    def _joined(self, example: Example, rng: np.random.Generator) -> Example:
        """Another of about the same length."""
        joined = self._targets.example(*self._joiner.draw(example.frames, rng))
        return example if joined.too_dense else joined

    def collate(self, examples: list[Example], rng: np.random.Generator | None) -> Batch:
        """Augmented where a generator is given."""
        heard = [[self._store.mel(part) for part in e.parts] for e in examples]
        mels = [parts[0] if len(parts) == 1 else join(parts, rng) for parts in heard]
        if rng is not None:
            mels = [self._augmentation(mel, self._store, rng) for mel in mels]
        mel = torch.zeros(len(mels), max(map(len, mels)), MELS)
        for row, frames in enumerate(mels):
            mel[row, : len(frames)] = torch.from_numpy(np.ascontiguousarray(frames, dtype=np.float32))
        tokens, token_counts = _padded([e.tokens for e in examples])
        phones, phone_counts = _padded([e.phones for e in examples])
        return Batch(mel, torch.tensor([len(m) for m in mels]), tokens, token_counts, phones, phone_counts)


def _padded(rows: list[tuple[int, ...]]) -> tuple[torch.Tensor, torch.Tensor]:
    counts = torch.tensor([len(row) for row in rows])
    padded = torch.zeros(len(rows), max(1, int(counts.max())), dtype=torch.long)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = torch.tensor(row, dtype=torch.long)
    return padded, counts
