//! Reference numbers of another implementation, and the distance from them.

use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use safetensors::SafeTensors;

/// A copy of a checkpoint's folder with another `config.json`.
pub fn with_config(checkpoint: &Path, change: impl Fn(&mut serde_json::Value)) -> tempfile::TempDir {
    with_json(checkpoint, "config.json", change)
}

/// A copy of a checkpoint's folder with a file of JSON changed.
pub fn with_json(checkpoint: &Path, file: &str, change: impl Fn(&mut serde_json::Value)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy_folder(checkpoint, dir.path());
    let path = dir.path().join(file);
    let mut json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    std::fs::write(path, json.to_string()).unwrap();
    dir
}

/// Removes the tensors of a file whose names begin so.
pub fn without_tensors(file: &Path, prefix: &str) {
    let bytes = std::fs::read(file).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap().tensors();
    let kept = tensors.into_iter().filter(|(name, _)| !name.starts_with(prefix));
    std::fs::write(file, safetensors::serialize(kept, None).unwrap()).unwrap();
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy_folder(&path, &to);
        } else {
            std::fs::copy(&path, to).unwrap();
        }
    }
}

/// `oracle.safetensors` and `oracle.json` of a fixture folder.
pub struct Oracle {
    bytes: Vec<u8>,
    /// `oracle.json`
    pub facts: serde_json::Value,
}

impl Oracle {
    /// Reads a fixture folder.
    pub fn open(dir: &Path) -> Self {
        let read = |file: &str| std::fs::read(dir.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let facts = serde_json::from_slice(&read("oracle.json")).unwrap();
        Self { bytes: read("oracle.safetensors"), facts }
    }

    /// A float tensor on a device.
    pub fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        let tensors = SafeTensors::deserialize(&self.bytes).unwrap();
        let view = tensors.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let values: Vec<f32> = view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        let shape: [usize; D] = view.shape().try_into().unwrap();
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    /// An integer tensor's values.
    pub fn integers(&self, name: &str) -> Vec<usize> {
        let tensors = SafeTensors::deserialize(&self.bytes).unwrap();
        let view = tensors.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        view.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as usize).collect()
    }

    /// A tensor's values.
    pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
        tensor.try_into_vec_as::<f32>().unwrap()
    }
}

/// ‖out - reference‖ / ‖reference‖ over the first `lengths[row]` frames of every row.
pub fn relative_error(out: Tensor<3>, reference: Tensor<3>, lengths: &[usize]) -> f32 {
    let (mut difference, mut norm) = (0f64, 0f64);
    for (row, length) in lengths.iter().enumerate() {
        let rows = |t: &Tensor<3>| Oracle::values(t.clone().narrow(0, row, 1).narrow(1, 0, *length));
        for (a, b) in rows(&out).into_iter().zip(rows(&reference)) {
            difference += f64::from(a - b).powi(2);
            norm += f64::from(b).powi(2);
        }
    }
    (difference / norm).sqrt() as f32
}
