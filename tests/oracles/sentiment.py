"""Makes the fixture of the sentiment rules with the `vaderSentiment` package, and its lexicon in the engine's compact form.

pip install vaderSentiment==3.3.2
python tests/oracles/sentiment.py            # rewrites tests/fixtures/sentiment/oracle.json
python tests/oracles/sentiment.py --lexicon  # rewrites the lexicon and the emoji in engine/src/text/analysis/sentiment
"""

import argparse
import ast
import json
import random
from pathlib import Path

import vaderSentiment.vaderSentiment as vader

ROOT = Path(__file__).resolve().parent.parent.parent
SENTENCES = 2000
FILLERS = (
    "the a an I we they he it she you this that was is were are of in on at with and or so then today meeting report car "
    "Monday phone team kitchen river paper number window table after before because while about from into he's it's we're"
).split()
SHAPES = [str.lower, str.lower, str.lower, str.capitalize, str.upper]
ENDS = ["", "", "", "", ",", ".", "!", "?", "!!", "!!!", "???", "??", "...", ")", "\"", "!?", ";"]


def own_sentences() -> list[str]:
    """The sentences that the package's own demonstration scores."""
    tree = ast.parse(Path(vader.__file__).read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("sentences", "tricky_sentences", "conceptList", "nonEnglish_sentences"):
                found += ast.literal_eval(node.value)
            elif name == "paragraph":
                found.append(ast.literal_eval(node.value))
    return found


def composed_sentences(analyzer: vader.SentimentIntensityAnalyzer) -> list[str]:
    """Sentences of lexicon words, boosters, negations, idioms, emoticons and emoji, in any order."""
    chance = random.Random(28)
    lexicon = sorted(analyzer.lexicon)
    pools = [
        (FILLERS, 8),
        (lexicon, 6),
        (sorted(vader.BOOSTER_DICT), 3),
        (sorted(vader.NEGATE) + ["no", "No", "least", "at least", "very least", "never so", "never this", "without a doubt", "without doubt", "or", "nor"], 3),
        (sorted(vader.SPECIAL_CASES), 1),
        (["but", "But", "kind of", "sort of"], 1),
        (sorted(emoji for emoji in analyzer.emojis), 1),
        ([":)", ":D", ";-)", ":(", "<3", "XD", "a", "I'm", "...", "-", "!"], 1),
    ]
    texts = []
    while len(texts) < SENTENCES:
        words = []
        for _ in range(chance.randint(1, 14)):
            pool = chance.choices([pool for pool, _ in pools], [weight for _, weight in pools])[0]
            words.append(chance.choice(SHAPES)(chance.choice(pool)) + chance.choice(ENDS))
        glue = chance.choice([" ", " ", " ", " ", "  ", "\t"])
        texts.append(glue.join(words))
    return texts


def write_fixture() -> None:
    analyzer = vader.SentimentIntensityAnalyzer()
    rows = []
    for text in own_sentences() + composed_sentences(analyzer):
        scores = analyzer.polarity_scores(text)
        rows.append([text, scores["compound"], scores["pos"], scores["neu"], scores["neg"]])
    folder = ROOT / "tests/fixtures/sentiment"
    folder.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / "oracle.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(len(rows), "sentences")


def write_lexicon() -> None:
    analyzer = vader.SentimentIntensityAnalyzer()
    folder = ROOT / "engine/src/text/analysis/sentiment"
    # Words are looked up in lower case and without spaces, emoji one character at a time: other entries are never found.
    words = {word: value for word, value in analyzer.lexicon.items() if word == word.lower() and len(word.split()) == 1}
    emoji = {key: text for key, text in analyzer.emojis.items() if len(key) == 1}
    write(folder / "lexicon.tsv", {word: f"{value:g}" for word, value in words.items()})
    write(folder / "emoji.tsv", emoji)


def write(path: Path, table: dict[str, str]) -> None:
    path.write_text("".join(f"{key}\t{table[key]}\n" for key in sorted(table)), encoding="utf-8")
    print(path.name, len(table))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lexicon", action="store_true")
    (write_lexicon if parser.parse_args().lexicon else write_fixture)()
