"""Records the internals of Whisper's `generate`: windows, decisions, alignments; and repeats its steps without the cache."""

import copy

import numpy as np
import torch
from transformers.generation.logits_process import (
    SuppressTokensAtBeginLogitsProcessor,
    SuppressTokensLogitsProcessor,
    WhisperNoSpeechDetection,
    WhisperTimeStampLogitsProcessor,
)
from transformers.models.whisper import generation_whisper

from speech import recording


def audio_of(recipe: list) -> np.ndarray:
    """The samples of a clip: pieces of the recording and pauses."""
    speech = recording()
    return np.concatenate([speech[p[0] : p[1]] if len(p) == 2 else np.zeros(p[0], np.float32) for p in recipe])


class Trace:
    """A context in which calls inside the model's `generate` are recorded."""

    def __init__(self, model):
        self.model = model
        self.windows, self.decided, self.alignments, self.gaps = [], [], [], []

    def __enter__(self):
        model = self.model
        fallback, decide, align, best = (
            model.generate_with_fallback, model._need_fallback, model._extract_token_timestamps, model._get_top_k_continuations
        )  # fmt: skip

        def generate_with_fallback(**given):
            window = {"seek": int(given["seek"][0]), "prefix": given["decoder_input_ids"][0].tolist(), "input": given["segment_input"]}
            result = fallback(**given)
            window["tokens"] = result[0][0].tolist()
            output = result[1][0] if isinstance(result[1][0], dict) else {"sequences": result[1][0]}
            window["ended"] = model.generation_config.eos_token_id in output["sequences"][len(window["prefix"]) :].tolist()
            window["score"] = float(output["sequences_scores"]) if "sequences_scores" in output else None
            self.windows.append(window)
            return result

        def need_fallback(*given):
            # The no-speech detection skips to the next window.
            self.decided.append((*given[:3], [copy.copy(processor) for processor in given[3]], *given[4:]))
            return decide(*given)

        def extract(outputs, heads, **given):
            times = align(outputs, heads, **given)
            if "beam_indices" not in outputs:
                self.alignments.append(aligned(model, outputs, heads, given["num_frames"], given["num_input_ids"], times))
            return times

        def top(**given):
            ranked = given["accumulated_log_probs"].topk(given["beams_to_keep"] + 1).values[0]
            self.gaps += (ranked[:-1] - ranked[1:])[ranked[1:] > -1e8].tolist()
            return best(**given)

        model.generate_with_fallback, model._need_fallback = generate_with_fallback, need_fallback
        model._extract_token_timestamps, model._get_top_k_continuations = extract, top
        return self

    def __exit__(self, *_):
        for name in ("generate_with_fallback", "_need_fallback", "_extract_token_timestamps", "_get_top_k_continuations"):
            delattr(self.model, name)


def aligned(model, outputs, heads, num_frames, num_input_ids: int, times: torch.Tensor) -> dict:
    """Token times from attention weights for a batch of one, implemented independently."""
    layers = [torch.cat([step[layer] for step in outputs.cross_attentions], dim=2) for layer in range(model.config.decoder_layers)]
    weights = torch.stack([layers[layer][0, head] for layer, head in heads])[:, num_input_ids:]
    if num_frames is not None:
        weights = weights[..., : int(num_frames[0]) // 2]
    normal = (weights - weights.mean(-2, keepdim=True)) / weights.std(-2, keepdim=True, unbiased=False)
    matrix = generation_whisper._median_filter(normal, model.config.median_filter_width).mean(0)
    text, time = generation_whisper._dynamic_time_warping(-matrix.double().numpy())
    starts = [int(time[list(text).index(row)]) for row in range(len(matrix))]
    expected = [0.0] * num_input_ids + [0.02 * start for start in [*starts, starts[-1]]]
    torch.testing.assert_close(times[0], torch.tensor(expected))
    return {"weights": weights, "matrix": matrix, "text": text.tolist(), "time": time.tolist()}


def decisions(model, given: tuple) -> dict:
    """Inputs of `_need_fallback`, and its results with other thresholds: accepted, too repetitive, too unlikely, unlikely and
    silent, unlikely but not silent, repetitive and silent but likely."""
    sequence, outputs, index, processors, config, size, temperature = given
    detector = next(p for p in processors if isinstance(p, WhisperNoSpeechDetection))
    ratio = float(model._retrieve_compression_ratio(sequence, size))
    logprob = float(model._retrieve_avg_logprobs(outputs[index]["scores"], sequence, temperature))
    silent = float(detector.no_speech_prob[index])
    answers = []
    for thresholds in ((100.0, -100.0, None), (0.99 * ratio, -100.0, None), (100.0, logprob + 0.01, None),
                       (100.0, logprob + 0.01, 0.9 * silent), (100.0, logprob + 0.01, 1.1 * silent),
                       (0.99 * ratio, logprob - 0.01, 0.9 * silent)):  # fmt: skip
        thresholds = [None if threshold is None else float(f"{threshold:.4g}") for threshold in thresholds]
        config = copy.copy(config)
        config.compression_ratio_threshold, config.logprob_threshold, config.no_speech_threshold = thresholds
        needs, skip = model._need_fallback(sequence, outputs, index, processors, config, size, temperature)
        answers.append({
            "compression_ratio_threshold": thresholds[0], "logprob_threshold": thresholds[1],
            "no_speech_threshold": thresholds[2], "needs_fallback": bool(needs), "should_skip": bool(skip),
        })  # fmt: skip
    return {"tokens": sequence.tolist(), "compression_ratio": ratio, "avg_logprob": logprob, "no_speech_prob": silent,
            "decisions": answers}  # fmt: skip


def processors_of(model, begin: int, timestamps: bool) -> list:
    config = model.generation_config
    stamps = [WhisperTimeStampLogitsProcessor(config, begin_index=begin)] if timestamps else []
    return [
        SuppressTokensAtBeginLogitsProcessor(config.begin_suppress_tokens, begin_index=begin),
        SuppressTokensLogitsProcessor(config.suppress_tokens),
        *stamps,
    ]


def scored(model, window: dict, timestamps: bool) -> list[dict]:
    """Each step of a greedy window from one teacher-forced pass: logits, and scores after the processors."""
    begin = len(window["prefix"])
    whole = torch.tensor([window["prefix"] + window["tokens"]])
    logits = model(window["input"], decoder_input_ids=whole).logits[0]
    processors = processors_of(model, begin, timestamps)
    steps = []
    for end in range(begin, whole.shape[1] + 1):
        if end == model.config.max_target_positions:
            break
        scores = logits[None, end - 1].clone()
        for processor in processors:
            before = scores
            scores = processor(whole[:, :end], scores)
        steps.append({"prefix": whole[0, :end].tolist(), "begin": begin, "logits": logits[end - 1], "scores": scores[0],
                      "before": before[0]})  # fmt: skip
    return steps


def replay(model, window: dict, timestamps: bool) -> list[float]:
    """Asserts that these steps choose the window's tokens. Returns the margins, that of the
    timestamp probability rule included."""
    end = model.generation_config.eos_token_id
    steps, margins = scored(model, window, timestamps), []
    for step, token in zip(steps, window["tokens"] + [end] * window["ended"]):
        best = step["scores"].topk(2)
        assert int(best.indices[0]) == token, "the cache changes a token"
        margins.append(float(best.values[0] - best.values[1]))
        mass = mass_margin(model, step) if timestamps else None
        margins += [] if mass is None else [abs(mass)]
    return margins


def mass_margin(model, step: dict) -> float | None:
    """Log of the timestamps' summed probability over the best text token's; None if one of them is zero."""
    config = model.generation_config
    first = config.no_timestamps_token_id + 1
    bare = WhisperTimeStampLogitsProcessor(config, begin_index=step["begin"], _detect_timestamp_from_logprob=False)
    scores = bare(torch.tensor([step["prefix"]]), step["before"][None])[0]
    margin = float(scores[first:].logsumexp(0) - scores[:first].max())
    return margin if abs(margin) < float("inf") else None


def steps_worth_keeping(model, windows: list) -> list[dict]:
    """The first step of each kind."""
    first, found = model.generation_config.no_timestamps_token_id + 1, {}
    for window in windows:
        for step, token in zip(scored(model, window, True), window["tokens"]):
            said = [t >= first for t in step["prefix"][step["begin"] :]]
            mass = mass_margin(model, step)
            if not said:
                kind = "start"
            elif said[-1]:
                kind = "after the first timestamp" if len(said) == 1 else "after two timestamps" if said[-2] else "after text and a timestamp"
            else:
                kind = "after text, timestamps have the mass" if mass is not None and mass > 0 else "after text"
            found.setdefault(kind, step | {"kind": kind, "seek": window["seek"], "token": token})
    return list(found.values())


def segment_fact(segment: dict) -> dict:
    fact = {"start": round(float(segment["start"]), 4), "end": round(float(segment["end"]), 4), "tokens": segment["tokens"].tolist()}
    if "token_timestamps" in segment:
        fact["token_timestamps"] = rounded(segment["token_timestamps"])
    return fact


def rounded(times: torch.Tensor) -> list[float]:
    return [round(float(time), 4) for time in times]
