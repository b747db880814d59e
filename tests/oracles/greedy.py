"""Greedy decoding as the README states it, written without the library's generation loop, to hold the two together."""

import torch


def gap(logits: torch.Tensor) -> float:
    """Margin of the best logit over the second."""
    best = logits.topk(2).values
    return float(best[0] - best[1])


def ctc_path(logits: torch.Tensor) -> tuple[list[int], float]:
    return logits.argmax(-1).tolist(), min(gap(row) for row in logits)


def transducer_path(model, frames: torch.Tensor) -> tuple[list[tuple], float]:
    """`(token, frame, duration)` of each token, and the smallest gap between best and second on the way."""
    config = model.config
    durations = getattr(config, "durations", None)
    blank, limit = config.blank_token_id, config.max_symbols_per_step

    def predict(token, state):
        embedded = model.decoder.embedding(torch.tensor([[token]]))
        hidden, state = model.decoder.lstm(embedded, state)
        return model.decoder.decoder_projector(hidden)[0, 0], state

    predicted, state = predict(blank, None)
    frame, symbols, emitted, margin = 0, 0, [], float("inf")
    while frame < len(frames):
        logits = model.joint.head(model.joint.activation(frames[frame] + predicted))
        tokens = logits[: config.vocab_size]
        token = int(tokens.argmax())
        margin = min(margin, gap(tokens))
        if durations:
            steps = logits[config.vocab_size :]
            margin = min(margin, gap(steps))
            step = durations[int(steps.argmax())]
            if token == blank:
                step = max(step, 1)
        elif token == blank:
            step, symbols = 1, 0
        else:
            symbols += 1
            step = 1 if symbols == limit else 0
            symbols = 0 if step else symbols
        if token != blank:
            emitted.append((token, frame, step))
            predicted, state = predict(token, state)
        frame += step
        assert len(emitted) <= 1000, "does not end"
    return emitted, margin
