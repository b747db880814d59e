//! What the scheduler itself costs: steps of a machine that computes nothing, over 64 streams.

use std::time::{Duration, Instant};

use auricle_engine::Result;
use auricle_engine::scheduler::{Machine, Priority, Scheduler, Slots};
use criterion::{Criterion, criterion_group, criterion_main};

const SLOTS: usize = 64;

/// Is ready for as many steps as it is fed, all streams in each; says so after the last.
#[derive(Default)]
struct Echo {
    waiting: Vec<u64>,
}

impl Machine for Echo {
    type Kind = ();
    type Input = u64;
    type Output = u64;
    type Bucket = ();

    fn open(&mut self, slot: usize, (): ()) -> Result<()> {
        self.waiting.resize(self.waiting.len().max(slot + 1), 0);
        Ok(())
    }

    fn take(&mut self, slot: usize, input: u64) {
        self.waiting[slot] = input;
    }

    fn finish(&mut self, _: usize) {}

    fn close(&mut self, _: usize) {}

    fn ready(&self, slot: usize) -> Option<()> {
        (self.waiting[slot] > 0).then_some(())
    }

    fn budget(&self, (): ()) -> Duration {
        Duration::from_millis(80)
    }

    fn rows(&self, (): ()) -> usize {
        SLOTS
    }

    fn name(&self, (): ()) -> &'static str {
        "echo"
    }

    fn step(&mut self, (): (), slots: &[usize]) -> Result<Vec<Option<u64>>> {
        let step = |slot: &usize| {
            self.waiting[*slot] -= 1;
            (self.waiting[*slot] == 0).then_some(0)
        };
        Ok(slots.iter().map(step).collect())
    }
}

fn scheduler(c: &mut Criterion) {
    let scheduler = Scheduler::start(Slots { live: SLOTS, ..Slots::default() }, Echo::default).expect("a thread");
    let mut streams: Vec<_> = (0..SLOTS).map(|_| scheduler.open((), Priority::Live).expect("a slot")).collect();
    // From 64 submissions to 64 results: queue, batches, channels. The worker may begin before all are in.
    c.bench_function("64 streams, an input each, to all their results", |b| {
        b.iter(|| {
            for (stream, _) in &streams {
                let _ = stream.push(1);
            }
            for (_, results) in &mut streams {
                results.blocking_recv();
            }
        });
    });
    // The scheduler's own part of a step: who is ready, who goes first, who goes along.
    c.bench_function("a step of 64 streams", |b| {
        b.iter_custom(|steps| {
            let began = Instant::now();
            for (stream, _) in &streams {
                let _ = stream.push(steps);
            }
            for (_, results) in &mut streams {
                results.blocking_recv();
            }
            began.elapsed()
        });
    });
    // There and back for one stream, the worker asleep: two threads are woken.
    c.bench_function("one stream, an input, to its result", |b| {
        b.iter(|| {
            let _ = streams[0].0.push(1);
            streams[0].1.blocking_recv()
        });
    });
}

criterion_group!(benches, scheduler);
criterion_main!(benches);
