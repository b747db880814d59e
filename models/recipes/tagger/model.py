"""transformers' `BertForTokenClassification` in plain torch: the same numbers, the same names of weights, less to install."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

LABELS = [
    "PERSON_NAME",
    "LOCATION",
    "ORGANIZATION",
    "OCCUPATION",
    "NATIONALITY",
    "RELIGION",
    "POLITICAL_AFFILIATION",
    "MEDICAL_CONDITION",
    "MEDICAL_PROCESS",
    "DRUG",
    "PERSON_AGE",
    "DATE_OF_BIRTH",
    "PHONE_NUMBER",
    "EMAIL_ADDRESS",
    "URL",
    "IP_ADDRESS",
    "USERNAME",
    "PASSWORD",
    "ACCOUNT_NUMBER",
    "BANKING_INFORMATION",
    "CREDIT_CARD_NUMBER",
    "CREDIT_CARD_EXPIRATION",
    "CREDIT_CARD_CVV",
    "US_SOCIAL_SECURITY_NUMBER",
    "PASSPORT_NUMBER",
    "DRIVERS_LICENSE",
    "HEALTHCARE_NUMBER",
    "VEHICLE_ID",
    "EVENT",
]
TAGS = ["O", *(f"{place}-{label}" for label in LABELS for place in "BI")]
POSITIONS = 128
CASES = 4


@dataclass
class Config:
    """What `config.json` has of the model's shape."""

    vocab_size: int
    hidden_size: int = 128
    num_hidden_layers: int = 3
    num_attention_heads: int = 4
    intermediate_size: int = 512
    max_position_embeddings: int = POSITIONS
    type_vocab_size: int = CASES
    layer_norm_eps: float = 1e-12
    hidden_dropout_prob: float = 0.1
    tags: list[str] = field(default_factory=lambda: list(TAGS))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


class Attention(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.heads = c.num_attention_heads
        self.self = nn.ModuleDict({name: nn.Linear(c.hidden_size, c.hidden_size) for name in ("query", "key", "value")})
        self.output = nn.ModuleDict(
            {"dense": nn.Linear(c.hidden_size, c.hidden_size), "LayerNorm": nn.LayerNorm(c.hidden_size, c.layer_norm_eps)}
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor, dropout: float) -> torch.Tensor:
        query, key, value = (layer(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for layer in self.self.values())
        seen = F.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2).flatten(2)
        return self.output["LayerNorm"](x + F.dropout(self.output["dense"](seen), dropout, self.training))


class Layer(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.attention = Attention(c)
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(c.hidden_size, c.intermediate_size)})
        self.output = nn.ModuleDict(
            {"dense": nn.Linear(c.intermediate_size, c.hidden_size), "LayerNorm": nn.LayerNorm(c.hidden_size, c.layer_norm_eps)}
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor, dropout: float) -> torch.Tensor:
        x = self.attention(x, mask, dropout)
        inner = self.output["dense"](F.gelu(self.intermediate["dense"](x)))
        return self.output["LayerNorm"](x + F.dropout(inner, dropout, self.training))


class Bert(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.embeddings = nn.ModuleDict({
            "word_embeddings": nn.Embedding(c.vocab_size, c.hidden_size, padding_idx=0),
            "position_embeddings": nn.Embedding(c.max_position_embeddings, c.hidden_size),
            "token_type_embeddings": nn.Embedding(c.type_vocab_size, c.hidden_size),
            "LayerNorm": nn.LayerNorm(c.hidden_size, c.layer_norm_eps),
        })  # fmt: skip
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))})


class Tagger(nn.Module):
    """Scores `[rows, pieces, tags]` of pieces and their token types, both `[rows, pieces]`."""

    def __init__(self, c: Config):
        super().__init__()
        self.config, self.bert, self.classifier = c, Bert(c), nn.Linear(c.hidden_size, len(c.tags))
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.04)

    def forward(self, ids: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        parts, dropout = self.bert.embeddings, self.config.hidden_dropout_prob
        places = torch.arange(ids.shape[1], device=ids.device)
        x = parts["word_embeddings"](ids) + parts["token_type_embeddings"](types) + parts["position_embeddings"](places)
        x = F.dropout(parts["LayerNorm"](x), dropout, self.training)
        mask = (ids != 0)[:, None, None, :]
        for layer in self.bert.encoder["layer"]:
            x = layer(x, mask, dropout)
        return self.classifier(x)


def load(folder: Path) -> Tagger:
    """From a run (`shape.json`) or an export (`config.json`)."""
    from ..voice.training import load_modules

    shape = folder / "shape.json"
    if shape.exists():
        config = Config(**json.loads(shape.read_text(encoding="utf-8")))
    else:
        published = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        names = published["id2label"]
        own = {name: published[name] for name in Config.__dataclass_fields__ if name in published}
        config = Config(**own, tags=[names[str(n)] for n in range(len(names))])
    model = Tagger(config)
    model.load_state_dict(load_modules(folder))
    return model.eval()
