"""What the embedding is worth: a table of equal error rates.

    python -m recipes.speakers evaluate --model starter/voice --store STORE --set EVAL
"""

from __future__ import annotations

from pathlib import Path

from ..features import MelStore
from .export import load
from .verification import errors, folder_mels, held_out_mels


def evaluate(path: Path, store: Path | None, sets: list[Path]) -> None:
    model = load(path)
    groups = held_out_mels(MelStore(store)) if store else {}
    groups |= {folder.name: folder_mels(folder) for folder in sets}
    print("| Utterances | Readers | | EER whole % | EER 2 s % |")
    print("|---|---|---|---|---|")
    for group, (mels, readers) in groups.items():
        whole, short = errors(model, mels, readers)
        print(f"| {group} | {len(set(readers))} | {len(mels)} | {whole:.1f} | {short:.1f} |", flush=True)
