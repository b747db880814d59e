"""The acoustic model: transformers' `FastSpeech2ConformerModel`, several voices, pitch and energy of each symbol.

It has no post-net; the published module then gives twice what its output layer does. Layers are normalised before they act.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import FastSpeech2ConformerConfig, FastSpeech2ConformerModel

from .sound import MELS
from .symbols import SYMBOLS
from .training import load_modules


def build_config(voices: int, hidden: int = 192, layers: int = 4, feedforward: int = 384) -> FastSpeech2ConformerConfig:
    predictor = {f"{name}_predictor_{part}": value for name in ("duration", "pitch", "energy")
                 for part, value in (("layers", 2), ("channels", hidden), ("kernel_size", 3))}  # fmt: skip
    return FastSpeech2ConformerConfig(
        hidden_size=hidden, vocab_size=len(SYMBOLS), num_mel_bins=MELS, num_speakers=voices,
        encoder_layers=layers, decoder_layers=layers, encoder_linear_units=feedforward, decoder_linear_units=feedforward,
        positionwise_conv_kernel_size=1, encoder_kernel_size=7, decoder_kernel_size=15, speech_decoder_postnet_layers=0,
        encoder_normalize_before=True, decoder_normalize_before=True, **predictor,
        pitch_predictor_dropout=0.3, energy_predictor_dropout=0.3, duration_predictor_dropout_rate=0.2,
        stop_gradient_from_pitch_predictor=True, stop_gradient_from_energy_predictor=True,
        encoder_dropout_rate=0.1, encoder_attention_dropout_rate=0.0, encoder_positional_dropout_rate=0.0,
        decoder_dropout_rate=0.1, decoder_attention_dropout_rate=0.0, decoder_positional_dropout_rate=0.0,
    )  # fmt: skip


@dataclass(frozen=True)
class AcousticBatch:
    """`[rows, symbols]` and `[rows, frames, mels]`, zero past each row's own; `symbols` 0 and `frame_mask` tell where."""

    symbols: torch.Tensor
    voices: torch.Tensor
    durations: torch.Tensor
    pitch: torch.Tensor
    energy: torch.Tensor
    mel: torch.Tensor
    frame_mask: torch.Tensor

    def to(self, device: torch.device) -> AcousticBatch:
        if device.type == "cpu":
            return self
        return AcousticBatch(*(getattr(self, name).pin_memory().to(device, non_blocking=True) for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Predicted:
    """Mels `[rows, frames, mels]`; log durations, pitch and energy `[rows, symbols]`."""

    mel: torch.Tensor
    log_durations: torch.Tensor
    pitch: torch.Tensor
    energy: torch.Tensor


def regulate_length(hidden: torch.Tensor, durations: torch.Tensor, frames: int) -> torch.Tensor:
    """`[rows, symbols, hidden]` with each symbol repeated, zero past the end, `[rows, frames, hidden]`."""
    ends = durations.cumsum(1)
    at = torch.arange(frames, device=hidden.device)
    index = torch.searchsorted(ends, at.expand(len(hidden), frames).contiguous(), right=True)
    inside = (index < durations.shape[1]).unsqueeze(2)
    index = index.clamp(max=durations.shape[1] - 1).unsqueeze(2).expand(-1, -1, hidden.shape[2])
    return hidden.gather(1, index) * inside


def teacher_forced(model: FastSpeech2ConformerModel, batch: AcousticBatch) -> Predicted:
    """The published forward pass in training, with known durations, pitch and energy."""
    known = (batch.symbols > 0).unsqueeze(1).int()
    hidden = model.encoder(batch.symbols, known, return_dict=True).last_hidden_state
    hidden = hidden + model.speaker_id_embedding(batch.voices).unsqueeze(1)
    durations = model.duration_predictor.linear(
        run_layers(model.duration_predictor.conv_layers, hidden).transpose(1, 2)
    ).squeeze(2)
    pitch = model.pitch_predictor(hidden.detach()).squeeze(2)
    energy = model.energy_predictor(hidden.detach()).squeeze(2)
    hidden = hidden + model.pitch_embed(batch.pitch.unsqueeze(2)) + model.energy_embed(batch.energy.unsqueeze(2))
    hidden = regulate_length(hidden, batch.durations, batch.mel.shape[1])
    decoded = model.decoder(hidden.float(), batch.frame_mask.unsqueeze(1).int(), return_dict=True).last_hidden_state
    _, mel = model.speech_decoder_postnet(decoded)
    return Predicted(mel.float(), durations.float(), pitch.float(), energy.float())


def run_layers(layers, hidden: torch.Tensor) -> torch.Tensor:
    """A predictor's convolutions without its output layer: `[rows, symbols, hidden]` to `[rows, channels, symbols]`."""
    hidden = hidden.transpose(1, 2)
    for layer in layers:
        hidden = layer(hidden)
    return hidden


def losses(predicted: Predicted, batch: AcousticBatch) -> dict[str, torch.Tensor]:
    """Mel distance over frames, the rest over symbols that are heard."""
    heard = batch.durations > 0
    symbols = batch.symbols > 0
    frames = batch.frame_mask.unsqueeze(2)
    # edges in time and frequency, which a mean blurs first
    error = predicted.mel - batch.mel
    slopes = (error.diff(dim=1).abs() * frames[:, 1:]).sum() + (error.diff(dim=2).abs() * frames).sum()
    count = batch.frame_mask.sum() * batch.mel.shape[2]

    def mean_square(error: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        return torch.where(where, error, 0).square().sum() / where.sum()

    return {
        "mel": (error.abs() * frames).sum() / count,
        "slopes": slopes / count,
        "duration": mean_square(predicted.log_durations - (batch.durations + 1).float().log(), symbols),
        "pitch": mean_square(predicted.pitch - batch.pitch, heard),
        "energy": mean_square(predicted.energy - batch.energy, heard),
    }


def load(folder: Path) -> FastSpeech2ConformerModel:
    """From a run or an export."""
    config = FastSpeech2ConformerConfig.from_dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))
    model = FastSpeech2ConformerModel(config)
    model.load_state_dict(load_modules(folder))
    return model.eval()
