"""The recipe of few bits and short windows: the network is the published class, files hold what training saw, a run goes on."""

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import WhisperForConditionalGeneration

from recipes.vad import synthetic
from recipes.whisper import export, network, quantise
from recipes.whisper.store import Store, write
from recipes.whisper.train import train
from recipes.whisper.windows import FRAME, MARGIN, Windows

CHECKPOINT = Path(__file__).parents[3] / "tests/fixtures/whisper/taught"
SECOND = 16000


def store(folder: Path) -> Store:
    rng = np.random.default_rng(0)
    lengths = {"32-a": 3, "32-b": 2, "19-a": 4, "19-b": 1.5, "26-a": 9, "26-b": 31}
    sounds = ((name, 0.1 * rng.standard_normal(int(seconds * SECOND)), "the old man came home", "en") for name, seconds in lengths.items())
    folder.mkdir(exist_ok=True)
    write("readers-en", sounds, folder)
    write("tones", ((str(number), synthetic.make("tones", number, 2.0), "", "") for number in range(90)), folder)
    write("noise", ((f"rain-1-{number}.opus", 0.1 * rng.standard_normal(SECOND), "", "") for number in (1, 30)), folder)
    return Store(folder)


def configuration() -> tuple[dict, dict]:
    return tuple(json.loads((CHECKPOINT / f"{name}.json").read_text()) for name in ("config", "generation_config"))


def test_the_network_is_that_of_the_published_class():
    model = WhisperForConditionalGeneration.from_pretrained(CHECKPOINT, dtype=torch.float32).eval()
    weights = {name: value.float() for name, value in load_file(CHECKPOINT / "model.safetensors").items()}
    shape = network.Shape.of(*configuration())
    features, tokens = torch.randn(2, 80, 3000), torch.randint(0, 300, (2, 7))
    with torch.no_grad():
        model.config._attn_implementation = "eager"
        wanted = model(features, decoder_input_ids=tokens, output_hidden_states=True, output_attentions=True)
        hidden, shown = network.decode(weights, shape, tokens, network.encode(weights, shape, features))
        torch.testing.assert_close(hidden, wanted.decoder_hidden_states[-1], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(network.scores(weights, hidden), wanted.logits, atol=1e-3, rtol=1e-4)
        for at, (layer, head) in enumerate(shape.alignment_heads):
            torch.testing.assert_close(shown[:, at].exp(), wanted.cross_attentions[layer][:, head], atol=1e-5, rtol=1e-3)


def test_files_hold_the_weights_that_training_saw():
    torch.manual_seed(1)
    weight = torch.randn(512, 768) * torch.rand(512, 1)
    weight[0, :256] = 0
    weight[1, 3] = 40  # an outlier
    weight[2] = weight[2].abs()
    for kind, name in (("Q4_K", "model.encoder.layers.0.fc1.weight"), ("Q8_0", "model.encoder.embed_positions.weight")):
        assert quantise.kind_of(name, weight) == kind
        packed = np.frombuffer(quantise.pack(kind, weight), np.uint8).reshape(512, -1)
        read = torch.from_numpy(gguf.quants.dequantize(packed, gguf.GGMLQuantizationType[kind]))
        stored = quantise.as_stored(name, weight)
        torch.testing.assert_close(read, stored, atol=1e-6, rtol=1e-5)
        # Once more: all but a few values of blocks whose scale has a neighbour as good.
        assert (quantise.as_stored(name, stored) - stored).norm() / weight.norm() < 1e-4
        assert (stored - weight).norm() / weight.norm() < (0.1 if kind == "Q4_K" else 0.01)
    # A convolution is stored as the matrix of its outputs.
    convolution = torch.randn(64, 32, 3)
    packed = np.frombuffer(quantise.pack("Q8_0", convolution), np.uint8).reshape(64, -1)
    read = torch.from_numpy(gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)).reshape(convolution.shape)
    torch.testing.assert_close(read, quantise.as_stored("model.encoder.conv2.weight", convolution), atol=1e-6, rtol=1e-5)
    # The smallest scale of 8 bits: it has few digits itself.
    faint = torch.full((1, 32), 3e-4)
    assert (quantise.as_stored("embed_positions", faint) > 0).all()


def test_calibrated_rounding_changes_outputs_less_than_rounding_to_the_nearest():
    torch.manual_seed(2)
    weight = torch.randn(64, 256)
    inputs = torch.randn(2000, 24) @ torch.randn(24, 256) + 0.1 * torch.randn(2000, 256)
    nearest, calibrated = quantise.rounded(weight, quantise.steps(weight)), quantise.calibrated(weight, inputs.T @ inputs)
    torch.testing.assert_close(quantise.rounded(calibrated, quantise.steps(weight)), calibrated)
    changed = [(inputs @ (one - weight).T).norm() for one in (nearest, calibrated)]
    assert changed[1] < 0.7 * changed[0]


def test_a_window_is_a_function_of_seed_and_step(tmp_path):
    tokenizer = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    windows = Windows(store(tmp_path / "store"), tokenizer, 5)
    special = tokenizer.token_to_id
    for step in range(12):
        batch, again = windows.batch(step), windows.batch(step)
        assert torch.equal(batch.sound, again.sound) and torch.equal(batch.tokens, again.tokens) and batch.frames == again.frames
        heard = batch.heard.sum(1)
        assert heard.max() <= batch.frames and (batch.frames == 1500 or batch.frames - heard.max() >= MARGIN)
        assert not batch.sound[:, int(heard.max()) * FRAME :].any() and batch.sound.abs().max() <= 1
        assert (batch.tokens[:, 0] == special("<|startoftranscript|>")).all()
        ends = batch.weight.gt(0).sum(1) - 1
        assert (batch.tokens.gather(1, ends[:, None]) == special("<|endoftext|>")).all()
    assert not torch.equal(windows.batch(0).sound, windows.batch(1).sound)


def test_a_run_goes_on_and_its_export_is_whole(tmp_path):
    store(tmp_path / "store")
    run = tmp_path / "run"
    for minutes in (0.001, 1e9):
        if minutes > 1:
            state = torch.load(run / "checkpoint.pt", weights_only=True)
            minutes = (state["spent"] + 0.1) / 60
        train(CHECKPOINT, tmp_path / "store", run, minutes, short_part=0.2, rate=1e-4, threads=2)
    assert torch.load(run / "checkpoint.pt", weights_only=True)["step"] > state["step"]
    published = load_file(CHECKPOINT / "model.safetensors")
    export.write_halves(export.learned(run), CHECKPOINT, tmp_path / "full")
    found = load_file(tmp_path / "full/model.safetensors")
    assert found.keys() == published.keys() and any(not torch.equal(found[name], published[name]) for name in found)
    assert json.loads((tmp_path / "full/generation_config.json").read_text())["audio_context_margin"] == MARGIN
    export.write_blocks(export.learned(run), CHECKPOINT, tmp_path / "blocks")
    names = {tensor.name for path in (tmp_path / "blocks").glob("*.gguf") for tensor in gguf.GGUFReader(path).tensors}
    assert names == published.keys()
