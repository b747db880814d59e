"""Targets hold what the model can write, and never other words than were said."""

from recipes.scoring import ErrorRates, distance
from recipes.targets import load_targets, normalise_target, score_words


def test_normalisation():
    assert normalise_target("\u201cWell\u2014yes,\u201d he said\u2026") == "Well, yes, he said."
    assert normalise_target("the boys' well-known caf\u00e9") == "the boys well-known cafe"
    assert normalise_target("Don't!") == "Don't!"
    assert normalise_target("in 1887") is None


def test_restored_text_must_keep_the_words(tmp_path):
    corpus, restored = tmp_path / "set-en", tmp_path / "text"
    corpus.mkdir()
    restored.mkdir()
    (corpus / "refs.tsv").write_text("a.opus\tIT IS SO\nb.opus\tNO MORE\nc.opus\tLEFT OUT\n")
    (restored / "set-en.tsv").write_text("a.opus\tIt is so.\nb.opus\tNo, more words.\n")
    assert load_targets(corpus, restored) == {"a.opus": "It is so."}


def test_error_rates():
    assert distance("kitten", "sitting") == 3
    assert score_words("It's A well-known HOUSE.") == ["it's", "a", "well", "known", "house"]
    rates = ErrorRates()
    rates.add("ONE TWO THREE FOUR", "One, too three.")
    assert rates.wer == 50
