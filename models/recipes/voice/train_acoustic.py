"""Trains the acoustic model on annotated clips."""

from __future__ import annotations

import argparse
import itertools
import json

import numpy as np
import torch
from transformers import FastSpeech2ConformerModel

from ..optimiser import Muon
from ..work_queue import WorkQueue, prefetch
from .acoustic import AcousticBatch, build_config, losses, teacher_forced
from .annotate import Utterance, Utterances
from .clips import Clips, held_out
from .sound import MELS
from .training import Run, cosine, device_of, mixed_precision

NEAR = 40  # a batch is drawn from so many neighbours by length on either side
FRAMES_GRID, SYMBOLS_GRID = 32, 8


class BatchSampler:
    """Batches of utterances of like lengths, a function of the seed and the step alone."""

    def __init__(self, utterances: Utterances, used: list[Utterance], frames: int, seed: int, favoured: dict[str, float]):
        self._utterances, self._frames, self._seed = utterances, frames, seed
        self._sorted = sorted(used, key=lambda one: one.frames)
        self.voices = sorted(utterances.voices)
        self._weights = np.array([favoured.get(one.voice, 1.0) for one in self._sorted])
        shares = self._weights * np.array([one.frames for one in self._sorted])
        self._shares = np.cumsum(shares / shares.sum())

    def batch(self, step: int) -> AcousticBatch:
        rng = np.random.default_rng((self._seed, step))
        middle = int(np.searchsorted(self._shares, rng.random() * self._shares[-1]))
        first, end = max(0, middle - NEAR), min(len(self._sorted), middle + NEAR)
        weights = self._weights[first:end] / self._weights[first:end].sum()
        order = first + rng.choice(end - first, size=end - first, replace=False, p=weights)
        chosen, longest = [], 0
        for number in order:
            longest = max(longest, self._sorted[number].frames)
            if chosen and longest * (len(chosen) + 1) > self._frames:
                break
            chosen.append(self._sorted[number])
        return collate(self._utterances, self.voices, chosen)


def collate(utterances: Utterances, voices: list[str], chosen: list[Utterance]) -> AcousticBatch:
    """Utterances side by side; `voices` says which number each voice has."""
    frames = -(-max(one.frames for one in chosen) // FRAMES_GRID) * FRAMES_GRID
    symbols = -(-max(len(one.symbols) for one in chosen) // SYMBOLS_GRID) * SYMBOLS_GRID
    mel = np.zeros((len(chosen), frames, MELS), np.float32)
    mask = np.zeros((len(chosen), frames), bool)
    rows = {name: np.zeros((len(chosen), symbols), kind) for name, kind in
            (("symbols", np.int64), ("durations", np.int64), ("pitch", np.float32), ("energy", np.float32))}  # fmt: skip
    for row, one in enumerate(chosen):
        mel[row, : one.frames] = utterances.mel(one)
        mask[row, : one.frames] = True
        for name, values in rows.items():
            values[row, : len(one.symbols)] = getattr(one, name)
    numbers = torch.tensor([voices.index(one.voice) for one in chosen])
    return AcousticBatch(voices=numbers, mel=torch.from_numpy(mel), frame_mask=torch.from_numpy(mask),
                         **{name: torch.from_numpy(values) for name, values in rows.items()})  # fmt: skip


@torch.no_grad()
def dev_losses(model: FastSpeech2ConformerModel, batches: list[AcousticBatch]) -> dict[str, float]:
    """Mean losses over held-out clips, one at a time, without dropout."""
    model.eval()
    sums: dict[str, float] = {}
    for batch in batches:
        for name, value in losses(teacher_forced(model, batch), batch).items():
            sums[name] = sums.get(name, 0.0) + value.item() / len(batches)
    model.train()
    return sums


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    device = device_of(args.device)
    clips, utterances = Clips(args.store), Utterances(args.annotated)
    unseen = [one for one in utterances.all if held_out(clips.all[one.clip])]
    used = [one for one in utterances.all if not held_out(clips.all[one.clip])]
    favoured = {name: float(weight) for name, _, weight in (part.partition("=") for part in args.favoured.split(",") if part)}
    sampler = BatchSampler(utterances, used, args.frames, args.seed, favoured)
    config = build_config(len(sampler.voices), args.hidden, args.layers, args.feedforward)
    model = FastSpeech2ConformerModel(config)
    with torch.no_grad():
        mean = np.concatenate([utterances.mel(one) for one in used[:: max(1, len(used) // 50)]]).mean(0)
        model.speech_decoder_postnet.feat_out.bias.copy_(torch.from_numpy(mean / 2))
        model.speaker_id_embedding.weight.mul_(0.3)
    model.to(device)
    in_layers = [p for name, p in model.named_parameters() if "conformer_layers" in name and "bias" not in name]
    matrices = [p for p in in_layers if p.ndim >= 2 and p.numel() == p.shape[0] * p.shape[1]]
    taken = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in taken]
    optimisers: dict[str, torch.optim.Optimizer] = {
        "model": torch.optim.AdamW(rest, lr=args.rate, weight_decay=0.01, betas=(0.9, 0.98)),
        "matrices": Muon(matrices, lr=args.rate, queue=WorkQueue()),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "config.json").write_text(config.to_json_string(), encoding="utf-8")
    voices = {name: utterances.voices[name] for name in sampler.voices}
    (args.out / "voices.json").write_text(json.dumps(voices, indent=1) + "\n", encoding="utf-8")
    run = Run(args.out, {"model": model}, optimisers, args.minutes, args.wall_minutes, args.end_at, args.save_every, args.weights)
    apart = [collate(utterances, sampler.voices, [one]).to(device) for one in unseen]
    batches = map(sampler.batch, itertools.count(run.step))
    if device.type == "cuda":  # a CPU that trains has no time beside it
        batches = prefetch(sampler.batch, itertools.count(run.step), 2)
    model.train()
    for step in run.steps():
        for name in optimisers:
            run.rate(name, cosine(run.part, args.rate, args.rate / 30))
        batch = next(batches).to(device)
        with mixed_precision(device):
            predicted = teacher_forced(model, batch)
        found = losses(predicted, batch)
        loss = found["mel"] + 0.5 * found["slopes"] + found["duration"] + 0.3 * found["pitch"] + 0.3 * found["energy"]
        for optimiser in optimisers.values():
            optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if norm.isfinite():
            for optimiser in optimisers.values():
                optimiser.step()
        run.log(found)
        if apart and step % args.dev_every == args.dev_every - 1:
            kept = {name: value.clone() for name, value in model.state_dict().items()}
            model.load_state_dict(run.average)
            logged = " ".join(f"{name} {value:.4f}" for name, value in dev_losses(model, apart).items())
            model.load_state_dict(kept)
            print(f"held out: {logged}", flush=True)
