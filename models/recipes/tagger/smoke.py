"""The tagger recipe end to end at tiny sizes, in seconds: `run(folder)`; `recipes.smoke` calls it."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from transformers import BertConfig, BertForTokenClassification

from ..voice.training import load_modules
from .__main__ import main
from .lexicon import invent, read_list, slots
from .model import load
from .names import Lexicon, save
from .sentences import Sentences, talk
from .wordpiece import train_tokenizer


def small_lexicon() -> Lexicon:
    """Words of the engine's lists and a few lines; nothing is downloaded."""
    rng = random.Random(0)
    given, surnames, towns = (rng.sample(read_list(f"{name}.txt"), 300) for name in ("given", "surnames", "cities"))
    words = {
        "noun": ["harbour", "lamp", "invoice"], "nouns": ["harbours", "lamps"], "adj": ["late", "quiet"], "R": ["catholic"],
        "rare": ["astrolabe"], "word": ["mending"], "ordinary": ["lintel"], "verb": ["mend"], "verbs": ["mends"], "verbed": ["mended"], "verbing": ["mending"],
    }  # fmt: skip
    lines = {"plain": ["He went home, and she told him so.", "I do not know them."], "placed": ["They met in {L}, I think."],
             "defined": ["a lamp that burns oil"], "peopled": ["Mr {F} bowed to {FULL}."]}  # fmt: skip
    nationalities = {"N": read_list("nationalities.txt")}
    return Lexicon(given, surnames, towns, invent(given, 50, rng), invent(surnames, 50, rng), invent(towns, 50, rng),
                   slots() | words | lines | nationalities)  # fmt: skip


def run(out: Path) -> None:
    """Trains on sentences of a small lexicon, exports, and compares the scores with the published class."""
    store = out / "store"
    store.mkdir(parents=True, exist_ok=True)
    save(small_lexicon(), store / "lexicon.json.xz")
    rng = random.Random(1)
    sentences = Sentences(small_lexicon(), rng)
    train_tokenizer((word for word, _ in talk(sentences, rng, 8000)), 600, store / "tokenizer.json")
    sizes = ["--hidden", "32", "--layers", "1", "--pieces", "512"]
    main(["train", "--store", str(store), "--out", str(out / "run"), "--minutes", "0.05", "--processes", "0", *sizes])
    main(["export", "--run", str(out / "run"), "--store", str(store), "--out", str(out / "tagger")])
    main(["evaluate", "--model", str(out / "tagger")])
    published = BertForTokenClassification(BertConfig.from_pretrained(out / "tagger")).eval()
    published.load_state_dict(load_modules(out / "tagger"))
    ids, types = torch.randint(5, 600, (2, 9)), torch.randint(0, 4, (2, 9))
    with torch.no_grad():
        scores = published(input_ids=ids, token_type_ids=types, attention_mask=torch.ones_like(ids)).logits
        torch.testing.assert_close(load(out / "tagger")(ids, types), scores, atol=1e-4, rtol=1e-3)
