"""Tiny checkpoints of Qwen3-ASR and its aligner with random weights, and what the loaded classes make of clips, stage by stage."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen3ASRConfig,
    Qwen3ASRFeatureExtractor,
    Qwen3ASRForConditionalGeneration,
    Qwen3ASRForTokenClassification,
    Qwen3ASRProcessor,
)

from checkpoints import centre
from decoder import TEXT
from decoder import tokenizer as byte_level
from models import dumps
from speech import RATE, readable, utterances

AUDIO = ["<|audio_start|>", "<|audio_end|>", "<|audio_pad|>"]
MARK, TIME = "<asr_text>", "<timestamp>"
NAMES = ["English", "German", "Finnish"]
MOST_NEW = 20
END = 4.5
CONTEXT = "Auricle, the naïve 1,234 euros"
ALIGNED = ["The", "meeting", "began", "naïve", "at", "日", "本"]


@dataclass
class Checkpoint:
    name: str
    dtype: torch.dtype
    seed: int
    infer_window: int
    """Mel frames that see each other in the encoder."""
    tied: bool = True


CHECKPOINTS = [
    Checkpoint("spoken", torch.float32, 36, 200, tied=False),
    Checkpoint("tied", torch.bfloat16, 25, 800),
    Checkpoint("aligner", torch.float32, 18, 800),
]


def tokenizer() -> PreTrainedTokenizerFast:
    made = byte_level("qwen2", TEXT + "".join(f"language {name}\n" for name in NAMES) * 20, 420)
    made.add_special_tokens([AddedToken(mark, special=True) for mark in AUDIO])
    made.add_tokens([AddedToken(mark, normalized=False) for mark in (MARK, TIME)])
    marks = {"audio_bos_token": AUDIO[0], "audio_eos_token": AUDIO[1], "audio_token": AUDIO[2]}
    return PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>", extra_special_tokens=marks
    )


def config(checkpoint: Checkpoint, text: PreTrainedTokenizerFast) -> Qwen3ASRConfig:
    audio = {
        "model_type": "qwen3_asr_encoder", "num_mel_bins": 128, "encoder_layers": 2, "encoder_attention_heads": 2,
        "encoder_ffn_dim": 80, "d_model": 48, "downsample_hidden_size": 8, "output_dim": 64,
        "n_window_infer": checkpoint.infer_window,
    }  # fmt: skip
    language = {
        "model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1,
        "head_dim": 24, "intermediate_size": 96, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
        "vocab_size": len(text) + 5, "tie_word_embeddings": checkpoint.tied,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0},
    }  # fmt: skip
    number = text.convert_tokens_to_ids
    return Qwen3ASRConfig(
        audio_config=audio, text_config=language, audio_token_id=number(AUDIO[2]), timestamp_token_id=number(TIME),
        pad_token_id=number("<|endoftext|>"), eos_token_id=[number("<|endoftext|>"), number("<|im_end|>")],
        tie_word_embeddings=checkpoint.tied,
    )  # fmt: skip


def draw_weights(model: torch.nn.Module, seed: int) -> None:
    """No norm or bias is the identity, and texts are lively."""
    generator = torch.Generator().manual_seed(seed)
    for name, value in sorted(model.named_parameters()):
        noise = torch.randn(value.shape, generator=generator)
        if name.endswith("bias"):
            value.data = 0.2 * noise
        elif "norm" in name or "ln_post" in name:
            value.data = 1 + 0.3 * noise
        elif "embed_tokens" in name:
            value.data = noise
        else:
            value.data = noise * 1.5 / value[0].numel() ** 0.5


def speak(model: torch.nn.Module, text: PreTrainedTokenizerFast) -> None:
    """After the prompt come `language`, a language by the audio, and the mark; then lively text that ends at times. The last values of
    a token are a code that no layer changes, and that the output projection, not tied, reads."""
    codes = 4
    embeddings, head = model.model.language_model.embed_tokens.weight, model.lm_head.weight
    first = embeddings.shape[1] - codes
    for layer in model.model.language_model.layers:
        layer.self_attn.o_proj.weight[first:] = 0.0
        layer.mlp.down_proj.weight[first:] = 0.0
    model.model.language_model.norm.weight[first:] = 1.0
    embeddings[:, first:], head[:, first:] = 0.0, 0.0
    # So that no token is fixed by the one before it.
    head[:, :first] *= 2.0
    one = lambda part: text.encode(part, add_special_tokens=False)  # noqa: E731
    [newline] = one("\n")
    [language] = one("language")
    names = [token for name in NAMES for token in one(f" {name}")]
    assert len(names) == len(NAMES)
    mark = text.convert_tokens_to_ids(MARK)
    for code, before, after in ((0, [newline], [language]), (1, [language], names), (2, names, [mark])):
        embeddings[before, first + code] = 24.0
        head[after, first + code] = 24.0
    # A part that all other tokens have in common keeps marks out of the text.
    others = [token for token in range(len(text)) if token not in (newline, language, *names)]
    embeddings[others, first + 3] = 4.0
    quiet = [newline, language, *names, mark, *text.all_special_ids, text.convert_tokens_to_ids(TIME), *range(len(text), len(head))]
    head[quiet, first + 3] = -12.0
    head[text.eos_token_id, first + 3] = END


def features(extract: Qwen3ASRFeatureExtractor, clip: np.ndarray) -> dict:
    made = extract([clip], sampling_rate=RATE, padding=True, return_attention_mask=True, return_tensors="pt")
    return {"input_features": made["input_features"], "input_features_mask": made["attention_mask"]}


def spread_out(model: torch.nn.Module, extract: Qwen3ASRFeatureExtractor) -> None:
    """Random layers turn speech into nearly the same vector at every frame: centre and scale what the decoder gets."""
    audio = model.model.get_audio_features(**features(extract, clips()[0]))
    centre(model.model.multi_modal_projector.linear_2, audio.pooler_output[None], 1.5)


def clips() -> list[np.ndarray]:
    """Two of several chunks, one of more than a window, and one below the shortest length."""
    long, other = utterances()
    return [long, other, np.concatenate([long, other, long, other]), long[:4321]]


def stages(model: torch.nn.Module, inputs: dict) -> dict:
    seen, tower = {}, model.model.audio_tower
    hooks = [
        tower.layers[0].register_forward_pre_hook(lambda _, given: seen.update(embedded=given[0].clone())),
        tower.layers[0].register_forward_hook(lambda _, __, out: seen.update(layer0=out[0].clone())),
        tower.register_forward_hook(lambda _, __, out: seen.update(encoder=out.last_hidden_state.clone())),
    ]
    seen["projected"] = model.model.get_audio_features(**inputs).pooler_output.clone()
    for hook in hooks:
        hook.remove()
    return {"features": inputs["input_features"][0].T[: int(inputs["input_features_mask"].sum())]} | seen


def save(checkpoint: Checkpoint, folder: Path) -> Qwen3ASRProcessor:
    text, extract = tokenizer(), Qwen3ASRFeatureExtractor()
    processor = Qwen3ASRProcessor(extract, text)
    settings = config(checkpoint, text)
    if checkpoint.name == "aligner":
        settings.num_labels = 64
        model = Qwen3ASRForTokenClassification(settings).eval()
    else:
        model = Qwen3ASRForConditionalGeneration(settings).eval()
    draw_weights(model, checkpoint.seed)
    if checkpoint.name == "aligner":
        model.score.weight.data *= 3.0
    spread_out(model, extract)
    if checkpoint.name == "spoken":
        speak(model, text)
    if checkpoint.name != "aligner":
        model.tie_weights()
        model.generation_config = GenerationConfig(eos_token_id=settings.eos_token_id, pad_token_id=settings.pad_token_id)
    model.to(checkpoint.dtype).save_pretrained(folder)
    processor.save_pretrained(folder)
    return processor


def prompt(context: str | None, language: str | None) -> str:
    system = f"<|im_start|>system\n{context or ''}<|im_end|>\n"
    user = f"<|im_start|>user\n{AUDIO[0]}{AUDIO[2]}{AUDIO[1]}<|im_end|>\n"
    return system + user + "<|im_start|>assistant\n" + (f"language {language}{MARK}" if language else "")


@torch.no_grad()
def make_qwen3_asr(checkpoint: Checkpoint, folder: Path) -> None:
    processor = save(checkpoint, folder)
    kind = Qwen3ASRForTokenClassification if checkpoint.name == "aligner" else Qwen3ASRForConditionalGeneration
    model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    # A table of the class, which its type on disk has rounded.
    table = model.model.audio_tower.positional_embedding
    table.positional_embedding.copy_(table.compute_default_singular_positional_embedding())
    make = make_alignments if checkpoint.name == "aligner" else make_texts
    tensors, facts = make(model, processor)
    facts = {"class": kind.__name__, "stored_as": str(checkpoint.dtype).removeprefix("torch."),
             "transformers": __import__("transformers").__version__} | facts  # fmt: skip
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text(dumps(facts) + "\n")
    readable(folder)


def make_texts(model, processor) -> tuple[dict, dict]:
    tensors, runs, margins = {}, [], []
    for number, clip in enumerate(clips()):
        inputs = features(processor.feature_extractor, clip)
        tensors |= {f"{number}_{name}": value for name, value in stages(model, inputs).items() if number in (0, 3) or name == "projected"}
        tensors[f"{number}_audio"] = torch.from_numpy(clip)
        for context, language in ((None, None), (None, "German"), (CONTEXT, None)):
            given = processor(text=[prompt(context, language)], audio=[clip], return_tensors="pt", sampling_rate=RATE)
            given = {key: given[key] for key in ("input_ids", "attention_mask", "input_features", "input_features_mask")}
            out = model.generate(
                **given, max_new_tokens=MOST_NEW, do_sample=False, output_logits=True, return_dict_in_generate=True
            )
            begin = given["input_ids"].shape[1]
            tokens = out.sequences[0, begin:].tolist()
            logits = torch.cat(out.logits)
            best = logits.topk(2, dim=-1).values
            margins.append(float((best[:, 0] - best[:, 1]).min()))
            if number == 0 and context is None and language is None:
                tensors["logits"] = logits
            ends = model.config.eos_token_id
            new = [token for token in tokens if token not in ends]
            parsed = processor.decode(new, return_format="parsed")
            runs.append({"clip": number, "context": context, "language": language, "prompt": given["input_ids"][0].tolist(),
                         "tokens": new, "ended": tokens[-1] in ends, "found": parsed["language"],
                         "text": parsed["transcription"]})  # fmt: skip
    return tensors, {"runs": runs, "smallest_margin": round(min(margins), 4)}


def make_alignments(model, processor) -> tuple[dict, dict]:
    tensors, runs, margins = {}, [], []
    time = model.config.timestamp_token_id
    for number, clip in enumerate(clips()[:2]):
        words = ALIGNED[: len(ALIGNED) - number]
        body = "".join(word + TIME + TIME for word in words)
        given = processor(text=[AUDIO[0] + AUDIO[2] + AUDIO[1] + body], audio=[clip], return_tensors="pt", sampling_rate=RATE)
        given = {key: given[key] for key in ("input_ids", "attention_mask", "input_features", "input_features_mask")}
        logits = model(**given).logits
        at_times = logits[0][given["input_ids"][0] == time]
        best = at_times.topk(2, dim=-1).values
        margins.append(float((best[:, 0] - best[:, 1]).min()))
        found = processor.decode_forced_alignment(logits, given["input_ids"], [words], time)[0]
        tensors[f"{number}_audio"] = torch.from_numpy(clip)
        tensors[f"{number}_logits"] = at_times
        runs.append({"clip": number, "words": words, "prompt": given["input_ids"][0].tolist(),
                     "classes": at_times.argmax(-1).tolist(),
                     "starts_ms": [round(word["start_time"] * 1000) for word in found],
                     "ends_ms": [round(word["end_time"] * 1000) for word in found]})  # fmt: skip
    return tensors, {"runs": runs, "smallest_margin": round(min(margins), 4)}
