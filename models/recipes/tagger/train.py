"""Trains the tagger on sentences that are made while it trains."""

from __future__ import annotations

import argparse
import time
from itertools import islice
from pathlib import Path

import torch
from torch.nn import functional as F

from ..optimiser import Muon
from ..voice.training import Run, cosine, device_of, load_modules, mixed_precision
from ..work_queue import WorkQueue
from .evaluate import of_tagger, read, row, score
from .model import Config, Tagger
from .rows import NONE, Rows, stream
from .wordpiece import Pieces

HELD_OUT_ROWS = 12
DEV = Path(__file__).parent / "dev.jsonl"


def loss_of(model: Tagger, rows: Rows, device: torch.device) -> torch.Tensor:
    """Mean over words."""
    ids, types, tags = (
        torch.from_numpy(part).to(device, non_blocking=True).long() for part in (rows.ids.astype("int32"), rows.types, rows.tags)
    )
    with mixed_precision(device):
        scores = model(ids, types)
    return F.cross_entropy(scores.float().flatten(0, 1), tags.flatten(), ignore_index=NONE)


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    tokenizer, lexicon = args.store / "tokenizer.json", args.store / "lexicon.json.xz"
    curve = args.out / "curve.tsv"
    seed = args.seed + 1 + (curve.stat().st_size if curve.exists() else 0)  # a run that goes on sees other sentences
    # The processes start while this one has computed nothing yet.
    made = stream(lexicon, tokenizer, seed, args.pieces, args.processes)
    device = device_of(args.device)
    pieces = Pieces(tokenizer)
    config = Config(len(pieces.vocabulary), args.hidden, args.layers, args.hidden // 32, args.inner or 4 * args.hidden,
                    hidden_dropout_prob=args.dropout)  # fmt: skip
    model = Tagger(config).to(device)
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and ".layer." in name]
    taken = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in taken]
    optimisers: dict[str, torch.optim.Optimizer] = {
        "model": torch.optim.AdamW(rest, lr=args.rate, weight_decay=0.01, betas=(0.9, 0.98)),
        "matrices": Muon(matrices, lr=args.rate, queue=WorkQueue()),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    config.save(args.out / "shape.json")
    run = Run(args.out, {"model": model}, optimisers, args.minutes, args.wall_minutes, args.end_at, args.save_every)
    if args.start and run.step == 0:
        model.load_state_dict(load_modules(args.start))
        run.average = {name: value.detach().clone() for name, value in model.state_dict().items()}
    held_out = list(islice(stream(lexicon, tokenizer, 0, 4096, 0), HELD_OUT_ROWS))
    spoken = time.monotonic()
    for _ in run.steps():
        for name in optimisers:
            run.rate(name, cosine(run.part, args.rate, args.rate / 50))
            optimisers[name].zero_grad(set_to_none=True)
        loss = loss_of(model, next(made), device)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser in optimisers.values():
            optimiser.step()
        run.log({"loss": loss})
        if time.monotonic() - spoken > args.report_every:
            report(model, run, pieces, held_out)
            spoken = time.monotonic()
    report(model, run, pieces, held_out)


@torch.no_grad()
def report(model: Tagger, run: Run, pieces: Pieces, held_out: list[Rows]) -> None:
    """The average's loss on rows of a seed of their own, and its score on the evaluation set."""
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(run.average)
    model.eval()
    device = next(model.parameters()).device
    loss = sum(float(loss_of(model, rows, device)) for rows in held_out) / len(held_out)
    lines = read(DEV)
    found = of_tagger(model, pieces, [line["text"] for line in lines], 0.5)
    print(f"part {run.part:.2f} step {run.step} held-out loss {loss:.4f} {row('dev', score(lines, found))}", flush=True)
    model.load_state_dict(kept)
    model.train()
