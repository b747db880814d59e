"""The five checkpoints: classes, configuration, tokenizer, and how the random weights are drawn."""

import re
from dataclasses import dataclass, field

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import (
    Nemotron3_5AsrConfig,
    Nemotron3_5AsrForRNNT,
    Nemotron3_5AsrProcessor,
    NemotronAsrStreamingConfig,
    NemotronAsrStreamingFeatureExtractor,
    NemotronAsrStreamingForRNNT,
    NemotronAsrStreamingProcessor,
    ParakeetCTCConfig,
    ParakeetFeatureExtractor,
    ParakeetForCTC,
    ParakeetForRNNT,
    ParakeetForTDT,
    ParakeetProcessor,
    ParakeetRNNTConfig,
    ParakeetTDTConfig,
    ParakeetTokenizer,
)

from speech import RATE, utterances

LETTERS = "▁ e t a o i n s h r d l u c m f w g y p b v k A I W T , . ? ' -".split()
WORDS = "▁t he ▁a in ▁the re on ▁s er at ou nd is or ▁and".split()
TAGS = ["<en-US>", "<de-DE>", "<fr-FR>", "<es-ES>"]


@dataclass
class Checkpoint:
    name: str
    model: type
    config: type
    encoder: dict
    head: dict
    dtype: torch.dtype
    seed: int
    blank_bias: float
    """Added to the blank's logit, so that greedy decoding mixes blanks and tokens."""
    shards: str | None = None
    look_aheads: tuple = ()
    languages: tuple = ()
    gains: dict = field(default_factory=dict)
    """Pattern of a tensor's name -> factor on its standard deviation."""

    @property
    def streams(self) -> bool:
        return self.name in ("streaming", "prompt")


def tokenizer(name: str) -> ParakeetTokenizer:
    """A byte-pair tokenizer in the form that the conversion from SentencePiece gives, special tokens where the published
    folders have them: CTC ends in `<pad>`, RNN-T in `<blank>` which is also its pad, TDT has `<pad>` inside and `<blank>` at
    the end, and the Nemotron ones have `<pad>` at the model's blank id and `<blank>` one past the vocabulary."""
    pieces = ["<unk>"] + (["<eos>", "<pad>"] if name == "tdt" else []) + (TAGS if name == "prompt" else []) + LETTERS + WORDS
    merges = []
    for word in WORDS:
        pieces_before = pieces[: pieces.index(word)]
        merges.append(next((word[:i], word[i:]) for i in range(len(word) - 1, 0, -1)
                           if word[:i] in pieces_before and word[i:] in pieces_before))
    core = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges, unk_token="<unk>", fuse_unk=True))
    core.normalizer = normalizers.Sequence([normalizers.Strip(left=False, right=True),
                                            normalizers.Replace(Regex(" {2,}"), "▁")])
    core.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    core.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    special = lambda token: AddedToken(token, normalized=False, special=True)
    result = ParakeetTokenizer(tokenizer_object=core, clean_up_tokenization_spaces=False)
    if name != "rnnt":
        result.add_tokens([special("<pad>")])
    if name != "ctc":
        result.add_tokens([special("<blank>")])
    result.add_special_tokens({"pad_token": special("<blank>" if name == "rnnt" else "<pad>"), "unk_token": special("<unk>")})
    if name == "prompt":
        result.add_special_tokens({"additional_special_tokens": [special(tag) for tag in TAGS]})
    return result


def vocabulary(name: str) -> int:
    """Outputs of the token head, the blank among them and last."""
    size = len(tokenizer(name))
    return size - 1 if name in ("streaming", "prompt") else size


def processor(checkpoint: Checkpoint):
    text = tokenizer(checkpoint.name)
    mels = checkpoint.encoder["num_mel_bins"]
    if not checkpoint.streams:
        return ParakeetProcessor(ParakeetFeatureExtractor(feature_size=mels), text, decoder_type=checkpoint.name)
    kind = Nemotron3_5AsrProcessor if checkpoint.name == "prompt" else NemotronAsrStreamingProcessor
    default = checkpoint.encoder["default_num_lookahead_tokens"]
    return kind(NemotronAsrStreamingFeatureExtractor(feature_size=mels), text,
                supported_num_lookahead_tokens=[13, 6, 3, 1, 0], default_num_lookahead_tokens=default)


def model(checkpoint: Checkpoint):
    """The model with random weights, rounded to the type that it is stored in."""
    size = vocabulary(checkpoint.name)
    ids = {"vocab_size": size}
    if checkpoint.name == "ctc":
        ids["pad_token_id"] = size - 1
    else:
        ids |= {"blank_token_id": size - 1, "pad_token_id": 2 if checkpoint.name == "tdt" else 0}
    result = checkpoint.model(checkpoint.config(encoder_config=checkpoint.encoder, **ids, **checkpoint.head)).eval()
    draw_weights(result, checkpoint, size - 1)
    spread_out(result, checkpoint)
    if checkpoint.name != "ctc":
        result.generation_config.decoder_start_token_id = size - 1
    if checkpoint.name == "tdt":
        result.generation_config.suppress_tokens = list(range(size, size + len(result.config.durations)))
    return result.to(checkpoint.dtype)


def random_value(
    key: str, tensor: torch.Tensor, generator: torch.Generator, gains: dict[str, float], embedding: str = "embedding"
) -> torch.Tensor:
    """A value for the tensor of this name; `embedding` is a part of the names of embeddings."""
    noise = torch.randn(tensor.shape, generator=generator)
    if key.endswith("running_var"):
        value = torch.exp(0.4 * noise)
    elif key.endswith("running_mean"):
        value = 0.3 * noise
    elif "norm" in key:
        value = 0.2 * noise + (1.0 if key.endswith("weight") else 0.0)
    elif key.endswith(("bias_u", "bias_v")):
        value = 0.5 * noise
    elif "bias" in key:
        value = 0.2 * noise
    elif embedding in key:
        value = noise
    else:
        value = noise / tensor[0].numel() ** 0.5
    for pattern, gain in gains.items():
        if re.search(pattern, key):
            value = value * gain
    return value


def draw_weights(module: torch.nn.Module, checkpoint: Checkpoint, blank: int) -> None:
    """No tensor keeps a value that would hide a mistake: no zero bias, no unit scale, no neutral running statistic."""
    generator = torch.Generator().manual_seed(checkpoint.seed)
    for key, tensor in sorted(module.state_dict().items()):
        if key.endswith("num_batches_tracked"):
            tensor.fill_(100)
            continue
        value = random_value(key, tensor, generator, checkpoint.gains)
        if key in ("joint.head.bias", "ctc_head.bias"):
            value[blank] += checkpoint.blank_bias
        tensor.copy_(value)


def spread_out(module: torch.nn.Module, checkpoint: Checkpoint) -> None:
    """Random layers turn speech into nearly the same vector at every frame, and then one token wins throughout. Centre and
    scale what leaves the subsampling and what enters the joint or the CTC head on the oracle's speech. The factors are
    coarse, so that the last bits of another machine do not change them."""
    head = module.ctc_head if checkpoint.name == "ctc" else module.joint.head
    head.weight -= coarse(head.weight.mean(dim=1, keepdim=True))
    inputs = dict(processor(checkpoint)(utterances()[:1], sampling_rate=RATE))
    inputs["input_features"] = inputs["input_features"][:, :-1]
    inputs["attention_mask"] = inputs["attention_mask"][:, :-1]
    kept = {}
    hook = module.encoder.subsampling.register_forward_hook(lambda _, __, out: kept.update(out=out.clone()))
    module.encoder(**{k: v for k, v in inputs.items() if k != "prompt_ids"})
    centre(module.encoder.subsampling.linear, kept["out"], 0.3 if checkpoint.encoder["scale_input"] else 1.0)
    hook.remove()
    if checkpoint.name == "ctc":
        centre(module.ctc_head, module(**inputs).logits, 2.0, keep_bias=True)
    else:
        centre(module.encoder_projector, module.get_audio_features(**inputs).pooler_output, 1.5)
        tokens = torch.arange(module.config.vocab_size)[:, None]
        centre(module.decoder.decoder_projector, module.decoder(tokens), 1.0)


def centre(layer: torch.nn.Module, output: torch.Tensor, spread: float, keep_bias: bool = False) -> None:
    """Rescales the layer so that this output of it gets about this deviation, and about the mean of its old bias."""
    output = output.flatten(0, -2)
    bias = layer.bias.clone()
    gain = 2.0 ** torch.log2(spread / output.std(0).mean()).round()
    layer.weight *= gain
    layer.bias.copy_(coarse(-(output.mean(0) - bias) * gain) + (bias if keep_bias else 0.5 * bias))


def coarse(value: torch.Tensor) -> torch.Tensor:
    return (value * 16).round() / 16


CHECKPOINTS = [
    Checkpoint(
        "streaming", NemotronAsrStreamingForRNNT, NemotronAsrStreamingConfig,
        encoder=dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64, num_mel_bins=128,
                     subsampling_conv_channels=8, scale_input=True, attention_bias=True, convolution_bias=False,
                     sliding_window=11, default_num_lookahead_tokens=3),
        head=dict(decoder_hidden_size=32, num_decoder_layers=2, max_symbols_per_step=5),
        dtype=torch.float16, seed=45, blank_bias=6.0, look_aheads=(0, 1, 3, 13),
        gains={r"subsampling.*weight": 1.6, r"lstm": 2.0, r"joint.head.weight": 4.0},
    ),
    Checkpoint(
        "tdt", ParakeetForTDT, ParakeetTDTConfig,
        encoder=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=80, num_mel_bins=128,
                     subsampling_conv_channels=8, scale_input=False, attention_bias=False, convolution_bias=False),
        head=dict(decoder_hidden_size=40, num_decoder_layers=1, max_symbols_per_step=10),
        dtype=torch.float32, seed=42, blank_bias=5.0,
        gains={r"subsampling.*weight": 1.6, r"lstm": 2.0, r"joint.head.weight": 4.0},
    ),
    Checkpoint(
        "ctc", ParakeetForCTC, ParakeetCTCConfig,
        encoder=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, num_mel_bins=80,
                     subsampling_conv_channels=8, scale_input=True, attention_bias=True, convolution_bias=True),
        head=dict(), dtype=torch.float32, seed=56, blank_bias=4.0, shards="120KB",
        gains={r"subsampling.*weight": 1.6, r"ctc_head.weight": 4.0},
    ),
    Checkpoint(
        "rnnt", ParakeetForRNNT, ParakeetRNNTConfig,
        encoder=dict(hidden_size=48, num_hidden_layers=3, num_attention_heads=3, intermediate_size=96, num_mel_bins=80,
                     subsampling_conv_channels=12, scale_input=False, attention_bias=False, convolution_bias=True),
        head=dict(decoder_hidden_size=48, num_decoder_layers=2, max_symbols_per_step=3),
        dtype=torch.bfloat16, seed=23, blank_bias=7.0,
        gains={r"subsampling.*weight": 1.6, r"lstm": 2.0, r"joint.head.weight": 4.0},
    ),
    Checkpoint(
        "prompt", Nemotron3_5AsrForRNNT, Nemotron3_5AsrConfig,
        encoder=dict(model_type="nemotron_asr_streaming_encoder", hidden_size=40, num_hidden_layers=2,
                     num_attention_heads=4, intermediate_size=72, num_mel_bins=80, conv_kernel_size=5,
                     subsampling_conv_channels=8, scale_input=False, attention_bias=False, convolution_bias=True,
                     sliding_window=17, default_num_lookahead_tokens=13),
        head=dict(decoder_hidden_size=32, num_decoder_layers=1, max_symbols_per_step=10, prompt_intermediate_size=56),
        dtype=torch.float32, seed=9, blank_bias=7.0, look_aheads=(0, 1, 3, 13), languages=("auto", "en-US"),
        gains={r"subsampling.*weight": 1.6, r"lstm": 2.0, r"joint.head.weight": 4.0, r"prompt_projector.linear_1.weight": 3.0},
    ),
]
