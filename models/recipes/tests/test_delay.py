"""How late words are emitted."""

from recipes.delay import Timed, aligned_words, differences
from recipes.voice.symbols import ID, Lexicon


def test_an_aligned_clip_gives_its_words_with_their_times():
    lexicon = Lexicon()
    the, cat = lexicon.phones("the"), lexicon.phones("cat")
    symbols = ["<sos/eos>", *the, ",", *cat, "."]
    durations = [5, *[3] * len(the), 10, *[4] * len(cat), 7]
    words = aligned_words("The cat.", [ID[s] for s in symbols], durations, lexicon)
    assert [(w.text, w.start, w.end) for w in words] == [("the", 80.0, 176.0), ("cat", 336.0, 528.0)]
    assert aligned_words("The dog.", [ID[s] for s in symbols], durations, lexicon) is None


def test_only_words_that_both_have_are_compared():
    reference = [Timed("a", 0, 100), Timed("big", 100, 300), Timed("cat", 300, 500)]
    heard = [Timed("a", 50, 160), Timed("pig", 150, 350), Timed("cat", 340, 530), Timed("sat", 600, 700)]
    assert differences(reference, heard) == [(50, 60), (40, 30)]
