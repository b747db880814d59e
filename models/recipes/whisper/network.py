"""The published network as functions of its tensors, so that they may be rounded on their way; the encoder sees as many frames
as its input has.

`weights` are tensors by their published names. Shapes: features `[rows, mels, 2 frames]`, frames `[rows, frames, width]`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

Weights = dict[str, torch.Tensor]
EMBEDDINGS = "model.decoder.embed_tokens.weight"


@dataclass(frozen=True)
class Shape:
    """What the network needs to know beside its tensors."""

    heads: int
    encoder_layers: int
    decoder_layers: int
    alignment_heads: tuple[tuple[int, int], ...]

    @staticmethod
    def of(config: dict, generation: dict) -> Shape:
        heads = tuple((layer, head) for layer, head in generation["alignment_heads"])
        return Shape(config["decoder_attention_heads"], config["encoder_layers"], config["decoder_layers"], heads)


# Where set, receives the name and the input of every product with a matrix.
watcher: Callable[[str, torch.Tensor], None] | None = None


def linear(weights: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    if watcher is not None:
        watcher(f"{name}.weight", x)
    return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))


def norm(weights: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    gamma, beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return F.layer_norm(x, gamma.shape, gamma, beta)


def attention(
    weights: Weights, name: str, heads: int, x: torch.Tensor, seen: torch.Tensor, causal: bool = False, looked: list[int] | None = None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Attention of `x` to `seen`, and the probabilities of the heads in `looked`, `[rows, heads, queries, keys]`."""

    def split(y: torch.Tensor) -> torch.Tensor:
        return y.unflatten(2, (heads, -1)).transpose(1, 2)

    query, key, value = (split(linear(weights, f"{name}.{part}_proj", y)) for part, y in (("q", x), ("k", seen), ("v", seen)))
    out = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
    shown = None
    if looked:
        scores = query[:, looked].float() @ key[:, looked].float().transpose(2, 3)
        shown = torch.log_softmax(scores * query.shape[3] ** -0.5, 3)
    return linear(weights, f"{name}.out_proj", out.transpose(1, 2).flatten(2)), shown


def feed_forward(weights: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    return linear(weights, f"{name}.fc2", F.gelu(linear(weights, f"{name}.fc1", norm(weights, f"{name}.final_layer_norm", x))))


def encode(weights: Weights, shape: Shape, features: torch.Tensor) -> torch.Tensor:
    """`[rows, mels, 2 frames]` to `[rows, frames, width]`."""
    side = "model.encoder"
    x = F.gelu(F.conv1d(features, weights[f"{side}.conv1.weight"], weights[f"{side}.conv1.bias"], padding=1))
    x = F.gelu(F.conv1d(x, weights[f"{side}.conv2.weight"], weights[f"{side}.conv2.bias"], stride=2, padding=1))
    x = x.transpose(1, 2).float()
    x = x + weights[f"{side}.embed_positions.weight"][: x.shape[1]]
    for layer in range(shape.encoder_layers):
        name = f"{side}.layers.{layer}"
        normed = norm(weights, f"{name}.self_attn_layer_norm", x)
        x = x + attention(weights, f"{name}.self_attn", shape.heads, normed, normed)[0]
        x = x + feed_forward(weights, name, x)
    return norm(weights, f"{side}.layer_norm", x)


def decode(weights: Weights, shape: Shape, tokens: torch.Tensor, frames: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens `[rows, count]` and `frames` to the last hidden states `[rows, count, width]`, and the logarithms of the alignment
    heads' attention `[rows, heads, count, frames]`."""
    side = "model.decoder"
    embedded = F.embedding(tokens, weights[EMBEDDINGS])
    x = embedded.float() + weights[f"{side}.embed_positions.weight"][: tokens.shape[1]]
    shown = []
    for layer in range(shape.decoder_layers):
        name = f"{side}.layers.{layer}"
        normed = norm(weights, f"{name}.self_attn_layer_norm", x)
        x = x + attention(weights, f"{name}.self_attn", shape.heads, normed, normed, causal=True)[0]
        looked = [head for at, head in shape.alignment_heads if at == layer]
        normed = norm(weights, f"{name}.encoder_attn_layer_norm", x)
        attended, heads = attention(weights, f"{name}.encoder_attn", shape.heads, normed, frames, looked=looked)
        x = x + attended
        x = x + feed_forward(weights, name, x)
        if heads is not None:
            shown.append(heads)
    return norm(weights, f"{side}.layer_norm", x), torch.cat(shown, 1)


def scores(weights: Weights, hidden: torch.Tensor) -> torch.Tensor:
    """Scores of all tokens, `[..., vocabulary]`."""
    return F.linear(hidden, weights[EMBEDDINGS])
