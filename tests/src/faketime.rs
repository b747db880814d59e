//! A system clock that a test sets: libfaketime, preloaded into the program.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::optional::skip;

/// Paths of the library on Debian and Fedora.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

/// The clock of the programs that are started with its environment.
pub struct Clock {
    folder: TempDir,
    library: &'static str,
}

impl Clock {
    /// A clock without an offset. None, with a note, where the library is missing.
    pub fn new() -> Option<Self> {
        let Some(library) = LIBRARIES.into_iter().find(|library| Path::new(library).exists()) else {
            skip("libfaketime not found (Debian: apt-get install faketime)");
            return None;
        };
        let clock = Self { folder: tempfile::tempdir().expect("a temporary folder"), library };
        clock.set("+0");
        Some(clock)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("clock")
    }

    /// Sets the offset from the real time, such as `-6h`.
    pub fn set(&self, offset: &str) {
        // Renamed into place, so that a program never reads half a file.
        let next = self.folder.path().join("next");
        std::fs::write(&next, offset).expect("the clock is set");
        std::fs::rename(next, self.file()).expect("the clock is set");
    }

    /// The environment that preloads the clock into a program.
    pub fn environment(&self) -> [(&'static str, String); 5] {
        let file = self.file().to_str().expect("UTF-8").to_owned();
        [
            ("LD_PRELOAD", self.library.into()),
            ("FAKETIME_TIMESTAMP_FILE", file),
            ("FAKETIME_NO_CACHE", "1".into()),
            // Durations are measured with the monotonic clock, which stays real.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ("NO_FAKE_STAT", "1".into()),
        ]
    }
}
