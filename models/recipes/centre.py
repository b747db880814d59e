"""Makes an exported recogniser's expectations readable without sound, so that a language model can take their place.

    python -m recipes.centre --model FOLDER --store STORE

A search with a language model takes off what the transducer expects by itself, and asks the joint without an encoder for that
(Meng et al. 2021, arXiv 2011.01991). The encoder's average part is therefore moved to the predictor's side; what the model hears
stays the same. In place.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import NemotronAsrStreamingConfig

from .batches import HELD_OUT, NOISE
from .checkpoint import start_from
from .features import MelStore
from .model import LOOKAHEADS, Recogniser
from .phones import PHONES

LENGTHS = (100, 1500)  # frames


@torch.no_grad()
def average(model: Recogniser, store: MelStore, count: int) -> torch.Tensor:
    """`heard_on_average` over utterances of the training, of real readers where there are some."""
    recorded = [u for u in store.utterances if u.corpus == u.recorded != NOISE and u.speaker not in HELD_OUT]
    found = [u for u in recorded if LENGTHS[0] < u.frames < LENGTHS[1]]
    found = [u for u in found if not u.synthetic] or found
    parts = []
    for number in np.random.default_rng(5).permutation(len(found))[:count]:
        mel = torch.from_numpy(store.mel(found[number]))[None]
        hidden, _, frames = model.encode(mel, torch.tensor([mel.shape[1]]), max(LOOKAHEADS))
        parts.append(model.heard_on_average(hidden, model.ctc_log_probs(hidden), frames))
    if not parts:
        raise SystemExit("the store has no speech of a fit length: run recipes.prepare first")
    return torch.stack(parts).mean(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="an exported folder with its training/")
    parser.add_argument("--store", type=Path, required=True, help="what recipes.prepare wrote")
    parser.add_argument("--count", type=int, default=100, help="utterances")
    args = parser.parse_args()

    model = Recogniser(NemotronAsrStreamingConfig.from_pretrained(args.model), len(PHONES))
    start_from(model, args.model)
    model.eval()
    model.centre(average(model, MelStore(args.store), args.count))
    file = args.model / "model.safetensors"
    tensors = load_file(file)
    centred = model.published_state()
    for name in ("encoder_projector.bias", "decoder.decoder_projector.bias"):
        tensors[name] = centred[name].to(tensors[name].dtype)
    save_file(tensors, file, metadata={"format": "pt"})
    file.chmod(0o644)  # safetensors writes files for their owner alone


if __name__ == "__main__":
    main()
