//! A folder of speech with its reference texts.

use std::io;
use std::path::{Path, PathBuf};

/// One audio file and the text that is spoken in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Path of the audio file.
    pub path: PathBuf,
    /// Name of the audio file, as `refs.tsv` has it.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Reads the references of `folder`: the lines of its `refs.tsv`, a file name, a tab and a text each.
///
/// # Errors
/// When `refs.tsv` cannot be read or has no such line.
pub fn references(folder: &Path) -> io::Result<Vec<Reference>> {
    let path = folder.join("refs.tsv");
    let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()));
    let lines = std::fs::read_to_string(&path).map_err(named)?;
    let references: Vec<Reference> = lines
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, text)| Reference { path: folder.join(name), name: name.to_owned(), text: text.to_owned() })
        .collect();
    if references.is_empty() {
        let reason = format!("{} has no line with a file name, a tab and a text", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(references)
}
