"""The recording of all oracles: 2.6 s at 16 kHz, one channel."""

from pathlib import Path

import numpy as np
import torch

RATE = 16000


def recording() -> np.ndarray:
    # A checkpoint with random weights does not need it.
    import soundfile

    samples, rate = soundfile.read(Path(__file__).with_name("speech.flac"), dtype="float32")
    assert rate == RATE and samples.ndim == 1
    return samples


def utterances() -> list[np.ndarray]:
    """2.49 s, which is a whole number of chunks for look-aheads 0, 1 and 3, and 1.611 s, which fits no chunk size."""
    samples = recording()
    return [samples[:39840], samples[12000 : 12000 + 25777]]


def padded(pieces: list[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """`[batch, samples]` with zeros at the end, and the lengths."""
    lengths = torch.tensor([len(piece) for piece in pieces])
    audio = torch.zeros(len(pieces), int(lengths.max()))
    for row, piece in zip(audio, pieces):
        row[: len(piece)] = torch.from_numpy(piece)
    return audio, lengths


def readable(folder: Path) -> None:
    """Gives files ordinary permissions: safetensors makes them private to the user."""
    for path in folder.iterdir():
        path.chmod(0o644)
