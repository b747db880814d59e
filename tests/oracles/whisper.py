"""Saves one Whisper checkpoint in its published form and, beside it, the outputs of the loaded class, stage by stage."""

import copy
import functools
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoProcessor, WhisperForConditionalGeneration

from models import dumps
from speech import RATE, readable
from whisper_checkpoints import Checkpoint, save
from whisper_tokenizer import leave_engines_files
from whisper_rules import beam_scores, beam_search, check_windows
from whisper_runs import Trace, audio_of, decisions, processors_of, replay, segment_fact, steps_worth_keeping
from whisper_vectors import tokenizer_facts

MIXED = [[12000, 37777], [9000], [0, 39840], [5000, 30000], [20000], [20000, 41000]]
CLIPS = {
    "short": [[0, 39840]],
    "mixed": MIXED,
    "silence": [[48000]],
    "long": 4 * (MIXED + [[24000], [2000, 40000], [7000], [10000, 41000]]) + [[60000]] + MIXED,
}
"""Each clip as pieces of the recording, `[first, end]` in samples, and pauses, `[samples]`."""
MEL_FRAMES = [[0, 24], [236, 252], [2976, 3000]]
FRAMES = [[0, 24], [116, 132], [1476, 1500]]
"""Stored frames of a window's 3000 mel frames and 1500 encoder frames."""
PROMPT = " Ask not what your country can do."


def make_whisper(checkpoint: Checkpoint, folder: Path) -> None:
    save(checkpoint, folder)
    oracle = Oracle(checkpoint, folder)
    tensors, facts = oracle.make()
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text(dumps(json.loads(json.dumps(facts))) + "\n")
    leave_engines_files(folder)
    readable(folder)


def kept(tensor: torch.Tensor, dim: int, frames: list) -> torch.Tensor:
    return torch.cat([tensor.narrow(dim, first, end - first) for first, end in frames], dim)


class Oracle:
    def __init__(self, checkpoint: Checkpoint, folder: Path):
        self.checkpoint, self.layout = checkpoint, checkpoint.layout
        self.model = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
        self.exact = copy.deepcopy(self.model).double()
        self.processor = AutoProcessor.from_pretrained(folder)
        self.margins: list[float] = []
        self.beam_gaps: list[float] = []

    @functools.cache
    def features(self, name: str) -> dict:
        long = {"truncation": False, "padding": "longest"} if name == "long" else {}
        inputs = self.processor(audio_of(CLIPS[name]), sampling_rate=RATE, return_tensors="pt", return_attention_mask=True, **long)
        return {"input_features": inputs["input_features"], "attention_mask": inputs["attention_mask"]}

    def make(self) -> tuple[dict, dict]:
        self.both = torch.cat([self.features(name)["input_features"] for name in ("short", "mixed")])
        tensors = self.encoder() | self.decoder()
        language, languages = self.languages()
        facts = {
            "class": "WhisperForConditionalGeneration",
            "stored_as": str(self.checkpoint.dtype).removeprefix("torch."),
            "transformers": __import__("transformers").__version__,
            "clips": CLIPS, "mel_frames": MEL_FRAMES, "frames": FRAMES,
        }  # fmt: skip
        tensors |= languages
        facts |= language
        facts["greedy"] = self.greedy()
        if self.checkpoint.name == "multi":
            facts["steps"], steps = self.steps()
            facts["sampling"], sampling = self.sampling()
            tensors |= steps | sampling
        facts["beams"] = self.beams()
        facts["fallback"] = self.fallback()
        facts["words"], alignment = self.words()
        facts["long"], long = self.long()
        facts["tokenizer"] = tokenizer_facts(self.processor.tokenizer, self.layout, self.checkpoint)
        facts["smallest_margin"], facts["smallest_beam_gap"] = (round(min(m), 6) for m in (self.margins, self.beam_gaps))
        return tensors | alignment | long, facts

    # Stages

    def encoder(self) -> dict:
        encoder, seen = self.model.model.encoder, {}
        hooks = [
            encoder.conv1.register_forward_hook(lambda _, __, out: seen.update(conv1=torch.nn.functional.gelu(out))),
            encoder.layers[0].register_forward_pre_hook(lambda _, inputs: seen.update(encoder_input=inputs[0].clone())),
            encoder.layers[0].register_forward_hook(lambda _, __, out: seen.update(encoder_layer0=out.clone())),
        ]
        seen["encoder"] = encoder(self.both).last_hidden_state
        for hook in hooks:
            hook.remove()
        alone = encoder(self.both[1:]).last_hidden_state
        torch.testing.assert_close(alone, seen["encoder"][1:], atol=2e-5, rtol=1e-4)
        tensors = {key: kept(seen[key], 1, FRAMES) for key in ("encoder_input", "encoder_layer0", "encoder")}
        return tensors | {"features": kept(self.both, 2, MEL_FRAMES), "conv1": kept(seen["conv1"], 2, MEL_FRAMES)}

    def decoder(self) -> dict:
        """Teacher-forced on a fixed text, and the same with the cache, token by token."""
        layout, model = self.layout, self.model
        control = [layout.ids["<|de|>"], layout.transcribe] if self.checkpoint.multilingual else []
        tokens = [layout.startoftranscript, *control, layout.timestamps + 7, layout.ids["Ġthe"], 67, layout.timestamps + 81]
        tokens = torch.tensor([tokens] * 2)
        model.config._attn_implementation = "eager"
        seen = {}
        hook = model.model.decoder.layers[0].register_forward_hook(lambda _, __, out: seen.update(layer0=out.clone()))
        out = model(self.both, decoder_input_ids=tokens, output_attentions=True)
        hook.remove()
        past, steps = None, []
        for i in range(tokens.shape[1]):
            given = {"encoder_outputs": (out.encoder_last_hidden_state,)} if i else {"input_features": self.both}
            step = model(**given, decoder_input_ids=tokens[:, i : i + 1], past_key_values=past, use_cache=True)
            past = step.past_key_values
            steps.append(step.logits)
        model.config._attn_implementation = "sdpa"
        torch.testing.assert_close(torch.cat(steps, dim=1), out.logits, atol=5e-5, rtol=1e-4)
        heads = [out.cross_attentions[layer][:, head] for layer, head in self.checkpoint.alignment_heads]
        return {
            "decoder_tokens": tokens[0], "decoder_layer0": seen["layer0"], "logits": out.logits[..., : layout.timestamps + 101],
            "cross_attention": kept(torch.stack(heads, dim=1), 3, FRAMES),
        }  # fmt: skip

    def languages(self) -> tuple[dict, dict]:
        if not self.checkpoint.multilingual:
            return {}, {}
        clips = ["short", "mixed", "silence"]
        inputs = torch.cat([self.features(name)["input_features"] for name in clips])
        start = torch.full((len(clips), 1), self.layout.startoftranscript)
        ids = list(self.layout.languages.values())
        chances = self.model(inputs, decoder_input_ids=start).logits[:, 0, ids].softmax(-1)
        detected = self.model.detect_language(inputs)
        assert [ids[i] for i in chances.argmax(-1)] == detected.tolist()
        self.margins += [float(best[0] - best[1]) for best in chances.log().topk(2).values]
        return {"languages": dict(zip(clips, detected.tolist()))}, {"languages": chances}

    # Decoding

    def run(self, clip: str, sure: bool = True, mask: bool = True, **options) -> tuple[dict, Trace]:
        """The class's own `generate` on one clip. `sure`: also in f64, and step by step without the cache."""
        inputs = dict(self.features(clip))
        if not (mask and options.get("return_token_timestamps")):
            inputs.pop("attention_mask")
        with Trace(self.model) as trace:
            out = self.model.generate(**inputs, **options)
        if sure:
            with Trace(self.exact) as exact:
                other = self.exact.generate(**inputs | {"input_features": inputs["input_features"].double()}, **options)
            assert [w["tokens"] for w in trace.windows] == [w["tokens"] for w in exact.windows], f"{clip} {options}"
            self.beam_gaps += trace.gaps
        if sure and options.get("num_beams", 1) == 1:
            stamps = bool(options.get("return_timestamps"))
            self.margins += [margin for window in trace.windows for margin in replay(self.model, window, stamps)]
        if sure and options.get("return_token_timestamps"):
            torch.testing.assert_close(other["token_timestamps"], out["token_timestamps"])
        return out, trace

    def described(self, clip: str, trace: Trace, **options) -> dict:
        """Options and results for `oracle.json`."""
        prompt = options.pop("prompt_ids", None)
        fact = {"clip": clip, "timestamps": options.pop("return_timestamps", False)}
        if prompt is not None:
            fact["prompt"] = prompt.tolist()
        for noise in ("return_segments", "return_dict_in_generate", "output_scores", "return_token_timestamps", "temperature"):
            options.pop(noise, None)
        return fact | options | {"windows": [{key: w[key] for key in ("seek", "prefix", "tokens")} for w in trace.windows]}

    def asked(self) -> list[dict]:
        prompt = {"prompt_ids": self.processor.get_prompt_ids(PROMPT, return_tensors="pt")}
        runs = [{}, prompt, {"max_new_tokens": 5}]
        if self.checkpoint.multilingual:
            runs += [{"language": "en", "task": "transcribe"}, {"language": "german", "task": "translate"}, {"task": "translate"}]
        return runs

    def greedy(self) -> list[dict]:
        facts = []
        for clip in ("short", "mixed"):
            for stamps in (False, True):
                for asked in self.asked():
                    options = asked | {"return_timestamps": stamps}
                    sequences, trace = self.run(clip, **options)
                    fact = self.described(clip, trace, **options)
                    tokens = sequences[0].tolist()
                    fact["tokens"] = tokens
                    fact["text"] = self.processor.decode(tokens, skip_special_tokens=True)
                    if stamps:
                        segments = self.run(clip, sure=False, return_segments=True, **options)[0]["segments"][0]
                        fact["segments"] = [segment_fact(segment) for segment in segments]
                        fact["text_with_timestamps"] = self.processor.decode(tokens, decode_with_timestamps=True)
                    facts.append(fact)
        return facts

    def steps(self) -> tuple[list, dict]:
        """Scores after all logits processors, for each kind of step in a run with timestamps."""
        _, trace = self.run("mixed", sure=False, return_timestamps=True)
        found = steps_worth_keeping(self.model, trace.windows)
        facts = [{key: step[key] for key in ("kind", "seek", "prefix", "begin", "token")} for step in found]
        return facts, {"step_scores": torch.stack([step["scores"] for step in found])}

    def sampling(self) -> tuple[dict, dict]:
        """The distribution of one step at temperature 0.6; the sampled token itself is not reproducible."""
        torch.manual_seed(0)
        options = {"return_timestamps": True, "temperature": 0.6, "max_new_tokens": 2, "force_unique_generate_call": True}
        out, _ = self.run("mixed", sure=False, return_dict_in_generate=True, output_scores=True, **options)
        chances = [scores[0].softmax(-1) for scores in out.scores]
        fact = {"clip": "mixed", "temperature": 0.6, "prefix": out.sequences[0].tolist()[:-1]}
        return fact | {"kept": int((chances[1] > 0).sum())}, {"sampling": chances[1]}

    def beams(self) -> list[dict]:
        facts = []
        # Late in an endless text the sums are so large that rounding decides.
        variants = [{"max_new_tokens": 40}]
        if self.checkpoint.name == "multi":
            variants = [{}, {"early_stopping": True}, {"length_penalty": 0.3}]
        for clip in ("short", "mixed"):
            for stamps in (False, True):
                for variant in variants:
                    options = {"num_beams": 5, "return_timestamps": stamps} | variant
                    options |= {"return_dict_in_generate": True, "output_scores": True}
                    _, trace = self.run(clip, **options)
                    fact = self.described(clip, trace, **options)
                    for window, seen in zip(fact["windows"], trace.windows):
                        window["score"] = seen["score"]
                    if self.checkpoint.name == "multi":
                        self.check_beams(trace.windows[0], stamps, variant)
                    facts.append(fact)
        return facts

    def check_beams(self, window: dict, stamps: bool, variant: dict) -> None:
        scores_after = beam_scores(self.model, window, processors_of(self.model, len(window["prefix"]), stamps))
        penalty, early = variant.get("length_penalty", 1.0), variant.get("early_stopping", False)
        tokens, score = beam_search(scores_after, window["prefix"], self.layout.endoftext, 5, 448, penalty, early)
        assert tokens == window["tokens"] and abs(score - window["score"]) < 1e-4

    def fallback(self) -> list[dict]:
        """Inputs of the temperature fallback, and its decisions with thresholds on either side of them."""
        facts = []
        prompt = {"prompt_ids": self.processor.get_prompt_ids(PROMPT, return_tensors="pt")}
        for clip in ("short", "mixed", "silence"):
            for asked in ({"return_timestamps": True}, {"return_timestamps": False}, prompt):
                thresholds = {"compression_ratio_threshold": 100.0, "logprob_threshold": -100.0, "no_speech_threshold": 0.5}
                trace = self.run(clip, sure=False, temperature=0.0, **thresholds, **asked)[1]
                fact = self.described(clip, trace, **asked)
                fact["prefix"] = fact.pop("windows")[0]["prefix"]
                facts.append(fact | decisions(self.model, trace.decided[0]))
        return facts

    def words(self) -> tuple[list, dict]:
        """Times of tokens and words, with and without a known audio length."""
        facts, tensors = [], {}
        for clip in ("short", "mixed"):
            for stamps, known, extra in ((False, True, {}), (False, False, {}), (True, False, {}), (False, True, {"num_beams": 5})):
                options = {"return_timestamps": stamps, "return_token_timestamps": True, "return_segments": True} | extra
                out, trace = self.run(clip, mask=known, **options)
                fact = self.described(clip, trace, **options)
                fact["num_frames"] = int(self.features(clip)["attention_mask"].sum()) if known else None
                fact["segments"] = [segment_fact(segment) for segment in out["segments"][0]]
                if not stamps:
                    text, found = self.processor.tokenizer._decode_asr(
                        [{"tokens": out["sequences"], "token_timestamps": out["token_timestamps"]}],
                        return_timestamps="word", return_language=False, time_precision=0.02,
                    )  # fmt: skip
                    fact["text"] = text
                    fact["words"] = [{"text": word["text"], "start": word["timestamp"][0], "end": word["timestamp"][1]}
                                     for word in found["chunks"]]  # fmt: skip
                if clip == "short" and known and not extra:
                    alignment = trace.alignments[0]
                    tensors = {"alignment": alignment["weights"], "alignment_matrix": alignment["matrix"]}
                    fact["text_indices"], fact["time_indices"] = alignment["text"], alignment["time"]
                facts.append(fact)
        self.model.config._attn_implementation = self.exact.config._attn_implementation = "sdpa"
        return facts, tensors

    def long(self) -> tuple[list, dict]:
        """A recording of 72.7 s, longer than one window."""
        features = self.features("long")["input_features"]
        runs = [{"condition_on_prev_tokens": False}, {"condition_on_prev_tokens": True}]
        prompt = {"prompt_ids": self.processor.get_prompt_ids(PROMPT, return_tensors="pt")}
        if self.checkpoint.name == "multi":
            runs += [runs[0] | prompt, runs[1] | prompt, runs[1] | prompt | {"prompt_condition_type": "all-segments"},
                     runs[0] | {"return_token_timestamps": True}]  # fmt: skip
        facts = []
        for asked in runs:
            options = {"return_timestamps": True, "return_segments": True, "temperature": 0.0} | asked
            out, trace = self.run("long", **options)
            fact = self.described("long", trace, **options)
            fact["segments"] = [segment_fact(segment) for segment in out["segments"][0]]
            previous = self.layout.startofprev if asked["condition_on_prev_tokens"] else None
            everywhere = previous is None or asked.get("prompt_condition_type") == "all-segments"
            start = [t for t in trace.windows[0]["prefix"] if t in self.layout.init_tokens]
            check_windows(trace.windows, fact["segments"], features.shape[2], self.layout.timestamps, start, previous,
                          fact.get("prompt"), everywhere)  # fmt: skip
            facts.append(fact)
        self.model.config._attn_implementation = self.exact.config._attn_implementation = "sdpa"
        return facts, {"long_features": torch.cat([features[0, :, :16], features[0, :, -16:]], dim=1)}
