"""Trains the embedding; resumes from `checkpoint.pt` of the run's folder. The part of the budget that is spent sets rate and margin.

Where the store has a teacher's rows, the loss is the distance to its directions, plus a share of the voices' softmax.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch
from torch import nn

from ..batches import NOISE
from ..features import MelStore
from ..voice.training import Run, cosine, device_of, mixed_precision
from .crops import Crops
from .distil import Axes, directions, distance
from .export import load
from .live import LiveCrops
from .model import Embedder, Margin, Shape
from .resident import ResidentCrops
from .teacher import Teacher, is_taught, taught
from .verification import errors, held_out_mels
from .warm import restore_norms
from .wider import widened

MARGIN, MARGIN_FROM, MARGIN_TO = 0.2, 0.04, 0.3  # the margin grows over this part of the budget
DECAY = 0.02
AXES = "axes.npz"  # of the teacher's directions
START_ROWS = 192  # crops that an export's batch norms are restored from


def build_optimiser(model: Embedder, margin: Margin | nn.Identity, rate: float) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    plain = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": [*matrices, *margin.parameters()], "weight_decay": DECAY}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))


def margin_at(part: float) -> float:
    return MARGIN * min(1.0, max(0.0, (part - MARGIN_FROM) / (MARGIN_TO - MARGIN_FROM)))


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    device = device_of(args.device)
    store = MelStore(args.store)
    if args.distil > 0:
        store.utterances = [u for u in store.utterances if u.recorded == NOISE or is_taught(args.store, u.corpus)]
    if device.type == "cpu" and not args.teacher:
        crops = Crops(store, args.seed, args.augment, args.longest)
    else:
        crops = ResidentCrops(store, args.seed, args.augment, device, args.longest)
    shape = Shape(channels=args.channels, pooled=2 * args.channels)
    model = Embedder(shape).to(device)
    margin = Margin(len(crops.voices), shape.embedding).to(device) if args.softmax > 0 else nn.Identity()
    optimiser = build_optimiser(model, margin, args.rate)
    modules = {"model": model, "margin": margin} if args.softmax > 0 else {"model": model}
    run = Run(args.out, modules, {"adamw": optimiser}, args.minutes, args.wall_minutes, args.end_at, args.save_every, args.weights)
    targets = None
    if args.distil > 0:
        places = np.concatenate([np.full(len(own), n) for n, own in enumerate(crops.voices.values())])
        rows = taught(args.store, crops.utterances)
        known = next((folder / AXES for folder in (args.out, args.start) if folder and (folder / AXES).exists()), None)
        axes = Axes.load(known) if known else Axes(rows, places, shape.embedding)
        axes.save(args.out / AXES)
        targets = torch.from_numpy(directions(rows, places, axes)).to(device)
        if args.teacher:
            made = args.store, store, args.seed, args.augment, device, Teacher(args.teacher), axes, targets, args.longest
            crops = LiveCrops(*made)
    (args.out / "shape.json").write_text(json.dumps(shape.json()) + "\n", encoding="utf-8")
    if args.start and run.step == 0:
        started = load(args.start)
        if started.shape.channels != args.channels:
            started = widened(started, args.channels)
        model.load_state_dict(started.state_dict())
        if (args.start / "model.safetensors").exists():
            restore_norms(model, crops.batch(0, START_ROWS).mels)
        run.average = {name: value.detach().clone() for name, value in model.state_dict().items()}
    if targets is not None and args.softmax > 0 and run.step == 0:
        # The student's embeddings lie among the teacher's directions, and so do the voices.
        sums = torch.zeros(len(crops.voices), shape.embedding).index_add_(0, torch.from_numpy(places), targets.cpu())
        margin.weight.data.copy_(torch.nn.functional.normalize(sums))
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{len(crops.voices)} voices, {parameters} parameters", flush=True)
    trained: list[nn.Parameter] = [*model.parameters(), *margin.parameters()]
    held_out = held_out_mels(MelStore(args.store))
    for step in run.steps():
        run.rate("adamw", cosine(run.part, args.rate, args.rate / 100))
        batch = crops.batch(step, args.rows)
        with mixed_precision(device):
            embeddings = model(batch.mels)
        told, right = margin(embeddings, batch.voices, margin_at(run.part)) if args.softmax > 0 else (torch.zeros((), device=device),) * 2
        wanted = targets[batch.utterances] if targets is not None and batch.targets is None else batch.targets
        far = distance(embeddings, wanted) if wanted is not None else torch.zeros((), device=device)
        loss = args.softmax * told + args.distil * far
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 5.0)
        optimiser.step()
        run.log({"softmax": told, "right": right, "far": far})
        if (step + 1) % args.dev_every == 0:
            evaluate_average(run, shape, held_out)


def evaluate_average(run: Run, shape: Shape, held_out: dict) -> None:
    """Equal error rates of the average so far, printed and kept in `held_out.tsv`."""
    model = Embedder(shape).to(run.device)
    model.load_state_dict(run.average)
    found = {group: errors(model, *utterances) for group, utterances in held_out.items()}
    said = ", ".join(f"{group} {whole:.1f} / {short:.1f} %" for group, (whole, short) in found.items())
    print(f"step {run.step + 1} held out, whole / 2 s: {said}", flush=True)
    with (run.out / "held_out.tsv").open("a", encoding="utf-8") as table:
        figures = "\t".join(f"{group}\t{whole:.2f}\t{short:.2f}" for group, (whole, short) in found.items())
        table.write(f"{run.step + 1}\t{run.spent_s / 60:.1f}\t{figures}\n")
