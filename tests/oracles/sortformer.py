"""The diarizer with random weights: its stages, its speaker cache, and minutes of it, offline and live."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Nemotron3DiarizationConfig, Nemotron3DiarizationForAudioFrameClassification, Nemotron3DiarizationProcessor
from transformers import NemotronAsrStreamingFeatureExtractor
from transformers.models.nemotron3_diarization.modeling_nemotron3_diarization import Nemotron3DiarizationSpeakerCache

from speech import readable, recording

SPEAKERS, FACTOR, MELS, WIDTH = 3, 8, 16, 32
CONFIG = {
    "audio_config": {"hidden_size": WIDTH, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48, "num_mel_bins": MELS},
    "head_config": {"hidden_size": 12, "num_speakers": SPEAKERS, "audio_hidden_size": WIDTH},
    "streaming_config": {"num_speakers": SPEAKERS, "speaker_cache_length": 25, "fifo_length": 26, "speaker_cache_update_period": 22},
    "chunk_length": 34, "chunk_right_context": 4, "chunk_left_context": 2, "fifo_length": 8, "speaker_cache_update_period": 30,
}  # fmt: skip
LIVE = (9, 4)
POOL = 32
MINUTES = 3
# Mel frames of the recordings: minutes, with an incomplete last group; less than a chunk; one group; less than a group.
LONG = MINUTES * 6000 + 5
SHORT = (203, 8, 3)
# Frames whose stretches of speech are listed.
TOLD = 2000


def lively(model: torch.nn.Module) -> None:
    """Rescales random weights so that speakers come and go, alone and together."""
    for name, value in model.named_parameters():
        if "upsampler" in name and value.ndim == 3:
            value.add_(torch.randn_like(value) * 0.15)
        elif name == "classifier.out_proj.weight":
            value.normal_(std=2.0 * value.shape[1] ** -0.5)
        elif name == "classifier.out_proj.bias":
            value.fill_(-1.0)
        elif value.ndim == 2:
            value.normal_(std=1.3 * value.shape[1] ** -0.5)
            if "embedder" in name:
                # Loudness does not matter: log-mels lie far from zero.
                value.sub_(value.mean(dim=1, keepdim=True))
        elif "layer_norm" in name and name.endswith("weight"):
            value.normal_(1.0, 0.2)
        else:
            value.normal_(0.0, 0.3)


def order(frames: int) -> list[int]:
    """Numbers of groups of frames, as people speak: turns of some seconds, each from a few groups of the pool."""
    generator = torch.Generator().manual_seed(5)
    chosen: list[int] = []
    while len(chosen) * FACTOR < frames:
        length = int(torch.randint(10, 70, (), generator=generator))
        first = int(torch.randint(0, POOL - 10, (), generator=generator))
        chosen += (first + torch.randint(0, 10, (length,), generator=generator)).tolist()
    return chosen[: -(-frames // FACTOR)]


def stages(model, features: torch.Tensor) -> dict[str, torch.Tensor]:
    """The stages of one window."""
    tower = model.model.audio_tower
    encoded = tower(input_features=features).last_hidden_state
    scored = model.classifier(model.model(input_features=features).last_hidden_state)
    return {"window": features, "embedded": tower.embedder(features), "encoded": encoded, "scored": scored}


def live(model, features: torch.Tensor) -> tuple[torch.Tensor, Nemotron3DiarizationSpeakerCache]:
    """A stream's logits, a chunk a call, and the state at its end."""
    (chunk, ahead), cache, logits = LIVE, None, []
    for start in range(0, features.shape[1], chunk * FACTOR):
        piece = features[:, start : start + (chunk + ahead) * FACTOR]
        beyond = max(-(-piece.shape[1] // FACTOR) - chunk, 0)
        output = model(piece, speaker_cache=cache, num_lookahead_frames=beyond)
        cache = output.speaker_cache
        logits.append(output.logits)
    return torch.cat(logits, dim=1)[:, : features.shape[1]], cache


class EarliestOfEqual:
    """Has `torch.topk` choose the earliest of equal scores, which it leaves open: a frame that two speakers share is in the cache twice, with
    equal scores. Keeps the smallest distance of a chosen score from another one that is not: below it rounding decides."""

    def __init__(self):
        self.smallest_margin, self.topk = float("inf"), torch.topk

    def __enter__(self):
        def topk(scores, count, dim, sorted):
            best = scores.sort(dim=dim, descending=True, stable=True)
            if count < scores.shape[dim]:
                gaps = (best.values.select(dim, count - 1) - best.values.select(dim, count)).flatten().tolist()
                self.smallest_margin = min([self.smallest_margin, *(gap for gap in gaps if 0 < gap < float("inf"))])
            return best.values.narrow(dim, 0, count), best.indices.narrow(dim, 0, count)

        torch.topk = topk
        return self

    def __exit__(self, *_):
        torch.topk = self.topk


def shares() -> dict[str, torch.Tensor]:
    """Activities of the frames of an overflowing cache, `[frames, speakers]`, of many kinds."""
    generator = torch.Generator().manual_seed(11)
    rand = lambda *shape: torch.rand(*shape, generator=generator)  # noqa: E731
    alone = torch.zeros(40, SPEAKERS)
    alone[:, 1] = 0.55 + 0.44 * rand(40)
    few = 0.4 * rand(40, SPEAKERS)
    few[[3, 17, 18], 2] = torch.tensor([0.9, 0.7, 0.8])
    overlap = 0.55 + 0.44 * rand(47, SPEAKERS)
    overlap[::6, 1:] = 0.02
    turns = torch.zeros(60, SPEAKERS)
    for number in range(60):
        turns[number, number // 20] = 0.6 + 0.39 * rand(1)
    # Runs of equal frames: which of a run is kept is open, what is kept is not.
    ties = rand(12, SPEAKERS).repeat_interleave(5, dim=0)
    equal = torch.zeros(33, SPEAKERS)
    equal[:, 0] = 0.7
    return {
        "mixed": rand(55, SPEAKERS), "one_more": rand(26, SPEAKERS), "silent": torch.zeros(40, SPEAKERS), "alone": alone,
        "few": few, "overlap": overlap, "turns": turns, "ties": ties, "equal": equal,
        "half": torch.full((30, SPEAKERS), 0.5),
    }  # fmt: skip


def policy(model) -> tuple[dict[str, torch.Tensor], dict]:
    """Each stage of the speaker cache by itself."""
    cache = Nemotron3DiarizationSpeakerCache(model.config.streaming_config)
    tensors = {}
    for name, activity in shares().items():
        scores = cache._get_frame_scores(activity[None])
        tensors[f"activity_{name}"] = activity
        tensors[f"scores_{name}"] = scores[0].clone()
        scores[:, cache.speaker_cache_length :] += cache.latest_frames_score_boost
        strong = cache._boost_scores(scores, cache.num_strong_boosted_frames, 2.0 * 0.6931471805599453)
        tensors[f"strong_{name}"] = strong[0]
        tensors[f"weak_{name}"] = cache._boost_scores(strong, cache.num_weak_boosted_frames, 0.6931471805599453)[0]
        # A frame's vector is its number, that of a run of equal ones the run's.
        same = (activity[1:] != activity[:-1]).any(dim=1)
        run = torch.cat([torch.zeros(1), same.cumsum(0).float()])
        embeds, kept = cache._compress(run[None, :, None], activity[None], torch.tensor([-1.0]))
        tensors[f"kept_{name}"] = embeds[0, :, 0]
        tensors[f"kept_activity_{name}"] = kept[0]
    logits = torch.randn(1, 6 * FACTOR, SPEAKERS, generator=torch.Generator().manual_seed(3)) * 3
    cache.lazy_initialization(torch.zeros(1, 1, WIDTH))
    tensors |= {"pooled_logits": logits[0], "pooled": cache._pool_probs(logits, None)[0]}
    moved = {}
    for length, period in ((26, 22), (8, 30), (40, 300)):
        cache.fifo_length, cache.speaker_cache_update_period = length, period
        moved[f"{length}/{period}"] = [cache._num_popped_frames(frames) for frames in range(400)]
    return tensors, {"cases": list(shares()), "moved": moved}


def make_sortformer(folder: Path) -> None:
    torch.manual_seed(71)
    config = Nemotron3DiarizationConfig(**CONFIG)
    model = Nemotron3DiarizationForAudioFrameClassification(config).eval()
    lively(model)
    model.config.architectures = ["Nemotron3DiarizationForAudioFrameClassification"]
    model.config.save_pretrained(folder)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, folder / "model.safetensors")
    processor = Nemotron3DiarizationProcessor(NemotronAsrStreamingFeatureExtractor(feature_size=MELS), subsampling_factor=FACTOR)
    processor.save_pretrained(folder)
    audio = torch.from_numpy(recording())
    mels = processor(audio.numpy(), sampling_rate=16000)["input_features"][0]
    pool = mels[: POOL * FACTOR].reshape(POOL, FACTOR, MELS)
    groups = order(LONG)
    features = pool[groups].reshape(1, -1, MELS)[:, :LONG]
    tensors, facts = policy(model)
    tensors |= stages(model, features[:, : 61 * FACTOR]) | {"pool": pool}
    with EarliestOfEqual() as offline:
        tensors["offline"] = model(features).logits
    segments = processor.extract_speaker_dict(tensors["offline"][:, :TOLD])[0]
    for frames in SHORT:
        tensors[f"offline_{frames}"] = model(features[:, :frames]).logits
    # A second of it, without the masked frame at the end.
    inputs = processor(audio[:16000].numpy(), sampling_rate=16000)
    tensors |= {"audio": audio[:16000], "mels": inputs["input_features"][0, :-1]}
    with EarliestOfEqual() as streamed:
        tensors["live"], cache = live(model, features)
    tensors["live_cache"] = cache.embeds[0, : cache.num_cache_frames]
    tensors["live_cache_activity"] = cache.probs[0, : cache.num_cache_frames]
    tensors["live_queue"] = cache.fifo[0, : cache.num_fifo_frames]
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "oracle.safetensors")
    facts |= {"order": groups, "frames": LONG, "short": SHORT, "live": LIVE, "told": TOLD, "smallest_margin": min(offline.smallest_margin, streamed.smallest_margin), "segments": [[*segment.values()] for segment in segments]}
    (folder / "oracle.json").write_text(json.dumps(facts) + "\n")
    readable(folder)
