"""Runs the whole recipe on a few sentences, in under three minutes on two cores.

    python -m recipes.smoke --out DIR [--data DATA]

Without --data it synthesizes its own sentences with flite and espeak-ng. The model is too small to recognize speech. The run shows that
every step works, and that the exported folder loads and generates with the published classes.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import torch

from .batches import HELD_OUT
from .schedule import run_step
from .speakers import smoke as tell_apart
from .tagger import smoke as tag
from .targets import load_targets
from .tokenizer import train_tokenizer
from .voice import smoke as speak

SUBJECTS = ["The old man", "A small bird", "My sister", "The captain", "Nobody", "The rain"]
REST = ["went home.", "came at last!", "was seen there, I think.", "did not stay?", "said it was well-known; we agreed.",
        "sang all day: it was spring.", "walked by the sea.", "knew the way."]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, help="folder of corpus folders whose transcripts have case")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    data = args.data
    if data is None:
        data = args.out / "data"
        pool = args.out / "pool.txt"
        pool.write_text("\n".join(map(" ".join, itertools.product(SUBJECTS, REST))) + "\n", encoding="utf-8")
        run_step("synthesize", "--pool", pool, "--out", data / "synthetic-en", "--hours", 0.02)
    corpora = sorted(p for p in data.iterdir() if (p / "refs.tsv").exists())
    store, run, model, wide, tokenizer = (args.out / n for n in ("store", "run", "asr-en", "asr-en-wide", "tokenizer.json"))
    run_step("prepare", *itertools.chain(*(("--corpus", c) for c in corpora)), "--out", store, "--limit", 40,
         "--processes", 1)  # fmt: skip
    texts = [text for corpus in corpora for text in load_targets(corpus, None).values()]
    lines = args.out / "text.txt"
    lines.write_text("\n".join(texts) + "\n", encoding="utf-8")
    train_tokenizer(texts, pieces=96).save(str(tokenizer))
    run_step("train", "--data", data, "--store", store, "--tokenizer", tokenizer, "--out", run, "--hidden", 64, "--layers", 2,
         "--processes", 2, "--batch-seconds", 6, "--passes", 2, "--hours", 0.06, "--rnnt-from", 0.02,
         "--joint-alone", 0.02, "--decay-from", 0.04, "--dev-every", 0.03)  # fmt: skip
    run_step("export", "--run", run, "--tokenizer", tokenizer, "--out", model)
    run_step("ilm_calibration", "--model", model, "--store", store, "--count", 5)
    run_step("evaluate", "--model", model, "--set", corpora[0], "--limit", 2, "--lookahead", 3)
    # training continues from the export, widened, with other speeds, aligned mixes and text without sound
    run_step("widen", "--model", model, "--feedforward", 320, "--out", wide)
    run_step("prepare", "--corpus", corpora[0], "--out", store, "--limit", 20, "--processes", 1, "--speed", 1.15)
    run_step("words", "--data", data, "--store", store, "--model", model)
    run_step("train", "--data", data, "--store", store, "--tokenizer", tokenizer, "--out", args.out / "again",
         "--processes", 1, "--batch-seconds", 6, "--passes", 1, "--hours", 0.004, "--rnnt-from", 0,
         "--joint-alone", 0, "--decay-from", 0, "--aligned-mix-share", 0.5, "--dropout", 0.1, "--text", lines,
         "--band", 6, "--keep-front", "--start", wide)  # fmt: skip
    weights = torch.load(args.out / "again" / "checkpoint.pt", weights_only=True)["model"]
    assert all(bool(w.isfinite().all()) for w in weights.values())
    speak.run(corpora[0], args.out / "voice")
    tell_apart.run(corpora[0], args.out / "speakers")
    tag.run(args.out / "tagger")
    print("smoke: ok; held-out speakers:", ", ".join(HELD_OUT))


if __name__ == "__main__":
    main()
