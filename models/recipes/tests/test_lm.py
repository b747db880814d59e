"""Language models: probabilities add up, pruned and mixed ones too, and what is written is what was estimated."""

import numpy as np
import pytest

from recipes.lm import codebook, log_probs, mix, numbered, prune, train

TEXT = [line.split() for line in ("a b c a b", "b c a d a b c", "d d a b", "c c b a b c d", "a", "d b")]


def sums(levels, vocabulary):
    """The sum of P(word | context) over all words, for every context of two words."""
    numbers = range(len(vocabulary))
    return [
        np.exp(log_probs(levels, np.array([[one, two, word] for word in numbers]), len(vocabulary))).sum()
        for one in numbers
        for two in numbers
    ]


@pytest.fixture
def vocabulary():
    return numbered({"a", "b", "c", "never"}, TEXT)


def test_probabilities_add_up_to_one(vocabulary):
    levels = train(TEXT, vocabulary, order=3)
    np.testing.assert_allclose(sums(levels, vocabulary), 1, rtol=1e-6)
    prune(levels, [0, 8, 5])
    assert [len(level.log_prob) for level in levels] == [len(vocabulary), 8, 5]
    np.testing.assert_allclose(sums(levels, vocabulary), 1, rtol=1e-6)


def test_a_mixture_is_the_mean_where_it_has_an_n_gram(vocabulary):
    one, two = train(TEXT[:3], vocabulary, order=3), train(TEXT[3:], vocabulary, order=3)
    mixed = mix([one, two], [0.75, 0.25], len(vocabulary))
    for level in mixed:
        wanted = sum(w * np.exp(log_probs(m, level.words, len(vocabulary))) for w, m in ((0.75, one), (0.25, two)))
        np.testing.assert_allclose(np.exp(level.log_prob), wanted)
    np.testing.assert_allclose(sums(mixed, vocabulary), 1, rtol=1e-6)


def test_frequent_words_have_small_numbers_and_unseen_ones_a_probability(vocabulary):
    assert (vocabulary[:4], vocabulary[-1]) == (["<unk>", "<s>", "</s>", "b"], "never")
    levels = train(TEXT, vocabulary, order=3)
    assert levels[0].log_prob[vocabulary.index("never")] > -10


def test_a_codebook_is_exact_for_few_values_and_close_for_many():
    few = np.array([1.0, 2.0, 1.0])
    values, codes = codebook(few)
    np.testing.assert_array_equal(values[codes], few)
    many = np.random.default_rng(0).normal(-8, 3, 50_000)
    values, codes = codebook(many)
    assert len(values) <= 256 and np.abs(values[codes] - many).max() < 0.15
