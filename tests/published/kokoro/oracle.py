"""Stages of Kokoro with real weights, by the modules of the package: `python oracle.py --work FOLDER`.

Writes `FOLDER/oracle` as `tests/oracles/kokoro_voice.py` writes its fixture. `target/release/kokoro compare` reads it.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "oracles"))
from kokoro_voice import evaluate  # noqa: E402
from synthesis import finish  # noqa: E402

from kokoro.model import KModel  # noqa: E402

UTTERANCES = {
    "first": ("af_heart", "ðə bˈɜɹʧ kənˈu slˈɪd ɔn ðə smˈuð plˈæŋks.", 1.0),
    "long": (
        "af_heart",
        "wˌʌn kən hˈɪɹ ðə wˈɔɾəɹ wˈɛn ðə wˈɪnd dɹˈɑps, ənd ðə ˈOld mˈɪl stˈændz bIwˈAɾɪŋ fɔɹ sˈʌmwʌn hu kən sˈɛt ɪts stˈOnz "
        "ɪn mˈOʃən əɡˈɛn bəfˈɔɹ ðə vˈæli fɔɹɡˈɛts ðə nˈAm əv ðə mˈɪləɹ hu bˈɪlt ɪt.",
        1.0,
    ),
    "second": ("bm_george", "ɡlˈu ðə ʃˈit tə ðə dˈɑɹk blˈu bˈækɡɹWnd, plˈiz!", 1.3),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    folder = parser.parse_args().work
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    config = json.loads((folder / "kokoro" / "config.json").read_text())
    model = KModel(repo_id="local", config=config, model=str(folder / "kokoro" / "kokoro-v1_0.pth")).eval()
    modules = {name: getattr(model, name) for name in ("bert", "bert_encoder", "predictor", "text_encoder", "decoder")}
    tensors, facts = {}, {}
    for name, (voice, text, speed) in UTTERANCES.items():
        rows = torch.load(folder / "kokoro" / "voices" / f"{voice}.pt")
        ids = [config["vocab"][symbol] for symbol in text]
        stages = evaluate(modules, config, ids, rows[len(ids) - 1], speed)
        tensors |= {f"{name}_{stage}": value for stage, value in stages.items()}
        facts[name] = {"voice": voice, "speed": speed}
    (folder / "oracle").mkdir(exist_ok=True)
    finish(folder / "oracle", tensors, facts)


if __name__ == "__main__":
    main()
