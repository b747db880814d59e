"""Command line of the recipe."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="recipes.voice", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    prepare = commands.add_parser("prepare", help="decode, trim and level corpora into a store")
    prepare.add_argument("--corpus", type=Path, action="append", required=True)
    prepare.add_argument("--restored", type=Path, help="tables with punctuation and case")
    prepare.add_argument("--out", type=Path, required=True)
    prepare.add_argument("--limit", type=int, help="at most so many clips a corpus")

    annotate = commands.add_parser("annotate", help="align clips with their text, measure pitch and energy")
    annotate.add_argument("--store", type=Path, required=True)
    annotate.add_argument("--voices", required=True, help="speakers, with commas between")
    annotate.add_argument("--recogniser", type=Path, required=True, help="an exported recogniser with its training/")
    annotate.add_argument("--g2p", type=Path, help="clips with words outside the dictionary are left out without it")
    annotate.add_argument("--rounds", type=int, default=3)
    annotate.add_argument("--steps", type=int, default=600, help="of the classifier, a round")
    annotate.add_argument("--out", type=Path, required=True)

    vocoder = commands.add_parser("train-vocoder", help="train the vocoder, or go on with what is in --out")
    vocoder.add_argument("--spectral", type=float, default=0.26, help="share of the time that has spectral losses alone")
    vocoder.add_argument("--favoured", default="kathleen,ljspeech", help="speakers heard more often")
    vocoder.add_argument("--weight", type=float, default=3.0, help="how much more often")
    vocoder.add_argument("--start", type=Path, help="begin with the weights of a run or an export, without its optimisers' state")
    vocoder.add_argument("--predicted", default="", help="PART:SHARE, with commas between: from this part of the budget on, this share of "
                         "the crops has mels that the acoustic model predicts")  # fmt: skip
    vocoder.add_argument("--annotated", type=Path, help="for --predicted")
    vocoder.add_argument("--acoustic", type=Path, help="for --predicted: a run's folder, read again as the run goes on")
    tune = commands.add_parser("tune-vocoder", help="train a vocoder on with predicted mels, or go on with what is in --out")
    tune.add_argument("--annotated", type=Path, required=True)
    tune.add_argument("--acoustic", type=Path, required=True, help="a run's folder")
    tune.add_argument("--start", type=Path, required=True, help="the vocoder's run")
    tune.set_defaults(spectral=0.0, predicted="0:1", favoured="", weight=1.0)
    for one, minutes, rate in ((vocoder, 230, 1e-3), (tune, 25, 3e-4)):
        one.add_argument("--store", type=Path, required=True)
        one.add_argument("--out", type=Path, required=True)
        one.add_argument("--minutes", type=float, default=minutes, help="of processor time, over all runs into --out")
        one.add_argument("--wall-minutes", type=float, help="end after so long on the clock, too, the schedule done")
        one.add_argument("--rows", type=int, default=16, help="crops of 0.77 s a step")
        one.add_argument("--rate", type=float, default=rate)
        one.add_argument("--mel-weight", type=float, default=3.0)
        one.add_argument("--adversarial-weight", type=float, default=0.5)
        one.add_argument("--channels", type=int, default=288)
        one.add_argument("--inner", type=int, default=768)
        one.add_argument("--layers", type=int, default=8)
        one.add_argument("--discriminator-channels", type=int, default=16)
        one.add_argument("--discriminator-rate", type=float, help="their highest rate; a third of --rate without it")
        one.add_argument("--periods", default="", help="of discriminators of the waveform, with commas between, such as 2,3,5,7,11")
        one.add_argument("--seed", type=int, default=7)

    g2p = commands.add_parser("train-g2p", help="train letters to phones, or go on with what is in --out")
    g2p.add_argument("--out", type=Path, required=True)
    g2p.add_argument("--minutes", type=float, default=50, help="of processor time, over all runs into --out")
    g2p.add_argument("--wall-minutes", type=float, help="end after so long on the clock, too, the schedule done")
    g2p.add_argument("--rows", type=int, default=768, help="words a step")
    g2p.add_argument("--rate", type=float, default=2e-3)
    g2p.add_argument("--hidden", type=int, default=128)
    g2p.add_argument("--layers", type=int, default=5)
    g2p.add_argument("--dropout", type=float, default=0.1)
    g2p.add_argument("--start", type=Path, help="begin with the weights of a run or an export, without its optimisers' state")
    g2p.add_argument("--seed", type=int, default=7)

    score = commands.add_parser("score-g2p", help="held-out words pronounced exactly")
    score.add_argument("--model", type=Path, required=True, help="a run's folder or an exported one")

    acoustic = commands.add_parser("train-acoustic", help="train the acoustic model, or go on with what is in --out")
    acoustic.add_argument("--store", type=Path, required=True)
    acoustic.add_argument("--annotated", type=Path, required=True)
    acoustic.add_argument("--out", type=Path, required=True)
    acoustic.add_argument("--minutes", type=float, default=150, help="of processor time, over all runs into --out")
    acoustic.add_argument("--wall-minutes", type=float, help="end after so long on the clock, too, the schedule done")
    acoustic.add_argument("--frames", type=int, default=2000, help="of a batch, 16 ms each")
    acoustic.add_argument("--favoured", default="", help="VOICE=WEIGHT, with commas between: heard more often")
    acoustic.add_argument("--rate", type=float, default=1.5e-3)
    acoustic.add_argument("--hidden", type=int, default=192)
    acoustic.add_argument("--layers", type=int, default=4)
    acoustic.add_argument("--feedforward", type=int, default=384)
    acoustic.add_argument("--dev-every", type=int, default=500)
    acoustic.add_argument("--seed", type=int, default=7)

    export = commands.add_parser("export", help="write the three models as one folder")
    for name in ("acoustic", "g2p", "out"):
        export.add_argument(f"--{name}", type=Path, required=True)
    export.add_argument("--vocoder", type=Path, required=True, nargs="+", help="of several runs, such as one and its tuning, the mean")

    dictionary = commands.add_parser("dictionary", help="pack the CMU dictionary for the engine")
    dictionary.add_argument("--out", type=Path, required=True)
    dictionary.add_argument("--held-out", type=Path, help="leave out what the g2p has never seen, and write it here")

    evaluate = commands.add_parser("evaluate", help="words wrong, DNSMOS and speed on a hundred sentences")
    evaluate.add_argument("--model", type=Path, help="an exported folder")
    for name in ("acoustic", "vocoder", "g2p"):
        evaluate.add_argument(f"--{name}", type=Path, help="a run's folder, without --model")
    evaluate.add_argument("--recordings", type=Path, help="a store: its held-out clips are scored too, as they are and vocoded")
    evaluate.add_argument("--voices", default="", help="with commas between; all, without it")
    evaluate.add_argument("--limit", type=int, help="so many sentences")
    evaluate.add_argument("--tools", default=sys.executable, help="a Python that has what score_wavs.py needs")
    evaluate.add_argument("--keep", type=Path, help="leave the sound files here")

    for one in (vocoder, tune, g2p, acoustic):
        run_options(one)

    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if args.command == "prepare":
        from .clips import prepare as run

        run(args.corpus, args.restored, args.out, args.limit)
    elif args.command == "annotate":
        from .annotate import annotate as run
        from .g2p import G2p
        from .symbols import Lexicon

        lexicon = Lexicon(G2p(args.g2p) if args.g2p else None)
        run(args.store, args.voices.split(","), args.recogniser, lexicon, args.out, args.rounds, args.steps)
    elif args.command in ("train-vocoder", "tune-vocoder"):
        from .train_vocoder import train as run

        run(args)
    elif args.command == "export":
        from .export import export as run

        run(args.acoustic, args.vocoder, args.g2p, args.out)
    elif args.command == "dictionary":
        from .dictionary import write as run

        run(args.out, args.held_out)
    elif args.command == "evaluate":
        from .evaluate import evaluate as run

        run(args)
    elif args.command == "train-acoustic":
        from .train_acoustic import train as run

        run(args)
    elif args.command == "score-g2p":
        from .g2p import entries, exact, load

        held_out = entries()[1]
        with_stress, without = exact(load(args.model), held_out)
        print(f"{len(held_out)} words: {100 * with_stress:.1f} % exact, {100 * without:.1f} % without stress")
    elif args.command == "train-g2p":
        from .g2p import train as run

        run(args)


def run_options(parser: argparse.ArgumentParser) -> None:
    """What every training takes."""
    parser.add_argument("--device", help="cuda or cpu; without it the GPU, where there is one")
    parser.add_argument("--end-at", type=float, help="the time, in seconds since 1970, at which the schedule is done, too")
    parser.add_argument("--save-every", type=float, default=180, help="seconds between checkpoints")
    parser.add_argument("--weights", type=Path, help="write the average's weights in f16 here too, with each checkpoint")


if __name__ == "__main__":
    main()
