"""Saves one checkpoint in its published form and, beside it, the outputs of the loaded class, stage by stage."""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoProcessor

from checkpoints import Checkpoint, model as random_model, processor as make_processor
from greedy import ctc_path, transducer_path
from speech import RATE, padded, readable, utterances

PREDICTOR_TOKENS = (8, 15, 8, 30)


def make_model(checkpoint: Checkpoint, folder: Path) -> None:
    save(checkpoint, folder)
    model = checkpoint.model.from_pretrained(folder, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(folder)
    oracle = Oracle(checkpoint, model, processor)
    tensors, values = oracle.make()
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text(dumps(values) + "\n")
    readable(folder)


def save(checkpoint: Checkpoint, folder: Path) -> None:
    model, processor = random_model(checkpoint), make_processor(checkpoint)
    model.save_pretrained(folder, **({"max_shard_size": checkpoint.shards} if checkpoint.shards else {}))
    processor.save_pretrained(folder)
    if checkpoint.name == "ctc":
        # Folders published before processor_config.json held everything have the feature settings in a file of their own.
        processor.feature_extractor.save_pretrained(folder)
        path = folder / "processor_config.json"
        settings = json.loads(path.read_text())
        path.write_text(json.dumps({"processor_class": settings["processor_class"]}, indent=2) + "\n")


def dumps(value, indent: int = 0) -> str:
    """JSON with one line for each list of numbers."""
    if isinstance(value, dict):
        pad = "  " * (indent + 1)
        lines = ",\n".join(f"{pad}{json.dumps(k)}: {dumps(v, indent + 1)}" for k, v in value.items())
        return "{\n" + lines + "\n" + "  " * indent + "}"
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        pad = "  " * (indent + 1)
        return "[\n" + ",\n".join(pad + dumps(item, indent + 1) for item in value) + "\n" + "  " * indent + "]"
    return json.dumps(value, ensure_ascii=False)


class Oracle:
    def __init__(self, checkpoint: Checkpoint, model, processor):
        self.checkpoint, self.model, self.processor = checkpoint, model, processor
        self.pieces = utterances()
        self.margins: list[float] = []

    def make(self) -> tuple[dict, dict]:
        checkpoint, model = self.checkpoint, self.model
        audio, audio_lengths = padded(self.pieces)
        inputs = self.inputs(self.pieces)
        feature_lengths = inputs["attention_mask"].sum(-1)
        tensors = {
            "audio": audio,
            "audio_lengths": audio_lengths,
            "features": inputs["input_features"],
            "feature_lengths": feature_lengths,
        }
        stages = self.encode(inputs)
        tensors |= stages
        values = {
            "class": type(model).__name__,
            "stored_as": str(checkpoint.dtype).removeprefix("torch."),
            "transformers": __import__("transformers").__version__,
        }
        if checkpoint.name == "ctc":
            tensors["logits"] = self.valid(model(**inputs).logits)
            values["utterances"] = self.transcripts(inputs)
        else:
            tensors |= self.transducer(stages["encoder_projected"])
            if checkpoint.languages:
                for language in checkpoint.languages:
                    tensors |= self.prompted(language)
                del tensors["encoder_projected_auto"]  # this is encoder_projected
                values["languages"] = {
                    language: {
                        "prompt_id": self.processor.prompt_dictionary[language],
                        "utterances": self.transcripts(self.inputs(self.pieces, language=language), language=language),
                    }
                    for language in checkpoint.languages
                }
            else:
                values["utterances"] = self.transcripts(inputs)
        if checkpoint.streams:
            values["default_look_ahead"] = model.config.encoder_config.default_num_lookahead_tokens
            values["look_aheads"], values["streams"] = {}, []
            for look_ahead in checkpoint.look_aheads:
                ahead = self.inputs(self.pieces) | {"num_lookahead_tokens": look_ahead}
                tensors[f"encoder_la{look_ahead}"] = self.encode(ahead)["encoder"]
                values["look_aheads"][str(look_ahead)] = self.transcripts(ahead)
                for number in range(len(self.pieces)):
                    stream, frames = self.stream(number, look_ahead)
                    values["streams"].append(stream)
                    if not stream["whole_chunks"]:
                        tensors[f"stream{number}_la{look_ahead}"] = frames
            for language in checkpoint.languages[1:]:
                values["streams"].append(self.stream(0, 3, language)[0])
        values["smallest_margin"] = round(min(self.margins), 4)
        return tensors, values

    def inputs(self, pieces, **options) -> dict:
        return dict(self.processor(list(pieces), sampling_rate=RATE, **options))

    def valid(self, frames: torch.Tensor) -> torch.Tensor:
        """Sets frames past an utterance's end to zero: their values are undefined."""
        mask = torch.arange(frames.shape[1])[None] < self.lengths[:, None]
        return frames.masked_fill(~mask[..., None], 0.0)

    def encode(self, inputs: dict) -> dict:
        seen = {}
        encoder = self.model.encoder
        hooks = [
            encoder.subsampling.register_forward_hook(lambda _, __, out: seen.update(subsampling=out.clone())),
            encoder.layers[0].register_forward_hook(lambda _, __, out: seen.update(layer0=out.clone())),
        ]
        arguments = {k: v for k, v in inputs.items() if k != "prompt_ids"}
        outputs = encoder(**arguments)
        for hook in hooks:
            hook.remove()
        self.lengths = outputs.attention_mask.sum(-1).long()
        stages = {
            "subsampling": self.valid(seen["subsampling"]),
            "layer0": self.valid(seen["layer0"]),
            "encoder": self.valid(outputs.last_hidden_state),
            "encoder_lengths": self.lengths,
        }
        if self.checkpoint.name != "ctc":
            stages["encoder_projected"] = self.valid(self.model.get_audio_features(**inputs).pooler_output)
        for number, piece in enumerate(self.pieces):
            alone = {k: v for k, v in inputs.items()}
            alone |= {k: v for k, v in self.inputs([piece]).items() if k in ("input_features", "attention_mask")}
            alone.pop("prompt_ids", None)
            one = encoder(**alone).last_hidden_state[0]
            length = int(self.lengths[number])
            torch.testing.assert_close(one[:length], stages["encoder"][number, :length], atol=2e-5, rtol=1e-4)
        return stages

    def prompted(self, language: str) -> dict:
        """The encoder's frames after the language prompt, and their projection."""
        kept = {}
        hook = self.model.prompt_projector.register_forward_hook(lambda _, __, out: kept.update(out=out))
        projected = self.model.get_audio_features(**self.inputs(self.pieces, language=language)).pooler_output
        hook.remove()
        return {f"prompted_{language}": self.valid(kept["out"]), f"encoder_projected_{language}": self.valid(projected)}

    def transducer(self, projected: torch.Tensor) -> dict:
        model = self.model
        vocabulary = model.config.vocab_size
        tokens = torch.tensor([model.config.blank_token_id, *PREDICTOR_TOKENS])
        predictor = model.decoder(tokens[None])[0]
        joint = model.joint(
            encoder_hidden_states=projected[0, :4, None, :], decoder_hidden_states=predictor[None, :, :]
        )
        tensors = {"predictor_tokens": tokens, "predictor": predictor, "joint": joint[..., :vocabulary]}
        if joint.shape[-1] > vocabulary:
            tensors["joint_durations"] = joint[..., vocabulary:]
        return tensors

    def transcripts(self, inputs: dict, language: str | None = None) -> list[dict]:
        """Greedy results of the class itself, all at once and one by one, and of the loop that the README describes."""
        together = self.generate(inputs)
        results = []
        for number, piece in enumerate(self.pieces):
            alone = self.inputs([piece], **({"language": language} if language else {}))
            alone |= {k: v for k, v in inputs.items() if k == "num_lookahead_tokens"}
            result = self.generate(alone)[0]
            assert result == together[number], f"{self.checkpoint.name} {number}: batch and single differ"
            results.append(result)
            self.compare_with_loop(alone, result)
        return results

    def generate(self, inputs: dict) -> list[dict]:
        if self.checkpoint.name == "ctc":
            rows = self.model.generate(**inputs)
            lengths = self.model._get_output_attention_mask(inputs["attention_mask"]).sum(-1)
            return [self.ctc_result(row[: int(length)].tolist()) for row, length in zip(rows, lengths)]
        outputs = self.model.generate(**inputs)
        lengths = self.model.encoder._get_subsampling_output_length(inputs["attention_mask"].sum(-1))
        return [
            self.transducer_result(row.tolist(), steps.tolist(), int(length))
            for row, steps, length in zip(outputs.sequences, outputs.durations, lengths)
        ]

    def ctc_result(self, path: list[int]) -> dict:
        blank = self.model.config.pad_token_id
        starts = [i for i, token in enumerate(path) if token != blank and (i == 0 or path[i - 1] != token)]
        return {
            "tokens": [path[i] for i in starts],
            "timestamps": starts,
            "path": path,
            "text": self.processor.decode(path, skip_special_tokens=True),
        }

    def transducer_result(self, sequence: list[int], steps: list[int], length: int) -> dict:
        """`sequence` starts with the start symbol. Rows of a batch run on after their own end: cut there."""
        blank = self.model.config.blank_token_id
        frame, tokens, timestamps, durations, kept = 0, [], [], [], []
        for token, step in zip(sequence[1:], steps[1:]):
            if frame >= length:
                break
            kept.append(token)
            if token != blank:
                tokens.append(token)
                timestamps.append(frame)
                durations.append(step)
            frame += step
        assert frame >= length, "stopped before the last frame"
        result = {"tokens": tokens, "timestamps": timestamps}
        if self.checkpoint.name == "tdt":
            result["durations"] = durations
        result["steps"] = len(kept)
        result["text"] = self.processor.decode(kept, skip_special_tokens=True)
        if self.checkpoint.languages:
            result["text_with_tags"] = self.processor.decode(tokens, skip_special_tokens=False)
        return result

    def compare_with_loop(self, inputs: dict, result: dict) -> None:
        if self.checkpoint.name == "ctc":
            path, margin = ctc_path(self.model(**inputs).logits[0, : len(result["path"])])
            assert path == result["path"]
        else:
            outputs = self.model.get_audio_features(**inputs)
            length = int(outputs.attention_mask.sum())
            emitted, margin = transducer_path(self.model, outputs.pooler_output[0, :length])
            assert [e[0] for e in emitted] == result["tokens"], "the loop in greedy.py differs from generate"
            assert [e[1] for e in emitted] == result["timestamps"]
            if self.checkpoint.name == "tdt":
                assert [e[2] for e in emitted] == result["durations"]
        self.margins.append(margin)

    def stream(self, number: int, look_ahead: int, language: str | None = None) -> tuple[dict, torch.Tensor]:
        """The class's own chunked streaming over the offline features, the last chunk filled up with zero frames."""
        inputs = self.inputs([self.pieces[number]])
        features = inputs["input_features"][:, : int(inputs["attention_mask"].sum())]
        chunks = self.chunks(features, look_ahead)
        whole = sum(chunk.shape[1] for chunk in chunks) == features.shape[1]
        past, padding, encoded = None, None, []
        for chunk in chunks:
            out = self.model.encoder(
                chunk, past_key_values=past, padding_cache=padding, use_cache=True, num_lookahead_tokens=look_ahead
            )
            past, padding = out.past_key_values, out.padding_cache
            assert out.last_hidden_state.shape[1] == look_ahead + 1
            encoded.append(out.last_hidden_state)
        encoded = torch.cat(encoded, dim=1)
        offline = self.model.encoder(features, num_lookahead_tokens=look_ahead).last_hidden_state
        sure = encoded.shape[1] if whole else (len(chunks) - 1) * (look_ahead + 1)
        torch.testing.assert_close(encoded[:, :sure], offline[:, :sure], atol=2e-5, rtol=1e-4)
        prompt = {"prompt_ids": torch.tensor([self.processor.prompt_dictionary[language]])} if language else {}
        outputs = self.model.generate(
            input_features=(chunk for chunk in chunks), num_lookahead_tokens=look_ahead, **prompt
        )
        result = self.transducer_result(outputs.sequences[0].tolist(), outputs.durations[0].tolist(), encoded.shape[1])
        self.check_streamed_features(number, look_ahead, chunks)
        stream = {"utterance": number, "look_ahead": look_ahead, "whole_chunks": whole}
        if self.checkpoint.languages:
            stream["language"] = language or "auto"
        stream["chunk_mel_frames"] = [chunk.shape[1] for chunk in chunks]
        stream["filled_mel_frames"] = sum(stream["chunk_mel_frames"]) - features.shape[1]
        return stream | result, encoded

    def chunks(self, features: torch.Tensor, look_ahead: int) -> list[torch.Tensor]:
        first, later = 1 + 8 * look_ahead, 8 * (look_ahead + 1)
        frames = features.shape[1]
        filled = (first - frames) % later if frames > first else first - frames
        features = torch.nn.functional.pad(features, (0, 0, 0, filled))
        return [features[:, :first], *features[:, first:].split(later, dim=1)]

    def check_streamed_features(self, number: int, look_ahead: int, chunks: list[torch.Tensor]) -> None:
        """Asserts that streaming features equal those of the whole utterance."""
        self.processor.set_num_lookahead_tokens(look_ahead)
        before = 256  # with look-ahead 0 the second chunk starts 96 samples before the utterance
        samples, frame = np.pad(self.pieces[number], (before, 0)), 0
        for chunk in chunks:
            first = frame == 0
            start = before + (0 if first else 160 * frame - 256)
            count = self.processor.num_samples_first_audio_chunk if first else self.processor.num_samples_per_audio_chunk
            if start + count > len(samples):
                break
            piece = self.processor(
                samples[start : start + count], sampling_rate=RATE, is_streaming=True, is_first_audio_chunk=first
            )["input_features"]
            assert piece.shape[1] == chunk.shape[1] + (1 if first else 0)
            torch.testing.assert_close(piece[:, : chunk.shape[1]], chunk, atol=1e-4, rtol=1e-4)
            frame += chunk.shape[1]
        self.processor.set_num_lookahead_tokens(self.checkpoint.encoder["default_num_lookahead_tokens"])
