"""Parakeet CTC at its published size with random weights: Auricle beside PyTorch and sherpa-onnx on this CPU.

    python benches/parakeet_beside.py --folder FOLDER [--threads 2] [--repeats 3]

All transcribe the same 30 s (the shipped sample, repeated) with the same weights, in turn; the best and the median of the repeats count.
PyTorch runs the encoder and its head alone, in f32 and bf16; sherpa-onnx and Auricle begin with samples and end with text, in f32 and
8 bits; Auricle's speech detector is off, so that all encode the same. With random weights a word means nothing. Loading is left out everywhere.
Needs torch, transformers, onnx, onnxruntime, onnxscript and sherpa-onnx, and `cargo build --release --workspace --bin files`.
FOLDER keeps the checkpoint and its two ONNX files, 4.5 GB; give it again to save their making.
"""

import argparse
import json
import os
import re
import subprocess
import time
import wave
from pathlib import Path

import numpy

ROOT = Path(__file__).parent.parent
SECONDS = 30
RATE = 16_000
MELS = 80
VOCABULARY = 1025


def checkpoint(folder):
    """The published size of `nvidia/parakeet-ctc-0.6b`, random, in bf16 on disk."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import ParakeetCTCConfig, ParakeetEncoderConfig, ParakeetForCTC

    if (folder / "model.safetensors").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    encoder = ParakeetEncoderConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=8, intermediate_size=4096, num_mel_bins=MELS,
        scale_input=False, attention_bias=False, convolution_bias=False,
    )  # fmt: skip
    config = ParakeetCTCConfig(vocab_size=VOCABULARY, pad_token_id=VOCABULARY - 1, encoder_config=encoder.to_dict())
    model = ParakeetForCTC(config).eval()
    model.to(torch.bfloat16).save_pretrained(folder)
    pieces = {"<unk>": 0} | {f"▁{number}": number for number in range(1, VOCABULARY - 1)}
    tokenizer = Tokenizer(models.BPE(vocab=pieces, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.save(str(folder / "tokenizer.json"))


def onnx_files(folder):
    """`model.onnx` as sherpa-onnx reads NeMo's, `model.int8.onnx` as its scripts quantise it, and `tokens.txt`."""
    import onnx
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import ParakeetForCTC

    whole, small = folder / "model.onnx", folder / "model.int8.onnx"
    (folder / "tokens.txt").write_text(
        "".join(f"▁{number} {number}\n" for number in range(VOCABULARY - 1)) + f"<blk> {VOCABULARY - 1}\n"
    )
    if small.exists():
        return

    class Graph(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = ParakeetForCTC.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()

        def forward(self, audio_signal, length):
            mask = torch.arange(audio_signal.shape[2])[None, :] < length[:, None]
            logits = self.model(audio_signal.transpose(1, 2), attention_mask=mask).logits
            return torch.log_softmax(logits, dim=-1)

    frames = SECONDS * 100
    torch.onnx.export(
        Graph(), (torch.randn(1, MELS, frames), torch.tensor([frames])), str(whole), dynamo=False, opset_version=17,
        input_names=["audio_signal", "length"], output_names=["logprobs"],
        dynamic_axes={"audio_signal": {0: "N", 2: "T"}, "length": {0: "N"}, "logprobs": {0: "N", 1: "T"}},
    )  # fmt: skip
    model = onnx.load(str(whole))
    named = {"vocab_size": VOCABULARY - 1, "normalize_type": "per_feature", "subsampling_factor": 8,
             "model_type": "EncDecCTCModelBPE", "version": 1, "model_author": "random", "url": "", "comment": ""}  # fmt: skip
    for key, value in named.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, str(value)
    for other in folder.glob("*"):
        if other.suffix not in {".json", ".safetensors", ".txt"}:
            other.unlink()
    onnx.save(model, str(whole), save_as_external_data=True, location="model.weights")
    quantize_dynamic(str(whole), str(small), weight_type=QuantType.QUInt8)


def sample():
    with wave.open(sample_as_wave(), "rb") as file:
        samples = numpy.frombuffer(file.readframes(file.getnframes()), dtype="<i2").astype(numpy.float32) / 32768
    return numpy.resize(samples, SECONDS * RATE)


def sample_as_wave():
    out = Path(os.environ.get("TMPDIR", "/tmp")) / "auricle-sample.wav"
    command = ["ffmpeg", "-loglevel", "error", "-y", "-i", str(ROOT / "models/samples/jfk.flac"), "-ar", str(RATE), "-ac", "1", str(out)]
    subprocess.run(command, check=True)
    return str(out)


def report(who, seconds):
    seconds = sorted(seconds)
    print(json.dumps({"who": who, "best_s": round(seconds[0], 3), "median_s": round(seconds[len(seconds) // 2], 3)}), flush=True)


def timed(repeats, run):
    run()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return seconds


def pytorch(folder, arguments):
    import torch
    import transformers
    from transformers import ParakeetForCTC

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(arguments.threads)
    features = torch.randn(1, SECONDS * 100, MELS)
    for name, kind in [("f32", torch.float32), ("bf16", torch.bfloat16)]:
        model = ParakeetForCTC.from_pretrained(folder, dtype=kind).eval()
        with torch.inference_mode():
            report(f"PyTorch {torch.__version__} {name}", timed(arguments.repeats, lambda: model(features.to(kind)).logits.sum().item()))


def sherpa(folder, arguments):
    import sherpa_onnx

    samples = sample()
    for name, file in [("f32", "model.onnx"), ("int8", "model.int8.onnx")]:
        recognizer = sherpa_onnx.OfflineRecognizer.from_nemo_ctc(
            model=str(folder / file), tokens=str(folder / "tokens.txt"), num_threads=arguments.threads, feature_dim=MELS
        )

        def run():
            stream = recognizer.create_stream()
            stream.accept_waveform(RATE, samples)
            recognizer.decode_stream(stream)
            return stream.result.text

        report(f"sherpa-onnx {sherpa_onnx.__version__} {name}", timed(arguments.repeats, run))


def auricle(folder, arguments):
    for precision in ["full", "int8"]:
        command = [str(arguments.program), str(folder), "--device", "cpu", "--precision", precision,
                   "--with-silence", "--files", ",".join(["1"] * arguments.repeats), "--minutes", str(SECONDS / 60)]  # fmt: skip
        cpus = f"0-{arguments.threads - 1}"
        lines = subprocess.run(["taskset", "-c", cpus, *command], check=True, text=True, stdout=subprocess.PIPE).stdout
        rows = [re.split(r"\s*\|\s*", line) for line in lines.splitlines() if re.match(r"\| \d", line)]
        report(f"Auricle {precision}", [float(row[4]) for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2, help="times that all are run in turn")
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/files")
    parser.add_argument("--prepare", action="store_true", help="make the files alone")
    arguments = parser.parse_args()
    checkpoint(arguments.folder)
    onnx_files(arguments.folder)
    if arguments.prepare:
        return
    for _ in range(arguments.rounds):
        for side in [pytorch, sherpa, auricle]:
            side(arguments.folder, arguments)


if __name__ == "__main__":
    main()
