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


def rate(part: float, args: argparse.Namespace) -> float:
    """The learning rate at a part of the budget: one value in the spectral stage, then down along a cosine."""
    if part < args.spectral:
        return args.rate * min(1.0, 0.02 + part / 0.02)
    return cosine((part - args.spectral) / (1 - args.spectral), args.rate / 2, args.rate / 50)


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    clips = Clips(args.store)
    if args.acoustic:
        crops: Crops | PredictedCrops = PredictedCrops(clips, Utterances(args.annotated), args.acoustic, args.seed)
    else:
        crops = Crops(clips, args.seed, tuple(args.favoured.split(",")), args.weight)
    model = Vocos(args.channels, args.inner, args.layers)
    discriminators = Discriminators(args.discriminator_channels)
    optimisers: dict[str, torch.optim.Optimizer] = {
        "model": torch.optim.AdamW(model.parameters(), lr=args.rate, betas=(0.8, 0.98), weight_decay=0.01),
        "discriminators": torch.optim.AdamW(discriminators.parameters(), lr=args.rate, betas=(0.5, 0.9), weight_decay=0.01),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "config.json").write_text(json.dumps(model.shape) + "\n", encoding="utf-8")
    if args.start:
        started = torch.load(args.start / "checkpoint.pt", weights_only=True)
        model.load_state_dict(started["average"])
        discriminators.load_state_dict(started["modules"]["discriminators"])
    run = Run(args.out, {"model": model, "discriminators": discriminators}, optimisers, args.minutes, args.wall_minutes)
    spectral, adversarial_steps = SpectralLoss(), 0
    for step in run.steps():
        part = run.part
        value = rate(part, args)
        run.rate("model", value)
        run.rate("discriminators", min(value, args.rate / 3))
        mel, heard = crops.batch(step, args.rows)
        with mixed_precision():
            hidden = model.backbone(mel)
        said = model.head(hidden)
        losses = spectral(said, heard)
        logged = {name: loss.item() for name, loss in losses.items()}
        loss = args.mel_weight * losses["mel"] + losses["log"] + losses["convergence"]
        if part >= args.spectral:
            # exact magnitudes would keep noise from being like noise, which the discriminators ask for
            loss = 2 * args.mel_weight * losses["mel"] + 0.3 * (losses["log"] + losses["convergence"])
            adversarial_steps += 1
            with mixed_precision():
                real, made = discriminators(heard), discriminators(said.detach())
            discriminator = discriminator_loss(real, made)
            optimisers["discriminators"].zero_grad(set_to_none=True)
            discriminator.backward()
            optimisers["discriminators"].step()
            logged["discriminators"] = discriminator.item()
            if adversarial_steps > ADVERSARIAL_WARM_UP:
                discriminators.requires_grad_(False)
                with mixed_precision():
                    with torch.no_grad():
                        real = discriminators(heard)
                    made = discriminators(said)
                adversarial, matching = generator_losses(real, made)
                discriminators.requires_grad_(True)
                loss = loss + args.adversarial_weight * (adversarial + 2 * matching)
                logged |= {"adversarial": adversarial.item(), "matching": matching.item()}
        optimisers["model"].zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimisers["model"].step()
        run.log(logged)
