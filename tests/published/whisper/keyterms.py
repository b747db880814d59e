"""What keyterms do with Whisper base: `python tests/published/whisper/keyterms.py --work FOLDER --set CORPUS`.

Takes utterances that hold a rare word, one that the corpus has once, and transcribes them without keyterms and with those of a group
of utterances, so that each has its own term and those of others. Fails where fewer terms are found than without, or where
more other words are wrong.
"""

import argparse
import os
from collections import Counter
from pathlib import Path

from long_files import NORMALISE, auricle, distance, models_folder, ROOT

# Letters of a term at least: long words are names and terms more often than short ones.
LETTERS = 8
# Utterances whose terms are given together.
GROUP = 20


def choose(corpus: Path, count: int) -> list[tuple[Path, str, str]]:
    """Files with their texts and terms, in an order that mixes the readers."""
    rows = [line.split("\t") for line in (corpus / "refs.tsv").read_text().splitlines()]
    often = Counter(word for _, text in rows for word in text.lower().split())
    chosen = []
    for name, text in sorted(rows, key=lambda row: row[0][::-1]):
        rare = [word for word in text.lower().split() if often[word] == 1 and len(word) >= LETTERS and word.isalpha()]
        # A term that the normaliser spells otherwise could not be counted.
        rare = [word for word in rare if NORMALISE(word) == word]
        if rare:
            chosen.append((corpus / name, text, max(rare, key=len)))
    return chosen[:count]


def main() -> None:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of `weights.py`")
    parser.add_argument("--set", type=Path, required=True, help="sounds and refs.tsv")
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--bound", type=float, default=0.5, help="points of WER that keyterms may cost")
    parser.add_argument("--program", type=Path, default=target / "release/auricle")
    arguments = parser.parse_args()
    chosen = choose(arguments.set, arguments.count)
    models = models_folder(arguments.work / "base")
    common = ["--model", "svc-fast", "--language", "en", "--precision", "int8"]
    found, rates = {}, {}
    for way in ("without", "with"):
        texts = []
        for first in range(0, len(chosen), GROUP):
            group = chosen[first : first + GROUP]
            terms = [option for _, _, term in group for option in ("--keyterm", term)] if way == "with" else []
            files = [path for path, _, _ in group]
            texts += [NORMALISE(result["text"]).split() for result in auricle(arguments.program, models, files, *common, *terms)]
        found[way] = sum(term in text for (_, _, term), text in zip(chosen, texts, strict=True))
        all_terms = {term for _, _, term in chosen}
        # Terms of others that came in, and errors in the words that are no terms.
        foreign = sum(word in all_terms and word != term for (_, _, term), text in zip(chosen, texts, strict=True) for word in text)
        said = [NORMALISE(text).split() for _, text, _ in chosen]
        rest = lambda words: [word for word in words if word not in all_terms]  # noqa: E731
        words = sum(len(rest(one)) for one in said)
        rates[way] = 100 * sum(distance(rest(a), rest(b)) for a, b in zip(said, texts, strict=True)) / words
        print(
            f"{way} keyterms: {found[way]} of {len(chosen)} terms, {foreign} terms of others, "
            f"{rates[way]:.2f} % of the {words} other words wrong",
            flush=True,
        )
    if found["with"] < found["without"] or rates["with"] > rates["without"] + arguments.bound:
        raise SystemExit("keyterms do harm")


if __name__ == "__main__":
    main()
