"""A whole training course with one command, for a host with a GPU: speech made on every core, then the starter trained on.

    python -m recipes.course --data DATA --pool WORK/pool.txt --text WORK/passages.txt --work WORK --out WORK/asr-en --minutes 24

`--pool` and `--text` are what `recipes.text_pool` wrote, and `--data` the folder of real speech: with these there, nothing is
downloaded. Goes on from the starter, or with `--afresh` from nothing in the same shape; shows the learning curve and exports to
`--out`. Run again, it goes on from its last checkpoint for `--minutes` more. It serves on CPUs too, slower (`--compile`).
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
SPEEDS = (0.87, 1.15)  # real speech is heard at these too


def step(module: str, *arguments: object) -> None:
    subprocess.run([sys.executable, "-m", f"recipes.{module}", *map(str, arguments)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of corpus folders")
    parser.add_argument("--pool", type=Path, required=True, help="one sentence a line, to be spoken")
    parser.add_argument("--text", type=Path, required=True, help="passages, for the prediction network alone")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--restored", type=Path, default=Path(__file__).parent / "text")
    parser.add_argument("--start", type=Path, default=STARTER, help="the exported folder to go on from; tells where words lie")
    parser.add_argument("--afresh", action="store_true", help="the start only tells where words lie and lends its tokenizer")
    parser.add_argument("--out", type=Path, required=True, help="the folder that is exported")
    parser.add_argument("--minutes", type=float, default=24.0, help="of training; half of them at a falling rate")
    parser.add_argument("--synthetic-hours", type=float, default=40.0)
    parser.add_argument("--ctc-hours", type=float, default=100.0, help="with --afresh, heard before the transducer joins in")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action="store_true", help="on a CPU; needs a C++ compiler")
    args = parser.parse_args()

    store, run, spoken, tokenizer = args.work / "store", args.work / "run", args.work / "spoken", args.start / "tokenizer.json"
    step("synthesize", "--pool", args.pool, "--out", spoken / "synthetic-en", "--hours", args.synthetic_hours)
    real = sorted(p for p in args.data.iterdir() if p.name == NOISE or (p / "refs.tsv").exists())
    corpora = list(itertools.chain(*(("--corpus", p) for p in [*real, spoken / "synthetic-en"])))
    step("prepare", *corpora, "--out", store)
    read = list(itertools.chain(*(("--corpus", p) for p in real if p.name != NOISE)))
    for speed in SPEEDS:
        step("prepare", *read, "--out", store, "--speed", speed)
    step("words", "--data", args.data, "--data", spoken, "--store", store, "--restored", args.restored, "--model", args.start,
         "--sentences", args.pool)  # fmt: skip
    batches = ("--band", 6, *("--compile",) * args.compile)
    if args.device == "cuda":
        batches = ("--batch-seconds", 300, "--passes", 1, "--loaders", os.cpu_count())
    begin = ("--rnnt-from", 0, "--joint-alone", 0, "--start", args.start)
    if args.afresh:
        begin = ("--rnnt-from", args.ctc_hours)
    step("train", "--data", args.data, "--data", spoken, "--store", store, "--restored", args.restored,
         "--tokenizer", tokenizer, "--out", run, "--device", args.device, *batches, "--spec-augment",
         "--dropout", 0.1, "--joined-share", 0.1, "--units-share", 0.5, "--sentences", args.pool, "--text", args.text,
         *begin, "--hours", 1e6, "--decay-from", 1e6, "--minutes", args.minutes, "--decay-minutes", args.minutes / 2,
         "--dev-every", max(1.5, args.ctc_hours / 5))  # fmt: skip
    step("export", "--run", run, "--tokenizer", tokenizer, "--out", args.out)
    step("centre", "--model", args.out, "--store", store)
    print((run / "curve.tsv").read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    main()
