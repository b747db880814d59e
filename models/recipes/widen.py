"""Widens the feed-forward layers of an exported recogniser, which says the same until it is trained on.

    python -m recipes.widen --model FOLDER --feedforward 1024 --out FOLDER

What is added reads its input at random and is not listened to yet: its columns in the second matrix are zero.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file


def widened(tensors: dict[str, torch.Tensor], width: int) -> dict[str, torch.Tensor]:
    """Matrices `linear1` `[width, hidden]` and `linear2` `[hidden, width]` of every feed-forward layer."""
    draw, found = torch.Generator().manual_seed(1), dict(tensors)
    for name, tensor in tensors.items():
        if ".feed_forward" not in name or name.endswith("linear2.bias"):
            continue
        side = 1 if "linear2" in name else 0
        missing = width - tensor.shape[side]
        if missing <= 0:
            raise SystemExit(f"{name} has {tensor.shape[side]} already")
        shape = [missing if dimension == side else size for dimension, size in enumerate(tensor.shape)]
        added = torch.zeros(shape)
        if name.endswith("linear1.weight"):
            added = torch.randn(shape, generator=draw) * tensor.float().std()
        found[name] = torch.cat([tensor, added.to(tensor.dtype)], dim=side).contiguous()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="an exported folder with its training/")
    parser.add_argument("--feedforward", type=int, required=True, help="the new width")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()

    shutil.copytree(args.model, args.out, dirs_exist_ok=True)
    file, config = args.out / "model.safetensors", args.out / "config.json"
    with safe_open(file, "pt") as opened:
        metadata = opened.metadata()
    save_file(widened(load_file(file), args.feedforward), file, metadata=metadata)
    shape = json.loads(config.read_text(encoding="utf-8"))
    shape["encoder_config"]["intermediate_size"] = args.feedforward
    config.write_text(json.dumps(shape, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
