"""Speech synthesis: tiny checkpoints of random weights, evaluated by the published classes stage by stage.

The acoustic model is transformers' `FastSpeech2ConformerModel`, the vocoder the modules of the package `vocos`.
"""

import json
import sys
from pathlib import Path
from unittest.mock import MagicMock

import torch
from safetensors.torch import save_file
from transformers import FastSpeech2ConformerConfig, FastSpeech2ConformerModel

from speech import readable

sys.path.append(str(Path(__file__).resolve().parents[2] / "models"))

from recipes.voice.symbols import ID  # noqa: E402

# The package imports these for features and heads that are not used here.
for name in ("encodec", "torchaudio", "torchaudio.functional", "torchaudio.functional.functional"):
    sys.modules.setdefault(name, MagicMock())

from vocos.heads import ISTFTHead  # noqa: E402
from vocos.models import VocosBackbone  # noqa: E402

UTTERANCES = {"first": (75, 31, 5, 9, 9, 17, 3, 28, 40, 12, 7, 33, 72), "second": (75, 14, 73), "third": (75, *range(3, 42))}
VOICES = {"first": 1, "second": 0, "third": 2}
SLOWER = 1.6
MARGIN = 0.005  # of the durations before rounding, in frames


def make_acoustic(folder: Path) -> None:
    torch.manual_seed(30)
    config = FastSpeech2ConformerConfig(
        hidden_size=24, vocab_size=len(ID), num_mel_bins=10, num_speakers=3, encoder_layers=2, decoder_layers=2,
        encoder_num_attention_heads=2, decoder_num_attention_heads=3, encoder_linear_units=40, decoder_linear_units=32,
        positionwise_conv_kernel_size=3, encoder_kernel_size=5, decoder_kernel_size=7, speech_decoder_postnet_layers=0,
        encoder_normalize_before=True, decoder_normalize_before=True, duration_predictor_layers=2,
        duration_predictor_channels=20, duration_predictor_kernel_size=3, pitch_predictor_layers=3, pitch_predictor_channels=16,
        pitch_predictor_kernel_size=5, energy_predictor_layers=1, energy_predictor_channels=12, energy_predictor_kernel_size=3,
        pitch_embed_kernel_size=1, energy_embed_kernel_size=3,
    )  # fmt: skip
    model = FastSpeech2ConformerModel(config).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):  # not the identity
            for values, (mean, spread) in {module.running_mean: (0, 0.3), module.weight.data: (1, 0.2), module.bias.data: (0, 0.2)}.items():
                values.normal_(mean, spread)
            module.running_var.uniform_(0.5, 2)
    model.duration_predictor.linear.bias.data.fill_(1.2)
    save_file({name: value.half() if value.is_floating_point() else value for name, value in model.state_dict().items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config.to_dict(), indent=1) + "\n")
    (folder / "vocab.json").write_text(json.dumps(ID) + "\n")
    (folder / "voices.json").write_text(json.dumps({name: {} for name in ("ann", "zed", "bob")}) + "\n")
    model = FastSpeech2ConformerModel.from_pretrained(folder, dtype=torch.float32).eval()
    tensors = {}
    for name, symbols in UTTERANCES.items():
        ids, voice = torch.tensor([symbols]), torch.tensor([VOICES[name]])
        hidden = model.encoder(ids, torch.ones(1, 1, len(symbols)), return_dict=True).last_hidden_state
        hidden = hidden + model.speaker_id_embedding(voice).unsqueeze(1)
        model.duration_predictor.training = True  # it gives logarithms then; its layers drop nothing
        logs = model.duration_predictor(hidden)
        model.duration_predictor.training = False
        output = model(ids, speaker_ids=voice, return_dict=True)
        frames = logs.exp() - 1
        assert ((frames - frames.floor() - 0.5).abs() > MARGIN).all(), frames
        model.config.speaking_speed = SLOWER
        slower = model(ids, speaker_ids=voice, return_dict=True).spectrogram
        model.config.speaking_speed = 1.0
        tensors |= {
            f"{name}_symbols": ids[0], f"{name}_encoded": hidden, f"{name}_log_durations": logs[None],
            f"{name}_durations": output.duration_outputs[0], f"{name}_pitch": output.pitch_outputs,
            f"{name}_energy": output.energy_outputs, f"{name}_mels": output.spectrogram, f"{name}_slower": slower,
        }  # fmt: skip
    finish(folder, tensors, {"voices": VOICES, "slower": SLOWER})


def make_vocoder(folder: Path) -> None:
    torch.manual_seed(30)
    shape = {"channels": 24, "inner": 40, "layers": 3}
    sizes = {"n_fft": 512, "hop_length": 128, "n_mels": 10, "sample_rate": 16000, "padding": "center"}
    model = torch.nn.Module()
    model.backbone = VocosBackbone(sizes["n_mels"], shape["channels"], shape["inner"], shape["layers"])
    model.head = ISTFTHead(shape["channels"], sizes["n_fft"], sizes["hop_length"], padding="center")
    for module in model.modules():
        for name, values in module.named_parameters(recurse=False):
            values.data.add_(torch.randn_like(values) * (0.15 if values.ndim > 1 else 0.3))
    model = model.eval()
    state = {name: value.half() for name, value in model.state_dict().items()}
    model.load_state_dict(state)
    save_file({name: value.contiguous() for name, value in state.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "vocos", **shape, **sizes}, indent=1) + "\n")
    tensors = {}
    for name, frames in {"first": 30, "second": 3, "third": 21}.items():
        mels = torch.randn(1, frames, sizes["n_mels"]) * 1.5 - 2
        hidden = model.backbone(mels.transpose(1, 2))
        tensors |= {f"{name}_mels": mels, f"{name}_outputs": model.head.out(hidden), f"{name}_samples": model.head(hidden)[None]}
    finish(folder, tensors, {"hop": sizes["hop_length"]})


def finish(folder: Path, tensors: dict, facts: dict) -> None:
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text(json.dumps(facts) + "\n")
    readable(folder)
