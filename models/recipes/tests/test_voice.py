"""The voice recipe's parts on made-up sound."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from recipes.voice import acoustic, dictionary, g2p
from recipes.voice.align import LEAST_FRAMES, SILENCE, viterbi, words_as_phones, states, symbols_and_durations
from recipes.voice.annotate import by_symbol
from recipes.voice.clips import Clips
from recipes.voice.crops import FRAMES, Crops
from recipes.voice.discriminators import Discriminators, discriminator_loss, generator_losses, halves
from recipes.voice.pitch import continuous, pitch
from recipes.voice.sound import FLOOR, HOP, LEVEL, MELS, RATE, WINDOW, LogMel, mel_filters, trimmed
from recipes.voice.spectral_loss import SpectralLoss
from recipes.voice.symbols import EDGE, ID, SYMBOLS, Lexicon, sequence, tokens
from recipes.voice.train_vocoder import Mixed, shares
from recipes.voice.training import Run, cosine
from recipes.voice.vocos import Vocos, inverse_stft
from safetensors.torch import load_file


def tone(hertz: float, seconds: float = 0.5) -> np.ndarray:
    """A tone with harmonics, as a voice has."""
    time = np.arange(int(seconds * RATE)) / RATE
    return sum(0.1 / n * np.sin(2 * np.pi * n * hertz * time) for n in range(1, 9)).astype(np.float32)


def test_mels_have_a_frame_each_hop_and_a_floor():
    mel = LogMel()(torch.zeros(2, 10 * HOP))
    assert mel.shape == (2, MELS, 11)
    torch.testing.assert_close(mel, torch.full_like(mel, float(np.log(FLOOR))))
    filters = mel_filters()
    assert filters.shape == (513, MELS) and (filters >= 0).all() and filters.max() <= 1


def test_a_tone_lies_in_the_band_of_its_frequency():
    sound = 0.3 * np.sin(2 * np.pi * 1000 * np.arange(RATE) / RATE)
    mel = LogMel()(torch.from_numpy(sound.astype(np.float32))[None])[0]
    band = 2595 * np.log10(1 + 1000 / 700) / (2595 * np.log10(1 + 8000 / 700)) * (MELS + 1) - 1
    assert abs(int(mel[:, 30].argmax()) - band) < 1


def test_clips_lose_silence_and_get_one_level():
    sound = np.concatenate([np.zeros(RATE), 3 * tone(120, 1.0), np.zeros(RATE)]).astype(np.float32)
    cut = trimmed(sound)
    assert 1.0 * RATE <= len(cut) <= 1.3 * RATE
    assert abs(np.sqrt((cut[RATE // 2 : RATE // 2 + 4000] ** 2).mean()) - LEVEL) < 0.1 * LEVEL


def test_pitch_of_tones_and_none_of_noise():
    for hertz in (90.0, 150.0, 280.0):
        found = pitch(tone(hertz))[5:-5]
        assert abs(np.median(found) - hertz) < 0.02 * hertz
    assert abs(np.median(pitch(tone(200.0), 120.0)[5:-5]) - 200) < 4
    assert not (pitch(tone(200.0), 90.0)[5:-5] > 190).any()
    noise = 0.1 * np.random.default_rng(0).standard_normal(RATE)
    assert (pitch(noise) == 0).mean() > 0.9
    assert continuous(np.zeros(5)) is None
    np.testing.assert_allclose(continuous(np.array([0, 64.0, 0, 256, 0])), [6, 6, 7, 8, 8])


def test_packed_dictionary_is_up_to_date():
    committed = Path(dictionary.__file__).resolve().parents[3] / "engine/src/text/speech/cmudict.bin"
    assert dictionary.pack(dictionary.entries()) == committed.read_bytes()


def test_the_dictionary_without_held_out_words_is_written_with_them_beside_it(tmp_path):
    dictionary.write(tmp_path / "known.bin", tmp_path / "words.tsv")
    rows = [line.split("\t") for line in (tmp_path / "words.tsv").read_text(encoding="utf-8").splitlines()]
    assert {row[0]: [way.split(" ") for way in row[1:]] for row in rows} == dict(g2p.entries()[1])
    held_out = {row[0] for row in rows}
    kept, every = dictionary.entries(held_out), dictionary.entries()
    assert (tmp_path / "known.bin").read_bytes() == dictionary.pack(kept)
    assert not held_out & {word for word, _ in kept} and len(every) - len(kept) > 4000
    # a genitive stays whose word is gone
    assert len({word for word, _ in kept if word.endswith("'s")}) > len({word for word, _ in every if word.endswith("'s")} - held_out)


def test_codes_are_shorter_for_frequent_symbols_and_no_code_begins_another():
    codes = dictionary.codes(dictionary.code_lengths(Counter({0: 50, 2: 20, 3: 20, 5: 1}), 7))
    assert set(codes) == {0, 2, 3, 5} and len(codes[0]) == 1 and len(codes[5]) == 3
    assert not any(a != b and a.startswith(b) for a in codes.values() for b in codes.values())
    assert dictionary.shared("abc", "abd") == 2 and dictionary.shared("abc", "abcd") == 3


def test_text_becomes_phones_and_marks():
    assert tokens("Well: \u201cno; it isn\u2019t\u201d, she said") == ["well", ",", "no", ",", "it", "isn't", ",", "she", "said", "."]
    lexicon = Lexicon()
    assert sequence("The cat's!", lexicon) == [EDGE, "DH", "AH0", "K", "AE1", "T", "S", "!"]
    assert sequence("A zzyzxian cat.", lexicon) is None
    assert sequence("Zzyzx.", Lexicon(lambda word: ["Z", "IH1", "Z"])) == [EDGE, "Z", "IH1", "Z", "."]
    assert ID["<blank>"] == 0 and len(set(SYMBOLS)) == len(SYMBOLS)


def test_alignment_finds_phones_and_pauses():
    words = words_as_phones("Cat, at a cat", Lexicon())
    classes, skippable = states(words)
    phones = [(SILENCE, 3), (2, 2), (2, 3), (2, 2), (SILENCE, 5), (2, 2), (2, 3), (SILENCE, 0), (2, 2), (SILENCE, 6), (2, 2), (2, 2),
              (2, 2), (SILENCE, 4)]  # fmt: skip
    first = np.cumsum([0] + [1 if kind == SILENCE else LEAST_FRAMES for kind, _ in phones])
    truth = np.concatenate([
        np.full(count, at) if kind == SILENCE else at + np.minimum(np.arange(count), LEAST_FRAMES - 1)
        for at, (kind, count) in zip(first[:-1], phones, strict=True)
    ])  # fmt: skip
    scores = np.full((len(truth), 40), -5.0)
    scores[np.arange(len(truth)), classes[truth]] = 0
    path = viterbi(scores, classes, skippable)
    np.testing.assert_array_equal(classes[path], classes[truth])
    symbols, durations = symbols_and_durations(words, path)
    assert symbols == [EDGE, "K", "AE1", "T", ",", "AE1", "T", "AH0", ",", "K", "AE1", "T", "."]
    assert durations == [3, 2, 3, 2, 5, 2, 3, 2, 6, 2, 2, 2, 4]
    assert viterbi(scores[:5], classes, skippable) is None


def test_means_over_symbols():
    np.testing.assert_allclose(by_symbol(np.array([1.0, 3, 5, 7]), [2, 0, 1, 1]), [2, 0, 5, 7])


def test_the_vocoder_gives_a_hop_each_frame_and_learns_from_discriminators():
    torch.manual_seed(0)
    model, discriminators = Vocos(32, 64, 2), Discriminators(4, (2, 5))
    heard = torch.from_numpy(np.stack([tone(100, 0.8), tone(200, 0.8)]))[:, : 48 * HOP]
    said = model(LogMel()(heard))
    assert said.shape == heard.shape
    real, made = discriminators(heard), discriminators(said)
    for alone, beside in zip((real, made), halves(discriminators(torch.cat([heard, said]))), strict=True):
        torch.testing.assert_close(beside, alone, atol=1e-5, rtol=1e-4)
    adversarial, matching = generator_losses(real, made)
    loss = discriminator_loss(real, made) + adversarial + matching + sum(SpectralLoss()(said, heard).values())
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in [*model.parameters(), *discriminators.parameters()])
    assert all(float(value) < 1e-4 for value in SpectralLoss()(heard, heard).values())
    names = set(model.state_dict())
    assert {"backbone.embed.weight", "backbone.convnext.0.pwconv1.weight", "backbone.convnext.1.gamma", "head.out.bias",
            "backbone.final_layer_norm.weight", "head.istft.window"} <= names  # fmt: skip


def test_the_inverse_transform_is_the_published_one():
    torch.manual_seed(0)
    spectrum, window = torch.randn(2, WINDOW // 2 + 1, 9, dtype=torch.cfloat), torch.hann_window(WINDOW)
    torch.testing.assert_close(inverse_stft(spectrum, window), torch.istft(spectrum, WINDOW, HOP, WINDOW, window, center=True))


@pytest.fixture
def clips(tmp_path) -> Clips:
    sounds = [(20000 * tone(hertz, 2.0)).astype(np.int16) for hertz in (110, 150, 210)]
    (tmp_path / "sound.i16").write_bytes(np.concatenate(sounds).tobytes())
    rows = [f"some-en\t{number}.wav\tspeaker\t{number * len(sound)}\t{len(sound)}\tA tone." for number, sound in enumerate(sounds)]
    (tmp_path / "clips.tsv").write_text("\n".join(rows) + "\n")
    return Clips(tmp_path)


def test_crops_are_stretches_of_clips_with_their_mels(clips):
    crops = Crops(clips, seed=1)
    mel, heard = crops.batch(3, 4)
    again, _ = crops.batch(3, 4)
    assert heard.shape == (4, FRAMES * HOP) and torch.equal(mel, again)
    torch.testing.assert_close(mel, LogMel()(heard))
    everything = clips.everything().numpy() / 32768
    for row in heard.numpy():
        scores = np.correlate(everything, row, "valid") / np.linalg.norm(row)
        at = int(scores.argmax())
        there = everything[at : at + len(row)]
        assert scores[at] > 0.999 * np.linalg.norm(there) and at // (2 * RATE) == (at + len(row) - 1) // (2 * RATE)


def test_predicted_mels_are_heard_from_their_part_of_the_budget_on():
    mixed = object.__new__(Mixed)
    mixed._shares = shares("0.35:0.5,0.7:1")

    class Ones:
        def ready(self) -> bool:
            return True

        def batch(self, step: int, rows: int):
            return torch.ones(rows, 3), torch.ones(rows, 5)

    class Zeros(Ones):
        def batch(self, step: int, rows: int):
            return torch.zeros(rows, 3), torch.zeros(rows, 5)

    mixed._predicted, mixed._own = Ones(), Zeros()
    assert [float(mixed.batch(0, 4, part)[0].mean()) for part in (0.1, 0.35, 0.6, 0.9)] == [0, 0.5, 0.5, 1]
    mixed._predicted.ready = lambda: False
    assert float(mixed.batch(0, 4, 0.9)[0].mean()) == 0
    mixed._own = None
    with pytest.raises(SystemExit, match="train it first"):
        mixed.batch(0, 4, 0.9)


def small_batch() -> acoustic.AcousticBatch:
    rng = np.random.default_rng(1)
    durations = torch.from_numpy(rng.integers(0, 5, (2, 7)))
    durations[1, 5:] = 0
    symbols = torch.from_numpy(rng.integers(2, len(SYMBOLS), (2, 7)))
    symbols[1, 5:] = 0
    frames = int(durations.sum(1).max())
    mask = torch.arange(frames)[None] < durations.sum(1, keepdim=True)
    values = torch.from_numpy(rng.standard_normal((2, 7)).astype(np.float32))
    mel = torch.from_numpy(rng.standard_normal((2, frames, MELS)).astype(np.float32))
    return acoustic.AcousticBatch(symbols, torch.tensor([0, 1]), durations, values, values, mel, mask)


def test_symbols_are_stretched_to_their_durations():
    hidden = torch.arange(3.0)[None, :, None]
    stretched = acoustic.regulate_length(hidden, torch.tensor([[2, 0, 3]]), 7)[0, :, 0]
    assert stretched.tolist() == [0, 0, 2, 2, 2, 0, 0]


def test_teaching_is_the_published_forward_pass():
    torch.manual_seed(0)
    model = acoustic.FastSpeech2ConformerModel(acoustic.build_config(2, 32, 1, 64)).eval()
    batch = small_batch()
    predicted = acoustic.teacher_forced(model, batch)
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout | torch.nn.BatchNorm1d):
            module.eval()
    with torch.no_grad():
        published = model(
            batch.symbols, (batch.symbols > 0).long(), batch.mel.masked_fill(~batch.frame_mask.unsqueeze(2), -100), batch.durations,
            batch.pitch.unsqueeze(2), batch.energy.unsqueeze(2), batch.voices, return_dict=True,
        )  # fmt: skip
    inside = batch.frame_mask
    torch.testing.assert_close(predicted.mel[inside], published.spectrogram[inside], atol=2e-5, rtol=1e-4)
    known = batch.symbols > 0
    torch.testing.assert_close(predicted.log_durations[known], published.duration_outputs[known])
    torch.testing.assert_close(predicted.pitch[known], published.pitch_outputs.squeeze(2)[known])
    assert all(value.isfinite() for value in acoustic.losses(predicted, batch).values())


def test_repeated_decisions_count_once():
    words, held_out = g2p.entries()
    assert len(words) > 100_000 and not {word for word, _ in words} & {word for word, _ in held_out}
    torch.manual_seed(0)
    model = g2p.build(32, 1).eval()
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.zero_()
        model.classifier.bias[5] = 1  # the first decision of each letter says phone 5, the others nothing
    one = object.__new__(g2p.G2p)
    one._model, one._known = model, {}
    assert one("ab") == g2p.pronounce(model, ["ab"])[0] and one("") is None
    assert g2p.pronounce(model, ["ab", "c"]) == [[g2p.PHONES[4]] * 2, [g2p.PHONES[4]]]


def test_a_steps_words_keep_their_pronunciations():
    words = [("cat", [["K", "AE1", "T"]]), ("a", [["AH0"], ["EY1"]]), ("eight", [["EY1", "T"]])]
    ways = {word: own for word, own in words}
    parts = list(g2p.Words(words, torch.device("cpu")).draw(np.random.default_rng(0), 40, 3))
    assert [len(part.letters) for part in parts] == [14, 13, 13] and parts[0].letters.shape[1] <= parts[2].letters.shape[1]
    heard = set()
    for part in parts:
        for letters, count, phones, size in zip(part.letters, part.counts, part.phones, part.sizes, strict=True):
            word = "".join(g2p.LETTERS[number] for number in letters[:count])
            said = [g2p.PHONES[number - 1] for number in phones[:size]]
            assert said in ways[word] and not letters[count:].any() and not phones[size:].any()
            heard.add((word, *said))
    assert len(heard) == 4


def test_a_schedule_ends_at_its_time_and_leaves_weights(tmp_path):
    model = torch.nn.Linear(2, 2)
    run = Run(tmp_path, {"model": model}, {"model": torch.optim.SGD(model.parameters(), lr=0.1)}, 1000, end_at=time.time() + 1.2,
              weights=tmp_path / "to" / "weights.safetensors")  # fmt: skip
    parts = []
    for _ in run.steps():
        parts.append(run.part)
        model(torch.ones(1, 2)).sum().backward()
        run.optimisers["model"].step()
        run.log({"loss": model.bias.sum()})
        time.sleep(0.01)
    assert parts[0] < 0.1 and 0.9 < parts[-1] < 1 and len(parts) > 20
    written = load_file(tmp_path / "to" / "weights.safetensors")
    assert written["weight"].dtype == torch.float16
    torch.testing.assert_close(written["weight"].float(), run.average["weight"], atol=1e-2, rtol=1e-3)


def test_training_goes_on_where_it_was(tmp_path):
    def run(minutes: float) -> Run:
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 2)
        return Run(tmp_path, {"model": model}, {"model": torch.optim.SGD(model.parameters(), lr=0.1)}, minutes)

    first = run(10)
    for step in first.steps():
        first.modules["model"](torch.ones(1, 2)).sum().backward()
        first.optimisers["model"].step()
        if step == 4:
            first.stop()
    second = run(10)
    assert second.step == 5 and second.spent_s == first.spent_s
    torch.testing.assert_close(second.modules["model"].weight, first.modules["model"].weight)
    assert cosine(0.0, 1, 0.1) < 0.05 and cosine(0.01, 1, 0.1) == 1 and abs(cosine(1, 1, 0.1) - 0.1) < 1e-9
