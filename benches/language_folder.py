"""A language model of a published size with random weights, for timing: `python benches/language_folder.py qwen3-0.6b FOLDER`.

Sizes and vocabulary are as published; the tokenizer is a small one, as only numbers of tokens are timed. Needs what
`tests/oracles/requirements.txt` names.
"""

import argparse
import shutil
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures" / "decoder"
# family; size, layers, heads of queries and of keys, width of a head, inner size, vocabulary; output tied to the embeddings
SHAPES = {
    "tiny": ("qwen3", 64, 2, 4, 2, 16, 128, 1000, True),
    "smollm2-135m": ("llama", 576, 30, 9, 3, 64, 1536, 49152, True),
    "qwen3-0.6b": ("qwen3", 1024, 28, 16, 8, 128, 3072, 151936, True),
    "llama-3.2-1b": ("llama", 2048, 16, 32, 8, 64, 8192, 128256, True),
    "qwen3-4b": ("qwen3", 2560, 36, 32, 8, 128, 9728, 151936, True),
    "llama-3.1-8b": ("llama", 4096, 32, 32, 8, 128, 14336, 128256, False),
}


def make(shape: str, folder: Path, device: str) -> None:
    family, size, layers, heads, keys, head, inner, vocabulary, tied = SHAPES[shape]
    config = (Qwen3Config if family == "qwen3" else LlamaConfig)(
        hidden_size=size, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=keys, head_dim=head,
        intermediate_size=inner, vocab_size=vocabulary, tie_word_embeddings=tied, max_position_embeddings=4096,
        bos_token_id=None, eos_token_id=0, pad_token_id=None,
    )  # fmt: skip
    torch.manual_seed(1)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    folder.mkdir(parents=True, exist_ok=True)
    for file in ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]:
        shutil.copy(FIXTURES / family / file, folder / file)
    model.save_pretrained(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu", help="where the weights are drawn: cpu or cuda")
    arguments = parser.parse_args()
    make(arguments.shape, arguments.folder, arguments.device)
