//! Headers of safetensors files, and the index of one in shards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use safetensors::tensor::Metadata;

use crate::error::{Error, Result};

/// Longest header that is accepted: the format's own limit.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Opens a safetensors file; gives its header and where its data begin.
pub(super) fn open_file(path: &Path) -> Result<(File, Metadata, u64)> {
    let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
    let mut file = File::open(path).map_err(|e| bad(format!("cannot open: {e}")))?;
    let file_bytes = file.metadata().map_err(|e| bad(e.to_string()))?.len();
    let mut length = [0u8; 8];
    file.read_exact(&mut length).map_err(|_| bad("not a safetensors file: shorter than its header".into()))?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > MAX_HEADER_BYTES || header_bytes + 8 > file_bytes {
        return Err(bad("not a safetensors file, or a truncated one".into()));
    }
    let mut header = Vec::new();
    file.by_ref().take(header_bytes).read_to_end(&mut header).map_err(|e| bad(e.to_string()))?;
    let metadata: Metadata = serde_json::from_slice(&header).map_err(|e| bad(format!("bad header: {e}")))?;
    Ok((file, metadata, header_bytes + 8))
}

/// The distinct shard files of an index, in name order.
pub(super) fn shards(index: &Path) -> Result<BTreeSet<String>> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let bad = |reason: String| Error::Checkpoint { path: index.to_path_buf(), reason };
    let text = std::fs::read_to_string(index).map_err(|e| bad(e.to_string()))?;
    let index: Index = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
    let shards: BTreeSet<String> = index.weight_map.into_values().collect();
    match shards.iter().find(|name| Path::new(name).components().count() != 1) {
        Some(name) => Err(bad(format!("shard {name} lies outside the folder"))),
        None => Ok(shards),
    }
}
