"""Words are aligned with their frames, and a mix of words has their text."""


import numpy as np

from recipes.features import MELS, Stored
from recipes.aligned_mix import AlignedMixer, concatenate, load_alignments
from recipes.words import boundaries, lateness


def test_words_part_at_the_quietest_frame():
    mel = np.zeros((40, MELS), dtype=np.float32)
    mel[17:21] = -8  # a pause between the second phone's middle and the third's
    first, parted, last = boundaries(mel, np.array([4, 12, 26, 34]), [[1, 2], [3, 4]])
    assert (first, last) == (0, 40) and 17 < parted < 20


def test_how_late_labels_come_is_seen_in_what_is_heard():
    rng = np.random.default_rng(4)
    sounds = rng.normal(0, 3, (5, MELS))
    mels, phones, begins = [], [], []
    for _ in range(8):
        said = rng.integers(1, 5, 30)
        middles = np.cumsum(rng.integers(5, 12, 30))
        glides = [np.interp(np.arange(middles[-1] + 20), middles, sounds[said, band]) for band in range(MELS)]
        mels.append(np.stack(glides, axis=1))
        phones.append(said.tolist())
        begins.append(middles + 11)
    assert lateness(mels, phones, begins) == 11


def test_a_mix_has_the_words_of_its_text(tmp_path):
    texts = ["He saw Mary. Then he went", "The dog slept"]
    utterances = [(Stored("a@0.5", "1", 1000, 600), texts[0]), (Stored("b", "2", 5000, 150), texts[1])]
    (tmp_path / "a.words").write_text("1\t0,50,100,150,200,250,300\t25,275\n")
    (tmp_path / "b.words").write_text("2\t0,50,100,150\t25,125\nanother\t0,50\t25\n")
    known = load_alignments(tmp_path, [*utterances, (Stored("b", "unknown", 0, 100), "Who?")])
    assert [(one.stored, one.middles) for one in known] == [(utterances[0][0], [50, 550]), (utterances[1][0], [25, 125])]
    mixer = AlignedMixer(known, np.ones(2))
    spoken = {"a@0.5": texts[0].lower().split(), "b": texts[1].lower().split()}
    several = 0
    for seed in range(200):
        parts, text = mixer.draw(700, np.random.default_rng(seed))
        said = []
        for part in parts:
            origin, width = (1000, 100) if part.corpus == "a@0.5" else (5000, 50)
            first, count = (part.first - origin) // width, part.frames // width
            said += spoken[part.corpus][first : first + count]
        assert text.lower().split() == said
        assert 560 <= sum(part.frames for part in parts) <= 700
        assert text[0].isupper() and "mary" not in text
        # sentences begin with a capital, and nothing else but names has one
        for before, word in zip(text.split(), text.split()[1:]):
            assert word[0].isupper() == (before.endswith(".") or word == "Mary.")
        several += len(parts) > 2
    assert several > 100


def test_parts_come_to_one_level():
    quiet, loud = np.full((20, MELS), -9, dtype=np.float32), np.full((30, MELS), -3, dtype=np.float32)
    mixed = concatenate([quiet, loud], np.random.default_rng(0))
    assert mixed.shape == (50, MELS) and mixed.dtype == np.float32
    assert abs(mixed[0, 0] - mixed[-1, 0]) <= 1.4
