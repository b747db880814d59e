"""Stores an exported folder's matrices in 8 bits, and gives them back.

    python -m recipes.few_bits starter/asr-en [--five NAME ...]
    python -m recipes.few_bits starter/asr-en --back WORK/asr-en

`model.safetensors` becomes `model.gguf`: matrices and convolutions whose rows are whole blocks of 32 in `Q8_0`, those whose names hold
NAME (all do hold "") in `Q5_0`, the rest as it was. A convolution is stored as a matrix of its outputs. `--back` writes `model.safetensors` in 16 bits.
"""

from __future__ import annotations

import argparse
import math
import shutil
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import quants
from safetensors.torch import load_file, save_file

BLOCK = 32
SHAPE = "auricle.shape."


def load(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of an exported folder in either form; floats in f32."""
    file = folder / "model.safetensors"
    if file.exists():
        return {name: value.float() if value.is_floating_point() else value for name, value in load_file(file).items()}
    reader = gguf.GGUFReader(folder / "model.gguf")
    shapes = {name.removeprefix(SHAPE): field.contents() for name, field in reader.fields.items() if name.startswith(SHAPE)}
    found = {}
    for tensor in reader.tensors:
        value = torch.from_numpy(quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
        found[tensor.name] = value.reshape(shapes.get(tensor.name, value.shape))
    return found


def kind_of(name: str, value: torch.Tensor, five: list[str]) -> Kind | None:
    """None for what stays as it is."""
    if value.ndim < 2 or math.prod(value.shape[1:]) % BLOCK:
        return None
    return Kind.Q5_0 if any(part in name for part in five) else Kind.Q8_0


def store(folder: Path, five: list[str]) -> None:
    file = folder / "model.safetensors"
    # Counters, of training alone, are left out.
    weights = {name: value for name, value in load_file(file).items() if value.is_floating_point()}
    writer = gguf.GGUFWriter(folder / "model.gguf", "auricle")
    for name, value in weights.items():
        kind = kind_of(name, value, five)
        if kind is None:
            writer.add_tensor(name, value.contiguous().numpy())
            continue
        if value.ndim > 2:
            writer.add_array(SHAPE + name, list(value.shape))
        rows = value.float().reshape(value.shape[0], -1).contiguous().numpy()
        writer.add_tensor(name, quants.quantize(rows, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    before = file.stat().st_size
    file.unlink()
    print(f"{folder}: {before / 1e6:.2f} MB -> {(folder / 'model.gguf').stat().st_size / 1e6:.2f} MB")


def write_back(folder: Path, out: Path) -> None:
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("model.gguf"))
    save_file({name: value.half().contiguous() for name, value in load(folder).items()}, out / "model.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--five", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--back", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    if args.back is None:
        store(args.folder, args.five)
        return
    write_back(args.folder, args.back)


if __name__ == "__main__":
    main()
