"""A trained encoder of voices that teaches the embedding: what it makes of every stored utterance.

The teacher is the encoder that PyPI's `resemblyzer` ships (GE2E, arXiv 1710.10467; Apache 2.0): three LSTM layers over 40 mel
powers, 256 numbers of unit length from 1.6 s. An utterance's embedding is the mean over parts spread over its speech.
"""

from __future__ import annotations

from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
from scipy.signal import resample_poly
from torch import nn
from torch.nn import functional as F
from transformers.audio_utils import mel_filter_bank

from ..features import MelStore, Stored
from ..prepare import decode
from ..voice.training import mixed_precision

RATE, WINDOW, HOP, BANDS = 16000, 400, 160, 40
PART_FRAMES = 160
MOST_PARTS = 6
LEAST_LEVEL = 10 ** (-30 / 20)  # root mean square that quiet recordings are raised to
QUIET_DB, PAUSE_FRAMES = 28.0, 15  # below the loud frames by so much is silence; shorter pauses stay
ROWS = 256


class Teacher(nn.Module):
    def __init__(self, weights: Path):
        super().__init__()
        self.lstm = nn.LSTM(BANDS, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        state = torch.load(weights, map_location="cpu", weights_only=False)["model_state"]
        self.load_state_dict({name: value for name, value in state.items() if name.split(".")[0] in ("lstm", "linear")})
        filters = mel_filter_bank(WINDOW // 2 + 1, BANDS, 0.0, RATE / 2, RATE, norm="slaney", mel_scale="slaney")
        self.register_buffer("filters", torch.from_numpy(filters).float(), persistent=False)
        self.eval()

    def mel_powers(self, pcm: np.ndarray) -> torch.Tensor:
        """`[frames, 40]` of the loud stretches."""
        level = float(np.sqrt(np.mean(pcm.astype(np.float64) ** 2)) + 1e-9)
        sound = torch.from_numpy(pcm * max(1.0, LEAST_LEVEL / level)).float()
        spectrum = torch.stft(sound, WINDOW, HOP, window=torch.hann_window(WINDOW), pad_mode="constant", return_complex=True)
        powers = spectrum.abs().square().T @ self.filters
        loudness = 10 * torch.log10(powers.sum(1) + 1e-10)
        loud = loudness > torch.quantile(loudness, 0.95) - QUIET_DB
        near = F.max_pool1d(loud.float()[None], PAUSE_FRAMES, 1, PAUSE_FRAMES // 2)[0] > 0
        return powers[near[: len(powers)]]

    def parts(self, pcm: np.ndarray) -> torch.Tensor:
        """`[parts, 160, 40]`."""
        powers = self.mel_powers(pcm)
        if len(powers) < PART_FRAMES:
            powers = powers.repeat(-(-PART_FRAMES // len(powers)), 1)
        count = min(MOST_PARTS, max(1, round(len(powers) / PART_FRAMES)))
        starts = np.linspace(0, len(powers) - PART_FRAMES, count).astype(int) if count > 1 else [(len(powers) - PART_FRAMES) // 2]
        return torch.stack([powers[start : start + PART_FRAMES] for start in starts])

    @torch.no_grad()
    def of_sound(self, sound: torch.Tensor) -> torch.Tensor:
        """`[rows, samples]` without pauses to `[rows, 256]`, of unit length: the mean over the parts that lie end to end."""
        level = sound.square().mean(1, keepdim=True).sqrt() + 1e-9
        sound = sound * (LEAST_LEVEL / level).clamp(min=1.0)
        window = torch.hann_window(WINDOW, device=sound.device)
        spectrum = torch.stft(sound, WINDOW, HOP, window=window, pad_mode="constant", return_complex=True)
        powers = torch.view_as_real(spectrum).square().sum(-1).mT @ self.filters
        count = powers.shape[1] // PART_FRAMES
        rows = self(powers[:, : count * PART_FRAMES].reshape(-1, PART_FRAMES, BANDS))
        return F.normalize(rows.reshape(len(sound), count, -1).mean(1), dim=1)

    @torch.no_grad()
    def forward(self, parts: torch.Tensor) -> torch.Tensor:
        with mixed_precision() if parts.device.type == "cpu" else nullcontext():
            _, (hidden, _) = self.lstm(parts)
        return F.normalize(F.relu(self.linear(hidden[-1].float())), dim=1)

    def embed(self, recordings: list[np.ndarray]) -> np.ndarray:
        """`[recordings, 256]`, of unit length."""
        parts = [self.parts(pcm) for pcm in recordings]
        rows = torch.cat([self(chunk) for chunk in torch.cat(parts).split(ROWS)])
        means = [own.mean(0) for own in rows.split([len(p) for p in parts])]
        return F.normalize(torch.stack(means), dim=1).numpy()


def teach(weights: Path, corpora: list[Path], store: Path, speeds: tuple[Fraction, ...], stored_as) -> None:
    """Writes `<corpus>.teacher.npy`, `[utterances, 256]`, beside each stored corpus that lacks it."""
    teacher = Teacher(weights)
    utterances = MelStore(store).utterances
    for speed in speeds:
        for corpus in corpora:
            name = stored_as(corpus.name, speed)
            path, own = store / f"{name}.teacher.npy", [u for u in utterances if u.corpus == name]
            if path.exists() or not own:
                continue
            rows = [teacher.embed([at_speed(corpus / u.file, speed) for u in own[at : at + 64]]) for at in range(0, len(own), 64)]
            partial = store / f"{name}.teacher.partial"
            with partial.open("wb") as file:
                np.save(file, np.concatenate(rows).astype(np.float16))
            partial.rename(path)
            print(f"{name}: {len(own)} utterances", flush=True)


def at_speed(path: Path, speed: Fraction) -> np.ndarray:
    pcm = decode(path)
    return pcm if speed == 1 else resample_poly(pcm, speed.denominator, speed.numerator).astype(np.float32)


def is_taught(store: Path, corpus: str) -> bool:
    return (store / f"{corpus}.teacher.npy").exists()


def taught(store: Path, utterances: list[Stored]) -> np.ndarray:
    """The teacher's rows of utterances, `[utterances, 256]`; KeyError for a corpus that was not taught."""
    rows: dict[str, np.ndarray] = {}
    places: dict[tuple[str, str], int] = {}
    for corpus in sorted({u.corpus for u in utterances}):
        rows[corpus] = np.load(store / f"{corpus}.teacher.npy").astype(np.float32)
        for number, line in enumerate((store / f"{corpus}.index").read_text(encoding="utf-8").splitlines()):
            places[corpus, line.split("\t")[0]] = number
    return np.stack([rows[u.corpus][places[u.corpus, u.file]] for u in utterances])
