"""The speakers' recipe end to end at tiny sizes, in seconds: `run(corpus, folder)`; `recipes.smoke` calls it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from .__main__ import main
from .export import load
from .verification import embed


def run(corpus: Path, out: Path) -> None:
    """Trains on a corpus of any number of speakers, which is its own noise, and exports."""

    def step(command: str, **options: object) -> None:
        main([command, *(part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value)))])

    store, trained, exported = out / "store", out / "run", out / "voice"
    main(["prepare", "--corpus", str(corpus), "--noise", str(corpus), "--out", str(store), "--limit", "12", "--sound"])
    step("train", store=store, out=trained, rows=6, channels=32, minutes=0.02, dev_every=20)
    step("train", store=store, out=trained, rows=6, channels=32, minutes=0.04, dev_every=20)  # goes on
    step("export", run=trained, out=exported)
    step("evaluate", model=exported, store=store)
    mels = [np.random.default_rng(0).standard_normal((120, 80))]
    np.testing.assert_allclose(embed(load(exported), mels), embed(load(trained), mels), atol=5e-3)
    assert torch.isfinite(torch.from_numpy(embed(load(exported), mels))).all()
