"""Smart Turn: a network of random weights in the published form, its stages, and the ONNX files that onnxruntime runs."""

import json
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime import quantization
from safetensors.torch import save_file
from torch import nn
from transformers import WhisperConfig, WhisperFeatureExtractor
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from speech import RATE, readable, recording

FRAMES, SIZE, MELS = 100, 64, 16
WINDOW = FRAMES * 320
CONFIG = WhisperConfig(d_model=SIZE, encoder_layers=2, encoder_attention_heads=1, encoder_ffn_dim=96, num_mel_bins=MELS,
                       max_source_positions=FRAMES, decoder_layers=1, decoder_attention_heads=1, decoder_ffn_dim=8, vocab_size=8,
                       pad_token_id=0, bos_token_id=0, eos_token_id=0, decoder_start_token_id=0)  # fmt: skip
# Lengths of the windows that are judged, samples: whole ones, a short one, a long one, silence.
LENGTHS = (WINDOW, 7001, WINDOW + 8_345, 0)


class SmartTurn(nn.Module):
    """The network by the names of the published one: transformers' encoder, a mean by learnt weights, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = WhisperEncoder(CONFIG)
        self.pool_attention = nn.Sequential(nn.Linear(SIZE, 256), nn.Tanh(), nn.Linear(256, 1))
        self.classifier = nn.Sequential(nn.Linear(SIZE, 256), nn.LayerNorm(256), nn.GELU(), nn.Dropout(0.1),
                                        nn.Linear(256, 64), nn.GELU(), nn.Linear(64, 1))  # fmt: skip

    def pooled(self, frames: torch.Tensor) -> torch.Tensor:
        weights = self.pool_attention(frames).softmax(dim=1)
        return (frames * weights).sum(dim=1)

    def forward(self, input_features: torch.Tensor) -> torch.Tensor:
        frames = self.encoder(input_features=input_features).last_hidden_state
        return self.classifier(self.pooled(frames)).sigmoid()


class Exported(nn.Module):
    """The wrapper of the export, which gives the tensors their prefix."""

    def __init__(self, inner: SmartTurn) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_features: torch.Tensor) -> torch.Tensor:
        return self.inner(input_features)


def lively(model: nn.Module) -> None:
    """Rescales random weights so that probabilities differ from window to window."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "positions" in name:
                value.normal_(std=0.3)
            elif value.ndim >= 2:
                value.normal_(std=1.5 * value[0].numel() ** -0.5)
            elif "norm" in name or name.startswith("classifier.1."):
                value.normal_(1.0 if name.endswith("weight") else 0.0, 0.2)
            else:
                value.normal_(0.0, 0.2)
            value.copy_(value.half().float())


def windows() -> list[np.ndarray]:
    speech = recording().astype(np.float32)
    whole = [speech[at : at + length] for at, length in zip((9_000, 30_000, 1_000, 0), LENGTHS)]
    assert [len(window) for window in whole] == list(LENGTHS)
    return whole


def features(samples: list[np.ndarray]) -> torch.Tensor:
    """`[windows, mels, frames]` by the published extractor."""
    extractor = WhisperFeatureExtractor(feature_size=MELS, chunk_length=WINDOW // RATE)
    padded = [np.pad(window[-WINDOW:] if len(window) else window, (max(0, WINDOW - len(window)), 0)) for window in samples]
    return extractor(padded, sampling_rate=RATE, return_tensors="pt", padding="max_length", max_length=WINDOW,
                     truncation=True, do_normalize=True).input_features  # fmt: skip


class Calibration(quantization.CalibrationDataReader):
    def __init__(self, inputs: torch.Tensor) -> None:
        self.inputs = iter(inputs.numpy())

    def get_next(self) -> dict | None:
        window = next(self.inputs, None)
        return None if window is None else {"input_features": window[None]}


def export(model: SmartTurn, inputs: torch.Tensor, folder: Path) -> None:
    """Writes the network in 32 bits, and as onnxruntime quantises it for a CPU."""
    full, prepared = folder / "full.onnx", folder / "prepared.onnx"
    batch = torch.export.Dim.DYNAMIC
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Exported(model), (inputs[:2],), full, opset_version=18, do_constant_folding=False, dynamo=True,
                          input_names=["input_features"], output_names=["logits"], external_data=False, verbose=False,
                          dynamic_shapes={"input_features": {0: batch}})  # fmt: skip
    bare(full)
    quantization.quant_pre_process(full, prepared, skip_symbolic_shape=True)
    quantization.quantize_static(prepared, folder / "quantized.onnx", Calibration(inputs), quant_format=quantization.QuantFormat.QDQ,
                                 activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8,
                                 per_channel=True, op_types_to_quantize=["Conv", "MatMul", "Gemm"])  # fmt: skip
    prepared.unlink()
    bare(folder / "quantized.onnx")


def bare(path: Path) -> None:
    """Takes the places in the exporter's source out of a file, and gives the positions, which newer classes look up, their published name."""
    model = onnx.load(path)
    positions = {"embedding": "inner.encoder.embed_positions.weight"}
    for constant in model.graph.initializer:
        constant.name = positions.get(constant.name, constant.name)
    for node in model.graph.node:
        node.input[:] = [positions.get(name, name) for name in node.input]
    for node in model.graph.node:
        del node.metadata_props[:]
        node.ClearField("doc_string")
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        del value.metadata_props[:]
    del model.graph.value_info[:], model.graph.metadata_props[:], model.metadata_props[:]
    onnx.save(model, path)


def run(path: Path, inputs: torch.Tensor) -> torch.Tensor:
    session = onnxruntime.InferenceSession(path)
    return torch.tensor(session.run(None, {"input_features": inputs.numpy()})[0])


def make_smart_turn(folder: Path) -> None:
    torch.manual_seed(31)
    model = SmartTurn().eval()
    lively(model)
    inputs = features(windows())
    with torch.no_grad():
        frames = model.encoder(input_features=inputs).last_hidden_state
        stages = {
            "features": inputs.transpose(1, 2),
            "encoded": frames,
            "pooled": model.pooled(frames),
            "probabilities": model(inputs),
        }
    export(model, inputs, folder)
    stages["probabilities_full"] = run(folder / "full.onnx", inputs)
    stages["probabilities_quantized"] = run(folder / "quantized.onnx", inputs)
    CONFIG.save_pretrained(folder)
    save_file({name: value.half().contiguous() for name, value in model.state_dict().items()}, folder / "model.safetensors")
    save_file({name: value.contiguous() for name, value in stages.items()}, folder / "oracle.safetensors")
    starts = {"starts": [9_000, 30_000, 1_000, 0], "lengths": list(LENGTHS)}
    (folder / "oracle.json").write_text(json.dumps(starts) + "\n")
    readable(folder)
