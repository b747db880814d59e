//! Turn detectors of random weights whose answer is known.

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use tempfile::TempDir;

use crate::fixtures;

/// The answer of a turn detector in every pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The speaker has finished.
    Finished,
    /// The speaker goes on.
    Open,
}

/// A folder with the Smart Turn network of the fixtures and a last bias that outweighs all else.
pub fn turn_detector(verdict: Verdict) -> TempDir {
    let from = fixtures().join("smart_turn");
    let bytes = std::fs::read(from.join("model.safetensors")).expect("a fixture");
    let tensors = SafeTensors::deserialize(&bytes).expect("tensors");
    // 100 and -100 in 16 bits.
    let bias = if verdict == Verdict::Finished { 0x5640_u16 } else { 0xd640 }.to_le_bytes();
    let changed = tensors.tensors().into_iter().map(|(name, tensor)| match name.as_str() {
        "classifier.6.bias" => {
            let biased = TensorView::new(tensor.dtype(), tensor.shape().to_vec(), &bias).expect("one value");
            (name, biased)
        }
        _ => (name, tensor),
    });
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = safetensors::serialize(changed.collect::<Vec<_>>(), None).expect("a file of tensors");
    std::fs::write(dir.path().join("model.safetensors"), file).expect("a folder that can be written");
    std::fs::copy(from.join("config.json"), dir.path().join("config.json")).expect("a fixture");
    dir
}
