"""Published Whisper base on a CPU: Auricle beside faster-whisper (CTranslate2), whisper.cpp and sherpa-onnx, one after the other.

    python benches/whisper_beside.py --work WORK --recording SOUND TEXT [--recording SOUND TEXT ...] [--threads 2] [--repeats 3]

WORK is the folder that `tests/published/whisper/run.sh` fills: `base-models` for Auricle, `ct2` for CTranslate2; files for the others
come to `WORK/forms` by `whisper_forms.py`. All get the same 16 kHz WAV, know that it is English and decode greedily with their own
defaults; TEXT is a file of what is said, words count as the Whisper paper normalises them. sherpa-onnx takes 30 s at most, so
its own detector cuts longer recordings. Loading the model counts for all; Python's start counts for none.

Needs faster-whisper, pywhispercpp, sherpa-onnx, silero-vad (for its file alone), transformers, what `whisper_forms.py` needs, ffmpeg
and `cargo build --release`. The wheel of pywhispercpp knows AVX2 at most; this builds it for the machine:

    CMAKE_ARGS='-DGGML_NATIVE=ON -DGGML_LLAMAFILE=ON -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH=$ORIGIN' \\
        pip install --no-deps --no-binary pywhispercpp pywhispercpp
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import wave
from collections.abc import Iterator
from pathlib import Path

# Only light modules above: a process that is started counts the memory of the one that starts it as its own.

ROOT = Path(__file__).parent.parent
RATE = 16_000
# Seconds that sherpa-onnx takes as one piece.
WHOLE = 29
PACKAGES = ("faster-whisper", "ctranslate2", "pywhispercpp", "sherpa-onnx", "silero-vad")


# A program first yields when what it needs is imported, then the text.
def faster_whisper(work: Path, pcm, threads: int, precision: str, batch: int) -> Iterator[str]:
    import faster_whisper

    yield ""
    model = faster_whisper.WhisperModel(str(work / "ct2"), device="cpu", compute_type=precision, cpu_threads=threads)
    if batch == 1:
        segments, _ = model.transcribe(pcm, language="en", beam_size=1)
    else:
        pipeline = faster_whisper.BatchedInferencePipeline(model)
        segments, _ = pipeline.transcribe(pcm, language="en", beam_size=1, batch_size=batch)
    yield "".join(segment.text for segment in segments)


def whisper_cpp(work: Path, pcm, threads: int, kind: str) -> Iterator[str]:
    from pywhispercpp.model import Model

    yield ""
    path = str(work / f"forms/{kind}.ggml")
    model = Model(path, n_threads=threads, language="en", print_progress=False, redirect_whispercpp_logs_to=None)
    # The wheel takes the space before a segment away.
    yield " ".join(segment.text for segment in model.transcribe(pcm))


def sherpa_onnx(work: Path, pcm, threads: int, kind: str) -> Iterator[str]:
    import sherpa_onnx

    yield ""
    forms = work / "forms"
    recogniser = sherpa_onnx.OfflineRecognizer.from_whisper(
        encoder=str(forms / f"encoder{kind}.onnx"),
        decoder=str(forms / f"decoder{kind}.onnx"),
        tokens=str(forms / "tokens.txt"),
        language="en",
        num_threads=threads,
    )
    pieces = [pcm] if len(pcm) <= WHOLE * RATE else sherpa_pieces(sherpa_onnx, pcm)
    texts = []
    for piece in pieces:
        stream = recogniser.create_stream()
        stream.accept_waveform(RATE, piece)
        recogniser.decode_stream(stream)
        texts.append(stream.result.text)
    yield " ".join(texts)


def sherpa_pieces(sherpa_onnx, pcm):
    package = importlib.util.find_spec("silero_vad")
    if package is None or package.origin is None:
        raise SystemExit("long recordings need the package silero-vad for sherpa-onnx: pip install --no-deps silero-vad")
    settings = sherpa_onnx.VadModelConfig(sample_rate=RATE)
    settings.silero_vad.model = str(Path(package.origin).parent / "data/silero_vad.onnx")
    detector = sherpa_onnx.VoiceActivityDetector(settings, buffer_size_in_seconds=len(pcm) // RATE + 1)
    window = settings.silero_vad.window_size
    for start in range(0, len(pcm), window):
        detector.accept_waveform(pcm[start : start + window])
    detector.flush()
    while not detector.empty():
        yield detector.front.samples
        detector.pop()


# Programs in Python, with what they are given.
PEERS = {
    "faster-whisper f32": (faster_whisper, "float32", 1),
    "faster-whisper f32, batches of 8": (faster_whisper, "float32", 8),
    "faster-whisper int8": (faster_whisper, "int8", 1),
    "faster-whisper int8, batches of 8": (faster_whisper, "int8", 8),
    "whisper.cpp f16": (whisper_cpp, "f16"),
    "whisper.cpp q8_0": (whisper_cpp, "q8_0"),
    "sherpa-onnx f32": (sherpa_onnx, ""),
    "sherpa-onnx int8": (sherpa_onnx, ".int8"),
}
OURS = {"Auricle f32": "full", "Auricle int8": "int8"}


def peer(who: str, work: Path, sound: Path, threads: int) -> None:
    """Runs in a process of its own and prints what it found."""
    import numpy

    with wave.open(str(sound)) as file:
        pcm = numpy.frombuffer(file.readframes(file.getnframes()), numpy.int16).astype(numpy.float32) / 32768
    program, *options = PEERS[who]
    steps = program(work, pcm, threads, *options)
    next(steps)
    begin, used = time.perf_counter(), time.process_time()
    text = next(steps)
    print(json.dumps({"text": text, "seconds": time.perf_counter() - begin, "processor": time.process_time() - used}))


def measure(who: str, sound: Path, arguments: argparse.Namespace) -> dict:
    threads = str(arguments.threads)
    environment = os.environ | {"RAYON_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    if who in OURS:
        command = [arguments.program, "transcribe", "--quiet", "--models", arguments.work / "base-models", "--model", "svc-fast"]
        command += ["--language", "en", "--device", "cpu", "--precision", OURS[who], "--format", "json", sound]
    else:
        command = [sys.executable, __file__, "--work", arguments.work, "--threads", threads, "--peer", who, sound]
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        printed = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            log.seek(0)
            raise SystemExit(f"{who} failed:\n{log.read()}")
    whole = {"who": who, "seconds": seconds, "processor": used.ru_utime + used.ru_stime, "memory": used.ru_maxrss / 1024}
    return whole | json.loads(printed.splitlines()[-1])


def table(sound: Path, said: str, runs: list[dict]) -> None:
    sys.path.insert(0, str(ROOT / "models"))
    from recipes.scoring import distance
    from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

    normalise = EnglishTextNormalizer({})
    words = normalise(said).split()
    print(f"\n{sound.name}: {len(words)} words\n")
    print(f"| | Time, s: median and all | Processor time, s | Peak memory, MB | Words wrong of {len(words)} |\n|---|---|---|---|---|")
    for who in dict.fromkeys(run["who"] for run in runs):
        own = [run for run in runs if run["who"] == who]
        median = {key: statistics.median(run[key] for run in own) for key in ("seconds", "processor", "memory")}
        every = ", ".join(f"{run['seconds']:.1f}" for run in own)
        wrong = sorted({distance(words, normalise(run["text"]).split()) for run in own})
        cells = [who, f"{median['seconds']:.1f} ({every})", f"{median['processor']:.1f}", f"{median['memory']:.0f}"]
        print("| " + " | ".join([*cells, " to ".join(map(str, wrong[:: max(1, len(wrong) - 1)]))]) + " |")


def main() -> None:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--recording", type=Path, nargs=2, action="append", metavar=("SOUND", "TEXT"))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--who", default="", help="only those whose names hold one of these, separated by commas")
    parser.add_argument("--program", type=Path, default=target / "release/auricle")
    parser.add_argument("--peer", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        return peer(arguments.peer[0], arguments.work, Path(arguments.peer[1]), arguments.threads)
    if not arguments.recording:
        parser.error("give at least one --recording SOUND TEXT")
    forms = arguments.work / "forms"
    if not (forms / "tokens.txt").exists():
        subprocess.run([sys.executable, Path(__file__).with_name("whisper_forms.py"), arguments.work / "base", forms], check=True)
    whos = [who for who in [*OURS, *PEERS] if any(part in who for part in arguments.who.split(","))]
    runs: dict[Path, list[dict]] = {}
    for sound, _ in arguments.recording:
        plain = forms / f"{sound.stem}.wav"
        subprocess.run(["ffmpeg", "-loglevel", "error", "-y", "-i", sound, "-ac", "1", "-ar", str(RATE), plain], check=True)
        runs[plain] = []
    for repeat in range(arguments.repeats):
        for sound, found in runs.items():
            for who in whos:
                found.append(run := measure(who, sound, arguments))
                line = f"{repeat + 1} {sound.stem}, {who}: {run['seconds']:.2f} s, {run['processor']:.2f} s of processors"
                print(f"{line}, {run['memory']:.0f} MB; load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES))
    for (sound, text), found in zip(arguments.recording, runs.values(), strict=True):
        table(sound, text.read_text(), found)


if __name__ == "__main__":
    main()
