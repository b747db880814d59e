"""Calibrates the internal language model (ILM) of an exported recogniser, in place.

    python -m recipes.ilm_calibration --model FOLDER --store STORE

A search with an external language model subtracts the score of the transducer's internal language model: the output of the joint
network without the encoder (Meng et al. 2021, arXiv 2011.01991). That output is right only if the encoder's part of the joint has
mean 0. This program moves the mean of the encoder's part to the predictor's bias. The output with the encoder does not change.
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
def mean_over_speech(model: Recogniser, store: MelStore, count: int) -> torch.Tensor:
    """The mean of `encoder_mean` over training utterances; over real readers only, if there are any."""
    recorded = [u for u in store.utterances if u.corpus == u.recorded != NOISE and u.speaker not in HELD_OUT]
    found = [u for u in recorded if LENGTHS[0] < u.frames < LENGTHS[1]]
    found = [u for u in found if not u.synthetic] or found
    parts = []
    for number in np.random.default_rng(5).permutation(len(found))[:count]:
        mel = torch.from_numpy(store.mel(found[number]))[None]
        hidden, _, frames = model.encode(mel, torch.tensor([mel.shape[1]]), max(LOOKAHEADS))
        parts.append(model.encoder_mean(hidden, model.ctc_log_probs(hidden), frames))
    if not parts:
        raise SystemExit("the store has no speech of a suitable length: run recipes.prepare first")
    return torch.stack(parts).mean(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="an exported folder with its training/")
    parser.add_argument("--store", type=Path, required=True, help="folder that recipes.prepare wrote")
    parser.add_argument("--count", type=int, default=100, help="number of utterances")
    args = parser.parse_args()

    model = Recogniser(NemotronAsrStreamingConfig.from_pretrained(args.model), len(PHONES))
    start_from(model, args.model)
    model.eval()
    model.move_encoder_mean(mean_over_speech(model, MelStore(args.store), args.count))
    file = args.model / "model.safetensors"
    tensors = load_file(file)
    calibrated = model.published_state()
    for name in ("encoder_projector.bias", "decoder.decoder_projector.bias"):
        tensors[name] = calibrated[name].to(tensors[name].dtype)
    save_file(tensors, file, metadata={"format": "pt"})
    file.chmod(0o644)  # safetensors writes files that only their owner can read


if __name__ == "__main__":
    main()
