"""Training data of the acoustic model: mels, symbols with durations, pitch and energy of each symbol.

Written to a folder as `mels.f16` (`[frames, 80]`, clips end to end), `utterances.jsonl` and `voices.json`, which says how each
voice's pitch and energy are scaled.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from ..features import log_mel
from ..phones import PHONES as HEARD_PHONES
from ..words import Aligner, lateness
from .align import first_labels, realign, states, symbols_and_durations, train_classifier, words_as_phones
from .clips import Clip, Clips
from .pitch import continuous, pitch
from .sound import HOP, MELS, RATE, LogMel
from .symbols import ID, PUNCTUATION, Lexicon

FRAME_MS = 1000 * HOP / RATE
OCTAVES = 0.3  # one unit of pitch
_HEARD = {phone.upper(): number for number, phone in enumerate(HEARD_PHONES, start=1)}


@dataclass(frozen=True)
class Utterance:
    """One clip's `symbols` (ids), and of each its `durations` (frames), `pitch` and `energy` (units of the voice)."""

    clip: int
    voice: str
    first: int
    frames: int
    symbols: list[int]
    durations: list[int]
    pitch: list[float]
    energy: list[float]


class Utterances:
    """Read access to the output of `annotate`."""

    def __init__(self, folder: Path):
        self._mels = np.memmap(folder / "mels.f16", dtype=np.float16, mode="r").reshape(-1, MELS)
        lines = (folder / "utterances.jsonl").read_text(encoding="utf-8").splitlines()
        self.all = [Utterance(**json.loads(line)) for line in lines]
        self.voices: dict[str, dict[str, float]] = json.loads((folder / "voices.json").read_text(encoding="utf-8"))

    def mel(self, utterance: Utterance) -> np.ndarray:
        """`[frames, mels]`, f32."""
        return np.array(self._mels[utterance.first : utterance.first + utterance.frames], dtype=np.float32)


def middles_of_phones(clips: Clips, chosen: list[Clip], words: list[list[list[str]]], model: Path) -> list[np.ndarray | None]:
    """The frames, on the grid of the voice's mels, at which the recogniser detects each phone."""
    aligner, heard = Aligner(model), []
    for number, (clip, said) in enumerate(zip(chosen, words, strict=True)):
        mel = log_mel(clips.sound(clip))
        phones = [_HEARD[phone.rstrip("012")] for word in said if word[0] not in PUNCTUATION for phone in word]
        heard.append((mel, phones, aligner(mel, phones)))
        if number % 200 == 199:
            print(f"heard {number + 1} of {len(chosen)} clips", flush=True)
    sample = [one for one in heard if one[2] is not None][:200]
    if not sample:
        return [None] * len(chosen)
    late = lateness(*(list(column) for column in zip(*sample, strict=True)))
    print(f"phones are labelled {late * 10} ms late", flush=True)
    return [None if begins is None else np.maximum(begins - late, 0) * 10 / FRAME_MS for _, _, begins in heard]


def by_symbol(values: np.ndarray, durations: list[int]) -> np.ndarray:
    """Means of frames' values over each symbol; 0 where it takes none."""
    ends = np.cumsum(durations)
    totals = np.concatenate([[0.0], np.cumsum(values)])
    counts = np.maximum(durations, 1)
    return np.where(np.array(durations) > 0, (totals[ends] - totals[ends - np.array(durations)]) / counts, 0.0)


def annotate(store: Path, voices: list[str], recogniser: Path, lexicon: Lexicon, out: Path, rounds: int, steps: int) -> None:
    clips, mel_of = Clips(store), LogMel()
    chosen, words, numbers = [], [], []
    for number, clip in enumerate(clips.all):
        said = words_as_phones(clip.text, lexicon) if clip.speaker in voices else None
        if said is not None:
            chosen.append(clip)
            words.append(said)
            numbers.append(number)
    print(f"{len(chosen)} clips, {sum(clip.seconds for clip in chosen) / 3600:.2f} h", flush=True)
    mels = [mel_of(torch.from_numpy(clips.sound(clip))[None])[0].T.numpy() for clip in chosen]
    middles = middles_of_phones(clips, chosen, words, recogniser)
    used = [i for i, middle in enumerate(middles) if middle is not None and (np.diff(middle) >= 0).all()]
    labels = [first_labels(mels[i].mean(1), middles[i], words[i]) for i in used]
    classifier, paths = None, []
    for turn in range(rounds):
        classifier = train_classifier([mels[i] for i in used], labels, steps, classifier)
        everything = np.concatenate(labels)
        share = np.bincount(everything, minlength=classifier.out.out_channels) / len(everything)
        paths = realign(classifier, mels, words, share)
        used = [i for i, path in enumerate(paths) if path is not None]
        labels = [states(words[i])[0][paths[i]] for i in used]
        print(f"round {turn + 1}: {len(used)} clips aligned", flush=True)
    speakers = sorted({clip.speaker for clip in chosen})
    medians = {speaker: median_pitch(clips, [clip for clip in chosen if clip.speaker == speaker]) for speaker in speakers}
    found = [
        measured(clips, numbers[i], mels[i], symbols_and_durations(words[i], path), medians[chosen[i].speaker])
        for i, path in enumerate(paths) if path is not None
    ]  # fmt: skip
    write([one for one in found if one is not None], out)


@dataclass(frozen=True)
class Measured:
    """A clip before its voice is known: octaves above 1 Hz and mean log-mels of each symbol."""

    clip: int
    voice: str
    mel: np.ndarray
    symbols: list[str]
    durations: list[int]
    pitch: np.ndarray
    energy: np.ndarray

    @property
    def heard(self) -> np.ndarray:
        """Which symbols take any time."""
        return np.array(self.durations) > 0


def median_pitch(clips: Clips, of_voice: list[Clip]) -> float | None:
    """The median of a voice's pitch over some of its clips, Hz."""
    curves = np.concatenate([pitch(clips.sound(clip)) for clip in of_voice[:: max(1, len(of_voice) // 20)]])
    return float(np.median(curves[curves > 0])) if curves.any() else None


def measured(
    clips: Clips, number: int, mel: np.ndarray, aligned: tuple[list[str], list[int]], median_hz: float | None
) -> Measured | None:
    """None where nothing in the clip has a voice."""
    clip, (symbols, durations) = clips.all[number], aligned
    curve = continuous(pitch(clips.sound(clip), median_hz))
    if curve is None:
        return None
    return Measured(number, clip.speaker, mel, symbols, durations, by_symbol(curve, durations), by_symbol(mel.mean(1), durations))


def scale(mine: list[Measured]) -> dict[str, float]:
    """A voice's middle pitch (octaves above 1 Hz), mean energy and its deviation, and how much of it there is."""
    energies = np.concatenate([one.energy[one.heard] for one in mine])
    return {
        "pitch": float(np.median(np.concatenate([one.pitch[one.heard] for one in mine]))),
        "energy": float(energies.mean()), "spread": float(energies.std()),
        "seconds": round(sum(len(one.mel) for one in mine) * FRAME_MS / 1000, 1),
    }  # fmt: skip


def write(found: list[Measured], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    voices = {voice: scale([one for one in found if one.voice == voice]) for voice in sorted({one.voice for one in found})}
    first = 0
    with (out / "mels.f16").open("wb") as mels, (out / "utterances.jsonl").open("w", encoding="utf-8") as lines:
        for one in found:
            mels.write(one.mel.astype(np.float16).tobytes())
            of_voice = voices[one.voice]
            pitches = np.where(one.heard, (one.pitch - of_voice["pitch"]) / OCTAVES, 0).clip(-4, 4)
            energies = np.where(one.heard, (one.energy - of_voice["energy"]) / of_voice["spread"], 0)
            utterance = Utterance(one.clip, one.voice, first, len(one.mel), [ID[symbol] for symbol in one.symbols], one.durations,
                                  pitches.round(3).tolist(), energies.round(3).tolist())  # fmt: skip
            lines.write(json.dumps(asdict(utterance)) + "\n")
            first += len(one.mel)
    (out / "voices.json").write_text(json.dumps(voices, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found)} utterances of {len(voices)} voices", flush=True)
