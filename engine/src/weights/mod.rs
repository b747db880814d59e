//! Checkpoint tensors: safetensors or GGUF files of a folder, a file of PyTorch, of whisper.cpp or of CTranslate2, read one tensor at a
//! time into device memory; ONNX files in a module of their own.
//!
//! A model requests each tensor by name and shape. A missing, misshapen or unused tensor is an error that names it, so
//! a checkpoint of another architecture never loads in part.

mod bounded;
pub mod ctranslate2;
mod footprint;
pub mod gguf;
mod gguf_blocks;
pub mod onnx;
pub mod pytorch;
mod safetensors_file;
mod stored;
pub mod whisper_cpp;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, TensorData};

use crate::error::{Error, Result};
pub use footprint::most_bytes;
use gguf::Gguf;
pub use gguf::shards::is_later_shard;
use safetensors_file::{open_file, shards};
pub use stored::{Stored, StoredTensor};

struct Entry {
    shape: Vec<usize>,
    place: Place,
}

impl Entry {
    /// True if the tensor holds these dimensions in two, outputs and the rest: quantised rows are made of whole blocks.
    fn is_flat(&self, shape: &[usize]) -> bool {
        let is_quantised = matches!(&self.place, Place::File { stored: Stored::Blocks(_), .. });
        matches!((&self.shape[..], shape), ([outputs, row], [first, rest @ ..])
            if is_quantised && outputs == first && *row == rest.iter().product::<usize>())
    }
}

/// The place of a tensor's values.
enum Place {
    File {
        file: usize,
        stored: Stored,
        /// First byte in the file.
        start: u64,
        bytes: usize,
    },
    Memory(Vec<f32>),
}

/// The tensors of one checkpoint folder, with a record of those a model has taken.
pub struct Weights {
    dir: PathBuf,
    /// The name of the files' format.
    format: &'static str,
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
    let mut weights = Weights::empty(path, SAFETENSORS, &Device::flex());
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
    fn empty(dir: &Path, format: &'static str, device: &Device) -> Self {
        Self {
            dir: dir.to_path_buf(),
            format,
            files: Vec::new(),
            entries: BTreeMap::new(),
            taken: RefCell::default(),
            device: device.clone(),
        }
    }

    /// Opens `model.safetensors`, the shards that `model.safetensors.index.json` lists, or else `model.gguf` or its shards, with
    /// tensors of the same names.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when none is present, a file is not of its format, or a tensor is in two shards.
    pub fn open(dir: &Path, device: &Device) -> Result<Self> {
        let files = FolderFiles::of(dir);
        let format = if matches!(files, Some(FolderFiles::Gguf(_))) { "GGUF" } else { SAFETENSORS };
        let mut weights = Self::empty(dir, format, device);
        match files {
            Some(FolderFiles::Index(index)) => {
                for shard in shards(&index)? {
                    weights.add_file(&dir.join(shard))?;
                }
            }
            Some(FolderFiles::Gguf(path)) => weights.add_gguf(&path)?,
            // The fault of a folder without weights is that it lacks the published file.
            Some(FolderFiles::Safetensors(path)) => weights.add_file(&path)?,
            None => weights.add_file(&dir.join(PUBLISHED))?,
        }
        Ok(weights)
    }

    /// True for a folder with weights that [`Weights::open`] reads.
    pub fn are_in(dir: &Path) -> bool {
        FolderFiles::of(dir).is_some()
    }

    /// Tensors of `file`, whose path is `origin` and whose format has this name: their names, types and places.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when two have one name.
    pub fn of_file(
        (origin, format): (&Path, &'static str),
        file: File,
        tensors: impl IntoIterator<Item = (String, StoredTensor)>,
        device: &Device,
    ) -> Result<Self> {
        let mut weights = Self::empty(origin, format, device);
        for (name, tensor) in tensors {
            weights.add_tensor(origin, name, 0, tensor)?;
        }
        weights.files.push(RefCell::new(file));
        Ok(weights)
    }

    /// Tensors that were read from `origin`, a file of another format: shapes, and values in row-major order.
    pub fn of_values(origin: &Path, tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>, device: &Device) -> Self {
        let entry = |(shape, values)| Entry { shape, place: Place::Memory(values) };
        let entries = tensors.into_iter().map(|(name, tensor)| (name, entry(tensor))).collect();
        Self { entries, ..Self::empty(origin, "memory", device) }
    }

    /// Opens a file of `torch.save`: a state dictionary, or dictionaries of several, whose keys are joined with dots.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when it is none.
    pub fn open_pytorch(path: &Path, device: &Device) -> Result<Self> {
        let mut weights = Self::empty(path, "PyTorch", device);
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

    /// The format and the types of its tensors, such as `GGUF, F32 and Q4_0`.
    pub fn form(&self) -> String {
        let types = self.entries.values().filter_map(|entry| match &entry.place {
            Place::File { stored, .. } => Some(stored.name()),
            Place::Memory(_) => None,
        });
        let types: Vec<String> = types.collect::<BTreeSet<String>>().into_iter().collect();
        format!("{}, {}", self.format, types.join(" and "))
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
            let tensor = StoredTensor {
                shape: info.shape.clone(),
                stored: Stored::Plain(info.dtype),
                start: data_start + start as u64,
                bytes: end - start,
            };
            self.add_tensor(path, name, self.files.len(), tensor)?;
        }
        self.files.push(RefCell::new(file));
        Ok(())
    }

    fn add_gguf(&mut self, path: &Path) -> Result<()> {
        let (files, tensors) = Gguf::open(path)?.into_places();
        for (name, file, tensor) in tensors {
            self.add_tensor(path, name, self.files.len() + file, tensor)?;
        }
        self.files.extend(files);
        Ok(())
    }

    fn add_pytorch(&mut self, path: &Path) -> Result<()> {
        let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
        let (file, tensors) = pytorch::open(path).map_err(bad)?;
        for pytorch::TensorPlace { name, dtype, shape, start, bytes } in tensors {
            let tensor = StoredTensor { shape, stored: Stored::Plain(dtype), start, bytes };
            self.add_tensor(path, name, self.files.len(), tensor)?;
        }
        self.files.push(RefCell::new(file));
        Ok(())
    }

    fn add_tensor(&mut self, path: &Path, name: String, file: usize, tensor: StoredTensor) -> Result<()> {
        let StoredTensor { shape, stored, start, bytes } = tensor;
        let entry = Entry { shape, place: Place::File { file, stored, start, bytes } };
        match self.entries.insert(name.clone(), entry) {
            None => Ok(()),
            Some(_) => {
                let reason = format!("tensor {name} is there twice, or in two shards");
                Err(Error::Checkpoint { path: path.to_path_buf(), reason })
            }
        }
    }

    /// The values of a tensor as f32, in the file's (row-major) order.
    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let wrong = |reason: String| Error::Weights { tensor: name.to_string(), reason };
        let entry = self.entries.get(name).ok_or_else(|| wrong(format!("missing from {}", self.dir.display())))?;
        if entry.shape != shape && !entry.is_flat(shape) {
            return Err(wrong(format!("has shape {:?}, the configuration needs {shape:?}", entry.shape)));
        }
        self.taken.borrow_mut().insert(name.to_string());
        let (file, stored, start, length) = match &entry.place {
            Place::File { file, stored, start, bytes } => (*file, stored, *start, *bytes),
            Place::Memory(values) => return Ok(values.clone()),
        };
        let mut bytes = vec![0u8; length];
        let mut file = self.files[file].borrow_mut();
        file.seek(SeekFrom::Start(start))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|e| wrong(format!("cannot be read: {e}")))?;
        stored.unpack(&bytes).map_err(wrong)
    }
}

const SAFETENSORS: &str = "safetensors";
/// The file of a folder's weights as it is published.
const PUBLISHED: &str = "model.safetensors";

/// Where a folder has its weights.
enum FolderFiles {
    Index(PathBuf),
    Safetensors(PathBuf),
    /// A file, or the first of its shards.
    Gguf(PathBuf),
}

impl FolderFiles {
    fn of(dir: &Path) -> Option<Self> {
        let file = |name: &str| Some(dir.join(name)).filter(|path| path.is_file());
        let index = file("model.safetensors.index.json").map(Self::Index);
        let whole = index.or_else(|| file(PUBLISHED).map(Self::Safetensors));
        whole.or_else(|| file("model.gguf").or_else(|| gguf::shards::first_of_model(dir)).map(Self::Gguf))
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
