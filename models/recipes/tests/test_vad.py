"""The detector's recipe: labels follow level, scenes depend on seed and step alone, segments keep the published rules."""

import numpy as np
import torch

from recipes.vad import synthetic
from recipes.vad.evaluate import auc, segments
from recipes.vad.labels import PAUSE, SPEECH, UNCERTAIN, label
from recipes.vad.model import CHUNK, Detector
from recipes.vad.scenes import CHUNKS, SAMPLES, Scenes, chunk_targets
from recipes.vad.sounds import Sounds, write

SECOND = 16000


def recording() -> np.ndarray:
    """Loud from 1 s to 2 s and from 2.1 s to 3 s, with a click at 4 s, over faint noise; 5 s."""
    rng = np.random.default_rng(0)
    sound = 1e-3 * rng.standard_normal(5 * SECOND)
    for start, end in ((1.0, 2.0), (2.1, 3.0), (4.0, 4.01)):
        sound[int(start * SECOND) : int(end * SECOND)] += 0.2 * rng.standard_normal(int((end - start) * SECOND + 0.5))
    return sound.astype(np.float32)


def test_labels_follow_level_over_short_gaps_and_bursts():
    labels = label(recording())
    assert (labels[102:298] == SPEECH).all()
    assert (labels[:97] == PAUSE).all() and (labels[310:395] == PAUSE).all()
    assert (labels[390:420] != SPEECH).all()
    assert label(1e-3 * np.random.default_rng(0).standard_normal(5 * SECOND)) is None


def test_a_chunk_is_speech_where_half_of_it_is():
    canvas = np.array([[PAUSE] * 16 + [PAUSE] * 8 + [SPEECH] * 8 + [SPEECH] * 16 + [UNCERTAIN] * 16], dtype=np.uint8)
    target, weight = chunk_targets(canvas)
    np.testing.assert_array_equal(target, [[0, 1, 1, 0]])
    assert weight[0, 0] == weight[0, 2] == 1 and weight[0, 1] < 1 and weight[0, 3] < 1


def test_scenes_are_a_function_of_seed_and_step(tmp_path):
    sound = recording()
    write("somebody-en", [("1-0.opus", sound, label(sound)), ("32-0.opus", sound, label(sound))], tmp_path)
    pauses = np.zeros(len(sound) // 160, dtype=np.uint8)
    write("noise", [(f"rain-{n:02}.opus", sound, pauses) for n in (0, 30)], tmp_path)
    for kind in synthetic.KINDS:
        write(kind, [("0", synthetic.make(kind, 0, 2.0), pauses[:200])], tmp_path)
    scenes = Scenes(Sounds(tmp_path), seed=1)
    one, again, other = scenes.batch(3, 6), scenes.batch(3, 6), scenes.batch(4, 6)
    assert one.sound.shape == (6, SAMPLES) and one.target.shape == one.weight.shape == (6, CHUNKS)
    assert torch.equal(one.sound, again.sound) and not torch.equal(one.sound, other.sound)
    assert one.sound.abs().max() <= 1 and 0 < one.target.mean() < 1
    # reader 32 and the last files of a noise class are never drawn
    assert [s.file for s in scenes._speech] == ["1-0.opus"] and len(scenes._noise["noise"]) == 1


def test_segments_need_length_and_end_after_silence():
    chances = np.array([0.1] * 5 + [0.9] * 10 + [0.2] * 2 + [0.4] * 3 + [0.2] * 5 + [0.6] * 3 + [0.1] * 5)
    assert segments(chances, len(chances) * CHUNK) == [(5 * CHUNK - 480, 15 * CHUNK + 480)]
    assert segments(np.array([0.9] * 10), 10 * CHUNK - 7) == [(0, 10 * CHUNK - 7)]


def test_auc():
    assert auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True])) == 0.75


def test_the_whole_sound_gives_what_chunks_give_in_turn():
    torch.manual_seed(0)
    model = Detector()
    model.initialise()
    sound = 0.1 * torch.randn(2, 20 * CHUNK)
    with torch.no_grad():
        whole = model(sound)
        earlier = model(sound[:, : 7 * CHUNK])
    torch.testing.assert_close(whole[:, :7], earlier)
