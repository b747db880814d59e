"""The starter's language model: n-grams of words by modified Kneser-Ney, pruned, in the engine's compact form.

    python -m recipes.lm --work DIR --corpus DATA/mini-librispeech-en ... --exclude EVAL/refs.tsv --out starter/lm-en/en.ngram

The form is described in `engine/src/text/lm/compact.rs`.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .lm_text import PACKAGES, dictionary, read_sources
from .targets import score_words
from .text_pool import ngrams, ngrams_of, transcripts, unpack

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
MAGIC = b"AURLM001"

# Sources that share a model, and its weight: what read books need most. Weights by the held-out readers' perplexity.
MIXTURE = (
    (("austen", "moby-dick", "sherlock-holmes", "tom-sawyer", "opticks", "devils-dictionary"), 0.48),
    (("transcripts",), 0.18),
    (("bible", "world-english-bible"), 0.07),
    (("wordnet",), 0.09),
    (("treasury-of-david", "concise-commentary"), 0.09),
    (("messages-to-congress",), 0.09),
)


@dataclass
class Level:
    """The n-grams of one length, sorted by their words: `[n]` each."""

    words: np.ndarray  # [n, length]
    parent: np.ndarray  # place of the n-gram without its last word, in the level before
    suffix: np.ndarray  # place of the n-gram without its first word, there too
    log_prob: np.ndarray
    backoff: np.ndarray = field(default_factory=lambda: np.zeros(0))


def key(words: np.ndarray, size: int) -> np.ndarray:
    """One integer for each row of word numbers, in their order."""
    out = np.zeros(len(words), dtype=np.int64)
    for column in range(words.shape[1]):
        out = out * size + words[:, column]
    return out


def count(passages: list[np.ndarray], order: int, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Unique n-grams and their counts by length. Within a passage; the first and last words see its ends."""
    counts = []
    for length in range(1, order + 1):
        rows = [np.lib.stride_tricks.sliding_window_view(p, length) for p in passages if len(p) >= length]
        keys, totals = np.unique(key(np.concatenate(rows), size), return_counts=True)
        words = np.stack([keys // size ** (length - 1 - column) % size for column in range(length)], 1)
        counts.append((words, totals))
    return counts


def discounts(counts: np.ndarray) -> np.ndarray:
    """Modified Kneser-Ney's three discounts, for counts of 1, 2 and more (Chen and Goodman, 1998); index 0 is 0."""
    n = [0] + [int((counts == c).sum()) for c in (1, 2, 3, 4)]
    y = n[1] / max(1, n[1] + 2 * n[2])
    found = [c - (c + 1) * y * n[c + 1] / max(1, n[c]) for c in (1, 2, 3)]
    return np.array([0.0, *(min(max(d, 0.1), c) for c, d in zip((1, 2, 3), found))])


def estimate(counts: list[tuple[np.ndarray, np.ndarray]], size: int, begin: int) -> list[Level]:
    """Interpolated modified Kneser-Ney. Lower orders count in how many contexts an n-gram stands."""
    levels: list[Level] = []
    for at, (words, totals) in enumerate(counts):
        length = at + 1
        keys = key(words, size)
        if length < len(counts):
            # Continuation counts, but the plain ones for n-grams at the beginning, which nothing stands before.
            longer = np.searchsorted(keys, key(counts[at + 1][0][:, 1:], size))
            continued = np.bincount(longer, minlength=len(keys))
            totals = np.where(words[:, 0] == begin, totals, continued)
        if length == 1:
            # Every word of the vocabulary, seen or not, shares what is discounted; `<s>` is never predicted.
            full = np.zeros(size, dtype=np.int64)
            full[words[:, 0]] = totals
            full[begin] = 0
            discount = discounts(full)[np.minimum(full, 3)]
            total = full.sum()
            prob = np.maximum(full - discount, 0) / total + discount.sum() / total / (size - 1)
            prob[begin] = 1e-10
            numbers = np.arange(size)
            levels.append(Level(numbers[:, None], np.zeros(size, int), np.zeros(size, int), np.log(prob)))
            continue
        above = levels[-1]
        above_keys = key(above.words, size)
        parent = np.searchsorted(above_keys, key(words[:, :-1], size))
        suffix = np.searchsorted(above_keys, key(words[:, 1:], size))
        discount = discounts(totals)[np.minimum(totals, 3)]
        total = np.bincount(parent, weights=totals, minlength=len(above.words))
        left = np.bincount(parent, weights=discount, minlength=len(above.words)) / np.maximum(total, 1)
        prob = (totals - discount) / total[parent] + left[parent] * np.exp(above.log_prob[suffix])
        levels.append(Level(words, parent, suffix, np.log(prob)))
    return levels


def back_off(levels: list[Level]) -> None:
    """The backoff weights with which the probabilities of every context add up to one."""
    for above, level in zip(levels, levels[1:]):
        kept = np.bincount(level.parent, weights=np.exp(level.log_prob), minlength=len(above.log_prob))
        lower = np.bincount(level.parent, weights=np.exp(above.log_prob[level.suffix]), minlength=len(above.log_prob))
        weight = np.log(np.maximum(1 - kept, 1e-9)) - np.log(np.maximum(1 - lower, 1e-9))
        above.backoff = np.where(np.bincount(level.parent, minlength=len(weight)) > 0, weight, 0.0)
    levels[-1].backoff = np.zeros(len(levels[-1].log_prob))


def log_probs(levels: list[Level], words: np.ndarray, size: int) -> np.ndarray:
    """ln P of the last word of each row given the others: `[n, length]` to `[n]`."""
    length = words.shape[1]
    if length == 1:
        return levels[0].log_prob[words[:, 0]]
    place, known = find(levels[length - 1], words, size)
    context, continued = find(levels[length - 2], words[:, :-1], size)
    backoff = np.where(continued, levels[length - 2].backoff[context], 0.0)
    backed_off = backoff + log_probs(levels, words[:, 1:], size)
    return np.where(known, levels[length - 1].log_prob[place], backed_off)


def find(level: Level, words: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Where n-grams stand in a level, and whether they do."""
    keys, wanted = key(level.words, size), key(words, size)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return place, keys[place] == wanted


def mix(models: list[list[Level]], weights: list[float], size: int) -> list[Level]:
    """One model with the n-grams of all, whose probabilities are weighted means."""
    mixed: list[Level] = []
    for at in range(len(models[0])):
        words = np.unique(np.concatenate([model[at].words for model in models]), axis=0)
        prob = sum(weight * np.exp(log_probs(model, words, size)) for weight, model in zip(weights, models))
        parent = suffix = np.zeros(len(words), dtype=int)
        if at > 0:
            parent, suffix = find(mixed[-1], words[:, :-1], size)[0], find(mixed[-1], words[:, 1:], size)[0]
        mixed.append(Level(words, parent, suffix, np.log(prob)))
    back_off(mixed)
    return mixed


def prune(levels: list[Level], keep: list[int]) -> None:
    """Leaves `keep[length - 1]` n-grams of each length over 1: those that change the model's predictions most.

    An n-gram counts P(n-gram) times what its own probability differs from the backed-off one (Seymore and Rosenfeld,
    1996). What a longer n-gram continues or backs off to stays.
    """
    for at in range(len(levels) - 1, 0, -1):
        level, above = levels[at], levels[at - 1]
        context = np.zeros(len(above.log_prob))
        for length, lower in enumerate(levels[:at]):
            context = lower.log_prob if length == 0 else context[lower.parent] + lower.log_prob
        backed_off = above.backoff[level.parent] + above.log_prob[level.suffix]
        worth = np.exp(context[level.parent] + level.log_prob) * (level.log_prob - backed_off)
        needed = np.zeros(len(level.log_prob), dtype=bool)
        if at + 1 < len(levels):
            needed[levels[at + 1].parent] = True
            needed[levels[at + 1].suffix] = True
        chosen = needed.copy()
        chosen[np.argsort(-np.where(needed, -np.inf, worth))[: max(0, keep[at] - needed.sum())]] = True
        place = np.cumsum(chosen) - 1
        levels[at] = Level(*(getattr(level, name)[chosen] for name in ("words", "parent", "suffix", "log_prob")))
        if at + 1 < len(levels):
            levels[at + 1].parent = place[levels[at + 1].parent]
            levels[at + 1].suffix = place[levels[at + 1].suffix]
        back_off(levels)


def perplexity(levels: list[Level], passages: list[list[str]], vocabulary: list[str]) -> float:
    """Per word, ends left out."""
    numbers = {word: number for number, word in enumerate(vocabulary)}
    rows: dict[int, list[list[int]]] = {}
    for passage in passages:
        sequence = [1, *(numbers.get(word, 0) for word in passage)]
        for at in range(1, len(sequence)):
            context = sequence[max(0, at + 1 - len(levels)) : at + 1]
            rows.setdefault(len(context), []).append(context)
    found = np.concatenate([log_probs(levels, np.array(group), len(vocabulary)) for group in rows.values()])
    return math.exp(-found.mean())


def codebook(values: np.ndarray, codes: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """At most `codes` values that stand for all of them, and the code of each: bins of equal count, then of least error."""
    unique = np.unique(values)
    if len(unique) <= codes:
        return unique, np.searchsorted(unique, values)
    # Half of the bins by count, half evenly over the range, so that rare extremes are not lumped together.
    centres = np.union1d(np.quantile(values, np.linspace(0, 1, codes // 2)), np.linspace(*unique[[0, -1]], codes // 2))
    for _ in range(20):
        codes_of = np.searchsorted((centres[1:] + centres[:-1]) / 2, values)
        sums = np.bincount(codes_of, weights=values, minlength=len(centres))
        counts = np.bincount(codes_of, minlength=len(centres))
        centres = np.sort(np.where(counts > 0, sums / np.maximum(counts, 1), centres))
    return centres, np.searchsorted((centres[1:] + centres[:-1]) / 2, values)


def integer(value: int) -> bytes:
    """LEB128."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def compact(words: list[str], levels: list[Level]) -> bytes:
    """The engine's form."""
    out = bytearray(MAGIC + integer(len(levels)))
    for level in levels:
        out += integer(len(level.log_prob))
    for word in words:
        out += integer(len(word.encode())) + word.encode()
    codes = []
    for at, level in enumerate(levels):
        children = np.zeros(len(level.log_prob), dtype=int)
        if at + 1 < len(levels):
            children = np.bincount(levels[at + 1].parent, minlength=len(children))
        books = [codebook(level.log_prob)]
        if at + 1 < len(levels):
            book, code = codebook(level.backoff[children > 0])
            spread = np.zeros(len(children), dtype=int)
            spread[children > 0] = code
            books.append((book, spread))
        for book, _ in books:
            out += integer(len(book)) + book.astype("<f4").tobytes()
        codes.append((children, *(code for _, code in books)))
    for at, level in enumerate(levels):
        children, log_prob, *backoff = (column.tolist() for column in codes[at])
        last = level.words[:, -1]
        same = np.zeros(len(last), dtype=bool)
        same[1:] = level.parent[1:] == level.parent[:-1]
        steps = np.where(same, last - np.roll(last, 1), last).tolist()
        for row, step in enumerate(steps):
            if at > 0:
                out += integer(step)
            out.append(log_prob[row])
            if at + 1 < len(levels):
                out += integer(children[row])
                if children[row]:
                    out.append(backoff[0][row])
    return bytes(out)


def arpa(words: list[str], levels: list[Level]) -> str:
    """The same as text that other programs read."""
    lines = ["\\data\\", *(f"ngram {at}={len(level.log_prob)}" for at, level in enumerate(levels, 1))]
    for at, level in enumerate(levels, 1):
        lines += ["", f"\\{at}-grams:"]
        for row, log_prob, backoff in zip(level.words, level.log_prob / math.log(10), level.backoff / math.log(10)):
            text = " ".join(words[word] for word in row)
            lines.append(f"{log_prob:.6f}\t{text}" + (f"\t{backoff:.6f}" if at < len(levels) else ""))
    return "\n".join([*lines, "", "\\end\\", ""])


def numbered(words: set[str], passages: list[list[str]]) -> list[str]:
    """The vocabulary: frequent words get small numbers."""
    frequency = Counter(word for passage in passages for word in passage)
    return [UNKNOWN, BEGIN, END, *sorted(words, key=lambda word: (-frequency[word], word))]


def train(passages: list[list[str]], vocabulary: list[str], order: int) -> list[Level]:
    """A model; words that the vocabulary lacks are `<unk>`."""
    numbers = {word: number for number, word in enumerate(vocabulary)}
    rows = [np.array([1, *(numbers.get(word, 0) for word in passage), 2]) for passage in passages]
    levels = estimate(count(rows, order, len(vocabulary)), len(vocabulary), begin=1)
    back_off(levels)
    return levels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder for the unpacked packages")
    parser.add_argument("--corpus", type=Path, action="append", default=[], help="folder of speech, for its transcripts")
    parser.add_argument("--exclude", type=Path, action="append", default=[], help="refs.tsv of an evaluation set")
    parser.add_argument("--order", type=int, default=3)
    parser.add_argument("--keep", type=int, nargs="+", default=[0, 700_000, 700_000], help="n-grams of each length")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arpa", type=Path, help="write it as text too")
    args = parser.parse_args()

    root = unpack(args.work, PACKAGES)
    held_out = transcripts(args.corpus, of_held_out=True)
    banned = ngrams_of(args.exclude).union(*(ngrams(score_words(text)) for text in held_out))
    sources = read_sources(root, args.corpus, banned)
    for name, passages in sources.items():
        print(f"{name}: {len(passages)} passages, {sum(map(len, passages))} words")
    passages = [passage for source in sources.values() for passage in source]
    frequency = Counter(word for passage in passages for word in passage)
    vocabulary = numbered({word for word, times in frequency.items() if times > 1} | dictionary(root), passages)
    models = [
        train([passage for name in names for passage in sources[name]], vocabulary, args.order) for names, _ in MIXTURE
    ]
    levels = mix(models, [weight for _, weight in MIXTURE], len(vocabulary))
    prune(levels, args.keep)
    args.out.write_bytes(compact(vocabulary, levels))
    if args.arpa:
        args.arpa.write_text(arpa(vocabulary, levels), encoding="utf-8")
    print(f"{[len(level.log_prob) for level in levels]} n-grams, {args.out.stat().st_size / 1e6:.2f} MB")
    print(f"perplexity of the held-out readers: {perplexity(levels, list(map(score_words, held_out)), vocabulary):.0f}")


if __name__ == "__main__":
    main()
