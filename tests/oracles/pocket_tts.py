"""Pocket TTS and Phonon: tiny checkpoints of random weights, evaluated by the published classes stage by stage, without noise.

`pocket` is a whole folder: the network, its audio tokenizer and two voices. `phonon` and `drifting` are networks alone.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import (
    GradiumPhononTTSConfig,
    GradiumPhononTTSForConditionalGeneration,
    PocketTTSAudioTokenizerConfig,
    PocketTTSAudioTokenizerModel,
    PocketTTSConfig,
    PocketTTSFeatureExtractor,
    PocketTTSForConditionalGeneration,
)

LATENT = 6
FLOW = {"hidden_size": 20, "num_hidden_layers": 2, "latent_dim": LATENT, "condition_dim": 32, "frequency_embedding_size": 16}
SHAPE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "latent_dim": LATENT,
    "max_position_embeddings": 512, "pad_token_id": 3,
}  # fmt: skip
MODELS = ("pocket", "phonon", "drifting")
PIECES = ["<unk>", "<s>", "</s>", "<pad>"]
TEXT = "She reads well, and so do I."
VOICES = {"ann": 5, "bob": 37}  # frames of each
MOST, AFTER = 24, 2  # frames of an utterance, and of those after its end
EARLIEST = 3  # the first frame that may end it
MARGIN = 0.02  # of the end's logit to the threshold


def make_tokenizer(folder: Path, specials: list[str]) -> Tokenizer:
    """A SentencePiece model of one-letter pieces and a few longer ones, as the published folders hold theirs."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    letters += [letter.upper() for letter in letters] + list("0123456789.,;:!?'-")
    words = ["▁", "▁the", "▁and", "▁so", "he", "ea", "ds", "▁w", "ell", "ll"]
    vocabulary = [(piece, 0.0) for piece in PIECES] + [(piece, -4.0) for piece in words] + [(piece, -8.0) for piece in letters]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always", split=False)
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always", split=False)
    tokenizer.add_special_tokens(specials)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def spread(model: torch.nn.Module) -> None:
    """Random weights of such size that every part of the network matters, rounded to f16."""
    for name, values in model.named_parameters():
        if values.ndim > 1:
            values.data.normal_(0, (0.9 if "conv" in name else 1.1) / max(values[0].numel(), 1) ** 0.5)
        else:
            values.data.normal_(1 if name.endswith("norm.weight") or name.endswith("scale") else 0, 0.3)
    model.load_state_dict({name: value.half() if value.is_floating_point() else value for name, value in model.state_dict().items()})


def make_codec(folder: Path) -> PocketTTSAudioTokenizerModel:
    torch.manual_seed(7)
    config = PocketTTSAudioTokenizerConfig(
        hidden_size=16, num_filters=2, num_hidden_layers=2, intermediate_size=24, num_attention_heads=2,
        num_key_value_heads=2, head_dim=8, upsample_groups=16, latent_dim=LATENT, sliding_window=21,
    )  # fmt: skip
    model = PocketTTSAudioTokenizerModel(config).eval()
    spread(model)
    model.half().save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    return PocketTTSAudioTokenizerModel.from_pretrained(folder, dtype=torch.float32).eval()


def codec_numbers(codec: PocketTTSAudioTokenizerModel, latents: torch.Tensor) -> dict:
    seen = {}
    decoder = codec.decoder
    hooks = [
        decoder.upsample.register_forward_hook(lambda _, __, out: seen.update(upsampled=out.transpose(1, 2))),
        decoder.decoder_transformer.register_forward_hook(lambda _, __, out: seen.update(transformed=out.last_hidden_state)),
    ]
    samples = codec.decode(latents).audio_values
    for hook in hooks:
        hook.remove()
    assert samples.shape[-1] == latents.shape[1] * codec.config.frame_size
    return {"codec_latents": latents, "codec_upsampled": seen["upsampled"], "codec_transformed": seen["transformed"], "codec_samples": samples}


def clip_numbers(codec: PocketTTSAudioTokenizerModel) -> dict:
    """A clip that ends in silence, what the feature extractor makes of it, and its latents. Its end fills no latent."""
    rate = codec.config.sampling_rate
    at = torch.arange(int(0.7 * rate)) / rate
    clip = (0.3 * torch.sin(2 * torch.pi * 180 * at) + 0.1 * torch.randn(len(at))) * (at < 0.57).float() + 1e-4 * torch.randn(len(at))
    clip = clip.half().float()
    prompt = PocketTTSFeatureExtractor()(clip, sampling_rate=rate)["input_values"]
    seen = {}
    encoder = codec.encoder
    hooks = [
        encoder.encoder_seanet.register_forward_hook(lambda _, __, out: seen.update(convolved=out.transpose(1, 2))),
        encoder.encoder_transformer.register_forward_hook(lambda _, __, out: seen.update(transformed=out.last_hidden_state)),
    ]
    latents = codec.encode(prompt).latents
    for hook in hooks:
        hook.remove()
    return {
        "clip": clip, "clip_prompt": prompt[0, 0], "clip_convolved": seen["convolved"], "clip_transformed": seen["transformed"],
        "clip_latents": latents,
    }  # fmt: skip


def make_pocket(name: str, folder: Path) -> None:
    torch.manual_seed({"pocket": 4, "phonon": 4, "drifting": 3}[name])
    specials = ["<|audio_bos|>", "<|audio_prompt|>", "<|audio_latent|>"] + ([] if name == "phonon" else ["<|audio_prompt_bos|>"])
    tokenizer = make_tokenizer(folder, specials)
    ids = {token: tokenizer.token_to_id(token) for token in specials}
    tokens = {
        "vocab_size": tokenizer.get_vocab_size(), "audio_bos_token_id": ids["<|audio_bos|>"],
        "audio_prompt_token_id": ids["<|audio_prompt|>"], "audio_latent_token_id": ids["<|audio_latent|>"],
    }  # fmt: skip
    if name == "phonon":
        shape = {**SHAPE, "hidden_act": "gelu", "audio_prompt_dim": 10, "num_speakers": 2, "duration_delta": 0.3}
        shape |= {"num_speakers_vocab_size": 4, "num_speakers_embedding_dim": 5, "duration_delta_embedding_dim": 8}
        model = GradiumPhononTTSForConditionalGeneration(GradiumPhononTTSConfig(**shape, **tokens, flow_head_config=FLOW))
        width = 10
    else:
        flow = {**FLOW, "flow_type": "drifting"} if name == "drifting" else FLOW
        tokens["audio_prompt_bos_token_id"] = ids["<|audio_prompt_bos|>"]
        model = PocketTTSForConditionalGeneration(PocketTTSConfig(**SHAPE, **tokens, flow_head_config=flow))
        width = LATENT
    model = model.eval()
    spread(model)
    model.latent_mean.normal_(0, 0.5)
    model.latent_std.uniform_(0.5, 1.5)
    model.half().save_pretrained(folder)
    if name == "phonon":  # what the published folder has beside the network
        weights = load_file(folder / "model.safetensors")
        unused = ["mimi.decoder.weight", "flow_lm.flow.w_s_t.0.weight", "flow_lm.condition_provider.conditioners.speaker_wavs.learnt_padding"]
        save_file({**weights, **{name: torch.ones(3) for name in unused}}, folder / "model.safetensors", {"format": "pt"})
    model = type(model).from_pretrained(folder, dtype=torch.float32).eval()
    text = tokenizer.encode(TEXT, add_special_tokens=False).ids
    tensors, facts = {}, {"text": TEXT, "tokens": text, "after": AFTER}
    if name == "pocket":
        (folder / "voices").mkdir()
    threshold = None
    for voice, frames in VOICES.items():
        latents = (torch.randn(1, frames, width) * 0.8).half().float()
        if name == "pocket":
            save_file({"audio_prompt_latents": latents}, folder / "voices" / f"{voice}.safetensors")
        before = [] if name == "phonon" else [tokens["audio_prompt_bos_token_id"]]
        prompt = torch.tensor([[*before, *[tokens["audio_prompt_token_id"]] * frames, *text, tokens["audio_bos_token_id"]]])
        mask = torch.ones_like(prompt)
        hidden = model(input_ids=prompt, attention_mask=mask, audio_prompt_latents=latents).last_hidden_state
        options = {
            "input_ids": prompt, "attention_mask": mask, "audio_prompt_latents": latents, "do_sample": False, "frames_after_eos": AFTER,
            "max_new_tokens": MOST, "return_dict_in_generate": True, "output_scores": True, "min_frames_before_eos": EARLIEST,
        }  # fmt: skip
        free = torch.cat(model.generate(**options, eos_threshold=1e9).scores)
        if threshold is None:
            threshold = next(
                float((free[at] + free[EARLIEST:at].max()) / 2) for at in range(EARLIEST + 1, 9)
                if free[at] > free[EARLIEST:at].max() + 2 * MARGIN
            )  # fmt: skip
        assert ((free[EARLIEST:] - threshold).abs() > MARGIN / 4).all(), (free, threshold)
        made = model.generate(**options, eos_threshold=threshold)
        tensors |= {
            f"{voice}_voice": latents, f"{voice}_hidden": hidden, f"{voice}_logits": torch.cat(made.scores),
            f"{voice}_latents": made.audio_latents,
        }  # fmt: skip
        assert made.audio_latents.shape[1] < MOST, "the utterance does not end"
    noise = torch.randn(4, LATENT)
    conditions = torch.randn(4, SHAPE["hidden_size"])
    tensors |= {"flow_noise": noise, "flow_conditions": conditions}
    for steps in (1, 3):
        tensors[f"flow_{steps}"] = model.sample_latent(conditions, noise, steps)
    settings = {"eos_threshold": threshold, "min_frames_before_eos": EARLIEST, "num_flow_steps": 1, "temperature": 0.7, "do_sample": True}
    (folder / "generation_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    if name == "pocket":
        codec = make_codec(folder / "audio_tokenizer")
        tensors |= codec_numbers(codec, torch.randn(1, 6, LATENT))
        tensors |= clip_numbers(codec)
        tensors["bob_samples"] = codec.decode(tensors["bob_latents"]).audio_values
    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text(json.dumps(facts) + "\n")
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o644)  # safetensors makes them private to the user
