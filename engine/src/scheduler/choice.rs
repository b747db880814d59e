//! Which step runs next, and how large it may be.
//!
//! Live work goes first, the step that is due soonest before others. Recordings share the rest: each is charged for the time
//! of the steps that compute its rows, and the one that has had the least is next. A recording that comes, or comes back from
//! waiting for its input, begins with what the least served one has had, so that it neither waits for the others nor holds them
//! up. Live work that never leaves room owes the recordings a small part of the time, and pays whenever that suffices for a step.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::Priority;

/// Part of the time that recordings get however much live work there is, and however many answers are written.
const OFFLINE_SHARE: f64 = 0.05;
const OFFLINE_SHARE_BESIDE_AGENTS: f64 = 0.125;
/// Weight of a step in what is known of a row's cost: where it was cheaper than known, and where it was dearer.
const CHEAPER: f64 = 0.7;
const DEARER: f64 = 0.3;

/// A stream that has a next step.
#[derive(Clone, Copy)]
pub(super) struct Candidate<K> {
    pub slot: usize,
    pub key: K,
    pub priority: Priority,
    pub due: Instant,
    /// False for a step that takes no time.
    pub takes_time: bool,
    pub family: usize,
    /// The step computes rows of this stream: it does not just wait for room.
    pub ready: bool,
    /// Seconds that the stream has had.
    pub consumed: f64,
    /// Seconds that a row of the step takes, as far as known.
    pub cost: f64,
}

/// State of the choice besides the streams.
#[derive(Default)]
pub(super) struct Chooser {
    /// Seconds of the least served recording when one was last chosen.
    served: f64,
    /// Seconds that live work owes the recordings.
    owed: f64,
}

impl Chooser {
    /// The index of the stream whose step runs next. Updates what recordings that come anew have had.
    pub fn choose<K: Copy>(&mut self, candidates: &mut [Candidate<K>]) -> Option<usize> {
        let urgent = |candidate: &Candidate<K>| candidate.priority != Priority::Offline;
        let soonest = |found: &[Candidate<K>], of: &dyn Fn(&Candidate<K>) -> bool| {
            let found = found.iter().enumerate().filter(|(_, candidate)| of(candidate));
            found.min_by_key(|(_, candidate)| (candidate.priority, candidate.due)).map(|(at, _)| at)
        };
        let free = soonest(candidates, &|candidate| !candidate.takes_time);
        let live = soonest(candidates, &urgent);
        for candidate in candidates.iter_mut().filter(|candidate| !urgent(candidate) && candidate.ready) {
            candidate.consumed = candidate.consumed.max(self.served);
        }
        let recordings = candidates.iter().filter(|candidate| !urgent(candidate));
        let next = recordings
            .clone()
            .filter(|candidate| candidate.ready)
            .min_by(|a, b| a.consumed.total_cmp(&b.consumed).then((a.due, a.slot).cmp(&(b.due, b.slot))));
        // One that waits for room only is the next where there is no other.
        let next = next.or_else(|| recordings.min_by_key(|candidate| (candidate.due, candidate.slot))).copied();
        let pays = next.is_some_and(|next| self.owed > next.cost);
        match (free, live, next) {
            (Some(free), ..) => Some(free),
            (None, Some(live), _) if !pays => Some(live),
            (None, live, None) => live,
            (None, _, Some(next)) => {
                self.served = self.served.max(next.consumed);
                soonest(candidates, &|candidate| !urgent(candidate) && candidate.family == next.family)
            }
        }
    }

    /// True if there is both live work and a recording's, so that the step of `slot` makes the other wait.
    pub fn forced<K>(&self, candidates: &[Candidate<K>], slot: usize) -> Option<Priority> {
        let of = |offline: bool| {
            candidates.iter().any(|other| other.takes_time && (other.priority == Priority::Offline) == offline)
        };
        let chosen = candidates.iter().find(|candidate| candidate.slot == slot)?;
        (of(true) && of(false)).then_some(chosen.priority)
    }

    /// Counts a step that took this long; `forced` as [`Chooser::forced`] said.
    pub fn ran(&mut self, forced: Option<Priority>, seconds: f64) {
        match forced {
            Some(Priority::Live | Priority::Speech | Priority::SecondPass) => {
                self.owed += seconds * OFFLINE_SHARE / (1.0 - OFFLINE_SHARE);
            }
            Some(Priority::Agent) => {
                self.owed += seconds * OFFLINE_SHARE_BESIDE_AGENTS / (1.0 - OFFLINE_SHARE_BESIDE_AGENTS);
            }
            // A long step is paid back over what follows.
            Some(Priority::Offline) => self.owed -= seconds,
            // Nothing waited.
            None => self.owed = self.owed.max(0.0),
        }
    }
}

/// The cost of a row of each kind of step, in seconds, learned from the steps.
pub(super) struct Costs<K>(HashMap<K, f64>);

impl<K> Default for Costs<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Costs<K> {
    /// The cost of a row so far.
    pub fn of(&self, key: K) -> Option<f64> {
        self.0.get(&key).copied()
    }

    /// Takes a step into account.
    pub fn learn(&mut self, key: K, row: f64) {
        let known = self.0.entry(key).or_insert(row);
        let weight = if row < *known { CHEAPER } else { DEARER };
        *known += weight * (row - *known);
    }

    /// Rows of a step, `most` at most and at least one, so that it takes no longer than `patience`.
    pub fn limit(&self, key: K, most: usize, patience: Option<Duration>) -> usize {
        let fitting =
            patience.zip(self.of(key)).map(|(patience, row)| (patience.as_secs_f64() / row.max(1e-9)) as usize);
        fitting.map_or(most, |fitting| most.min(fitting)).max(1)
    }
}
