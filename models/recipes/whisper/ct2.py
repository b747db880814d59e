"""A Whisper checkpoint in CTranslate2's form as a folder of the published form.

The weights are the same numbers; queries, keys and values, which that form keeps in one matrix, are taken apart.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

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
    """The tensors under their published names; the output projection is the embeddings."""
    tensors = {}
    for name, value in variables.items():
        if value.dtype not in (np.float16, np.float32) or name.startswith("decoder/projection/"):
            continue
        side, _, rest = name.partition("/")
        layer = ""
        if rest.startswith("layer_") and not rest.startswith("layer_norm"):
            number, _, rest = rest.partition("/")
            layer = f"layers.{number.removeprefix('layer_')}."
        rest = rest.replace("gamma", "weight").replace("beta", "bias")
        for theirs, ours in PARTS.items():
            if rest.startswith(theirs):
                rest = rest.replace(theirs, ours)
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
                tensors[f"model.{side}.{layer}{target.replace('/', '.')}"] = torch.from_numpy(part.copy())
    return tensors


def configuration(tensors: dict[str, torch.Tensor], tokenizer: Tokenizer, settings: dict) -> tuple[dict, dict]:
    """`config.json` and `generation_config.json`, by the shapes of the tensors; `settings` are CTranslate2's."""

    def layers(side: str) -> int:
        return 1 + max(int(name.split(".")[3]) for name in tensors if name.startswith(f"model.{side}.layers."))

    def token(text: str) -> int:
        return tokenizer.token_to_id(text)

    width = tensors["model.encoder.layer_norm.weight"].numel()
    inner = tensors["model.encoder.layers.0.fc1.bias"].numel()
    vocabulary = len(tensors["model.decoder.embed_tokens.weight"])
    languages = {text: id for text, id in tokenizer.get_vocab().items() if id in settings["lang_ids"] and text.startswith("<|")}
    ends = dict(bos_token_id=token("<|endoftext|>"), eos_token_id=token("<|endoftext|>"), pad_token_id=token("<|endoftext|>"))
    start = token("<|startoftranscript|>")
    suppressed = dict(suppress_tokens=settings["suppress_ids"], begin_suppress_tokens=settings["suppress_ids_begin"])
    config = dict(
        architectures=["WhisperForConditionalGeneration"], model_type="whisper", activation_function="gelu", d_model=width,
        encoder_layers=layers("encoder"), decoder_layers=layers("decoder"), encoder_attention_heads=width // 64,
        decoder_attention_heads=width // 64, encoder_ffn_dim=inner, decoder_ffn_dim=inner,
        num_mel_bins=tensors["model.encoder.conv1.weight"].shape[1], max_source_positions=1500, max_target_positions=448,
        vocab_size=vocabulary, scale_embedding=False, decoder_start_token_id=start, **ends,
    )  # fmt: skip
    tasks = {"transcribe": token("<|transcribe|>"), "translate": token("<|translate|>")}
    generation = dict(
        alignment_heads=settings["alignment_heads"], is_multilingual=True, lang_to_id=dict(sorted(languages.items())),
        task_to_id=tasks, max_initial_timestamp_index=50, max_length=448, no_timestamps_token_id=token("<|notimestamps|>"),
        return_timestamps=False, prev_sot_token_id=token("<|startofprev|>"), decoder_start_token_id=start, **ends, **suppressed,
    )  # fmt: skip
    return config, generation


def front_end(mels: int) -> dict:
    """`preprocessor_config.json`, the same for all sizes but for the mels."""
    return dict(
        chunk_length=30, feature_extractor_type="WhisperFeatureExtractor", feature_size=mels, hop_length=160, n_fft=400,
        n_samples=480000, nb_max_frames=3000, padding_side="right", padding_value=0.0, processor_class="WhisperProcessor",
        return_attention_mask=False, sampling_rate=16000,
    )  # fmt: skip


def convert(source: Path, folder: Path) -> None:
    """`source` holds `model.bin`, `config.json` and `tokenizer.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = published(read(source / "model.bin"))
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    config, generation = configuration(tensors, tokenizer, json.loads((source / "config.json").read_text()))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    files = {"config": config, "generation_config": generation, "preprocessor_config": front_end(config["num_mel_bins"])}
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    # The published file without its line breaks.
    text = json.dumps(json.loads((source / "tokenizer.json").read_text()), ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
