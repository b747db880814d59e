"""Words that Whisper base hears wrong in Kokoro's speech: `python words.py --work FOLDER --program AURICLE [--sentences 20] [--voice af_heart]`.

Says sentences of `models/recipes/voice/sentences.txt` with `FOLDER/models`, and fails where more than a twentieth of the words are wrong.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from jiwer import process_words
from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

RECIPE = Path(__file__).resolve().parents[3] / "models" / "recipes" / "voice"
sys.path.insert(0, str(RECIPE))
from score_wavs import whisper_base  # noqa: E402

MOST_WRONG = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=20)
    parser.add_argument("--voice", default="af_heart")
    arguments = parser.parse_args()
    sentences = (RECIPE / "sentences.txt").read_text().splitlines()[: arguments.sentences]
    folder = arguments.work / "said" / arguments.voice
    folder.mkdir(parents=True, exist_ok=True)
    whisper, normalise = whisper_base(), EnglishTextNormalizer({})
    said, heard = [], []
    for number, text in enumerate(sentences):
        path = folder / f"{number:03}.wav"
        say = [arguments.program, "say", "--device", "cpu", "--models", arguments.work / "models", "--voice", arguments.voice]
        subprocess.run([*say, text, "-o", path], check=True, stdin=subprocess.DEVNULL)
        said.append(normalise(text))
        heard.append(normalise(" ".join(part.text for part in whisper.transcribe(str(path), language="en", beam_size=5)[0])))
        if said[-1] != heard[-1]:
            print(f"{said[-1]!r} is heard as {heard[-1]!r}")
    wrong = process_words(said, heard).wer
    print(f"{arguments.voice}: {100 * wrong:.1f} % of {sum(len(text.split()) for text in said)} words wrong")
    return 1 if wrong > MOST_WRONG else 0


if __name__ == "__main__":
    raise SystemExit(main())
