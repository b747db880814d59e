"""A Whisper checkpoint in CTranslate2's form as a folder of the published form: `python benches/whisper_from_ct2.py base CT2 FOLDER`.

The weights are the same numbers; queries, keys and values, which that form keeps in one matrix, are taken apart. `CT2` is a
folder of `model.bin`, `config.json` and `tokenizer.json`. Needs what `tests/oracles/requirements.txt` names.
"""

import argparse
import json
import shutil
import struct
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from whisper_folder import SHAPES, make

TYPES = (np.float32, np.int8, np.int16, np.int32, np.float16)
PARTS = {
    "embeddings": "embed_tokens",
    "position_encodings/encodings": "embed_positions.weight",
    "ffn/layer_norm": "final_layer_norm",
    "ffn/linear_0": "fc1",
    "ffn/linear_1": "fc2",
    "self_attention/layer_norm": "self_attn_layer_norm",
    "attention/layer_norm": "encoder_attn_layer_norm",
}


def read(path: Path) -> dict[str, np.ndarray]:
    """The variables of a `model.bin` of version 6."""
    with path.open("rb") as file:

        def number(kind: str) -> int:
            return struct.unpack(f"<{kind}", file.read(struct.calcsize(kind)))[0]

        def text() -> str:
            return file.read(number("H"))[:-1].decode()

        version = number("I")
        if version != 6:
            raise SystemExit(f"{path}: version {version} of the form, 6 is known")
        text(), number("I")  # the model's kind and its revision
        variables = {}
        for _ in range(number("I")):
            name = text()
            shape = [number("I") for _ in range(number("B"))]
            kind, size = TYPES[number("B")], number("I")
            variables[name] = np.frombuffer(file.read(size), kind).reshape(shape)
        return variables


def published(variables: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    tensors = {}
    for name, value in variables.items():
        if value.dtype != np.float16 and value.dtype != np.float32:
            continue
        if name.startswith("decoder/projection/"):  # tied to the embeddings
            continue
        side, _, rest = name.partition("/")
        layer = ""
        if rest.startswith("layer_") and not rest.startswith("layer_norm"):
            number, _, rest = rest.partition("/")
            layer = f"layers.{number.removeprefix('layer_')}."
        rest = rest.replace("gamma", "weight").replace("beta", "bias")
        for ours, theirs in PARTS.items():
            if rest.startswith(ours):
                rest = rest.replace(ours, theirs)
                break
        into = [rest]
        if "attention/linear_" in rest:
            block = "self_attn" if rest.startswith("self_") else "encoder_attn"
            which, kind = rest.split("linear_")[1].split("/")
            fused = ("qkv", "o") if block == "self_attn" else ("q", "kv", "o")
            names = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}
            into = [f"{block}.{names[letter]}.{kind}" for letter in fused[int(which)]]
        for target, part in zip(into, np.split(value, len(into)), strict=True):
            if not target.endswith("k_proj.bias"):  # all zero: the published form has none
                target = target.replace("/", ".")
                tensors[f"model.{side}.{layer}{target}"] = torch.from_numpy(part.copy())
    return tensors


def convert(shape: str, source: Path, folder: Path) -> None:
    make(shape, folder, torch.float16)
    tensors = published(read(source / "model.bin"))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    for made_up in ("vocab.json", "merges.txt", "added_tokens.json", "special_tokens_map.json", "tokenizer_config.json"):
        (folder / made_up).unlink(missing_ok=True)
    shutil.copy(source / "tokenizer.json", folder / "tokenizer.json")
    of_source = json.loads((source / "config.json").read_text())
    taken = {
        "suppress_tokens": of_source["suppress_ids"],
        "begin_suppress_tokens": of_source["suppress_ids_begin"],
        "alignment_heads": of_source["alignment_heads"],
    }
    for name in ("config.json", "generation_config.json"):
        path = folder / name
        settings = json.loads(path.read_text())
        path.write_text(json.dumps(settings | {k: v for k, v in taken.items() if k in settings}, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    convert(arguments.shape, arguments.source, arguments.folder)
