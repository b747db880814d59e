"""The FastConformer encoder of the published 0.6B size in PyTorch: seconds for 30 s of audio, f32, on this CPU.

    python benches/torch_encoder.py [--threads N] [--seconds 30] [--repeats 5]

The class and size are those of `cargo bench --workspace --bench encoder`, so the two figures divide.
"""

import argparse
import time

import torch
from transformers import ParakeetEncoder, ParakeetEncoderConfig

parser = argparse.ArgumentParser()
parser.add_argument("--threads", type=int, default=0, help="0: PyTorch's own choice")
parser.add_argument("--seconds", type=float, default=30.0)
parser.add_argument("--repeats", type=int, default=5)
arguments = parser.parse_args()
if arguments.threads:
    torch.set_num_threads(arguments.threads)

config = ParakeetEncoderConfig(
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=8,
    intermediate_size=4096,
    num_mel_bins=128,
    scale_input=False,
    attention_bias=False,
    convolution_bias=False,
)
model = ParakeetEncoder(config).eval()
features = torch.randn(1, int(arguments.seconds * 100), 128)
mask = torch.ones(1, features.shape[1], dtype=torch.bool)
seconds = []
with torch.inference_mode():
    model(features, attention_mask=mask)
    for _ in range(arguments.repeats):
        start = time.perf_counter()
        model(features, attention_mask=mask)
        seconds.append(time.perf_counter() - start)
best = min(seconds)
print(f"torch {torch.__version__}, {torch.get_num_threads()} threads: best {best:.3f} s, median {sorted(seconds)[len(seconds) // 2]:.3f} s")
