"""Runs a whole training with one command, for a host with a GPU: synthesizes speech on every core, then trains the starter further.

    python -m recipes.schedule --data DATA --pool WORK/pool.txt --text WORK/passages.txt --work WORK --out WORK/asr-en --minutes 24

`recipes.text_pool` writes `--pool` and `--text`; `--data` is the folder of real speech. Nothing is downloaded. Training continues from
the starter, or with `--from-scratch` begins with random weights in the same shape. At the end the learning curve is printed and the
model is exported to `--out`. A second run continues from the last checkpoint for `--minutes` more. It also runs on CPUs, more slowly
(`--compile`).
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
from pathlib import Path

import torch

from .batches import NOISE

STARTER = Path(__file__).parents[1] / "starter" / "asr-en"
SPEEDS = (0.87, 1.15)  # real speech is added at these speeds


def run_step(module: str, *arguments: object) -> None:
    subprocess.run([sys.executable, "-m", f"recipes.{module}", *map(str, arguments)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of corpus folders")
    parser.add_argument("--pool", type=Path, required=True, help="sentences to synthesize, one a line")
    parser.add_argument("--text", type=Path, required=True, help="passages, to train the prediction network on text")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--restored", type=Path, default=Path(__file__).parent / "text")
    parser.add_argument("--start", type=Path, default=STARTER, help="the exported folder to continue from; it also aligns words")
    parser.add_argument("--from-scratch", action="store_true", help="take only the tokenizer and the word alignments from --start")
    parser.add_argument("--out", type=Path, required=True, help="the folder that is exported")
    parser.add_argument("--minutes", type=float, default=24.0, help="of training; the learning rate falls over the second half")
    parser.add_argument("--synthetic-hours", type=float, default=40.0)
    parser.add_argument("--ctc-hours", type=float, default=100.0, help="with --from-scratch: hours of CTC training before the transducer loss starts")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action="store_true", help="on a CPU; needs a C++ compiler")
    args = parser.parse_args()

    store, run, spoken, tokenizer = args.work / "store", args.work / "run", args.work / "spoken", args.start / "tokenizer.json"
    run_step("synthesize", "--pool", args.pool, "--out", spoken / "synthetic-en", "--hours", args.synthetic_hours)
    real = sorted(p for p in args.data.iterdir() if p.name == NOISE or (p / "refs.tsv").exists())
    corpora = list(itertools.chain(*(("--corpus", p) for p in [*real, spoken / "synthetic-en"])))
    run_step("prepare", *corpora, "--out", store)
    read = list(itertools.chain(*(("--corpus", p) for p in real if p.name != NOISE)))
    for speed in SPEEDS:
        run_step("prepare", *read, "--out", store, "--speed", speed)
    run_step("words", "--data", args.data, "--data", spoken, "--store", store, "--restored", args.restored, "--model", args.start,
         "--sentences", args.pool)  # fmt: skip
    batches = ("--band", 6, *("--compile",) * args.compile)
    if args.device == "cuda":
        batches = ("--batch-seconds", 300, "--passes", 1, "--loaders", os.cpu_count())
    begin = ("--rnnt-from", 0, "--joint-alone", 0, "--start", args.start)
    if args.from_scratch:
        begin = ("--rnnt-from", args.ctc_hours)
    run_step("train", "--data", args.data, "--data", spoken, "--store", store, "--restored", args.restored,
         "--tokenizer", tokenizer, "--out", run, "--device", args.device, *batches, "--spec-augment",
         "--dropout", 0.1, "--aligned-mix-share", 0.1, "--units-share", 0.5, "--sentences", args.pool, "--text", args.text,
         *begin, "--hours", 1e6, "--decay-from", 1e6, "--minutes", args.minutes, "--decay-minutes", args.minutes / 2,
         "--dev-every", max(1.5, args.ctc_hours / 5))  # fmt: skip
    run_step("export", "--run", run, "--tokenizer", tokenizer, "--out", args.out)
    run_step("ilm_calibration", "--model", args.out, "--store", store)
    print((run / "curve.tsv").read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    main()
