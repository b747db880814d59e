"""Tiny random checkpoints of language models, saved by the `transformers` classes, as folders and as GGUF files, with what the classes
make of them; and the chat templates, tokenizers and samplers of `transformers` on the same inputs."""

import json
from datetime import datetime
from pathlib import Path
from unittest import mock

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LogitsProcessorList,
    MinPLogitsWarper,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from decoder_templates import CONVERSATIONS, TEMPLATES, TOOL_CONVERSATIONS, TOOLS
from gguf_types import SCALES
from speech import readable

PROMPT = 70
GREEDY = 64
NOW = datetime(2026, 3, 4, 5, 6, 7)
TEXT = (
    "The meeting began at 9:45 with 12 people, and it's not clear who'll pay the 1,234.50 euros. Ça c'est l'été, naïve; größer. "
    "they'VE said: \"don't\" -- twice!\n\n\tNew   lines, \r\n and tabs\t. 日本語のテキスト。 Привет, мир! 😀 1234567 "
) * 3
TEXTS = [
    "",
    " ",
    "Hello, world!",
    "  two spaces and   three\n\n\nlines \t tab ",
    "It's 1234567 o'clock, they'LL say; don't!",
    "naïve cafe\u0301 (decomposed) größer 日本語のテキスト。Привет 😀👍🏽",
    "a\r\nb\n c\n\n d  ",
    "<|im_end|> is text here, <think> too",
    "x = {\"key\": [1, 2, 3]}\n",
]
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
DIGITS = {"qwen2": r"\p{N}", "llama-bpe": r"\p{N}{1,3}"}


def tokenizer(pre: str, text: str = TEXT, size: int = 380) -> Tokenizer:
    """A byte-level tokenizer that cuts texts as the published ones of this name do, with the commonest pieces of `text`."""
    made = Tokenizer(models.BPE(ignore_merges=pre == "llama-bpe"))
    if pre == "smollm":
        cut = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    else:
        pattern = (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
            + DIGITS[pre]
            + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        cut = [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    made.pre_tokenizer = pre_tokenizers.Sequence(cut)
    if pre == "qwen2":
        made.normalizer = normalizers.NFC()
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([text], trainer)
    made.add_special_tokens([AddedToken(mark, special=True) for mark in MARKS])
    if pre == "qwen2":
        made.add_tokens([AddedToken(mark, normalized=False) for mark in ("<think>", "</think>")])
    return made


def lively(model: torch.nn.Module, seed: int) -> None:
    """Random weights with which texts are lively, and no norm or bias is the identity."""
    random = torch.Generator().manual_seed(seed)
    for name, value in model.named_parameters():
        drawn = torch.randn(value.shape, generator=random)
        if name.endswith("norm.weight"):
            value.data = 1 + 0.3 * drawn
        elif name.endswith("bias"):
            value.data = 0.5 * drawn
        elif "embed_tokens" in name:
            value.data = drawn
        else:
            value.data = drawn * 1.5 / value.shape[1] ** 0.5


def numbers(model: torch.nn.Module, vocabulary: int, folder: Path) -> None:
    random = torch.Generator().manual_seed(11)
    prompt = torch.randint(0, vocabulary, (1, PROMPT), generator=random)
    logits = model(prompt).logits[0]
    tokens, margins = prompt, []
    for _ in range(GREEDY):
        last = model(tokens).logits[0, -1]
        best = last.topk(2).values
        margins.append(float(best[0] - best[1]))
        tokens = torch.cat([tokens, last.argmax()[None, None]], 1)
    save_file({"logits": logits.contiguous()}, folder / "oracle.safetensors")
    facts = {"prompt": prompt[0].tolist(), "greedy": tokens[0, PROMPT:].tolist(), "smallest_margin": min(margins)}
    (folder / "oracle.json").write_text(json.dumps(facts) + "\n")


SHAPES = {
    "llama": (
        LlamaForCausalLM,
        LlamaConfig(
            hidden_size=48, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=16,
            intermediate_size=80, max_position_embeddings=256, tie_word_embeddings=False, rms_norm_eps=1e-5,
            rope_parameters={
                "rope_type": "llama3", "rope_theta": 5000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        ),
        "llama-bpe",
    ),
    "qwen2": (
        Qwen2ForCausalLM,
        Qwen2Config(
            hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4, intermediate_size=96,
            max_position_embeddings=256, tie_word_embeddings=True, rms_norm_eps=1e-6,
        ),
        "qwen2",
    ),
    "qwen3": (
        Qwen3ForCausalLM,
        Qwen3Config(
            hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1, head_dim=24,
            intermediate_size=96, max_position_embeddings=256, tie_word_embeddings=True, rms_norm_eps=1e-6,
        ),
        "qwen2",
    ),
}  # fmt: skip


def make_folder(name: str, folder: Path) -> None:
    kind, config, pre = SHAPES[name]
    made = tokenizer(pre)
    config.vocab_size = made.get_vocab_size() + 5  # more rows than tokens, as published
    config.eos_token_id = made.token_to_id("<|im_end|>")
    config.bos_token_id = None
    model = kind(config).eval()
    lively(model, 3)
    model.tie_weights()
    if name == "qwen3":  # stored in bf16; only the parameters are rounded, no table of the class
        for value in model.parameters():
            value.data = value.data.bfloat16().float()
    numbers(model, made.get_vocab_size(), folder)
    model.to(torch.bfloat16 if name == "qwen3" else torch.float32).save_pretrained(folder)
    fast = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", bos_token="<|endoftext|>")
    fast.chat_template = TEMPLATES["chatml"]
    fast.save_pretrained(folder)
    readable(folder)


def quantised(kind: str, shape: tuple, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random blocks `[rows, bytes]` with scales as in a trained matrix, and the values that the package unpacks them to."""
    if SCALES[kind] is None:
        values = (random.standard_normal(shape) * 1.2 / shape[1] ** 0.5).astype(np.float32)
        made = gguf.quants.quantize(values, Type[kind]).view(np.uint8).reshape(shape[0], -1)
    else:
        size, bytes_ = gguf.GGML_QUANT_SIZES[Type[kind]]
        made = random.integers(0, 256, (shape[0], shape[1] // size, bytes_), dtype=np.uint8)
        # A block's values vary by about so much for a scale of 1.
        spread = {"Q4_0": 4.6, "Q4_1": 4.6, "Q5_0": 9.2, "Q5_1": 9.2, "Q8_0": 74, "Q4_K": 180, "Q5_K": 360, "Q6_K": 1400}[kind]
        for number, place in enumerate(SCALES[kind]):
            scale = 1.2 / shape[1] ** 0.5 / spread * random.uniform(0.5, 1.5, made.shape[:2])
            if number == 1:  # A minimum that centres the numbers.
                scale = scale * {"Q4_1": -7.5, "Q5_1": -15.5, "Q4_K": 7.5, "Q5_K": 15.5}[kind]
            made[:, :, place : place + 2] = scale.astype(np.float16)[..., None].view(np.uint8)
        made = made.reshape(shape[0], -1)
    return made, np.ascontiguousarray(gguf.quants.dequantize(made, Type[kind]), dtype=np.float32).reshape(shape)


NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip
# The type of each tensor, by the end of its name.
KINDS = {
    "llama_gguf": {
        "embed_tokens": "Q4_K", "q_proj": "Q4_0", "k_proj": "Q4_1", "v_proj": "Q6_K", "o_proj": "Q5_K", "gate_proj": "Q5_0",
        "up_proj": "Q5_1", "down_proj": "Q8_0", "lm_head": "Q6_K",
    },
    "qwen3_gguf": {
        "embed_tokens": "Q8_0", "q_proj": "F16", "k_proj": "BF16", "v_proj": "F32", "o_proj": "Q8_0", "gate_proj": "Q4_1",
        "up_proj": "Q4_0", "down_proj": "Q8_0",
    },
}  # fmt: skip


def stored_name(name: str) -> str:
    own = name.removesuffix(".weight").removesuffix(".bias")
    end = name[len(own) :]
    if own.startswith("model.layers."):
        _, _, layer, part = own.split(".", 3)
        return f"blk.{layer}.{NAMES[part]}{end}"
    return NAMES[own] + end


def paired(values: np.ndarray, heads: int) -> np.ndarray:
    """Llama's rows of queries and keys in GGUF's order: the halves of a head interleaved."""
    return values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def make_gguf(name: str, folder: Path) -> None:
    llama = name == "llama_gguf"
    pre = "smollm" if llama else "qwen2"
    made = tokenizer(pre)
    vocabulary = made.get_vocab_size()
    if llama:
        config = LlamaConfig(
            vocab_size=vocabulary, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=64, max_position_embeddings=256, tie_word_embeddings=False, rms_norm_eps=1e-5,
            rope_parameters={
                "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 128,
            },
        )  # fmt: skip
        model = LlamaForCausalLM(config).eval()
    else:
        config = Qwen3Config(
            vocab_size=vocabulary, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
            intermediate_size=96, max_position_embeddings=256, tie_word_embeddings=True, rms_norm_eps=1e-6,
        )
        config.rope_parameters = {"rope_type": "default", "rope_theta": 1000000.0}
        model = Qwen3ForCausalLM(config).eval()
    lively(model, 4)
    architecture = "llama" if llama else "qwen3"
    writer = gguf.GGUFWriter(folder / "model.gguf", architecture)
    writer.add_context_length(256)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    contents = json.loads(made.to_str())
    by_id = {number: text for text, number in made.get_vocab().items()}
    added = {token["id"]: 3 if token["special"] else 4 for token in contents["added_tokens"]}
    writer.add_token_list([by_id[at] for at in range(vocabulary)])
    writer.add_token_types([added.get(at, 1) for at in range(vocabulary)])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in contents["model"]["merges"]])
    writer.add_eos_token_id(made.token_to_id("<|im_end|>"))
    writer.add_bos_token_id(made.token_to_id("<|endoftext|>"))
    writer.add_chat_template(TEMPLATES["chatml" if llama else "thinking"])
    random = np.random.default_rng(9)
    for parameter, value in model.named_parameters():
        if parameter == "lm_head.weight" and config.tie_word_embeddings:
            continue
        own = parameter.removesuffix(".weight").rsplit(".", 1)[-1]
        kind = KINDS[name].get(own)
        if kind is None:
            writer.add_tensor(stored_name(parameter), value.detach().numpy())
            continue
        blocks, values = quantised(kind, tuple(value.shape), random)
        value.data = torch.from_numpy(values)
        if llama and own in ("q_proj", "k_proj"):
            heads = config.num_attention_heads if own == "q_proj" else config.num_key_value_heads
            blocks = paired(blocks, heads)
        if kind == "F32":
            writer.add_tensor(stored_name(parameter), blocks.view(np.float32).reshape(values.shape))
        else:
            writer.add_tensor(stored_name(parameter), blocks, raw_dtype=Type[kind])
    if llama:
        # What the angles are divided by: the plain ones over those of the class.
        plain = 1.0 / 10000.0 ** (np.arange(0, config.head_dim, 2, dtype=np.float32) / config.head_dim)
        writer.add_tensor("rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq.numpy()).astype(np.float32))
    model.tie_weights()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    numbers(model, vocabulary, folder)
    (folder / "model.gguf").chmod(0o644)
    readable(folder)


def make_texts(folder: Path) -> None:
    """Tokenizers, chat templates and samplers."""
    facts = {"tokenizers": {}, "templates": []}
    for pre in ("smollm", "qwen2", "llama-bpe"):
        made = tokenizer(pre)
        (folder / pre).mkdir()
        made.save(str(folder / pre / "tokenizer.json"))
        # No mark counts in these texts.
        plain = json.loads(made.to_str())
        plain["added_tokens"] = []
        plain = Tokenizer.from_str(json.dumps(plain))
        encoded = [plain.encode(text, add_special_tokens=False).ids for text in TEXTS]
        contents = json.loads(made.to_str())
        by_id = {number: text for text, number in made.get_vocab().items()}
        added = {token["id"]: 3 if token["special"] else 4 for token in contents["added_tokens"]}
        facts["tokenizers"][pre] = {
            "encoded": encoded,
            "marked": made.encode("<|im_start|>user\nHello<|im_end|>\n", add_special_tokens=False).ids,
            "tokens": [by_id[at] for at in range(made.get_vocab_size())],
            "types": [added.get(at, 1) for at in range(made.get_vocab_size())],
            "merges": [merge if isinstance(merge, str) else " ".join(merge) for merge in contents["model"]["merges"]],
        }
    facts["texts"] = TEXTS
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer("qwen2"), eos_token="<|im_end|>", bos_token="<|endoftext|>"
    )

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return NOW

    with mock.patch("transformers.utils.chat_template_utils.datetime", Clock):
        for name, template in TEMPLATES.items():
            asked = [(conversation, None) for conversation in CONVERSATIONS]
            if name == "tools":
                asked += [(conversation, TOOLS) for conversation in TOOL_CONVERSATIONS]
            for conversation, tools in asked:
                for thinking in (True, False):
                    case = {"template": name, "messages": conversation, "tools": tools, "thinking": thinking}
                    try:
                        case["text"] = fast.apply_chat_template(
                            conversation, tools=tools, chat_template=template, tokenize=False, add_generation_prompt=True,
                            enable_thinking=thinking,
                        )  # fmt: skip
                    except Exception as error:  # noqa: BLE001 - the template's own refusal
                        case["refused"] = str(error)
                    facts["templates"].append(case)
    facts["sources"] = TEMPLATES
    random = torch.Generator().manual_seed(2)
    scores = torch.randn((1, 200), generator=random) * 3
    prompt = torch.randint(0, 200, (1, 12), generator=random)
    facts["sampling"] = []
    for temperature, top_k, top_p, min_p, penalty in [
        (1.0, 0, 1.0, 0.0, 1.0), (0.7, 0, 0.9, 0.0, 1.0), (1.3, 5, 1.0, 0.0, 1.0), (1.0, 0, 1.0, 0.2, 1.0),
        (0.8, 40, 0.95, 0.05, 1.0), (1.5, 3, 0.5, 0.01, 1.3), (1.0, 0, 0.1, 0.0, 1.0), (1.0, 0, 0.99, 0.3, 0.8),
    ]:  # fmt: skip
        steps = LogitsProcessorList()
        if penalty != 1.0:
            steps.append(RepetitionPenaltyLogitsProcessor(penalty))
        steps.append(TemperatureLogitsWarper(temperature))
        if top_k:
            steps.append(TopKLogitsWarper(top_k))
        if top_p < 1.0:
            steps.append(TopPLogitsWarper(top_p))
        if min_p:
            steps.append(MinPLogitsWarper(min_p))
        chances = steps(prompt, scores.clone()).softmax(-1)[0]
        facts["sampling"].append(
            {
                "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "repetition_penalty": penalty,
                "chances": {str(at): float(chance) for at, chance in enumerate(chances) if chance > 0},
            }
        )  # fmt: skip
    facts["sampling_prompt"] = prompt[0].tolist()
    save_file({"scores": scores}, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text(json.dumps(facts, ensure_ascii=False) + "\n")
    readable(folder)


def make_decoder(name: str, folder: Path) -> None:
    if name == "texts":
        make_texts(folder)
    elif name.endswith("_gguf"):
        make_gguf(name, folder)
    else:
        make_folder(name, folder)


DECODERS = [*SHAPES, *KINDS, "texts"]
