"""Prints the figures of a starter's card: what the engine makes of every evaluation set, and whether PyTorch agrees.

    python -m recipes.table --set EVAL/librispeech-sample --data DATA --work WORK [--model starter/asr-en]

The sets that `recipes.conditions` makes are made in WORK, and so is one of the held-out readers. Words are counted by the engine
(`cargo run --release --bin wer`), greedily and with the language model that ships; `false_words` counts what it hears in
ten minutes of each of nine sounds without speech. At the end PyTorch hears the first set, greedily and without the detector, as the
engine does then: their texts should be the same.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

from . import conditions
from .batches import HELD_OUT
from .evaluate import load, transcribe
from .prepare import decode
from .targets import read_table

REPOSITORY = Path(__file__).resolve().parents[2]
READER_CORPUS, EACH_READER = "mini-librispeech-en", 12
LOOK_AHEADS_MS = {"the same, look-ahead 6 frames": 560, "3 frames": 320, "1 frame": 160, "none": 80}
DETECTOR = re.compile(r"^\[detector\]\n(?:[^\[\n].*\n|\n)*", re.M)


def load_tool(name: str, *arguments: object) -> str:
    """Returns the output of one of the programs of `benches/src/bin`."""
    command = ["cargo", "run", "--release", "--quiet", "--bin", name, "--", *map(str, arguments)]
    return subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout


def models_with(model: Path, folder: Path, detector: bool) -> Path:
    """A folder of models as the repository's, with `model` as its asr-en."""
    (folder / "starter").mkdir(parents=True)
    for starter in (REPOSITORY / "models" / "starter").iterdir():
        target = model.resolve() if starter.name == "asr-en" else starter
        (folder / "starter" / starter.name).symlink_to(target)
    catalog = (REPOSITORY / "models" / "catalog.toml").read_text(encoding="utf-8")
    (folder / "catalog.toml").write_text(catalog if detector else DETECTOR.sub("", catalog), encoding="utf-8")
    return folder


def readers(data: Path, out: Path) -> Path:
    """The first utterances of each reader that is never trained on."""
    corpus = data / READER_CORPUS
    if not (out / "refs.tsv").exists():
        out.mkdir(parents=True, exist_ok=True)
        texts = read_table(corpus / "refs.tsv")
        rows = []
        for reader in HELD_OUT:
            for name in sorted(n for n in texts if n.startswith(f"{reader}-"))[:EACH_READER]:
                (out / name).unlink(missing_ok=True)
                (out / name).symlink_to((corpus / name).resolve())
                rows.append(f"{name}\t{texts[name]}\n")
        (out / "refs.tsv").write_text("".join(rows), encoding="utf-8")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", type=Path, required=True, help="an evaluation set")
    parser.add_argument("--data", type=Path, required=True, help="folder of corpus folders, with noise and the held-out readers")
    parser.add_argument("--work", type=Path, required=True, help="where the made sets are kept")
    parser.add_argument("--model", type=Path, default=REPOSITORY / "models" / "starter" / "asr-en")
    parser.add_argument("--minutes", type=int, default=10, help="of each sound without speech")
    args = parser.parse_args()
    made = args.work / "conditions"
    if not (made / "synthetic" / "refs.tsv").exists():
        conditions.make(args.set, args.data / "noise", made)
    reading = readers(args.data, args.work / "held-out-readers")

    with tempfile.TemporaryDirectory() as scratch:
        models = models_with(args.model, Path(scratch) / "models", detector=True)
        bare = models_with(args.model, Path(scratch) / "bare", detector=False)
        common = ("--device", "cpu", "--model", "svc-realtime", "--models")
        rows = [(args.set.name, args.set, ())]
        rows += [(name, args.set, ("--look-ahead", ms)) for name, ms in LOOK_AHEADS_MS.items()]
        rows += [("the same over a telephone", made / "telephone", ()), ("in noise at 10 dB", made / "noise-10db", ())]
        rows += [("said by a synthetic voice never trained on", made / "synthetic", ()), ("held-out readers", reading, ())]
        print("| Set | Greedy | With the language model |\n|---|---|---|", flush=True)
        for name, folder, more in rows:
            rates = re.findall(r"WER (\S+) %", load_tool("wer", folder.resolve(), *common, models, *more))
            print(f"| {name} | {' | '.join(f'{float(rate):.1f}' for rate in rates)} |", flush=True)
        print("\n" + load_tool("false_words", "--models", models, "--minutes", args.minutes), flush=True)

        shown = load_tool("wer", args.set.resolve(), *common, bare, "--lm", "off", "--show")
        by_engine = dict(re.findall(r"^(\S+)\n  reference: .*\n  hypothesis: (.*)$", shown, flags=re.M))
    model, processor = load(args.model, "cpu")
    by_pytorch = {name: transcribe(model, processor, decode(args.set / name)) for name in by_engine}
    same = sum(text.split() == by_pytorch[name].split() for name, text in by_engine.items())
    print(f"PyTorch writes the same text for {same} of {len(by_engine)}")
    for name, text in by_engine.items():
        if text.split() != by_pytorch[name].split():
            print(f"  {name}\n    engine  {text}\n    PyTorch {by_pytorch[name]}")


if __name__ == "__main__":
    main()
