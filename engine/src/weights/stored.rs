//! The values of a tensor as a file has them, and their way to 32 bits.

use rayon::prelude::*;
use safetensors::Dtype;

use super::gguf_blocks::BlockType;

/// Values that a thread converts at a time.
const VALUES_TOGETHER: usize = 1 << 16;

/// Type of a tensor's values in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    /// The types of safetensors and of PyTorch.
    Plain(Dtype),
    /// The types of ggml.
    Blocks(BlockType),
    /// 8 bits; the values of each row are divided by its scale.
    Rows(Vec<f32>),
}

/// Place and type of a tensor in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTensor {
    /// Row-major.
    pub shape: Vec<usize>,
    /// Type of its values.
    pub stored: Stored,
    /// First byte in the file.
    pub start: u64,
    /// Length in the file.
    pub bytes: usize,
}

impl Stored {
    /// The type's name.
    pub fn name(&self) -> String {
        match self {
            Self::Plain(dtype) => format!("{dtype:?}"),
            Self::Blocks(kind) => format!("{kind:?}"),
            Self::Rows(_) => "I8".into(),
        }
    }

    /// All values of a tensor's bytes, on all cores.
    ///
    /// # Errors
    /// The fault, for a type that is no float.
    pub fn unpack(&self, bytes: &[u8]) -> Result<Vec<f32>, String> {
        match self {
            Self::Plain(Dtype::F32) => Ok(BlockType::F32.unpack(bytes)),
            Self::Plain(Dtype::F16) => Ok(BlockType::F16.unpack(bytes)),
            Self::Plain(Dtype::BF16) => Ok(BlockType::BF16.unpack(bytes)),
            Self::Plain(other) => Err(format!("has type {other:?}; F32, F16 and BF16 are supported")),
            Self::Blocks(kind) => Ok(kind.unpack(bytes)),
            Self::Rows(scales) => {
                let width = bytes.len() / scales.len().max(1);
                let mut values = vec![0f32; width * scales.len()];
                if width > 0 {
                    let rows = values.par_chunks_mut(width).zip(bytes.par_chunks(width)).zip(scales);
                    rows.with_min_len(VALUES_TOGETHER.div_ceil(width)).for_each(|((values, bytes), scale)| {
                        for (value, byte) in values.iter_mut().zip(bytes) {
                            *value = f32::from(*byte as i8) / scale;
                        }
                    });
                }
                Ok(values)
            }
        }
    }
}
