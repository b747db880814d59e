"""The training loop that the voice's models share: a budget in processor time, checkpoints, an average of the weights, a log."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from .. import few_bits

SAVE_EVERY_S = 180
LOG_EVERY = 50
AVERAGE_STEPS = 1000  # how far the average of the weights reaches back, once there are ten times as many


def save(path: Path, value: object) -> None:
    partial = path.with_suffix(".partial")
    torch.save(value, partial)
    os.replace(partial, path)


def cosine(part: float, highest: float, lowest: float, warm_up: float = 0.01) -> float:
    """A learning rate for a part of the budget from 0 to 1."""
    if part < warm_up:
        return highest * (0.02 + 0.98 * part / warm_up)
    part = min(1.0, (part - warm_up) / (1 - warm_up))
    return lowest + (highest - lowest) * (1 + math.cos(math.pi * part)) / 2


def mixed_precision(device: torch.device = torch.device("cpu")) -> torch.autocast:
    """bf16 in products, on GPUs and on CPUs that are faster in it than in f32."""
    faster = device.type == "cuda" or torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "AVX2")
    return torch.autocast(device.type, torch.bfloat16, enabled=faster)


def device_of(name: str | None) -> torch.device:
    """The device that is asked for; without a name the GPU, where there is one. Products in f32 may be rounded to TF32 there."""
    device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    return device


class Run:
    """A training's state in a folder: modules and optimisers by name, steps and processor seconds spent.

    With `wall_minutes` a run ends after so long on the clock too, or with `end_at` at that time, its schedule done. The exponential
    moving average is of the module named `model`; it is what `export` writes, and `weights`, a file to write it to beside each checkpoint.
    """

    def __init__(self, out: Path, modules: dict[str, nn.Module], optimisers: dict[str, torch.optim.Optimizer], minutes: float,
                 wall_minutes: float | None = None, end_at: float | None = None, save_every_s: float = SAVE_EVERY_S,
                 weights: Path | None = None):  # fmt: skip
        out.mkdir(parents=True, exist_ok=True)
        self._save_every_s, self._weights = save_every_s, weights
        if end_at is not None:
            wall_minutes = min(wall_minutes or math.inf, max(end_at - time.time(), 1) / 60)
        self.out, self.modules, self.optimisers, self.budget_s = out, modules, optimisers, minutes * 60
        self.step, self.spent_s = 0, 0.0
        self.average = {name: value.detach().clone() for name, value in modules["model"].state_dict().items()}
        self._losses: dict[str, float | torch.Tensor] = {}
        self._stopping = False
        self.device = next(modules["model"].parameters()).device
        path = out / "checkpoint.pt"
        if path.exists():
            state = torch.load(path, map_location=self.device, weights_only=True)
            for name, module in modules.items():
                if name in state["modules"]:
                    module.load_state_dict(state["modules"][name])
            for name, optimiser in optimisers.items():
                if name in state["optimisers"]:
                    optimiser.load_state_dict(state["optimisers"][name])
            self.average, self.step, self.spent_s = state["average"], state["step"], state["seconds"]
            print(f"going on at step {self.step}, {self.spent_s / 60:.1f} minutes", flush=True)
        self._began, self._wall_s, self._part = time.monotonic(), wall_minutes and wall_minutes * 60, self.spent_s / self.budget_s

    @property
    def part(self) -> float:
        """Of the budget: by processor time, or by the clock where this run has less of it."""
        spent = self.spent_s / self.budget_s
        if self._wall_s is None:
            return spent
        return max(spent, self._part + (1 - self._part) * (time.monotonic() - self._began) / self._wall_s)

    def stop(self, *_: object) -> None:
        self._stopping = True

    def steps(self) -> Iterator[int]:
        """Numbers of the steps to take until the budget is spent or SIGTERM comes; writes checkpoints in between."""
        signal.signal(signal.SIGTERM, self.stop)
        saved = time.monotonic()
        while self.part < 1 and not self._stopping:
            began = time.process_time()
            yield self.step
            self.step += 1
            self._update_average()
            self.spent_s += time.process_time() - began
            if time.monotonic() - saved > self._save_every_s:
                self.keep()
                saved = time.monotonic()
        self.keep()

    def rate(self, optimiser: str, value: float) -> None:
        for group in self.optimisers[optimiser].param_groups:
            group["lr"] = value

    def log(self, losses: dict[str, float | torch.Tensor]) -> None:
        """Adds up losses, and prints their means every fifty steps; until then nothing waits for a GPU."""
        for name, value in losses.items():
            value = value.detach() if isinstance(value, torch.Tensor) else value
            self._losses[name] = self._losses.get(name, 0.0) + value / LOG_EVERY
        if (self.step + 1) % LOG_EVERY == 0:
            self._losses = {name: float(value) for name, value in self._losses.items()}
            logged = " ".join(f"{name} {value:.4f}" for name, value in self._losses.items())
            print(f"step {self.step + 1} minutes {self.spent_s / 60:.1f} {logged}", flush=True)
            with (self.out / "curve.tsv").open("a", encoding="utf-8") as curve:
                values = "\t".join(f"{name}\t{value:.4f}" for name, value in self._losses.items())
                curve.write(f"{self.step + 1}\t{self.spent_s / 60:.2f}\t{values}\n")
            self._losses = {}

    def keep(self) -> None:
        save(self.out / "checkpoint.pt", {
            "modules": {name: module.state_dict() for name, module in self.modules.items()},
            "optimisers": {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()},
            "average": self.average, "step": self.step, "seconds": self.spent_s,
        })  # fmt: skip
        if self._weights:
            save_weights(self._weights, self.average)

    @torch.no_grad()
    def _update_average(self) -> None:
        weight = 1 / min(AVERAGE_STEPS, 1 + self.step / 10)
        current = self.modules["model"].state_dict()
        floats = [name for name, value in current.items() if value.is_floating_point()]
        torch._foreach_lerp_([self.average[name] for name in floats], [current[name] for name in floats], weight)
        for name in current.keys() - set(floats):
            self.average[name].copy_(current[name])


def save_weights(path: Path, weights: dict[str, torch.Tensor]) -> None:
    """Writes weights in f16; batch norms' moments stay in f32, which they may need the range of."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {name: value.half() if value.is_floating_point() and "running_" not in name else value for name, value in weights.items()}
    partial = path.with_suffix(".partial")
    save_file({name: value.detach().cpu().contiguous() for name, value in kept.items()}, partial)
    os.replace(partial, path)


def load_modules(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of an export in f32, or the average of a run's weights."""
    if any((folder / name).exists() for name in ("model.safetensors", "model.gguf")):
        return few_bits.load(folder)
    return torch.load(folder / "checkpoint.pt", map_location="cpu", weights_only=True)["average"]
