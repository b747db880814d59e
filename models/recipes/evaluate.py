"""Error rates of an exported folder, decoded greedily through the published transformers classes.

    python -m recipes.evaluate --model models/starter/asr-en --set EVAL/librispeech-sample --lookahead 13

A set is a folder of sound files with `refs.tsv`. Words are compared in lower case without punctuation.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import torch
from transformers import NemotronAsrStreamingForRNNT, NemotronAsrStreamingProcessor
from transformers.utils import logging

from .model import LOOKAHEADS
from .prepare import decode
from .scoring import ErrorRates
from .targets import read_table


def load(folder: Path, device: str):
    """An exported folder's model and processor, in f32."""
    logging.set_verbosity_error()
    warnings.filterwarnings("ignore", message="Using the model-agnostic default")  # how long a text may get
    model = NemotronAsrStreamingForRNNT.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    return model, NemotronAsrStreamingProcessor.from_pretrained(folder)


def transcribe(model, processor, sound, lookahead: int = max(LOOKAHEADS)) -> str:
    """The text of a sound, `[samples]` at 16 kHz.

    One at a time: a row of a batch goes on into its padding until the longest row ends, and what it emits there counts.
    """
    processor.set_num_lookahead_tokens(lookahead)
    inputs = processor([sound], sampling_rate=16000).to(model.device)
    inputs["input_features"] = inputs["input_features"].to(model.dtype)
    with torch.no_grad():
        out = model.generate(**inputs)
    return processor.batch_decode(out.sequences, skip_special_tokens=True)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--set", type=Path, required=True)
    parser.add_argument("--lookahead", type=int, default=max(LOOKAHEADS))
    parser.add_argument("--limit", type=int, help="score only the first so many")
    parser.add_argument("--out", type=Path, help="write file<TAB>text of what was heard")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()

    model, processor = load(args.model, args.device)
    rows = list(read_table(args.set / "refs.tsv").items())[: args.limit]
    sounds = {name: decode(args.set / name) for name, _ in rows}
    rates, heard, began = ErrorRates(), {}, time.perf_counter()
    for name, reference in rows:
        heard[name] = transcribe(model, processor, sounds[name], args.lookahead)
        rates.add(reference, heard[name])
    seconds = sum(map(len, sounds.values())) / 16000
    if args.out:
        args.out.write_text("".join(f"{name}\t{text}\n" for name, text in sorted(heard.items())), encoding="utf-8")
    print(
        f"{args.set.name}: WER {rates.wer:.1f} CER {rates.cer:.1f} "
        f"({len(rows)} utterances, {rates.words} words, look-ahead {args.lookahead})"
    )
    print(f"{seconds:.0f} s of sound in {time.perf_counter() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
