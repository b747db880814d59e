"""Command line of the recipe."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch


def main() -> None:
    parser = argparse.ArgumentParser(prog="recipes.vad", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    prepare = commands.add_parser("prepare", help="decode and label corpora into a store")
    prepare.add_argument("--corpus", type=Path, action="append", required=True)
    prepare.add_argument("--noise", type=Path, required=True)
    prepare.add_argument("--out", type=Path, required=True)

    train = commands.add_parser("train", help="train, or go on with what is in --out")
    train.add_argument("--store", type=Path, required=True)
    train.add_argument("--out", type=Path, required=True)
    train.add_argument("--minutes", type=float, default=20, help="of processor time, over all runs into --out")
    train.add_argument("--rows", type=int, default=16, help="scenes of 8.2 s a step")
    train.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    train.add_argument("--adamw", action="store_true", help="AdamW for everything, no Muon")
    train.add_argument("--seed", type=int, default=7)
    train.add_argument("--threads", type=int, default=1)

    export = commands.add_parser("export", help="write the published form")
    export.add_argument("--run", type=Path, required=True)
    export.add_argument("--out", type=Path, required=True)

    evaluate = commands.add_parser("evaluate", help="figures on held-out readers and sounds")
    evaluate.add_argument("--store", type=Path, required=True)
    evaluate.add_argument("--model", type=Path, required=True, help="a folder, or a .safetensors file")
    evaluate.add_argument("--threads", type=int, default=1)

    args = parser.parse_args()
    torch.set_num_threads(getattr(args, "threads", 1))
    if args.command == "prepare":
        from .sounds import prepare as run

        run(args.corpus, args.noise, args.out)
    elif args.command == "train":
        from .train import train as run

        run(args)
    elif args.command == "export":
        from .train import export as run

        run(args.run, args.out)
    else:
        from .evaluate import evaluate as run

        run(args.store, args.model)


if __name__ == "__main__":
    main()
