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
from .aligned_mix import AlignedMixer, concatenate, load_alignments
from .phones import Pronunciations
from .targets import load_targets
from .units import Units, blend

# Readers of mini-librispeech and a synthetic voice that are never trained on: models are picked by these.
HELD_OUT = ("32", "669", "1737", "7312", "flite_awb")
NOISE = "noise"
# Batches are padded to multiples of these, so that shapes come again: a CPU's library makes code for each new one.
FRAMES_GRID, LABELS_GRID = 128, 8


@dataclass(frozen=True)
class Example:
    """A recording with its targets, or the parts of several that are heard end to end."""

    parts: tuple[Stored, ...]
    text: str
    tokens: tuple[int, ...]
    phones: tuple[int, ...]
    of_units: bool = False

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

    def example(self, parts: tuple[Stored, ...], text: str, of_units: bool = False) -> Example:
        tokens, phones = self.tokenizer.encode(text).ids, self.pronunciations.phones(text) or ()
        return Example(parts, text, tuple(tokens), tuple(phones), of_units)


@dataclass(frozen=True)
class Batch:
    """`mel` `[batch, frames, mels]`, zero past each of `frames`; tokens and phones padded with 0. Sizes are on the grids."""

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
        self._mixer: AlignedMixer | None = None
        self._units: Units | None = None
        self._mix_share = self._units_share = 0.0

    def make_more(self, mix: float, units: float, words: Path, sentences: list[str], targets: Targets) -> None:
        """Replaces shares of the utterances: `mix` by mixes of aligned words, `units` by `sentences` made from phones of a reader."""
        known = load_alignments(words, [(e.parts[0], e.text) for e in self._examples])
        if not known:
            raise SystemExit(f"{words} has no word alignments: run recipes.words first, or omit the shares")
        weights = {e.parts[0]: weight for e, weight in zip(self._examples, self._weights, strict=True)}
        self._mixer = AlignedMixer(known, np.array([weights[utterance.stored] for utterance in known]))
        self._mix_share, self._units_share, self._targets = mix, units, targets
        if units:
            self._units = Units(known, sentences, targets.pronunciations)
            if not (self._units.voices and self._units.sentences):
                raise SystemExit("--units-share needs --sentences, and readers with five minutes whose phones are known")

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
        return self.collate(self.made_of(examples, rng), rng)

    def made_of(self, examples: list[Example], rng: np.random.Generator) -> list[Example]:
        """The examples, of which `make_more`'s shares are exchanged for made ones."""
        return [self._or_another(example, rng) for example in examples]

    def _or_another(self, example: Example, rng: np.random.Generator) -> Example:
        """By the shares, an example that is made, of about the same length."""
        drawn, made = rng.random(), None
        if drawn < self._mix_share:
            made = self._targets.example(*self._mixer.draw(example.frames, rng))
        elif drawn < self._mix_share + self._units_share:
            said = self._units.draw(example.frames, rng)
            made = self._targets.example(*said, of_units=True) if said else None
        return example if made is None or made.too_dense else made

    def collate(self, examples: list[Example], rng: np.random.Generator | None) -> Batch:
        """Augmented where a generator is given."""
        mels = [self._sound(e, rng) for e in examples]
        if rng is not None:
            mels = [self._augmentation(mel, self._store, rng) for mel in mels]
        mel = torch.zeros(len(mels), _on_grid(max(map(len, mels)), FRAMES_GRID), MELS)
        for row, frames in enumerate(mels):
            mel[row, : len(frames)] = torch.from_numpy(np.ascontiguousarray(frames, dtype=np.float32))
        tokens, token_counts = _padded([e.tokens for e in examples])
        phones, phone_counts = _padded([e.phones for e in examples])
        return Batch(mel, torch.tensor([len(m) for m in mels]), tokens, token_counts, phones, phone_counts)

    def _sound(self, example: Example, rng: np.random.Generator | None) -> np.ndarray:
        parts = [self._store.mel(part) for part in example.parts]
        if example.of_units:
            return blend(parts, [self._store.colour(part) for part in example.parts])
        return parts[0] if len(parts) == 1 else concatenate(parts, rng)


def _on_grid(size: int, grid: int) -> int:
    return -(-size // grid) * grid


def _padded(rows: list[tuple[int, ...]]) -> tuple[torch.Tensor, torch.Tensor]:
    counts = torch.tensor([len(row) for row in rows])
    padded = torch.zeros(len(rows), _on_grid(max(1, int(counts.max())), LABELS_GRID), dtype=torch.long)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = torch.tensor(row, dtype=torch.long)
    return padded, counts
