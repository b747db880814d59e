"""Where each word of a stored corpus lies, so that training can join words of many speakers into new sentences.

    python -m recipes.words --data DATA --store STORE --restored recipes/text --model starter/asr-en

An exported recogniser's phone head aligns each utterance with its text (CTC, best path); between the last phone of a word
and the first of the next, the quietest frame parts them. Written to `STORE/<corpus>.words`: `file<TAB>frame,frame,...`, one
frame of 10 ms before each word and one after the last. A corpus that has the file is left as it is.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from torch import multiprocessing as processes
from transformers import NemotronAsrStreamingConfig

from .batches import NOISE
from .checkpoint import start_from
from .features import MelStore, Stored
from .model import LOOKAHEADS, Recogniser
from .phones import PHONES, Pronunciations
from .targets import load_targets

FRAMES_PER_DECISION = 8 // Recogniser.PHONE_RATE  # of 10 ms
LONGEST = 2400  # frames; longer utterances are not trained on


def best_path(log_probs: np.ndarray, labels: list[int], blank: int = 0) -> np.ndarray | None:
    """The frame at which each of `labels` begins on the likeliest CTC path through `log_probs` `[frames, classes]`.

    None where the frames are too few for the labels.
    """
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    # a label may follow another without a blank between them, unless they are equal
    skips = np.zeros(len(states), dtype=bool)
    skips[3::2] = states[3::2] != states[1:-2:2]
    score = np.full(len(states), -np.inf)
    score[:2] = log_probs[0, states[:2]]
    came = np.zeros((len(log_probs), len(states)), dtype=np.int8)
    for frame in range(1, len(log_probs)):
        ways = np.full((3, len(states)), -np.inf)
        ways[0], ways[1, 1:] = score, score[:-1]
        ways[2, 2:] = np.where(skips[2:], score[:-2], -np.inf)
        came[frame] = ways.argmax(0)
        score = ways.max(0) + log_probs[frame, states]
    at = len(states) - 1 if score[-1] > score[-2] else len(states) - 2
    if not np.isfinite(score[at]):
        return None
    path = np.zeros(len(log_probs), dtype=np.int64)
    for frame in range(len(log_probs) - 1, -1, -1):
        path[frame] = at
        at -= int(came[frame, at])
    return np.array([np.flatnonzero(path == 2 * number + 1)[0] for number in range(len(labels))])


def boundaries(mel: np.ndarray, log_probs: np.ndarray, words: list[list[int]]) -> list[int] | None:
    """Frames that part the words, given as phones, of an utterance `mel` `[frames, mels]`."""
    phones = [phone for word in words for phone in word]
    begins = best_path(log_probs, phones)
    if begins is None:
        return None
    level = np.convolve(mel.mean(1), np.ones(3) / 3, mode="same")
    found, number = [0], 0
    for word in words[:-1]:
        number += len(word)
        first, last = begins[number - 1] * FRAMES_PER_DECISION, begins[number] * FRAMES_PER_DECISION
        first, last = min(first + 1, len(mel) - 1), min(max(last, first + 2), len(mel))
        found.append(max(found[-1] + 1, first + int(level[first:last].argmin())))
    return [*found, len(mel)] if found[-1] < len(mel) else None


class Aligner:
    """One process's model: an exported folder with the heads it was trained with."""

    def __init__(self, folder: Path):
        self.model = Recogniser(NemotronAsrStreamingConfig.from_pretrained(folder), len(PHONES))
        start_from(self.model, folder)
        self.model.eval()

    @torch.no_grad()
    def __call__(self, mel: np.ndarray, words: list[list[int]]) -> list[int] | None:
        """The frames that part the words, given as phones, of an utterance `[frames, mels]`."""
        _, middle, frames = self.model.encode(torch.from_numpy(mel)[None], torch.tensor([len(mel)]), max(LOOKAHEADS))
        log_probs = self.model.phone_log_probs(middle)[: int(frames) * self.model.PHONE_RATE, 0]
        return boundaries(mel, log_probs.numpy(), words)


_aligner: Aligner


def start_worker(folder: Path) -> None:
    global _aligner
    torch.set_num_threads(1)  # the processes are the threads
    _aligner = Aligner(folder)


def row(job: tuple[str, np.ndarray, list[list[int]]]) -> str | None:
    file, mel, words = job
    found = _aligner(mel.astype(np.float32), words)
    return f"{file}\t{','.join(map(str, found))}\n" if found else None


def jobs(utterances: list[Stored], store: MelStore, targets: dict[str, str], pronunciations: Pronunciations):
    """What `row` takes; utterances without a text, or with a word that nobody can pronounce, are left out."""
    for utterance in utterances:
        spoken = [pronunciations.phones(word) for word in targets.get(utterance.file, "").split()]
        if spoken and all(spoken):
            yield utterance.file, store.mel(utterance).astype(np.float16), spoken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True, help="folder of corpus folders")
    parser.add_argument("--store", type=Path, required=True, help="what recipes.prepare wrote")
    parser.add_argument("--restored", type=Path, help="tables with punctuation and case")
    parser.add_argument("--model", type=Path, required=True, help="an exported folder with its training/")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()

    store = MelStore(args.store)
    pronunciations = Pronunciations(args.store / "pronunciations.tsv")
    with processes.get_context("spawn").Pool(args.processes, start_worker, (args.model,)) as workers:
        for corpus in (path for data in args.data for path in sorted(data.iterdir()) if path.name != NOISE):
            out = args.store / f"{corpus.name}.words"
            utterances = [u for u in store.utterances if u.corpus == corpus.name and u.frames < LONGEST]
            if out.exists() or not utterances:
                continue
            targets = load_targets(corpus, args.restored)
            pronunciations.learn(list(targets.values()))
            found = workers.imap(row, jobs(utterances, store, targets, pronunciations), chunksize=8)
            rows = [found_row for found_row in found if found_row]
            out.write_text("".join(rows), encoding="utf-8")
            print(f"{corpus.name}: words of {len(rows)} of {len(utterances)} utterances", flush=True)


if __name__ == "__main__":
    main()
