"""Fits a checkpoint's map from the confidence of a word to the share of right words: `confidence.json`.

    python -m recipes.confidence --auricle ../target/release/auricle --model svc-realtime-pro \\
                                 --fit WORK/readers --fit WORK/readers-noise-10db ... --check EVAL/librispeech-sample ...

The engine transcribes the sets; a word is right where an alignment with the reference has it. Platt's line between log-odds is fitted by
maximum likelihood on all words of the sets of `--fit`, and the expected calibration error (ten bins) of each set is printed without it and
with it. The map is written into the checkpoint's folder, from which the engine applies it: fit without that file. Sets of `--fit` are of
readers that were never trained on, clean and in noise (`recipes.conditions`); those of `--check` of others.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
from difflib import SequenceMatcher
from pathlib import Path

from .targets import read_table, score_words

BINS, STEPS, LEAST = 10, 50, 1e-4

Judged = list[tuple[float, bool]]


def judged(words: list[tuple[str, float]], reference: str) -> Judged:
    """The confidence of each word, and whether the reference has it at its place."""
    parts = [(part, at) for at, (text, _) in enumerate(words) for part in score_words(text)]
    matcher = SequenceMatcher(None, score_words(reference), [part for part, _ in parts], autojunk=False)
    right = {place for block in matcher.get_matching_blocks() for place in range(block.b, block.b + block.size)}
    wrong = {at for place, (_, at) in enumerate(parts) if place not in right}
    return [(words[at][1], at not in wrong) for at in sorted({at for _, at in parts})]


def log_odds(value: float) -> float:
    value = min(max(value, LEAST), 1 - LEAST)
    return math.log(value / (1 - value))


def mapped(value: float, slope: float, offset: float) -> float:
    return 1 / (1 + math.exp(-(slope * log_odds(value) + offset)))


def fit(rows: Judged) -> tuple[float, float]:
    """Slope and offset of the greatest likelihood, by Newton's method."""
    slope, offset = 1.0, 0.0
    for _ in range(STEPS):
        g0 = g1 = h00 = h01 = h11 = 0.0
        for value, right in rows:
            x, p = log_odds(value), mapped(value, slope, offset)
            error, weight = p - right, p * (1 - p)
            g0, g1 = g0 + error * x, g1 + error
            h00, h01, h11 = h00 + weight * x * x, h01 + weight * x, h11 + weight
        determinant = h00 * h11 - h01 * h01
        slope, offset = slope - (h11 * g0 - h01 * g1) / determinant, offset - (h00 * g1 - h01 * g0) / determinant
    return slope, offset


def calibration_error(rows: Judged) -> float:
    """The mean distance between confidence and share of right words over the bins, in points."""
    bins: dict[int, Judged] = {}
    for value, right in rows:
        bins.setdefault(min(BINS - 1, int(value * BINS)), []).append((value, right))
    return 100 * sum(abs(sum(v - right for v, right in rows)) for rows in bins.values()) / max(1, len(rows))


def transcribe(program: Path, model: str, folder: Path) -> Judged:
    texts = read_table(folder / "refs.tsv")
    command = [program, "transcribe", "--quiet", "--format", "json", "--format-numbers", "false", "--language", "en"]
    files = [folder / name for name in texts]
    output = subprocess.run([*command, "--model", model, *files], check=True, stdout=subprocess.PIPE, text=True).stdout
    rows: Judged = []
    for line in output.splitlines():
        found = json.loads(line)
        words = [(word["text"], word["confidence"]) for word in found["words"]]
        rows += judged(words, texts[Path(found["file"]).name])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--auricle", type=Path, required=True, help="the program")
    parser.add_argument("--model", required=True, help="a service model or the path of a checkpoint")
    parser.add_argument("--fit", type=Path, action="append", required=True, help="a set to fit on")
    parser.add_argument("--check", type=Path, action="append", default=[], help="a set of other readers")
    args = parser.parse_args()
    sets = {folder: transcribe(args.auricle, args.model, folder) for folder in [*args.fit, *args.check]}
    slope, offset = fit([row for folder in args.fit for row in sets[folder]])
    for folder, rows in sets.items():
        right = 100 * sum(right for _, right in rows) / max(1, len(rows))
        error = calibration_error([(mapped(value, slope, offset), right) for value, right in rows])
        print(f"{folder}: {len(rows)} words, {right:.1f} % right, off by {calibration_error(rows):.1f} points, with the map {error:.1f}")
    print(json.dumps({"slope": round(slope, 2), "offset": round(offset, 2)}))


if __name__ == "__main__":
    main()
