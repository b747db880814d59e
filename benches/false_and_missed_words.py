"""False words in everyday sounds beside recall of short and quiet speech, on one table: `python benches/false_and_missed_words.py --data DATA`.

- Sounds: the ESC-10 files that the detector's recipe holds out, five seconds each; a word in one is a false word.
- Short: the first words of readers who pause after them ("yes", "no"), with what is around them, also at -30 dB; a clip without a word
  is a miss.
- Quiet: short utterances of the speechocean762 speakers, also at -30 and -50 dB; word error rates.

`--models` takes models folders: the starter's is the default; that of `tests/published/whisper/long_files.py` holds Whisper base.
`--peer` takes a folder of CTranslate2 and has faster-whisper transcribe with its own detector instead, greedily.
Needs numpy, soundfile and, for published checkpoints, transformers' normaliser, and `cargo build --release`.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import soundfile

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "models"))
from recipes.scoring import ErrorRates  # noqa: E402
from recipes.vad.sounds import HELD_OUT_NOISE  # noqa: E402

RATE = 16_000
FRAME = RATE // 100
CORPORA = ("mini-librispeech-en", "librispeech-en", "librispeech3-en", "kathleen-en", "ljspeech-en")
# Frames of the word, and of the pause after it.
WORD, PAUSE = range(15, 46), 18
MARGIN = 30
GAINS_DB = (0, -30, -50)


def first_word(pcm: numpy.ndarray) -> slice | None:
    """The first stretch of sound, if it is as short as a word and a pause follows."""
    count = len(pcm) // FRAME
    level = 10 * numpy.log10((pcm[: count * FRAME].reshape(count, FRAME) ** 2).mean(1) + 1e-10)
    loud = level > max(numpy.percentile(level, 95) - 28, numpy.percentile(level, 3) + 8)
    if not loud.any():
        return None
    start = int(numpy.argmax(loud))
    quiet = 0
    for at in range(start, count):
        quiet = 0 if loud[at] else quiet + 1
        if quiet == PAUSE:
            end = at - PAUSE + 1
            inside = slice(max(0, start - MARGIN) * FRAME, min(count, end + min(MARGIN, PAUSE)) * FRAME)
            return inside if end - start in WORD else None
    return None


def write(path: Path, pcm: numpy.ndarray, gain_db: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, pcm * 10 ** (gain_db / 20), RATE)
    return path


def short_clips(data: Path, work: Path) -> dict[int, list[Path]]:
    found = {gain: [] for gain in GAINS_DB[:2]}
    for corpus in CORPORA:
        for line in (data / corpus / "refs.tsv").read_text().splitlines():
            name = line.split("\t")[0]
            pcm, rate = soundfile.read(data / corpus / name, dtype="float32")
            if rate == RATE and (place := first_word(pcm)):
                for gain, clips in found.items():
                    clips.append(write(work / f"short{gain}" / f"{Path(name).stem}.flac", pcm[place], gain))
    return found


def utterances(data: Path, work: Path, every: int) -> tuple[list[str], dict[int, list[Path]]]:
    rows = [line.split("\t") for line in (data / "speechocean-en/refs.tsv").read_text().splitlines()][::every]
    found = {gain: [] for gain in GAINS_DB}
    for name, _ in rows:
        pcm, _ = soundfile.read(data / "speechocean-en" / name, dtype="float32")
        for gain, clips in found.items():
            clips.append(write(work / f"quiet{gain}" / f"{Path(name).stem}.flac", pcm, gain))
    return [text for _, text in rows], found


def transcribe(program: Path, models: Path, options: list[str], files: list[Path]) -> list[str]:
    command = [program, "transcribe", "--quiet", "--models", models, "--device", "cpu", "--format", "json", *options]
    texts = []
    for first in range(0, len(files), 200):
        run = subprocess.run([*command, *files[first : first + 200]], check=True, stdout=subprocess.PIPE, text=True)
        texts += [json.loads(line)["text"] for line in run.stdout.splitlines()]
    return texts


def peer(folder: Path, language: str | None, files: list[Path]) -> list[str]:
    from faster_whisper import WhisperModel

    model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=os.cpu_count())
    read = lambda file: model.transcribe(str(file), language=language, beam_size=1, vad_filter=True)[0]  # noqa: E731
    return ["".join(segment.text for segment in read(file)).strip() for file in files]


def normalise(published: bool):
    if not published:
        return lambda text: text
    from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

    return EnglishTextNormalizer({})


def main() -> None:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of corpus folders")
    parser.add_argument("--models", type=Path, default=ROOT / "models")
    parser.add_argument("--model", default="svc-best")
    parser.add_argument("--option", action="append", default=[], help="of `auricle transcribe`, as --option=--lm=off")
    parser.add_argument("--every", type=int, default=16, help="one of so many utterances")
    parser.add_argument("--seen", action="store_true", help="the sounds that the detector was trained with too")
    parser.add_argument("--only", default="sounds,short,quiet")
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--work", type=Path, default=Path("/tmp/auricle-false-words"))
    parser.add_argument("--program", type=Path, default=target / "release/auricle")
    arguments = parser.parse_args()
    only = arguments.only.split(",")

    def run(files: list[Path], language: str | None = None) -> list[str]:
        if arguments.peer:
            return peer(arguments.peer, language, files)
        options = ["--model", arguments.model, *arguments.option, *(["--language", language] if language else [])]
        return transcribe(arguments.program, arguments.models, options, files)

    number = lambda path: int(path.stem.rsplit("-", 1)[1])  # noqa: E731
    sounds = sorted((arguments.data / "noise").glob("*.opus"))
    sounds = [path for path in sounds if (number(path) < HELD_OUT_NOISE) == arguments.seen]
    # No language is given, as nobody speaks one.
    sounds = sounds if "sounds" in only else []
    texts = run(sounds)
    wrong = [(path.stem, text) for path, text in zip(sounds, texts, strict=True) if text]
    if sounds:
        count = sum(len(text.split()) for _, text in wrong)
        print(f"| Sounds with words | {len(wrong)} of {len(sounds)}, {count} words |", flush=True)
    for name, text in wrong:
        print(f"|   {name} | {text} |")
    for gain, clips in (short_clips(arguments.data, arguments.work) if "short" in only else {}).items():
        missed = sum(not text for text in run(clips, "en"))
        free = sum(not text for text in run(clips))
        print(f"| Short words at {gain} dB missed | {missed} of {len(clips)}; {free} where the language is not given |", flush=True)
    if "quiet" not in only:
        return
    references, quiet = utterances(arguments.data, arguments.work, arguments.every)
    spelled = normalise(arguments.peer or arguments.model != "svc-best" and arguments.models != ROOT / "models")
    for gain, clips in quiet.items():
        rates = ErrorRates()
        for said, text in zip(references, run(clips, "en"), strict=True):
            rates.add(spelled(said), spelled(text))
        print(f"| Utterances at {gain} dB | {rates.wer:.1f} % of {rates.words} words wrong |", flush=True)


if __name__ == "__main__":
    main()
