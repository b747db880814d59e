"""Outputs, filter banks and windows of the three feature extractors on one piece of speech."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import NemotronAsrStreamingFeatureExtractor, ParakeetFeatureExtractor, WhisperFeatureExtractor

from speech import RATE, readable, recording

SHORT = 13333
"""Samples of the second utterance of the batched case, which is the start of the first."""
WHISPER_TAIL = 8
"""Frames kept of the silence that fills Whisper's 30 s."""


def make_features(folder: Path) -> None:
    audio = recording()[2000 : 2000 + 20900]
    save_file({"audio": torch.from_numpy(audio)}, folder / "audio.safetensors")
    settings = {"audio": {"samples": len(audio), "rate": RATE, "short": SHORT}}
    for mels in (80, 128):
        for kind, extractor in (
            ("parakeet", ParakeetFeatureExtractor(feature_size=mels)),
            ("nemotron", NemotronAsrStreamingFeatureExtractor(feature_size=mels)),
        ):
            tensors = one(extractor, audio)
            if kind == "parakeet":
                tensors["mel_filters"] = extractor.mel_filters
                tensors["window"] = torch.hann_window(extractor.win_length, periodic=False)
            if kind == "parakeet" and mels == 80:
                both = extractor([audio, audio[:SHORT]], sampling_rate=RATE, return_tensors="pt")
                tensors["batch_features"] = both["input_features"]
                tensors["batch_lengths"] = both["attention_mask"].sum(-1)
                alone = one(extractor, audio[:SHORT])["features"]
                torch.testing.assert_close(both["input_features"][1, : len(alone)], alone, atol=1e-4, rtol=1e-4)
            if kind == "nemotron" and mels == 128:
                rounded = NemotronAsrStreamingFeatureExtractor(feature_size=mels, mel_filters_dtype="bfloat16")
                tensors["features_bf16_filters"] = one(rounded, audio)["features"]
            write(folder, f"{kind}{mels}", tensors)
            settings[f"{kind}{mels}"] = described(extractor, kind)
        extractor = WhisperFeatureExtractor(feature_size=mels)
        write(folder, f"whisper{mels}", whisper(extractor, audio))
        settings[f"whisper{mels}"] = described(extractor, "whisper")
    (folder / "features.json").write_text(json.dumps(settings, indent=2) + "\n")
    readable(folder)


def one(extractor, audio) -> dict:
    output = extractor(audio, sampling_rate=RATE, return_tensors="pt")
    return {"features": output["input_features"][0], "feature_length": output["attention_mask"].sum(-1)}


def whisper(extractor, audio) -> dict:
    frames = len(audio) // extractor.hop_length
    whole = extractor(audio, sampling_rate=RATE, return_tensors="pt")["input_features"][0]
    unpadded = extractor(audio, sampling_rate=RATE, padding="longest", return_tensors="pt")["input_features"][0]
    assert whole.shape[1] == 3000 and unpadded.shape[1] == frames
    silence = whole[:, frames + WHISPER_TAIL :]
    assert float(silence.max()) == float(silence.min())
    return {
        "features": whole[:, : frames + WHISPER_TAIL],
        "features_unpadded": unpadded,
        "mel_filters": torch.from_numpy(extractor.mel_filters.T).float(),
        "window": torch.hann_window(extractor.n_fft),
    }


def write(folder: Path, name: str, tensors: dict) -> None:
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / f"{name}.safetensors")


def described(extractor, kind: str) -> dict:
    common = {
        "class": type(extractor).__name__,
        "mels": extractor.feature_size,
        "rate": extractor.sampling_rate,
        "n_fft": extractor.n_fft,
        "hop": extractor.hop_length,
        "mel_scale": "slaney",
        "mel_norm": "slaney",
        "min_hertz": 0.0,
        "max_hertz": 8000.0,
        "power": 2.0,
        "dither": 0.0,
    }
    if kind == "whisper":
        return common | {
            "layout": "mels, frames",
            "win_length": extractor.n_fft,
            "window": "hann, periodic",
            "padding": "reflect",
            "preemphasis": 0.0,
            "log": "log10 of at least 1e-10",
            "normalisation": "max(x, maximum - 8), then (x + 4) / 4",
            "seconds": extractor.chunk_length,
            "frames": "samples / hop",
            "stored_silent_frames": WHISPER_TAIL,
        }
    return common | {
        "layout": "frames, mels",
        "win_length": extractor.win_length,
        "window": "hann, symmetric, in the middle of n_fft",
        "padding": "zeros",
        "preemphasis": extractor.preemphasis,
        "log": "natural",
        "log_zero_guard": 2.0**-24,
        "normalisation": "mean and unbiased deviation of each mel over the valid frames" if kind == "parakeet" else "none",
        "normalisation_epsilon": 1e-5 if kind == "parakeet" else 0.0,
        "frames": "samples / hop + 1, the last one zero and not valid",
        "mel_filters_in": f"parakeet{extractor.feature_size}.safetensors",
    }
