"""Augmentation keeps the shape it promises and depends on its generator alone."""

import numpy as np
from transformers import NemotronAsrStreamingFeatureExtractor

from recipes import augment
from recipes.features import LOG_FLOOR, MELS, log_mel


def test_shapes_and_range():
    rng = np.random.default_rng(0)
    mel = rng.normal(-7, 3, (200, MELS)).astype(np.float32)
    out = augment.Augmentation(strength=1.0, masks=True)(mel, store=None, rng=np.random.default_rng(1))
    assert out.shape[1] == MELS
    assert 150 < out.shape[0] < 270
    assert out.dtype == np.float32
    assert np.isfinite(out).all()
    assert augment.mix(mel, mel[:30], 10.0, rng).shape == mel.shape


def test_same_generator_same_sound():
    mel = np.random.default_rng(0).normal(-7, 3, (200, MELS)).astype(np.float32)
    one, two = (augment.Augmentation(1.0)(mel, None, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert one.min() >= LOG_FLOOR


def test_identity_warp_and_rate():
    mel = np.random.default_rng(0).normal(-7, 3, (50, MELS)).astype(np.float32)
    np.testing.assert_allclose(mel @ augment.warp_matrix(1.0), mel, rtol=1e-5)
    np.testing.assert_allclose(augment.resample_time(mel, 1.0), mel, rtol=1e-4, atol=1e-4)


def test_a_band_limit_takes_from_the_ends_alone():
    for seed in range(50):
        curve = augment.band_limit(np.random.default_rng(seed))
        first, last = round(augment.mel_bin(400)) + 1, round(augment.mel_bin(2800)) - 1
        assert (curve <= 0).all() and (curve[first:last] == 0).all()
        assert curve[-1] < 0


def test_features_are_the_extractors():
    sound = 0.1 * np.random.default_rng(0).standard_normal(12345).astype(np.float32)
    found = NemotronAsrStreamingFeatureExtractor()(sound, sampling_rate=16000, return_tensors="pt")
    wanted = found["input_features"][0, : int(found["attention_mask"][0].sum())].numpy()
    np.testing.assert_allclose(log_mel(sound), wanted, atol=1e-5)


def test_the_mel_scale_is_the_extractors():
    filters = np.asarray(NemotronAsrStreamingFeatureExtractor().mel_filters)  # [mels, bins]
    for hertz in (300.0, 1000.0, 3000.0, 7000.0):
        nearest = int(filters[:, round(hertz / 8000 * (filters.shape[1] - 1))].argmax())
        assert abs(augment.mel_bin(hertz) - nearest) <= 1
