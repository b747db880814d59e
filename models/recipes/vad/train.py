"""Trains the detector; resumes from `checkpoint.pt` of the run's folder. Processor time, not steps, sets the learning rate."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from ..optimiser import Muon
from ..work_queue import WorkQueue
from .model import Detector
from .scenes import SAMPLES, Scenes
from .sounds import Sounds

WARM_UP = 0.03  # of the time
SAVE_EVERY_S = 120
SCENE_S = SAMPLES / 16000


def learning_rate(highest: float, part: float) -> float:
    """Up in the first three hundredths, then down along a cosine to a hundredth of the highest."""
    if part < WARM_UP:
        return highest * (0.05 + 0.95 * part / WARM_UP)
    part = (min(part, 1) - WARM_UP) / (1 - WARM_UP)
    return highest * (0.01 + 0.99 * (1 + math.cos(math.pi * part)) / 2)


def build_optimisers(model: Detector, args: argparse.Namespace) -> list[torch.optim.Optimizer]:
    """Muon for the matrices behind the first convolution, whose rows differ a hundredfold in size; AdamW for the rest."""
    behind = (model.conv2, model.conv3, model.conv4)
    matrices = [*(conv.weight for conv in behind), model.lstm_cell.weight_ih, model.lstm_cell.weight_hh]
    if args.adamw:
        matrices = []
    taken = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if p.requires_grad and id(p) not in taken]
    optimisers: list[torch.optim.Optimizer] = [torch.optim.AdamW(rest, lr=args.rate, weight_decay=0.01, betas=(0.9, 0.98))]
    if matrices:
        optimisers.append(Muon(matrices, lr=args.rate, queue=WorkQueue()))
    return optimisers


def save(path: Path, value: object) -> None:
    partial = path.with_suffix(".partial")
    torch.save(value, partial)
    os.replace(partial, path)


def train(args: argparse.Namespace) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    checkpoint = args.out / "checkpoint.pt"
    torch.manual_seed(args.seed)
    model = Detector()
    model.initialise()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimisers = build_optimisers(model, args)
    step, spent = 0, 0.0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        for optimiser, kept in zip(optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(kept)
        step, spent = state["step"], state["seconds"]
        print(f"going on at step {step}, {spent / 60:.1f} minutes", flush=True)
    scenes = Scenes(Sounds(args.store), args.seed)
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    budget, saved, losses = args.minutes * 60, time.monotonic(), []

    def keep() -> None:
        save(checkpoint, {"model": model.state_dict(), "optimisers": [o.state_dict() for o in optimisers],
                          "step": step, "seconds": spent, "rows": args.rows})  # fmt: skip

    while spent < budget and not stopping:
        began = time.process_time()
        for group in [group for optimiser in optimisers for group in optimiser.param_groups]:
            group["lr"] = learning_rate(args.rate, spent / budget)
        batch = scenes.batch(step, args.rows)
        scores = model(batch.sound)
        loss = F.binary_cross_entropy_with_logits(scores, batch.target, batch.weight, reduction="sum")
        loss = loss / batch.weight.sum()
        model.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        for optimiser in optimisers:
            optimiser.step()
        step += 1
        losses.append(loss.item())
        spent += time.process_time() - began
        if step % 20 == 0:
            mean = sum(losses) / len(losses)
            hours = step * args.rows * SCENE_S / 3600
            print(f"step {step} minutes {spent / 60:.1f} hours {hours:.1f} loss {mean:.4f}", flush=True)
            with (args.out / "curve.tsv").open("a", encoding="utf-8") as curve:
                curve.write(f"{step}\t{hours:.2f}\t{mean:.4f}\n")
            losses = []
        if time.monotonic() - saved > SAVE_EVERY_S:
            keep()
            saved = time.monotonic()
    keep()


def export(run: Path, out: Path) -> None:
    """`model.safetensors` in the published form, and what training was, beside it."""
    state = torch.load(run / "checkpoint.pt", weights_only=True)
    (out / "training").mkdir(parents=True, exist_ok=True)
    partial = out / "model.partial"
    save_file({name: value.contiguous() for name, value in state["model"].items()}, partial)
    partial.chmod(0o644)
    partial.rename(out / "model.safetensors")
    hours = state["step"] * state["rows"] * SCENE_S / 3600
    progress = {"step": state["step"], "hours": round(hours, 2), "minutes": round(state["seconds"] / 60, 1)}
    (out / "training" / "progress.json").write_text(json.dumps(progress) + "\n", encoding="utf-8")
    if (run / "curve.tsv").exists():
        (out / "training" / "curve.tsv").write_bytes((run / "curve.tsv").read_bytes())
    size = (out / "model.safetensors").stat().st_size
    print(f"{out}: {size / 1e6:.2f} MB at step {state['step']}, {hours:.1f} h of scenes")
