"""The silero detector: a checkpoint of random weights in the published form, evaluated by the published package."""

import json
from pathlib import Path

import numpy as np
import torch
import silero_vad
from safetensors.torch import load_file, save_file
from silero_vad import load_silero_vad
from silero_vad.utils_vad import get_speech_timestamps_from_probs

from speech import RATE, readable, recording

CHUNK = 512
CHUNKS = 81
# Names of the published safetensors file, and where its tensors are in the package's TorchScript module.
NAMES = {
    "stft_conv.weight": "_model.stft.forward_basis_buffer",
    **{f"conv{n + 1}.{part}": f"_model.encoder.{n}.reparam_conv.{part}" for n in range(4) for part in ("weight", "bias")},
    **{f"lstm_cell.{part}": f"_model.decoder.rnn.{part}" for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")},
    **{f"final_conv.{part}": f"_model.decoder.decoder.2.{part}" for part in ("weight", "bias")},
}
RULES = [
    {"threshold": 0.5, "neg_threshold": 0.35, "min_speech_duration_ms": 250, "min_silence_duration_ms": 100, "speech_pad_ms": 30},
    {"threshold": 0.6, "neg_threshold": 0.2, "min_speech_duration_ms": 96, "min_silence_duration_ms": 300, "speech_pad_ms": 150},
    {"threshold": 0.3, "neg_threshold": 0.3, "min_speech_duration_ms": 32, "min_silence_duration_ms": 33, "speech_pad_ms": 0},
]  # fmt: skip


def random_weights(published: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Random weights in f16, scaled so that activations do not vanish; the Fourier basis is the published one."""
    generator = torch.Generator().manual_seed(11)
    weights = {}
    for name, place in NAMES.items():
        shape = published[place].shape
        if name == "stft_conv.weight":
            value = published[place].clone()
        elif name.endswith("weight"):
            size = 12.0 if name.startswith("final") else 1.5
            value = torch.randn(shape, generator=generator) * size / np.sqrt(np.prod(shape[1:]))
        else:
            value = torch.randn(shape, generator=generator) * 0.2
        weights[name] = value.half()
    return weights


def sounds() -> torch.Tensor:
    """`[2, samples]`: speech, and beside it noise, silence, a tone, faint noise and a burst at full scale."""
    rng = np.random.default_rng(3)
    samples = CHUNK * CHUNKS
    spoken = np.zeros(samples)
    speech = recording()[:samples]
    spoken[: len(speech)] = speech
    other = 0.1 * rng.standard_normal(samples)
    t = np.arange(samples) / RATE
    other[10_000:16_000] = 0
    other[16_000:24_000] = 0.3 * np.sin(2 * np.pi * 440 * t[16_000:24_000])
    other[24_000:32_000] *= 0.01
    other[32_000:36_000] = np.sign(other[32_000:36_000])
    return torch.from_numpy(np.stack([spoken, other])).float()


def chances_with(model, weights: dict[str, torch.Tensor], audio: torch.Tensor) -> torch.Tensor:
    """`[rows, samples]` to `[rows, chunks]`, chunk by chunk as a stream, with these weights."""
    state = model.state_dict()
    for name, value in weights.items():
        state[NAMES[name]].copy_(value.float())
    model.reset_states()
    return torch.cat([model(chunk, RATE) for chunk in audio.split(CHUNK, dim=1)], dim=1)


def segment_cases() -> list[dict]:
    """Random walks of speech probabilities, with stays near the thresholds and jumps, and the package's segments."""
    rng = np.random.default_rng(17)
    cases = []
    for number in range(45):
        length = int(rng.integers(1, 160))
        steps = rng.standard_normal(length) * rng.uniform(0.05, 0.6)
        walk = 1 / (1 + np.exp(-4 * np.sin(np.cumsum(steps) + rng.uniform(-2, 2))))
        jumps = rng.random(length) < 0.08
        chances = [round(float(c), 3) for c in np.where(jumps, rng.random(length), walk)]
        samples = length * CHUNK - int(rng.integers(0, CHUNK))
        rules = RULES[number % len(RULES)]
        found = get_speech_timestamps_from_probs(chances, RATE, audio_length_samples=samples, **rules)
        segments = [[segment["start"], segment["end"]] for segment in found]
        cases.append({"rules": rules, "chances": chances, "samples": samples, "segments": segments})
    return cases


def make_silero(folder: Path) -> None:
    model = load_silero_vad()
    audio = sounds()
    weights = random_weights(model.state_dict())
    save_file(weights, folder / "model.safetensors")
    published = load_file(Path(silero_vad.__file__).with_name("data") / "silero_vad_16k.safetensors")
    tensors = {
        "audio": audio,
        "chances": chances_with(model, weights, audio),
        "chances_published": chances_with(model, published, audio),
    }
    save_file(tensors, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text(json.dumps({"segments": segment_cases()}) + "\n")
    readable(folder)
