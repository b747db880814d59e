//! Cost of the scheduler itself: steps over 64 streams of an executor that computes nothing.

use std::time::{Duration, Instant};

use auricle_engine::Result;
use auricle_engine::unstable::scheduler::{BatchExecutor, Priority, Scheduler, SlotCounts};
use criterion::{Criterion, criterion_group, criterion_main};

const SLOTS: usize = 64;

/// Has as many steps as its input says, with all streams in each; gives an output after the last.
#[derive(Default)]
struct Echo {
    waiting: Vec<u64>,
}

impl BatchExecutor for Echo {
    type Request = ();
    type Input = u64;
    type Output = u64;
    type BatchKey = ();

    fn open(&mut self, slot: usize, (): ()) -> Result<()> {
        self.waiting.resize(self.waiting.len().max(slot + 1), 0);
        Ok(())
    }

    fn push(&mut self, slot: usize, input: u64) {
        self.waiting[slot] = input;
    }

    fn finish(&mut self, _: usize) {}

    fn close(&mut self, _: usize) {}

    fn next_step(&self, slot: usize) -> Option<()> {
        (self.waiting[slot] > 0).then_some(())
    }

    fn budget(&self, (): ()) -> Duration {
        Duration::from_millis(80)
    }

    fn max_batch(&self, (): ()) -> usize {
        SLOTS
    }

    fn step_name(&self, (): ()) -> &'static str {
        "echo"
    }

    fn step(&mut self, (): (), slots: &[usize], _: usize) -> Result<Vec<Option<u64>>> {
        let step = |slot: &usize| {
            self.waiting[*slot] -= 1;
            (self.waiting[*slot] == 0).then_some(0)
        };
        Ok(slots.iter().map(step).collect())
    }
}

fn scheduler(c: &mut Criterion) {
    let scheduler =
        Scheduler::start(SlotCounts { live: SLOTS, ..SlotCounts::default() }, Echo::default).expect("a thread");
    let mut streams: Vec<_> = (0..SLOTS).map(|_| scheduler.open((), Priority::Live).expect("a slot")).collect();
    // From 64 submissions to 64 results: queue, batches, channels. The worker may begin before all are in.
    c.bench_function("64 streams, an input each, to all their results", |b| {
        b.iter(|| {
            for (stream, _) in &streams {
                let _ = stream.push(1);
            }
            for (_, results) in &mut streams {
                results.wait();
            }
        });
    });
    // The scheduler's own part of a step: next steps, priorities, the batch.
    c.bench_function("a step of 64 streams", |b| {
        b.iter_custom(|steps| {
            let began = Instant::now();
            for (stream, _) in &streams {
                let _ = stream.push(steps);
            }
            for (_, results) in &mut streams {
                results.wait();
            }
            began.elapsed()
        });
    });
    // There and back for one stream, the worker asleep: two threads are woken.
    c.bench_function("one stream, an input, to its result", |b| {
        b.iter(|| {
            let _ = streams[0].0.push(1);
            streams[0].1.wait()
        });
    });
}

criterion_group!(benches, scheduler);
criterion_main!(benches);
