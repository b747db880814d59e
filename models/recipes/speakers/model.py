"""The embedding network, in the form of ECAPA-TDNN (arXiv 2005.07143), and its export with batch norms folded.

Log-mels `[rows, frames, 80]` less their mean over the frames -> convolution of width 5 and stride 2 -> three SE-Res2
blocks -> their outputs side by side, one layer -> attentive mean and deviation over time -> 128 numbers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional as F

from ..features import MELS

VARIANCE_FLOOR = 1e-5


@dataclass(frozen=True)
class Shape:
    channels: int = 256
    parts: int = 4  # of a Res2 layer's channels
    dilations: tuple[int, ...] = (2, 3, 4)
    bottleneck: int = 64  # of squeeze-excitation and attention
    pooled: int = 512
    embedding: int = 128

    def json(self) -> dict:
        return {"model_type": "ecapa_tdnn", "mels": MELS, **{k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}}


class Normed(nn.Module):
    """Convolution, batch norm, ReLU; `folded` is one convolution that does the first two."""

    def __init__(self, inputs: int, outputs: int, width: int, dilation: int = 1, stride: int = 1):
        super().__init__()
        padding = dilation * (width - 1) // 2
        self.conv = nn.Conv1d(inputs, outputs, width, stride=stride, dilation=dilation, padding=padding)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.conv(x)))

    def folded(self) -> dict[str, torch.Tensor]:
        scale, shift = affine(self.norm)
        return {"weight": self.conv.weight * scale[:, None, None], "bias": self.conv.bias * scale + shift}


def affine(norm: nn.BatchNorm1d) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale and shift of a batch norm in evaluation."""
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return scale, norm.bias - norm.running_mean * scale


class Block(nn.Module):
    """SE-Res2: `[rows, channels, frames]` to the same, with the input added."""

    def __init__(self, shape: Shape, dilation: int):
        super().__init__()
        part = shape.channels // shape.parts
        self.first = Normed(shape.channels, shape.channels, 1)
        self.parts = nn.ModuleList(Normed(part, part, 3, dilation) for _ in range(shape.parts - 1))
        self.last = Normed(shape.channels, shape.channels, 1)
        self.squeeze = nn.Linear(shape.channels, shape.bottleneck)
        self.excite = nn.Linear(shape.bottleneck, shape.channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept, *rest = self.first(x).chunk(len(self.parts) + 1, 1)
        done, before = [kept], None
        for layer, part in zip(self.parts, rest, strict=True):
            before = layer(part if before is None else part + before)
            done.append(before)
        y = self.last(torch.cat(done, 1))
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(y.mean(2)))))
        return x + y * gate[:, :, None]


class Embedder(nn.Module):
    def __init__(self, shape: Shape = Shape()):
        super().__init__()
        self.shape = shape
        joined = shape.channels * len(shape.dilations)
        self.front = Normed(MELS, shape.channels, 5, stride=2)
        self.blocks = nn.ModuleList(Block(shape, dilation) for dilation in shape.dilations)
        self.join = Normed(joined, shape.pooled, 1)
        self.attend = nn.Conv1d(shape.pooled, shape.bottleneck, 1)
        self.context = nn.Linear(2 * shape.pooled, shape.bottleneck, bias=False)
        self.weigh = nn.Conv1d(shape.bottleneck, shape.pooled, 1)
        self.pooled_norm = nn.BatchNorm1d(2 * shape.pooled)
        self.embed = nn.Linear(2 * shape.pooled, shape.embedding)
        self.norm = nn.BatchNorm1d(shape.embedding)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        """`[rows, frames, mels]` to `[rows, embedding]`, not of unit length."""
        x = self.front((mels - mels.mean(1, keepdim=True)).transpose(1, 2))
        outputs = []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        x = self.join(torch.cat(outputs, 1))
        hidden = torch.tanh(self.attend(x) + self.context(statistics(x, None))[:, :, None])
        weights = torch.softmax(self.weigh(hidden).float(), 2)
        return self.norm(self.embed(self.pooled_norm(statistics(x, weights))))

    def folded(self) -> dict[str, torch.Tensor]:
        """The published tensors: no batch norm is left among them."""
        found: dict[str, torch.Tensor] = {}

        def put(name: str, tensors: dict[str, torch.Tensor]) -> None:
            found.update({f"{name}.{key}": value.detach().contiguous() for key, value in tensors.items()})

        def plain(layer: nn.Module) -> dict[str, torch.Tensor]:
            return dict(layer.named_parameters())

        put("front", self.front.folded())
        for number, block in enumerate(self.blocks):
            put(f"blocks.{number}.first", block.first.folded())
            for part, layer in enumerate(block.parts):
                put(f"blocks.{number}.parts.{part}", layer.folded())
            put(f"blocks.{number}.last", block.last.folded())
            put(f"blocks.{number}.squeeze", plain(block.squeeze))
            put(f"blocks.{number}.excite", plain(block.excite))
        put("join", self.join.folded())
        for name in ("attend", "context", "weigh"):
            put(name, plain(getattr(self, name)))
        (before, shift), (after, lift) = affine(self.pooled_norm), affine(self.norm)
        weight, bias = self.embed.weight, self.embed.bias + self.embed.weight @ shift
        put("embed", {"weight": weight * before * after[:, None], "bias": bias * after + lift})
        return found


def statistics(x: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
    """Mean and deviation over time, `[rows, 2 channels]`, f32; `weights` sum to 1 over it."""
    x = x.float()
    if weights is None:
        mean, square = x.mean(2), (x * x).mean(2)
    else:
        mean, square = (x * weights).sum(2), (x * x * weights).sum(2)
    return torch.cat([mean, (square - mean * mean).clamp(min=VARIANCE_FLOOR).sqrt()], 1)


class Margin(nn.Module):
    """Additive angular margin softmax (arXiv 1801.07698) over the training voices."""

    def __init__(self, voices: int, embedding: int, scale: float = 30.0):
        super().__init__()
        self.scale = scale
        self.weight = nn.Parameter(torch.randn(voices, embedding) * 0.1)

    def forward(self, embeddings: torch.Tensor, voices: torch.Tensor, margin: float) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss, and the share of rows whose own voice is nearest."""
        cosines = F.linear(F.normalize(embeddings.float()), F.normalize(self.weight)).clamp(-1 + 1e-6, 1 - 1e-6)
        own = cosines.gather(1, voices[:, None])
        harder = torch.cos((torch.acos(own) + margin).clamp(max=torch.pi))
        scores = self.scale * cosines.scatter(1, voices[:, None], harder)
        return F.cross_entropy(scores, voices), (cosines.argmax(1) == voices).float().mean()
