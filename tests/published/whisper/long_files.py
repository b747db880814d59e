"""Word error rates of Whisper base over a long recording: `python tests/published/whisper/long_files.py --work FOLDER --set CORPUS`.

Joins 25 minutes of utterances of the corpus and transcribes them greedily with 8-bit weights: Auricle side by side, sequentially
and part by part, and, with `--peers`, faster-whisper on the same weights. Fails where the whole is more than `--bound` points of
WER behind the parts, or side by side more than that behind sequential. Texts are normalised as the Whisper paper does.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from joined import join
from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "models"))
from recipes.scoring import distance  # noqa: E402

NORMALISE = EnglishTextNormalizer({})


def models_folder(checkpoint: Path) -> Path:
    """A models folder in which `svc-fast` is the checkpoint."""
    models = checkpoint.with_name(f"{checkpoint.name}-models")
    (models / "starter").mkdir(parents=True, exist_ok=True)
    (models / "catalog.toml").write_text((ROOT / "models/catalog.toml").read_text())
    links = {models / "whisper-large-v3-turbo": checkpoint, models / "starter/vad": ROOT / "models/starter/vad"}
    for link, target in links.items():
        if not link.exists():
            link.symlink_to(target.resolve())
    return models


def auricle(program: Path, models: Path, files: list[Path], *options: str) -> list[dict]:
    """Transcripts as the program prints them."""
    command = [program, "transcribe", "--quiet", "--models", models, "--device", "cpu", "--format", "json"]
    lines = subprocess.run([*command, *options, *files], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def error_rate(said: str, found: str) -> tuple[float, int, int]:
    """WER in percent, errors, words."""
    reference, hypothesis = NORMALISE(said).split(), NORMALISE(found).split()
    errors = distance(reference, hypothesis)
    return 100 * errors / len(reference), errors, len(reference)


def faster_whisper(ct2: Path, recording: Path, batched: bool) -> str:
    import faster_whisper as peer

    model = peer.WhisperModel(str(ct2), device="cpu", compute_type="int8", cpu_threads=os.cpu_count())
    if batched:
        segments, _ = peer.BatchedInferencePipeline(model).transcribe(str(recording), language="en", beam_size=1, batch_size=8)
    else:
        segments, _ = model.transcribe(str(recording), language="en", beam_size=1)
    return "".join(segment.text for segment in segments)


def main() -> None:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of `weights.py`")
    parser.add_argument("--set", type=Path, required=True, help="sounds and refs.tsv")
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--bound", type=float, default=1.0)
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--who", default="side-by-side,sequential,parts")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--program", type=Path, default=target / "release/auricle")
    arguments = parser.parse_args()
    folder = arguments.work / f"joined-{arguments.minutes:g}-{arguments.first}"
    recording = join(arguments.set, folder, arguments.minutes, arguments.first)
    said = (folder / "joined.txt").read_text()
    models = models_folder(arguments.work / "base")
    common = ["--model", "svc-fast", "--language", "en", "--precision", arguments.precision]
    parts = [folder / "parts" / line.split("\t")[0] for line in (folder / "parts/refs.tsv").read_text().splitlines()]
    ways = {
        "side-by-side": lambda: auricle(arguments.program, models, [recording], *common),
        "sequential": lambda: auricle(arguments.program, models, [recording], *common, "--sequential"),
        "parts": lambda: auricle(arguments.program, models, parts, *common),
    }
    ways = {name: way for name, way in ways.items() if name in arguments.who.split(",")}
    if arguments.peers:
        ct2 = arguments.work / "ct2"
        ways["faster-whisper"] = lambda: [{"text": faster_whisper(ct2, recording, False)}]
        ways["faster-whisper batched"] = lambda: [{"text": faster_whisper(ct2, recording, True)}]
    rates = {}
    for name, way in ways.items():
        begin = time.perf_counter()
        transcripts = way()
        seconds = time.perf_counter() - begin
        text = " ".join(transcript["text"] for transcript in transcripts)
        (folder / f"{name}.json").write_text(json.dumps(transcripts))
        rates[name], errors, words = error_rate(said, text)
        print(f"{name}: WER {rates[name]:.2f} % ({errors} of {words} words), {seconds:.0f} s", flush=True)
        for line in transcripts[0].get("warnings", []) if name != "parts" else []:
            print(f"  {line}")
    for other in {"parts", "sequential"} & rates.keys():
        if rates.get("side-by-side", 0) > rates[other] + arguments.bound:
            raise SystemExit(f"side by side is more than {arguments.bound} points behind {other}")


if __name__ == "__main__":
    main()
