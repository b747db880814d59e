import json
import random
import re

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import BertForTokenClassification

from recipes.tagger import evaluate, heard, lexicon, sets, tag, values
from recipes.tagger.export import export
from recipes.tagger.model import LABELS, TAGS, Config, Tagger, load
from recipes.tagger.names import save
from recipes.tagger.rows import NONE, Maker, Rows, fill
from recipes.tagger.sentences import PATTERNS, READINGS, Sentences, heard_word, parse, read_patterns
from recipes.tagger.smoke import small_lexicon
from recipes.tagger.train import DEV
from recipes.tagger.wordpiece import END, START, Pieces, case_of, train_tokenizer


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    save(small_lexicon(), folder / "lexicon.json.xz")
    sentences = Sentences(small_lexicon(), random.Random(1))
    train_tokenizer((word for _ in range(2000) for word, _ in sentences.draw("written")), 700, folder / "tokenizer.json")
    return folder


def test_pieces_are_those_of_the_library(store):
    own, library = Pieces(store / "tokenizer.json"), Tokenizer.from_file(str(store / "tokenizer.json"))
    sentences = Sentences(small_lexicon(), random.Random(2))
    words = [word for _ in range(400) for word, _ in sentences.draw(random.choice(list(READINGS)))]
    words += [
        "Smith,",
        "O'Neil's",
        "“Zoë”",
        "café",
        "555-0132",
        "İzmir",
        "ß",
        "日本語",
        "…",
        "a\u200bb",
        "(415)",
        "£5",
        "x" * 120,
        "naïve-é",
        "²",
        "ﬁ",
        "Ⅷ",
        "٣",
        "🙂",
        "—",
    ]
    for word in words:
        assert list(own(word)) == library.encode(word, add_special_tokens=False).ids, word


def test_a_words_case_is_its_letters_case():
    cases = {
        "the": 0,
        "123": 0,
        "Mary": 1,
        "I": 1,
        "'Tis": 1,
        "USA": 2,
        "U.S.": 2,
        "McDonald": 3,
        "iPhone": 3,
        "O'Neil's": 3,
        "(Anna)": 1,
        "ÉCOLE": 2,
    }
    assert {word: case_of(word) for word in cases} == cases


def test_scores_are_the_published_classes(tmp_path):
    torch.manual_seed(0)
    config = Config(50, 32, 2, 2, 48)
    model = Tagger(config).eval()
    for name, p in model.named_parameters():
        if "LayerNorm" in name or "bias" in name:
            torch.nn.init.normal_(p, 0.5, 0.2)
    config.save(tmp_path / "shape.json")
    torch.save({"average": model.state_dict()}, tmp_path / "checkpoint.pt")
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    export(tmp_path, tmp_path / "tokenizer.json", tmp_path / "out")
    published = BertForTokenClassification.from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
    assert published.config.auricle_token_types == "case" and [published.config.id2label[n] for n in range(len(TAGS))] == TAGS
    ids, types = torch.randint(5, 50, (3, 11)), torch.randint(0, 4, (3, 11))
    ids[1, 7:] = 0
    types[1, 7:] = 0
    with torch.no_grad():
        scores = published(input_ids=ids, token_type_ids=types, attention_mask=(ids > 0).long()).logits
        own = load(tmp_path / "out")(ids, types)
    torch.testing.assert_close(own[ids > 0], scores[ids > 0], atol=1e-5, rtol=1e-4)


def test_patterns_are_well_formed():
    assert parse("(a|b {P}|) c") == [parse("(a|b {P}|)")[0], " c"]
    with pytest.raises(ValueError, match="brackets"):
        parse("(a|b")
    drawn = values.Values(small_lexicon(), random.Random(0))
    for name in ("people", "places", "personal", "harmless", "words"):
        assert len(read_patterns(f"{name}.txt")) > 10
        for slot in set(re.findall(r"\{(\w+)\}", (PATTERNS / f"{name}.txt").read_text(encoding="utf-8"))):
            for _ in range(30):
                labels = {label for _, _, label in drawn.draw(slot)} - {None}
                assert labels <= set(LABELS) and (name not in ("harmless", "words") or not labels), slot


def test_sentences_keep_their_labels_in_all_readings():
    rng = random.Random(3)
    sentences = Sentences(small_lexicon(), rng)
    seen = set()
    for reading in READINGS:
        for _ in range(1500):
            words = sentences.draw(reading)
            before = "O"
            for word, label in words:
                assert word and label in TAGS and not re.search(r"\s", word)
                assert not label.startswith("I-") or before[2:] == label[2:], words
                seen.add(label)
                before = label
                if reading == "heard":
                    assert word == word.lower() and not re.search(r"[,;?!]|\.$", word), words
    assert seen >= {f"B-{label}" for label in LABELS if label != "EVENT"}


def test_pronouns_become_names():
    sentences = Sentences(small_lexicon(), random.Random(4))
    found = {
        " ".join(
            word if label == "O" else label[:3] for word, label in sentences._read(sentences._named("He told her mother."), "written")
        )
        for _ in range(300)
    }
    assert "B-P told B-P mother." in found and "He told her mother." in found


def test_ordinary_words_stand_where_names_could():
    sentences = Sentences(small_lexicon(), random.Random(4))
    found = [sentences._read(sentences._filled(parse("{FULL} from {L} met {G} on {day}."), True), "written") for _ in range(200)]
    assert all(label == "O" for words in found for _, label in words) and len({words[0] for words in found}) > 10


def test_names_in_books_become_slots_and_no_plain_line_begins_with_one():
    cast = lexicon.Cast(["Emma", "Frank"], ["Weston", "Churchill"], {"emma", "weston", "abernathy", "mark"}, {"mark", "frank"})
    slotted = {
        "Emma thought of Frank Churchill.": "{G} thought of {FULL}.",
        "I saw Mr Weston's horse.": "I saw Mr {F}'s horse.",
        "She told Miss Emma Weston so.": "She told Miss {F} so.",
        "Emma went to Highbury.": None,
        "He went home.": None,
    }
    assert {line: cast.slotted(line) for line in slotted} == slotted
    begins = {"Emma's way was long.": True, "Frank was late.": True, "Abernathy, hark!": True, "Mark my words.": False, "He left.": False}
    assert {line: cast.begins(line) for line in begins} == begins


def test_marked_sentences_are_left_out_of_harmless_sets(monkeypatch, tmp_path):
    rows = [line.split("\t") for line in sets.MARKED.read_text(encoding="utf-8").splitlines()]
    assert {row[0] for row in rows} == {"harmless", "jargon"} and all(re.fullmatch("[0-9a-f]{12}", row[1]) for row in rows)
    (tmp_path / "marked.tsv").write_text("some\t185f8db32271\tPERSON_NAME\n", encoding="utf-8")
    monkeypatch.setattr(sets, "MARKED", tmp_path / "marked.tsv")
    assert sets.unmarked("some", ["Hello", "there"]) == ["there"]
    assert sets.unmarked("other", ["Hello"]) == ["Hello"]
    with pytest.raises(SystemExit, match="not in the set"):
        sets.unmarked("some", ["there"])


def test_numbers_are_heard_as_people_say_them():
    rng = random.Random(5)
    said = {heard.digits_heard(rng, "5500") for _ in range(300)}
    assert {"five five zero zero", "double five double oh", "fifty five oh oh"} <= said
    assert heard.number_heard(1205) == "one thousand two hundred and five" and heard.year_heard(1908) == "nineteen oh eight"
    assert [heard.ordinal(day) for day in (3, 20, 21, 30)] == ["third", "twentieth", "twenty first", "thirtieth"]
    assert [heard_word(word) for word in ("(Well,", "James'", "it's", "--", "3.5", "O'Neil.")] == [
        "well",
        "james'",
        "it's",
        "",
        "3.5",
        "o'neil",
    ]


def test_rows_hold_whole_words_with_one_tag_each(store):
    pieces = Pieces(store / "tokenizer.json")
    rows = Rows(np.zeros((1, 32), np.uint16), np.zeros((1, 32), np.uint8), np.full((1, 32), NONE, np.uint8))
    fill(rows, 0, [("Zebedee,", "B-PERSON_NAME"), ("came", "O"), ("x" * 90, "O"), ("late", "O")], pieces)
    name = pieces("Zebedee,")
    end = 1 + len(name) + len(pieces("came"))
    assert (
        rows.ids[0, 0] == START
        and tuple(rows.ids[0, 1 : 1 + len(name)]) == name
        and rows.ids[0, end] == END
        and not rows.ids[0, end + 1 :].any()
    )
    assert (rows.types[0, 1 : 1 + len(name)] == 1).all() and rows.types[0, end - 1] == 0
    assert [TAGS[t] for t in rows.tags[0] if t != NONE] == ["B-PERSON_NAME", "O"]
    made = Maker(store / "lexicon.json.xz", store / "tokenizer.json", 1).make(2048)
    assert made.ids.size == 2048 and ((made.tags != NONE) <= (made.ids >= START)).all() and (made.ids[:, 0] == START).all()


def test_findings_are_runs_of_a_label():
    window = [(n * 2, n * 2 + 1, (9,)) for n in range(6)]
    names = ["I-LOCATION", "B-PERSON_NAME", "I-PERSON_NAME", "B-PERSON_NAME", "O", "I-DRUG"]
    found = list(tag.runs(window, names, [0.5, 0.9, 0.7, 1.0, 1.0, 0.6]))
    assert [(f.start, f.end, f.label) for f in found] == [
        (0, 1, "LOCATION"),
        (2, 5, "PERSON_NAME"),
        (6, 7, "PERSON_NAME"),
        (10, 11, "DRUG"),
    ]
    assert found[1].confidence == pytest.approx(0.8)


def test_long_texts_are_cut_between_words(store):
    pieces = Pieces(store / "tokenizer.json")
    model = Tagger(Config(len(pieces.vocabulary), 32, 1, 1, 32)).eval()
    text = " ".join(["harbour", "Zebedee", "x" * 400] * 50)
    windows = list(tag.cut(model, pieces, text))
    assert len(windows) > 2 and all(sum(len(ids) for _, _, ids in window) <= 126 for window in windows)
    assert [text[start:end] for window in windows for start, end, _ in window] == text.split()
    alone, together = tag.find(model, pieces, ["Zebedee called."]), tag.find(model, pieces, [text, "Zebedee called.", ""])
    assert [(f.start, f.end, f.label) for f in alone[0]] == [(f.start, f.end, f.label) for f in together[1]] and together[2] == []


def test_words_are_counted():
    lines = [{"text": "call Ann Lee now", "form": "written", "entities": [{"start_char": 5, "end_char": 12, "label": "PERSON_NAME"}]},
             {"text": "we met at Acme", "form": "written", "entities": [{"start_char": 10, "end_char": 14, "label": "ORGANIZATION"}]},
             {"text": "no names", "form": "harmless written", "entities": []}]  # fmt: skip
    scores = evaluate.score(lines, [[(0, 4, "DRUG"), (9, 12, "LOCATION")], [(10, 14, "ORGANIZATION")], [(0, 2, "DRUG")]])
    one = scores["written"]
    assert (one.personal, one.hidden, one.right, one.missed["PERSON_NAME"]) == (2, 2, 1, 1) and scores["harmless written"].false == 1


def test_the_evaluation_set_is_labelled_well_and_kept_out_of_training():
    lines = [json.loads(line) for line in DEV.read_text(encoding="utf-8").splitlines()]
    forms = {form: sum(line["form"] == form for line in lines) for form in ("written", "spoken", "harmless written", "harmless spoken")}
    assert forms["written"] >= 150 and forms["spoken"] >= 150 and forms["harmless written"] + forms["harmless spoken"] >= 150
    for line in lines:
        for entity in line["entities"]:
            assert line["text"][entity["start_char"] : entity["end_char"]] == entity["text"] and entity["label"] in LABELS
        assert bool(line["entities"]) != line["form"].startswith("harmless")
    hidden = lexicon.held_out_words()
    assert {"zebedee", "okereke", "kirkcudbright"} <= hidden and not {"hill", "the"} & hidden


def test_invented_names_are_on_no_list():
    names = lexicon.read_list("given.txt")
    made = lexicon.invent(names, 100, random.Random(6))
    assert len(made) == 100 and not set(made) & set(names) and all(re.search("[aeiouy]", name) for name in made)


def test_the_starter_finds_names_that_no_list_has():
    folder = PATTERNS.parents[2] / "starter" / "tagger"
    model, pieces = load(folder), Pieces(folder / "tokenizer.json")
    text = "My name is Ondrisk Vahlberry and I live in Drumnamuckle."
    known = {name for file in ("given.txt", "surnames.txt", "cities.txt") for name in lexicon.read_list(file)}
    assert not known & {"ondrisk", "vahlberry", "drumnamuckle"}
    for shown in (text, text.lower().rstrip(".")):
        found = [(shown[f.start : f.end].rstrip("."), f.label) for f in tag.find(model, pieces, [shown])[0]]
        assert [(name.lower(), label) for name, label in found] == [("ondrisk vahlberry", "PERSON_NAME"), ("drumnamuckle", "LOCATION")]
    assert tag.find(model, pieces, ["The build is broken again because of the linter."]) == [[]]
