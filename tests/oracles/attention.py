"""Tiny checkpoints of Cohere Transcribe and Canary with random weights, and beside each the outputs of the loaded class, stage by stage."""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    CanaryConfig,
    CanaryForConditionalGeneration,
    CanaryProcessor,
    CohereAsrConfig,
    CohereAsrFeatureExtractor,
    CohereAsrForConditionalGeneration,
    CohereAsrProcessor,
    GenerationConfig,
    ParakeetFeatureExtractor,
    PreTrainedTokenizerFast,
)

from checkpoints import LETTERS, WORDS, centre, random_value
from models import dumps
from speech import RATE, padded, readable, utterances

SPECIAL = ["<unk>", "<|nospeech|>", "<pad>", "<|endoftext|>", "<|startoftranscript|>", "<|pnc|>", "<|nopnc|>",
           "<|startofcontext|>", "<|itn|>", "<|noitn|>", "<|timestamp|>", "<|notimestamp|>", "<|diarize|>",
           "<|nodiarize|>", "<|emo:undefined|>"]  # fmt: skip
END = SPECIAL.index("<|endoftext|>")
MOST_NEW = 24


@dataclass
class Checkpoint:
    name: str
    languages: tuple
    encoder: dict
    decoder: dict
    dtype: torch.dtype
    seed: int
    end_bias: float
    gains: dict = field(default_factory=dict)
    """Pattern of a tensor's name -> factor on its standard deviation."""


def tokenizer(languages: tuple) -> PreTrainedTokenizerFast:
    special = SPECIAL + [f"<|{language}|>" for language in languages]
    pieces = special + LETTERS + WORDS
    merges = []
    for word in WORDS:
        before = pieces[: pieces.index(word)]
        merges.append(next((word[:i], word[i:]) for i in range(len(word) - 1, 0, -1) if word[:i] in before and word[i:] in before))
    core = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges, unk_token="<unk>", fuse_unk=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    core.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    core.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", pad_token="<pad>", eos_token="<|endoftext|>",
        bos_token="<|startoftranscript|>", clean_up_tokenization_spaces=False,
    )  # fmt: skip


def extractor(checkpoint: Checkpoint):
    mels = checkpoint.encoder["num_mel_bins"]
    return CohereAsrFeatureExtractor(feature_size=mels) if checkpoint.name == "cohere" else ParakeetFeatureExtractor(feature_size=mels)


def save(checkpoint: Checkpoint, folder: Path) -> None:
    text = tokenizer(checkpoint.languages)
    encoder = checkpoint.encoder | {"model_type": "parakeet_encoder"}
    if checkpoint.name == "cohere":
        model = CohereAsrForConditionalGeneration(CohereAsrConfig(encoder_config=encoder, vocab_size=len(text), **checkpoint.decoder))
        start = text.convert_tokens_to_ids("▁")
        processor = CohereAsrProcessor(extractor(checkpoint), text)
    else:
        decoder = checkpoint.decoder | {"vocab_size": len(text)}
        model = CanaryForConditionalGeneration(CanaryConfig(encoder_config=encoder, decoder_config=decoder, vocab_size=len(text)))
        start = SPECIAL.index("<|startofcontext|>")
        processor = CanaryProcessor(extractor(checkpoint), text)
    model.eval()
    draw_weights(model, checkpoint)
    spread_out(model, checkpoint)
    model.generation_config = GenerationConfig(decoder_start_token_id=start, bos_token_id=4, eos_token_id=END, pad_token_id=2)
    model.to(checkpoint.dtype).save_pretrained(folder)
    processor.save_pretrained(folder)
    if checkpoint.name == "cohere":
        # As published: NeMo's names without the class's prefix, and the tables of the features.
        tensors = {key.removeprefix("model."): value for key, value in load_file(folder / "model.safetensors").items()}
        tensors["preprocessor.featurizer.window"] = torch.hann_window(400, periodic=False)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def draw_weights(module: torch.nn.Module, checkpoint: Checkpoint) -> None:
    """No tensor keeps a value that would hide a mistake: no zero bias, no unit scale, no neutral running statistic."""
    generator = torch.Generator().manual_seed(checkpoint.seed)
    for key, tensor in sorted(module.state_dict().items()):
        if key.endswith("num_batches_tracked"):
            tensor.fill_(100)
            continue
        if key == "proj_out.weight" and checkpoint.name == "canary":
            continue
        tensor.copy_(random_value(key, tensor, generator, checkpoint.gains, "emb"))
    # A token would call itself where the projection is the embeddings: half the last norm's weights are negative.
    norm = module.model.decoder.norm.weight
    norm *= 1.0 - 2.0 * (torch.arange(len(norm)) % 2)
    if checkpoint.name == "canary":
        # A slow wave of the positions calls the end, and languages change the text.
        module.model.decoder.embed_tokens.weight[len(SPECIAL) : len(SPECIAL) + len(checkpoint.languages)] *= 4.0
        module.proj_out.bias[len(SPECIAL) : len(SPECIAL) + len(checkpoint.languages)] -= 30.0
        module.model.decoder.embed_tokens.weight[END, 5] += 5.0 * norm[5].sign()
    module.proj_out.bias[END] += checkpoint.end_bias
    module.proj_out.bias[:END] -= 8.0
    module.proj_out.bias[END + 1 : len(SPECIAL) + len(checkpoint.languages)] -= 8.0


def spread_out(module: torch.nn.Module, checkpoint: Checkpoint) -> None:
    """Random layers turn speech into nearly the same vector at every frame: centre and scale what leaves the subsampling."""
    kept = {}
    encoder = module.model.encoder
    hook = encoder.subsampling.register_forward_hook(lambda _, __, out: kept.update(out=out.clone()))
    encoder(**features(checkpoint, utterances()[:1]))
    hook.remove()
    centre(encoder.subsampling.linear, kept["out"], 0.3 if checkpoint.encoder["scale_input"] else 1.0)


def features(checkpoint: Checkpoint, pieces) -> dict:
    extract = extractor(checkpoint)
    extract.dither = 0.0  # Noise of the hundred-thousandth part, which is left out.
    inputs = extract(list(pieces), sampling_rate=RATE, return_tensors="pt", return_attention_mask=True)
    return {"input_features": inputs["input_features"], "attention_mask": inputs["attention_mask"]}


@torch.no_grad()
def make_attention(checkpoint: Checkpoint, folder: Path) -> None:
    save(checkpoint, folder)
    kind = CohereAsrForConditionalGeneration if checkpoint.name == "cohere" else CanaryForConditionalGeneration
    model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    text = PreTrainedTokenizerFast.from_pretrained(folder)
    pieces = utterances()
    audio, audio_lengths = padded(pieces)
    inputs = features(checkpoint, pieces)
    tensors = {
        "audio": audio, "audio_lengths": audio_lengths, "features": inputs["input_features"],
        "feature_lengths": inputs["attention_mask"].sum(-1),
    }  # fmt: skip
    tensors |= encode(model, inputs)
    runs = []
    targets = [(language, language) for language in checkpoint.languages]
    if checkpoint.name == "canary":
        targets += [(language, "en") for language in checkpoint.languages if language != "en"]
    margins = []
    for source, target in targets:
        prompt = prompt_of(text, checkpoint, source, target)
        alone = []
        for piece in pieces:
            one = features(checkpoint, [piece])
            out = model.generate(
                **one, decoder_input_ids=torch.tensor([prompt]), max_new_tokens=MOST_NEW, do_sample=False,
                output_logits=True, return_dict_in_generate=True,
            )  # fmt: skip
            tokens = out.sequences[0].tolist()
            begin = len(tokens) - len(out.logits)
            logits = torch.cat(out.logits)
            best = logits.topk(2, dim=-1).values
            margins.append(float((best[:, 0] - best[:, 1]).min()))
            new = [token for token in tokens[begin:] if token != END]
            alone.append({"prompt": tokens[:begin], "tokens": new, "ended": tokens[-1] == END,
                          "text": text.decode(new, skip_special_tokens=True).strip()})  # fmt: skip
        runs.append({"source": source, "target": target, "utterances": alone})
    first = runs[0]["utterances"][0]
    ids = first["prompt"] + first["tokens"]
    out = model(**features(checkpoint, pieces[:1]), decoder_input_ids=torch.tensor([ids]), output_attentions=True)
    begin = len(first["prompt"]) - 1
    tensors["logits"] = out.logits[0, begin:]
    upper = out.cross_attentions[len(out.cross_attentions) // 2 :]
    tensors["attention"] = torch.cat([layer[0] for layer in upper])[:, begin:].transpose(0, 1)
    values = {
        "class": type(model).__name__, "stored_as": str(checkpoint.dtype).removeprefix("torch."),
        "transformers": __import__("transformers").__version__, "runs": runs, "smallest_margin": round(min(margins), 4),
    }  # fmt: skip
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text(dumps(values) + "\n")
    readable(folder)


def encode(model, inputs: dict) -> dict:
    seen, encoder = {}, model.model.encoder
    hooks = [
        encoder.subsampling.register_forward_hook(lambda _, __, out: seen.update(subsampling=out.clone())),
        encoder.layers[0].register_forward_hook(lambda _, __, out: seen.update(layer0=out.clone())),
    ]
    outputs = encoder(**inputs)
    for hook in hooks:
        hook.remove()
    lengths = outputs.attention_mask.sum(-1).long()
    mask = torch.arange(outputs.last_hidden_state.shape[1])[None] < lengths[:, None]
    valid = lambda frames: frames.masked_fill(~mask[..., None], 0.0)  # noqa: E731
    return {"subsampling": valid(seen["subsampling"]), "layer0": valid(seen["layer0"]),
            "encoder": valid(outputs.last_hidden_state), "encoder_lengths": lengths}  # fmt: skip


def prompt_of(text, checkpoint: Checkpoint, source: str, target: str) -> list[int]:
    if checkpoint.name == "cohere":
        return CohereAsrProcessor(extractor(checkpoint), text).get_decoder_prompt_ids(source)
    tokens = ["<|startofcontext|>", "<|startoftranscript|>", "<|emo:undefined|>", f"<|{source}|>", f"<|{target}|>",
              "<|pnc|>", "<|noitn|>", "<|notimestamp|>", "<|nodiarize|>"]  # fmt: skip
    return text.convert_tokens_to_ids(tokens)


CHECKPOINTS = [
    Checkpoint(
        "cohere", ("en", "de", "ja"),
        encoder=dict(hidden_size=40, num_hidden_layers=2, num_attention_heads=4, intermediate_size=80, num_mel_bins=128,
                     subsampling_conv_channels=8, scale_input=False, attention_bias=True, convolution_bias=True),
        decoder=dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64,
                     max_position_embeddings=96),
        dtype=torch.bfloat16, seed=23, end_bias=3.0,
        gains={r"subsampling.*weight": 1.6, r"encoder_attn.*(q_proj|k_proj).weight": 2.0, r"encoder_attn.*v_proj.weight": 4.0,
               r"embed_tokens": 0.5, r"proj_out.weight": 3.0},
    ),
    Checkpoint(
        "canary", ("en", "fr"),
        encoder=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, num_mel_bins=128,
                     subsampling_conv_channels=8, scale_input=False, attention_bias=True, convolution_bias=True),
        decoder=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=16,
                     intermediate_size=64, max_position_embeddings=64),
        dtype=torch.float32, seed=46, end_bias=-24.0,
        gains={r"subsampling.*weight": 1.6, r"encoder_attn.*(q_proj|k_proj).weight": 2.0, r"encoder_attn.*v_proj.weight": 4.0,
               r"embed_tokens": 0.2, r"decoder.norm": 8.0},
    ),
]  # fmt: skip
