"""Small discriminators: of complex spectrograms, one a window size (after Défossez et al. 2022, arXiv 2210.13438), and of every n-th
sample, one a period (after Kong et al. 2020, arXiv 2010.05646).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .sound import LEVEL

WINDOWS = (512, 1024, 256)


class SpectrogramDiscriminator(nn.Module):
    """Scores `[rows, frames, bins]` of each place of a spectrogram, and the activations of each layer."""

    def __init__(self, window: int, channels: int):
        super().__init__()
        self.register_buffer("window", torch.hann_window(window), persistent=False)
        norm = nn.utils.parametrizations.weight_norm
        sizes = [2, channels, channels, 2 * channels, 2 * channels]
        self.layers = nn.ModuleList(
            norm(nn.Conv2d(before, after, (3, 5), stride=(1, 2) if n else (2, 2), padding=(1, 2)))
            for n, (before, after) in enumerate(zip(sizes, sizes[1:], strict=False))
        )
        self.out = norm(nn.Conv2d(sizes[-1], 1, (3, 3), padding=1))

    def forward(self, sound: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        size = len(self.window)
        spectrum = torch.stft(sound, size, size // 4, window=self.window, return_complex=True, normalized=True)
        # loud places would drown the rest
        scale = (spectrum.real**2 + spectrum.imag**2 + 1e-6) ** -0.35
        x = torch.stack([spectrum.real * scale, spectrum.imag * scale], 1).transpose(2, 3)
        inner = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.1)
            inner.append(x)
        return self.out(x).squeeze(1), inner


class PeriodDiscriminator(nn.Module):
    """Scores the columns of a sound in rows of `period` samples, which shows what comes again."""

    def __init__(self, period: int, channels: int):
        super().__init__()
        self.period = period
        norm = nn.utils.parametrizations.weight_norm
        sizes = [1, channels, 2 * channels, 4 * channels, 8 * channels, 8 * channels]
        self.layers = nn.ModuleList(
            norm(nn.Conv2d(before, after, (5, 1), stride=(1 if n == 4 else 3, 1), padding=(2, 0)))
            for n, (before, after) in enumerate(zip(sizes, sizes[1:], strict=False))
        )
        self.out = norm(nn.Conv2d(sizes[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, sound: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        rows = sound.shape[1] // self.period
        x, inner = sound[:, : rows * self.period].reshape(len(sound), 1, rows, self.period) / LEVEL, []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.1)
            inner.append(x)
        return self.out(x).squeeze(1), inner


class Discriminators(nn.Module):
    def __init__(self, channels: int = 16, periods: tuple[int, ...] = ()):
        super().__init__()
        parts = [*(SpectrogramDiscriminator(window, channels) for window in WINDOWS), *(PeriodDiscriminator(p, channels) for p in periods)]
        self.parts = nn.ModuleList(parts)

    def forward(self, sound: torch.Tensor) -> list[tuple[torch.Tensor, list[torch.Tensor]]]:
        """`[rows, samples]` to each part's scores and inner activations."""
        return [part(sound) for part in self.parts]


def halves(found: list) -> tuple[list, list]:
    """What was found in the first half of the rows, and in the second."""

    def rows(which: slice) -> list:
        return [(scores[which], [layer[which] for layer in inner]) for scores, inner in found]

    middle = len(found[0][0]) // 2
    return rows(slice(middle)), rows(slice(middle, None))


def discriminator_loss(real: list, made: list) -> torch.Tensor:
    """Hinge: recordings above 1, made sounds below -1."""
    losses = [F.relu(1 - r[0].float()).mean() + F.relu(1 + m[0].float()).mean() for r, m in zip(real, made, strict=True)]
    return sum(losses) / len(losses)


def generator_losses(real: list, made: list) -> tuple[torch.Tensor, torch.Tensor]:
    """The hinge loss of the generator, and the feature matching loss, relative to the recording's activations."""
    adversarial = sum(F.relu(1 - m[0].float()).mean() for m in made) / len(made)
    distances = [
        F.l1_loss(b.float(), a.detach().float()) / a.detach().float().abs().mean().clamp(min=1e-4)
        for r, m in zip(real, made, strict=True)
        for a, b in zip(r[1], m[1], strict=True)
    ]
    return adversarial, sum(distances) / len(distances)
