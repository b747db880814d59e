"""A published Whisper checkpoint in the forms of whisper.cpp and sherpa-onnx: `python benches/whisper_forms.py CHECKPOINT FOLDER`.

CHECKPOINT holds `config.json`, `generation_config.json`, `model.safetensors` and `tokenizer.json`. FOLDER gets `f16.ggml`,
`q8_0.ggml`, and `encoder`, `decoder`, `encoder.int8` and `decoder.int8` as `.onnx` with `tokens.txt`. The numbers stay those of the
checkpoint; eight bits are rounded as either project's own tools round them. Needs numpy, safetensors, onnx, onnxruntime and
faster-whisper (for the mel filters).
"""

import argparse
import base64
import json
import logging
import struct
from pathlib import Path

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

Weights = dict[str, numpy.ndarray]

# Parts of a name in the published form and in that of the first release, which whisper.cpp keeps.
NAMES = {
    "embed_positions.weight": "positional_embedding",
    "embed_tokens": "token_embedding",
    "layers": "blocks",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "self_attn_layer_norm": "attn_ln",
    "final_layer_norm": "mlp_ln",
    "encoder.layer_norm": "encoder.ln_post",
    "decoder.layer_norm": "decoder.ln",
    "encoder_attn": "cross_attn",
    "self_attn": "attn",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "out_proj": "out",
    "fc1": "mlp.0",
    "fc2": "mlp.2",
}
F32, F16, Q8_0 = 0, 1, 8
# A file's kind: mostly f16; mostly q8_0, in the second version of the rounded forms.
KINDS = {F16: 1, Q8_0: 2007}
Q8_BLOCK = 32


def vocabulary(checkpoint: Path) -> list[bytes]:
    """The bytes of each ordinary token, in order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}
    tokens = json.loads((checkpoint / "tokenizer.json").read_text())["model"]["vocab"]
    return [bytes(letters[letter] for letter in token) for token in sorted(tokens, key=tokens.get)]


def q8_0(values: numpy.ndarray) -> bytes:
    """Blocks of a scale in f16 and 32 bytes."""
    blocks = values.astype(numpy.float32).reshape(-1, Q8_BLOCK)
    scales = numpy.abs(blocks).max(axis=1, keepdims=True) / 127
    steps = blocks / numpy.where(scales == 0, 1, scales)
    packed = numpy.empty(len(blocks), numpy.dtype([("scale", "<f2"), ("steps", "i1", Q8_BLOCK)]))
    packed["scale"] = scales[:, 0]
    # Halves go away from zero, as C rounds them.
    packed["steps"] = numpy.trunc(steps + numpy.copysign(0.5, steps))
    return packed.tobytes()


def write_ggml(path: Path, checkpoint: Path, config: dict, weights: Weights, kind: int) -> None:
    from faster_whisper.feature_extractor import FeatureExtractor

    filters = FeatureExtractor(feature_size=config["num_mel_bins"]).mel_filters.astype(numpy.float32)
    audio = [config[key] for key in ("max_source_positions", "d_model", "encoder_attention_heads", "encoder_layers")]
    text = [config[key] for key in ("max_target_positions", "d_model", "decoder_attention_heads", "decoder_layers")]
    with path.open("wb") as file:
        file.write(b"lmgg" + struct.pack("<11i", config["vocab_size"], *audio, *text, config["num_mel_bins"], KINDS[kind]))
        file.write(struct.pack("<2i", *filters.shape) + filters.tobytes())
        tokens = vocabulary(checkpoint)
        file.write(struct.pack("<i", len(tokens)))
        for token in tokens:
            file.write(struct.pack("<i", len(token)) + token)
        for name, value in weights.items():
            name = name.removeprefix("model.")
            for published, first in NAMES.items():
                name = name.replace(published, first)
            if name.startswith("encoder.conv") and name.endswith("bias"):
                value = value[:, None]
            if value.ndim < 2 or "bias" in name or "positional" in name:
                form, data = F32, value.astype("<f4").tobytes()
            elif kind == F16 or value.ndim > 2:
                form, data = F16, value.astype("<f2").tobytes()
            else:
                form, data = kind, q8_0(value)
            file.write(struct.pack(f"<{3 + value.ndim}i", value.ndim, len(name), form, *value.shape[::-1]))
            file.write(name.encode() + data)


class Graph:
    """A graph in the making: each method adds a node and returns the name of what it gives."""

    def __init__(self, weights: Weights, heads: int):
        self.weights, self.heads = weights, heads
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def add(self, kind: str, *inputs: str, **settings) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output := f"{kind}_{len(self.nodes)}"], **settings))
        return output

    def constant(self, name: str, value: numpy.ndarray) -> str:
        self.constants[name] = numpy_helper.from_array(numpy.asarray(value, order="C"), name)
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[f"model.{name}"].astype(numpy.float32))

    def integers(self, *values: int) -> str:
        return self.constant("i" + "_".join(map(str, values)), numpy.array(values, numpy.int64))

    def slice(self, of: str, start: str, end: str, axis: int) -> str:
        return self.add("Slice", of, start, end, self.integers(axis))

    def linear(self, x: str, name: str) -> str:
        matrix = self.weights[f"model.{name}.weight"].astype(numpy.float32).T
        product = self.add("MatMul", x, self.constant(f"{name}.weight", matrix))
        return self.add("Add", product, self.weight(f"{name}.bias")) if f"model.{name}.bias" in self.weights else product

    def norm(self, x: str, name: str) -> str:
        return self.add("LayerNormalization", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), epsilon=1e-5)

    def attention(self, queries: str, keys: str, values: str, mask: str | None = None) -> str:
        def split(x: str, order: list[int]) -> str:
            return self.add("Transpose", self.add("Reshape", x, self.integers(0, 0, self.heads, -1)), perm=order)

        size = self.weights["model.encoder.layer_norm.weight"].size // self.heads
        scale = self.constant("scale", numpy.float32(size**-0.5))
        scores = self.add("MatMul", self.add("Mul", split(queries, [0, 2, 1, 3]), scale), split(keys, [0, 2, 3, 1]))
        if mask:
            scores = self.add("Add", scores, mask)
        mixed = self.add("MatMul", self.add("Softmax", scores, axis=-1), split(values, [0, 2, 1, 3]))
        return self.add("Reshape", self.add("Transpose", mixed, perm=[0, 2, 1, 3]), self.integers(0, 0, -1))

    def feed_forward(self, x: str, layer: str) -> str:
        hidden = self.add("Gelu", self.linear(self.norm(x, f"{layer}.final_layer_norm"), f"{layer}.fc1"))
        return self.add("Add", x, self.linear(hidden, f"{layer}.fc2"))

    def stack(self, parts: list[str]) -> str:
        return self.add("Concat", *[self.add("Unsqueeze", part, self.integers(0)) for part in parts], axis=0)

    def save(self, path: Path, inputs: dict, outputs: dict[str, str], about: dict) -> None:
        """`inputs` are names with kinds and shapes, `outputs` names with what they give."""
        named = [helper.make_node("Identity", [value], [name]) for name, value in outputs.items()]
        floats = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        given = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
        graph = helper.make_graph(self.nodes + named, path.stem, given, floats, list(self.constants.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        helper.set_model_props(model, {key: str(value) for key, value in about.items()})
        onnx.save(model, path)


def encoder(weights: Weights, config: dict, about: dict, path: Path) -> None:
    graph = Graph(weights, config["encoder_attention_heads"])
    x = "mel"
    for number in (1, 2):
        name = f"encoder.conv{number}"
        x = graph.add("Conv", x, graph.weight(f"{name}.weight"), graph.weight(f"{name}.bias"), pads=[1, 1], strides=[number])
        x = graph.add("Gelu", x)
    x = graph.add("Transpose", x, perm=[0, 2, 1])
    length = graph.add("Shape", x, start=1, end=2)
    positions = graph.weight("encoder.embed_positions.weight")
    x = graph.add("Add", x, graph.slice(positions, graph.integers(0), length, 0))
    for number in range(config["encoder_layers"]):
        layer = f"encoder.layers.{number}"
        given = graph.norm(x, f"{layer}.self_attn_layer_norm")
        parts = [graph.linear(given, f"{layer}.self_attn.{which}_proj") for which in "qkv"]
        x = graph.add("Add", x, graph.linear(graph.attention(*parts), f"{layer}.self_attn.out_proj"))
        x = graph.feed_forward(x, layer)
    x = graph.norm(x, "encoder.layer_norm")
    layers = range(config["decoder_layers"])
    outputs = {
        f"n_layer_cross_{which}": graph.stack([graph.linear(x, f"decoder.layers.{n}.encoder_attn.{which}_proj") for n in layers])
        for which in "kv"
    }
    graph.save(path, {"mel": (TensorProto.FLOAT, ["audios", config["num_mel_bins"], "frames"])}, outputs, about)


def decoder(weights: Weights, config: dict, about: dict, path: Path) -> None:
    """One step for any number of tokens behind `offset` earlier ones, whose keys and values are the caches."""
    graph = Graph(weights, config["decoder_attention_heads"])
    longest, width = config["max_target_positions"], config["d_model"]
    none = graph.integers(0)
    end = graph.add("Add", "offset", graph.add("Shape", "tokens", start=1, end=2))
    embeddings = graph.weight("decoder.embed_tokens.weight")
    positions = graph.slice(graph.weight("decoder.embed_positions.weight"), "offset", end, 0)
    x = graph.add("Add", graph.add("Gather", embeddings, "tokens"), positions)
    later = numpy.triu(numpy.full((longest, longest), -numpy.inf, numpy.float32), 1)
    mask = graph.slice(graph.slice(graph.constant("later", later), "offset", end, 0), none, end, 1)
    new: dict[str, list[str]] = {"k": [], "v": []}
    for number in range(config["decoder_layers"]):
        layer = f"decoder.layers.{number}"
        at = graph.constant(f"layer_{number}", numpy.array(number, numpy.int64))
        given = graph.norm(x, f"{layer}.self_attn_layer_norm")
        whole = []
        for which in "kv":
            earlier = graph.slice(graph.add("Gather", f"in_n_layer_self_{which}_cache", at, axis=0), none, "offset", 1)
            new[which].append(graph.linear(given, f"{layer}.self_attn.{which}_proj"))
            whole.append(graph.add("Concat", earlier, new[which][-1], axis=1))
        mixed = graph.attention(graph.linear(given, f"{layer}.self_attn.q_proj"), *whole, mask)
        x = graph.add("Add", x, graph.linear(mixed, f"{layer}.self_attn.out_proj"))
        queries = graph.linear(graph.norm(x, f"{layer}.encoder_attn_layer_norm"), f"{layer}.encoder_attn.q_proj")
        of_audio = [graph.add("Gather", f"n_layer_cross_{which}", at, axis=0) for which in "kv"]
        x = graph.add("Add", x, graph.linear(graph.attention(queries, *of_audio), f"{layer}.encoder_attn.out_proj"))
        x = graph.feed_forward(x, layer)
    # This order shares the embeddings' one copy; the other would need them transposed beside it.
    columns = graph.add("Transpose", graph.norm(x, "decoder.layer_norm"), perm=[0, 2, 1])
    outputs = {"logits": graph.add("Transpose", graph.add("MatMul", embeddings, columns), perm=[0, 2, 1])}
    for which, parts in new.items():
        cache = f"in_n_layer_self_{which}_cache"
        kept = graph.slice(cache, none, "offset", 2), graph.slice(cache, end, graph.integers(longest), 2)
        outputs[f"out_n_layer_self_{which}_cache"] = graph.add("Concat", kept[0], graph.stack(parts), kept[1], axis=2)
    cache = TensorProto.FLOAT, [config["decoder_layers"], "audios", longest, width]
    cross = TensorProto.FLOAT, [config["decoder_layers"], "audios", "frames", width]
    inputs = {
        "tokens": (TensorProto.INT64, ["audios", "count"]),
        "in_n_layer_self_k_cache": cache,
        "in_n_layer_self_v_cache": cache,
        "n_layer_cross_k": cross,
        "n_layer_cross_v": cross,
        "offset": (TensorProto.INT64, [1]),
    }
    graph.save(path, inputs, outputs, about)


def properties(config: dict, generation: dict) -> dict:
    """The properties that sherpa-onnx reads beside the graph."""
    codes = {code[2:-2]: number for code, number in generation["lang_to_id"].items()}
    start, tasks = generation["decoder_start_token_id"], generation["task_to_id"]
    sequence = [start, codes["en"], tasks["transcribe"]]
    return {
        "model_type": "whisper",
        "n_mels": config["num_mel_bins"],
        "n_audio_ctx": config["max_source_positions"],
        "n_text_layer": config["decoder_layers"],
        "n_text_ctx": config["max_target_positions"],
        "n_text_state": config["d_model"],
        "n_vocab": config["vocab_size"],
        "sot": start,
        "eot": generation["eos_token_id"],
        "blank_id": generation["begin_suppress_tokens"][0],
        "transcribe": tasks["transcribe"],
        "translate": tasks["translate"],
        "is_multilingual": int(generation["is_multilingual"]),
        "no_timestamps": generation["no_timestamps_token_id"],
        "no_speech": generation["no_timestamps_token_id"] - 1,
        "sot_sequence": ",".join(map(str, sequence)),
        "all_language_codes": ",".join(codes),
        "all_language_tokens": ",".join(map(str, codes.values())),
    }


def write_onnx(folder: Path, checkpoint: Path, config: dict, weights: Weights) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # It warns of each product whose weights are no constants, which stay as they are.
    logging.disable(logging.WARNING)
    about = properties(config, json.loads((checkpoint / "generation_config.json").read_text()))
    for name, build in {"encoder": encoder, "decoder": decoder}.items():
        build(weights, config, about, folder / f"{name}.onnx")
        quantize_dynamic(
            folder / f"{name}.onnx", folder / f"{name}.int8.onnx", op_types_to_quantize=["MatMul"], weight_type=QuantType.QInt8
        )
    lines = (f"{base64.b64encode(token).decode()} {number}\n" for number, token in enumerate(vocabulary(checkpoint)))
    (folder / "tokens.txt").write_text("".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    config = json.loads((arguments.checkpoint / "config.json").read_text())
    weights = load_file(arguments.checkpoint / "model.safetensors")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, kind in {"f16": F16, "q8_0": Q8_0}.items():
        write_ggml(arguments.folder / f"{name}.ggml", arguments.checkpoint, config, weights, kind)
    write_onnx(arguments.folder, arguments.checkpoint, config, weights)


if __name__ == "__main__":
    main()
