"""How late a checkpoint tells its words: the emission delay for each look-ahead.

    python -m recipes.delay --store WORK/store --annotated WORK/annotated --auricle ../target/release/auricle \\
                            --model svc-realtime --look-ahead 1040 --look-ahead 480 ...

A transducer emits a token once it is sure of it, not where it is spoken; Whisper's attention turns to a word before it is.
`recipes.voice annotate` aligns clips with their texts; the engine transcribes the same clips; the words that both have give the differences
of starts and ends. What is printed for each look-ahead is the median difference, which is the delay, and how far the times are off as they
are and without it. Delays are written into the checkpoint's `emission_delay.json`, from which the engine takes them off: measure without
that file, and check with it. Delays come from training readers; readers that were never trained on check them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import wave
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np

from .targets import score_words
from .voice.annotate import FRAME_MS, Utterances
from .voice.clips import Clips
from .voice.sound import RATE
from .voice.symbols import EDGE, PUNCTUATION, SYMBOLS, Lexicon, tokens

NEAR_MS = 150


@dataclass(frozen=True)
class Timed:
    """A word, lower case, with its start and end in ms."""

    text: str
    start: float
    end: float


def aligned_words(text: str, symbols: list[int], durations: list[int], lexicon: Lexicon) -> list[Timed] | None:
    """The words of an aligned clip; None where its symbols are not those of its text."""
    marks = {*PUNCTUATION, EDGE}
    spoken = [(SYMBOLS[symbol], frames) for symbol, frames in zip(symbols, durations, strict=True)]
    at, frame, found = 0, 0, []
    for word in tokens(text):
        if word in PUNCTUATION:
            continue
        phones = lexicon.phones(word)
        while at < len(spoken) and spoken[at][0] in marks:
            frame += spoken[at][1]
            at += 1
        if phones is None or [symbol for symbol, _ in spoken[at : at + len(phones)]] != phones:
            return None
        frames = sum(frames for _, frames in spoken[at : at + len(phones)])
        found.append(Timed(word, frame * FRAME_MS, (frame + frames) * FRAME_MS))
        at, frame = at + len(phones), frame + frames
    return found


def differences(reference: list[Timed], heard: list[Timed]) -> list[tuple[float, float]]:
    """Start and end of each word heard, minus those of the reference, where both have the same words."""
    matcher = SequenceMatcher(None, [word.text for word in reference], [word.text for word in heard], autojunk=False)
    return [
        (heard[block.b + i].start - reference[block.a + i].start, heard[block.b + i].end - reference[block.a + i].end)
        for block in matcher.get_matching_blocks()
        for i in range(block.size)
    ]


def transcribed(auricle: Path, folder: Path, options: list[str]) -> dict[str, list[Timed]]:
    """The words that the engine hears in the sound files of a folder, by name."""
    with tempfile.TemporaryDirectory() as out:
        files = sorted(str(path) for path in folder.glob("*.wav"))
        command = [str(auricle), "transcribe", "--quiet", "--format", "json", "--out", out, *options, *files]
        subprocess.run(command, check=True)
        found = {}
        for path in Path(out).glob("*.json"):
            words = json.loads(path.read_text(encoding="utf-8"))["words"]
            timed = []
            for word in words:
                texts = score_words(word["text"])
                if len(texts) == 1:
                    timed.append(Timed(texts[0], word["start"], word["end"]))
            found[path.stem] = timed
    return found


def describe(name: str, late: np.ndarray) -> str:
    left = np.abs(late - np.median(late))
    return (
        f"{name}: median {np.median(late):+.0f} ms; as it is |median| {np.median(np.abs(late)):.0f} ms, "
        f"{100 * np.mean(np.abs(late) <= NEAR_MS):.1f} % within {NEAR_MS} ms; without the median "
        f"{np.median(left):.0f} ms, {100 * np.mean(left <= NEAR_MS):.1f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="recipes.delay", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--store", type=Path, required=True, help="of recipes.voice prepare")
    parser.add_argument("--annotated", type=Path, required=True, help="of recipes.voice annotate")
    parser.add_argument("--auricle", type=Path, required=True, help="the program")
    parser.add_argument("--model", default="svc-realtime")
    parser.add_argument("--look-ahead", type=int, action="append", help="ms, of a streaming checkpoint; its longest without it")
    parser.add_argument("--voices", default="", help="with commas between; all, without it")
    parser.add_argument("--clips", type=int, default=200, help="clips of each voice at most")
    parser.add_argument("--option", action="append", default=[], help="passed on to the program: --option=--lm --option=off")
    args = parser.parse_args()

    clips, utterances, lexicon = Clips(args.store), Utterances(args.annotated), Lexicon()
    voices = {voice for voice in args.voices.split(",") if voice}
    taken: dict[str, int] = {}
    references: dict[str, list[Timed]] = {}
    with tempfile.TemporaryDirectory() as sounds:
        for utterance in utterances.all:
            clip = clips.all[utterance.clip]
            if voices and clip.speaker not in voices:
                continue
            words = aligned_words(clip.text, utterance.symbols, utterance.durations, lexicon)
            if not words or taken.get(clip.speaker, 0) == args.clips:
                continue
            taken[clip.speaker] = taken.get(clip.speaker, 0) + 1
            references[str(utterance.clip)] = words
            with wave.open(str(Path(sounds) / f"{utterance.clip}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(RATE)
                file.writeframes((clips.sound(clip) * 32768).clip(-32768, 32767).astype("<i2").tobytes())
        print(f"{len(references)} clips: " + ", ".join(f"{voice} {count}" for voice, count in taken.items()))
        for look_ahead in args.look_ahead or [None]:
            options = ["--model", args.model, *args.option]
            options += [] if look_ahead is None else ["--look-ahead", str(look_ahead)]
            heard = transcribed(args.auricle, Path(sounds), options)
            late = np.array([one for name, words in heard.items() for one in differences(references[name], words)])
            if not len(late):
                raise SystemExit("no word was heard as it was said: there is nothing to measure")
            print(f"look-ahead {look_ahead or 'longest'}: {len(late)} words")
            print("  " + describe("starts", late[:, 0]))
            print("  " + describe("ends  ", late[:, 1]))


if __name__ == "__main__":
    main()
