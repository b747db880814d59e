"""The speakers' recipe: who is held out, what a batch depends on, the margin, the error rate, the export."""

import json

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from recipes.features import MELS, MelStore
from recipes.speakers.crops import Crops
from recipes.speakers.distil import directions
from recipes.speakers.export import export_model, load_exported
from recipes.speakers.model import Embedder, Margin, Shape
from recipes.speakers.readers import held_out, held_out_readers, training_voices
from recipes.speakers.verification import embed, equal_error_rate, pair_error
from recipes.speakers.warm import restore_norms

SMALL = Shape(channels=32, parts=4, bottleneck=8, pooled=48, embedding=16)


@pytest.fixture
def store(tmp_path) -> MelStore:
    rng = np.random.default_rng(0)
    for corpus in ("some-en", "some-en@1.100", "noise", "ljspeech-en"):
        files = ["1-0.opus", "1-1.opus", "2-0.opus", "32-0.opus"] if corpus.startswith("some") else ["LJ001-0001.opus"]
        frames = [150, 400, 90 if corpus == "noise" else 260, 500][: len(files)]
        mels = rng.standard_normal((sum(frames), MELS)).astype(np.float16) - 5
        (tmp_path / f"{corpus}.mel").write_bytes(mels.tobytes())
        firsts = np.cumsum([0, *frames[:-1]])
        lines = [f"{file}\t{first}\t{count}" for file, first, count in zip(files, firsts, frames, strict=True)]
        (tmp_path / f"{corpus}.index").write_text("\n".join(lines) + "\n")
    return MelStore(tmp_path)


def test_readers_at_speeds_are_voices_and_held_out_readers_are_none(store):
    voices = training_voices(store)
    assert list(voices) == ["1", "1@1.100", "2", "2@1.100", "ljspeech"]
    assert [u.file for u in voices["1"]] == ["1-0.opus", "1-1.opus"]
    assert held_out("32") and not held_out("kathleen")
    assert {name: [u.corpus for u in own] for name, own in held_out_readers(store, 5).items()} == {"32": ["some-en"]}


def test_a_batch_is_a_function_of_seed_and_step(store):
    crops = Crops(store, seed=3)
    one, again, other = crops.batch(5, 8), crops.batch(5, 8), crops.batch(6, 8)
    assert torch.equal(one.mels, again.mels) and torch.equal(one.voices, again.voices)
    assert one.mels.shape[0] == 8 and one.mels.shape[2] == MELS and 120 <= one.mels.shape[1] <= 300
    assert one.mels.isfinite().all() and one.mels.dtype == torch.float32
    assert one.mels.shape != other.mels.shape or not torch.equal(one.mels, other.mels)


def test_the_margin_makes_the_own_voice_harder_and_nothing_else():
    torch.manual_seed(0)
    margin = Margin(5, 16)
    rows, voices = torch.randn(4, 16), torch.tensor([0, 1, 2, 4])
    plain, _ = margin(rows, voices, 0.0)
    cosines = F.linear(F.normalize(rows), F.normalize(margin.weight))
    torch.testing.assert_close(plain, F.cross_entropy(30 * cosines, voices))
    assert margin(rows, voices, 0.2)[0] > plain


def test_equal_error_rate():
    assert equal_error_rate(np.array([0.8, 0.9]), np.array([0.1, 0.2])) == 0
    assert equal_error_rate(np.array([0.1, 0.2]), np.array([0.8, 0.9])) == 1
    # one in four of each on the wrong side
    assert equal_error_rate(np.array([0.3, 0.7, 0.8, 0.9]), np.array([0.1, 0.2, 0.25, 0.75])) == 0.25
    readers = np.array(["a", "a", "b", "b"])
    assert pair_error(np.array([[1, 0], [1, 0], [0, 1], [0, 1.0]]), readers) == 0


def test_the_export_computes_what_the_run_does(tmp_path):
    torch.manual_seed(1)
    model = Embedder(SMALL)
    for _ in range(3):  # batch norms that are not the identity
        model(torch.randn(4, 60, MELS) * 2 + 1)
    model.eval()
    export_model(model, tmp_path, torch.float32)
    assert json.loads((tmp_path / "config.json").read_text())["mels"] == MELS
    mels = [np.random.default_rng(n).standard_normal((frames, MELS)) for n, frames in enumerate((40, 151))]
    np.testing.assert_allclose(embed(load_exported(tmp_path), mels), embed(model, mels), atol=1e-5)


def test_loudness_and_a_line_leave_the_embedding_as_it_is():
    torch.manual_seed(1)
    model = Embedder(SMALL).eval()
    mel = np.random.default_rng(0).standard_normal((90, MELS))
    line = np.linspace(-3, 2, MELS)
    np.testing.assert_allclose(embed(model, [mel]), embed(model, [mel + line]), atol=1e-5)


def test_the_teachers_directions_keep_voices_apart_and_drop_what_all_share():
    rng = np.random.default_rng(2)
    voices = np.repeat(np.arange(6), 20)
    spread = np.array([4.0, 2.0, 1.0, *[0.01] * 9])
    rows = 7 + (rng.standard_normal((6, 12)) * spread)[voices] + 0.1 * rng.standard_normal((120, 12))
    found = directions(rows, voices, 5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    cosines = found @ found.T
    same = voices[:, None] == voices
    assert cosines[same].min() > 0.9 and cosines[~same].mean() < 0.1  # the 7 of all is gone


def test_an_export_goes_on_as_it_was(tmp_path):
    torch.manual_seed(3)
    model = Embedder(SMALL)
    for _ in range(3):
        model(torch.randn(8, 60, MELS) * 2 + 1)
    export_model(model.eval(), tmp_path, torch.float32)
    mels = torch.randn(32, 80, MELS) * 2 + 1
    again = Embedder(SMALL)
    again.load_state_dict(load_exported(tmp_path).state_dict())
    assert (again.train()(mels) - model(mels)).abs().max() > 0.1  # batch norms without scale and shift take it apart
    again.load_state_dict(load_exported(tmp_path).state_dict())
    restore_norms(again, mels)
    torch.testing.assert_close(again(mels), model(mels), atol=1e-2, rtol=1e-2)
    torch.testing.assert_close(again.eval()(mels), model(mels), atol=1e-2, rtol=1e-2)
