//! A small file system in memory that a test fills up.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::guard::CleanupGuard;
use crate::optional::skip;

/// A small file system, mounted until it is dropped.
pub struct SmallDisk {
    at: PathBuf,
    guard: Option<CleanupGuard>,
}

impl SmallDisk {
    /// Mounts a file system on an empty folder. None, with a note, without the right to mount.
    pub fn mount(at: &Path, megabytes: usize) -> Option<Self> {
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(at).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            skip("a small file system (mount it as root)");
            return None;
        }
        let guard = CleanupGuard::new("umount -l \"$1\"", &[at.to_str().expect("UTF-8")]);
        Some(Self { at: at.to_owned(), guard: Some(guard) })
    }

    fn ballast(&self) -> PathBuf {
        self.at.join("ballast")
    }

    /// Fills the file system to the last byte.
    pub fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.ballast()).expect("the ballast");
        let zeros = vec![0; 1 << 16];
        let mut size = zeros.len();
        while size > 0 {
            if file.write_all(&zeros[..size]).is_err() {
                size /= 2;
            }
        }
    }

    /// Frees the space that [`SmallDisk::fill`] took.
    pub fn free(&self) {
        fs::remove_file(self.ballast()).expect("the ballast goes");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}
