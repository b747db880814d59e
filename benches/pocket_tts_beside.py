"""Pocket TTS at the published size with random weights, beside its class in PyTorch, in one run.

Writes a folder as `auricle say` reads it, once, with a SentencePiece model of this repository's text and one voice of ten seconds. Both sides say
one passage clause by clause (PyTorch its first three), for as long as each text's budget of frames, in turn; PyTorch has the voice's keys and values ready, and
decodes a clause at once where Auricle decodes frame by frame. Needs torch, transformers, tokenizers and `cargo build --release --bin speech`.

    python benches/pocket_tts_beside.py FOLDER [--rounds 3] [--threads 2] [--phonon]
"""

import argparse
import copy
import json
import os
import re
import statistics
import subprocess
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    GradiumPhononTTSConfig,
    GradiumPhononTTSForConditionalGeneration,
    PocketTTSAudioTokenizerConfig,
    PocketTTSAudioTokenizerModel,
    PocketTTSConfig,
    PocketTTSForConditionalGeneration,
)

ROOT = Path(__file__).resolve().parents[1]
VOICE_FRAMES, PIECES, FRAME_S = 125, 4000, 0.08


def write(folder: Path, phonon: bool) -> None:
    torch.manual_seed(1)
    (folder / "voices").mkdir(parents=True)
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    specials = ["<unk>", "<s>", "</s>", "<pad>"]
    texts = [path.read_text() for path in sorted(ROOT.rglob("*.md")) if "target" not in path.parts]
    tokenizer.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=PIECES, special_tokens=specials, unk_token="<unk>"))
    tokenizer.save(str(folder / "tokenizer.json"))
    if phonon:
        model = GradiumPhononTTSForConditionalGeneration(GradiumPhononTTSConfig())
        width = model.config.audio_prompt_dim
    else:
        model = PocketTTSForConditionalGeneration(PocketTTSConfig())
        width = model.config.latent_dim
    # A random network has no use for its own end: both sides say as many frames as a text may have.
    model.eos_head.bias.data.fill_(-100.0)
    model.save_pretrained(folder)
    PocketTTSAudioTokenizerModel(PocketTTSAudioTokenizerConfig(encoder_config=None)).save_pretrained(folder / "audio_tokenizer")
    save_file({"audio_prompt_latents": torch.randn(VOICE_FRAMES, width)}, folder / "voices" / "random.safetensors")
    (folder / "generation_config.json").write_text(json.dumps({"temperature": 0.7, "do_sample": True}))


class Peer:
    def __init__(self, folder: Path, phonon: bool):
        form = GradiumPhononTTSForConditionalGeneration if phonon else PocketTTSForConditionalGeneration
        self.model = form.from_pretrained(folder).eval()
        self.codec = PocketTTSAudioTokenizerModel.from_pretrained(folder / "audio_tokenizer").eval()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        config = self.model.config
        before = [] if phonon else [config.audio_prompt_bos_token_id]
        voice = load_file(folder / "voices" / "random.safetensors")["audio_prompt_latents"][None]
        ids = torch.tensor([[*before, *[config.audio_prompt_token_id] * VOICE_FRAMES]])
        self.prefix = self.model.model(input_ids=ids, audio_prompt_latents=voice, use_cache=True).past_key_values

    def say(self, clauses: list[str]) -> tuple[float, float]:
        """Seconds, and seconds of the processor, for a second of speech."""
        began, worked, frames = time.perf_counter(), time.process_time(), 0
        for clause in clauses:
            ids = [*self.tokenizer.encode(clause, add_special_tokens=False).ids, self.model.config.audio_bos_token_id]
            ids = torch.tensor([ids])
            made = self.model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), past_key_values=copy.deepcopy(self.prefix), frames_after_eos=2,
                do_sample=True, temperature=0.7, return_dict_in_generate=True,
            )  # fmt: skip
            self.codec.decode(made.audio_latents)
            frames += made.audio_latents.shape[1]
        seconds = frames * FRAME_S
        return (time.perf_counter() - began) / seconds, (time.process_time() - worked) / seconds


def ours(folder: Path, threads: int, int8: bool) -> tuple[float, float, str]:
    """Real-time factor, seconds of the processor for a second of speech, and the time to the first frame of a clause."""
    command = [ROOT / "target/release/speech", "--checkpoint", folder, "--rounds", "1", "--streams", "0", *(["--int8"] if int8 else [])]
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
    table = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    factor, worked = (re.search(name + r".*\| ([0-9.]+)", table) for name in ("real-time factor", "processor time"))
    return float(factor[1]), float(worked[1]), re.search(r"first frame.*\| (.*) \|", table)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--phonon", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    if not (arguments.folder / "config.json").exists():
        write(arguments.folder, arguments.phonon)
    source = (ROOT / "benches/src/bin/speech.rs").read_text()
    passage = re.search(r'PASSAGE: &str = "(.*?)";', source, re.S)[1].replace("\\\n", "")
    clauses = re.findall(r"[^.,]+[.,]", re.sub(r"\s+", " ", passage))[:3]
    peer = Peer(arguments.folder, arguments.phonon)
    peer.say(clauses[:1])
    print("| | real-time factor | processor seconds a second | first frame of a clause, median and slowest |\n|---|---|---|---|")
    found = {"PyTorch": [], "f32": [], "int8": []}
    for _ in range(arguments.rounds):
        for name in found:
            row = (*peer.say(clauses), "") if name == "PyTorch" else ours(arguments.folder, arguments.threads, name == "int8")
            found[name].append(row)
            print(f"| {name} | {row[0]:.3f} | {row[1]:.3f} | {row[2]} |", flush=True)
    medians = {name: [statistics.median(row[at] for row in rows) for at in (0, 1)] for name, rows in found.items()}
    for name in ("f32", "int8"):
        times, worked = (theirs / mine for theirs, mine in zip(medians["PyTorch"], medians[name]))
        print(f"PyTorch takes {times:.2f} times as long as {name}, and {worked:.2f} times its processor time (medians)")


if __name__ == "__main__":
    main()
