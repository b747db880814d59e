"""Trains the vocoder: spectral losses alone, then discriminators beside them, last on mels that the acoustic model predicts."""

from __future__ import annotations

import argparse
import json

import torch

from .annotate import Utterances
from .clips import Clips
from .crops import Crops, PredictedCrops
from .discriminators import Discriminators, discriminator_loss, generator_losses
from .spectral_loss import SpectralLoss
from .training import Run, cosine, mixed_precision
from .vocos import Vocos

ADVERSARIAL_WARM_UP = 200  # steps in which the discriminators learn alone


def rate(spent_min: float, args: argparse.Namespace) -> float:
    """The learning rate: one value in the spectral stage, then down along a cosine."""
    if spent_min < args.spectral:
        return cosine(min(1.0, spent_min / 5) * 0.01, args.rate, args.rate)
    return cosine((spent_min - args.spectral) / (args.minutes - args.spectral), args.rate / 2, args.rate / 50)


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    clips = Clips(args.store)
    if args.acoustic:
        crops: Crops | PredictedCrops = PredictedCrops(clips, Utterances(args.annotated), args.acoustic, args.seed)
    else:
        crops = Crops(clips, args.seed, tuple(args.favoured.split(",")), args.weight)
    model = Vocos(args.channels, args.inner, args.layers)
    judges = Discriminators(args.judge_channels)
    optimisers: dict[str, torch.optim.Optimizer] = {
        "model": torch.optim.AdamW(model.parameters(), lr=args.rate, betas=(0.8, 0.98), weight_decay=0.01),
        "judges": torch.optim.AdamW(judges.parameters(), lr=args.rate, betas=(0.5, 0.9), weight_decay=0.01),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "config.json").write_text(json.dumps(model.shape) + "\n", encoding="utf-8")
    if args.start:
        started = torch.load(args.start / "checkpoint.pt", weights_only=True)
        model.load_state_dict(started["average"])
        judges.load_state_dict(started["modules"]["judges"])
    run = Run(args.out, {"model": model, "judges": judges}, optimisers, args.minutes)
    spectral, judged_since = SpectralLoss(), 0
    for step in run.steps():
        spent = run.spent_s / 60
        value = rate(spent, args)
        run.rate("model", value)
        run.rate("judges", min(value, args.rate / 3))
        mel, heard = crops.batch(step, args.rows)
        with mixed_precision():
            hidden = model.backbone(mel)
        said = model.head(hidden)
        losses = spectral(said, heard)
        told = {name: loss.item() for name, loss in losses.items()}
        loss = args.mel_weight * losses["mel"] + losses["log"] + losses["convergence"]
        if spent >= args.spectral:
            # exact magnitudes matter less once the judges are there: they ask for noise to be like noise
            loss = 2 * args.mel_weight * losses["mel"] + 0.3 * (losses["log"] + losses["convergence"])
            judged_since += 1
            with mixed_precision():
                real, made = judges(heard), judges(said.detach())
            judged = discriminator_loss(real, made)
            optimisers["judges"].zero_grad(set_to_none=True)
            judged.backward()
            optimisers["judges"].step()
            told["judges"] = judged.item()
            if judged_since > ADVERSARIAL_WARM_UP:
                judges.requires_grad_(False)
                with mixed_precision():
                    with torch.no_grad():
                        real = judges(heard)
                    made = judges(said)
                adversarial, matching = generator_losses(real, made)
                judges.requires_grad_(True)
                loss = loss + args.adversarial_weight * (adversarial + 2 * matching)
                told |= {"adversarial": adversarial.item(), "matching": matching.item()}
        optimisers["model"].zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimisers["model"].step()
        run.log(told)
