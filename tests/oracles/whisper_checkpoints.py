"""The three Whisper checkpoints: the layout of published folders, and how the random weights are drawn."""

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

from checkpoints import coarse
from speech import RATE, recording
from whisper_tokenizer import Layout, save_tokenizer, write


@dataclass
class Checkpoint:
    name: str
    languages: int
    no_speech: str
    sizes: dict
    alignment_heads: list
    dtype: torch.dtype
    seed: int
    shards: str | None = None
    multilingual: bool = True
    mel_filters: bool = False
    """True if `preprocessor_config.json` holds the filter bank, as in the oldest folders."""
    gains: dict = field(default_factory=dict)
    """Pattern of a tensor's name -> factor on its standard deviation."""
    offsets: dict = field(default_factory=dict)
    """Group of tokens -> bias of their logits."""
    pieces: int = 0
    """Number of text pieces for a vocabulary of the published size."""

    @property
    def layout(self) -> Layout:
        return Layout(self.languages, self.no_speech, self.multilingual, self.pieces)


def generation_config(checkpoint: Checkpoint) -> dict:
    layout = checkpoint.layout
    end, begin = layout.endoftext, layout.startoftranscript
    config = {
        "alignment_heads": checkpoint.alignment_heads,
        "begin_suppress_tokens": [layout.ids["Ġ"], end],
        "bos_token_id": end, "decoder_start_token_id": begin, "eos_token_id": end, "pad_token_id": end,
        "forced_decoder_ids": [[1, None], [2, layout.transcribe]] if checkpoint.multilingual else [[1, layout.notimestamps]],
        "is_multilingual": checkpoint.multilingual,
        "max_initial_timestamp_index": 50, "max_length": 448,
        "no_timestamps_token_id": layout.notimestamps, "prev_sot_token_id": layout.startofprev,
        "return_timestamps": False, "suppress_tokens": layout.suppressed(), "transformers_version": "4.31.0.dev0",
    }  # fmt: skip
    if checkpoint.multilingual:
        config["lang_to_id"] = dict(sorted(layout.languages.items()))
        config["task_to_id"] = {"transcribe": layout.transcribe, "translate": layout.translate}
    return dict(sorted(config.items()))


def model_config(checkpoint: Checkpoint) -> dict:
    """`config.json` as published: it repeats some generation settings in an older form, which are not used."""
    layout, sizes = checkpoint.layout, checkpoint.sizes
    forced = [layout.ids["<|en|>"], layout.transcribe] if checkpoint.multilingual else []
    forced.append(layout.notimestamps)
    return {
        "activation_dropout": 0.0, "activation_function": "gelu",
        "apply_spec_augment": False, "architectures": ["WhisperForConditionalGeneration"], "attention_dropout": 0.0,
        "begin_suppress_tokens": [layout.ids["Ġ"], layout.endoftext], "bos_token_id": layout.endoftext,
        "classifier_proj_size": 256, "d_model": sizes["width"], "decoder_attention_heads": sizes["heads"],
        "decoder_ffn_dim": sizes["inner"], "decoder_layerdrop": 0.0, "decoder_layers": sizes["decoder"],
        "decoder_start_token_id": layout.startoftranscript, "dropout": 0.0, "encoder_attention_heads": sizes["heads"],
        "encoder_ffn_dim": sizes["inner"], "encoder_layerdrop": 0.0, "encoder_layers": sizes["encoder"],
        "eos_token_id": layout.endoftext, "forced_decoder_ids": [[i + 1, token] for i, token in enumerate(forced)],
        "init_std": 0.02, "is_encoder_decoder": True, "mask_feature_length": 10, "mask_feature_min_masks": 0,
        "mask_feature_prob": 0.0, "mask_time_length": 10, "mask_time_min_masks": 2, "mask_time_prob": 0.05,
        "max_length": 448, "max_source_positions": 1500, "max_target_positions": 448, "median_filter_width": 7,
        "model_type": "whisper", "num_hidden_layers": sizes["encoder"], "num_mel_bins": sizes["mels"],
        "pad_token_id": layout.endoftext, "scale_embedding": False,
        "suppress_tokens": [t for t in layout.suppressed() if t not in (layout.translate, layout.transcribe)],
        "torch_dtype": str(checkpoint.dtype).removeprefix("torch."), "transformers_version": "4.31.0.dev0",
        "use_cache": True, "use_weighted_layer_sum": False, "vocab_size": layout.size,
    }  # fmt: skip


def save(checkpoint: Checkpoint, folder: Path) -> None:
    settings = model_config(checkpoint)
    known = {key: settings[key] for key in settings if key in WhisperConfig.__dataclass_fields__}
    ids = {key: None for key in ("suppress_tokens", "begin_suppress_tokens")}
    model = WhisperForConditionalGeneration(WhisperConfig(**known | ids)).eval()
    draw_weights(model, checkpoint)
    shards = {"max_shard_size": checkpoint.shards} if checkpoint.shards else {}
    model.to(checkpoint.dtype).save_pretrained(folder, **shards)
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(generation_config(checkpoint), indent=2) + "\n")
    extractor = WhisperFeatureExtractor(feature_size=checkpoint.sizes["mels"])
    filters = {"mel_filters": extractor.mel_filters.T.tolist()} if checkpoint.mel_filters else {}
    write(folder, "preprocessor_config", {
        "chunk_length": 30, "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": checkpoint.sizes["mels"],
        "hop_length": 160, **filters, "n_fft": 400, "n_samples": 480000, "nb_max_frames": 3000, "padding_side": "right",
        "padding_value": 0.0, "processor_class": "WhisperProcessor", "return_attention_mask": False, "sampling_rate": 16000,
    })  # fmt: skip
    save_tokenizer(checkpoint.layout, folder)


def draw_weights(model: torch.nn.Module, checkpoint: Checkpoint) -> None:
    """No tensor keeps a value that would hide a mistake: no zero bias, no unit scale. The encoder's sinusoids stay."""
    generator = torch.Generator().manual_seed(checkpoint.seed)
    for key, tensor in sorted(model.state_dict().items()):
        if key == "proj_out.weight" or key == "model.encoder.embed_positions.weight":
            continue
        noise = torch.randn(tensor.shape, generator=generator)
        if "layer_norm" in key:
            value = 0.2 * noise + (1.0 if key.endswith("weight") else 0.0)
        elif key.endswith("bias"):
            value = 0.2 * noise
        elif "embed" in key:
            value = 0.4 * noise
        else:
            value = noise / tensor[0].numel() ** 0.5
        for pattern, gain in checkpoint.gains.items():
            if re.search(pattern, key):
                value = value * gain
        tensor.copy_(value)
    shape_logits(model, checkpoint, generator)


def shape_logits(model: torch.nn.Module, checkpoint: Checkpoint, generator: torch.Generator) -> None:
    """Adjusts the weights so that decoding varies. The outputs are tied to the embeddings, so without care a token
    calls itself: half the last norm's weights are negative. There is no bias: one direction of that norm's bias carries
    each token's offset. One direction of the positions comes and goes and calls the end. Timestamps lie on a curve
    along which the positions go too, so that they advance with the text."""
    layout, decoder = checkpoint.layout, model.model.decoder
    tokens, positions, norm = decoder.embed_tokens.weight, decoder.embed_positions.weight, decoder.layer_norm
    width = tokens.shape[1]
    basis = torch.linalg.qr(torch.randn(width, 8, generator=generator))[0].T
    basis = (basis * 256).round() / 256
    sign = 1.0 - 2.0 * (torch.arange(width) % 2)
    norm.weight *= sign
    offset, ending, curve = basis[0], basis[1], basis[2:]
    groups = {
        "end": [layout.endoftext], "no_speech": [layout.no_speech], "timestamps": range(layout.timestamps, layout.size),
        "language": list(layout.languages.values()), "no_timestamps": [layout.notimestamps],
    }  # fmt: skip
    tokens[layout.timestamps :] *= 0.3
    tokens -= (tokens @ offset)[:, None] * offset
    for group, ids in groups.items():
        tokens[list(ids)] += checkpoint.offsets[group] / 6.0 * offset
    tokens[layout.endoftext] += 4.0 * ending
    tokens[layout.timestamps :] += NEAR * along(torch.arange(1501) / 1500) @ curve
    place = torch.arange(len(positions))
    positions += ENDING * torch.cos(2 * math.pi * (place - 40) / 60)[:, None] * ending * sign
    positions += CURVE * along(place / 120) @ curve * sign
    spread_out(model, checkpoint, generator)
    norm.bias += 6.0 * offset


def spread_out(model: torch.nn.Module, checkpoint: Checkpoint, generator: torch.Generator) -> None:
    """Random layers turn all frames and all contexts into nearly the same vector. Centre and scale what leaves the encoder
    and the decoder, on the oracle's speech and random text. The factors are coarse, so that the last bits of another machine
    do not change them."""
    extractor = WhisperFeatureExtractor(feature_size=checkpoint.sizes["mels"])
    features = extractor([recording()], sampling_rate=RATE, return_tensors="pt")["input_features"]
    text = torch.randint(0, len(checkpoint.layout.text), (1, 100), generator=generator)
    centre(model.model.encoder.layer_norm, model.model.encoder(features).last_hidden_state[:, :130])
    centre(model.model.decoder.layer_norm, model.model(features, decoder_input_ids=text).last_hidden_state)


def centre(norm: torch.nn.Module, output: torch.Tensor) -> None:
    """Rescales the norm so that each channel of this output of it gets about unit deviation and the mean of its old bias."""
    output = output.flatten(0, -2)
    gain = 2.0 ** torch.log2(1.0 / output.std(0)).round()
    bias = norm.bias.clone()
    norm.weight *= gain
    norm.bias.copy_(bias + coarse((bias - output.mean(0)) * gain - bias))


def along(turn: torch.Tensor) -> torch.Tensor:
    """`[n, 6]`: the place on a closed curve after so many turns."""
    angles = 2 * math.pi * turn[:, None] * torch.tensor([1.0, 2.0, 3.0])
    return torch.cat([angles.cos(), angles.sin()], dim=1)


ENDING, CURVE, NEAR = 3.0, 6.0, 1.0
OFFSETS = {"end": 0.5, "no_speech": 8.0, "timestamps": -2.0, "language": -5.0, "no_timestamps": -5.0}
GAINS = {
    r"encoder.*(conv1|conv2|fc2).weight": 2.0, r"decoder.embed_positions": 2.5, r"decoder.*self_attn.(v|out)_proj.weight": 1.6,
    r"encoder_attn.[qk]_proj.weight": 2.0, r"encoder_attn.(v|out)_proj.weight": 1.8, r"decoder.*fc\d.weight": 1.8,
}  # fmt: skip
CHECKPOINTS = [
    Checkpoint(
        "multi", languages=99, no_speech="<|nocaptions|>",
        sizes=dict(width=40, heads=4, inner=80, encoder=2, decoder=2, mels=80), alignment_heads=[[0, 1], [0, 3], [1, 1]],
        dtype=torch.float32, seed=173, gains=GAINS, offsets=OFFSETS,
    ),
    Checkpoint(
        "large", languages=100, no_speech="<|nospeech|>",
        sizes=dict(width=64, heads=8, inner=128, encoder=2, decoder=3, mels=128),
        alignment_heads=[[0, 2], [0, 6], [1, 2], [1, 4], [2, 0]],
        dtype=torch.float16, seed=398, shards="700KB", gains=GAINS, offsets=OFFSETS | {"end": 3.0},
    ),
    Checkpoint(
        "english", languages=99, no_speech="<|nocaptions|>", multilingual=False, mel_filters=True,
        sizes=dict(width=48, heads=3, inner=96, encoder=3, decoder=2, mels=80), alignment_heads=[[0, 0], [1, 0], [1, 2]],
        dtype=torch.bfloat16, seed=482, gains=GAINS, offsets=OFFSETS,
    ),
]  # fmt: skip
