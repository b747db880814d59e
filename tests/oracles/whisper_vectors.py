"""Vectors of single rules and functions of Whisper's decoding that need no model, and what a checkpoint's tokenizer does."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import WhisperForConditionalGeneration
from transformers.generation.logits_process import (
    SuppressTokensAtBeginLogitsProcessor,
    SuppressTokensLogitsProcessor,
    WhisperTimeStampLogitsProcessor,
)
from transformers.models.whisper.generation_whisper import _dynamic_time_warping, _median_filter
from transformers.models.whisper.tokenization_whisper import _combine_tokens_into_words

from models import dumps
from speech import readable, recording

TEXTS = [
    " Ask not what your country can do for you.", " ask 'what' (you) can do - it's \"not\" that...", "And so, my fellow Americans:",
    "  two  spaces\nand a line\tand 12,345.6 things don't", " Fragt nicht, was euer Land für euch tun kann – größer als Öl!",
    " Не спрашивай, что твоя страна может сделать для тебя.", "不要问你的国家能为你做什么。", "国があなたのために何をしてくれるかを問うのではなく、",
    " لا تسأل عما يمكن أن يفعله بلدك لك، بل اسأل", "อย่าถามว่าประเทศจะทำอะไรให้คุณได้บ้าง", " Hello 👋🏽 world 🌍!", "👨‍👩‍👧", " naïve café ¿qué? “sí”", "",
]  # fmt: skip
WORDS = [
    ("english", " Ask not what your country can do for you."), ("english", " \"Yes,\" (he said) - it's 'fine'... isn't it?! 3,000"),
    ("english", "no space first, 👋🏽 then"), ("german", " Fragt nicht, was euer Land für euch tun kann – größer!"),
    ("russian", " Не спрашивай, что твоя «страна» может."), ("arabic", " لا تسأل عما يمكن، بل اسأل؟"), ("spanish", " ¿Qué es? ¡Sí! [no]"),
    ("chinese", "不要问，国家能为你做什么！"), ("japanese", "国があなたのために、何を？「はい」"), ("thai", "อย่าถามว่า ประเทศ"), ("lao", "ຢ່າຖາມ ວ່າ"),
    ("myanmar", "မမေးပါနဲ့။ ဘာ"), ("cantonese", "唔好問。國家，"),
]  # fmt: skip


# The tokenizer


def tokenizer_facts(tokenizer, layout, checkpoint) -> dict:
    ids = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]
    encoded = []
    for text in TEXTS:
        tokens = ids(text)
        assert tokenizer.decode(tokens) == text
        encoded.append({"text": text, "tokens": tokens})
    at = lambda time: layout.timestamps + round(time / 0.02)
    say = ids(" what your country")
    broken = ids("👋")[:2]
    language = [layout.ids["<|de|>"], layout.transcribe] if checkpoint.multilingual else []
    sequences = [
        [layout.startoftranscript, *language, at(0), *say, at(1.5), at(1.5), *ids(" can do."), at(2.98), layout.endoftext],
        [at(0.4), *say, at(29.98), at(0), *ids(" can"), at(3.0), at(3.02), *ids(" do")],
        [at(0), *say, at(5), at(5), *ids(" can"), at(12), at(12), at(1), *ids(" do"), at(4)],
        [layout.startofprev, *ids(" not this"), layout.startoftranscript, *language, layout.notimestamps, *say, layout.endoftext],
        [layout.startofprev, *ids(" only this")],
        [*say, *broken], [*broken, *say], [layout.ids["Ġ"], *broken, at(1)],
    ]  # fmt: skip
    decoded = [
        {
            "tokens": sequence,
            "text": tokenizer.decode(sequence),
            "without_special": tokenizer.decode(sequence, skip_special_tokens=True),
            "with_timestamps": tokenizer.decode(sequence, decode_with_timestamps=True),
            "offsets": tokenizer.decode(sequence, output_offsets=True)["offsets"],
        }
        for sequence in sequences
    ]
    words = []
    for name, text in WORDS:
        for tokens in (ids(text), [at(0.5), *ids(text), at(2)] if name in ("english", "chinese") else None, [*ids(text), *broken]):
            if tokens is not None:
                found, _, indices = _combine_tokens_into_words(tokenizer, list(tokens), name)
                words.append({"language": name, "tokens": tokens, "words": found, "indices": indices})
    return {
        "encoded": encoded, "decoded": decoded, "words": words,
        "with_special": {"text": TEXTS[0], "tokens": tokenizer(TEXTS[0])["input_ids"]},
        "special_in_text": {"text": " a<|en|> b<|1.02|><|1.03|>", "tokens": ids(" a<|en|> b<|1.02|><|1.03|>")},
        "prompts": [{"text": text, "tokens": tokenizer.get_prompt_ids(text).tolist()} for text in ("what your", "  country can ")],
    }  # fmt: skip


# The rules


RULES = {
    "size": 96, "eos": 20, "start": 21, "no_timestamps": 31, "first_timestamp": 32, "max_initial_timestamp_index": 5,
    "suppress_tokens": [3, 4, 17, 21, 22, 30], "begin_suppress_tokens": [9, 20],
}  # fmt: skip
"""A small vocabulary: 20 text tokens, the end, ten control tokens, `<|notimestamps|>` and 64 timestamps."""


def rule_cases() -> list[dict]:
    """What may follow, `[first, end]` ranges, and what is best. Every prefix meets logits that give the timestamps little,
    much and nearly equal mass, once as logits and once as log-probabilities, as beam search hands them over."""
    stamp = lambda place: RULES["first_timestamp"] + place
    start = [21, 25]
    prefixes = {
        "at the start": start, "after the first timestamp": [*start, stamp(3)], "after text": [*start, stamp(3), 5, 6],
        "after text and a timestamp": [*start, stamp(3), 5, 6, stamp(9)],
        "after two timestamps": [*start, stamp(3), 5, 6, stamp(9), stamp(9)],
        "after text again": [*start, stamp(3), 5, 6, stamp(9), stamp(9), 7],
        "after text and the last timestamp": [*start, stamp(0), 5, stamp(63)],
        "after the last timestamp and text": [*start, stamp(63), 5],
        "after text without any timestamp": [*start, 5, 6], "after one text token": [*start, 5],
        "after text and a first timestamp": [*start, 5, stamp(8)], "after a timestamp that went back": [*start, stamp(9), 5, stamp(4)],
        "at the start with a prompt": [29, 5, stamp(20), stamp(20), 6, *start],
        "after text with a prompt": [29, 5, stamp(20), 6, *start, stamp(2), 8],
        "at the start without language": [21],
    }  # fmt: skip
    generator = torch.Generator().manual_seed(5)
    cases = []
    for name, prefix in prefixes.items():
        begin = len(prefix) if name.startswith("at the start") else prefix.index(start[1]) + 1
        for lift in (-6.0, -1.5, 0.0, 3.0):
            logits = torch.randn(RULES["size"], generator=generator) * 2
            logits[RULES["first_timestamp"] :] += lift
            logits[RULES["eos"]] += 2.0
            logits = (logits * 100).round() / 100
            for initial in (RULES["max_initial_timestamp_index"], None) if name.startswith("at the start") else (5,):
                for beams in (False, True):
                    cases.append({"name": name, "prefix": prefix, "begin": begin, "max_initial_timestamp_index": initial,
                                  "log_probabilities": beams, "logits": [round(float(x), 2) for x in logits]}
                                 | ruled(prefix, begin, initial, logits.log_softmax(-1) if beams else logits))  # fmt: skip
    return cases


def ruled(prefix: list, begin: int, initial: int | None, logits: torch.Tensor) -> dict:
    config = SimpleNamespace(no_timestamps_token_id=RULES["no_timestamps"], eos_token_id=RULES["eos"], bos_token_id=RULES["eos"],
                             max_initial_timestamp_index=initial)  # fmt: skip
    tokens, scores = torch.tensor([prefix]), logits[None]
    for processor in (
        SuppressTokensAtBeginLogitsProcessor(RULES["begin_suppress_tokens"], begin_index=begin),
        SuppressTokensLogitsProcessor(RULES["suppress_tokens"]),
    ):
        scores = processor(tokens, scores)
    bare = WhisperTimeStampLogitsProcessor(config, begin, _detect_timestamp_from_logprob=False)(tokens, scores)[0]
    whole = WhisperTimeStampLogitsProcessor(config, begin)(tokens, scores)[0]
    written = written_out(prefix, begin, initial, logits)
    assert torch.equal(whole, written), "the rules are not those of the README"
    first = RULES["first_timestamp"]
    mass, best = float(bare[first:].logsumexp(0)), float(bare[:first].max())
    infinite = float("inf") in (abs(mass), abs(best))
    assert infinite or abs(mass - best) > 1e-3
    return {
        "allowed_before_mass": ranges(bare), "allowed": ranges(whole), "best": int(whole.argmax()),
        "mass_over_best": None if infinite else round(mass - best, 5),
    }  # fmt: skip


def written_out(prefix: list, begin: int, initial: int | None, logits: torch.Tensor) -> torch.Tensor:
    """The rules as the README states them, without the library."""
    nothing, first, end = float("-inf"), RULES["first_timestamp"], RULES["eos"]
    scores, said = logits.clone(), prefix[begin:]
    if not said:
        scores[RULES["begin_suppress_tokens"]] = nothing
    scores[RULES["suppress_tokens"] + [RULES["no_timestamps"]]] = nothing
    stamps = [token for token in said if token >= first]
    last = bool(said) and said[-1] >= first
    before = len(said) < 2 or said[-2] >= first
    if last and before:
        scores[first:] = nothing
    elif last:
        scores[:end] = nothing
    if stamps:
        scores[first : stamps[-1] + (0 if last and not before else 1)] = nothing
    if not said:
        scores[:first] = nothing
        if initial is not None:
            scores[first + initial + 1 :] = nothing
    if scores[first:].logsumexp(0) > scores[:first].max():
        scores[:first] = nothing
    return scores


def ranges(scores: torch.Tensor) -> list[list[int]]:
    found = []
    for token in torch.nonzero(scores > float("-inf")).flatten().tolist():
        if found and found[-1][1] == token:
            found[-1][1] = token + 1
        else:
            found.append([token, token + 1])
    return found


# Alignment and compression


def alignment() -> tuple[dict, dict]:
    generator = torch.Generator().manual_seed(9)
    smooth = torch.rand(2, 3, 24, generator=generator)
    matrix = torch.randn(7, 24, generator=generator)
    tied = torch.tensor([[0.0, 1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0, 1.0]])
    tensors = {"median_input": smooth, "dtw": matrix, "dtw_tied": tied}
    facts = {"median": {}, "dtw": {}}
    for width in (3, 7):
        tensors[f"median_{width}"] = _median_filter(smooth, width)
    for length in (3, 4, 5):
        tensors[f"median_7_of_{length}"] = _median_filter(smooth[..., :length], 7)
    for name in ("dtw", "dtw_tied"):
        text, time = _dynamic_time_warping(-tensors[name].double().numpy())
        jumps = np.pad(np.diff(text), (1, 0), constant_values=1).astype(bool)
        facts["dtw"][name] = {"text_indices": text.tolist(), "time_indices": time.tolist(), "jumps": time[jumps].tolist()}
    facts.pop("median")
    return facts, tensors


def compression() -> list[dict]:
    rng = np.random.default_rng(2)
    sequences = [[5], [5] * 30, list(range(40)), [7, 8, 9] * 25, rng.integers(0, 1999, 60).tolist(), rng.integers(300, 330, 200).tolist()]
    cases = []
    for size in (1999, 51865, 51866, 250, 255, 256, 65535, 65536, 70000):
        for tokens in sequences:
            if max(tokens) < size:
                ratio = WhisperForConditionalGeneration._retrieve_compression_ratio(torch.tensor(tokens), size)
                cases.append({"vocabulary": size, "tokens": tokens, "ratio": round(float(ratio), 6)})
    return cases


def make_vectors(folder: Path) -> None:
    facts, tensors = alignment()
    facts = {"rules": RULES | {"cases": rule_cases()}, **facts, "compression": compression()}
    tensors["audio"] = torch.from_numpy(recording())
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text(dumps(json.loads(json.dumps(facts))) + "\n")
    readable(folder)
