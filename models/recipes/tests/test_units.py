"""Readers say what they are made to say: each piece lies where the phones that it stands for are."""

from itertools import groupby

import numpy as np
import pytest

from recipes import units as module
from recipes.augment import Augmentation
from recipes.batches import Example, Sampler, Targets
from recipes.features import MELS, MelStore, Stored
from recipes.aligned_mix import AlignedUtterance
from recipes.units import LEAST_S, PAUSE, Units, Voice, blend, with_pauses

WORDS = {"tea": [1, 2], "eat": [2, 1], "sea": [3, 2], "at": [4, 1], "zoo": [5, 6]}
WIDTH = 10  # frames of a phone


class Spoken:
    """As `Pronunciations`, of five words."""

    def phones(self, text: str) -> list[int] | None:
        words = [WORDS.get(word.strip(".,").lower()) for word in text.split()]
        return [phone for word in words for phone in word] if all(words) else None


def stored(number: int, frames: int) -> Stored:
    return Stored("readers", f"19-{number}", 100_000 * number, frames)


def recorded(number: int, text: str) -> AlignedUtterance:
    """A pause of `WIDTH`, the phones, a pause."""
    count = len(Spoken().phones(text))
    middles = [WIDTH * at + WIDTH // 2 for at in range(1, count + 1)]
    return AlignedUtterance(stored(number, WIDTH * (count + 2)), text.split(), [WIDTH * (2 * n + 1) for n in range(count // 2 + 1)], middles)


def heard(pieces: list[Stored], recordings: list[AlignedUtterance]) -> list[int]:
    """The phones that the pieces' frames belong to, one after the other."""
    phones = []
    for piece in pieces:
        number, first = divmod(piece.first, 100_000)
        said = [PAUSE, *Spoken().phones(" ".join(recordings[number].words)), PAUSE]
        phones += [said[min((first + at) // WIDTH, len(said) - 1)] for at in range(piece.frames)]
    return [phone for phone, _ in groupby(phones)]


def voice(recordings: list[AlignedUtterance]) -> Voice:
    spoken = [(one.stored, *with_pauses(one, [Spoken().phones(word) for word in one.words])) for one in recordings]
    return Voice(spoken)


def test_pieces_say_the_phones_that_are_asked_for():
    recordings = [recorded(0, "tea at sea"), recorded(1, "eat tea"), recorded(2, "sea zoo")]
    reader = voice(recordings)
    for seed in range(40):
        wanted = [PAUSE, *WORDS["sea"], *WORDS["eat"], *WORDS["at"], *WORDS["zoo"], PAUSE]
        pieces = reader.say(np.array(wanted), np.random.default_rng(seed))
        # "sea eat" has a long vowel where two meet
        assert heard(pieces, recordings) == [phone for phone, _ in groupby(wanted)]
    assert reader.say(np.array([PAUSE, 7, PAUSE]), np.random.default_rng(0)) is None


def test_what_was_said_is_one_piece():
    recordings = [recorded(0, "tea at sea"), recorded(1, "eat tea at zoo")]
    wanted = np.array([2, 4, 1, 3, 2])  # from "tea at sea"
    lengths = [len(voice(recordings).say(wanted, np.random.default_rng(seed))) for seed in range(20)]
    assert lengths.count(1) > 10


def test_a_gap_between_words_is_a_pause():
    known = AlignedUtterance(stored(0, 200), ["tea", "sea."], [0, 70, 200], [10, 20, 110, 120])
    assert with_pauses(known, [[1, 2], [3, 2]]) == ([PAUSE, 1, 2, PAUSE, 3, 2, PAUSE], [0, 10, 20, 70, 110, 120, 200])
    assert with_pauses(known, [[1, 2], [3]]) is None


def test_sentences_find_room_and_readers_with_little_are_left_out():
    text = "tea at sea eat zoo " * 10
    recordings = [recorded(number, text) for number in range(round(LEAST_S * 100 / (WIDTH * 102)) + 1)]
    few = [AlignedUtterance(Stored("readers", "20-1", 0, 40), ["tea"], [0, 40], [15, 25])]
    units = Units(recordings + few, ["Tea, at sea.", "Nobody knows.", "Eat zoo."], Spoken())
    assert len(units.voices) == 1
    told = [units.draw(160, np.random.default_rng(seed)) for seed in range(30)]
    told = [one for one in told if one]
    assert len(told) > 20
    for pieces, text in told:
        assert set(text.split()) <= {"Tea,", "at", "sea.", "Eat", "zoo."} and sum(piece.frames for piece in pieces) <= 176
        words = [phone for phone in heard(list(pieces), recordings) if phone != PAUSE]
        assert [phone for phone, _ in groupby(words)] == [phone for phone, _ in groupby(Spoken().phones(text))]


def test_pieces_come_to_one_colour():
    first, second = (np.full((frames, MELS), level, dtype=np.float32) for frames, level in ((20, -9.0), (30, -3.0)))
    blended = blend([first, second], [first[0], second[0]])
    assert blended.shape == (50, MELS) and blended == pytest.approx(-6.0)


class Words:
    """As a tokenizer: a token a word."""

    def encode(self, text: str):
        return type("Encoding", (), {"ids": [10 + len(word) for word in text.split()]})


def test_batches_hold_what_readers_are_made_to_say(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LEAST_S", 1)
    text, frames = "tea at sea eat zoo " * 10, WIDTH * 102
    mels = np.random.default_rng(5).normal(-6, 2, (4 * frames, MELS)).astype(np.float16)
    (tmp_path / "readers.mel").write_bytes(mels.tobytes())
    (tmp_path / "readers.index").write_text("".join(f"19-{n}\t{n * frames}\t{frames}\n" for n in range(4)))
    one = recorded(0, text)
    row = "\t".join(",".join(map(str, column)) for column in (one.bounds, one.middles))
    (tmp_path / "readers.words").write_text("".join(f"19-{n}\t{row}\n" for n in range(4)))
    store = MelStore(tmp_path)
    examples = [Example((utterance,), text, (1,) * 40, (1,) * 100) for utterance in store.utterances]
    sampler = Sampler(examples, store, Augmentation(0.3), 1.0, seed=2)
    targets = Targets(Words(), Spoken())
    sampler.make_more(0.0, 1.0, tmp_path, ["Tea at zoo.", "Sea eat at tea, at sea.", "Zoo."], targets)
    counts = set()
    for step in range(4):
        batch = sampler.batch(step, 0, 20.0, 30.0)
        assert batch.mel.isfinite().all() and batch.frames.min() > 200
        assert not (batch.tokens == 1).any()  # what the recordings say
        counts |= set(batch.token_counts.tolist())
    assert len(counts) > 2
    with pytest.raises(SystemExit, match="--sentences"):
        sampler.make_more(0.0, 1.0, tmp_path, ["Nobody knows."], targets)
