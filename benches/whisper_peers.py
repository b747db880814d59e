"""Whisper at a published size with random weights: Auricle beside CTranslate2 and transformers, one after the other.

    python benches/whisper_peers.py tiny --folder FOLDER [--device cpu|cuda] [--batches 1,8] [--tokens 100] [--threads 2]

All take the same checkpoint, the same windows of 30 s and write the same number of tokens to each; the best of the repeats
counts. Needs faster-whisper (which brings CTranslate2), torch and transformers, and `cargo build --release --workspace --bin whisper_speed`.
FOLDER keeps the checkpoints; give it again to save their making.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy

ROOT = Path(__file__).parent.parent


def best(repeats, run):
    run()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def report(who, batch, tokens, encode, whole):
    line = {"who": who, "batch": batch, "tokens": tokens, "encode_ms": 1000 * encode / batch,
            "step_ms": 1000 * (whole - encode) / tokens, "total_ms": 1000 * whole / batch}  # fmt: skip
    print(json.dumps({k: round(v, 2) if isinstance(v, float) else v for k, v in line.items()}), flush=True)


def ctranslate(folder, precision, arguments, mels):
    import ctranslate2

    converted = folder.with_name(f"{folder.name}-ctranslate2")
    if not converted.exists():
        ctranslate2.converters.TransformersConverter(str(folder)).convert(str(converted))
    model = ctranslate2.models.Whisper(
        str(converted), device=arguments.device, compute_type=precision, intra_threads=arguments.threads
    )
    layout = json.loads((folder / "generation_config.json").read_text())
    prompt = [layout["decoder_start_token_id"], layout["lang_to_id"]["<|en|>"], layout["task_to_id"]["transcribe"],
              layout["no_timestamps_token_id"]]  # fmt: skip
    for batch in arguments.batches:
        features = numpy.random.default_rng(1).standard_normal((batch, mels, 3000), dtype=numpy.float32)
        view = ctranslate2.StorageView.from_array(features)
        encode = best(arguments.repeats, lambda: numpy_of(model.encode(view, to_cpu=arguments.device == "cpu")))

        def whole():
            frames = model.encode(view)
            # It writes half of `max_length` at most: the other half is kept for a prompt.
            found = model.generate(frames, [prompt] * batch, beam_size=1, max_length=2 * arguments.tokens)
            assert all(len(row.sequences_ids[0]) == arguments.tokens for row in found), [len(r.sequences_ids[0]) for r in found]

        report(f"CTranslate2 {ctranslate2.__version__} {precision}", batch, arguments.tokens, encode, best(arguments.repeats, whole))


def numpy_of(view):
    """Waits for a device."""
    return view.shape if view.device == "cuda" else numpy.array(view)


def transformers(folder, arguments, mels):
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(arguments.threads)
    precision = torch.float32 if arguments.device == "cpu" else torch.bfloat16
    model = transformers.WhisperForConditionalGeneration.from_pretrained(
        folder, dtype=precision, attn_implementation="sdpa"
    ).to(arguments.device)
    for batch in arguments.batches:
        features = torch.randn(batch, mels, 3000, dtype=precision, device=arguments.device)
        wait = torch.cuda.synchronize if arguments.device == "cuda" else lambda: None

        def encode():
            model.model.encoder(features)
            wait()

        def whole():
            found = model.generate(features, language="en", task="transcribe", max_new_tokens=arguments.tokens, do_sample=False)
            assert found.shape[1] >= arguments.tokens, found.shape
            wait()

        with torch.inference_mode():
            report(f"transformers {transformers.__version__} {str(precision)[6:]}", batch, arguments.tokens,
                   best(arguments.repeats, encode), best(arguments.repeats, whole))  # fmt: skip


def ours(folder, precision, arguments):
    program = arguments.program or Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/whisper_speed"
    command = [program, folder, "--device", "cpu" if arguments.device == "cpu" else "gpu", "--tokens", str(arguments.tokens),
               "--batches", ",".join(map(str, arguments.batches)), "--repeats", str(arguments.repeats),
               "--precision", precision]  # fmt: skip
    environment = os.environ | {"RAYON_NUM_THREADS": str(arguments.threads)}
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout.splitlines()
    for line in lines:
        found = {key: round(value, 2) if isinstance(value, float) else value for key, value in json.loads(line).items()}
        print(json.dumps({"who": f"Auricle {precision}", **found}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batches", type=lambda text: [int(n) for n in text.split(",")], default=[1, 8])
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--program", type=Path, help="path of the whisper_speed program")
    parser.add_argument("--who", default="ours,ctranslate,transformers")
    arguments = parser.parse_args()
    folder = arguments.folder / arguments.shape
    if not (folder / "config.json").exists():
        subprocess.run([sys.executable, Path(__file__).parent / "whisper_folder.py", arguments.shape, folder], check=True)
    mels = json.loads((folder / "config.json").read_text())["num_mel_bins"]
    if "ours" in arguments.who:
        # Eight bits are for the CPU, sixteen for GPUs.
        for precision in ["full", "int8"] if arguments.device == "cpu" else ["full", "half"]:
            ours(folder, precision, arguments)
    if "ctranslate" in arguments.who:
        for precision in ["float32", "int8"] if arguments.device == "cpu" else ["float16", "int8_float16"]:
            ctranslate(folder, precision, arguments, mels)
    if "transformers" in arguments.who:
        transformers(folder, arguments, mels)


if __name__ == "__main__":
    main()
