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
from recipes.whisper.train import learned, train
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
    names = {"Q4_K": "model.encoder.layers.0.fc1.weight", "Q5_K": "model.encoder.layers.0.self_attn.v_proj.weight"}
    wrong = {"Q4_K": 0.1, "Q5_K": 0.05, "Q8_0": 0.01}
    for kind, name in (names | {"Q8_0": "model.encoder.embed_positions.weight"}).items():
        assert quantise.kind_of(name, weight) == kind
        found = quantise.grid(weight, torch.ones(768), quantise.LARGEST[kind]) if kind in quantise.LARGEST else None
        packed = np.frombuffer(quantise.pack(kind, weight, found), np.uint8).reshape(512, -1)
        read = torch.from_numpy(gguf.quants.dequantize(packed, gguf.GGMLQuantizationType[kind]))
        stored = quantise.as_stored(name, weight, found)
        torch.testing.assert_close(read, stored, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(quantise.as_stored(name, stored, found), stored, atol=1e-5, rtol=1e-5)
        assert (stored - weight).norm() / weight.norm() < wrong[kind]
    # A convolution is stored as the matrix of its outputs.
    convolution = torch.randn(64, 32, 3)
    packed = np.frombuffer(quantise.pack("Q8_0", convolution, None), np.uint8).reshape(64, -1)
    read = torch.from_numpy(gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)).reshape(convolution.shape)
    torch.testing.assert_close(read, quantise.as_stored("model.encoder.conv2.weight", convolution, None), atol=1e-6, rtol=1e-5)
    # The smallest scale of 8 bits: it has few digits itself.
    faint = torch.full((1, 32), 3e-4)
    assert (quantise.as_stored("embed_positions", faint, None) > 0).all()


def test_calibrated_rounding_changes_outputs_less_than_rounding_to_the_nearest():
    torch.manual_seed(2)
    weight = torch.randn(64, 256)
    inputs = torch.randn(2000, 24) @ torch.randn(24, 256) + 0.1 * torch.randn(2000, 256)
    found = quantise.grid(weight, inputs.square().sum(0), 15)
    nearest, calibrated = quantise.rounded(weight, found, 15), quantise.calibrated(weight, inputs.T @ inputs, found, 15)
    torch.testing.assert_close(quantise.rounded(calibrated, found, 15), calibrated)
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
    short, run = tmp_path / "short", tmp_path / "run"
    train(CHECKPOINT, tmp_path / "store", short, 0.001, rate=1e-4, threads=2)
    steps = []
    for seconds in (0.05, 0.1):
        spent = torch.load(run / "checkpoint.pt", weights_only=True)["spent"] if steps else 0
        train(CHECKPOINT, tmp_path / "store", run, (spent + seconds) / 60, rate=1e-4, threads=2, start=short)
        steps.append(torch.load(run / "checkpoint.pt", weights_only=True)["step"])
    assert steps[1] > steps[0] > 0
    published = load_file(CHECKPOINT / "model.safetensors")
    export.write_halves(learned(run), CHECKPOINT, tmp_path / "full")
    found = load_file(tmp_path / "full/model.safetensors")
    assert found.keys() == published.keys() and any(not torch.equal(found[name], published[name]) for name in found)
    assert json.loads((tmp_path / "full/generation_config.json").read_text())["audio_context_margin"] == MARGIN
    export.write_blocks(run, CHECKPOINT, tmp_path / "blocks")
    names = {tensor.name for path in (tmp_path / "blocks").glob("*.gguf") for tensor in gguf.GGUFReader(path).tensors}
    assert names == published.keys()
