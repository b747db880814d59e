"""A Whisper checkpoint in the forms that people have: whisper.cpp's file, CTranslate2's folder, and GGUF with the published names.

`python tests/oracles/whisper_files.py PUBLISHED OUT` writes a published folder's weights as `OUT/ggml-f16.bin`, `OUT/ggml-q5_0.bin`,
`OUT/ggml-q8_0.bin`, `OUT/ct2-f16`, `OUT/ct2-int8` and `OUT/gguf` (Q8_0, F16 and F32, in shards). `make.py whisper_forms` makes the fixture: a tiny
checkpoint with random weights, in forms that have every type between them, and what the published class makes of the rounded weights.
"""

import argparse
import json
import re
import shutil
import struct
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

from models import dumps
from speech import RATE, readable, recording
from whisper_checkpoints import GAINS, OFFSETS, Checkpoint, generation_config, save
from whisper_tokenizer import leave_engines_files, letter_of_byte, write

BLOCK = 32
# Types of ggml by the names of whisper.cpp's files, with the file's own number for its type.
FILES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9}
# Version 2 of the quantised types, in thousands.
VERSION = 2000
GGML_PARTS = {
    "self_attn_layer_norm": "attn_ln", "self_attn.q_proj": "attn.query", "self_attn.k_proj": "attn.key",
    "self_attn.v_proj": "attn.value", "self_attn.out_proj": "attn.out", "encoder_attn_layer_norm": "cross_attn_ln",
    "encoder_attn.q_proj": "cross_attn.query", "encoder_attn.k_proj": "cross_attn.key", "encoder_attn.v_proj": "cross_attn.value",
    "encoder_attn.out_proj": "cross_attn.out", "final_layer_norm": "mlp_ln", "fc1": "mlp.0", "fc2": "mlp.2",
}  # fmt: skip
CT2_PARTS = {
    "self_attn_layer_norm": "self_attention/layer_norm", "self_attn.out_proj": "self_attention/linear_1",
    "encoder_attn_layer_norm": "attention/layer_norm", "encoder_attn.q_proj": "attention/linear_0",
    "encoder_attn.out_proj": "attention/linear_2", "final_layer_norm": "ffn/layer_norm", "fc1": "ffn/linear_0", "fc2": "ffn/linear_1",
}  # fmt: skip
CT2_TYPES = [np.float32, np.int8, np.int16, np.int32, np.float16]


class Source:
    """A published folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.config = json.loads((folder / "config.json").read_text())
        self.generation = json.loads((folder / "generation_config.json").read_text())
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tensors = load_file(folder / "model.safetensors")
        self.tensors = {name: tensor.float().numpy() for name, tensor in tensors.items() if name != "proj_out.weight"}

    def text_tokens(self) -> list[bytes]:
        """The bytes of the tokens before the end of the text."""
        bytes_of = {letter: byte for byte, letter in letter_of_byte().items()}
        end = self.tokenizer.token_to_id("<|endoftext|>")
        return [bytes(bytes_of[letter] for letter in self.tokenizer.id_to_token(number)) for number in range(end)]

    def all_tokens(self) -> list[str]:
        return [self.tokenizer.id_to_token(number) for number in range(self.config["vocab_size"])]


def suppressed(tokenizer: Tokenizer) -> list[int]:
    """The tokens that published checkpoints suppress: symbols that stand for sounds, and control tokens."""

    def ids(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False).ids

    music = list("♩♪♫♬♭♮♯")
    pairs = "<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪".split(" ")
    found = {ids(" -")[0], ids(" '")[0]}
    for symbol in [*'"#()*+/:;<=>@[\\]^_`{|}~「」『』', *pairs, *music]:
        for written in (symbol, " " + symbol):
            if len(encoded := ids(written)) == 1 or symbol in music:
                found.add(encoded[0])
    control = ["startoftranscript", "translate", "transcribe", "startoflm", "startofprev"]
    found |= {tokenizer.token_to_id(f"<|{name}|>") for name in control}
    found.add(tokenizer.token_to_id("<|notimestamps|>") - 1)
    return sorted(found)


def block_values(values: np.ndarray, kind: str) -> tuple[bytes, np.ndarray]:
    """The stored bytes of a type of ggml, and the values that they stand for."""
    if kind in ("f32", "f16"):
        stored = values.astype(np.float32 if kind == "f32" else np.float16)
        return stored.tobytes(), stored.astype(np.float32)
    stored = gguf.quants.quantize(np.ascontiguousarray(values), Type[kind.upper()])
    return stored.tobytes(), gguf.quants.dequantize(stored, Type[kind.upper()]).astype(np.float32)


def ggml_name(name: str) -> str:
    side, rest = name.removeprefix("model.").split(".", 1)
    rest = rest.replace("embed_positions.weight", "positional_embedding").replace("embed_tokens", "token_embedding")
    if found := re.fullmatch(r"layers\.(\d+)\.(.+)\.(weight|bias)", rest):
        rest = f"blocks.{found[1]}.{GGML_PARTS[found[2]]}.{found[3]}"
    elif rest.startswith("layer_norm"):
        rest = rest.replace("layer_norm", "ln_post" if side == "encoder" else "ln")
    return f"{side}.{rest}"


def write_ggml(source: Source, path: Path, kinds: list[str]) -> dict[str, np.ndarray]:
    """A file of whisper.cpp, whose matrices have the types in turn; returns the stored values by their published names."""
    config, number = source.config, 0
    layers = [config[f"{side}_layers"] for side in ("encoder", "decoder")]
    heads = [config[f"{side}_attention_heads"] for side in ("encoder", "decoder")]
    kept = {}
    with path.open("wb") as file:
        kind = FILES[kinds[0]] + (VERSION if kinds[0].startswith("q") else 0)
        file.write(struct.pack(
            "<I11i", 0x67676D6C, config["vocab_size"], config["max_source_positions"], config["d_model"], heads[0], layers[0],
            config["max_target_positions"], config["d_model"], heads[1], layers[1], config["num_mel_bins"], kind,
        ))  # fmt: skip
        filters = WhisperFeatureExtractor(feature_size=config["num_mel_bins"]).mel_filters.T.astype(np.float32)
        file.write(struct.pack("<2i", *filters.shape) + np.ascontiguousarray(filters).tobytes())
        tokens = source.text_tokens()
        file.write(struct.pack("<i", len(tokens)) + b"".join(struct.pack("<i", len(token)) + token for token in tokens))
        for name, values in source.tensors.items():
            own = ggml_name(name)
            kind = kinds[number % len(kinds)]
            if values.ndim == 1 or own.endswith("positional_embedding"):
                kind = "f32"
            elif values.ndim > 2 or values.shape[-1] % BLOCK:
                kind = "f32" if kinds == ["f32"] else "f16"
            else:
                number += 1
            stored, kept[name] = block_values(values, kind)
            shape = (*values.shape, 1) if re.fullmatch(r"encoder\.conv\d\.bias", own) else values.shape
            head = struct.pack("<3i", len(shape), len(own), int(Type[kind.upper()]))
            file.write(head + struct.pack(f"<{len(shape)}i", *reversed(shape)) + own.encode() + stored)
    return kept


def ct2_variables(source: Source) -> dict[str, np.ndarray]:
    variables = {}
    for name, values in source.tensors.items():
        side, rest = name.removeprefix("model.").split(".", 1)
        if rest == "embed_positions.weight":
            variables[f"{side}/position_encodings/encodings"] = values
        elif rest == "embed_tokens.weight":
            variables[f"{side}/embeddings/weight"] = values
        elif rest.startswith("conv"):
            variables[f"{side}/{rest.replace('.', '/')}"] = values
        else:
            found = re.fullmatch(r"(?:layers\.(\d+)\.)?(.+)\.(weight|bias)", rest)
            scope = f"{side}/layer_{found[1]}" if found[1] else side
            part, kind = CT2_PARTS.get(found[2], found[2]), found[3]
            if part.endswith("layer_norm"):
                kind = {"weight": "gamma", "bias": "beta"}[kind]
            if "." not in part:
                variables[f"{scope}/{part}/{kind}"] = values
    for side, kind in (("encoder", "self_attn"), ("decoder", "self_attn"), ("decoder", "encoder_attn")):
        for layer in range(source.config[f"{side}_layers"]):
            of = f"model.{side}.layers.{layer}.{kind}"
            joined, into = (("q_proj", "k_proj", "v_proj"), "self_attention/linear_0") if kind == "self_attn" else (("k_proj", "v_proj"), "attention/linear_1")
            scope = f"{side}/layer_{layer}/{into}"
            variables[f"{scope}/weight"] = np.concatenate([source.tensors[f"{of}.{part}.weight"] for part in joined])
            bias = [source.tensors.get(f"{of}.{part}.bias", np.zeros(source.config["d_model"], np.float32)) for part in joined]
            variables[f"{scope}/bias"] = np.concatenate(bias)
    return variables


def write_ct2(source: Source, folder: Path, kind: str, vocabulary: str) -> dict[str, np.ndarray]:
    """A folder of CTranslate2, `f32`, `f16` or `int8`; returns the values that its matrices stand for by their names there."""
    folder.mkdir(parents=True, exist_ok=True)
    written, kept = {}, {}
    for name, values in ct2_variables(source).items():
        if kind == "int8" and name.endswith("/weight") and "conv" not in name:
            most = np.abs(values).max(axis=1)
            scale = (127.0 / np.where(most == 0, 127.0, most)).astype(np.float32)
            written[name], written[f"{name}_scale"] = np.rint(values * scale[:, None]).astype(np.int8), scale
            kept[name] = written[name].astype(np.float32) / scale[:, None]
        else:
            written[name] = values.astype(np.float32 if kind == "f32" else np.float16)
            kept[name] = written[name].astype(np.float32)
    for side in ("encoder", "decoder"):
        written[f"{side}/num_heads"] = np.int16(source.config[f"{side}_attention_heads"])
    written |= {"decoder/activation": np.int8(3), "decoder/pre_norm": np.int8(1), "decoder/scale_embeddings": np.int8(0)}

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    with (folder / "model.bin").open("wb") as file:
        file.write(struct.pack("<I", 6) + text("WhisperSpec") + struct.pack("<2I", 3, len(written)))
        for name, values in sorted(written.items()):
            number = [np.dtype(one) for one in CT2_TYPES].index(values.dtype)
            file.write(text(name) + struct.pack(f"<B{values.ndim}I", values.ndim, *values.shape))
            file.write(struct.pack("<BI", number, values.nbytes) + values.tobytes())
        file.write(struct.pack("<I", 1) + text("decoder/projection/weight") + text("decoder/embeddings/weight"))
    generation = source.generation
    stated = {
        "alignment_heads": generation["alignment_heads"], "suppress_ids": generation["suppress_tokens"],
        "suppress_ids_begin": generation["begin_suppress_tokens"], "lang_ids": sorted(generation.get("lang_to_id", {}).values()),
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(stated) + "\n")
    if vocabulary == "tokenizer.json":
        shutil.copy(source.folder / vocabulary, folder / vocabulary)
    elif vocabulary == "vocabulary.json":
        (folder / vocabulary).write_text(json.dumps(source.all_tokens(), ensure_ascii=False) + "\n")
    else:
        (folder / vocabulary).write_text("".join(f"{token}\n" for token in source.all_tokens()))
    return kept


def write_gguf(source: Source, folder: Path, kinds: list[str]) -> dict[str, np.ndarray]:
    """The published folder with weights in two shards of GGUF; matrices have the types in turn. Returns the stored values."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "generation_config.json", "tokenizer.json", "preprocessor_config.json"):
        if (source.folder / name).exists():
            shutil.copy(source.folder / name, folder / name)
    kept, number = {}, 0
    names = list(source.tensors)
    halves = [names[: len(names) // 2], names[len(names) // 2 :]]
    for shard, part in enumerate(halves):
        writer = gguf.GGUFWriter(folder / f"model-{shard + 1:05}-of-{len(halves):05}.gguf", "whisper")
        writer.add_uint16("split.no", shard)
        writer.add_uint16("split.count", len(halves))
        writer.add_int32("split.tensors.count", len(names))
        for name in part:
            values = source.tensors[name]
            kind = "f32" if values.ndim == 1 else kinds[number % len(kinds)]
            if kind.startswith("q") and (values.ndim != 2 or values.shape[-1] % BLOCK):
                kind = "f16"
            number += values.ndim == 2
            stored, kept[name] = block_values(values, kind)
            if kind in ("f32", "f16"):
                writer.add_tensor(name, values.astype(np.float32 if kind == "f32" else np.float16))
            else:
                rows = np.frombuffer(stored, np.uint8).reshape(values.shape[0], -1)
                writer.add_tensor(name, rows, raw_dtype=Type[kind.upper()])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    readable(folder)
    return kept


def merges_by_rank(tokens: list[bytes]) -> list[tuple[bytes, bytes]]:
    """The merges that make the tokens where of all pairs the one of the lowest number is joined first, as in published vocabularies."""
    ranks, merges = {token: rank for rank, token in enumerate(tokens)}, []
    for rank, token in enumerate(tokens):
        pieces = [bytes([byte]) for byte in token]
        while len(pieces) > 2:
            pairs = [ranks.get(a + b, rank) for a, b in zip(pieces, pieces[1:])]
            if min(pairs) >= rank:
                break
            at = pairs.index(min(pairs))
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        if len(pieces) == 2:
            merges.append(tuple(pieces))
    return merges


CHECKPOINT = Checkpoint(
    "forms", languages=99, no_speech="<|nospeech|>",
    sizes=dict(width=32, heads=4, inner=64, encoder=1, decoder=2, mels=80), alignment_heads=[[1, head] for head in range(4)],
    dtype=torch.float16, seed=211, gains=GAINS, offsets=OFFSETS,
)  # fmt: skip
SCORED = 480
"""Stored logits of a token."""
TOKENS = 12


def make_whisper_forms(folder: Path) -> None:
    published = folder / "published"
    published.mkdir()
    save(CHECKPOINT, published)
    leave_engines_files(published)
    generation = generation_config(CHECKPOINT)
    letter = letter_of_byte()
    whole = json.loads((published / "tokenizer.json").read_text())
    pairs = [["".join(letter[byte] for byte in part) for part in pair] for pair in merges_by_rank(Source(published).text_tokens())]
    whole["model"]["merges"] = [" ".join(pair) for pair in pairs]
    write(published, "tokenizer", whole)
    source = Source(published)
    generation["suppress_tokens"] = suppressed(source.tokenizer)
    (published / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
    readable(published)
    source = Source(published)
    stored = {
        "published": dict(source.tensors),
        "ggml-f16": write_ggml(source, folder / "ggml-f16.bin", ["f16"]),
        "ggml-mixed": write_ggml(source, folder / "ggml-mixed.bin", ["q5_0", "q4_0", "q4_1", "q5_1", "q8_0", "f16", "f32"]),
        "gguf": write_gguf(source, folder / "gguf", ["q4_0", "q8_0", "f16", "f32"]),
    }
    write_ct2(source, folder / "ct2-f16", "f16", "vocabulary.json")
    rounded = write_ct2(source, folder / "ct2-int8", "int8", "vocabulary.txt")
    stored["ct2-int8"] = published_of(source, rounded)
    for name in ("tokenizer.json", "preprocessor_config.json"):
        (folder / "gguf" / name).unlink()  # the test adds the published ones
    tensors, facts = {}, {"tokens": []}
    extractor = WhisperFeatureExtractor(feature_size=80)
    features = extractor([recording()], sampling_rate=RATE, return_tensors="pt")["input_features"]
    text = torch.randint(0, len(CHECKPOINT.layout.text), (1, TOKENS), generator=torch.Generator().manual_seed(7))
    facts["tokens"] = text[0].tolist()
    for name, values in stored.items():
        model = WhisperForConditionalGeneration.from_pretrained(published, dtype=torch.float32).eval()
        state = {key: torch.from_numpy(np.array(value)) for key, value in values.items()}
        missing, unexpected = model.load_state_dict(state, strict=False)
        assert not unexpected and set(missing) <= {"proj_out.weight"}, (missing, unexpected)
        model.tie_weights()
        scores = model(features, decoder_input_ids=text).logits[0, :, :SCORED]
        tensors[name] = scores.contiguous()
    facts["suppressed"] = generation["suppress_tokens"]
    save_file(tensors, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text(dumps(facts) + "\n")
    for one in (folder, folder / "ct2-f16", folder / "ct2-int8"):
        for path in one.iterdir():
            if path.is_file():
                path.chmod(0o644)


def published_of(source: Source, variables: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The values of CTranslate2's variables by their published names, by the order of those that were written."""
    marked = Source.__new__(Source)
    marked.__dict__ |= source.__dict__
    marked.tensors = {name: np.full(values.shape, number, np.float32) for number, (name, values) in enumerate(source.tensors.items(), 1)}
    names, found = list(source.tensors), {}
    for variable, numbers in ct2_variables(marked).items():
        # Biases of keys are zeros there.
        for number in set(np.unique(numbers)) - {0}:
            rows = (numbers == number).reshape(len(numbers), -1).all(axis=1)
            found[names[int(number) - 1]] = variables[variable][rows]
    assert found.keys() == source.tensors.keys()
    return found


def write_all(published: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    source = Source(published)
    for kind in ("f16", "q5_0", "q8_0"):
        write_ggml(source, out / f"ggml-{kind}.bin", [kind])
    write_ct2(source, out / "ct2-f16", "f16", "vocabulary.json")
    write_ct2(source, out / "ct2-int8", "int8", "tokenizer.json")
    write_gguf(source, out / "gguf", ["q8_0"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("published", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    write_all(arguments.published, arguments.out)
