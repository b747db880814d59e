"""Whisper base in every form: `python tests/published/whisper/forms.py --work FOLDER --set CORPUS [--english CT2]`.

Writes the weights of `weights.py` as files of whisper.cpp, folders of CTranslate2 and GGUF, checks each, and transcribes utterances of
the corpus with each. Fails where forms of the same f16 weights differ in a word or a time, or rounded ones in more than `--bound`
percent of the words. `--english` names a folder of CTranslate2 with a checkpoint for English only, which becomes a file of whisper.cpp too.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from long_files import NORMALISE, ROOT, auricle, distance, models_folder

sys.path.insert(0, str(ROOT / "tests" / "oracles"))
sys.path.insert(0, str(ROOT / "models"))
from recipes.whisper.ct2 import published, read  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from whisper_files import Source, write_all, write_ggml  # noqa: E402

# Times that 5 bits may change as many words as 8.
FIVE_BITS = 4
# Width of a head of attention in all published sizes.
HEAD = 64


class Ct2Source(Source):
    """A folder of CTranslate2 as `whisper_files` takes it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.tensors = {name: tensor.float().numpy() for name, tensor in published(read(folder / "model.bin")).items()}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        vocabulary, width = self.tensors["model.decoder.embed_tokens.weight"].shape
        self.config = {"d_model": width, "vocab_size": vocabulary, "num_mel_bins": self.tensors["model.encoder.conv1.weight"].shape[1]}
        for side, most in (("encoder", "max_source_positions"), ("decoder", "max_target_positions")):
            self.config[most] = len(self.tensors[f"model.{side}.embed_positions.weight"])
            self.config[f"{side}_layers"] = sum(name.startswith(f"model.{side}.") and name.endswith("fc1.bias") for name in self.tensors)
            self.config[f"{side}_attention_heads"] = width // HEAD


def words(transcripts: list[dict]) -> list[str]:
    return NORMALISE(" ".join(one["text"] for one in transcripts)).split()


def main() -> None:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of `weights.py`")
    parser.add_argument("--set", type=Path, required=True, help="folder with sounds")
    parser.add_argument("--english", type=Path)
    parser.add_argument("--count", type=int, default=12)
    parser.add_argument("--bound", type=float, default=3.0, help="percent of words in which weights of 8 bits may differ")
    parser.add_argument("--program", type=Path, default=target / "release/auricle")
    arguments = parser.parse_args()
    work, forms = arguments.work, arguments.work / "forms"
    files = sorted(path for path in arguments.set.iterdir() if path.suffix in (".flac", ".wav"))[: arguments.count]
    if not (forms / "gguf").exists():
        write_all(work / "base", forms)
    same = [work / "base", work / "ct2", forms / "ggml-f16.bin", forms / "ct2-f16"]
    rounded = [forms / "ggml-q8_0.bin", forms / "ggml-q5_0.bin", forms / "ct2-int8", forms / "gguf"]
    groups = [(same, rounded)]
    if arguments.english:
        english = forms / "ggml-english-f16.bin"
        if not english.exists():
            write_ggml(Ct2Source(arguments.english), english, ["f16"])
        groups.append(([arguments.english, english], []))
    models, failed = models_folder(work / "base"), False
    for exact, others in groups:
        first = None
        for path in exact + others:
            begin = time.perf_counter()
            check = subprocess.run([arguments.program, "models", "check", path], capture_output=True, text=True)
            if check.returncode:
                raise SystemExit(check.stderr)
            seconds = time.perf_counter() - begin
            transcripts = auricle(arguments.program, models, files, "--language", "en", "--model", str(path))
            of_form = [{key: one[key] for key in ("text", "words")} for one in transcripts]
            first = first or of_form
            differ = 100 * distance(words(first), words(of_form)) / len(words(first))
            verdict = "the same words and times" if of_form == first else f"{differ:.2f} % of {len(words(first))} words differ"
            bound = arguments.bound * (FIVE_BITS if "q5" in path.name else 1)
            failed |= of_form != first if path in exact else differ > bound
            print(f"{path}: {check.stdout.splitlines()[-1].strip()}; checked in {seconds:.2f} s; {verdict}", flush=True)
            (forms / f"{path.name}.json").write_text(json.dumps(of_form))
    if failed:
        raise SystemExit("forms of the same weights write different words")


if __name__ == "__main__":
    main()
