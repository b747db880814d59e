"""Maps of confidences."""

import random

from recipes.confidence import calibration_error, fit, judged, mapped


def test_words_are_right_where_the_reference_has_them():
    words = [("The", 0.9), ("cat,", 0.5), ("sad", 0.2), ("well-known", 0.7), ("...", 0.4)]
    assert judged(words, "THE CAT SAT WELL KNOWN") == [(0.9, True), (0.5, True), (0.2, False), (0.7, True)]


def test_a_fit_finds_the_map_that_made_the_words():
    chance = random.Random(3)
    values = [chance.uniform(0.05, 0.99) for _ in range(4000)]
    rows = [(value, chance.random() < mapped(value, 1.4, -1.8)) for value in values]
    slope, offset = fit(rows)
    assert abs(slope - 1.4) < 0.15 and abs(offset + 1.8) < 0.15
    assert calibration_error(rows) > 15
    assert calibration_error([(mapped(value, slope, offset), right) for value, right in rows]) < 2.5
