"""Speaker embeddings: a checkpoint of random weights in the form that the recipe exports, evaluated by the recipe's class."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from speech import readable, recording

sys.path.append(str(Path(__file__).resolve().parents[2] / "models"))

from recipes.features import MELS, log_mel  # noqa: E402
from recipes.speakers.export import export_model, load_exported  # noqa: E402
from recipes.speakers.model import Embedder, Shape  # noqa: E402

SHAPE = Shape(channels=16, parts=4, dilations=(2, 3), bottleneck=8, pooled=24, embedding=12)
LENGTHS = (150, 41)


def make_voice(folder: Path) -> None:
    torch.manual_seed(23)
    model = Embedder(SHAPE)
    with torch.enable_grad():
        for _ in range(4):  # batch norms that are not the identity
            model(torch.randn(6, 80, MELS) * 2 - 4)
    export_model(model.eval(), folder)
    model = load_exported(folder)  # in the precision that was written
    audio = recording()[: 16000 * 2]
    mels = log_mel(np.asarray(audio, dtype=np.float32))
    tensors = {"audio": torch.tensor(audio)[None].float(), "mels": torch.tensor(mels)[None]}
    for frames in LENGTHS:
        windows = torch.stack([torch.tensor(mels[first : first + frames]) for first in (0, 17, 33)])
        tensors[f"windows_{frames}"] = windows
        with torch.no_grad():
            tensors[f"embeddings_{frames}"] = torch.nn.functional.normalize(model(windows))[None]
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "oracle.safetensors")
    (folder / "oracle.json").write_text(json.dumps({"lengths": LENGTHS}) + "\n")
    readable(folder)
