"""Numbers as people say them: digit by digit, with "oh" and "double", in pairs, as amounts."""

from __future__ import annotations

import random

ONES = "zero one two three four five six seven eight nine".split()
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth "
    "seventeenth eighteenth nineteenth twentieth"
).split()


def below_hundred(number: int) -> str:
    if number < 10:
        return ONES[number]
    if number < 20:
        return TEENS[number - 10]
    return TENS[number // 10 - 2] + (f" {ONES[number % 10]}" if number % 10 else "")


def number_heard(number: int) -> str:
    """Below a million."""
    if number < 100:
        return below_hundred(number)
    if number < 1000:
        return f"{ONES[number // 100]} hundred" + (f" and {below_hundred(number % 100)}" if number % 100 else "")
    return f"{number_heard(number // 1000)} thousand" + (f" {number_heard(number % 1000)}" if number % 1000 else "")


def ordinal(day: int) -> str:
    if day <= 20:
        return ORDINALS[day - 1]
    return "thirtieth" if day == 30 else f"{TENS[day // 10 - 2]} {ORDINALS[day % 10 - 1]}"


def year_heard(year: int) -> str:
    low = year % 100
    if 2000 <= year < 2010:
        return "two thousand" + (f" and {ONES[low]}" if low else "")
    return f"{below_hundred(year // 100)} " + ("hundred" if low == 0 else f"oh {ONES[low]}" if low < 10 else below_hundred(low))


def digits_heard(rng: random.Random, text: str) -> str:
    """Digits and letters; other marks are not said."""
    zero = rng.choice(["oh", "zero"])
    doubles, pairs, triples = rng.random() < 0.3, rng.random() < 0.2, rng.random() < 0.1
    said, at = [], 0
    text = "".join(letter for letter in text if letter.isalnum())
    while at < len(text):
        digit, two = text[at], text[at : at + 2]
        if not digit.isdigit():
            said.append(digit.lower())
            at += 1
        elif triples and text[at : at + 3] == digit * 3:
            said.append(f"triple {ONES[int(digit)] if digit != '0' else zero}")
            at += 3
        elif doubles and two == digit * 2:
            said.append(f"double {ONES[int(digit)] if digit != '0' else zero}")
            at += 2
        elif pairs and len(two) == 2 and two.isdigit() and digit != "0" and rng.random() < 0.8:
            said.append(below_hundred(int(two)))
            at += 2
        else:
            said.append(zero if digit == "0" else ONES[int(digit)])
            at += 1
    return " ".join(said)
