"""Writes a run as a folder in the published form, in f16."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from ..voice.training import save_weights
from .model import load


def export(run: Path, tokenizer: Path, out: Path, least: float = 0.5) -> None:
    """Findings below the confidence `least` are dropped by the engine."""
    model = load(run)
    c = model.config
    out.mkdir(parents=True, exist_ok=True)
    published = {
        "architectures": ["BertForTokenClassification"], "model_type": "bert", "dtype": "float16", "hidden_act": "gelu",
        "attention_probs_dropout_prob": 0.0, "classifier_dropout": None, "hidden_dropout_prob": c.hidden_dropout_prob,
        "hidden_size": c.hidden_size, "initializer_range": 0.02, "intermediate_size": c.intermediate_size,
        "layer_norm_eps": c.layer_norm_eps, "max_position_embeddings": c.max_position_embeddings,
        "num_attention_heads": c.num_attention_heads, "num_hidden_layers": c.num_hidden_layers, "pad_token_id": 0,
        "position_embedding_type": "absolute", "type_vocab_size": c.type_vocab_size, "use_cache": False, "vocab_size": c.vocab_size,
        "auricle_token_types": "case", "auricle_least_confidence": least,
        "id2label": {str(number): name for number, name in enumerate(c.tags)},
        "label2id": {name: number for number, name in enumerate(c.tags)},
    }  # fmt: skip
    (out / "config.json").write_text(json.dumps(published, indent=2) + "\n", encoding="utf-8")
    if tokenizer.resolve() != (out / "tokenizer.json").resolve():
        shutil.copyfile(tokenizer, out / "tokenizer.json")
    save_weights(out / "model.safetensors", model.state_dict())
    size = sum(path.stat().st_size for path in out.glob("*"))
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {size / 1e6:.2f} MB in all")
