"""A Whisper checkpoint of a published size with random weights, for timing: `python benches/whisper_folder.py tiny FOLDER`.

Everything but the weights is as published: sizes, vocabulary, tokenizer, alignment heads' number. It never ends a window by
itself (the end is suppressed), so that all programs write as many tokens as they are asked for. Needs what
`tests/oracles/requirements.txt` names.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "oracles"))
from whisper_checkpoints import Checkpoint, generation_config, model_config  # noqa: E402
from whisper_tokenizer import save_tokenizer, write  # noqa: E402

# width, heads, layers of encoder and decoder, mels, languages, alignment heads
SHAPES = {
    "tiny": (384, 6, 4, 4, 80, 99, 6),
    "base": (512, 8, 6, 6, 80, 99, 8),
    "small": (768, 12, 12, 12, 80, 99, 10),
    "large-v3": (1280, 20, 32, 32, 128, 100, 10),
    "turbo": (1280, 20, 32, 4, 128, 100, 6),
}


def make(shape: str, folder: Path, dtype: torch.dtype = torch.float32) -> None:
    width, heads, encoder, decoder, mels, languages, aligned = SHAPES[shape]
    checkpoint = Checkpoint(
        shape, languages=languages, no_speech="<|nospeech|>", pieces=50257, dtype=dtype, seed=1,
        sizes=dict(width=width, heads=heads, inner=4 * width, encoder=encoder, decoder=decoder, mels=mels),
        alignment_heads=[[decoder - 1 - i // heads, i % heads] for i in range(aligned)],
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    settings = model_config(checkpoint)
    known = {key: settings[key] for key in settings if key in WhisperConfig.__dataclass_fields__}
    never = {"suppress_tokens": None, "begin_suppress_tokens": None}
    torch.manual_seed(1)
    WhisperForConditionalGeneration(WhisperConfig(**known | never)).to(dtype).save_pretrained(folder)
    generation = generation_config(checkpoint)
    generation["suppress_tokens"] = sorted([*generation["suppress_tokens"], checkpoint.layout.endoftext])
    (folder / "config.json").write_text(json.dumps(settings | {"suppress_tokens": generation["suppress_tokens"]}, indent=2))
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2))
    write(folder, "preprocessor_config", {
        "chunk_length": 30, "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": mels, "hop_length": 160,
        "n_fft": 400, "n_samples": 480000, "nb_max_frames": 3000, "padding_side": "right", "padding_value": 0.0,
        "processor_class": "WhisperProcessor", "return_attention_mask": False, "sampling_rate": 16000,
    })  # fmt: skip
    save_tokenizer(checkpoint.layout, folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--f16", action="store_true", help="weights in half precision")
    arguments = parser.parse_args()
    make(arguments.shape, arguments.folder, torch.float16 if arguments.f16 else torch.float32)
