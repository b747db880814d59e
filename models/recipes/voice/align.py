"""Forced alignment of clips with their phones: a frame classifier and Viterbi search, in turns.

The first guess is the published-form recogniser's phone head (`recipes.words`), whose CTC says roughly when each phone is heard.
From then on a small convolutional classifier learns the frames' phones from the last alignment, and the likeliest
path through its scores is the next one. Silence may lie between words and at the ends.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from .sound import MELS
from .symbols import BARE, EDGE, PUNCTUATION, Lexicon, tokens

SILENCE = 0
CLASSES = {phone: number for number, phone in enumerate(BARE, start=1)}
PAUSE_FRAMES = 4  # a silence between words that is shorter counts to the word before it
LEAST_FRAMES = 2  # of a phone
REACH = 6  # frames that the classifier sees on either side of one
START_FRAMES = 24  # the first guess is late where a clip begins: nothing is learned from there
PRIOR = 0.6  # how much of a class's frequency is taken off its score


class Classifier(nn.Module):
    """`[rows, mels, frames]` to `[rows, classes, frames - 2 * REACH]`: no padding, which would tell where a clip begins."""

    def __init__(self, channels: int = 128):
        super().__init__()
        self.norm = nn.BatchNorm1d(MELS)
        sizes = [MELS, channels, channels, channels]
        self.convs = nn.ModuleList(nn.Conv1d(a, b, 5) for a, b in zip(sizes, sizes[1:], strict=False))
        self.out = nn.Conv1d(channels, 1 + len(BARE), 1)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = self.norm(mel)
        for conv in self.convs:
            x = F.dropout(F.relu(conv(x)), 0.1, self.training)
        return self.out(x)


def words_as_phones(text: str, lexicon: Lexicon) -> list[list[str]] | None:
    """Phones of each token of a text; a mark stands alone. None where a word is unknown."""
    found = []
    for token in tokens(text):
        phones = [token] if token in PUNCTUATION else lexicon.phones(token)
        if phones is None:
            return None
        found.append(phones)
    return found or None


def states(words: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """The classes along a sentence, `LEAST_FRAMES` a phone, silence before, between and after words, and which may be skipped."""
    classes, skippable = [SILENCE], [True]
    for phones in words:
        if phones[0] in PUNCTUATION:
            continue
        for phone in phones:
            classes += [CLASSES[phone.rstrip("012")]] * LEAST_FRAMES
            skippable += [False] * LEAST_FRAMES
        classes.append(SILENCE)
        skippable.append(True)
    return np.array(classes), np.array(skippable)


def viterbi(scores: np.ndarray, classes: np.ndarray, skippable: np.ndarray) -> np.ndarray | None:
    """The state of each frame on the likeliest path through `scores` `[frames, classes]`; None where frames are too few."""
    along = scores[:, classes]
    from_two = np.zeros(len(classes), dtype=bool)
    from_two[2:] = skippable[1:-1]
    score = np.full(len(classes), -np.inf)
    score[:2] = along[0, :2]
    came = np.zeros(along.shape, dtype=np.int8)
    ways = np.full((3, len(classes)), -np.inf)
    for frame in range(1, len(along)):
        ways[0], ways[1, 1:] = score, score[:-1]
        ways[2, 2:] = np.where(from_two[2:], score[:-2], -np.inf)
        came[frame] = ways.argmax(0)
        score = ways[came[frame], np.arange(len(classes))] + along[frame]
    at = len(classes) - (1 if score[-1] > score[-2] else 2)
    if not np.isfinite(score[at]):
        return None
    path = np.zeros(len(along), dtype=np.int64)
    for frame in range(len(along) - 1, -1, -1):
        path[frame] = at
        at -= int(came[frame, at])
    return path


def symbols_and_durations(words: list[list[str]], path: np.ndarray) -> tuple[list[str], list[int]]:
    """What the acoustic model reads, and how many frames each symbol takes.

    A pause without a mark becomes a comma; a mark without a pause, and an edge without silence, takes no frame.
    """
    counts = np.bincount(path, minlength=int(path.max()) + 2).tolist()
    symbols, durations, state = [EDGE], [counts[0]], 1
    for number, phones in enumerate(words):
        if phones[0] in PUNCTUATION:
            continue
        for phone in phones:
            symbols.append(phone)
            durations.append(sum(counts[state : state + LEAST_FRAMES]))
            state += LEAST_FRAMES
        pause = counts[state] if state < len(counts) else 0
        state += 1
        mark = words[number + 1][0] if number + 1 < len(words) and words[number + 1][0] in PUNCTUATION else None
        if mark is not None:
            symbols.append(mark)
            durations.append(pause)
        elif pause >= PAUSE_FRAMES:
            symbols.append(",")
            durations.append(pause)
        else:
            durations[-1] += pause
    return symbols, durations


def train_classifier(mels: list[np.ndarray], labels: list[np.ndarray], steps: int, model: Classifier | None = None) -> Classifier:
    """Learns the classes `labels` of the frames of `mels` `[frames, mels]`."""
    model = model or Classifier()
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    rng, length = np.random.default_rng(0), 160
    long = [number for number, mel in enumerate(mels) if len(mel) > START_FRAMES + 4 * REACH] or list(range(len(mels)))
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 2e-3 * (1 - step / steps) + 1e-5
        x, y = np.zeros((24, MELS, length), np.float32), np.full((24, length), -100)
        for row, number in enumerate(rng.choice(long, size=24)):
            last = max(0, len(mels[number]) - length)
            start = int(rng.integers(min(START_FRAMES, last), last + 1))
            part = mels[number][start : start + length]
            x[row, :, : len(part)] = part.T
            y[row, : len(part) - REACH] = labels[number][start : start + len(part) - REACH]
        loss = F.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y[:, REACH:-REACH]), label_smoothing=0.05)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if step % 200 == 199:
            print(f"classifier step {step + 1} loss {loss.item():.3f}", flush=True)
    return model.eval()


def first_labels(levels: np.ndarray, middles: np.ndarray, words: list[list[str]]) -> np.ndarray:
    """Classes of frames whose `levels` are known, from the frames in which each phone is heard."""
    classes = [CLASSES[phone.rstrip("012")] for phones in words if phones[0] not in PUNCTUATION for phone in phones]
    edges = (middles[1:] + middles[:-1]) / 2
    labels = np.array(classes)[np.searchsorted(edges, np.arange(len(levels)))]
    labels[levels < np.percentile(levels, 95) - 3.5] = SILENCE
    return labels


@torch.no_grad()
def realign(
    model: Classifier, mels: list[np.ndarray], all_words: list[list[list[str]]], share: np.ndarray
) -> list[np.ndarray | None]:
    """State paths of all clips; `share` `[classes]` is how frequent each class is."""
    paths = []
    for mel, words in zip(mels, all_words, strict=True):
        around = F.pad(torch.from_numpy(mel.T[None].astype(np.float32)), (REACH, REACH), mode="replicate")
        scores = model(around)[0].T.log_softmax(1).numpy()
        paths.append(viterbi(scores - PRIOR * np.log(share + 1e-4), *states(words)))
    return paths
