"""The speakers' recipe: who is held out, what a batch depends on, the margin, the error rate, the export."""

import json

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from recipes import augment
from recipes.features import MELS, MelStore
from recipes.speakers.cohort import cohort, people
from recipes.speakers.crops import Crops
from recipes.speakers.distil import Axes, directions
from recipes.speakers.export import export_model, load_exported
from recipes.speakers.live import LiveCrops, store_sound, without_pauses
from recipes.speakers.model import Embedder, Margin, Shape
from recipes.speakers.readers import held_out, held_out_readers, training_voices
from recipes.speakers.resident import Chances, ResidentCrops, band_limits, mel_bins, mixed, resampled, reverberated, tilts
from recipes.speakers.teacher import Teacher
from recipes.speakers.verification import embed, equal_error_rate, pair_error
from recipes.speakers.warm import restore_norms
from recipes.speakers.wider import widened

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


def test_a_batch_on_the_device_is_of_the_same_voices_and_repeats(store):
    crops = ResidentCrops(store, 3, 1.0, torch.device("cpu"))
    one, again, other = crops.batch(5, 64), crops.batch(5, 64), crops.batch(6, 64)
    assert torch.equal(one.mels, again.mels) and torch.equal(one.voices, again.voices)
    assert one.mels.shape[0] == 64 and 120 <= one.mels.shape[1] <= 300 and one.mels.isfinite().all()
    assert one.mels.shape != other.mels.shape or not torch.equal(one.mels, other.mels)
    names = list(crops.voices)
    for voice, utterance in zip(one.voices.tolist(), one.utterances.tolist(), strict=True):
        assert crops.utterances[utterance] in crops.voices[names[voice]]
    plain = ResidentCrops(store, 3, 0.0, torch.device("cpu"))  # gain and hiss alone
    batch = plain.batch(1, 8)
    place = int(batch.utterances[0])
    whole = store.mel(plain.utterances[place])
    crop = batch.mels[0].numpy()
    starts = range(len(whole) - len(crop) + 1) if len(whole) > len(crop) else range(len(whole))
    fits = [np.corrcoef(np.take(whole, np.arange(len(crop)) + at, axis=0, mode="wrap").ravel(), crop.ravel())[0, 1] for at in starts]
    assert max(fits) > 0.9


def test_live_crops_have_directions_of_their_own(store, tmp_path):
    torch.manual_seed(6)
    state = torch.nn.ModuleDict({"lstm": torch.nn.LSTM(40, 256, 3, batch_first=True), "linear": torch.nn.Linear(256, 256)}).state_dict()
    torch.save({"model_state": state}, tmp_path / "teacher.pt")
    rng, device, sounds = np.random.default_rng(7), torch.device("cpu"), {}
    for corpus in ("some-en", "ljspeech-en"):
        index = (tmp_path / f"{corpus}.index").read_text().splitlines()
        sounds[corpus] = [0.1 * rng.standard_normal(int(line.split("\t")[2]) * 160).astype(np.float32) for line in index]
        store_sound(tmp_path, corpus, sounds[corpus])
    crops = Crops(store, 3)
    rows, voices = rng.random((len(crops.utterances), 256)), np.repeat(np.arange(5), np.diff(crops._first))
    axes = Axes(rows, voices, 16)
    targets = torch.from_numpy(directions(rows, voices, axes))
    live = LiveCrops(tmp_path, store, 3, 0.0, device, Teacher(tmp_path / "teacher.pt"), axes, targets)
    one, again = live.batch(4, 32), live.batch(4, 32)
    assert torch.equal(one.mels, again.mels) and torch.equal(one.targets, again.targets)
    assert one.mels.shape[0] == 32 and one.targets.shape == (32, 16) and one.mels.isfinite().all()
    torch.testing.assert_close(one.targets.norm(dim=1), torch.ones(32))
    assert set(one.voices.tolist()) > {0, 1}  # a reader at several speeds is several voices
    for voice, utterance in zip(one.voices.tolist(), one.utterances.tolist(), strict=True):
        assert voices[utterance] == voice
    # at the speed it was read at, a stretch is the recording
    stretch = live._stretches(np.random.default_rng(0), np.zeros(1, int), np.ones(1))[0].numpy()
    whole = np.concatenate([sounds["ljspeech-en"][0]] * 4)
    fits = np.correlate(whole[: 3 * len(sounds["ljspeech-en"][0])], stretch[:2000], "valid")
    at = int(fits.argmax())
    np.testing.assert_allclose(stretch[:2000], whole[at : at + 2000], atol=1e-4)


def test_pauses_are_cut():
    rng = np.random.default_rng(1)
    said = rng.standard_normal(16000).astype(np.float32)
    cut = without_pauses(np.concatenate([said, np.zeros(32000, np.float32), said]))
    assert 32000 < len(cut) < 32000 + 0.5 * 16000


def test_changes_on_the_device_are_those_of_one_crop():
    rng = np.random.default_rng(4)
    mel, other = (rng.standard_normal((90, MELS)).astype(np.float32) - 4 for _ in range(2))
    one = torch.from_numpy(mel)[None]
    tail = reverberated(one, torch.tensor([0.5]), torch.tensor([0.3]))[0]
    np.testing.assert_allclose(tail, augment.reverberate(mel, 0.5, 0.3), atol=1e-4)
    for rate in (0.9, 1.0, 1.12):
        wanted = np.take(augment.resample_time(mel, rate), np.arange(90), axis=0, mode="wrap")
        np.testing.assert_allclose(resampled(one, torch.tensor([rate]))[0], wanted, atol=1e-3)
    hertz = [60.0, 400.0, 2800.0, 7000.0]
    np.testing.assert_allclose(mel_bins(torch.tensor(hertz)), [augment.mel_bin(value) for value in hertz], rtol=1e-4)

    class First:  # begins where the other sound does
        integers = staticmethod(lambda high: 0)

    found = mixed(one, torch.from_numpy(other)[None], torch.tensor([7.0]))[0]
    np.testing.assert_allclose(found, augment.mix(mel, other, 7.0, First()), atol=1e-4)
    chances = Chances(rng, 400, torch.device("cpu"))
    colours = np.stack([augment.tilt(np.random.default_rng(n), 1.0) for n in range(400)])
    np.testing.assert_allclose(tilts(chances, 1.0).std(0), colours.std(0), rtol=0.25)
    lines = np.stack([augment.band_limit(np.random.default_rng(n)) for n in range(400)])
    np.testing.assert_allclose(band_limits(chances).mean(0), lines.mean(0), atol=0.8)


def test_a_wider_model_computes_the_same():
    torch.manual_seed(5)
    model = Embedder(SMALL)
    for _ in range(3):
        model(torch.randn(8, 60, MELS) * 2 + 1)
    mels = torch.randn(4, 70, MELS)
    for channels in (64, 80):
        wide = widened(model.eval(), channels)
        assert wide.shape.channels == channels and wide.shape.pooled == SMALL.pooled * channels // SMALL.channels
        torch.testing.assert_close(wide.eval()(mels), model(mels), atol=1e-4, rtol=1e-4)
    twins = wide.blocks[0].first.conv.weight
    assert (twins[:, 0] - twins[:, 8]).abs().max() > 1e-3  # copies of one channel are weighed unequally


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


def test_the_teachers_directions_keep_voices_apart_and_drop_what_all_share(tmp_path):
    rng = np.random.default_rng(2)
    voices = np.repeat(np.arange(6), 20)
    spread = np.array([4.0, 2.0, 1.0, *[0.01] * 9])
    rows = 7 + (rng.standard_normal((6, 12)) * spread)[voices] + 0.1 * rng.standard_normal((120, 12))
    axes = Axes(rows, voices, 5)
    found = directions(rows, voices, axes)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    cosines = found @ found.T
    same = voices[:, None] == voices
    assert cosines[same].min() > 0.9 and cosines[~same].mean() < 0.1  # the 7 of all is gone
    axes.save(tmp_path / "axes.npz")
    some = voices % 2 == 0  # other utterances have other axes
    again = directions(rows[some], voices[some] // 2, Axes.load(tmp_path / "axes.npz"))
    np.testing.assert_allclose((again * found[some]).sum(1), 1, atol=1e-3)
    assert (directions(rows[some], voices[some] // 2, Axes(rows[some], voices[some] // 2, 5)) * found[some]).sum(1).mean() < 0.9


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


def test_the_cohort_is_of_the_training(tmp_path):
    corpus, folder = tmp_path / "some-en", tmp_path / "model"
    corpus.mkdir()
    rng = np.random.default_rng(2)
    for name in ("1-0", "1-1", "1-2", "1-3", "2-0", "32-0"):
        soundfile.write(corpus / f"{name}.flac", rng.standard_normal(16000 * (1 + int(name[-1]))) * 0.1, 16000)
    assert {name: len(own) for name, own in people([corpus]).items()} == {"1": 3, "2": 1}, "32 is held out"
    torch.manual_seed(0)
    model = Embedder(SMALL).eval()
    export_model(model, folder)
    cohort(folder, [corpus])
    rows = load_file(folder / "cohort.safetensors")["cohort"].float()
    assert rows.shape == (2, SMALL.embedding)
    assert torch.allclose(rows.norm(dim=1), torch.ones(2), atol=1e-3)
