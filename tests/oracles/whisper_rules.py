"""Windows, prefixes and beams of Whisper as the README states them, written without the library, to hold the two together."""

import torch


def segments_of(window: dict, frames: int, first: int) -> tuple[list[dict], int]:
    """The segments that a window's tokens make, and how many mel frames on the next window starts. `frames` are those of the
    audio in this window, `first` is the first timestamp's id."""
    tokens, offset = window["tokens"], window["seek"] * 0.01
    stamps = [token >= first for token in tokens]
    pairs = [i + 1 for i in range(len(tokens) - 1) if stamps[i] and stamps[i + 1]]
    if not pairs:
        said = [token for token in tokens if token >= first]
        place = said[-1] - first if said and said[-1] != first else int(frames * 0.01 / 0.02)
        return [{"start": offset, "end": offset + 0.02 * place, "tokens": tokens}], frames
    single = stamps[-2:] == [False, True]
    cuts = [*pairs, len(tokens)] if single else [*pairs[:-1], pairs[-1] + 1]
    found, begin = [], 0
    for cut in cuts:
        piece = tokens[begin:cut]
        last = piece[-2] if cut == cuts[-1] and not single else piece[-1]
        found.append({"start": offset + 0.02 * (piece[0] - first), "end": offset + 0.02 * (last - first), "tokens": piece})
        begin = cut
    return found, frames if single else 2 * (tokens[cuts[-1] - 2] - first)


def check_windows(windows: list[dict], segments: list[dict], frames: int, first: int, start: list[int], previous: int | None,
                  prompt: list[int] | None, everywhere: bool, cut: int = 223) -> None:  # fmt: skip
    """Segments, seeks and prefixes of a run follow from its windows' tokens. `start` are the init tokens; `previous` is
    `<|startofprev|>` if text goes on into the next window, otherwise nothing; `everywhere`: the prompt is in each prefix."""
    made, seek = [], 0
    for window in windows:
        assert window["seek"] == seek
        text = [] if everywhere or prompt is None else [prompt[1:]]
        text += [s["tokens"][:-1] if len(s["tokens"]) > 2 and s["tokens"][-2] >= first else s["tokens"] for s in made]
        said = [token for piece in text for token in piece]
        if previous is not None and text:
            assert window["prefix"] == (prompt if everywhere else [previous]) + said[-cut:] + start
        else:
            assert window["prefix"] == (prompt or []) + start
        found, step = segments_of(window, min(frames - seek, 3000), first)
        made += found
        seek += step
    assert seek >= frames and len(made) == len(segments)
    for ours, theirs in zip(made, segments):
        assert ours["tokens"] == theirs["tokens"]
        assert abs(ours["start"] - theirs["start"]) + abs(ours["end"] - theirs["end"]) < 1e-6


def beam_search(scores_after, prefix: list[int], end: int, beams: int, longest: int, penalty: float, early: bool) -> tuple:
    """Tokens (no end token) and score. `scores_after(rows)` gives each row's log-probabilities after the processors."""
    running, finished, stop = [(0.0, prefix)], [], False
    while not stop:
        candidates = []
        for (total, row), scores in zip(running, scores_after([row for _, row in running])):
            best = scores.topk(2 * beams)
            candidates += [(total + float(value), [*row, int(token)]) for value, token in zip(best.values, best.indices)]
        candidates = sorted(candidates, key=lambda candidate: -candidate[0])[: 2 * beams]
        length = len(candidates[0][1]) - len(prefix)
        done = [row[-1] == end or len(row) >= longest for _, row in candidates]
        if not (early and len(finished) == beams):
            ended = [(total / length**penalty, row) for (total, row), over in zip(candidates[:beams], done) if over]
            finished = sorted(finished + ended, key=lambda hypothesis: -hypothesis[0])[:beams]
        running = [candidate for candidate, over in zip(candidates, done) if not over][:beams]
        hopeless = len(finished) == beams and (not running or running[0][0] / length**penalty <= finished[-1][0])
        stop = hopeless or all(done) or (early and len(finished) == beams)
    score, row = finished[0]
    return [token for token in row[len(prefix) :] if token != end], score


def beam_scores(model, window: dict, processors: list):
    """The scores for `beam_search`, from whole passes without a cache."""
    encoded = model.model.encoder(window["input"]).last_hidden_state

    def scores_after(rows: list[list[int]]) -> torch.Tensor:
        rows = torch.tensor(rows)
        logits = model(encoder_outputs=(encoded.expand(len(rows), -1, -1),), decoder_input_ids=rows).logits[:, -1]
        scores = logits.log_softmax(-1)
        for processor in processors:
            scores = processor(rows, scores)
        return scores

    return scores_after
