"""Trains the vocoder: spectral losses alone, then discriminators beside them, last on mels that the acoustic model predicts."""

from __future__ import annotations

import argparse
import json

import torch

from .annotate import Utterances
from .clips import Clips
from .crops import Crops, PredictedCrops
from .discriminators import Discriminators, discriminator_loss, generator_losses, halves
from .spectral_loss import SpectralLoss
from .training import Run, cosine, device_of, load_modules, mixed_precision
from .vocos import Vocos

ADVERSARIAL_WARM_UP = 200  # steps in which the discriminators learn alone


def rate(part: float, args: argparse.Namespace) -> float:
    """The learning rate at a part of the budget: one value in the spectral stage, then down along a cosine."""
    if part < args.spectral:
        return args.rate * min(1.0, 0.02 + part / 0.02)
    return cosine((part - args.spectral) / (1 - args.spectral), args.rate / 2, args.rate / 50)


def shares(text: str) -> list[tuple[float, float]]:
    """`PART:SHARE`, with commas between, as numbers."""
    return [(float(part), float(share)) for part, _, share in (one.partition(":") for one in text.split(",") if one)]


class Mixed:
    """Recordings' own mels, and from given parts of the budget on shares of predicted ones."""

    def __init__(self, args: argparse.Namespace, device: torch.device):
        clips, self._shares = Clips(args.store), shares(args.predicted)
        self._predicted, self._own = None, None
        if self._shares:
            self._predicted = PredictedCrops(clips, Utterances(args.annotated), args.acoustic, args.seed, device)
        if not self._shares or self._shares[0] > (0, 0) or any(share < 1 for _, share in self._shares):
            self._own = Crops(clips, args.seed, tuple(args.favoured.split(",")), args.weight, device)

    def batch(self, step: int, rows: int, part: float) -> tuple[torch.Tensor, torch.Tensor]:
        share = max((one for one in self._shares if one[0] <= part), default=(0.0, 0.0))[1]
        count = round(share * rows) if share and self._predicted.ready() else 0
        if self._own is None and not count:
            raise SystemExit("the acoustic model's folder has neither model.safetensors nor checkpoint.pt: train it first")
        made = [self._predicted.batch(step, count)] if count else []
        made += [self._own.batch(step, rows - count)] if count < rows else []
        return torch.cat([mel for mel, _ in made]), torch.cat([heard for _, heard in made])


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    device = device_of(args.device)
    torch.backends.cudnn.benchmark = True  # all steps have one shape
    mixed = Mixed(args, device)
    model = Vocos(args.channels, args.inner, args.layers).to(device)
    periods = tuple(int(period) for period in args.periods.split(",") if period)
    discriminators = Discriminators(args.discriminator_channels, periods).to(device)
    optimisers: dict[str, torch.optim.Optimizer] = {
        "model": torch.optim.AdamW(model.parameters(), lr=args.rate, betas=(0.8, 0.98), weight_decay=0.01),
        "discriminators": torch.optim.AdamW(discriminators.parameters(), lr=args.rate, betas=(0.5, 0.9), weight_decay=0.01),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "config.json").write_text(json.dumps(model.shape) + "\n", encoding="utf-8")
    if args.start:
        model.load_state_dict(load_modules(args.start))
        if (args.start / "checkpoint.pt").exists():  # an export has no discriminators
            started = torch.load(args.start / "checkpoint.pt", map_location=device, weights_only=True)
            discriminators.load_state_dict(started["modules"]["discriminators"])
    modules = {"model": model, "discriminators": discriminators}
    run = Run(args.out, modules, optimisers, args.minutes, args.wall_minutes, args.end_at, args.save_every, args.weights)
    spectral, adversarial_steps = SpectralLoss().to(device), 0
    for step in run.steps():
        part = run.part
        value = rate(part, args)
        run.rate("model", value)
        run.rate("discriminators", min(value, args.discriminator_rate or args.rate / 3))
        mel, heard = mixed.batch(step, args.rows, part)
        with mixed_precision(device):
            hidden = model.backbone(mel)
        said = model.head(hidden.float())
        losses = spectral(said, heard)
        logged = dict(losses)
        loss = args.mel_weight * losses["mel"] + losses["log"] + losses["convergence"]
        if part >= args.spectral:
            # exact magnitudes would keep noise from being like noise, which the discriminators ask for
            loss = 2 * args.mel_weight * losses["mel"] + 0.3 * (losses["log"] + losses["convergence"])
            adversarial_steps += 1
            with mixed_precision(device):
                real, made = halves(discriminators(torch.cat([heard, said.detach()])))
            discriminator = discriminator_loss(real, made)
            optimisers["discriminators"].zero_grad(set_to_none=True)
            discriminator.backward()
            optimisers["discriminators"].step()
            logged["discriminators"] = discriminator
            if adversarial_steps > ADVERSARIAL_WARM_UP:
                discriminators.requires_grad_(False)
                with mixed_precision(device):
                    made = discriminators(said)
                # what recordings gave before the discriminators' step serves here too: a pass less
                adversarial, matching = generator_losses(real, made)
                discriminators.requires_grad_(True)
                loss = loss + args.adversarial_weight * (adversarial + 2 * matching)
                logged |= {"adversarial": adversarial, "matching": matching}
        optimisers["model"].zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimisers["model"].step()
        run.log(logged)
