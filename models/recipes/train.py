"""Trains the streaming recogniser: CTC first, then the transducer on the same encoder.

    python -m recipes.train --data DATA --store STORE --restored TEXT --tokenizer tokenizer.json --out RUN

Resumes from `RUN/checkpoint.pt` where there is one; SIGTERM writes it and ends. Progress is counted in hours of
audio seen, so that a run on other hardware follows the same schedule.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import nullcontext
from enum import Enum
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import distributed
from torch import multiprocessing as processes
from torch.nn import functional as F
from transformers import NemotronAsrStreamingConfig

from . import convolutions, joint
from .alignment import cells_of, near_path
from .augment import Augmentation
from .batches import NOISE, Batch, Sampler, Targets, load_examples, pick_dev
from .checkpoint import load_checkpoint, save_checkpoint
from .dev import evaluate_dev
from .features import MelStore
from .model import LOOKAHEADS, Recogniser, build_config
from .optimiser import build_optimisers
from .passages import Passages
from .phones import PHONES, Pronunciations
from .rnnt_loss import rnnt_loss
from .work_queue import WorkQueue, prefetch

LOSSES = ("rnnt", "ctc", "phone", "text")
LONGEST_S = 20.0
TEXT_TOKENS = 12.5  # of --text in a pass, for each second of sound
LOOKAHEAD_ODDS = (0.08, 0.17, 0.2, 0.25, 0.3)  # of LOOKAHEADS


class Stage(Enum):
    CTC = "the encoder with its CTC heads"
    JOINT = "the prediction and joint networks on a frozen encoder"
    BOTH = "everything, CTC kept as an auxiliary"


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    paths = parser.add_argument_group("what to train on")
    paths.add_argument("--data", type=Path, action="append", required=True, help="folder of corpus folders")
    paths.add_argument("--store", type=Path, required=True, help="what recipes.prepare wrote")
    paths.add_argument("--restored", type=Path, help="tables with punctuation and case")
    paths.add_argument("--tokenizer", type=Path, required=True)
    paths.add_argument("--start", type=Path, help="an exported folder to go on from, without its optimiser")
    paths.add_argument("--out", type=Path, required=True)
    schedule = parser.add_argument_group("the schedule, in hours of audio")
    schedule.add_argument("--hours", type=float, default=600.0, help="end of training")
    schedule.add_argument("--rnnt-from", type=float, default=300.0, help="the transducer loss starts")
    schedule.add_argument("--joint-alone", type=float, default=2.0, help="hours of transducer training with a frozen encoder")
    schedule.add_argument("--decay-from", type=float, default=450.0, help="the learning rate falls from here to the end")
    schedule.add_argument("--minutes", type=float, help="stop after this time")
    schedule.add_argument("--decay-minutes", type=float, help="the learning rate falls over this part at the end of --minutes")
    how = parser.add_argument_group("how")
    how.add_argument("--lr", type=float, default=1.5e-3)
    how.add_argument("--adamw", action="store_true", help="AdamW for everything, no Muon")
    how.add_argument("--batch-seconds", type=float, default=24.0, help="of sound, in one pass")
    how.add_argument("--passes", type=int, default=4, help="passes whose gradients make one step")
    how.add_argument("--processes", type=int, default=2, help="CPU processes of one thread each that share the passes")
    how.add_argument("--loaders", type=int, default=0, help="threads that make batches ahead, for one process (a GPU's)")
    how.add_argument("--compile", action="store_true", help="fuse the convolutions and the joint; needs a C++ compiler")
    how.add_argument("--device", default="cpu")
    how.add_argument("--augment", type=float, default=0.45)
    how.add_argument("--spec-augment", action="store_true")
    how.add_argument("--aligned-mix-share", type=float, default=0.0, help="share of utterances mixed from aligned words; needs recipes.words")
    how.add_argument("--units-share", type=float, default=0.0, help="--sentences that readers are made to say; as well")
    how.add_argument("--sentences", type=Path, help="one a line (recipes.text_pool)")
    how.add_argument("--text", type=Path, help="lines for the prediction network alone (recipes.text_pool --passages)")
    how.add_argument("--band", type=int, help="frames that the transducer's paths may be off the CTC head's best; else any")
    how.add_argument("--keep-front", action="store_true", help="the encoder's first convolutions stay as they were")
    how.add_argument("--dropout", type=float, default=0.0, help="of what each encoder module adds")
    how.add_argument("--real-share", type=float, default=0.67)
    how.add_argument("--seed", type=int, default=1)
    how.add_argument("--hidden", type=int, default=256, help="the shape, which --start brings with it, else")
    how.add_argument("--layers", type=int, default=6)
    how.add_argument("--feedforward", type=int, help="four times --hidden where nothing is said")
    how.add_argument("--dev-every", type=float, default=1.5, help="hours of audio between evaluations")
    how.add_argument("--save-minutes", type=float, default=3.0)
    return parser.parse_args(argv)


def cap_seconds(hours: float, total: float) -> float:
    """Short utterances first: alignment is learned on them sooner."""
    return min(LONGEST_S, 4.0 + 14.0 * hours / min(12.0, max(0.01, total / 4)))


def learning_rate(args: argparse.Namespace, step: int, hours: float, time_left: float) -> float:
    """`time_left` is 1 until the decay that a time limit asks for, and falls to 0 with the limit."""
    warm = min(1.0, (step + 1) / 120)
    left = 1.0 if hours < args.decay_from else max(0.0, (args.hours - hours) / max(1e-6, args.hours - args.decay_from))
    return args.lr * warm * (0.05 + 0.95 * min(left, time_left))


class Trainer:
    """One process's part of the training."""

    def __init__(self, args: argparse.Namespace, rank: int, world: int, passes: WorkQueue, parts: WorkQueue):
        self.args, self.rank, self.world, self.passes = args, rank, world, passes
        torch.manual_seed(args.seed)
        self.device = torch.device(args.device)
        tokenizer = Tokenizer.from_file(str(args.tokenizer))
        store = MelStore(args.store)
        corpora = [p for data in args.data for p in sorted(data.iterdir()) if (args.store / f"{p.name}.index").exists()]
        targets = Targets(tokenizer, Pronunciations(args.store / "pronunciations.tsv"))
        training, held_out = load_examples(store, corpora, args.restored, targets)
        noise = tuple(u for u in store.utterances if u.corpus == NOISE)
        augmentation = Augmentation(args.augment, noise, tuple(e.parts[0] for e in training), args.spec_augment)
        self.sampler = Sampler(training, store, augmentation, args.real_share, args.seed)
        if args.aligned_mix_share or args.units_share:
            lines = args.sentences.read_text(encoding="utf-8").splitlines() if args.sentences else []
            sentences = sorted(set(lines) - {example.text for example in held_out})
            self.sampler.make_more(args.aligned_mix_share, args.units_share, args.store, sentences, targets)
        self.passages = None
        if args.text:
            self.passages = Passages(tokenizer, args.text.read_text(encoding="utf-8").splitlines(), args.seed)
        self.dev = pick_dev(held_out)
        self.tokenizer = tokenizer

        mean, std = store.statistics()
        if args.start:
            config = NemotronAsrStreamingConfig.from_pretrained(args.start)
        else:
            config = build_config(tokenizer.get_vocab_size(), args.hidden, args.layers, feedforward=args.feedforward)
        self.model = Recogniser(config, len(PHONES), float(mean.mean()), float(std.mean())).to(self.device)
        self.model.dropout = args.dropout
        if args.keep_front:
            for layer in (self.model.asr.encoder.subsampling.conv_in, self.model.asr.encoder.subsampling.layers):
                layer.requires_grad_(False)
        self.optimisers = build_optimisers(self.model, args.lr, muon=not args.adamw, queue=parts)
        self.step, self.hours, self.transducer_ready = 0, 0.0, False
        load_checkpoint(self, args.out / "checkpoint.pt", args.start)
        self.prefetched: Iterator[Batch] | None = None
        if args.loaders:
            passes_to_come = (divmod(n, args.passes) for n in itertools.count(self.step * args.passes))
            self.prefetched = prefetch(lambda place: self.batch(*place), passes_to_come, args.loaders)
        torch.manual_seed((args.seed * 1_000_003 + self.step) * world + rank)  # what each process drops is its own
        self.stopping = False
        self.began = time.monotonic()
        signal.signal(signal.SIGTERM, self._stop)
        if rank == 0:
            total = sum(e.frames for e in training) / 360000
            count = sum(p.numel() for p in self.model.asr.parameters())
            print(f"{len(training)} utterances, {total:.2f} h; {count / 1e6:.2f} M parameters; at {self.hours:.2f} h", flush=True)

    def batch(self, step: int, number: int) -> Batch:
        """Of a step's pass. How long utterances may be goes by the hours that the steps before it were to have."""
        hours = step * self.args.passes * self.args.batch_seconds / 3600
        cap = LONGEST_S if self.args.start else cap_seconds(hours, self.args.hours)
        return self.sampler.batch(step, number, cap, self.args.batch_seconds)

    def _stop(self, *_) -> None:
        self.stopping = True

    def time_left(self) -> float:
        if self.args.minutes is None or not self.args.decay_minutes:
            return 1.0
        left_s = self.began + self.args.minutes * 60 - time.monotonic()
        return min(1.0, max(0.0, left_s / (self.args.decay_minutes * 60)))

    def stage(self) -> Stage:
        if self.hours < self.args.rnnt_from:
            return Stage.CTC
        return Stage.JOINT if self.hours < self.args.rnnt_from + self.args.joint_alone else Stage.BOTH

    def trained_in(self, stage: Stage) -> list[torch.nn.Parameter]:
        """What a stage does not train has no gradient, so that neither decay nor old momentum moves it."""
        transducer = ("asr.decoder.", "asr.joint.", "asr.encoder_projector.")
        wanted = {Stage.CTC: {False}, Stage.JOINT: {True}, Stage.BOTH: {False, True}}[stage]
        named = self.model.named_parameters()
        return [p for name, p in named if p.requires_grad and name.startswith(transducer) in wanted]

    def autocast(self):
        # Without AVX-512 a CPU has no LSTM in bf16.
        bf16 = self.device.type != "cpu" or torch.backends.cpu.get_cpu_capability() not in ("DEFAULT", "AVX2")
        return torch.autocast(self.device.type, torch.bfloat16, enabled=bf16)

    def losses(self, batch: Batch, lookahead: int, number: int) -> dict[str, torch.Tensor]:
        """A pass's losses per target symbol, with their weights applied by `total`."""
        stage = self.stage()
        transducer, frozen = stage is not Stage.CTC, stage is Stage.JOINT
        found = {}
        with self.autocast():
            with torch.no_grad() if frozen else nullcontext():
                hidden, middle, frames = self.model.encode(batch.mel, batch.frames, lookahead)
                by_token, by_phone = self.model.ctc_log_probs(hidden), self.model.phone_log_probs(middle)
            if transducer:
                told = batch.tokens, frames, batch.token_counts
                if self.args.band:
                    cells = near_path(by_token, *told, self.model.asr.config.blank_token_id, self.args.band)
                else:
                    cells = cells_of(*told, hidden.shape[1])
                moves = self.model.transducer_moves(hidden, batch.tokens, cells)
            if self.passages and transducer and not frozen:
                tokens = int(TEXT_TOKENS * self.args.batch_seconds)
                text, text_counts = (t.to(self.device) for t in self.passages.batch(self.step, number, tokens))
                expected = self.model.text_log_probs(text, self.model.encoder_mean(hidden, by_token, frames))
                valid = torch.arange(text.shape[1], device=self.device)[None] < text_counts[:, None]
                found["text"] = -expected.gather(-1, text[..., None])[..., 0][valid].mean()
        counts = batch.token_counts.sum()
        if transducer:
            found["rnnt"] = rnnt_loss(*moves, frames, batch.token_counts).sum() / counts
        if not frozen:
            blank = self.model.asr.config.blank_token_id
            ctc = F.ctc_loss(by_token, batch.tokens, frames, batch.token_counts, blank, "sum", zero_infinity=True)
            found["ctc"] = ctc / counts
            spoken = frames * self.model.PHONE_RATE * (batch.phone_counts > 0)
            phone = F.ctc_loss(by_phone, batch.phones, spoken, batch.phone_counts, 0, "none", zero_infinity=True)
            found["phone"] = (phone * (batch.phone_counts > 0)).sum() / batch.phone_counts.sum().clamp(min=1)
        return found

    def total(self, losses: dict[str, torch.Tensor]) -> torch.Tensor:
        weights = {"rnnt": 1.0, "ctc": 0.3, "phone": 0.5, "text": 0.3} if "rnnt" in losses else {"ctc": 1.0, "phone": 0.8}
        return sum(weights[name] * loss for name, loss in losses.items())

    def update(self) -> tuple[dict[str, float], float]:
        """One step; the losses and the hours heard, over all processes."""
        stage = self.stage()
        if stage is not Stage.CTC and not self.transducer_ready:
            self.model.start_transducer_from_ctc()
            self.transducer_ready = True
        draw = torch.Generator().manual_seed(self.args.seed * 1_000_003 + self.step)
        lookahead = LOOKAHEADS[int(torch.multinomial(torch.tensor(LOOKAHEAD_ODDS), 1, generator=draw))]
        trained = self.trained_in(stage)
        sums = torch.zeros(len(LOSSES) + 2, device=self.device)
        sums[-1] = self.time_left() if self.rank == 0 else 0.0  # one clock for all: rates must not differ
        for number in self.passes.deal(self.args.passes):
            batch = (next(self.prefetched) if self.prefetched else self.batch(self.step, number)).to(self.device)
            losses = self.losses(batch, lookahead, number)
            self.total(losses).backward()
            found = [float(losses[name].detach()) if name in losses else 0.0 for name in LOSSES]
            sums += torch.tensor([*found, batch.seconds, 0.0], device=self.device)
        gradient = torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).flatten() for p in trained])
        if self.world > 1:
            distributed.all_reduce(gradient)
            distributed.all_reduce(sums)
        gradient /= self.args.passes
        *means, seconds, time_left = sums.tolist()
        norm = float(gradient.norm())
        if math.isfinite(norm):
            gradient *= min(1.0, 2.0 / (norm + 1e-6))
            at = 0
            for p in trained:
                p.grad = gradient[at : at + p.numel()].view_as(p)
                at += p.numel()
            for optimiser in self.optimisers:
                for group in optimiser.param_groups:
                    group["lr"] = learning_rate(self.args, self.step, self.hours, time_left)
                optimiser.step()
        for p in self.model.parameters():
            p.grad = None
        heard = seconds / 3600
        self.step += 1
        self.hours += heard
        return {name: mean / self.args.passes for name, mean in zip(LOSSES, means, strict=True) if mean}, heard

    def agree(self, flag: bool) -> bool:
        """True where any process says so."""
        if self.world == 1:
            return flag
        votes = torch.tensor(float(flag), device=self.device)
        distributed.all_reduce(votes)
        return bool(votes > 0)

    def run(self) -> None:
        args, began = self.args, self.began
        next_dev = self.hours + args.dev_every
        saved = logged = began
        window: dict[str, list[float]] = {}
        window_hours = 0.0
        while self.hours < args.hours:
            losses, heard = self.update()
            window_hours += heard
            for name, value in losses.items():
                window.setdefault(name, []).append(value)
            now = time.monotonic()
            late = args.minutes is not None and now - began > args.minutes * 60
            if self.agree(self.stopping or late):
                break
            if self.rank == 0 and self.step % 20 == 0:
                shown = " ".join(f"{n} {sum(v) / len(v):.3f}" for n, v in window.items())
                speed = window_hours * 3600 / (now - logged)
                print(f"step {self.step} hours {self.hours:.3f} {shown} x{speed:.0f} real time", flush=True)
                window, window_hours, logged = {}, 0.0, now
            if self.rank == 0 and now - saved > args.save_minutes * 60:
                save_checkpoint(self, args.out / "checkpoint.pt")
                saved = now
            if self.hours >= next_dev:
                if self.rank == 0:
                    evaluate_dev(self, args.out / "curve.tsv", losses, time.monotonic() - began)
                next_dev = self.hours + args.dev_every
                if self.world > 1:
                    distributed.barrier()
                logged = time.monotonic()
        if self.rank == 0:
            save_checkpoint(self, args.out / "checkpoint.pt")
            evaluate_dev(self, args.out / "curve.tsv", {}, time.monotonic() - began)


def work(rank: int, args: argparse.Namespace, world: int, *counters) -> None:
    """One process; with several, they meet through a file in the run's folder."""
    if args.device == "cpu":
        torch.set_num_threads(1)
    if args.compile:
        convolutions.compile_kernels()
        joint.compile_kernels()
    if world > 1:
        meeting = args.out / f"meeting-{os.getppid()}"
        distributed.init_process_group("gloo", init_method=meeting.resolve().as_uri(), rank=rank, world_size=world)
    passes, parts = (WorkQueue(counter) for counter in counters or (None, None))
    Trainer(args, rank, world, passes, parts).run()
    if world > 1:
        distributed.destroy_process_group()


def keep_products() -> None:
    """A CPU's library makes code for each shape of a product and keeps a thousand; training comes back to several thousand."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16384")


def use_large_pages() -> None:
    """For processes started from here on: glibc keeps what it frees, in pages of 2 MB, so that no step faults memory in anew."""
    os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(1 << 32))
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(1 << 36))


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    keep_products()
    world = args.processes if args.device == "cpu" else 1
    if args.loaders and world > 1:
        raise SystemExit("--loaders is for one process: with several, each makes the batches it takes (--processes 1)")
    if world == 1:
        work(0, args, 1)
        return
    use_large_pages()
    counters = [processes.get_context("spawn").Value("q", 0) for _ in range(2)]
    started = processes.start_processes(work, (args, world, *counters), nprocs=world, join=False, start_method="spawn")
    # a stop asked of the parent is a stop of its children: each ends after the step it is in
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(pid, signal.SIGTERM) for pid in started.pids()])
    while not started.join():
        pass


if __name__ == "__main__":
    main()
