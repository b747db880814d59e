#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which may")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

/// Adds up each stream's numbers, four slots a step; panics where a test asks for it.
#[derive(Default)]
struct Adder {
    slots: BTreeMap<usize, Adding>,
    /// Blocks the first step until a message comes, so that a test can fill the queues.
    gate: Option<std::sync::mpsc::Receiver<()>>,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Rows of each step.
    steps: std::sync::Mutex<Vec<Vec<&'static str>>>,
    closed: AtomicUsize,
}

struct Adding {
    name: &'static str,
    waiting: Vec<Feed>,
    sum: u64,
}

enum Feed {
    Number(u64),
    Panic,
    Fail,
    /// Panics in a method of the executor other than `step`.
    PanicIn(&'static str),
}

impl BatchExecutor for Adder {
    type Request = &'static str;
    type Input = Feed;
    type Output = u64;
    type BatchKey = bool;

    fn open(&mut self, slot: usize, name: &'static str) -> Result<()> {
        assert_ne!(name, "panic in open", "as the test asked");
        if name == "refused" {
            return Err(Error::InvalidOption("refused".into()));
        }
        assert!(!self.slots.contains_key(&slot), "a slot has one user");
        self.slots.insert(slot, Adding { name, waiting: Vec::new(), sum: 0 });
        Ok(())
    }

    fn push(&mut self, slot: usize, input: Feed) {
        let input = self.panic_in("push", input);
        self.slots.get_mut(&slot).unwrap().waiting.push(input);
    }

    fn finish(&mut self, slot: usize) {
        self.check("finish", slot);
    }

    fn close(&mut self, slot: usize) {
        let adding = self.slots.remove(&slot);
        self.seen.closed.fetch_add(1, Ordering::SeqCst);
        let asked = adding.is_some_and(|adding| matches!(adding.waiting.first(), Some(Feed::PanicIn("close"))));
        assert!(!asked, "as the test asked");
    }

    /// Names that begin with the same letter share a step.
    fn next_step(&self, slot: usize) -> Option<bool> {
        self.check("next_step", slot);
        let adding = &self.slots[&slot];
        (!adding.waiting.is_empty()).then(|| adding.name.starts_with('a'))
    }

    fn waiting_since(&self, slot: usize) -> Option<Instant> {
        self.check("waiting_since", slot);
        None
    }

    fn budget(&self, _: bool) -> Duration {
        self.check_all("budget");
        Duration::from_millis(10)
    }

    fn max_batch(&self, _: bool) -> usize {
        self.check_all("max_batch");
        4
    }

    fn step_name(&self, _: bool) -> &'static str {
        self.check_all("step_name");
        "add"
    }

    fn step(&mut self, _: bool, slots: &[usize], _: usize) -> Result<Vec<Option<u64>>> {
        if let Some(gate) = self.gate.take() {
            gate.recv().unwrap();
        }
        self.seen.steps.lock().unwrap().push(slots.iter().map(|slot| self.slots[slot].name).collect());
        slots
            .iter()
            .map(|slot| {
                let adding = self.slots.get_mut(slot).unwrap();
                match adding.waiting.remove(0) {
                    Feed::Number(number) => adding.sum += number,
                    Feed::Panic | Feed::PanicIn(_) => panic!("as the test asked"),
                    Feed::Fail => return Err(Error::Canceled),
                }
                Ok(Some(adding.sum))
            })
            .collect()
    }
}

impl Adder {
    /// Panics if the input asks for it at once.
    fn panic_in(&self, method: &str, input: Feed) -> Feed {
        assert!(!matches!(input, Feed::PanicIn(asked) if asked == method), "as the test asked");
        input
    }

    /// Panics if the slot's next input asks for it in this method.
    fn check(&self, method: &str, slot: usize) {
        let next = self.slots.get(&slot).and_then(|adding| adding.waiting.first());
        assert!(!matches!(next, Some(Feed::PanicIn(asked)) if *asked == method), "as the test asked");
    }

    /// Panics if the next input of any slot asks for it in this method.
    fn check_all(&self, method: &str) {
        self.slots.keys().for_each(|slot| self.check(method, *slot));
    }
}

/// The same number of slots for each priority.
fn each(count: usize) -> SlotCounts {
    SlotCounts { live: count, speech: count, second_pass: count, agent: count, offline: count }
}

/// A scheduler whose first step waits until something is sent.
fn gated(slots: usize) -> (Scheduler<Adder>, Arc<Seen>, std::sync::mpsc::Sender<()>) {
    let (open, gate) = std::sync::mpsc::channel();
    let seen = Arc::new(Seen::default());
    let machine = Adder { gate: Some(gate), seen: seen.clone(), ..Adder::default() };
    (Scheduler::start(each(slots), move || machine).unwrap(), seen, open)
}

fn push(stream: &Stream<Adder>, feed: Feed) {
    assert!(stream.push(feed).is_ok());
}

fn all(mut outputs: Results<u64>) -> Vec<Result<u64>> {
    std::iter::from_fn(|| outputs.wait()).collect()
}

fn sums(outputs: Vec<Result<u64>>) -> Vec<u64> {
    outputs.into_iter().map(|output| output.unwrap()).collect()
}

#[test]
fn every_stream_gets_its_own_results_in_order_whatever_the_threads_do() {
    let scheduler = Scheduler::start(each(64), Adder::default).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let scheduler = &scheduler;
            scope.spawn(move || {
                for round in 0..40 {
                    let (mut stream, outputs) = scheduler.open("a", Priority::Live).unwrap();
                    let numbers: Vec<u64> = (0..25).map(|n| thread * 1_000 + round * 31 + n).collect();
                    for number in &numbers {
                        push(&stream, Feed::Number(*number));
                    }
                    stream.finish(None);
                    let mut sum = 0;
                    let expected: Vec<u64> = numbers
                        .iter()
                        .map(|n| {
                            sum += n;
                            sum
                        })
                        .collect();
                    assert_eq!(sums(all(outputs)), expected);
                }
            });
        }
    });
}

#[test]
fn what_was_meant_for_a_slots_last_user_never_reaches_the_next() {
    let scheduler = Scheduler::start(each(1), Adder::default).unwrap();
    let open = || loop {
        match scheduler.open("a", Priority::Live) {
            Ok(opened) => return opened,
            Err(Error::Busy(_)) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    for round in 0..500 {
        let (dropped, outputs) = open();
        for _ in 0..round % 7 {
            push(&dropped, Feed::Number(1_000_000));
        }
        drop(dropped);
        drop(outputs);
        let (mut stream, outputs) = open();
        push(&stream, Feed::Number(1));
        stream.finish(None);
        assert_eq!(sums(all(outputs)), [1]);
    }
}

#[test]
fn live_goes_before_agent_before_offline_and_equal_buckets_share_a_step() {
    let (scheduler, seen, go) = gated(8);
    let (first, _kept) = scheduler.open("b first", Priority::Live).unwrap();
    push(&first, Feed::Number(1));
    // The worker is in its first step, or will be: what follows is all there when that ends.
    let mut streams = [
        ("b offline", Priority::Offline),
        ("a agent", Priority::Agent),
        ("a offline", Priority::Offline),
        ("b live", Priority::Live),
        ("b too", Priority::Live),
    ]
    .map(|(name, priority)| scheduler.open(name, priority).unwrap());
    for (stream, _) in &mut streams {
        push(stream, Feed::Number(1));
        stream.finish(None);
    }
    go.send(()).unwrap();
    for (stream, outputs) in streams {
        drop(stream);
        assert_eq!(sums(all(outputs)), [1]);
    }
    let steps = seen.steps.lock().unwrap();
    let rank = |name: &str| steps.iter().position(|step| step.contains(&name)).unwrap();
    assert!(rank("b live") < rank("a agent"), "{steps:?}");
    assert_eq!(rank("b live"), rank("b too"));
    assert_eq!(rank("a agent"), rank("a offline"), "room that is left is filled");
}

#[test]
fn a_step_that_panics_or_fails_costs_only_its_batch() {
    let (scheduler, seen, go) = gated(8);
    let [(a, a_out), (also_a, also_a_out), (mut b, b_out)] =
        ["a", "a also", "b"].map(|name| scheduler.open(name, Priority::Live).unwrap());
    for (feed, stream) in [(Feed::Number(5), &a), (Feed::Number(6), &also_a), (Feed::Number(7), &b)] {
        push(stream, feed);
    }
    go.send(()).unwrap();
    for (feed, stream) in [(Feed::Panic, &a), (Feed::Number(1), &b)] {
        push(stream, feed);
    }
    let answers = all(a_out);
    assert_eq!(answers.len(), 2);
    assert!(matches!(&answers[1], Err(Error::Internal { .. })), "{answers:?}");
    push(&also_a, Feed::Fail);
    assert!(matches!(all(also_a_out).last(), Some(Err(Error::Canceled | Error::Internal { .. }))));
    b.finish(None);
    assert_eq!(sums(all(b_out)), [7, 8]);
    drop([a, also_a, b]);
    let (mut stream, outputs) = scheduler.open("a next", Priority::Live).unwrap();
    push(&stream, Feed::Number(2));
    stream.finish(None);
    assert_eq!(sums(all(outputs)), [2]);
    assert!(seen.closed.load(Ordering::SeqCst) >= 3);
}

#[test]
fn a_panic_outside_a_step_costs_only_its_stream() {
    let scheduler = Scheduler::start(each(4), Adder::default).unwrap();
    let (mut whole, outputs) = scheduler.open("a", Priority::Live).unwrap();
    for round in 0..20 {
        for feed in [Feed::PanicIn("push"), Feed::PanicIn("next_step")] {
            let (mut stream, answers) = loop {
                match scheduler.open("b", Priority::Live) {
                    Ok(opened) => break opened,
                    Err(_) => std::thread::yield_now(),
                }
            };
            if round % 2 == 0 {
                push(&stream, feed);
            } else {
                stream.finish(Some(feed));
            }
            let answers = all(answers);
            assert!(matches!(answers.as_slice(), [Err(Error::Internal { .. })]), "{answers:?}");
        }
        push(&whole, Feed::Number(1));
    }
    whole.finish(None);
    assert_eq!(sums(all(outputs)).last(), Some(&20));
}

#[test]
fn a_stream_that_was_finished_may_be_let_go_of() {
    let scheduler = Scheduler::start(each(1), Adder::default).unwrap();
    for _ in 0..500 {
        let (mut stream, outputs) = loop {
            match scheduler.open("a", Priority::Live) {
                Ok(opened) => break opened,
                Err(_) => std::thread::yield_now(),
            }
        };
        for _ in 0..5 {
            push(&stream, Feed::Number(1));
        }
        stream.finish(Some(Feed::Number(1)));
        drop(stream);
        assert_eq!(sums(all(outputs)), [1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn no_slot_is_busy_and_comes_back_when_its_stream_is_dropped() {
    let scheduler = Scheduler::start(each(2), Adder::default).unwrap();
    let one = scheduler.open("a", Priority::Live).unwrap();
    let _two = scheduler.open("a", Priority::Live).unwrap();
    assert!(matches!(scheduler.open("a", Priority::Live), Err(Error::Busy(_))));
    drop(one);
    while scheduler.free(Priority::Live) == 0 {
        std::thread::yield_now();
    }
    assert!(scheduler.open("a", Priority::Live).is_ok());
}

#[test]
fn one_prioritys_streams_never_take_anothers_room() {
    let scheduler =
        Scheduler::start(SlotCounts { live: 1, offline: 2, ..SlotCounts::default() }, Adder::default).unwrap();
    let _files = [0, 1].map(|_| scheduler.open("a", Priority::Offline).unwrap());
    assert!(matches!(scheduler.open("a", Priority::Offline), Err(Error::Busy(_))));
    assert!(matches!(scheduler.open("a", Priority::Agent), Err(Error::Busy(_))));
    let live = scheduler.open("a", Priority::Live).unwrap();
    drop(live);
    while scheduler.free(Priority::Live) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(scheduler.free(Priority::Offline), 0, "a slot goes back to where it came from");
}

#[test]
fn a_full_queue_gives_the_input_back() {
    let (scheduler, _, go) = gated(1);
    let (mut stream, outputs) = scheduler.open("a", Priority::Live).unwrap();
    let mut pushed = 0u64;
    while stream.push(Feed::Number(1)).is_ok() {
        pushed += 1;
    }
    assert!(pushed >= QUEUE_CAPACITY as u64, "{pushed}");
    go.send(()).unwrap();
    stream.finish(Some(Feed::Number(1)));
    assert_eq!(sums(all(outputs)).last(), Some(&(pushed + 1)), "nothing was lost");
}

/// The input of one stream leaves room for others to begin.
#[test]
fn a_full_queue_turns_no_stream_away() {
    let (scheduler, _, go) = gated(2);
    let (mut greedy, greedy_out) = scheduler.open("a", Priority::Live).unwrap();
    while greedy.push(Feed::Number(1)).is_ok() {}
    let (mut stream, outputs) = scheduler.open("b", Priority::Live).unwrap();
    stream.finish(Some(Feed::Number(3)));
    go.send(()).unwrap();
    assert_eq!(sums(all(outputs)), [3]);
    greedy.finish(None);
    assert!(all(greedy_out).len() >= QUEUE_CAPACITY);
}

/// A stream that was finished is worked on while a receiver exists, and no longer.
#[test]
fn what_nobody_can_be_told_is_not_computed() {
    let (scheduler, seen, go) = gated(1);
    let (mut stream, outputs) = scheduler.open("a", Priority::Live).unwrap();
    let count = if cfg!(miri) { 20 } else { 2_000 };
    for _ in 0..count {
        push(&stream, Feed::Number(1));
    }
    stream.finish(None);
    drop((stream, outputs));
    go.send(()).unwrap();
    while scheduler.free(Priority::Live) == 0 {
        std::thread::yield_now();
    }
    // The one that waited at the gate.
    assert!(seen.steps.lock().unwrap().len() <= 1);
}

#[test]
fn a_refused_stream_is_told_why() {
    let scheduler = Scheduler::start(each(1), Adder::default).unwrap();
    let (_stream, outputs) = scheduler.open("refused", Priority::Live).unwrap();
    assert!(matches!(all(outputs)[..], [Err(Error::InvalidOption(_))]));
}

#[test]
fn what_was_submitted_is_done_before_it_stops() {
    let scheduler = Scheduler::start(each(4), Adder::default).unwrap();
    let streams: Vec<_> = (0..4).map(|_| scheduler.open("a", Priority::Offline).unwrap()).collect();
    for (stream, _) in &streams {
        for _ in 0..100 {
            push(stream, Feed::Number(1));
        }
    }
    drop(scheduler);
    for (stream, outputs) in streams {
        let mut outputs = all(outputs);
        // Its input had no end: that differs from a stream that is complete.
        assert!(matches!(outputs.pop(), Some(Err(Error::Canceled))));
        assert_eq!(sums(outputs).last(), Some(&100));
        drop(stream);
    }
}

/// Every method of the executor that the worker calls, and the making of it.
#[test]
fn a_panic_anywhere_is_an_internal_error_and_never_looks_like_the_end() {
    for method in ["push", "finish", "next_step", "waiting_since", "budget", "max_batch", "step_name", "step"] {
        let scheduler = Scheduler::start(each(1), Adder::default).unwrap();
        let (mut stream, outputs) = scheduler.open("a", Priority::Offline).unwrap();
        stream.finish(Some(if method == "step" { Feed::Panic } else { Feed::PanicIn(method) }));
        let answers = all(outputs);
        assert!(matches!(answers.as_slice(), [Err(Error::Internal { .. })]), "{method}: {answers:?}");
        drop(stream);
        let (mut next, outputs) = loop {
            match scheduler.open("a", Priority::Offline) {
                Ok(opened) => break opened,
                Err(_) => std::thread::yield_now(),
            }
        };
        next.finish(Some(Feed::Number(1)));
        assert_eq!(sums(all(outputs)), [1], "the worker goes on after a panic in {method}");
    }
    let scheduler = Scheduler::start(each(1), Adder::default).unwrap();
    let (_stream, outputs) = scheduler.open("panic in open", Priority::Offline).unwrap();
    assert!(matches!(all(outputs).as_slice(), [Err(Error::Internal { .. })]));
}

#[test]
fn a_panic_when_a_slot_is_closed_costs_no_other_stream() {
    let scheduler = Scheduler::start(each(2), Adder::default).unwrap();
    let (mut other, outputs) = scheduler.open("a", Priority::Offline).unwrap();
    for _ in 0..10 {
        let (stream, _results) = loop {
            match scheduler.open("b", Priority::Offline) {
                Ok(opened) => break opened,
                Err(_) => std::thread::yield_now(),
            }
        };
        push(&stream, Feed::PanicIn("close"));
    }
    other.finish(Some(Feed::Number(1)));
    assert_eq!(sums(all(outputs)), [1]);
}

#[test]
fn streams_of_a_worker_that_died_fail_and_do_not_wait() {
    let make = || -> Adder { panic!("as the test asked") };
    let scheduler = Scheduler::start(each(4), make).unwrap();
    for _ in 0..4 {
        let (mut stream, outputs) = scheduler.open("a", Priority::Offline).unwrap();
        stream.finish(Some(Feed::Number(1)));
        let answers = all(outputs);
        assert!(matches!(answers.as_slice(), [Err(Error::Internal { .. })]), "{answers:?}");
    }
}

#[test]
fn a_stream_that_nobody_reads_stops_at_its_bound_and_goes_on_when_read() {
    let seen = Arc::new(Seen::default());
    let adder = Adder { seen: seen.clone(), ..Adder::default() };
    let scheduler = Scheduler::start(each(2), move || adder).unwrap();
    let count = results::UNREAD_OUTPUTS * 3;
    let (mut slow, unread) = scheduler.open("slow", Priority::Live).unwrap();
    (0..count).for_each(|_| push(&slow, Feed::Number(1)));
    slow.finish(None);
    // Another stream is not held up, and by its end the worker has been free many times.
    let (mut quick, outputs) = scheduler.open("a", Priority::Live).unwrap();
    (0..count).for_each(|_| push(&quick, Feed::Number(1)));
    quick.finish(None);
    assert_eq!(sums(all(outputs)).len(), count);
    let steps = || seen.steps.lock().unwrap().iter().flatten().filter(|name| **name == "slow").count();
    assert_eq!(steps(), results::UNREAD_OUTPUTS);
    assert_eq!(sums(all(unread)), (1..=count as u64).collect::<Vec<_>>());
    assert_eq!(steps(), count);
}

#[test]
fn whoever_drops_the_results_of_a_full_stream_frees_its_slot() {
    let scheduler = Scheduler::start(each(1), Adder::default).unwrap();
    let (mut stream, outputs) = scheduler.open("a", Priority::Live).unwrap();
    (0..results::UNREAD_OUTPUTS * 2).for_each(|_| push(&stream, Feed::Number(1)));
    stream.finish(None);
    drop(stream);
    drop(outputs);
    while scheduler.free(Priority::Live) == 0 {
        std::thread::yield_now();
    }
}

#[test]
fn work_that_nobody_reads_does_not_keep_the_scheduler_from_its_end() {
    let scheduler = Scheduler::start(each(1), Adder::default).unwrap();
    let (mut stream, outputs) = scheduler.open("a", Priority::Live).unwrap();
    let count = results::UNREAD_OUTPUTS * 2;
    (0..count).for_each(|_| push(&stream, Feed::Number(1)));
    stream.finish(None);
    drop(scheduler);
    assert_eq!(sums(all(outputs)).len(), count);
}

#[test]
fn a_full_queue_tells_when_it_has_room() {
    let (scheduler, _, gate) = gated(1);
    let (stream, outputs) = scheduler.open("a", Priority::Live).unwrap();
    push(&stream, Feed::Number(1));
    // The worker waits in the first step, or is about to: from then on it takes nothing in.
    let mut pushed = 1;
    let room = loop {
        let room = stream.room();
        if stream.push(Feed::Number(1)).is_err() && pushed >= QUEUE_CAPACITY {
            break room;
        }
        pushed += 1;
    };
    gate.send(()).unwrap();
    cubecl::future::block_on(room);
    push(&stream, Feed::Number(1));
    drop((stream, outputs));
}
