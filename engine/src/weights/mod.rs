//! Checkpoint tensors: safetensors files of a folder, or a file of PyTorch, read one tensor at a time into device memory; GGUF and ONNX
//! files in modules of their own.
//!
//! A model requests each tensor by name and shape. A missing, misshapen or unused tensor is an error that names it, so
//! a checkpoint of another architecture never loads in part.

pub mod gguf;
mod gguf_blocks;
pub mod onnx;
pub mod pytorch;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use crate::error::{Error, Result};

/// Longest header that is accepted: the format's own limit.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Values that a thread converts at a time.
const VALUES_TOGETHER: usize = 1 << 16;

struct Entry {
    shape: Vec<usize>,
    place: Place,
}

/// The place of a tensor's values.
enum Place {
    File {
        file: usize,
        dtype: Dtype,
        /// First byte in the file.
        start: u64,
        bytes: usize,
    },
    Memory(Vec<f32>),
}

/// The tensors of one checkpoint folder, with a record of those a model has taken.
pub struct Weights {
    dir: PathBuf,
    files: Vec<RefCell<File>>,
    entries: BTreeMap<String, Entry>,
    taken: RefCell<BTreeSet<String>>,
    device: Device,
}

/// Shape and values of the only tensor of a safetensors file, or of a `.pt` file of PyTorch.
///
/// # Errors
/// [`Error::Checkpoint`] when the file is none, or has no tensor or several; [`Error::Weights`] when it is no float.
pub fn read_only_tensor(path: &Path) -> Result<(Vec<usize>, Vec<f32>)> {
    let mut weights = Weights::empty(path, &Device::flex());
    if path.extension().is_some_and(|extension| extension == "pt") {
        weights.add_pytorch(path)?;
    } else {
        weights.add_file(path)?;
    }
    let mut entries = weights.entries.iter();
    let (Some((name, entry)), None) = (entries.next(), entries.next()) else {
        let reason = format!("it has {} tensors, and one is read", weights.entries.len());
        return Err(Error::Checkpoint { path: path.to_path_buf(), reason });
    };
    Ok((entry.shape.clone(), weights.values(name, &entry.shape)?))
}

impl Weights {
    fn empty(dir: &Path, device: &Device) -> Self {
        Self {
            dir: dir.to_path_buf(),
            files: Vec::new(),
            entries: BTreeMap::new(),
            taken: RefCell::default(),
            device: device.clone(),
        }
    }

    /// Opens `model.safetensors`, or the shards that `model.safetensors.index.json` lists.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when neither is present, a file is not a safetensors file, or a tensor is in two shards.
    pub fn open(dir: &Path, device: &Device) -> Result<Self> {
        let mut weights = Self::empty(dir, device);
        let index = dir.join("model.safetensors.index.json");
        if index.is_file() {
            for shard in shards(&index)? {
                weights.add_file(&dir.join(shard))?;
            }
        } else {
            weights.add_file(&dir.join("model.safetensors"))?;
        }
        Ok(weights)
    }

    /// Tensors that were read from `origin`, a file of another format: shapes, and values in row-major order.
    pub fn of_values(origin: &Path, tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>, device: &Device) -> Self {
        let entry = |(shape, values)| Entry { shape, place: Place::Memory(values) };
        let entries = tensors.into_iter().map(|(name, tensor)| (name, entry(tensor))).collect();
        Self { entries, ..Self::empty(origin, device) }
    }

    /// Opens a file of `torch.save`: a state dictionary, or dictionaries of several, whose keys are joined with dots.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is none.
    pub fn open_pytorch(path: &Path, device: &Device) -> Result<Self> {
        let mut weights = Self::empty(path, device);
        weights.add_pytorch(path)?;
        Ok(weights)
    }

    /// The tensors by the names that `rename` gives for theirs.
    ///
    /// # Errors
    /// [`Error::Weights`] when two get one name.
    pub fn renamed(mut self, rename: impl Fn(&str) -> String) -> Result<Self> {
        for (name, entry) in std::mem::take(&mut self.entries) {
            let new = rename(&name);
            if self.entries.insert(new.clone(), entry).is_some() {
                return Err(Error::Weights { tensor: name, reason: format!("stands for {new}, which is there too") });
            }
        }
        Ok(self)
    }

    /// Marks the tensors whose names begin with `prefix` as known and unused, such as those of a part that only trains.
    pub fn ignore_all(&self, prefix: &str) {
        let names = self.entries.keys().filter(|name| name.starts_with(prefix)).cloned();
        self.taken.borrow_mut().extend(names);
    }

    /// The tensors whose names begin with `prefix` and a dot.
    pub fn scope(&self, prefix: &str) -> Scope<'_> {
        Scope { weights: self, prefix: format!("{prefix}.") }
    }

    /// All tensors, by their full names.
    pub fn root(&self) -> Scope<'_> {
        Scope { weights: self, prefix: String::new() }
    }

    /// Number of values in all tensors.
    pub fn parameters(&self) -> usize {
        self.entries.values().map(|entry| entry.shape.iter().product::<usize>()).sum()
    }

    /// Checks that the model took every tensor.
    ///
    /// # Errors
    /// [`Error::Weights`], which names the first unused tensor and their number.
    pub fn finish(self) -> Result<()> {
        let taken = self.taken.into_inner();
        let left: Vec<&String> = self.entries.keys().filter(|name| !taken.contains(*name)).collect();
        match left.first() {
            None => Ok(()),
            Some(first) => Err(Error::Weights {
                tensor: (*first).clone(),
                reason: format!("the architecture has no such tensor ({} left over in all)", left.len()),
            }),
        }
    }

    fn add_file(&mut self, path: &Path) -> Result<()> {
        let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
        let (file, metadata, data_start) = open_file(path)?;
        let file_bytes = file.metadata().map_err(|e| bad(e.to_string()))?.len();
        for (name, info) in metadata.tensors() {
            let (start, end) = info.data_offsets;
            if data_start + end as u64 > file_bytes {
                return Err(bad(format!("truncated: tensor {name} ends past the end of the file")));
            }
            let place = Place::File {
                file: self.files.len(),
                dtype: info.dtype,
                start: data_start + start as u64,
                bytes: end - start,
            };
            let entry = Entry { shape: info.shape.clone(), place };
            if self.entries.insert(name.clone(), entry).is_some() {
                return Err(bad(format!("tensor {name} is in two shards")));
            }
        }
        self.files.push(RefCell::new(file));
        Ok(())
    }

    fn add_pytorch(&mut self, path: &Path) -> Result<()> {
        let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
        let (file, tensors) = pytorch::open(path).map_err(bad)?;
        for pytorch::TensorPlace { name, dtype, shape, start, bytes } in tensors {
            let entry = Entry { shape, place: Place::File { file: self.files.len(), dtype, start, bytes } };
            if self.entries.insert(name.clone(), entry).is_some() {
                return Err(bad(format!("tensor {name} is there twice")));
            }
        }
        self.files.push(RefCell::new(file));
        Ok(())
    }

    /// The values of a tensor as f32, in the file's (row-major) order.
    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let wrong = |reason: String| Error::Weights { tensor: name.to_string(), reason };
        let entry = self.entries.get(name).ok_or_else(|| wrong(format!("missing from {}", self.dir.display())))?;
        if entry.shape != shape {
            return Err(wrong(format!("has shape {:?}, the configuration needs {shape:?}", entry.shape)));
        }
        self.taken.borrow_mut().insert(name.to_string());
        let (file, dtype, start, length) = match &entry.place {
            Place::File { file, dtype, start, bytes } => (*file, *dtype, *start, *bytes),
            Place::Memory(values) => return Ok(values.clone()),
        };
        let mut bytes = vec![0u8; length];
        let mut file = self.files[file].borrow_mut();
        file.seek(SeekFrom::Start(start))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|e| wrong(format!("cannot be read: {e}")))?;
        let halves = |to_f32: fn([u8; 2]) -> f32| {
            let words = bytes.par_chunks_exact(2).with_min_len(VALUES_TOGETHER);
            words.map(|b| to_f32([b[0], b[1]])).collect()
        };
        match dtype {
            Dtype::F32 => Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()),
            Dtype::F16 => Ok(halves(|b| half::f16::from_le_bytes(b).to_f32())),
            Dtype::BF16 => Ok(halves(|b| half::bf16::from_le_bytes(b).to_f32())),
            other => Err(wrong(format!("has type {other:?}; F32, F16 and BF16 are supported"))),
        }
    }
}

/// Tensors under a common name prefix.
#[derive(Clone)]
pub struct Scope<'a> {
    weights: &'a Weights,
    prefix: String,
}

impl Scope<'_> {
    /// A narrower scope.
    pub fn scope(&self, name: impl std::fmt::Display) -> Self {
        Scope { weights: self.weights, prefix: format!("{}{name}.", self.prefix) }
    }

    /// True if there is such a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.weights.entries.contains_key(&format!("{}{name}", self.prefix))
    }

    /// The full name of a tensor.
    pub fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The shape of a tensor, none if it is not there.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.weights.entries.get(&format!("{}{name}", self.prefix)).map(|entry| entry.shape.as_slice())
    }

    /// The device that receives the tensors.
    pub fn device(&self) -> &Device {
        &self.weights.device
    }

    /// Takes a tensor's values, row-major, as f32.
    ///
    /// # Errors
    /// [`Error::Weights`] when it is missing, has another shape, or a type that is not a float.
    pub fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.weights.values(&format!("{}{name}", self.prefix), shape)
    }

    /// Takes a tensor.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn tensor<const D: usize>(&self, name: &str, shape: [usize; D]) -> Result<Tensor<D>> {
        let values = self.values(name, &shape)?;
        Ok(Tensor::from_data(TensorData::new(values, shape), self.device()))
    }

    /// Marks a tensor, if present, as known and unused, such as a training counter.
    pub fn ignore(&self, name: &str) {
        self.weights.taken.borrow_mut().insert(format!("{}{name}", self.prefix));
    }
}

/// Opens a safetensors file; gives its header and where its data begin.
fn open_file(path: &Path) -> Result<(File, Metadata, u64)> {
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

/// Bytes that the weights of a file, or of the files below a folder, take at most once they are loaded: four for each value of a
/// safetensors file and for each byte of an ONNX file, and the size of a GGUF file, a file of PyTorch or one that is named itself. Zero
/// where there is none; its loader tells.
pub fn most_bytes(path: &Path) -> u64 {
    fn below(folder: &Path, levels: usize) -> u64 {
        let paths = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let bytes = |path: PathBuf| match path.is_dir() {
            true if levels > 0 => below(&path, levels - 1),
            false if ["safetensors", "gguf", "onnx", "pth", "pt"].iter().any(|end| has_end(&path, end)) => {
                of_file(&path)
            }
            _ => 0,
        };
        paths.map(bytes).sum()
    }
    fn of_file(path: &Path) -> u64 {
        if !has_end(path, "safetensors") {
            // Weights of 8 bits in an ONNX file have 32 once they are read.
            let widening = if has_end(path, "onnx") { 4 } else { 1 };
            return path.metadata().map_or(0, |metadata| widening * metadata.len());
        }
        let values = |info: &TensorInfo| info.shape.iter().product::<usize>() as u64;
        open_file(path).map_or(0, |(_, metadata, _)| metadata.tensors().values().map(|info| 4 * values(info)).sum())
    }
    fn has_end(path: &Path, end: &str) -> bool {
        path.extension().is_some_and(|found| found == end)
    }
    // A voice has a folder for each of its parts.
    if path.is_dir() { below(path, 1) } else { of_file(path) }
}

/// The distinct shard files of an index, in name order.
fn shards(index: &Path) -> Result<BTreeSet<String>> {
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
