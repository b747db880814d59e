"""Fundamental frequency of speech: YIN (de Cheveigné and Kawahara 2002), with a Viterbi search over its minima."""

from __future__ import annotations

import numpy as np

from .sound import HOP, RATE, WINDOW

LOWEST_HZ, HIGHEST_HZ = 60.0, 420.0
RANGE = (0.6, 2.0)  # of a speaker, times the median
_SHORTEST, _LONGEST = int(RATE / HIGHEST_HZ), int(RATE / LOWEST_HZ)
_CANDIDATES = 6
_JUMP = 3.0  # cost of an octave between frames
_VOICED = 0.4  # frames whose difference stays above are unvoiced


def differences(sound: np.ndarray) -> np.ndarray:
    """`[samples]` to `[frames, lags]`: the cumulative mean normalised difference at each lag; frames as in `LogMel`."""
    frames = 1 + len(sound) // HOP
    padded = np.pad(sound.astype(np.float64), (WINDOW // 2, WINDOW // 2 + HOP))
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][:frames]
    half = WINDOW - _LONGEST
    size = 2 * WINDOW
    spectrum = np.fft.rfft(windows, size)
    correlation = np.fft.irfft(np.conj(np.fft.rfft(windows[:, :half], size)) * spectrum, size)[:, : _LONGEST + 1]
    squares = np.cumsum(np.pad(windows**2, ((0, 0), (1, 0))), 1)
    energy = squares[:, half : half + _LONGEST + 1] - squares[:, : _LONGEST + 1]
    difference = np.maximum(energy[:, :1] + energy - 2 * correlation, 0) + 1e-9 * half
    mean = np.cumsum(difference[:, 1:], 1) / np.arange(1, _LONGEST + 1)
    return np.concatenate([np.ones((frames, 1)), difference[:, 1:] / np.maximum(mean, 1e-12)], 1)


def pitch(sound: np.ndarray, median_hz: float | None = None) -> np.ndarray:
    """`[samples]` to `[frames]`: Hz, 0 in unvoiced frames. Within `RANGE` of the speaker's median where it is given."""
    table = differences(sound)
    inner = table[:, _SHORTEST:-1]
    dips = (inner <= table[:, _SHORTEST - 1 : -2]) & (inner < table[:, _SHORTEST + 1 :])
    depth = np.where(dips, inner, np.inf)
    if median_hz is not None:
        hertz = RATE / np.arange(_SHORTEST, _LONGEST)
        depth[:, (hertz < RANGE[0] * median_hz) | (hertz > RANGE[1] * median_hz)] = np.inf
    lags = np.argsort(depth, 1)[:, :_CANDIDATES]
    cost = np.minimum(np.take_along_axis(depth, lags, 1), 2.0)
    octaves = np.log2(lags + _SHORTEST)
    # the shorter of two lags that serve equally is the period
    total = cost + 0.02 * (octaves - np.log2(_SHORTEST))
    score, came = total[0], np.zeros(lags.shape, dtype=int)
    for frame in range(1, len(lags)):
        ways = score[None] + _JUMP * np.minimum(np.abs(octaves[frame][:, None] - octaves[frame - 1][None]), 0.5)
        came[frame] = ways.argmin(1)
        score = ways.min(1) + total[frame]
    at, chosen = int(score.argmin()), np.zeros(len(lags), dtype=int)
    for frame in range(len(lags) - 1, -1, -1):
        chosen[frame] = at
        at = came[frame, at]
    rows = np.arange(len(lags))
    voiced = cost[rows, chosen] < _VOICED
    return np.where(voiced, RATE / (lags[rows, chosen] + _SHORTEST), 0.0)


def continuous(hertz: np.ndarray) -> np.ndarray | None:
    """`log2` of the pitch, interpolated over unvoiced frames; None where no frame is voiced."""
    voiced = np.flatnonzero(hertz)
    if not len(voiced):
        return None
    return np.interp(np.arange(len(hertz)), voiced, np.log2(hertz[voiced]))
