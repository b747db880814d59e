"""Where each word of a stored corpus lies, so that training can make new sentences of them.

    python -m recipes.words --data DATA --store STORE --restored recipes/text --model starter/asr-en

An exported recogniser's phone head aligns each utterance with its text (CTC, best path); between the last phone of a word
and the first of the next, the quietest frame parts them. Written to `STORE/<corpus>.words`: `file<TAB>frame,...<TAB>frame,...`, one
frame of 10 ms before each word and one after the last, then one in the middle of each phone, as `recipes.units` needs them. A
corpus that has the file is left as it is.
"""

from __future__ import annotations

import argparse
import itertools
import os
from pathlib import Path

import numpy as np
import torch
from torch import multiprocessing as processes
from transformers import NemotronAsrStreamingConfig

from .alignment import best_path
from .batches import NOISE
from .checkpoint import start_from
from .features import MelStore, Stored
from .model import LOOKAHEADS, Recogniser
from .phones import PHONES, Pronunciations
from .targets import load_targets

FRAMES_PER_DECISION = 8 // Recogniser.PHONE_RATE  # of 10 ms
LATEST = 40  # frames
MEASURED = 200  # utterances
LONGEST = 2400  # frames; longer utterances are not trained on


def lateness(mels: list[np.ndarray], phones: list[list[int]], begins: list[np.ndarray]) -> int:
    """By how many frames `begins`, of 10 ms, come after the phones' middles.

    Nothing in CTC ties a label to its place: a causal encoder is sure of a phone only once it has passed. At the right shift,
    what is heard under a label differs least from one place to the next, measured by the variance that is left within labels.
    """
    labels = np.concatenate([np.array(row) for row in phones])

    def left(shift: int) -> float:
        at = [np.clip(row - shift, 0, len(mel) - 1) for mel, row in zip(mels, begins, strict=True)]
        heard = np.concatenate([mel[frames] for mel, frames in zip(mels, at, strict=True)]).astype(np.float32)
        return sum(float(heard[labels == label].var(0).sum()) * int((labels == label).sum()) for label in np.unique(labels))

    return min(range(LATEST), key=left)


def boundaries(mel: np.ndarray, middles: np.ndarray, words: list[list[int]]) -> list[int] | None:
    """Frames that part the words, given as phones, of an utterance `mel` `[frames, mels]` whose phones have these `middles`."""
    level = np.convolve(mel.mean(1), np.ones(3) / 3, mode="same")
    found, number = [0], 0
    for word in words[:-1]:
        number += len(word)
        first, last = int(middles[number - 1]), int(middles[number])
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
    def __call__(self, mel: np.ndarray, phones: list[int]) -> np.ndarray | None:
        """The frames at which the phones of an utterance `[frames, mels]` are first emitted, in the middle of a decision."""
        _, middle, frames = self.model.encode(torch.from_numpy(mel)[None], torch.tensor([len(mel)]), max(LOOKAHEADS))
        log_probs = self.model.phone_log_probs(middle)[: int(frames) * self.model.PHONE_RATE, 0]
        begins = best_path(log_probs.numpy(), phones)
        return None if begins is None else begins * FRAMES_PER_DECISION + FRAMES_PER_DECISION // 2


_aligner: Aligner


def start_worker(folder: Path) -> None:
    global _aligner
    torch.set_num_threads(1)  # the processes are the threads
    _aligner = Aligner(folder)


def align(job: tuple[np.ndarray, list[int]]) -> np.ndarray | None:
    mel, phones = job
    return _aligner(mel.astype(np.float32), phones)


Aligned = tuple[Stored, list[list[int]], np.ndarray]  # an utterance, its words as phones, when these are emitted


def table(aligned: list[Aligned], store: MelStore) -> tuple[list[str], int]:
    """The rows of a corpus, and how late its labels come. An utterance whose words cannot be parted has no row."""
    sample = aligned[:MEASURED]
    mels = [store.mel(utterance) for utterance, _, _ in sample]
    late = lateness(mels, [list(itertools.chain(*words)) for _, words, _ in sample], [begins for _, _, begins in sample])
    rows = []
    for utterance, words, begins in aligned:
        middles = np.clip(begins - late, 0, utterance.frames)
        bounds = boundaries(store.mel(utterance), middles, words)
        if bounds:
            columns = (",".join(map(str, column)) for column in (bounds, middles.tolist()))
            rows.append("\t".join((utterance.file, *columns)) + "\n")
    return rows, late


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True, help="folder of corpus folders")
    parser.add_argument("--store", type=Path, required=True, help="what recipes.prepare wrote")
    parser.add_argument("--restored", type=Path, help="tables with punctuation and case")
    parser.add_argument("--model", type=Path, required=True, help="an exported folder with its training/")
    parser.add_argument("--sentences", type=Path, help="learn how these are pronounced too, one a line")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()

    store = MelStore(args.store)
    pronunciations = Pronunciations(args.store / "pronunciations.tsv")
    if args.sentences:
        pronunciations.learn(args.sentences.read_text(encoding="utf-8").splitlines())
    with processes.get_context("spawn").Pool(args.processes, start_worker, (args.model,)) as workers:
        for corpus in (path for data in args.data for path in sorted(data.iterdir()) if path.name != NOISE):
            out = args.store / f"{corpus.name}.words"
            utterances = [u for u in store.utterances if u.corpus == corpus.name and u.frames < LONGEST]
            if out.exists() or not utterances:
                continue
            targets = load_targets(corpus, args.restored)
            pronunciations.learn(list(targets.values()))
            texts = ((u, [pronunciations.phones(word) for word in targets.get(u.file, "").split()]) for u in utterances)
            known = [(utterance, words) for utterance, words in texts if words and all(words)]
            jobs = ((store.mel(u).astype(np.float16), list(itertools.chain(*words))) for u, words in known)
            found = workers.imap(align, jobs, chunksize=8)
            aligned = [(*one, begins) for one, begins in zip(known, found, strict=True) if begins is not None]
            if not aligned:
                print(f"{corpus.name}: no utterance can be aligned", flush=True)
                continue
            rows, late = table(aligned, store)
            out.write_text("".join(rows), encoding="utf-8")
            print(f"{corpus.name}: words of {len(rows)} of {len(utterances)} utterances; labels {late * 10} ms late", flush=True)


if __name__ == "__main__":
    main()
