//! GGUF in shards, as llama.cpp names and marks them: `model-00001-of-00003.gguf` and so on; each holds its number, and
//! the first all other metadata.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Value;

const COUNT: &str = "split.count";
const NUMBER: &str = "split.no";

/// A shard that belongs to the first.
pub(super) struct Sibling {
    pub path: PathBuf,
    /// Counted from 0.
    number: i64,
    count: i64,
}

fn integer(metadata: &BTreeMap<String, Value>, key: &str) -> Option<i64> {
    match metadata.get(key) {
        Some(Value::Integer(value)) => Some(*value),
        _ => None,
    }
}

/// The number of tensors of all shards together, where the first states it.
pub(super) fn tensors(metadata: &BTreeMap<String, Value>) -> Option<i64> {
    integer(metadata, "split.tensors.count")
}

/// The name of a shard, counted from 1.
fn name(stem: &str, number: i64, count: i64) -> String {
    format!("{stem}-{number:05}-of-{count:05}.gguf")
}

/// The name without the end that its number and count give.
fn stem(path: &Path, number: i64, count: i64) -> Option<&str> {
    path.file_name()?.to_str()?.strip_suffix(&name("", number, count))
}

/// The shards after a first one, none for a file that is whole.
///
/// # Errors
/// The fault of a file that is another shard, or has no name of a shard.
pub(super) fn siblings(path: &Path, metadata: &BTreeMap<String, Value>) -> Result<Vec<Sibling>, String> {
    let count = integer(metadata, COUNT).unwrap_or(1);
    if count <= 1 {
        return Ok(Vec::new());
    }
    let number = integer(metadata, NUMBER).unwrap_or(0);
    if !(0..count).contains(&number) {
        return Err(format!("it says that it is shard {} of {count}", number.saturating_add(1)));
    }
    let Some(stem) = stem(path, number + 1, count) else {
        return Err(format!("shard {} of {count} is named {}", number + 1, name("NAME", number + 1, count)));
    };
    if number != 0 {
        return Err(format!("shard {} of {count}; name the first one, {}", number + 1, name(stem, 1, count)));
    }
    let sibling = |number: i64| {
        let path = path.with_file_name(name(stem, number + 1, count));
        // Before any is opened, and one at a time: the count is not trusted.
        match path.is_file() {
            true => Ok(Sibling { path, number, count }),
            false => Err(format!("shard {} of {count} is missing: {}", number + 1, path.display())),
        }
    };
    (1..count).map(sibling).collect()
}

impl Sibling {
    /// Checks that the file is the shard that its name states.
    ///
    /// # Errors
    /// The fault.
    pub fn check(&self, metadata: &BTreeMap<String, Value>) -> Result<(), String> {
        let found = (integer(metadata, NUMBER), integer(metadata, COUNT));
        match found == (Some(self.number), Some(self.count)) {
            true => Ok(()),
            false => Err(format!("it is not shard {} of {}, as its name has it", self.number + 1, self.count)),
        }
    }
}

/// The first shard of a folder's `model.gguf` that is in several, if there is one.
pub fn first_of_model(dir: &Path) -> Option<PathBuf> {
    let names = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.file_name());
    let is_first = |name: &str| {
        let count = name.strip_prefix("model-00001-of-").and_then(|rest| rest.strip_suffix(".gguf"));
        count.is_some_and(|count| count.len() == 5 && count.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let mut firsts: Vec<PathBuf> =
        names.filter(|name| name.to_str().is_some_and(is_first)).map(|name| dir.join(name)).collect();
    firsts.sort();
    firsts.pop()
}

/// True for a shard other than the first, by its name.
pub fn is_later_shard(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".gguf"));
    let parts = name.and_then(|name| name.rsplit_once("-of-")).and_then(|(rest, count)| {
        let (_, number) = rest.rsplit_once('-')?;
        Some((number.parse::<u32>().ok()?, count.parse::<u32>().ok()?))
    });
    parts.is_some_and(|(number, count)| (2..=count).contains(&number))
}
