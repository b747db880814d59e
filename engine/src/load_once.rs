//! Values that are read from files once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;

/// The value of one path, once it has been read. The lock is held while it is read.
type Slot<T> = Arc<Mutex<Option<Arc<T>>>>;

/// Values read from files, by path. No file is read twice, and none waits for another.
#[derive(Debug)]
pub(crate) struct LoadedFiles<T>(Mutex<BTreeMap<PathBuf, Slot<T>>>);

impl<T> Default for LoadedFiles<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> LoadedFiles<T> {
    /// The value of `path`: reads it if it was not read before.
    ///
    /// # Errors
    /// Those of `read`. A file that could not be read is read again by the next caller.
    pub fn get(&self, path: &Path, read: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(path.to_path_buf()).or_default().clone();
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = slot.as_ref() {
            return Ok(found.clone());
        }
        let found = Arc::new(read()?);
        *slot = Some(found.clone());
        Ok(found)
    }

    /// True if the file was read. Waits while it is being read.
    pub fn contains(&self, path: &Path) -> bool {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        slot.is_some_and(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::error::Error;

    #[test]
    fn a_file_that_is_read_slowly_delays_no_other_and_is_read_once() {
        let (loaded, reads) = (LoadedFiles::default(), AtomicUsize::new(0));
        let (go, wait) = channel();
        let (begun, beginning) = channel();
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| {
                loaded.get(Path::new("slow"), || {
                    let wait = wait;
                    reads.fetch_add(1, Ordering::SeqCst);
                    begun.send(()).unwrap();
                    // The other file has been read by then.
                    wait.recv_timeout(Duration::from_secs(20)).map_err(|_| Error::Canceled)?;
                    Ok(1)
                })
            });
            beginning.recv().unwrap();
            let again = scope.spawn(|| loaded.get(Path::new("slow"), || Err(Error::Canceled)));
            assert_eq!(*loaded.get(Path::new("other"), || Ok(2)).unwrap(), 2);
            go.send(()).unwrap();
            assert_eq!((*slow.join().unwrap().unwrap(), *again.join().unwrap().unwrap()), (1, 1));
        });
        assert_eq!(reads.load(Ordering::SeqCst), 1);
        assert!(loaded.contains(Path::new("slow")) && !loaded.contains(Path::new("bad")));
    }

    #[test]
    fn a_file_that_could_not_be_read_is_read_again() {
        let loaded = LoadedFiles::default();
        assert!(loaded.get(Path::new("bad"), || Err(Error::Canceled)).is_err());
        assert!(!loaded.contains(Path::new("bad")));
        assert_eq!(*loaded.get(Path::new("bad"), || Ok(3)).unwrap(), 3);
    }
}
