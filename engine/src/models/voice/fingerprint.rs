//! The fingerprint of an embedding: directions of different weights cannot be compared.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// FNV-1a, 64 bits. A fingerprint tells checkpoints apart, and proves nothing.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The fingerprint of a folder's checkpoint: 16 hexadecimal digits of its `config.json` and weights.
///
/// # Errors
/// [`Error::Checkpoint`] when a file cannot be read.
pub fn fingerprint(dir: &Path) -> Result<String> {
    let unread = |path: &Path, error: std::io::Error| Error::Checkpoint {
        path: path.to_path_buf(),
        reason: format!("cannot read: {error}"),
    };
    let is_weights = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("model") && name.ends_with(".safetensors")
    };
    let files = std::fs::read_dir(dir).map_err(|error| unread(dir, error))?;
    let mut paths: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).filter(is_weights).collect();
    paths.sort();
    paths.insert(0, dir.join("config.json"));
    let mut hash = OFFSET;
    for path in paths {
        let failed = |error| unread(&path, error);
        let mut file = File::open(&path).map_err(failed)?;
        let mut part = vec![0; 1 << 16];
        loop {
            let count = file.read(&mut part).map_err(failed)?;
            if count == 0 {
                break;
            }
            hash = part[..count].iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
        }
    }
    Ok(format!("{hash:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_weights_have_another_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert!(fingerprint(folder.path()).unwrap_err().to_string().contains("config.json"));
        write("config.json", "foo");
        write("model.safetensors", "bar");
        // FNV-1a of "foobar", as its authors list it.
        assert_eq!(fingerprint(folder.path()).unwrap(), "85944171f73967e8");
        write("model.safetensors", "baz");
        assert_ne!(fingerprint(folder.path()).unwrap(), "85944171f73967e8");
    }
}
