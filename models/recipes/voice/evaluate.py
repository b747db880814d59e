"""Scores a voice on a hundred sentences of The Adventures of Sherlock Holmes (public domain; no training text has them).

Words wrong by Whisper base, after its published normaliser; DNSMOS; and the real-time factor on one core.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile
from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

from ..scoring import distance
from .clips import Clips, held_out
from .sound import RATE
from .speak import Voice

SENTENCES = Path(__file__).with_name("sentences.txt")


def scored(tools: str, folder: Path) -> dict[str, dict]:
    script = Path(__file__).with_name("score_wavs.py")
    return json.loads(subprocess.run([tools, script, folder], check=True, capture_output=True, text=True).stdout)


def row(name: str, said: dict[str, str], heard: dict[str, dict], factor: float | None) -> str:
    normalise = EnglishTextNormalizer({})
    errors = words = 0
    for key, text in said.items():
        wanted = normalise(text).split()
        errors += distance(wanted, normalise(heard[key]["text"]).split())
        words += len(wanted)
    scores = [np.mean([one[part] for one in heard.values()]) for part in ("overall", "signal", "background")]
    speed = "" if factor is None else f"{factor:.3f}"
    return f"| {name} | {len(said)} | {100 * errors / words:.1f} | " + " | ".join(f"{s:.2f}" for s in scores) + f" | {speed} |"


def evaluate(args: argparse.Namespace) -> None:
    print("| Voice | Sentences | Words wrong % | DNSMOS overall | signal | background | Real-time factor |")
    print("|---|---|---|---|---|---|---|", flush=True)
    sentences = SENTENCES.read_text(encoding="utf-8").splitlines()[: args.limit]
    with tempfile.TemporaryDirectory() as temporary:
        out = args.keep or Path(temporary)
        if args.recordings:
            recordings(args, out)
        if args.model is None and args.acoustic is None:
            return
        voice = Voice.exported(args.model) if args.model else Voice(args.acoustic, args.vocoder, args.g2p)
        for name in args.voices.split(",") if args.voices else voice.voices:
            folder, said, spent, seconds = out / name, {}, 0.0, 0.0
            folder.mkdir(parents=True, exist_ok=True)
            voice.speak("Good morning.", name)
            for number, text in enumerate(sentences):
                began = time.process_time()
                sound = voice.speak(text, name)
                spent, seconds = spent + time.process_time() - began, seconds + len(sound) / RATE
                said[f"{number:03}"] = text
                soundfile.write(folder / f"{number:03}.wav", sound.clip(-1, 1), RATE)
            print(row(name, said, scored(args.tools, folder), spent / seconds), flush=True)


def recordings(args: argparse.Namespace, out: Path) -> None:
    """Scores held-out recordings, and the vocoder's copies of them."""
    import torch

    from . import vocos
    from .sound import LogMel

    clips = Clips(args.recordings)
    vocoder = vocos.load(args.model / "vocoder" if args.model else args.vocoder)
    for speaker in args.voices.split(","):
        chosen = [clip for clip in clips.all if clip.speaker == speaker and held_out(clip)][: args.limit]
        if not chosen:
            continue
        for kind in ("recorded", "copied"):
            folder, said = out / f"{speaker}-{kind}", {}
            folder.mkdir(parents=True, exist_ok=True)
            for number, clip in enumerate(chosen):
                sound = clips.sound(clip)
                if kind == "copied":
                    with torch.no_grad():
                        sound = vocoder(LogMel()(torch.from_numpy(sound)[None]))[0].numpy()
                said[f"{number:03}"] = clip.text
                soundfile.write(folder / f"{number:03}.wav", sound.clip(-1, 1), RATE)
            print(row(f"{speaker}, {kind}", said, scored(args.tools, folder), None), flush=True)
