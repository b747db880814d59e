"""Writes the embedding's published form: `config.json`, and `model.safetensors` in f16 without batch norms."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from .model import Embedder, Shape


def load_run(run: Path) -> Embedder:
    """The average of a run's weights."""
    shape = json.loads((run / "shape.json").read_text(encoding="utf-8"))
    names = Shape.__dataclass_fields__
    model = Embedder(Shape(**{k: tuple(v) if isinstance(v, list) else v for k, v in shape.items() if k in names}))
    model.load_state_dict(torch.load(run / "checkpoint.pt", weights_only=True)["average"])
    return model.eval()


def load_exported(folder: Path) -> Embedder:
    """An exported folder into a model whose batch norms do nothing."""
    shape = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    names = Shape.__dataclass_fields__
    model = Embedder(Shape(**{k: tuple(v) if isinstance(v, list) else v for k, v in shape.items() if k in names})).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.eps = 0.0  # with a variance of one, exactly the identity
    folded = {name: value.float() for name, value in load_file(folder / "model.safetensors").items()}
    own = model.state_dict()
    for name, value in folded.items():
        stem, last = name.rsplit(".", 1)
        own[name if name in own else f"{stem}.conv.{last}"] = value
    model.load_state_dict(own)
    return model


def load(folder: Path) -> Embedder:
    return load_exported(folder) if (folder / "model.safetensors").exists() else load_run(folder)


def export_model(model: Embedder, out: Path, precision: torch.dtype = torch.float16) -> None:
    out.mkdir(parents=True, exist_ok=True)
    partial = out / "model.partial"
    save_file({name: value.to(precision) for name, value in model.folded().items()}, partial)
    partial.chmod(0o644)
    partial.rename(out / "model.safetensors")
    (out / "config.json").write_text(json.dumps(model.shape.json(), indent=2) + "\n", encoding="utf-8")


def export(run: Path, out: Path) -> None:
    export_model(load_run(run), out)
    state = torch.load(run / "checkpoint.pt", weights_only=True)
    (out / "training").mkdir(exist_ok=True)
    progress = {"step": state["step"], "minutes": round(state["seconds"] / 60, 1)}
    (out / "training" / "progress.json").write_text(json.dumps(progress) + "\n", encoding="utf-8")
    for name in ("curve.tsv", "held_out.tsv"):
        if (run / name).exists():
            (out / "training" / name).write_bytes((run / name).read_bytes())
    size = (out / "model.safetensors").stat().st_size
    print(f"{out}: {size / 1e6:.2f} MB at step {state['step']}")
