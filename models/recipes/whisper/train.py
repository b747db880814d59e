"""Teaches a checkpoint to see windows that are as long as their speech, or to do with weights of few bits.

The teacher is the published checkpoint over the full 30 s; the student sees the window cut behind its sound. Both decoders are led
through the same text, and the student's last hidden states, the probabilities of its tokens and the attention of its alignment heads
are drawn to the teacher's. Weights of few bits are rounded on their way; gradients pass as if they were not.
"""

from __future__ import annotations

import json
import math
import signal
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer

from . import network, quantise
from .calibrate import calibrate
from .features import LogMel
from .store import Store
from .windows import Batch, Windows

WARM_UP, AVERAGED, SAVED_EVERY, HELD_OUT_BATCHES, CALIBRATED_ON = 60, 0.998, 600, 8, 40
# Tokens whose probabilities are compared at a time.
TOGETHER = 256


class Rounded(torch.autograd.Function):
    """A weight on its grid; its gradient is that of the weight itself."""

    @staticmethod
    def forward(_, weight, step, least, largest):
        return quantise.rounded(weight, (step, least), largest)

    @staticmethod
    def backward(_, gradient):
        return gradient, None, None, None


class Student:
    """The weights that learn, and the grids of those that are rounded. A grid stays as calibration found it: one that is fitted to
    weights that have moved undoes what they have learned."""

    def __init__(self, weights: network.Weights, grids: dict[str, quantise.Grid]):
        self.weights = {name: value.clone().requires_grad_() for name, value in weights.items()}
        self.average = {name: value.clone() for name, value in weights.items()}
        self.grids = grids
        self._largest = quantise.of_few_bits(weights)

    def seen(self) -> network.Weights:
        return {
            name: Rounded.apply(value, *self.grids[name], self._largest[name]) if name in self.grids else value
            for name, value in self.weights.items()
        }

    def judged(self) -> network.Weights:
        if not self.grids:
            return self.average
        return {name: quantise.as_stored(name, value, self.grids.get(name)) for name, value in self.average.items()}

    @torch.no_grad()
    def add_to_average(self, step: int) -> None:
        kept = min(AVERAGED, (step + 1) / (step + 10))
        for name, value in self.average.items():
            value.lerp_(self.weights[name], 1 - kept)


class Task:
    """Teacher, features, loss."""

    def __init__(self, folder: Path):
        config, generation = (json.loads((folder / f"{name}.json").read_text()) for name in ("config", "generation_config"))
        self.shape = network.Shape.of(config, generation)
        self.published = {name: value.float() for name, value in load_file(folder / "model.safetensors").items()}
        self._teacher = {name: value.bfloat16() if value.ndim > 1 and "positions" not in name else value for name, value in self.published.items()}
        self.features = LogMel(config["num_mel_bins"])

    def losses(self, student: network.Weights, batch: Batch) -> dict[str, torch.Tensor]:
        """Distance of the hidden states in parts of their power, of the tokens' probabilities and of the alignment heads' attention in
        nats; and the part of the tokens that both find likeliest."""
        features = self.features(batch.sound)
        with torch.autocast("cpu", torch.bfloat16):
            with torch.no_grad():
                frames = network.encode(self._teacher, self.shape, features)
                hidden, shown = network.decode(self._teacher, self.shape, batch.tokens, frames)
            seen = network.encode(student, self.shape, features[:, :, : 2 * batch.frames])
            own_hidden, own_shown = network.decode(student, self.shape, batch.tokens, seen)
        weight = batch.weight / batch.weight.sum()
        hidden, own_hidden = hidden.float(), own_hidden.float()
        distance = ((own_hidden - hidden).square().mean(2) * weight).sum() / hidden.square().mean()
        shown = torch.log_softmax(shown[..., : batch.frames].masked_fill(~batch.heard[:, None, None], -30), 3)
        own_shown = torch.log_softmax(own_shown.masked_fill(~batch.heard[:, None, None], -30), 3)
        looks = ((shown.exp() * (shown - own_shown)).sum(3).mean(1) * weight).sum()
        divergence, same = self._tokens(student, hidden[batch.weight > 0], own_hidden[batch.weight > 0], weight[batch.weight > 0])
        return {"hidden": distance, "tokens": divergence, "attention": looks, "same": same}

    def _tokens(self, student: network.Weights, hidden: torch.Tensor, own: torch.Tensor, weight: torch.Tensor):
        divergence, same = 0.0, 0.0
        embeddings = student[network.EMBEDDINGS]
        for part in range(0, len(weight), TOGETHER):
            rows = slice(part, part + TOGETHER)
            with torch.autocast("cpu", torch.bfloat16):
                with torch.no_grad():
                    wanted = network.scores(self._teacher, hidden[rows]).float()
                found = F.linear(own[rows], embeddings).float()
            wanted, found_log = torch.log_softmax(wanted, 1), torch.log_softmax(found, 1)
            divergence = divergence + (F.kl_div(found_log, wanted, reduction="none", log_target=True).sum(1) * weight[rows]).sum()
            same = same + ((wanted.argmax(1) == found.argmax(1)) * weight[rows]).sum()
        return divergence, same


def total(losses: dict[str, torch.Tensor]) -> torch.Tensor:
    return losses["hidden"] + losses["tokens"] + 0.1 * losses["attention"]


def train(teacher: Path, sounds: Path, out: Path, minutes: float, rate: float, threads: int, start: Path | None = None, seed: int = 1) -> None:
    """`minutes` of wall time over all runs into `out`. Without `start` the published weights learn short windows; with it, the weights
    of that file are rounded to few bits and learn to do with them."""
    torch.set_num_threads(threads)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(teacher / "tokenizer.json"))
    store = Store(sounds)
    windows, held_out = Windows(store, tokenizer, seed), Windows(store, tokenizer, seed + 1, held_out=True)
    task = Task(teacher)
    checkpoint = out / "checkpoint.pt"
    state = torch.load(checkpoint, weights_only=True) if checkpoint.exists() else None
    step, spent = (state["step"], state["spent"]) if state else (0, 0.0)

    def note(text: str) -> None:
        with (out / "curve.tsv").open("a") as curve:
            curve.write(f"{step}\t{spent / 60:.1f}\t{text}\n")
        print(f"step {step}, {spent / 60:.1f} min: {text}", flush=True)

    @torch.no_grad()
    def judge(weights: network.Weights) -> None:
        sums: dict[str, float] = {}
        for number in range(HELD_OUT_BATCHES):
            for name, value in task.losses(weights, held_out.batch(number)).items():
                sums[name] = sums.get(name, 0.0) + float(value) / HELD_OUT_BATCHES
        note("held out: " + " ".join(f"{name} {value:.4f}" for name, value in sums.items()))

    if state:
        student = Student(state["weights"], state["grids"])
        student.average = state["average"]
    else:
        weights, grids = task.published, {}
        if start:
            weights = learned(start)
            judge(weights)
            weights, grids = calibrate(weights, task.shape, task.features, windows, CALIBRATED_ON)
        student = Student(weights, grids)
        judge(student.judged())
    others = [value for name, value in student.weights.items() if name != network.EMBEDDINGS]
    # Most tokens are in no batch: a full step on the little that the softmax shows of them would carry them off.
    groups = [{"params": others, "part": 1.0}, {"params": [student.weights[network.EMBEDDINGS]], "part": 0.2}]
    optimiser = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), eps=1e-7, weight_decay=0)
    if state:
        optimiser.load_state_dict(state["optimiser"])
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))

    def save() -> None:
        state = {"step": step, "spent": spent, "grids": student.grids, "average": student.average, "optimiser": optimiser.state_dict()}
        state["weights"] = {name: value.data for name, value in student.weights.items()}
        torch.save(state, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").rename(checkpoint)

    recent: list[dict[str, float]] = []
    saved = began = time.monotonic()
    base = spent
    while spent < minutes * 60 and not stopped:
        progress = spent / (minutes * 60)
        for group in optimiser.param_groups:
            group["lr"] = rate * group["part"] * min(1, (step + 1) / WARM_UP) * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * progress)))
        losses = task.losses(student.seen(), windows.batch(step))
        optimiser.zero_grad(set_to_none=True)
        total(losses).backward()
        torch.nn.utils.clip_grad_norm_(student.weights.values(), 1.0)
        optimiser.step()
        student.add_to_average(step)
        step += 1
        now = time.monotonic()
        spent = base + now - began
        recent.append({name: float(value.detach()) for name, value in losses.items()})
        if step % 25 == 0:
            note(" ".join(f"{name} {sum(row[name] for row in recent) / len(recent):.4f}" for name in recent[0]))
            recent.clear()
        if now - saved > SAVED_EVERY:
            save()
            saved = now
        if step % 200 == 0:
            judge(student.judged())
    judge(student.judged())
    save()


def learned(run: Path) -> network.Weights:
    """The averaged weights of a run, or those of a safetensors file."""
    if run.suffix == ".safetensors":
        return {name: value.float() for name, value in load_file(run).items()}
    return torch.load(run / "checkpoint.pt", weights_only=True, mmap=True)["average"]
