"""Findings of a tagger in text, as the engine reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from .model import Tagger
from .wordpiece import END, PAD, START, Pieces, case_of


@dataclass(frozen=True)
class Found:
    """A run of words of one label: characters, and the mean of its words' probabilities of the label, `B-` and `I-` together."""

    start: int
    end: int
    label: str
    confidence: float


@torch.no_grad()
def find(model: Tagger, pieces: Pieces, texts: list[str], rows: int = 64) -> list[list[Found]]:
    """Findings in each text. A text longer than the model's positions is cut between words."""
    device = next(model.parameters()).device
    windows = [(number, window) for number, text in enumerate(texts) for window in cut(model, pieces, text)]
    order = sorted(range(len(windows)), key=lambda n: sum(len(ids) for _, _, ids in windows[n][1]))
    found: list[list[Found]] = [[] for _ in texts]
    for first in range(0, len(order), rows):
        some = [windows[n] for n in order[first : first + rows]]
        longest = 2 + max(sum(len(ids) for _, _, ids in window) for _, window in some)
        ids = torch.full((len(some), longest), PAD)
        types = torch.zeros((len(some), longest), dtype=torch.long)
        heads: list[list[int]] = []
        for row, (number, window) in enumerate(some):
            ids[row, 0], at, own = START, 1, []
            for start, end, word in window:
                own.append(at)
                ids[row, at : at + len(word)] = torch.tensor(word)
                types[row, at : at + len(word)] = case_of(texts[number][start:end])
                at += len(word)
            ids[row, at] = END
            heads.append(own)
        scores = model(ids.to(device), types.to(device)).float().softmax(2).cpu()
        for row, (number, window) in enumerate(some):
            own = scores[row, heads[row]]
            names = [model.config.tags[best] for best in own.argmax(1).tolist()]
            labels = torch.tensor([[tag[2:] == name[2:] for tag in model.config.tags] for name in names])
            found[number] += runs(window, names, (own * labels).sum(1).tolist())
    return [sorted(one, key=lambda finding: finding.start) for one in found]


def cut(model: Tagger, pieces: Pieces, text: str) -> Iterator[list[tuple[int, int, tuple[int, ...]]]]:
    """Windows of words: first and last character, pieces."""
    most, window, size = model.config.max_position_embeddings - 2, [], 0
    for match in re.finditer(r"\S+", text):
        ids = pieces(match.group())[:most]
        if not ids:
            continue
        if size + len(ids) > most:
            yield window
            window, size = [], 0
        window.append((match.start(), match.end(), ids))
        size += len(ids)
    if window:
        yield window


def runs(window: list, names: list[str], best: list[float]) -> Iterator[Found]:
    """Words of one label that follow one another; `B-` begins a new run, `I-` goes on with one or begins one."""
    at = 0
    while at < len(names):
        label, end = names[at][2:], at + 1
        if names[at] != "O":
            while end < len(names) and names[end] == f"I-{label}":
                end += 1
            yield Found(window[at][0], window[end - 1][1], label, sum(best[at:end]) / (end - at))
        at = end
