//! Counts of kernel launches, from the hook that CubeCL calls before it submits a kernel.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use cubecl::config::{TypeNameFormatLevel, type_name_format};
use cubecl::logging::{LaunchObservation, LaunchObserver};

thread_local! {
    /// The launches of each kernel while this thread counts them.
    static COUNTS: RefCell<Option<BTreeMap<&'static str, usize>>> = const { RefCell::new(None) };
}

/// Adds each launch to the counts of the thread that issues it.
struct ThreadCounter;

impl LaunchObserver for ThreadCounter {
    fn launched(&self, kernel: &'static str) {
        COUNTS.with_borrow_mut(|counts| {
            if let Some(counts) = counts {
                *counts.entry(kernel).or_default() += 1;
            }
        });
    }
}

/// The kernels that a piece of work launched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launches {
    kernels: BTreeMap<String, usize>,
}

impl Launches {
    /// All launches.
    pub fn total(&self) -> usize {
        self.kernels.values().sum()
    }

    /// The launches of each kernel by its name, most first.
    pub fn by_kernel(&self) -> Vec<(&str, usize)> {
        let mut kernels: Vec<_> = self.kernels.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        kernels.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        kernels
    }

    /// The launches that `other` has not.
    pub fn beyond(&self, other: &Self) -> Self {
        let kernels = self.kernels.iter().filter_map(|(name, count)| {
            let more = count.saturating_sub(other.kernels.get(name).copied().unwrap_or_default());
            (more > 0).then(|| (name.clone(), more))
        });
        Self { kernels: kernels.collect() }
    }
}

/// Runs `work` and counts the kernels that this thread launches meanwhile. Work on the CPU launches none.
///
/// Other threads may count at the same time: a launch belongs to the thread that issues it. Counts do not nest: the inner one
/// takes its launches from the outer one.
pub fn count<R>(work: impl FnOnce() -> R) -> (R, Launches) {
    // CubeCL has one place for an observer, so that one observer serves all threads and stays.
    static OBSERVATION: OnceLock<LaunchObservation> = OnceLock::new();
    OBSERVATION.get_or_init(|| LaunchObservation::new(Arc::new(ThreadCounter)));
    let outer = COUNTS.replace(Some(BTreeMap::new()));
    let result = work();
    let counts = COUNTS.replace(outer).unwrap_or_default();
    let mut kernels = BTreeMap::new();
    for (name, count) in counts {
        *kernels.entry(type_name_format(name, TypeNameFormatLevel::Balanced)).or_default() += count;
    }
    (result, Launches { kernels })
}
