//! GGUF, a file of metadata and quantised tensors, versions 2 and 3.
//!
//! The file is not trusted: every length is compared with the rest of the file before anything is
//! allocated, and what this reader does not know is an error.

pub mod shards;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::bounded::Bounded;
pub use super::gguf_blocks::{BlockType, Run};
use super::stored::{Stored, StoredTensor};
use crate::error::{Error, Result};

/// Longest header that is accepted: many times that of the largest vocabulary.
const MAX_HEADER_BYTES: u64 = 256 << 20;
/// Boundary that tensors begin at when the file names none.
const DEFAULT_ALIGNMENT: u64 = 32;
const MAX_DIMENSIONS: usize = 4;

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// Any integer type.
    Integer(i64),
    /// Any float type.
    Float(f64),
    /// A string.
    Text(String),
    /// An array of bools or of integers.
    Integers(Vec<i64>),
    /// An array of floats.
    Floats(Vec<f64>),
    /// An array of strings.
    Texts(Vec<String>),
}

/// Place and type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Row-major: the last dimension is contiguous, and blocks lie along it.
    pub shape: Vec<usize>,
    /// The stored type.
    pub kind: BlockType,
    /// Which of the files, counted from 0.
    file: usize,
    /// First byte in the file.
    start: u64,
    bytes: usize,
}

/// An open file, or one in shards, whose tensors are read one at a time.
pub struct Gguf {
    path: PathBuf,
    files: Vec<RefCell<File>>,
    metadata: BTreeMap<String, Value>,
    tensors: BTreeMap<String, TensorInfo>,
}

impl Gguf {
    /// Reads the header of a file, and those of its siblings where it is the first of several shards.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is not a GGUF file, is cut short, has a type that is not supported, is a shard other than the first,
    /// or another shard is missing.
    pub fn open(path: &Path) -> Result<Self> {
        let mut first = Self::open_one(path)?;
        let bad = |path: &Path, reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
        let siblings = shards::siblings(path, &first.metadata).map_err(|reason| bad(path, reason))?;
        let wanted = shards::tensors(&first.metadata).filter(|_| !siblings.is_empty());
        for sibling in siblings {
            let Self { files, metadata, tensors, .. } = Self::open_one(&sibling.path)?;
            sibling.check(&metadata).map_err(|reason| bad(&sibling.path, reason))?;
            for (name, info) in tensors {
                let info = TensorInfo { file: first.files.len(), ..info };
                if first.tensors.insert(name.clone(), info).is_some() {
                    return Err(bad(&sibling.path, format!("tensor {name} is in two shards")));
                }
            }
            first.files.extend(files);
        }
        match wanted.filter(|wanted| *wanted != first.tensors.len() as i64) {
            Some(wanted) => {
                let found = first.tensors.len();
                Err(bad(path, format!("the shards have {found} tensors together; the first one counts {wanted}")))
            }
            None => Ok(first),
        }
    }

    /// As [`Gguf::open`] of a file alone, without its siblings.
    pub(super) fn open_one(path: &Path) -> Result<Self> {
        let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
        let file = File::open(path).map_err(|error| bad(format!("cannot open: {error}")))?;
        let file_bytes = file.metadata().map_err(|error| bad(error.to_string()))?.len();
        let (metadata, tensors) = Header::read(&file, file_bytes).map_err(bad)?;
        Ok(Self { path: path.to_path_buf(), files: vec![RefCell::new(file)], metadata, tensors })
    }

    /// The files, and the places of the tensors in them: a file's number, and the place.
    pub(super) fn into_places(self) -> (Vec<RefCell<File>>, Places) {
        let place = |(name, TensorInfo { shape, kind, file, start, bytes })| {
            (name, file, StoredTensor { shape, stored: Stored::Blocks(kind), start, bytes })
        };
        (self.files, self.tensors.into_iter().map(place).collect())
    }

    /// The file's path, that of the first shard.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A value of the metadata.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// The names of all tensors, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Place and type of a tensor.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// Number of values in all tensors.
    pub fn parameters(&self) -> usize {
        self.tensors.values().map(|info| info.shape.iter().product::<usize>()).sum()
    }

    /// The stored bytes of a tensor: its blocks in row-major order.
    ///
    /// # Errors
    /// [`Error::Weights`] when it is missing or cannot be read.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        let wrong = |reason: String| Error::Weights { tensor: name.to_owned(), reason };
        let info = self.tensors.get(name).ok_or_else(|| wrong(format!("missing from {}", self.path.display())))?;
        let mut bytes = vec![0; info.bytes];
        let mut file = self.files[info.file].borrow_mut();
        file.seek(SeekFrom::Start(info.start))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|error| wrong(format!("cannot be read: {error}")))?;
        Ok(bytes)
    }
}

/// Tensors with the numbers of their files.
type Places = Vec<(String, usize, StoredTensor)>;

type Contents = (BTreeMap<String, Value>, BTreeMap<String, TensorInfo>);

/// The header while it is read.
struct Header<'a>(Bounded<'a>);

impl<'a> Header<'a> {
    fn read(file: &'a File, file_bytes: u64) -> std::result::Result<Contents, String> {
        let mut header = Self(Bounded::header(file, file_bytes, MAX_HEADER_BYTES));
        if header.0.array::<4>().ok() != Some(*b"GGUF") {
            return Err("not a GGUF file".into());
        }
        let version = header.0.u32()?;
        if version.swap_bytes() <= 3 && version > 3 {
            return Err("a big-endian GGUF file; only little-endian ones are supported".into());
        }
        if !(2..=3).contains(&version) {
            return Err(format!("GGUF version {version}; versions 2 and 3 are supported"));
        }
        // A tensor is described by at least a name, a number of dimensions, one dimension, a type and an
        // offset (32 bytes); a value by a key and a type (13 bytes).
        let (tensor_count, value_count) = (header.count(32)?, header.count(13)?);
        let mut metadata = BTreeMap::new();
        for _ in 0..value_count {
            let key = header.text()?;
            let kind = header.0.u32()?;
            let value = header.value(kind).map_err(|reason| format!("{key}: {reason}"))?;
            if metadata.insert(key.clone(), value).is_some() {
                return Err(format!("{key} is in the file twice"));
            }
        }
        let mut tensors = BTreeMap::new();
        for _ in 0..tensor_count {
            let name = header.text()?;
            let info = header.tensor().map_err(|reason| format!("tensor {name}: {reason}"))?;
            if tensors.insert(name.clone(), info).is_some() {
                return Err(format!("tensor {name} is in the file twice"));
            }
        }
        let alignment = match metadata.get("general.alignment") {
            None => DEFAULT_ALIGNMENT,
            Some(Value::Integer(bytes @ 1..=0x10_0000)) if bytes.count_ones() == 1 => *bytes as u64,
            Some(other) => return Err(format!("general.alignment: {other:?} is not a small power of two")),
        };
        let data = header.0.at().next_multiple_of(alignment);
        for (name, info) in &mut tensors {
            if !info.start.is_multiple_of(alignment) {
                return Err(format!("tensor {name}: does not begin at a multiple of {alignment} bytes"));
            }
            let start = data.checked_add(info.start);
            let end = start.and_then(|start| start.checked_add(info.bytes as u64));
            match (start, end) {
                (Some(start), Some(end)) if end <= file_bytes => info.start = start,
                _ => return Err(format!("truncated: tensor {name} ends past the end of the file")),
            }
        }
        Ok((metadata, tensors))
    }

    /// A number of things that take at least so many bytes each.
    fn count(&mut self, each: u64) -> std::result::Result<usize, String> {
        let count = self.0.u64()?;
        self.0.check(count.saturating_mul(each))?;
        usize::try_from(count).map_err(|error| error.to_string())
    }

    fn text(&mut self) -> std::result::Result<String, String> {
        let count = self.count(1)?;
        let bytes = self.0.bytes(count as u64)?;
        String::from_utf8(bytes).map_err(|_| "a string is not UTF-8".into())
    }

    fn integer(&mut self, kind: u32) -> std::result::Result<i64, String> {
        Ok(match kind {
            0 | 7 => i64::from(self.0.array::<1>()?[0]),
            1 => i64::from(i8::from_le_bytes(self.0.array()?)),
            2 => i64::from(u16::from_le_bytes(self.0.array()?)),
            3 => i64::from(i16::from_le_bytes(self.0.array()?)),
            4 => i64::from(self.0.u32()?),
            5 => i64::from(i32::from_le_bytes(self.0.array()?)),
            10 => i64::try_from(self.0.u64()?).map_err(|_| "an integer is larger than 2^63".to_owned())?,
            11 => i64::from_le_bytes(self.0.array()?),
            _ => return Err(format!("value type {kind} is not known")),
        })
    }

    fn float(&mut self, kind: u32) -> std::result::Result<f64, String> {
        Ok(if kind == 6 { f64::from(f32::from_le_bytes(self.0.array()?)) } else { f64::from_le_bytes(self.0.array()?) })
    }

    fn value(&mut self, kind: u32) -> std::result::Result<Value, String> {
        Ok(match kind {
            6 | 12 => Value::Float(self.float(kind)?),
            7 => Value::Bool(self.integer(kind)? != 0),
            8 => Value::Text(self.text()?),
            9 => {
                let of = self.0.u32()?;
                let each = match of {
                    0 | 1 | 7 => 1,
                    2 | 3 => 2,
                    4..=6 => 4,
                    8 | 10..=12 => 8,
                    _ => return Err(format!("an array of value type {of} is not supported")),
                };
                let count = self.count(each)?;
                match of {
                    6 | 12 => Value::Floats((0..count).map(|_| self.float(of)).collect::<std::result::Result<_, _>>()?),
                    8 => Value::Texts((0..count).map(|_| self.text()).collect::<std::result::Result<_, _>>()?),
                    _ => Value::Integers((0..count).map(|_| self.integer(of)).collect::<std::result::Result<_, _>>()?),
                }
            }
            _ => Value::Integer(self.integer(kind)?),
        })
    }

    /// Reads a tensor's entry. Its start counts from the start of the data.
    fn tensor(&mut self) -> std::result::Result<TensorInfo, String> {
        let dimensions = self.0.u32()? as usize;
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(format!("has {dimensions} dimensions; 1 to {MAX_DIMENSIONS} are supported"));
        }
        let mut shape = Vec::with_capacity(dimensions);
        for _ in 0..dimensions {
            let size = self.0.u64()?;
            shape.push(usize::try_from(size).ok().filter(|size| *size > 0).ok_or("has a dimension of no size")?);
        }
        // The file has the contiguous dimension first.
        let row = shape[0];
        shape.reverse();
        let kind = BlockType::from_number(self.0.u32()?)?;
        if !row.is_multiple_of(kind.values()) {
            return Err(format!("{row} values in a row are no multiple of {kind:?}'s {}", kind.values()));
        }
        let values = shape.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
        let bytes = values.and_then(|values| (values / kind.values()).checked_mul(kind.bytes()));
        let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or("is too large")?;
        Ok(TensorInfo { shape, kind, file: 0, start: self.0.u64()?, bytes })
    }
}
