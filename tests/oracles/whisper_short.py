"""What a Whisper checkpoint hears in a window that is cut behind its sound: `fixtures/whisper/short_window`.

The published class takes windows of one length; with fewer positions it is the same network over a shorter one.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

from models import dumps
from speech import RATE, readable
from whisper_runs import audio_of

FIXTURES = Path(__file__).parent.parent / "fixtures" / "whisper"
CLIP = [[0, 39840]]
MARGIN, GRID = 64, 32


def cut(folder: Path, frames: int) -> WhisperForConditionalGeneration:
    """The checkpoint with an encoder of `frames` positions."""
    model = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    encoder = model.model.encoder
    encoder.embed_positions = torch.nn.Embedding.from_pretrained(encoder.embed_positions.weight[:frames].clone())
    encoder.max_source_positions = model.config.max_source_positions = frames
    return model


@torch.no_grad()
def make_short_window(folder: Path, out: Path) -> None:
    audio = audio_of(CLIP)
    frames = (-(-len(audio) // 320) + MARGIN + GRID - 1) // GRID * GRID
    model = cut(folder, frames)
    features = WhisperFeatureExtractor.from_pretrained(folder)(audio, sampling_rate=RATE, return_tensors="pt")["input_features"]
    features = features[:, :, : 2 * frames]
    encoded = model.model.encoder(features).last_hidden_state
    runs = []
    for options in ({}, {"num_beams": 5}):
        for language in ("en", "de"):
            out = model.generate(features, return_timestamps=True, language=language, max_new_tokens=40, **options)
            runs.append({"language": language, "beams": options.get("num_beams", 1), "tokens": out[0].tolist()})
    languages = [token for _, token in sorted(model.generation_config.lang_to_id.items(), key=lambda row: row[1])]
    start = torch.full((1, 1), model.generation_config.decoder_start_token_id)
    chances = model(features, decoder_input_ids=start).logits[:, 0, languages].softmax(-1)
    save_file({"encoder": encoded.contiguous(), "languages": chances.contiguous()}, out / "oracle.safetensors")
    facts = {"clip": CLIP, "margin": MARGIN, "frames": frames, "language_tokens": languages, "runs": runs}
    (out / "oracle.json").write_text(dumps(facts) + "\n")
    readable(out)


if __name__ == "__main__":
    make_short_window(FIXTURES / "multi", FIXTURES / "short_window")
