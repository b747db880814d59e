"""Makes the numeric oracles of all models and feature extractors, or checks the committed ones."""

import argparse
import json
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import transformers

from attention import CHECKPOINTS as ATTENTION
from attention import make_attention
from bert import make_g2p, make_tagger, make_words
from checkpoints import CHECKPOINTS
from decoder import DECODERS, make_decoder
from features import make_features
from gguf_types import make_gguf_types
from kokoro_voice import make_kokoro
from models import make_model
from pocket_tts import MODELS as POCKET
from pocket_tts import make_pocket
from qwen3_asr import CHECKPOINTS as QWEN3_ASR
from qwen3_asr import make_qwen3_asr
from silero import make_silero
from smart_turn import make_smart_turn
from sortformer import make_sortformer
from synthesis import make_acoustic, make_vocoder
from voice import make_voice
from whisper import make_whisper
from whisper_checkpoints import CHECKPOINTS as WHISPER
from whisper_files import make_whisper_forms
from whisper_short import make_short_window
from whisper_vectors import make_vectors

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
TOLERANCE = 1e-5


def make(root: Path, only: list[str]) -> None:
    if not only or "features" in only:
        print("features")
        make_features(fresh(root / "features"))
    if not only or "silero" in only:
        print("silero")
        make_silero(fresh(root / "silero"))
    if not only or "smart_turn" in only:
        print("smart_turn")
        make_smart_turn(fresh(root / "smart_turn"))
    if not only or "voice" in only:
        print("voice")
        make_voice(fresh(root / "voice"))
    if not only or "sortformer" in only:
        print("sortformer")
        make_sortformer(fresh(root / "sortformer"))
    if not only or "fastspeech2" in only:
        print("fastspeech2")
        make_acoustic(fresh(root / "fastspeech2"))
    if not only or "vocos" in only:
        print("vocos")
        make_vocoder(fresh(root / "vocos"))
    if not only or "kokoro" in only:
        print("kokoro")
        make_kokoro(fresh(root / "kokoro"))
    for name in POCKET:
        if not only or f"pocket_tts/{name}" in only:
            print(f"pocket_tts/{name}")
            make_pocket(name, fresh(root / "pocket_tts" / name))
    for name, make_one in (("bert/tagger", make_tagger), ("bert/words", make_words), ("bert/g2p", make_g2p)):
        if not only or name in only:
            print(name)
            make_one(fresh(root / name))
    if not only or "gguf" in only:
        print("gguf")
        make_gguf_types(fresh(root / "gguf"))
    for name in DECODERS:
        if not only or f"decoder/{name}" in only:
            print(f"decoder/{name}")
            make_decoder(name, fresh(root / "decoder" / name))
    for checkpoint in CHECKPOINTS:
        if not only or checkpoint.name in only:
            print(checkpoint.name)
            make_model(checkpoint, fresh(root / "fastconformer" / checkpoint.name))
    for checkpoint in ATTENTION:
        if not only or checkpoint.name in only:
            print(checkpoint.name)
            make_attention(checkpoint, fresh(root / "fastconformer" / checkpoint.name))
    for checkpoint in QWEN3_ASR:
        name = f"qwen3_asr/{checkpoint.name}"
        if not only or name in only:
            print(name)
            make_qwen3_asr(checkpoint, fresh(root / name))
    if not only or "vectors" in only:
        print("vectors")
        make_vectors(fresh(root / "whisper" / "vectors"))
    if not only or "whisper_forms" in only:
        print("whisper_forms")
        make_whisper_forms(fresh(root / "whisper_forms"))
    for checkpoint in WHISPER:
        if not only or checkpoint.name in only:
            print(checkpoint.name)
            folder = fresh(root / "whisper" / checkpoint.name)
            make_whisper(checkpoint, folder)
            if checkpoint.name == "multi":
                make_short_window(folder, fresh(root / "whisper" / "short_window"))


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def differences(made: Path, committed: Path) -> list[str]:
    """All differences between the committed file and the new one."""
    if not committed.exists():
        return ["missing"]
    if made.suffix == ".safetensors":
        from safetensors.torch import load_file

        a, b = load_file(made), load_file(committed)
        found = [f"{key}: only in one" for key in sorted(a.keys() ^ b.keys())]
        for key in sorted(a.keys() & b.keys()):
            if a[key].shape != b[key].shape or a[key].dtype != b[key].dtype:
                found.append(f"{key}: {a[key].dtype}{list(a[key].shape)} against {b[key].dtype}{list(b[key].shape)}")
            elif a[key].numel() and not torch.allclose(a[key].double(), b[key].double(), TOLERANCE, TOLERANCE):
                found.append(f"{key}: differs by {(a[key].double() - b[key].double()).abs().max():.2e}")
        return found
    if made.name in ("oracle.json", "features.json"):
        return [] if close(json.loads(made.read_text()), json.loads(committed.read_text())) else ["differs"]
    return [] if made.read_bytes() == committed.read_bytes() else ["differs"]


def close(a, b) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        return abs(a - b) <= 1e-4 * max(1.0, abs(a))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(close, a, b))
    return a == b


def check(only: list[str]) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        make(root, only)
        made = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
        folders = {path.parent for path in made}
        kept = {
            path.relative_to(FIXTURES) for folder in folders for path in (FIXTURES / folder).glob("*") if path.is_file()
        }
        bad = [f"{path}: not made by the script" for path in sorted(kept - set(made))]
        for path in made:
            bad += [f"{path}: {difference}" for difference in differences(root / path, FIXTURES / path)]
    print("\n".join(bad) if bad else f"{len(made)} files agree")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["features", "silero", "smart_turn", "voice", "sortformer", "fastspeech2", "vocos", "kokoro", *(f"pocket_tts/{p}" for p in POCKET), "bert/tagger", "bert/words", "bert/g2p", "gguf", *(f"decoder/{d}" for d in DECODERS), *(c.name for c in CHECKPOINTS), *(f"qwen3_asr/{c.name}" for c in QWEN3_ASR), "vectors", "whisper_forms", *(c.name for c in WHISPER)]
    parser.add_argument("names", nargs="*", help=f"{', '.join(names)} (default: all)")
    parser.add_argument("--check", action="store_true", help="compare with the committed fixtures instead of writing")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", message="Using the model-agnostic default")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    if arguments.check:
        return check(arguments.names)
    make(FIXTURES, arguments.names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
