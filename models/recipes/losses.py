"""What an exported folder's heads lose on what it was trained on, on held-out readers, and on what is made of the former.

    python -m recipes.losses --model starter/asr-en --data DATA --data WORK/spoken --store WORK/store --restored recipes/text \\
                             --sentences WORK/pool.txt

In nats a token and a phone, nothing augmented, at the widest look-ahead. The first two lines tell what is known by heart from what is
heard; the others, whether what `recipes.words` knows is right: with words or phones in wrong places these losses are far higher.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional as F
from transformers import NemotronAsrStreamingConfig

from .alignment import cells_of
from .augment import Augmentation
from .batches import Example, Sampler, Targets, load_examples
from .checkpoint import start_from
from .features import MelStore
from .model import LOOKAHEADS, Recogniser
from .phones import PHONES, Pronunciations
from .rnnt_loss import rnnt_loss

LENGTHS = (500, 1500)  # frames


@torch.no_grad()
def losses(model: Recogniser, sampler: Sampler, examples: list[Example]) -> tuple[float, float]:
    """Of the transducer a token, of the phone head a phone."""
    sums, rng = np.zeros(4), np.random.default_rng(0)
    for example in examples:
        batch = sampler.collate([example], rng)
        hidden, middle, frames = model.encode(batch.mel, batch.frames, max(LOOKAHEADS))
        moves = model.transducer_moves(hidden, batch.tokens, cells_of(batch.tokens, frames, batch.token_counts, hidden.shape[1]))
        by_phone, decisions = model.phone_log_probs(middle), frames * model.PHONE_RATE
        phone = F.ctc_loss(by_phone, batch.phones, decisions, batch.phone_counts, 0, "sum")
        token = rnnt_loss(*moves, frames, batch.token_counts).sum()
        sums += [float(token), int(batch.token_counts.sum()), float(phone), int(batch.phone_counts.sum())]
    return sums[0] / sums[1], sums[2] / sums[3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="an exported folder with its training/")
    parser.add_argument("--data", type=Path, action="append", required=True, help="folder of corpus folders")
    parser.add_argument("--store", type=Path, required=True, help="what recipes.prepare wrote")
    parser.add_argument("--restored", type=Path, help="tables with punctuation and case")
    parser.add_argument("--sentences", type=Path, required=True, help="one a line (recipes.text_pool)")
    parser.add_argument("--count", type=int, default=100, help="utterances a line")
    args = parser.parse_args()

    model = Recogniser(NemotronAsrStreamingConfig.from_pretrained(args.model), len(PHONES))
    start_from(model, args.model)
    model.eval()
    store = MelStore(args.store)
    targets = Targets(Tokenizer.from_file(str(args.model / "tokenizer.json")), Pronunciations(args.store / "pronunciations.tsv"))
    corpora = [p for data in args.data for p in sorted(data.iterdir()) if (args.store / f"{p.name}.index").exists()]
    trained, held_out = load_examples(store, corpora, args.restored, targets)
    rng = np.random.default_rng(1)

    def some(examples: list[Example]) -> list[Example]:
        recorded = (e for e in examples if not e.synthetic and e.phones and e.parts[0].corpus == e.parts[0].recorded)
        found = [e for e in recorded if LENGTHS[0] < e.frames < LENGTHS[1]]
        return [found[i] for i in rng.permutation(len(found))[: args.count]]

    natural = some(trained)
    sampler = Sampler(trained, store, Augmentation(0), 1.0, seed=1)
    print("| Utterances | Transducer, nats a token | Phones, nats a phone |\n|---|---|---|", flush=True)
    made = {"words of several readers, mixed": (1.0, 0.0), "sentences made of phones": (0.0, 1.0)}
    rows = {"readers of the training": natural, "held-out readers": some(held_out)}
    for name, shares in made.items():
        sampler.make_more(*shares, args.store, args.sentences.read_text(encoding="utf-8").splitlines(), targets)
        rows[name] = sampler.made_of(natural, rng)
    for name, examples in rows.items():
        by_token, by_phone = losses(model, sampler, examples)
        print(f"| {name}, {len(examples)} | {by_token:.2f} | {by_phone:.2f} |", flush=True)


if __name__ == "__main__":
    main()
