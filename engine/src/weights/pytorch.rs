//! Files of `torch.save`: an archive of stored records, one of them a pickle that names tensors, the others their values.
//!
//! Of a pickle only what state dictionaries consist of is read. Nothing in it is called: a name that is not known is an error.

mod archive;
mod pickle;

use std::fs::File;
use std::path::Path;
use std::rc::Rc;

use safetensors::Dtype;

use archive::Archive;
use pickle::{Pickle, Tensor, Value};

/// Longest pickle that is accepted: one of a thousand tensors has 100 KB.
const MAX_PICKLE_BYTES: u64 = 8 << 20;
/// Most entries of all dictionaries.
const MAX_ENTRIES: usize = 100_000;
/// Dictionaries in dictionaries at most.
const MAX_DEPTH: usize = 8;

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPlace {
    /// The keys of the dictionaries that it is in, joined with dots; empty for a file that is one tensor.
    pub name: String,
    /// Type of its values.
    pub dtype: Dtype,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// First byte in the file.
    pub start: u64,
    /// Length in the file.
    pub bytes: usize,
}

/// The tensors of a file, and the file.
///
/// # Errors
/// The fault of the file.
pub fn open(path: &Path) -> Result<(File, Vec<TensorPlace>), String> {
    let mut file = File::open(path).map_err(|e| format!("cannot open: {e}"))?;
    let mut archive = Archive::read(&mut file)?;
    let record = archive.find("data.pkl").ok_or("there is no data.pkl in it: torch.save writes one")?;
    if record.bytes > MAX_PICKLE_BYTES {
        return Err(format!("its data.pkl has {} bytes", record.bytes));
    }
    let folder = record.name.trim_end_matches("data.pkl").to_owned();
    let pickle = archive.contents(&record)?;
    if let Some(order) = archive.named(&format!("{folder}byteorder"))
        && order.bytes <= 16
        && archive.contents(&order)? != b"little"
    {
        return Err("its values are not in little-endian order".into());
    }
    let mut places = Vec::new();
    for (name, tensor) in tensors(&pickle::read(&pickle)?)? {
        let wrong = |reason: String| format!("tensor {name:?} {reason}");
        let count = tensor.shape.iter().try_fold(1usize, |count, size| count.checked_mul(*size));
        let width = tensor.dtype.bitsize() / 8;
        let end = count.and_then(|count| count.checked_add(tensor.offset)?.checked_mul(width));
        let (Some(count), Some(end)) = (count, end) else { return Err(wrong("has no size".into())) };
        if !tensor.is_contiguous() {
            return Err(wrong(format!("is a view with strides {:?}", tensor.strides)));
        }
        let storage = archive.named(&format!("{folder}data/{}", tensor.key));
        let storage = storage.ok_or_else(|| wrong("has no values in the file".into()))?;
        if end as u64 > storage.bytes {
            return Err(wrong(format!("ends past the {} bytes of its record", storage.bytes)));
        }
        let start = archive.start(&storage)? + (tensor.offset * width) as u64;
        let (dtype, shape) = (tensor.dtype, tensor.shape.clone());
        places.push(TensorPlace { name, dtype, shape, start, bytes: count * width });
    }
    Ok((file, places))
}

/// The tensors of dictionaries in dictionaries, by their keys joined with dots; what is neither is left out.
fn tensors(pickle: &Pickle) -> Result<Vec<(String, Rc<Tensor>)>, String> {
    let mut found = Vec::new();
    let mut left = vec![(String::new(), &pickle.root, 0)];
    let mut entries = 0;
    while let Some((name, value, depth)) = left.pop() {
        match value {
            Value::Tensor(tensor) => found.push((name, tensor.clone())),
            Value::Dictionary(_) if depth >= MAX_DEPTH => {
                return Err(format!("its dictionaries are nested more than {MAX_DEPTH} deep"));
            }
            Value::Dictionary(at) => {
                for [key, value] in pickle.containers[*at].as_chunks::<2>().0 {
                    let Value::Text(key) = key else { continue };
                    let name = if name.is_empty() { key.to_string() } else { format!("{name}.{key}") };
                    left.push((name, value, depth + 1));
                    entries += 1;
                    if entries > MAX_ENTRIES {
                        return Err(format!("its dictionaries have more than {MAX_ENTRIES} entries"));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(found)
}
