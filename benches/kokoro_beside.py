"""Kokoro with real weights beside its module in PyTorch, in one run: `python benches/kokoro_beside.py WORK [--threads 1 2] [--rounds 5]`.

WORK is that of `tests/published/kokoro/run.sh`. Both sides say the utterances of `WORK/oracle`, from symbols to samples, in turn; PyTorch draws its
noise, Auricle is given it. Prints the median seconds and processor seconds of a second of speech of each side. Needs `cargo build --release --workspace --bin kokoro`.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import MagicMock

import torch
from safetensors.torch import load_file

for name in ("loguru", "misaki", "misaki.en", "misaki.espeak"):
    sys.modules.setdefault(name, MagicMock())

from kokoro.model import KModel  # noqa: E402

PROGRAM = Path(__file__).resolve().parents[1] / "target" / "release" / "kokoro"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_grad_enabled(False)
    folder, oracle = arguments.work / "kokoro", arguments.work / "oracle"
    facts, tensors = json.loads((oracle / "oracle.json").read_text()), load_file(oracle / "oracle.safetensors")
    model = KModel(repo_id="local", config=str(folder / "config.json"), model=str(folder / "kokoro-v1_0.pth")).eval()

    def say() -> tuple[float, float]:
        """Seconds and processor seconds of a second of speech, by PyTorch."""
        began, samples = (time.perf_counter(), time.process_time()), 0
        for name, fact in facts.items():
            samples += model.forward_with_tokens(tensors[f"{name}_symbols"][None], tensors[f"{name}_row"][None], fact["speed"])[0].numel()
        speech = samples / 24_000
        return (time.perf_counter() - began[0]) / speech, (time.process_time() - began[1]) / speech

    def ours(threads: int) -> tuple[float, float]:
        """The same by Auricle; what a run of three rounds takes beyond one of one has no loading in it."""
        spent, seconds = [], []
        for rounds in (1, 3):
            command = [PROGRAM, "speed", folder, oracle, "--rounds", str(rounds)]
            environment = os.environ | {"RAYON_NUM_THREADS": str(threads)}
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            lines = subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout.splitlines()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            seconds += [json.loads(line) for line in lines]
        speech = seconds[0]["speech"]
        return statistics.median(line["seconds"] for line in seconds) / speech, (spent[1] - spent[0]) / 2 / speech

    for threads in arguments.threads:
        torch.set_num_threads(threads)
        say()
        sides = {"PyTorch": say, "Auricle": lambda: ours(threads)}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
        for _ in range(arguments.rounds):
            for name, side in sides.items():
                found[name].append(side())
        for name, values in found.items():
            wall, processor = (statistics.median(part) for part in zip(*values))
            print(f"{threads} threads, {name}: {wall:.3f} s, {processor:.3f} s of the processor", flush=True)


if __name__ == "__main__":
    main()
