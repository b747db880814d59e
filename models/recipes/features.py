"""Log-mel features, exactly as `NemotronAsrStreamingFeatureExtractor` computes them, and the store that keeps them.

A store is a folder with, for each corpus, `<corpus>.mel` (f16, `[frames, 80]`, utterances end to end) and
`<corpus>.index` (`file<TAB>first frame<TAB>frames`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers.audio_utils import mel_filter_bank

MELS = 80
FRAMES_PER_SECOND = 100
VARIANT = "@"  # between a corpus's name and the speed it was stored at
LOG_FLOOR = float(np.log(2.0**-24))  # the extractor's guard value: what digital silence gives

RATE, WINDOW, SIZE, HOP = 16000, 400, 512, 160
PREEMPHASIS = 0.97

_filters = torch.from_numpy(
    mel_filter_bank(SIZE // 2 + 1, MELS, 0.0, RATE / 2, RATE, norm="slaney", mel_scale="slaney").T.astype(np.float32)
)
_window = torch.hann_window(WINDOW, periodic=False)


def log_mel(pcm: np.ndarray) -> np.ndarray:
    """`[samples]` at 16 kHz to `[frames, 80]`."""
    return log_mels(torch.from_numpy(np.asarray(pcm, dtype=np.float32))[None])[0].numpy()


def log_mels(sound: torch.Tensor) -> torch.Tensor:
    """`[rows, samples]` at 16 kHz to `[rows, frames, 80]`, on the sound's device."""
    frames = sound.shape[1] // HOP
    sound = torch.cat([sound[:, :1], sound[:, 1:] - PREEMPHASIS * sound[:, :-1]], 1)
    window, filters = _window.to(sound.device), _filters.to(sound.device)
    spectrum = torch.stft(sound, SIZE, HOP, WINDOW, window=window, pad_mode="constant", return_complex=True)
    powers = torch.view_as_real(spectrum).square().sum(-1)
    return (filters @ powers + 2.0**-24).log().mT[:, :frames].contiguous()


@dataclass(frozen=True)
class Stored:
    """One utterance's place in a store."""

    corpus: str
    file: str
    first: int
    frames: int

    @property
    def speaker(self) -> str:
        return self.file.split("-")[0]

    @property
    def synthetic(self) -> bool:
        return self.corpus.startswith("synthetic")

    @property
    def recorded(self) -> str:
        """The corpus at whatever speed."""
        return self.corpus.split(VARIANT)[0]


class MelStore:
    """Read access to the mels of one or more corpora."""

    def __init__(self, folder: Path):
        self.utterances: list[Stored] = []
        self._mels: dict[str, np.ndarray] = {}
        self._places: dict[tuple[str, str], Stored] = {}
        self._colours: dict[tuple[str, str], np.ndarray] = {}
        for index in sorted(folder.glob("*.index")):
            corpus = index.stem
            mels = np.memmap(index.with_suffix(".mel"), dtype=np.float16, mode="r").reshape(-1, MELS)
            self._mels[corpus] = mels
            for line in index.read_text(encoding="utf-8").splitlines():
                file, first, frames = line.split("\t")
                self.utterances.append(Stored(corpus, file, int(first), int(frames)))

    def mel(self, utterance: Stored) -> np.ndarray:
        """`[frames, 80]`, f32."""
        mels = self._mels[utterance.corpus][utterance.first : utterance.first + utterance.frames]
        return np.array(mels, dtype=np.float32)

    def colour(self, part: Stored) -> np.ndarray:
        """The mean spectrum, `[mels]`, of the whole utterance that a part is of."""
        if not self._places:
            self._places = {(u.corpus, u.file): u for u in self.utterances}
        key = part.corpus, part.file
        if key not in self._colours:
            self._colours[key] = self.mel(self._places[key]).mean(0)
        return self._colours[key]

    def statistics(self, samples: int = 400) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of each mel band, `[80]` each, over a fixed draw of utterances."""
        rng = np.random.default_rng(0)
        chosen = rng.choice(len(self.utterances), size=min(samples, len(self.utterances)), replace=False)
        frames = np.concatenate([self.mel(self.utterances[i]) for i in chosen])
        return frames.mean(0), frames.std(0)
