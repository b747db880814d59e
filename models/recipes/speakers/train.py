"""Trains the embedding; resumes from `checkpoint.pt` of the run's folder. Processor time sets rate and margin."""

from __future__ import annotations

import argparse
import json

import torch
from torch import nn

from ..features import MelStore
from ..voice.training import Run, cosine, mixed_precision
from .crops import Crops
from .model import Embedder, Margin, Shape
from .verification import errors, held_out_mels

MARGIN, MARGIN_FROM, MARGIN_TO = 0.2, 0.04, 0.3  # the margin grows over this part of the budget
DECAY = 0.02


def build_optimiser(model: Embedder, margin: Margin, rate: float) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    plain = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": [*matrices, margin.weight], "weight_decay": DECAY}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))


def margin_at(part: float) -> float:
    return MARGIN * min(1.0, max(0.0, (part - MARGIN_FROM) / (MARGIN_TO - MARGIN_FROM)))


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    store = MelStore(args.store)
    crops = Crops(store, args.seed, args.augment)
    shape = Shape(channels=args.channels, pooled=2 * args.channels)
    model = Embedder(shape)
    margin = Margin(len(crops.voices), shape.embedding)
    optimiser = build_optimiser(model, margin, args.rate)
    run = Run(args.out, {"model": model, "margin": margin}, {"adamw": optimiser}, args.minutes)
    (args.out / "shape.json").write_text(json.dumps(shape.json()) + "\n", encoding="utf-8")
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{len(crops.voices)} voices, {parameters} parameters", flush=True)
    trained: list[nn.Parameter] = [*model.parameters(), *margin.parameters()]
    held_out = held_out_mels(store)
    for step in run.steps():
        run.rate("adamw", cosine(run.part, args.rate, args.rate / 100))
        batch = crops.batch(step, args.rows)
        with mixed_precision():
            embeddings = model(batch.mels)
        loss, right = margin(embeddings, batch.voices, margin_at(run.part))
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 5.0)
        optimiser.step()
        run.log({"loss": loss.item(), "right": right.item()})
        if (step + 1) % args.dev_every == 0:
            evaluate_average(run, shape, held_out)


def evaluate_average(run: Run, shape: Shape, held_out: dict) -> None:
    """Equal error rates of the average so far, printed and kept in `held_out.tsv`."""
    model = Embedder(shape)
    model.load_state_dict(run.average)
    found = {group: errors(model, *utterances) for group, utterances in held_out.items()}
    said = ", ".join(f"{group} {whole:.1f} / {short:.1f} %" for group, (whole, short) in found.items())
    print(f"step {run.step + 1} held out, whole / 2 s: {said}", flush=True)
    with (run.out / "held_out.tsv").open("a", encoding="utf-8") as table:
        figures = "\t".join(f"{group}\t{whole:.2f}\t{short:.2f}" for group, (whole, short) in found.items())
        table.write(f"{run.step + 1}\t{run.spent_s / 60:.1f}\t{figures}\n")
