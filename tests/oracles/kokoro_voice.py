"""Kokoro: a tiny checkpoint of random weights in the published form, evaluated by the modules of the package `kokoro` stage by stage.

The noise of the excitation is drawn here and is part of the fixture.
"""

import json
import math
import sys
from pathlib import Path
from unittest.mock import MagicMock, patch

import torch
from transformers import AlbertConfig

# The package imports these for messages and for its front end.
for name in ("loguru", "misaki", "misaki.en", "misaki.espeak"):
    sys.modules.setdefault(name, MagicMock())

from kokoro.istftnet import AdainResBlk1d, Decoder  # noqa: E402
from kokoro.modules import CustomAlbert, ProsodyPredictor, TextEncoder  # noqa: E402
from torch.nn.utils import weight_norm  # noqa: E402

from synthesis import finish  # noqa: E402

SYMBOLS = " ,.?!ˈˌəᵊᵻɾɑæʌɔWIɛɜAɪiOYʊubʧdðfɡhʤklmŋnpɹsʃtθvwjzʒ"
CONFIG = {
    "istftnet": {
        "upsample_kernel_sizes": [8, 4], "upsample_rates": [4, 2], "gen_istft_hop_size": 2, "gen_istft_n_fft": 8,
        "resblock_dilation_sizes": [[1, 3, 5], [1, 2, 3]], "resblock_kernel_sizes": [3, 5], "upsample_initial_channel": 16,
    },
    "dim_in": 8, "dropout": 0.2, "hidden_dim": 12, "max_conv_dim": 12, "max_dur": 7, "multispeaker": True, "n_layer": 2, "n_mels": 8,
    "n_token": len(SYMBOLS) + 1, "style_dim": 6, "text_encoder_kernel_size": 5,
    "plbert": {
        "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "max_position_embeddings": 96, "num_hidden_layers": 3,
        "embedding_size": 10, "dropout": 0.1,
    },
    "vocab": {symbol: at + 1 for at, symbol in enumerate(SYMBOLS)},
}  # fmt: skip
INNER, NARROW = 14, 4  # widths that the published class has as constants
UTTERANCES = {"first": ("af_ann", "hˈaɪ, wˈɜɹld.", 1.0), "second": ("bm_bob", "ɡˈO!", 0.7)}
ROWS = 40
VOICED = 10.0  # hertz
MARGIN = 0.01  # of durations before rounding, and of the pitch to a voice's
EDGE = 1e-4  # of phases to half a turn, radians


def parts() -> dict[str, torch.nn.Module]:
    """The parts of `KModel`, the decoder narrower than its constants."""
    config = CONFIG
    decoder = Decoder(dim_in=config["hidden_dim"], style_dim=config["style_dim"], dim_out=config["n_mels"], **config["istftnet"])
    style, hidden = config["style_dim"], config["hidden_dim"]
    seen = INNER + 2 + NARROW
    decoder.encode = AdainResBlk1d(hidden + 2, INNER, style)
    last = AdainResBlk1d(seen, config["istftnet"]["upsample_initial_channel"], style, upsample=True)
    decoder.decode = torch.nn.ModuleList([*(AdainResBlk1d(seen, INNER, style) for _ in range(3)), last])
    decoder.asr_res = torch.nn.Sequential(weight_norm(torch.nn.Conv1d(hidden, NARROW, kernel_size=1)))
    albert = CustomAlbert(AlbertConfig(vocab_size=config["n_token"], **config["plbert"]))
    return {
        "bert": albert,
        "bert_encoder": torch.nn.Linear(config["plbert"]["hidden_size"], hidden),
        "predictor": ProsodyPredictor(style_dim=style, d_hid=hidden, nlayers=config["n_layer"], max_dur=config["max_dur"], dropout=0.2),
        "text_encoder": TextEncoder(
            channels=hidden, kernel_size=config["text_encoder_kernel_size"], depth=config["n_layer"], n_symbols=config["n_token"]
        ),
        "decoder": decoder,
    }  # fmt: skip


def spread(name: str, module: torch.nn.Module) -> None:
    """Random weights of such size that every part matters. The decoder's instance norms stay without factors, as published."""
    for key, values in module.named_parameters():
        if "norm.weight" in key and name == "decoder" or "norm.bias" in key and name == "decoder":
            continue
        if "alpha" in key:
            values.data.uniform_(0.5, 2.0)
        elif key.endswith("weight_g"):
            values.data.uniform_(0.6, 1.4)
        elif values.ndim > 1:
            values.data.normal_(0, 1.2 / max(values[0].numel(), 1) ** 0.5)
        else:
            is_factor = "norm.weight" in key.lower() or key.endswith("gamma")
            values.data.normal_(1 if is_factor else 0, 0.2)
    if name == "predictor":  # a pitch that is a voice's in most frames
        module.F0_proj.weight.data.mul_(150)
        module.F0_proj.bias.data.fill_(50)
    if name == "decoder":  # spectra that are no astronomical numbers
        module.generator.conv_post.weight_g.data.mul_(0.02)


def save(folder: Path, modules: dict[str, torch.nn.Module]) -> None:
    """As the published file is: state dictionaries of modules that were trained on several devices."""
    state = {}
    for name, module in modules.items():
        state[name] = {f"module.{key}": value for key, value in module.state_dict().items() if name != "decoder" or not (".norm.weight" in key or ".norm.bias" in key)}
    torch.save(state, folder / "kokoro-v1_0.pth")
    (folder / "config.json").write_text(json.dumps(CONFIG, ensure_ascii=False, indent=1) + "\n")


def evaluate(modules: dict[str, torch.nn.Module], config: dict, ids: list[int], row: torch.Tensor, speed: float) -> dict[str, torch.Tensor]:
    """The stages of `KModel.forward_with_tokens`, with noise that is drawn here."""
    width = config["style_dim"]
    decoder, predictor = modules["decoder"], modules["predictor"]
    symbols = torch.tensor([[0, *ids, 0]])
    lengths, mask = torch.tensor([symbols.shape[1]]), torch.zeros(symbols.shape, dtype=torch.bool)
    style = row[:, width:]
    hidden = modules["bert"](symbols, attention_mask=(~mask).int())
    features = predictor.text_encoder(modules["bert_encoder"](hidden).transpose(-1, -2), style, lengths, mask)
    exact = torch.sigmoid(predictor.duration_proj(predictor.lstm(features)[0])).sum(-1)[0]
    durations = torch.round(exact / speed).clamp(min=1).long()
    repeat = lambda x: x.repeat_interleave(durations, dim=-1)
    pitch, energy = predictor.F0Ntrain(repeat(features.transpose(-1, -2)), style)
    encoded = modules["text_encoder"](symbols, lengths, mask)
    generator = decoder.generator
    weight = generator.m_source.l_linear.weight[0]
    count = pitch.shape[-1] * math.prod(config["istftnet"]["upsample_rates"]) * config["istftnet"]["gen_istft_hop_size"]
    noise = torch.randn(count)
    # The same noise for each harmonic, by its weight: their weighted sum is the noise times the norm of the weights.
    drawn = lambda like: noise[None, :, None] * (weight / weight.norm()) if like.shape[-1] == len(weight) else torch.zeros_like(like)
    seen = {}
    hooks = [
        generator.register_forward_pre_hook(lambda _, inputs: seen.update(decoded=inputs[0])),
        generator.noise_convs[0].register_forward_pre_hook(lambda _, inputs: seen.update(excitation=inputs[0])),
    ]
    with patch("torch.randn_like", drawn):
        samples = decoder(repeat(encoded), pitch, energy, row[:, :width])
    for hook in hooks:
        hook.remove()
    return {
        "symbols": symbols[0], "row": row[0], "hidden": hidden[0], "features": features[0], "exact_durations": exact, "durations": durations,
        "pitch": pitch[0], "energy": energy[0], "encoded": encoded[0].T, "decoded": seen["decoded"][0], "noise": noise,
        "excitation": seen["excitation"][0], "samples": samples.reshape(-1),
    }  # fmt: skip


def is_decided(stages: dict[str, torch.Tensor], speed: float) -> bool:
    """True if no rounding could go either way, and some frames have a voice and some have none."""
    scaled, pitch = stages["exact_durations"] / speed, stages["pitch"]
    phases = stages["excitation"][CONFIG["istftnet"]["gen_istft_n_fft"] // 2 + 1 :][1:-1]
    near = ((scaled - scaled.floor() - 0.5).abs() < MARGIN).any() or ((pitch - VOICED).abs() < MARGIN).any()
    return not (near or (phases.abs() > math.pi - EDGE).any() or (pitch > VOICED).all() or (pitch < VOICED).all())


def make_kokoro(folder: Path) -> None:
    for seed in range(20):
        torch.manual_seed(seed)
        modules = {name: module.eval() for name, module in parts().items()}
        for name, module in modules.items():
            spread(name, module)
        voices = {voice: torch.randn(ROWS, 1, 2 * CONFIG["style_dim"]) * 0.5 for voice, _, _ in UTTERANCES.values()}
        tensors, facts = {}, {}
        for name, (voice, text, speed) in UTTERANCES.items():
            ids = [CONFIG["vocab"][symbol] for symbol in text if symbol in CONFIG["vocab"]]
            # The first frame of the excitation is symmetric: its phases are 0 or half a turn, of either sign. Noise decides.
            tries = (evaluate(modules, CONFIG, ids, voices[voice][len(ids) - 1], speed) for _ in range(100))
            stages = next((stages for stages in tries if is_decided(stages, speed)), None)
            if stages is None:
                break
            tensors |= {f"{name}_{stage}": value for stage, value in stages.items()}
            facts[name] = {"voice": voice, "speed": speed}
        else:
            break
    else:
        raise RuntimeError("no seed is far from every edge")
    save(folder, modules)
    finish(folder, tensors, facts)
    (folder / "voices").mkdir()
    for voice, rows in (voices | {"ff_other": next(iter(voices.values()))}).items():
        torch.save(rows.clone(), folder / "voices" / f"{voice}.pt")
