"""Averages two exports of one training run: often better than either, and more robust on recordings unlike the training data.

    python -m recipes.average --one FOLDER --two FOLDER --weight-of-two 0.5 --out FOLDER
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file, save_file

FILES = ("model.safetensors", "training/heads.safetensors")


def average(one: Path, two: Path, weight_of_two: float, out: Path) -> None:
    """Everything but the tensors is the second export's."""
    if out.resolve() != two.resolve():
        shutil.copytree(two, out, dirs_exist_ok=True)
    for name in FILES:
        a, b = load_file(one / name), load_file(two / name)
        with safe_open(one / name, "pt") as file:
            metadata = file.metadata()
        mixed = {key: (1 - weight_of_two) * a[key].float() + weight_of_two * b[key].float() for key in a}
        tensors = {key: value.to(a[key].dtype).contiguous() for key, value in mixed.items()}
        save_file(tensors, out / name, metadata=metadata)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", type=Path, required=True)
    parser.add_argument("--two", type=Path, required=True)
    parser.add_argument("--weight-of-two", type=float, default=0.5)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    average(args.one, args.two, args.weight_of_two, args.out)


if __name__ == "__main__":
    main()
