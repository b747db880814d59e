#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which may")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;

/// The request of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Work {
    name: &'static str,
    /// Slots with equal kinds share a step.
    kind: usize,
    /// Milliseconds of each of its rows.
    cost_ms: u64,
    budget_ms: u64,
    /// Its second step fails.
    faulty: bool,
    account: Option<&'static str>,
}

/// Sleeps through the rows of its steps.
#[derive(Default)]
struct Sleeper {
    /// The request of each slot, its inputs that wait, and its steps so far.
    slots: BTreeMap<usize, (Work, usize, usize)>,
    steps: Steps,
}

/// The names in each step, in order.
type Steps = Arc<Mutex<Vec<Vec<&'static str>>>>;

impl BatchExecutor for Sleeper {
    type Request = Work;
    type Input = usize;
    type Output = ();
    type BatchKey = (usize, u64);

    fn open(&mut self, slot: usize, work: Work) -> Result<()> {
        self.slots.insert(slot, (work, 0, 0));
        Ok(())
    }

    fn push(&mut self, slot: usize, steps: usize) {
        self.slots.get_mut(&slot).unwrap().1 += steps;
    }

    fn finish(&mut self, _: usize) {}

    fn close(&mut self, slot: usize) {
        self.slots.remove(&slot);
    }

    fn next_step(&self, slot: usize) -> Option<(usize, u64)> {
        let (work, waiting, _) = self.slots[&slot];
        (waiting > 0).then_some((work.kind, work.budget_ms))
    }

    fn budget(&self, (_, budget_ms): (usize, u64)) -> Duration {
        Duration::from_millis(budget_ms)
    }

    fn max_batch(&self, _: (usize, u64)) -> usize {
        32
    }

    fn step_name(&self, _: (usize, u64)) -> &'static str {
        "sleep"
    }

    fn family(&self, (kind, _): (usize, u64)) -> usize {
        kind
    }

    fn account(&self, slot: usize) -> Option<&str> {
        self.slots[&slot].0.account
    }

    fn step(&mut self, _: (usize, u64), slots: &[usize], most: usize) -> Result<Vec<Option<()>>> {
        assert!(slots.len() <= most);
        self.steps.lock().unwrap().push(slots.iter().map(|slot| self.slots[slot].0.name).collect());
        std::thread::sleep(Duration::from_millis(slots.iter().map(|slot| self.slots[slot].0.cost_ms).sum()));
        if slots.iter().any(|slot| self.slots[slot].0.faulty && self.slots[slot].2 == 1) {
            return Err(Error::Canceled);
        }
        for slot in slots {
            let (_, waiting, done) = self.slots.get_mut(slot).unwrap();
            (*waiting, *done) = (*waiting - 1, *done + 1);
        }
        Ok(slots.iter().map(|_| Some(())).collect())
    }

    fn undo(&mut self, _: (usize, u64), _: &[usize]) -> bool {
        true
    }
}

/// Opens these streams with so many steps each, and gives the results of each and the steps in order.
fn run(streams: &[(Work, Priority, usize)]) -> (Vec<Vec<Result<()>>>, Vec<Vec<&'static str>>) {
    let steps = Steps::default();
    let seen = steps.clone();
    let slots = SlotCounts { live: 64, agent: 64, offline: 64, ..SlotCounts::default() };
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let make = move || {
        // All streams are there before the first step.
        let _ = wait.recv();
        Sleeper { steps, ..Sleeper::default() }
    };
    let scheduler = Scheduler::start(slots, make).unwrap();
    let opened: Vec<_> = streams
        .iter()
        .map(|(work, priority, steps)| {
            let (mut stream, results) = scheduler.open(*work, *priority).unwrap();
            stream.finish(Some(*steps));
            (stream, results)
        })
        .collect();
    go.send(()).unwrap();
    let all = |mut results: Results<()>| std::iter::from_fn(|| results.wait()).collect();
    let results = opened.into_iter().map(|(_stream, results)| all(results)).collect();
    let steps = seen.lock().unwrap().clone();
    (results, steps)
}

fn work(name: &'static str, kind: usize, cost_ms: u64, budget_ms: u64) -> Work {
    Work { name, kind, cost_ms, budget_ms, faulty: false, account: None }
}

#[test]
fn recordings_of_one_account_share_the_time_of_one() {
    let many = (Work { account: Some("many"), ..work("heavy", 0, 1, 1) }, Priority::Offline, 20);
    let light = (work("light", 1, 1, 60_000), Priority::Offline, 20);
    let (_, steps) = run(&[many, many, many, many, many, many, light]);
    let last = steps.iter().rposition(|names| names.contains(&"light")).unwrap();
    let before = steps[..last].iter().flatten().filter(|name| **name == "heavy").count();
    // The six have had about as much as the one.
    assert!((12..=48).contains(&before), "{before} steps of the others before the last of 20");
}

/// Steps that are due sooner are no reason to starve a recording.
#[test]
fn a_recording_gets_its_share_beside_others_whose_steps_are_due_sooner() {
    let heavy = (work("heavy", 0, 1, 1), Priority::Offline, 60);
    let light = (work("light", 1, 1, 60_000), Priority::Offline, 10);
    let (results, steps) = run(&[heavy, heavy, heavy, light]);
    assert!(results.iter().flatten().all(Result::is_ok));
    let last = steps.iter().rposition(|names| names.contains(&"light")).unwrap();
    let before = steps[..last].iter().flatten().filter(|name| **name == "heavy").count();
    // Turn about, each of the three has had about as much as the fourth.
    assert!((15..90).contains(&before), "{before} of 180 rows of the others came first");
}

/// A recording that comes late waits for nobody's backlog, and makes up for nothing that it did not ask for.
#[test]
fn among_equals_one_kind_does_not_overtake_another() {
    let (_, steps) =
        run(&[(work("one", 0, 1, 1_000), Priority::Offline, 40), (work("other", 1, 1, 1_000), Priority::Offline, 40)]);
    for part in steps[..60].chunks(20) {
        let ones = part.iter().filter(|names| names.contains(&"one")).count();
        assert!((4..=16).contains(&ones), "{ones} of 20 steps: {part:?}");
    }
}

#[test]
fn recordings_go_on_slowly_under_full_live_load() {
    let live = (work("live", 0, 1, 10), Priority::Live, 400);
    let file = (work("file", 1, 1, 60_000), Priority::Offline, 4);
    let (results, steps) = run(&[live, file]);
    assert!(results.iter().flatten().all(Result::is_ok));
    let last = steps.iter().rposition(|names| names.contains(&"file")).unwrap();
    assert!(last < 300, "the file ended after {last} steps");
    let first = steps.iter().position(|names| names.contains(&"file")).unwrap();
    assert!(first >= 5, "live work comes first, yet the file began after {first} steps");
}

/// Sixteen recordings share a step, unless a live stream is open that would wait too long for it.
#[test]
fn a_batch_of_recordings_fits_between_the_chunks_of_a_live_stream() {
    let file = (work("file", 1, 2, 60_000), Priority::Offline, 6);
    let alone = vec![file; 16];
    let (_, steps) = run(&alone);
    assert!(steps.iter().all(|names| names.len() == 16), "{steps:?}");
    let live = (work("live", 0, 1, 10), Priority::Live, 2_000);
    let (_, steps) = run(&[alone, vec![live]].concat());
    let ended = steps.iter().rposition(|names| names.contains(&"live")).unwrap();
    let batches: Vec<usize> = steps[..ended].iter().filter(|names| names.contains(&"file")).map(Vec::len).collect();
    assert!(batches.len() > 1 && batches[1..].iter().all(|rows| *rows <= 5), "{batches:?}");
}

/// Answers come before recordings, and leave them an eighth of the time.
#[test]
fn recordings_go_on_beside_answers_without_end() {
    let answer = (work("answer", 0, 1, 250), Priority::Agent, 400);
    let file = (work("file", 1, 1, 60_000), Priority::Offline, 4);
    let (results, steps) = run(&[answer, file]);
    assert!(results.iter().flatten().all(Result::is_ok));
    let last = steps.iter().rposition(|names| names.contains(&"file")).unwrap();
    let first = steps.iter().position(|names| names.contains(&"file")).unwrap();
    assert!(first >= 5 && last < 170, "the file's steps were from {first} to {last}");
}

/// Sixteen answers share a step, unless a live stream is open that would wait too long for it.
#[test]
fn a_batch_of_answers_fits_between_the_chunks_of_a_live_stream() {
    let answer = work("answer", 1, 2, 250);
    let (_, steps) = run(&[(answer, Priority::Agent, 6); 16]);
    assert!(steps.iter().all(|names| names.len() == 16), "{steps:?}");
    let steps = Steps::default();
    let seen = steps.clone();
    let slots = SlotCounts { live: 1, agent: 16, ..SlotCounts::default() };
    let scheduler = Scheduler::start(slots, move || Sleeper { steps, ..Sleeper::default() }).unwrap();
    let (live, mut heard) = scheduler.open(work("live", 0, 1, 10), Priority::Live).unwrap();
    live.push(1).unwrap();
    heard.wait().unwrap().unwrap();
    let mut opened: Vec<_> = (0..16).map(|_| scheduler.open(answer, Priority::Agent).unwrap()).collect();
    opened.iter_mut().for_each(|(stream, _)| stream.finish(Some(6)));
    for (_, results) in &mut opened {
        while results.wait().is_some() {}
    }
    let steps = seen.lock().unwrap();
    let batches: Vec<usize> = steps.iter().filter(|names| names.contains(&"answer")).map(Vec::len).collect();
    assert!(batches[1..].iter().all(|rows| *rows <= 5) && batches.iter().any(|rows| *rows > 1), "{batches:?}");
}

#[test]
fn a_step_that_fails_ends_the_faulty_stream_only() {
    let faulty = Work { faulty: true, ..work("faulty", 0, 0, 1_000) };
    let good = work("good", 0, 0, 1_000);
    let (results, _) =
        run(&[(good, Priority::Offline, 5), (faulty, Priority::Offline, 5), (good, Priority::Offline, 5)]);
    let ended = |results: &[Result<()>]| results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(results.iter().map(|results| ended(results)).collect::<Vec<_>>(), [5, 1, 5], "{results:?}");
    assert!(matches!(results[1].last(), Some(Err(Error::Canceled))));
}
