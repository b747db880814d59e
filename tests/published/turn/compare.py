"""Smart Turn v3.2 on clips of speech: the engine's probabilities beside onnxruntime's."""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import soundfile

RATE, WINDOW = 16_000, 8 * 16_000
ROOT = Path(__file__).resolve().parents[3]
PUBLISHED = "pipecat/audio/turn/smart_turn"
# Largest difference of probabilities from the weights alone, in 32 bits.
ALIKE = 0.002
# Mean difference, and share of clips on the other side of 0.5: from the weights alone in 8 bits, and from the file as it is published,
# which rounds what flows between its products to 8 bits as well, by scales that were fixed when it was made.
NEAR = {"weights alone": (0.03, 0.05), "as published": (0.15, 0.15)}


def clips(speech: Path, folder: Path, count: int) -> list[Path]:
    """Pieces of recordings: whole ones, beginnings, and ones of a moment; with 0.2 s of faint noise after them, as a pause begins."""
    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(7)
    recordings = sorted(path for path in speech.rglob("*") if path.suffix in (".flac", ".wav", ".opus", ".ogg"))
    made = []
    for number in range(count):
        samples, rate = soundfile.read(recordings[number % len(recordings)], dtype="float32")
        assert rate == RATE and samples.ndim == 1
        kind = number // len(recordings) % 3 if count > len(recordings) else number % 3
        if kind == 1:
            samples = samples[: int(len(samples) * random.uniform(0.3, 0.95))]
        elif kind == 2:
            samples = samples[: int(RATE * random.uniform(0.3, 3.0))]
        pause = random.normal(0.0, 1e-4, RATE // 5).astype(np.float32)
        made.append(folder / f"{number:04}.wav")
        soundfile.write(made[-1], np.concatenate([samples, pause]), RATE, subtype="FLOAT")
    return made


def without_rounded_values(path: Path, to: Path) -> Path:
    """The file without the rounding of what flows between products; its weights stay as they are."""
    model = onnx.load(path)
    rounded = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    same = {
        node.output[0]: rounded[node.input[0]]
        for node in model.graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in rounded
    }
    for node in model.graph.node:
        node.input[:] = [same.get(name, name) for name in node.input]
    onnx.save(model, to)
    return to


def theirs(network: Path, made: list[Path], work: Path) -> tuple[np.ndarray, float]:
    """Probabilities by onnxruntime on one thread, and the median time of one in ms."""
    sys.path.insert(0, str(work / PUBLISHED))
    import _whisper_features as front_end

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(network, options)
    found, times = [], []
    for path in made:
        samples, _ = soundfile.read(path, dtype="float32")
        window = np.pad(samples[-WINDOW:], (max(0, WINDOW - len(samples)), 0))
        began = time.perf_counter()
        features = front_end.compute_whisper_log_mel_features(window)
        found.append(session.run(None, {"input_features": features[None]})[0][0, 0])
        times.append(1e3 * (time.perf_counter() - began))
    return np.array(found), float(np.median(times))


def ours(network: Path, made: list[Path], precision: str) -> tuple[np.ndarray, str]:
    program = os.environ.get("TURN_END") or ROOT / "target/release/turn_end"
    run = subprocess.run([program, network, *made, "--precision", precision], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    return np.array([float(line.split("\t")[0]) for line in run.stdout.splitlines()]), run.stderr.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--speech", type=Path, required=True)
    parser.add_argument("--clips", type=int, default=120)
    arguments = parser.parse_args()
    work = arguments.work
    network = work / PUBLISHED / "data/smart-turn-v3.2-cpu.onnx"
    made = clips(arguments.speech, work / "clips", arguments.clips)
    exact, _ = theirs(without_rounded_values(network, work / "weights-alone.onnx"), made, work)
    published, their_ms = theirs(network, made, work)
    print(f"{len(made)} clips, {np.mean(published > 0.5):.0%} finished by the published file; onnxruntime {their_ms:.1f} ms, one thread")
    failed = False
    for precision in ("full", "int8"):
        probabilities, said = ours(network, made, precision)
        print(f"engine, {precision}: {said}")
        for name, reference in (("weights alone", exact), ("as published", published)):
            apart = np.abs(probabilities - reference)
            side = np.mean((probabilities > 0.5) != (reference > 0.5))
            print(f"  {name}: largest difference {apart.max():.4f}, mean {apart.mean():.4f}, other side of 0.5 {side:.1%}")
            mean, share = NEAR[name]
            failed |= apart.mean() > mean or side > share
            failed |= name == "weights alone" and precision == "full" and apart.max() > ALIKE
    print("they differ more than they may" if failed else "within the limits")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
