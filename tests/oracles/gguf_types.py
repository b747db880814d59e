"""Blocks of each of GGUF's types with random bits, and the values that the `gguf` package unpacks them to."""

from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import save_file

# Each type with the places of its f16 scales in a block; every other byte is random.
SCALES = {
    "F32": None, "F16": None, "BF16": None,
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}  # fmt: skip
ROWS = 3
COLUMNS = 512


def blocks(kind: str, rng: np.random.Generator) -> np.ndarray:
    """`[rows, bytes]`"""
    if SCALES[kind] is None:
        values = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
        values[0, :6] = [0.0, -0.0, 1e-40, 6e-5, -6e-8, 65504]
        return gguf.quants.quantize(values, Type[kind]).view(np.uint8)
    size, bytes_ = gguf.GGML_QUANT_SIZES[Type[kind]]
    made = rng.integers(0, 256, (ROWS, COLUMNS // size, bytes_), dtype=np.uint8)
    for place in SCALES[kind]:
        # Scales from the subnormal to the largest that stay finite.
        scales = rng.standard_normal(made.shape[:2]) * 2.0 ** rng.integers(-24, 6, made.shape[:2])
        made[:, :, place : place + 2] = scales.astype(np.float16)[..., None].view(np.uint8)
    return made.reshape(ROWS, -1)


def make_gguf_types(folder: Path) -> None:
    rng = np.random.default_rng(5)
    writer = gguf.GGUFWriter(folder / "types.gguf", "llama")
    writer.add_context_length(2048)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_uint64("test.large", 2**40)
    writer.add_int8("test.negative", -3)
    writer.add_float64("test.double", 0.1)
    writer.add_bool("test.yes", True)
    writer.add_array("test.words", ["a", "é", ""])
    writer.add_array("test.numbers", [1, -2, 3])
    writer.add_array("test.scores", [0.5, -1.5])
    values = {}
    for kind in SCALES:
        made = blocks(kind, rng)
        if kind == "F32":
            writer.add_tensor(kind, made.view(np.float32))
        else:
            writer.add_tensor(kind, made, raw_dtype=Type[kind])
        values[kind] = torch.from_numpy(np.ascontiguousarray(gguf.quants.dequantize(made, Type[kind]), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(values, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text("{}\n")
    (folder / "types.gguf").chmod(0o644)
