"""The recogniser in training: the published model's parameters, a faster forward pass, and two CTC heads.

The parameters live in `NemotronAsrStreamingForRNNT`, so an export is a copy. The encoder's forward pass is written
again here because the published one spends much of a CPU's time on work that training does not need: positions
projected once an utterance rather than once a batch, transposes around the convolutions, channels-first subsampling.
`tests/test_model.py` holds both to the same numbers.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F
from transformers import NemotronAsrStreamingConfig, NemotronAsrStreamingEncoderConfig, NemotronAsrStreamingForRNNT

from .convolutions import depthwise_causal, depthwise_halving, stem
from .joint import transducer_moves

LOOKAHEADS = (0, 1, 3, 6, 13)


def build_config(
    vocab_size: int, hidden: int = 256, layers: int = 6, channels: int = 64, feedforward: int | None = None
) -> NemotronAsrStreamingConfig:
    """The starter's shape, with feed-forward layers of four times `hidden`; blank is the last id, padding the first."""
    encoder = NemotronAsrStreamingEncoderConfig(
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=feedforward or 4 * hidden,
        subsampling_conv_channels=channels,
        dropout=0.0,
        layerdrop=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
    )
    return NemotronAsrStreamingConfig(
        vocab_size=vocab_size,
        decoder_hidden_size=hidden,
        num_decoder_layers=1,
        blank_token_id=vocab_size - 1,
        pad_token_id=0,
        encoder_config=encoder,
    )


def attention_allowed(frames: int, lookahead: int, window: int, device: torch.device) -> torch.Tensor:
    """`[frames, frames]`, true where a query (row) may see a key: its own chunk and the chunks of its left context."""
    chunk = torch.arange(frames, device=device) // (lookahead + 1)
    behind = chunk[:, None] - chunk[None, :]
    return (behind >= 0) & (behind <= (window - 1) // (lookahead + 1))


class Recogniser(nn.Module):
    """`NemotronAsrStreamingForRNNT` with a CTC head on the last layer and a phone CTC head on layer `PHONE_LAYER`.

    The first convolution is kept in the normalised domain while training: `mel_mean` and `mel_std` are folded into it
    by `published_state`, so that the exported model takes raw log-mels.
    """

    PHONE_LAYER = 4
    PHONE_RATE = 2  # phone decisions a frame: phones outnumber 80 ms frames in fast speech

    def __init__(self, config: NemotronAsrStreamingConfig, phones: int, mel_mean: float = 0.0, mel_std: float = 1.0):
        super().__init__()
        self.asr = NemotronAsrStreamingForRNNT(config)
        hidden = config.encoder_config.hidden_size
        self.ctc = nn.Linear(hidden, config.vocab_size)
        self.phones = nn.Linear(hidden, self.PHONE_RATE * (phones + 1))
        self.register_buffer("mel_mean", torch.tensor(mel_mean))
        self.register_buffer("mel_std", torch.tensor(mel_std))
        self.dropout = 0.0
        self._initialise()

    def _initialise(self) -> None:
        # The class's own initialisation (deviation 0.02) is meant for widths of 1024: too quiet a start for 256.
        for module in self.asr.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
            elif isinstance(module, (nn.Conv1d, nn.Conv2d)):
                nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=0.1)
            if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d)) and module.bias is not None:
                nn.init.zeros_(module.bias)

    # -- encoder ------------------------------------------------------------------------------------------------

    def encode(
        self, mel: torch.Tensor, lengths: torch.Tensor, lookahead: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Raw log-mels `[batch, frames, mels]`, zero past each length, to encoder states.

        Returns `[batch, frames / 8, hidden]` of the last layer, of `PHONE_LAYER`, and the lengths.
        """
        encoder = self.asr.encoder
        hidden, lengths = self._subsample(mel, lengths)
        if encoder.config.scale_input:
            hidden = hidden * math.sqrt(encoder.config.hidden_size)
        frames = hidden.shape[1]
        valid = torch.arange(frames, device=hidden.device)[None, :] < lengths[:, None]
        allowed = attention_allowed(frames, lookahead, encoder.config.sliding_window, hidden.device)
        blocked = ~(allowed[None] & valid[:, None, :])[:, None]
        # a padding row that sees nothing would be all minus infinity; what it computes is never used
        blocked = blocked & ~torch.eye(frames, dtype=torch.bool, device=hidden.device)
        positions = encoder.encode_positions(hidden[:1].float())[0].to(hidden.dtype)
        middle = hidden
        for number, block in enumerate(encoder.layers, start=1):
            hidden = self._block(block, hidden, positions, blocked, valid)
            if number == min(self.PHONE_LAYER, len(encoder.layers)):
                middle = hidden
        return hidden, middle, lengths

    def _subsample(self, mel: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        subsampling = self.asr.encoder.subsampling
        # padding is zero in the raw domain, so it is not zero here
        x = (mel - self.mel_mean) / self.mel_std
        x = F.pad(x, (2, 1, 2, 1), value=float(-self.mel_mean / self.mel_std))
        x, lengths = self._masked(stem(x, subsampling.conv_in.weight, subsampling.conv_in.bias), lengths)
        x = F.relu(x)
        for layer in subsampling.layers:
            x = depthwise_halving(x, layer.depthwise_conv.weight, layer.depthwise_conv.bias)
            x = F.linear(x, layer.pointwise_conv.weight[:, :, 0, 0], layer.pointwise_conv.bias)
            x, lengths = self._masked(x, lengths)
            x = F.relu(x)
        batch, frames, bands, channels = x.shape
        # the published layer flattens [channels, bands]
        weight = subsampling.linear.weight.view(-1, channels, bands).transpose(1, 2).reshape(-1, channels * bands)
        return F.linear(x.reshape(batch, frames, bands * channels), weight, subsampling.linear.bias), lengths

    @staticmethod
    def _masked(x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Zeroes `[batch, frames, bands, channels]` past the halved lengths."""
        lengths = lengths // 2 + 1
        inside = torch.arange(x.shape[1], device=x.device)[None, :] < lengths[:, None]
        return x * inside[:, :, None, None].to(x.dtype), lengths

    def _dropped(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, self.dropout, self.training) if self.dropout else x

    def _block(self, block, x, positions, blocked, valid):
        x = x + 0.5 * self._dropped(block.feed_forward1(block.norm_feed_forward1(x)))
        x = x + self._dropped(self._attention(block.self_attn, block.norm_self_att(x), positions, blocked))
        x = x + self._dropped(self._convolution(block.conv, block.norm_conv(x), valid))
        x = x + 0.5 * self._dropped(block.feed_forward2(block.norm_feed_forward2(x)))
        return block.norm_out(x)

    @staticmethod
    def _attention(attention, x, positions, blocked):
        batch, frames, _ = x.shape
        heads, width = attention.bias_u.shape
        split = (batch, frames, heads, width)
        query = attention.q_proj(x).view(split)
        key = attention.k_proj(x).view(split).permute(0, 2, 3, 1)
        value = attention.v_proj(x).view(split).transpose(1, 2)
        relative = attention.relative_k_proj(positions).view(-1, heads, width).permute(1, 2, 0)
        by_content = (query + attention.bias_u.to(query.dtype)).transpose(1, 2) @ key
        by_position = (query + attention.bias_v.to(query.dtype)).transpose(1, 2) @ relative
        span = by_position.shape[-1]
        shifted = F.pad(by_position, (1, 0)).view(batch, heads, span + 1, frames)[:, :, 1:]
        by_position = shifted.view(batch, heads, frames, span)[..., :frames]
        scores = ((by_content + by_position) * attention.scaling).masked_fill(blocked, float("-inf"))
        mixed = scores.softmax(-1).to(value.dtype) @ value
        return attention.o_proj(mixed.transpose(1, 2).reshape(batch, frames, heads * width))

    @staticmethod
    def _convolution(conv, x, valid):
        x = F.linear(x, conv.pointwise_conv1.weight[:, :, 0], conv.pointwise_conv1.bias)
        x = F.glu(x, dim=-1).masked_fill(~valid[..., None], 0.0)
        x = depthwise_causal(x, conv.depthwise_conv.weight, conv.depthwise_conv.bias)
        x = F.silu(conv.norm(x))
        return F.linear(x, conv.pointwise_conv2.weight[:, :, 0], conv.pointwise_conv2.bias)

    # -- heads --------------------------------------------------------------------------------------------------

    def ctc_log_probs(self, hidden: torch.Tensor) -> torch.Tensor:
        """`[frames, batch, vocab]`; blank is the model's own blank."""
        return self.ctc(hidden).float().log_softmax(-1).transpose(0, 1)

    def phone_log_probs(self, middle: torch.Tensor) -> torch.Tensor:
        """`[PHONE_RATE * frames, batch, phones + 1]`; blank is 0."""
        batch, frames, _ = middle.shape
        scores = self.phones(middle).view(batch, self.PHONE_RATE * frames, -1)
        return scores.float().log_softmax(-1).transpose(0, 1)

    def transducer_moves(
        self, hidden: torch.Tensor, labels: torch.Tensor, inside: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Encoder states `[batch, frames, hidden]` and `[batch, labels]` to the log-probabilities of blank and of the next
        label in each cell that is `inside`, `[batch, frames, labels + 1]` (`alignment`)."""
        blank = self.asr.config.blank_token_id
        start = labels.new_full((len(labels), 1), blank)
        predicted = self.asr.decoder(torch.cat([start, labels], dim=1))
        heard = self.asr.encoder_projector(hidden)
        return transducer_moves(heard, predicted, self.asr.joint.head, labels, inside, blank)

    @torch.no_grad()
    def encoder_mean(self, hidden: torch.Tensor, by_token: torch.Tensor, frames: torch.Tensor) -> torch.Tensor:
        """The mean of the encoder's part of the joint, `[hidden]`, over the frames in which `ctc_log_probs` has a token."""
        valid = torch.arange(hidden.shape[1], device=hidden.device)[None] < frames[:, None]
        told = valid & (by_token.argmax(-1).t() != self.asr.config.blank_token_id)
        return self.asr.encoder_projector(hidden)[told if told.any() else valid].mean(0)

    def text_log_probs(self, text: torch.Tensor, heard: torch.Tensor) -> torch.Tensor:
        """How likely the transducer finds each token of `text` `[lines, tokens]` after those before it: no sound, no blank.

        `[lines, tokens, vocab]`. `heard` `[hidden]` stands for the encoder (`encoder_mean`): with nothing in its place the
        joint's ReLU is nowhere near where it works. After internal language model training (Meng et al. 2021, arXiv 2102.01380).
        """
        blank = self.asr.config.blank_token_id
        before = torch.cat([text.new_full((len(text), 1), blank), text[:, :-1]], dim=1)
        scores = self.asr.joint.head(F.relu(heard + self.asr.decoder(before))).float()
        return scores.index_fill(-1, torch.tensor([blank], device=text.device), float("-inf")).log_softmax(-1)

    @torch.no_grad()
    def move_encoder_mean(self, heard: torch.Tensor) -> None:
        """Moves `heard` `[hidden]` from the encoder's side of the joint to the predictor's.

        The output with the encoder does not change. Without the encoder the joint then gives the internal language model, whose
        score a search with an external language model subtracts.
        """
        self.asr.encoder_projector.bias -= heard
        self.asr.decoder.decoder_projector.bias += heard

    @torch.no_grad()
    def start_transducer_from_ctc(self, offset: float = 3.0) -> None:
        """Makes the joint say what the CTC head says, so that the transducer starts from an encoder it can read.

        Encoder states, lifted by `offset`, pass the joint's ReLU nearly unchanged, and its head is the CTC head.
        The prediction network starts quiet: it has only to learn what the encoder cannot know.
        """
        joint, projector = self.asr.joint.head, self.asr.encoder_projector
        if projector.weight.shape[0] != projector.weight.shape[1]:
            return
        nn.init.eye_(projector.weight)
        nn.init.constant_(projector.bias, offset)
        joint.weight.copy_(self.ctc.weight)
        joint.bias.copy_(self.ctc.bias - offset * self.ctc.weight.sum(1))
        self.asr.decoder.decoder_projector.weight.mul_(0.3)

    # -- exchange with the published form -----------------------------------------------------------------------

    def published_state(self) -> dict[str, torch.Tensor]:
        """The published model's parameters, the mel normalisation folded into the first convolution."""
        state = {name: value.detach().clone() for name, value in self.asr.state_dict().items()}
        weight, bias = "encoder.subsampling.conv_in.weight", "encoder.subsampling.conv_in.bias"
        state[bias] = state[bias] - state[weight].sum((1, 2, 3)) * self.mel_mean / self.mel_std
        state[weight] = state[weight] / self.mel_std
        return state

    def load_published_state(self, state: dict[str, torch.Tensor]) -> None:
        """The inverse of `published_state`, with this module's normalisation."""
        state = dict(state)
        weight, bias = "encoder.subsampling.conv_in.weight", "encoder.subsampling.conv_in.bias"
        state[weight] = state[weight] * self.mel_std
        state[bias] = state[bias] + state[weight].sum((1, 2, 3)) * self.mel_mean / self.mel_std
        self.asr.load_state_dict(state)

