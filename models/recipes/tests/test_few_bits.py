"""Exported folders in 8 bits."""

import torch
from safetensors.torch import load_file, save_file

from recipes import few_bits


def test_a_folder_keeps_its_weights_within_their_steps(tmp_path):
    torch.manual_seed(1)
    folder, back = tmp_path / "made", tmp_path / "back"
    folder.mkdir()
    weights = {
        "matrix": torch.randn(40, 64).half(),
        "five.matrix": torch.randn(40, 64).half(),
        "convolution": torch.randn(8, 32, 3).half(),
        "odd": torch.randn(8, 5).half(),
        "bias": torch.randn(40),
    }
    save_file({**weights, "counter": torch.tensor(3)}, folder / "model.safetensors")
    few_bits.store(folder, ["five"])
    found = few_bits.load(folder)
    assert found.keys() == weights.keys() and not (folder / "model.safetensors").exists()
    for name, most in (("matrix", 0.01), ("five.matrix", 0.06), ("convolution", 0.01), ("odd", 0), ("bias", 0)):
        value = weights[name].float()
        assert found[name].shape == value.shape
        assert (found[name] - value).norm() <= most * value.norm(), name
    few_bits.write_back(folder, back)
    assert torch.equal(load_file(back / "model.safetensors")["odd"], weights["odd"])
