"""Where somebody speaks in a clean recording, by its level.

A frame of 10 ms is speech when it is well above the recording's quiet frames and not far below its loud ones. Short gaps
belong to the speech around them, short bursts to the pause. Frames near a threshold are uncertain: they train little.
"""

from __future__ import annotations

import numpy as np

FRAME = 160  # samples at 16 kHz, 10 ms
PAUSE, UNCERTAIN, SPEECH = 0, 1, 2

ABOVE_QUIET_DB = 9.0
BELOW_LOUD_DB = 35.0
LEAST_RANGE_DB = 22.0  # a recording with less between quiet and loud has pauses that nobody can tell
FILLED_GAP = 15  # frames
DROPPED_BURST = 5
HANGOVER = 3


def frame_levels(pcm: np.ndarray) -> np.ndarray:
    """dB of each 10 ms frame, over 30 ms around it; half pre-emphasised, so that fricatives count."""
    bright = pcm - 0.7 * np.concatenate([[0.0], pcm[:-1]])
    count = len(pcm) // FRAME
    power = (bright[: count * FRAME].reshape(count, FRAME) ** 2).mean(1)
    padded = np.pad(power, 1, mode="edge")
    return 10 * np.log10((padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4 + 1e-12)


def label(pcm: np.ndarray) -> np.ndarray | None:
    """`[samples]` to `[frames]` of PAUSE, UNCERTAIN, SPEECH; none where level cannot tell."""
    levels = frame_levels(pcm)
    if len(levels) < 40:
        return None
    quiet, loud = np.percentile(levels, [8, 95])
    if loud - quiet < LEAST_RANGE_DB:
        return None
    threshold = max(quiet + ABOVE_QUIET_DB, loud - BELOW_LOUD_DB)
    speech = _without_runs(levels > threshold, FILLED_GAP, value=False)
    speech = _without_runs(speech, DROPPED_BURST, value=True)
    labels = np.where(speech, SPEECH, PAUSE).astype(np.uint8)
    # near the threshold, and right after speech, where a room still rings
    labels[~speech & (levels > threshold - 5)] = UNCERTAIN
    for end in np.flatnonzero(speech[:-1] & ~speech[1:]) + 1:
        tail = labels[end : end + HANGOVER]
        tail[tail == PAUSE] = UNCERTAIN
    return labels


def _without_runs(flags: np.ndarray, shorter_than: int, value: bool) -> np.ndarray:
    """`flags` with inner runs of `value` shorter than so many frames turned over."""
    flags = flags.copy()
    edges = np.flatnonzero(np.diff(flags.astype(np.int8))) + 1
    bounds = np.concatenate([[0], edges, [len(flags)]])
    for start, end in zip(bounds[:-1], bounds[1:], strict=True):
        inner = start > 0 and end < len(flags)
        if flags[start] == value and end - start < shorter_than and (inner or value):
            flags[start:end] = not value
    return flags
