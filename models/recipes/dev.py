"""Error rates on held-out speakers during training, with the CTC head and, once it is trained, the transducer."""

from __future__ import annotations

from pathlib import Path

import torch

from .model import Recogniser
from .scoring import ErrorRates

MAX_SYMBOLS = 10


@torch.no_grad()
def greedy_ctc(model: Recogniser, hidden: torch.Tensor, frames: torch.Tensor) -> list[list[int]]:
    """Best label a frame, repeats merged, blanks dropped."""
    best = model.ctc(hidden).argmax(-1)
    blank = model.asr.config.blank_token_id
    rows = []
    for row, count in zip(best.tolist(), frames.tolist(), strict=True):
        row = row[:count]
        rows.append([b for a, b in zip([blank, *row], row) if b != a and b != blank])
    return rows


@torch.no_grad()
def greedy_transducer(model: Recogniser, hidden: torch.Tensor, frames: torch.Tensor) -> list[list[int]]:
    """Greedy decoding of all utterances at once: each advances its own frame pointer."""
    asr, blank = model.asr, model.asr.config.blank_token_id
    heard = asr.encoder_projector(hidden)
    batch = len(hidden)
    rows: list[list[int]] = [[] for _ in range(batch)]
    token = torch.full((batch, 1), blank, device=hidden.device)
    output, state = asr.decoder.lstm(asr.decoder.embedding(token))
    predicted = asr.decoder.decoder_projector(output)[:, 0]
    at = torch.zeros(batch, dtype=torch.long, device=hidden.device)
    emitted = torch.zeros_like(at)
    while bool((at < frames).any()):
        now = heard[torch.arange(batch), at.clamp(max=heard.shape[1] - 1)]
        best = asr.joint(decoder_hidden_states=predicted, encoder_hidden_states=now).argmax(-1)
        best = torch.where(at < frames, best, blank)
        speaks = best != blank
        for row in speaks.nonzero()[:, 0].tolist():
            rows[row].append(int(best[row]))
        if bool(speaks.any()):
            output, moved = asr.decoder.lstm(asr.decoder.embedding(best[:, None]), state)
            keep = speaks[None, :, None]
            state = tuple(torch.where(keep, new, old) for new, old in zip(moved, state, strict=True))
            predicted = torch.where(speaks[:, None], asr.decoder.decoder_projector(output)[:, 0], predicted)
        emitted = torch.where(speaks, emitted + 1, 0)
        advance = ~speaks | (emitted >= MAX_SYMBOLS)
        at, emitted = at + advance, torch.where(advance, 0, emitted)
    return rows


@torch.no_grad()
def evaluate_dev(trainer, curve: Path, losses: dict[str, float], seconds: float, lookahead: int = 6) -> None:
    """Prints the error rates and appends them to the learning curve."""
    model = trainer.model.eval()
    columns = {"minutes": f"{seconds / 60:.1f}", "hours": f"{trainer.hours:.2f}", "step": str(trainer.step)}
    columns |= {name: f"{losses[name]:.3f}" if name in losses else "" for name in ("ctc", "phone", "rnnt")}
    decoders = {"ctc": greedy_ctc} | ({"rnnt": greedy_transducer} if trainer.transducer_ready else {})
    for group, examples in trainer.dev.items():
        rates = {name: ErrorRates() for name in decoders}
        shown = {}
        for first in range(0, len(examples), 8):
            part = examples[first : first + 8]
            batch = trainer.sampler.collate(part, None).to(trainer.device)
            with trainer.autocast():
                hidden, _, frames = model.encode(batch.mel, batch.frames, lookahead)
            for name, decode in decoders.items():
                for example, ids in zip(part, decode(model, hidden.float(), frames), strict=True):
                    text = trainer.tokenizer.decode(ids)
                    rates[name].add(example.text, text)
                    shown[name] = (example.text, text)
        for name in ("ctc", "rnnt"):
            rate = rates.get(name)
            columns[f"{group}_{name}_wer"] = f"{rate.wer:.1f}" if rate else ""
            columns[f"{group}_{name}_cer"] = f"{rate.cer:.1f}" if rate else ""
        for name, (reference, text) in shown.items():
            print(f"  {group} {name}: {rates[name].wer:.1f} / {rates[name].cer:.1f}\n    said  {reference}\n    heard {text}", flush=True)
    new = not curve.exists()
    with curve.open("a", encoding="utf-8") as table:
        if new:
            table.write("\t".join(columns) + "\n")
        table.write("\t".join(columns.values()) + "\n")
    model.train()
