"""Writes trained runs as one folder: `acoustic/`, `vocoder/` and `g2p/`, each of `config.json` and `model.safetensors` in f16."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from .sound import FLOOR, HOP, MELS, RATE, WINDOW
from .g2p import LETTERS, SLOTS
from .symbols import ID, PHONES
from .training import load_modules


def half(value: torch.Tensor) -> torch.Tensor:
    return value.half().contiguous() if value.is_floating_point() else value.contiguous()


def mean(runs: list[Path]) -> dict[str, torch.Tensor]:
    """The weights of a run, or the mean of those of several that started from one: a vocoder before and after its tuning."""
    weights = [load_modules(run) for run in runs]
    return {name: sum(one[name] for one in weights) / len(weights) if value.is_floating_point() else value
            for name, value in weights[0].items()}  # fmt: skip


def export(acoustic: Path, vocoders: list[Path], g2p: Path, out: Path) -> None:
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    for name, runs in (("acoustic", [acoustic]), ("vocoder", vocoders), ("g2p", [g2p])):
        folder = partial / name
        folder.mkdir(parents=True)
        save_file({key: half(value) for key, value in mean(runs).items()}, folder / "model.safetensors")
        (folder / "model.safetensors").chmod(0o644)
        config = json.loads((runs[0] / "config.json").read_text(encoding="utf-8"))
        if name == "acoustic":
            config |= {"architectures": ["FastSpeech2ConformerModel"]}
            (folder / "vocab.json").write_text(json.dumps(ID, indent=0) + "\n", encoding="utf-8")
            shutil.copy(runs[0] / "voices.json", folder / "voices.json")
        if name == "vocoder":
            config |= {"model_type": "vocos", "sample_rate": RATE, "n_fft": WINDOW, "hop_length": HOP, "n_mels": MELS,
                       "padding": "center", "mel_scale": "htk", "magnitude_floor": FLOOR}  # fmt: skip
        if name == "g2p":
            config |= {"architectures": ["BertForTokenClassification"], "slots": SLOTS, "letters": LETTERS, "phones": PHONES}
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    partial.rename(out)
    sizes = {path.relative_to(out): path.stat().st_size for path in sorted(out.rglob("*.safetensors"))}
    print("; ".join(f"{path}: {size / 1e6:.2f} MB" for path, size in sizes.items()), f"; in all {sum(sizes.values()) / 1e6:.2f} MB")
