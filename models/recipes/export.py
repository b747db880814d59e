"""Writes a run's checkpoint in the published folder form.

    python -m recipes.export --run RUN --tokenizer tokenizer.json --out models/starter/asr-en

The folder loads with `NemotronAsrStreamingForRNNT.from_pretrained` and `NemotronAsrStreamingProcessor`. What training
has beyond the published model (CTC heads, mel statistics, learning curve) lies in its `training/`, so that
`recipes.train --start FOLDER` goes on from it. The folder is written beside its place and moved there whole.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import (
    GenerationConfig,
    NemotronAsrStreamingFeatureExtractor,
    NemotronAsrStreamingForRNNT,
    NemotronAsrStreamingProcessor,
    ParakeetTokenizer,
)

from .model import LOOKAHEADS, Recogniser, build_config
from .phones import PHONES
from .tokenizer import BLANK, PAD, UNKNOWN


def restore(checkpoint: dict, vocab_size: int) -> Recogniser:
    """The recogniser of a checkpoint; its shape is read from the parameters."""
    state = checkpoint["model"]
    hidden = state["ctc.weight"].shape[1]
    layers = 1 + max(int(name.split(".")[3]) for name in state if name.startswith("asr.encoder.layers."))
    channels = state["asr.encoder.subsampling.conv_in.weight"].shape[0]
    feedforward = state["asr.encoder.layers.0.feed_forward1.linear1.weight"].shape[0]
    model = Recogniser(build_config(vocab_size, hidden, layers, channels, feedforward), len(PHONES))
    model.load_state_dict(state)
    return model


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> ParakeetTokenizer:
    wrapped = ParakeetTokenizer(
        tokenizer_object=tokenizer, pad_token=PAD, unk_token=UNKNOWN, additional_special_tokens=[BLANK]
    )
    wrapped.save_pretrained(folder)
    return wrapped


def export(run: Path, tokenizer_file: Path, out: Path, card: Path | None = None) -> None:
    checkpoint = torch.load(run / "checkpoint.pt", map_location="cpu", weights_only=True)
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    recogniser = restore(checkpoint, tokenizer.get_vocab_size())

    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "training").mkdir(parents=True)
    model = NemotronAsrStreamingForRNNT(recogniser.asr.config)
    model.load_state_dict(recogniser.published_state())
    config = recogniser.asr.config
    model.generation_config = GenerationConfig(
        pad_token_id=config.pad_token_id, decoder_start_token_id=config.blank_token_id
    )
    model.half().save_pretrained(partial)
    processor = NemotronAsrStreamingProcessor(
        NemotronAsrStreamingFeatureExtractor(),
        save_tokenizer(tokenizer, partial),
        blank_token=BLANK,
        supported_num_lookahead_tokens=sorted(LOOKAHEADS, reverse=True),
        default_num_lookahead_tokens=max(LOOKAHEADS),
    )
    processor.save_pretrained(partial)

    heads = {name: value for name, value in recogniser.state_dict().items() if not name.startswith("asr.")}
    heads = {name: value.half() if value.ndim else value for name, value in heads.items()}
    save_file(heads, partial / "training" / "heads.safetensors")
    progress = {"step": checkpoint["step"], "hours": round(checkpoint["hours"], 3)}
    (partial / "training" / "progress.json").write_text(json.dumps(progress) + "\n", encoding="utf-8")
    if (run / "curve.tsv").exists():
        shutil.copy(run / "curve.tsv", partial / "training" / "curve.tsv")
    card = card or out / "README.md"
    if card.exists():
        shutil.copy(card, partial / "README.md")

    for path in partial.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)  # safetensors writes files for their owner alone
    previous = out.with_name(out.name + ".previous")
    if out.exists():
        out.rename(previous)
    partial.rename(out)
    shutil.rmtree(previous, ignore_errors=True)
    size = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    print(f"{out}: {size / 1e6:.1f} MB at {progress['hours']} h, step {progress['step']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--card", type=Path, help="model card; else the one already there is kept")
    args = parser.parse_args()
    export(args.run, args.tokenizer, args.out, args.card)


if __name__ == "__main__":
    main()
