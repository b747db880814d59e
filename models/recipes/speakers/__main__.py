"""Command line of the recipe."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import torch

from ..voice.__main__ import run_options


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="recipes.speakers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    prepare = commands.add_parser("prepare", help="decode corpora and store their log-mels at five speeds")
    prepare.add_argument("--corpus", type=Path, action="append", required=True)
    prepare.add_argument("--noise", type=Path, required=True)
    prepare.add_argument("--out", type=Path, required=True)
    prepare.add_argument("--sound", action="store_true", help="store the sound too, for train --teacher")
    prepare.add_argument("--limit", type=int, help="at most so many utterances a corpus")

    teach = commands.add_parser("teach", help="store what a trained encoder makes of the corpora, to be taught by it")
    teach.add_argument("--teacher", type=Path, required=True, help="`pretrained.pt` of the package resemblyzer")
    teach.add_argument("--corpus", type=Path, action="append", required=True)
    teach.add_argument("--store", type=Path, required=True)

    train = commands.add_parser("train", help="train, or go on with what is in --out")
    train.add_argument("--store", type=Path, required=True)
    train.add_argument("--out", type=Path, required=True)
    train.add_argument("--minutes", type=float, default=500, help="of processor time, over all runs into --out")
    train.add_argument("--wall-minutes", type=float, help="of this run at most: the rate falls by whichever is sooner")
    train.add_argument("--distil", type=float, default=0.0, help="share of the distance to a teacher's directions in the loss")
    train.add_argument("--teacher", type=Path, help="with --distil: `pretrained.pt`, to say directions of the crops themselves, from the "
                       "sound that prepare --sound stores; for GPUs")  # fmt: skip
    train.add_argument("--softmax", type=float, default=1.0, help="share of the softmax over the training voices")
    train.add_argument("--start", type=Path, help="begin with the weights of a run or an export, without its optimiser's state")
    train.add_argument("--rows", type=int, default=96, help="crops a step")
    train.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    train.add_argument("--channels", type=int, default=256)
    train.add_argument("--augment", type=float, default=1.0, help="scales how often and how far crops are changed")
    train.add_argument("--dev-every", type=int, default=1000, help="steps between evaluations")
    train.add_argument("--longest", type=float, default=2.6, help="seconds of a crop")
    train.add_argument("--seed", type=int, default=7)
    run_options(train)

    export = commands.add_parser("export", help="write the published form")
    export.add_argument("--run", type=Path, required=True)
    export.add_argument("--out", type=Path, required=True)

    evaluate = commands.add_parser("evaluate", help="equal error rates on readers who were never trained on")
    evaluate.add_argument("--model", type=Path, required=True, help="an exported folder, or a run's")
    evaluate.add_argument("--store", type=Path, help="held-out readers of the training's store")
    evaluate.add_argument("--set", type=Path, action="append", default=[], help="a folder of files named <reader>-...")

    cohort = commands.add_parser("cohort", help="store directions of other people beside an exported model, to name people by")
    cohort.add_argument("--model", type=Path, required=True, help="an exported folder")
    cohort.add_argument("--corpus", type=Path, action="append", required=True)

    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if args.command == "prepare":
        store_corpora(args)
    elif args.command == "teach":
        from .readers import SPEEDS, stored_as
        from .teacher import teach as run

        run(args.teacher, args.corpus, args.store, SPEEDS, stored_as)
    elif args.command == "train":
        from .train import train as run

        run(args)
    elif args.command == "export":
        from .export import export as run

        run(args.run, args.out)
    elif args.command == "cohort":
        from .cohort import cohort as run

        run(args.model, args.corpus)
    else:
        from .evaluate import evaluate as run

        run(args.model, args.store, args.set)


def store_corpora(args: argparse.Namespace) -> None:
    """Stores what is not stored yet; noise at the speed it was recorded at."""
    from ..prepare import decode, store, stored_mel
    from .live import store_sound
    from .readers import SPEEDS, stored_as

    for speed in SPEEDS:
        mel = partial(stored_mel, speed=speed)
        for corpus in args.corpus:
            store(corpus, stored_as(corpus.name, speed), args.out, lambda files: map(mel, files), args.limit)
    for corpus in args.corpus if args.sound else ():
        lines = (args.out / f"{corpus.name}.index").read_text(encoding="utf-8").splitlines()
        store_sound(args.out, corpus.name, [decode(corpus / line.split("\t")[0]) for line in lines])
    store(args.noise, "noise", args.out, lambda files: map(partial(stored_mel, speed=SPEEDS[2]), files), args.limit)


if __name__ == "__main__":
    main()
