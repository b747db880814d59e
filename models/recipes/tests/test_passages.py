"""Books teach the prediction network what comes next, and nothing else."""

import random

import pytest
import torch

from recipes.model import Recogniser, build_config
from recipes.passages import SHORTEST, Passages
from recipes.targets import score_words
from recipes.text_pool import ngrams, passages


class Letters:
    """As a tokenizer: a token a letter, from 1 on."""

    def encode_batch(self, lines: list[str]):
        return [type("Encoding", (), {"ids": [ord(letter) - ord("a") + 1 for letter in line]}) for line in lines]


def test_a_batch_holds_whole_lines_and_keeps_to_its_budget():
    lines = ["ab" * length for length in range(1, 60)]
    text = Passages(Letters(), lines, seed=3)
    drawn = set()
    for number in range(40):
        tokens, counts = text.batch(7, number, 200)
        assert tokens.numel() <= 200 or len(tokens) == 1
        for row, count in zip(tokens, counts.tolist(), strict=True):
            assert row[:count].tolist() == [1, 2] * (count // 2) and not row[count:].any()
        drawn.add(tuple(counts.tolist()))
    assert len(drawn) > 30
    again, _ = Passages(Letters(), lines, seed=3).batch(7, 5, 200)
    assert torch.equal(again, text.batch(7, 5, 200)[0])
    with pytest.raises(SystemExit, match="tokens"):
        Passages(Letters(), ["a" * (SHORTEST - 1)], seed=3)


def test_text_is_told_by_the_joint_at_its_average_and_teaches_the_encoder_nothing():
    torch.manual_seed(2)
    config = build_config(vocab_size=40, hidden=64, layers=1, channels=8)
    model = Recogniser(config, phones=10)
    mel, lengths = torch.randn(2, 200, 80), torch.tensor([200, 120])
    hidden, _, frames = model.encode(mel, lengths, 3)
    by_token = torch.full((hidden.shape[1], 2, 40), -9.0)
    by_token[..., 39] = 0.0  # blank everywhere but at two frames, one of which is padding
    by_token[4, 0, 39] = by_token[-1, 1, 39] = -20.0
    text = torch.tensor([[3, 5, 8], [9, 2, 0]])
    found = model.text_log_probs(text, model.encoder_mean(hidden, by_token, frames))
    assert found.shape == (2, 3, 40) and (found[..., 39] == float("-inf")).all()
    torch.testing.assert_close(found[..., :39].exp().sum(-1), torch.ones(2, 3))

    asr = model.asr
    heard = asr.encoder_projector(hidden[0, 4])
    scores = asr.joint(asr.decoder(torch.tensor([[39, 9]])), heard)
    torch.testing.assert_close(found[1, 1, :39], scores[0, 1, :39].log_softmax(-1), rtol=1e-4, atol=1e-5)

    found.gather(-1, text[..., None]).sum().backward()
    moved = {name.split(".")[1] for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert moved == {"decoder", "joint"}


def test_ilm_calibration_keeps_the_output_and_makes_the_internal_model_right():
    torch.manual_seed(4)
    model = Recogniser(build_config(vocab_size=40, hidden=64, layers=1, channels=8), phones=10)
    asr, tokens, state = model.asr, torch.tensor([[39, 9, 4]]), torch.randn(1, 1, 64)
    heard = torch.randn(64)
    with torch.no_grad():
        scores, expected = asr.joint(asr.decoder(tokens), asr.encoder_projector(state)), model.text_log_probs(tokens, heard)
        model.move_encoder_mean(heard)
        torch.testing.assert_close(asr.joint(asr.decoder(tokens), asr.encoder_projector(state)), scores)
        torch.testing.assert_close(model.text_log_probs(tokens, torch.zeros(64)), expected)


def test_passages_are_of_sentences_that_follow_one_another():
    book = [
        "It rained all day. Nobody came to see us. He left in 1851. We went to bed. The evaluation said this very thing, alas.",
        "It was cold. " * 40,
    ]
    banned = ngrams(score_words("the evaluation said this very thing"))
    found = passages(book, banned, random.Random(1))
    assert all("1851" not in passage and "evaluation" not in passage for passage in found)
    assert "We went to bed." in found
    assert found[0].startswith("It rained all day.") and not any("us. We" in passage for passage in found)
    cold = [passage.split() for passage in found if passage.startswith("It was cold.")]
    assert sum(map(len, cold)) == 120 and all(8 <= len(words) <= 48 for words in cold[:-1])
    assert len({len(words) for words in cold}) > 1
