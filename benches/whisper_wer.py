"""Word error rate of a real Whisper checkpoint, in full and in eight bits: Auricle beside CTranslate2 on the same weights.

    python benches/whisper_wer.py --ct2 FOLDER --set EVAL [--work FOLDER]

`--ct2` is the checkpoint as CTranslate2 keeps it; `recipes.whisper convert` makes Auricle's folder of it. Both decode greedily, in
English, with timestamps. Texts are normalised as the Whisper paper does (transformers' `EnglishTextNormalizer`), so numbers and
titles count however they are written. Needs ctranslate2, torch and transformers, and `cargo build --release`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import ctranslate2
import numpy
import soundfile
from tokenizers import Tokenizer
from transformers import WhisperFeatureExtractor
from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "models"))
from recipes.scoring import distance  # noqa: E402
from recipes.whisper.ct2 import convert  # noqa: E402

PRECISIONS = {"full": "float32", "int8": "int8_float32"}


def auricle(program: Path, folder: Path, files: list[Path], precision: str) -> list[str]:
    models = folder.with_name(f"{folder.name}-models")
    (models / "starter").mkdir(parents=True, exist_ok=True)
    (models / "catalog.toml").write_text((ROOT / "models" / "catalog.toml").read_text())
    links = {models / "whisper-large-v3-turbo": folder, models / "starter" / "vad": ROOT / "models/starter/vad"}
    for link, target in links.items():
        if not link.exists():
            link.symlink_to(target.resolve())
    command = [program, "transcribe", "--quiet", "--models", models, "--model", "svc-fast", "--language", "en"]
    command += ["--device", "cpu", "--precision", precision, "--format", "json", *files]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return [json.loads(line)["text"] for line in lines]


def ctranslate(source: Path, folder: Path, files: list[Path], precision: str) -> list[str]:
    model = ctranslate2.models.Whisper(str(source), device="cpu", compute_type=PRECISIONS[precision], intra_threads=2)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    layout = json.loads((folder / "generation_config.json").read_text())
    prompt = [layout["decoder_start_token_id"], layout["lang_to_id"]["<|en|>"], layout["task_to_id"]["transcribe"]]
    texts = []
    for file in files:
        pcm, rate = soundfile.read(file, dtype="float32")
        assert rate == 16000 and len(pcm) <= 30 * rate, file
        mels = extractor(pcm, sampling_rate=rate, return_tensors="np").input_features.astype(numpy.float32)
        found = model.generate(ctranslate2.StorageView.from_array(mels), [prompt], beam_size=1)
        ids = [i for i in found[0].sequences_ids[0] if i < layout["no_timestamps_token_id"]]
        texts.append(tokenizer.decode(ids, skip_special_tokens=True))
    return texts


def main() -> None:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ct2", type=Path, required=True)
    parser.add_argument("--set", type=Path, required=True, help="sounds of at most 30 s and refs.tsv")
    parser.add_argument("--precision", choices=PRECISIONS, nargs="+", default=list(PRECISIONS))
    parser.add_argument("--work", type=Path, default=Path("/tmp/auricle-whisper"))
    parser.add_argument("--program", type=Path, default=target / "release/auricle")
    arguments = parser.parse_args()
    folder = arguments.work / "published"
    if not (folder / "model.safetensors").exists():
        convert(arguments.ct2, folder)
    rows = [line.split("\t") for line in (arguments.set / "refs.tsv").read_text().splitlines()]
    files = [arguments.set / name for name, _ in rows]
    normalise = EnglishTextNormalizer({})
    for precision in arguments.precision:
        begin = time.perf_counter()
        ours = auricle(arguments.program, folder, files, precision)
        theirs = ctranslate(arguments.ct2, folder, files, precision)
        for who, texts in {"Auricle": ours, "CTranslate2": theirs}.items():
            errors = words = 0
            for (_, reference), text in zip(rows, texts, strict=True):
                said, found = normalise(reference).split(), normalise(text).split()
                errors += distance(said, found)
                words += len(said)
            print(f"{precision} {who}: WER {100 * errors / words:.2f} % ({errors} of {words} words)", flush=True)
        same = sum(normalise(a) == normalise(b) for a, b in zip(ours, theirs, strict=True))
        seconds = time.perf_counter() - begin
        print(f"{precision}: the same words in {same} of {len(files)} files, {seconds:.0f} s for both", flush=True)


if __name__ == "__main__":
    main()
