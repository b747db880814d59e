"""The training forward pass gives what the published class gives."""

import pytest
import torch
from transformers import NemotronAsrStreamingForRNNT

from recipes.model import Recogniser, build_config
from recipes.widen import widened


@pytest.mark.parametrize("lookahead", [0, 3, 13])
def test_encoder_matches_published_class(lookahead):
    torch.manual_seed(0)
    config = build_config(vocab_size=40, hidden=128, layers=2, channels=16)
    recogniser = Recogniser(config, phones=10, mel_mean=-7.0, mel_std=3.5).eval()
    for parameter in recogniser.parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, std=0.2)
    published = NemotronAsrStreamingForRNNT(config).eval()
    published.load_state_dict(recogniser.published_state())

    lengths = torch.tensor([403, 250])
    mask = torch.arange(403)[None] < lengths[:, None]
    mel = (torch.randn(2, 403, 80) * 3 - 7) * mask[..., None]
    with torch.no_grad():
        ours, _, frames = recogniser.encode(mel, lengths, lookahead)
        theirs = published.encoder(mel, attention_mask=mask, num_lookahead_tokens=lookahead)
    assert frames.tolist() == theirs.attention_mask.sum(-1).tolist()
    for row, count in enumerate(frames.tolist()):
        torch.testing.assert_close(ours[row, :count], theirs.last_hidden_state[row, :count], rtol=1e-4, atol=2e-4)


def test_published_state_round_trip():
    config = build_config(vocab_size=40, hidden=64, layers=1, channels=8)
    one = Recogniser(config, phones=10, mel_mean=-7.0, mel_std=3.5)
    two = Recogniser(config, phones=10, mel_mean=-7.0, mel_std=3.5)
    two.load_published_state(one.published_state())
    for name, value in one.asr.state_dict().items():
        torch.testing.assert_close(two.asr.state_dict()[name], value)


def test_a_widened_recogniser_says_the_same_and_learns_with_what_was_added():
    torch.manual_seed(5)
    narrow = Recogniser(build_config(vocab_size=40, hidden=64, layers=2, channels=8), phones=10).eval()
    wide = Recogniser(build_config(vocab_size=40, hidden=64, layers=2, channels=8, feedforward=300), phones=10).eval()
    wide.load_state_dict(widened(narrow.state_dict(), 300))
    mel, lengths = torch.randn(1, 160, 80), torch.tensor([160])
    hidden = wide.encode(mel, lengths, 3)[0]
    torch.testing.assert_close(hidden, narrow.encode(mel, lengths, 3)[0])
    hidden.square().sum().backward()
    layers = [layer for block in wide.asr.encoder.layers for layer in (block.feed_forward1, block.feed_forward2)]
    assert len(layers) == 4 and all(layer.linear2.weight.grad[:, 256:].abs().max() > 0 for layer in layers)
    with pytest.raises(SystemExit, match="already"):
        widened(narrow.state_dict(), 256)
