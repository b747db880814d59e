"""The voice recipe end to end at tiny sizes, in seconds: `run(corpus, folder)`; `recipes.smoke` calls it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from transformers import FastSpeech2ConformerConfig, FastSpeech2ConformerModel

from .__main__ import main
from .clips import Clips
from .speak import Voice
from .training import load_modules

RECOGNISER = Path(__file__).parents[2] / "starter" / "asr-en"


def run(corpus: Path, out: Path) -> None:
    """Trains on a corpus whose transcripts have case, and speaks."""

    def step(command: str, **options: object) -> None:
        pairs = ((f"--{name.replace('_', '-')}", str(value)) for name, value in options.items())
        main([command, *(part for pair in pairs for part in pair)])

    store, annotated = out / "store", out / "annotated"
    step("prepare", corpus=corpus, out=store, limit=16)
    voices = list(Clips(store).seconds_by_speaker())[:2]
    step("annotate", store=store, voices=",".join(voices), recogniser=RECOGNISER, out=annotated, rounds=2, steps=10)
    step("train-g2p", out=out / "g2p", hidden=32, layers=1, rows=32, minutes=0.02)
    step("train-g2p", out=out / "g2p-more", start=out / "g2p", hidden=32, layers=1, rows=32, minutes=0.02)
    step("score-g2p", model=out / "g2p-more")
    small = {"channels": 32, "inner": 64, "layers": 2}
    step("train-vocoder", store=store, out=out / "vocoder", rows=4, discriminator_channels=4, spectral=0.3, minutes=0.03, **small)
    sizes = {"hidden": 32, "layers": 1, "feedforward": 64, "frames": 400, "dev_every": 3}
    step("train-acoustic", store=store, annotated=annotated, out=out / "acoustic", minutes=0.03, **sizes)
    step("tune-vocoder", store=store, annotated=annotated, acoustic=out / "acoustic", start=out / "vocoder",
         out=out / "tuned", rows=4, discriminator_channels=4, minutes=0.02, **small)  # fmt: skip
    exported = out / "voice-en"
    step("export", acoustic=out / "acoustic", vocoder=out / "tuned", g2p=out / "g2p-more", out=exported)
    voice = Voice.exported(exported)
    sound = voice.speak("The old man went home, I think.", voice.voices[0])
    assert len(sound) and np.isfinite(sound).all()
    published = FastSpeech2ConformerModel(FastSpeech2ConformerConfig.from_pretrained(exported / "acoustic"))
    published.load_state_dict(load_modules(exported / "acoustic"))
