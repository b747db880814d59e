"""Writes a checkpoint folder of the published form: in 16 bits as safetensors, or in few bits as GGUF in files below 24 MB.

`generation_config.json` says how many encoder frames a window needs: those of its audio and `audio_context_margin` more, and
`min_audio_context` at least.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

from . import quantise
from .windows import MARGIN

LARGEST_FILE = 23_900_000
LEAST = MARGIN + 50  # one second and the margin


def settings(teacher: Path, out: Path, short: bool) -> None:
    out.mkdir(parents=True, exist_ok=True)
    shutil.copy(teacher / "config.json", out / "config.json")
    tokenizer = json.loads((teacher / "tokenizer.json").read_text())
    tokenizer["model"]["merges"] = [pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]]
    (out / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")))
    generation = json.loads((teacher / "generation_config.json").read_text())
    if short:
        generation |= {"audio_context_margin": MARGIN, "min_audio_context": LEAST}
    (out / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n")


def write_halves(weights: dict[str, torch.Tensor], teacher: Path, out: Path, short: bool = True) -> None:
    settings(teacher, out, short)
    save_file({name: value.half().contiguous() for name, value in weights.items()}, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)


def write_blocks(run: Path, teacher: Path, out: Path, short: bool = True) -> None:
    """What a run with few bits has learned."""
    state = torch.load(run / "checkpoint.pt", weights_only=True, mmap=True)
    weights, grids = state["average"], state["grids"]
    settings(teacher, out, short)
    for old in out.glob("model*.gguf"):
        old.unlink()
    writer = gguf.GGUFWriter(out / "model.gguf", "whisper", split_max_size=LARGEST_FILE)
    # The longest first: small ones fill the files up.
    for name, value in sorted(weights.items(), key=lambda row: -row[1].numel()):
        kind = quantise.kind_of(name, value)
        packed = np.frombuffer(quantise.pack(kind, value.contiguous(), grids.get(name)), dtype=np.uint8)
        if kind in ("F32", "F16"):
            writer.add_tensor(name, packed.view(np.float32 if kind == "F32" else np.float16).reshape(tuple(value.shape)))
        else:
            rows = packed.reshape(len(value), -1)
            writer.add_tensor(name, rows, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for path in sorted(out.iterdir()):
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
