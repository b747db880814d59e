"""transformers' speed with a language model, as `language_model speed` measures ours: `python benches/language_peers.py FOLDER`.

Greedy, in bfloat16 with torch's fused attention: as it is, and (`compiled`) with a static cache and its steps compiled by torch, which
repeats them as CUDA graphs.
"""

import argparse
import time

import torch
from transformers import AutoModelForCausalLM, StaticCache


def seconds(run, repeats: int) -> float:
    """The median time of a run, after one that compiles."""
    times = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return sorted(times[1:])[repeats // 2]


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--text", type=int, default=64)
    parser.add_argument("--texts", default="8", help="texts side by side")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compiled", action="store_true")
    arguments = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(arguments.folder, dtype=torch.bfloat16).to("cuda").eval()
    length = arguments.prompt + arguments.text + 1
    who = "compiled" if arguments.compiled else "plain"
    step = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True) if arguments.compiled else model.forward

    def start(rows: int, tokens: int):
        """The first token after a prompt, and the cache."""
        ids = (torch.arange(tokens, device="cuda") * 7919 + 13) % model.config.vocab_size
        cache = StaticCache(config=model.config, max_cache_len=length) if arguments.compiled else None
        out = model(ids.repeat(rows, 1), past_key_values=cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1:].argmax(-1), out.past_key_values, tokens

    def write(begun) -> None:
        token, cache, position = begun
        for at in range(position, position + arguments.text):
            places = torch.tensor([at], device="cuda")
            out = step(token.clone(), past_key_values=cache, position_ids=places[None], cache_position=places, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
            # As a server that streams its words.
            token.tolist()

    def report(name: str, tokens: int, taken: float) -> None:
        print(f"transformers, {who}: {name}: {tokens / taken:.1f} tokens/s", flush=True)

    report(f"prompt of {arguments.prompt}", arguments.prompt, seconds(lambda: start(1, arguments.prompt), arguments.rounds))
    kinds = [("one text", 1, 8), (f"one text, {arguments.prompt} tokens deep", 1, arguments.prompt)]
    kinds += [(f"{rows} texts together", int(rows), 8) for rows in arguments.texts.split(",")]
    for name, rows, tokens in kinds:
        prompt = seconds(lambda: start(rows, tokens), arguments.rounds)
        both = seconds(lambda: write(start(rows, tokens)), arguments.rounds)
        report(name, rows * arguments.text, both - prompt)


if __name__ == "__main__":
    main()
