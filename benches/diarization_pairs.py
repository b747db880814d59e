"""Writes `diarization_pairs.json`: random labellings with the rates of pyannote.metrics, for the test of `diarization_errors`.

    pip install pyannote.metrics
    python benches/diarization_pairs.py benches/diarization_pairs.json
"""

import json
import sys

import numpy as np
from pyannote.core import Annotation, Segment
from pyannote.metrics.diarization import DiarizationErrorRate


def labelling(rng: np.random.Generator, speakers: int, prefix: str) -> list[list]:
    """Turns of each speaker, which do not overlap one another; those of two may."""
    turns = []
    for speaker in range(speakers):
        at = rng.uniform(0, 5)
        for _ in range(int(rng.integers(1, 7))):
            length = rng.uniform(0.2, 6)
            turns.append([round(at, 3), round(at + length, 3), f"{prefix}{speaker}"])
            at += length + rng.uniform(0.05, 6)
    return turns


def apart(turns: list[list]) -> list[list]:
    """A speaker's turns that overlap become one: two tracks of one speaker would count twice."""
    made: list[list] = []
    for start, end, who in sorted(turns, key=lambda turn: (turn[2], turn[0])):
        if made and made[-1][2] == who and start <= made[-1][1]:
            made[-1][1] = max(made[-1][1], end)
        else:
            made.append([start, end, who])
    return made


def annotation(turns: list[list]) -> Annotation:
    made = Annotation()
    for number, (start, end, speaker) in enumerate(turns):
        made[Segment(start, end), number] = speaker
    return made


def main(path: str) -> None:
    rng = np.random.default_rng(5)
    pairs = []
    for _ in range(80):
        reference = labelling(rng, int(rng.integers(1, 8)), "r")
        hypothesis = labelling(rng, int(rng.integers(1, 8)), "h")
        if rng.random() < 0.5:  # most often a system is not far from the truth
            shift = rng.uniform(-0.3, 0.3, len(reference)).round(3)
            hypothesis = [[max(0.0, round(a + s, 3)), round(b + s, 3), who.replace("r", "h")] for (a, b, who), s in zip(reference, shift)]
            hypothesis = apart([turn for turn in hypothesis if turn[1] > turn[0]])
        rate = DiarizationErrorRate(collar=0.0, skip_overlap=False)(annotation(reference), annotation(hypothesis))
        pairs.append({"reference": reference, "hypothesis": hypothesis, "percent": round(100 * rate, 4)})
    with open(path, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(pair, separators=(",", ":")) for pair in pairs) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1])
