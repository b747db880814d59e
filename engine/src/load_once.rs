//! Values that are read from files once, and forgotten when others need their memory.
//!
//! Each device has values of its own. All count against one limit, each by the bytes that it takes at most. A value is in use while
//! somebody else holds it, and then it stays; of the others, the one that was last asked for longest ago goes first.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::error::{Error, Result};
use crate::memory;

/// Memory that is left free for what the models compute: this part of the machine's, and at most so many bytes.
const RESERVE_PART: u64 = 16;
const MAX_RESERVE: u64 = 256 << 20;

/// A value that is read from files.
pub(crate) trait Loaded: Send + Sync + 'static {
    /// True if a part of it is in use without the whole.
    fn has_part_in_use(&self) -> bool {
        false
    }
}

type AnyValue = Arc<dyn Any + Send + Sync>;

/// The value of one path, once it has been read. The lock is held while it is read.
type Slot = Arc<Mutex<Option<AnyValue>>>;

/// A type, a place and a path.
type Key = (TypeId, usize, PathBuf);

struct Entry {
    slot: Slot,
    /// Bytes that the value takes or, while it is read, will take.
    bytes: u64,
    /// Number of the call that last asked for it.
    asked: u64,
    is_in_use: fn(&AnyValue) -> bool,
}

/// The bytes of a value that nobody uses, and its place.
type IdleValue<'a> = (&'a mut u64, MutexGuard<'a, Option<AnyValue>>);

#[derive(Default)]
struct Entries {
    by_key: BTreeMap<Key, Entry>,
    calls: u64,
}

/// The values of all places.
struct AllFiles {
    limit: u64,
    reserve: u64,
    /// Free memory of the machine, bytes.
    available: fn() -> Option<u64>,
    entries: Mutex<Entries>,
    /// Places that there have been.
    places: AtomicUsize,
}

/// Values read from files for one place, a device say, by type and path. No file is read twice for it, and none waits for another.
/// Dropped, it forgets them.
pub(crate) struct LoadedFiles {
    all: Arc<AllFiles>,
    place: usize,
}

fn is_in_use<T: Loaded>(value: &AnyValue) -> bool {
    Arc::strong_count(value) > 1 || value.downcast_ref::<T>().is_some_and(T::has_part_in_use)
}

impl LoadedFiles {
    /// No values yet; those to come take at most `limit` bytes together.
    pub fn new(limit: u64) -> Self {
        let reserve = memory::total().map_or(MAX_RESERVE, |total| MAX_RESERVE.min(total / RESERVE_PART));
        Self::with(AllFiles {
            limit,
            reserve,
            available: memory::available,
            entries: Mutex::default(),
            places: AtomicUsize::new(1),
        })
    }

    fn with(all: AllFiles) -> Self {
        Self { all: Arc::new(all), place: 0 }
    }

    /// No values yet, for another place; they count against the same limit.
    pub fn at_another_place(&self) -> Self {
        Self { all: self.all.clone(), place: self.all.places.fetch_add(1, Ordering::Relaxed) }
    }

    fn key<T: Loaded>(&self, path: &Path) -> Key {
        (TypeId::of::<T>(), self.place, path.to_path_buf())
    }

    /// The value of `path`, which takes at most `bytes`: reads it if it is not there. Values that nobody uses may go for it.
    ///
    /// # Errors
    /// [`Error::Busy`] where values in use leave no room for it; where none is in use, a value larger than the limit is read all the
    /// same. Those of `read`: a file that could not be read is read again by the next caller.
    pub fn get<T: Loaded>(
        &self,
        path: &Path,
        bytes: impl FnOnce() -> u64,
        read: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let key = self.key::<T>(path);
        let slot = self.entries().ask(&key, is_in_use::<T>);
        // Held to the end, so that the value counts as in use.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let value = match slot.as_ref() {
            Some(found) => {
                let found = found.clone();
                self.make_room(&key, 0)?;
                found
            }
            None => {
                self.make_room(&key, bytes().max(1))?;
                let read = read().inspect_err(|_| self.entries().set_bytes(&key, 0))?;
                let value: AnyValue = Arc::new(read);
                *slot = Some(value.clone());
                self.report();
                value
            }
        };
        value.downcast().map_err(|_| Error::internal("a value of another type than its key"))
    }

    /// True if the file was read as a `T`. Waits while it is being read.
    pub fn contains<T: Loaded>(&self, path: &Path) -> bool {
        let slot = self.entries().by_key.get(&self.key::<T>(path)).map(|entry| entry.slot.clone());
        slot.is_some_and(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).is_some())
    }

    /// The paths of the values of all places, in their order, and the bytes that each takes at most.
    pub fn sizes(&self) -> Vec<(PathBuf, u64)> {
        let entries = self.entries();
        let there = entries.by_key.iter().filter(|(_, entry)| entry.bytes > 0);
        let mut sizes: Vec<_> = there.map(|((.., path), entry)| (path.clone(), entry.bytes)).collect();
        sizes.sort();
        sizes
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.all.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets values that nobody uses until `bytes` more fit the limit and the free memory, and counts these for `key`. Without any
    /// more, it does so only while memory is short.
    ///
    /// # Errors
    /// As [`LoadedFiles::get`].
    fn make_room(&self, key: &Key, bytes: u64) -> Result<()> {
        let free = (self.all.available)().unwrap_or(u64::MAX);
        let missing = (bytes + self.all.reserve).saturating_sub(free);
        let forgotten = {
            let mut entries = self.entries();
            let total = entries.by_key.values().map(|entry| entry.bytes).sum::<u64>();
            let over = if bytes > 0 { (total + bytes).saturating_sub(self.all.limit) } else { 0 };
            let idle = entries.idle(key, over.max(missing));
            let stays = total - idle.iter().map(|(bytes, _)| **bytes).sum::<u64>();
            if over > 0 && stays > 0 && stays + bytes > self.all.limit {
                let [stays, limit, bytes] = [stays, self.all.limit, bytes].map(|bytes| bytes as f64 / 1e9);
                return Err(Error::Busy(format!(
                    "{} needs {bytes:.2} GB; models in use take {stays:.2} of the {limit:.2} GB that all may take; \
                     try again later, or allow models more memory",
                    key.2.display(),
                )));
            }
            let forget = |(bytes, mut value): IdleValue<'_>| {
                *bytes = 0;
                value.take()
            };
            let forgotten: Vec<AnyValue> = idle.into_iter().filter_map(forget).collect();
            if bytes > 0 {
                entries.set_bytes(key, bytes);
            }
            forgotten
        };
        if !forgotten.is_empty() {
            metrics::counter!("auricle_models_unloaded_total").increment(forgotten.len() as u64);
            // Their memory is free before more is taken.
            drop(forgotten);
            self.report();
        }
        Ok(())
    }

    fn report(&self) {
        let sizes = self.sizes();
        metrics::gauge!("auricle_models_loaded").set(sizes.len() as f64);
        metrics::gauge!("auricle_model_bytes").set(sizes.iter().map(|(_, bytes)| *bytes).sum::<u64>() as f64);
    }
}

impl Drop for LoadedFiles {
    fn drop(&mut self) {
        let own: BTreeMap<Key, Entry> = {
            let mut entries = self.entries();
            let all = std::mem::take(&mut entries.by_key);
            let (own, others) = all.into_iter().partition(|((_, place, _), _)| *place == self.place);
            entries.by_key = others;
            own
        };
        // A value in use goes with its last user.
        drop(own);
        self.report();
    }
}

impl Entries {
    /// The slot of a value that is asked for.
    fn ask(&mut self, key: &Key, is_in_use: fn(&AnyValue) -> bool) -> Slot {
        self.calls += 1;
        let asked = self.calls;
        let new = || Entry { slot: Slot::default(), bytes: 0, asked, is_in_use };
        let entry = self.by_key.entry(key.clone()).or_insert_with(new);
        entry.asked = asked;
        entry.slot.clone()
    }

    fn set_bytes(&mut self, key: &Key, bytes: u64) {
        if let Some(entry) = self.by_key.get_mut(key) {
            entry.bytes = bytes;
        }
    }

    /// Values but that of `key` that nobody uses, with their bytes, until these are `needed`.
    fn idle(&mut self, key: &Key, needed: u64) -> Vec<IdleValue<'_>> {
        let others = self.by_key.iter_mut().filter(|(other, entry)| *other != key && entry.bytes > 0);
        let mut others: Vec<&mut Entry> = others.map(|(_, entry)| entry).collect();
        others.sort_by_key(|entry| entry.asked);
        let (mut idle, mut found) = (Vec::new(), 0);
        for Entry { slot, bytes, is_in_use, .. } in others {
            if found >= needed {
                break;
            }
            let value = match slot.try_lock() {
                Ok(value) => value,
                // Its reader panicked, and so its bytes were never taken.
                Err(TryLockError::Poisoned(value)) => value.into_inner(),
                // One that is being read, or asked for at this moment, is in use.
                Err(TryLockError::WouldBlock) => continue,
            };
            if value.as_ref().is_none_or(|value| !is_in_use(value)) {
                found += *bytes;
                idle.push((bytes, value));
            }
        }
        idle
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    impl Loaded for i32 {}

    /// Has a part that may be held alone.
    struct Whole(Arc<u8>);

    impl Loaded for Whole {
        fn has_part_in_use(&self) -> bool {
            Arc::strong_count(&self.0) > 1
        }
    }

    fn loaded(limit: u64, available: fn() -> Option<u64>) -> LoadedFiles {
        let (entries, places) = (Mutex::default(), AtomicUsize::new(1));
        LoadedFiles::with(AllFiles { limit, reserve: 10, available, entries, places })
    }

    /// Asks for a value of 40 bytes; true if it was read.
    fn reads(loaded: &LoadedFiles, path: &str) -> bool {
        let mut read = false;
        let value = loaded.get(
            Path::new(path),
            || 40,
            || {
                read = true;
                Ok(1)
            },
        );
        assert_eq!(*value.unwrap(), 1);
        read
    }

    fn paths(loaded: &LoadedFiles) -> Vec<String> {
        loaded.sizes().into_iter().map(|(path, _)| path.display().to_string()).collect()
    }

    #[test]
    fn a_file_that_is_read_slowly_delays_no_other_and_is_read_once() {
        let (loaded, reads) = (loaded(1000, || None), AtomicUsize::new(0));
        let (go, wait) = channel();
        let (begun, beginning) = channel();
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| {
                loaded.get(
                    Path::new("slow"),
                    || 1,
                    || {
                        let wait = wait;
                        reads.fetch_add(1, Ordering::SeqCst);
                        begun.send(()).unwrap();
                        // The other file has been read by then.
                        wait.recv_timeout(Duration::from_secs(20)).map_err(|_| Error::Canceled)?;
                        Ok(1)
                    },
                )
            });
            beginning.recv().unwrap();
            let again = scope.spawn(|| loaded.get::<i32>(Path::new("slow"), || 1, || Err(Error::Canceled)));
            assert_eq!(*loaded.get(Path::new("other"), || 1, || Ok(2)).unwrap(), 2);
            go.send(()).unwrap();
            assert_eq!((*slow.join().unwrap().unwrap(), *again.join().unwrap().unwrap()), (1, 1));
        });
        assert_eq!(reads.load(Ordering::SeqCst), 1);
        let contains = |path: &str| loaded.contains::<i32>(Path::new(path));
        assert!(contains("slow") && !contains("bad") && !loaded.contains::<Whole>(Path::new("slow")));
    }

    #[test]
    fn a_file_that_could_not_be_read_is_read_again_and_takes_no_room() {
        let loaded = loaded(100, || None);
        assert!(loaded.get::<i32>(Path::new("bad"), || 100, || Err(Error::Canceled)).is_err());
        assert!(!loaded.contains::<i32>(Path::new("bad")) && loaded.sizes().is_empty());
        assert_eq!(*loaded.get(Path::new("bad"), || 100, || Ok(3)).unwrap(), 3);
    }

    #[test]
    fn a_reader_that_panicked_takes_no_room_from_others() {
        let loaded = loaded(100, || None);
        let held = loaded.get(Path::new("held"), || 40, || Ok(1)).unwrap();
        let ask = || loaded.get::<i32>(Path::new("bad"), || 50, || panic!("as wanted"));
        assert!(catch_unwind(AssertUnwindSafe(ask)).is_err());
        assert!(reads(&loaded, "a"));
        assert_eq!(paths(&loaded), ["a", "held"]);
        drop(held);
    }

    #[test]
    fn the_value_that_was_asked_for_longest_ago_goes_for_another() {
        let loaded = loaded(100, || None);
        assert!(reads(&loaded, "a") && reads(&loaded, "b"));
        assert!(!reads(&loaded, "a"), "both fit");
        assert!(reads(&loaded, "c"));
        assert_eq!(paths(&loaded), ["a", "c"]);
        assert!(reads(&loaded, "b"), "it is read again");
        assert_eq!(paths(&loaded), ["b", "c"]);
    }

    #[test]
    fn a_value_in_use_stays_and_without_room_beside_it_none_is_read() {
        let loaded = loaded(100, || None);
        let held = loaded.get(Path::new("held"), || 40, || Ok(1)).unwrap();
        let whole = loaded.get(Path::new("whole"), || 40, || Ok(Whole(Arc::new(1)))).unwrap();
        let part = whole.0.clone();
        drop(whole);
        let refused = loaded.get::<i32>(Path::new("c"), || 40, || panic!("it does not fit"));
        assert!(matches!(&refused, Err(Error::Busy(why)) if why.contains("c needs")), "{refused:?}");
        assert_eq!(paths(&loaded), ["held", "whole"]);
        drop(part);
        assert!(reads(&loaded, "c"));
        assert_eq!(paths(&loaded), ["c", "held"]);
        // A value that does not fit drives nothing out.
        assert!(loaded.get::<i32>(Path::new("large"), || 70, || panic!("it does not fit")).is_err());
        assert_eq!(paths(&loaded), ["c", "held"]);
        drop(held);
        assert_eq!(*loaded.get(Path::new("larger than all"), || 200, || Ok(7)).unwrap(), 7);
        assert_eq!(paths(&loaded), ["larger than all"]);
    }

    #[test]
    fn each_place_reads_a_file_of_its_own_and_takes_it_along() {
        let one = loaded(100, || None);
        let two = one.at_another_place();
        assert!(reads(&one, "a") && reads(&two, "a") && !reads(&one, "a"));
        assert_eq!(paths(&one), ["a", "a"]);
        assert!(reads(&two, "b"), "the limit is that of both");
        assert_eq!(paths(&one), ["a", "b"]);
        drop(two);
        assert_eq!(paths(&one), ["a"]);
    }

    #[test]
    fn where_memory_is_short_values_go_that_nobody_uses() {
        static FREE: AtomicUsize = AtomicUsize::new(1000);
        let loaded = loaded(1000, || Some(FREE.load(Ordering::SeqCst) as u64));
        let held = loaded.get(Path::new("held"), || 40, || Ok(1)).unwrap();
        assert!(["a", "b", "c"].iter().all(|path| reads(&loaded, path)));
        FREE.store(45, Ordering::SeqCst);
        assert!(reads(&loaded, "d"), "5 bytes are missing beside the reserve");
        assert_eq!(paths(&loaded), ["b", "c", "d", "held"]);
        FREE.store(9, Ordering::SeqCst);
        assert!(!reads(&loaded, "d"));
        assert_eq!(paths(&loaded), ["c", "d", "held"]);
        FREE.store(0, Ordering::SeqCst);
        assert!(reads(&loaded, "e"), "memory that is measured only makes room");
        assert_eq!(paths(&loaded), ["e", "held"]);
        drop(held);
    }
}
