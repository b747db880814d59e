//! The tensors of a checkpoint under their published names, from a folder of safetensors or from a GGUF file.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use auricle_kernels::product::gemv::{BlockMatrix, PackedMatrix, Precision, WeightRun};
use burn::tensor::Device;

use super::config::{Config, Family};
use crate::error::{Error, Result};
use crate::layers::Matrix;
use crate::weights::Weights;
use crate::weights::gguf::{BlockType, Gguf, Run};

/// Order of a matrix' outputs in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// As published.
    Published,
    /// Llama's queries and keys in GGUF: the two values of a rotated pair, half a head apart as published, stand side by side in heads
    /// of this width.
    Paired(usize),
}

impl RowOrder {
    /// The row of the file that has a published row.
    fn stored(self, row: usize) -> usize {
        match self {
            Self::Published => row,
            Self::Paired(head) => {
                let (first, within) = (row / head * head, row % head);
                first + 2 * (within % (head / 2)) + within / (head / 2)
            }
        }
    }
}

/// An open checkpoint.
pub enum TensorSource {
    /// `model.safetensors`, or shards with an index, or GGUF with the published names; the CPU's matrices get this precision.
    Folder(Weights, Precision),
    /// One GGUF file, or one in shards, as llama.cpp names its tensors.
    File(GgufTensors),
}

/// The tensors of a GGUF file, with a record of those a model has taken.
pub struct GgufTensors {
    file: Gguf,
    precision: Precision,
    taken: RefCell<BTreeSet<String>>,
}

impl TensorSource {
    /// Opens the weights of a folder.
    ///
    /// # Errors
    /// As [`Weights::open`].
    pub fn folder(dir: &Path) -> Result<Self> {
        Ok(Self::Folder(Weights::open(dir, &Device::flex())?, Precision::F32))
    }

    /// Takes the weights of a GGUF file, as which products have them: [`Precision::Int8`] rounds their inputs.
    pub fn file(file: Gguf, precision: Precision) -> Self {
        Self::File(GgufTensors { file, precision, taken: RefCell::default() })
    }

    /// Number of values in all tensors.
    pub fn parameters(&self) -> usize {
        match self {
            Self::Folder(weights, _) => weights.parameters(),
            Self::File(tensors) => tensors.file.parameters(),
        }
    }

    /// The format and types of the tensors, such as `GGUF, F32 and Q8_0`.
    pub fn form(&self) -> String {
        match self {
            Self::Folder(weights, _) => weights.form(),
            Self::File(tensors) => {
                let infos = tensors.file.names().filter_map(|name| tensors.file.tensor(name));
                let types: BTreeSet<String> = infos.map(|info| format!("{:?}", info.kind)).collect();
                format!("GGUF, {}", types.into_iter().collect::<Vec<_>>().join(" and "))
            }
        }
    }

    /// Takes a matrix `[outputs, inputs]` of this published name, such as `model.layers.0.mlp.up_proj.weight`.
    ///
    /// # Errors
    /// [`Error::Weights`], with the name that the file has for it, when it is missing or has another shape.
    pub fn matrix(&self, name: &str, [outputs, inputs]: [usize; 2], order: RowOrder) -> Result<Matrix> {
        match self {
            Self::File(tensors) if tensors.is_in_runs(name) => tensors.matrix(name, [outputs, inputs], order),
            Self::Folder(_, precision) if precision.has_8_bits() => {
                Ok(Matrix::new(&self.values(name, [outputs, inputs], order)?, inputs, outputs, *precision))
            }
            _ => {
                let values = self.values(name, [outputs, inputs], order)?;
                Ok(Matrix::Floats(PackedMatrix::new(&values, inputs, outputs, Precision::F32)))
            }
        }
    }

    /// Takes matrices of these names, outputs and orders of rows as [`TensorSource::matrix`], if a file has all of them as small integers.
    ///
    /// # Errors
    /// As [`TensorSource::matrix`].
    pub fn runs(&self, parts: &[(&str, usize, RowOrder)], inputs: usize) -> Result<Option<Vec<StoredRuns>>> {
        match self {
            Self::File(tensors) if parts.iter().all(|(name, ..)| tensors.is_in_runs(name)) => parts
                .iter()
                .map(|(name, outputs, order)| tensors.runs(name, [*outputs, inputs], *order))
                .collect::<Result<_>>()
                .map(Some),
            _ => Ok(None),
        }
    }

    /// Takes the values of a matrix as [`TensorSource::matrix`], `[outputs, inputs]`, unpacked.
    ///
    /// # Errors
    /// As [`TensorSource::matrix`].
    pub fn values(&self, name: &str, [outputs, inputs]: [usize; 2], order: RowOrder) -> Result<Vec<f32>> {
        match self {
            Self::Folder(weights, _) => {
                let (scope, own) = name.rsplit_once('.').unwrap_or(("", name));
                weights.scope(scope).values(own, &[outputs, inputs])
            }
            Self::File(tensors) => {
                let (kind, bytes) = tensors.take(name, &[outputs, inputs])?;
                let values = kind.unpack(&bytes);
                if order == RowOrder::Published {
                    return Ok(values);
                }
                let rows = (0..outputs).flat_map(|row| &values[order.stored(row) * inputs..][..inputs]);
                Ok(rows.copied().collect())
            }
        }
    }

    /// The order in which a file of this kind has the rows of queries and keys.
    pub fn turned(&self, config: &Config) -> RowOrder {
        match self {
            Self::File(_) if config.family == Family::Llama => RowOrder::Paired(config.head),
            _ => RowOrder::Published,
        }
    }

    /// Takes the values of a vector of this published name.
    ///
    /// # Errors
    /// As [`TensorSource::matrix`].
    pub fn vector(&self, name: &str, length: usize, order: RowOrder) -> Result<Vec<f32>> {
        match self {
            Self::Folder(weights, _) => {
                let (scope, own) = name.rsplit_once('.').unwrap_or(("", name));
                weights.scope(scope).values(own, &[length])
            }
            Self::File(tensors) => {
                let (kind, bytes) = tensors.take(name, &[length])?;
                let values = kind.unpack(&bytes);
                Ok((0..length).map(|row| values[order.stored(row)]).collect())
            }
        }
    }

    /// The angles by which a position turns each pair of a head: those of the configuration, divided by the factors of a GGUF file that
    /// has any.
    ///
    /// # Errors
    /// [`Error::Weights`] when the factors have another length or are not positive.
    pub fn frequencies(&self, config: &Config) -> Result<Vec<f32>> {
        let mut frequencies = config.frequencies.clone();
        if let Self::File(tensors) = self
            && tensors.file.tensor(ROPE_FACTORS).is_some()
        {
            let (kind, bytes) = tensors.take(ROPE_FACTORS, &[frequencies.len()])?;
            let factors = kind.unpack(&bytes);
            if !factors.iter().all(|factor| factor.is_finite() && *factor > 0.0) {
                let reason = "has a factor that is not positive".into();
                return Err(Error::Weights { tensor: ROPE_FACTORS.into(), reason });
            }
            frequencies.iter_mut().zip(factors).for_each(|(frequency, factor)| *frequency /= factor);
        }
        Ok(frequencies)
    }

    /// Marks a tensor of a folder, if present, as known and unused.
    pub fn ignore(&self, name: &str) {
        if let Self::Folder(weights, _) = self {
            let (scope, own) = name.rsplit_once('.').unwrap_or(("", name));
            weights.scope(scope).ignore(own);
        }
    }

    /// Checks that the model took every tensor.
    ///
    /// # Errors
    /// [`Error::Weights`], which names the first unused tensor.
    pub fn finish(self) -> Result<()> {
        match self {
            Self::Folder(weights, _) => weights.finish(),
            Self::File(GgufTensors { file, taken, .. }) => {
                let taken = taken.into_inner();
                let left: Vec<&str> = file.names().filter(|name| !taken.contains(*name)).collect();
                match left.first() {
                    None => Ok(()),
                    Some(first) => Err(Error::Weights {
                        tensor: (*first).to_owned(),
                        reason: format!("the architecture has no such tensor ({} left over in all)", left.len()),
                    }),
                }
            }
        }
    }
}

const ROPE_FACTORS: &str = "rope_freqs.weight";

/// A matrix of small integers in runs as a file has it.
pub struct StoredRuns {
    kind: BlockType,
    bytes: Vec<u8>,
    /// Bytes of a row.
    stride: usize,
    order: RowOrder,
}

impl StoredRuns {
    /// The runs of one output's weights.
    pub fn row(&self, output: usize) -> Vec<Run> {
        let mut runs = Vec::with_capacity(self.stride / self.kind.bytes() * self.kind.values() / self.kind.run());
        for block in
            self.bytes[self.order.stored(output) * self.stride..][..self.stride].chunks_exact(self.kind.bytes())
        {
            self.kind.split(block, &mut runs);
        }
        runs
    }

    /// Numbers of a run.
    pub fn run(&self) -> usize {
        self.kind.run()
    }
}

impl GgufTensors {
    /// True for a tensor of small integers.
    fn is_in_runs(&self, name: &str) -> bool {
        self.file.tensor(&stored_name(name)).is_some_and(|info| info.kind.values() > 1)
    }

    /// Type and bytes of a tensor.
    fn take(&self, name: &str, shape: &[usize]) -> Result<(BlockType, Vec<u8>)> {
        let stored = stored_name(name);
        let bytes = self.file.bytes(&stored)?;
        let Some(info) = self.file.tensor(&stored) else {
            return Err(Error::Weights { tensor: stored, reason: "is missing".into() });
        };
        if info.shape != shape {
            let reason = format!("has shape {:?}, the configuration needs {shape:?}", info.shape);
            return Err(Error::Weights { tensor: stored, reason });
        }
        let kind = info.kind;
        self.taken.borrow_mut().insert(stored);
        Ok((kind, bytes))
    }

    fn runs(&self, name: &str, [outputs, inputs]: [usize; 2], order: RowOrder) -> Result<StoredRuns> {
        let (kind, bytes) = self.take(name, &[outputs, inputs])?;
        Ok(StoredRuns { kind, bytes, stride: inputs / kind.values() * kind.bytes(), order })
    }

    fn matrix(&self, name: &str, shape: [usize; 2], order: RowOrder) -> Result<Matrix> {
        let stored = self.runs(name, shape, order)?;
        let (run, lowest) = (stored.run(), stored.kind.lowest());
        Ok(Matrix::Blocks(BlockMatrix::new(shape, run, lowest, self.precision, |row| stored.row(row), as_weights)))
    }
}

/// A run as the kernels take it.
pub fn as_weights(run: &Run) -> WeightRun<'_> {
    WeightRun { numbers: &run.numbers, scale: run.scale, minimum: run.minimum }
}

/// The name in GGUF of a published tensor.
fn stored_name(name: &str) -> String {
    match name {
        "model.embed_tokens.weight" => return "token_embd.weight".into(),
        "model.norm.weight" => return "output_norm.weight".into(),
        "lm_head.weight" => return "output.weight".into(),
        _ => {}
    }
    const PARTS: [(&str, &str); 11] = [
        ("input_layernorm", "attn_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    let parts = name.strip_prefix("model.layers.").and_then(|rest| rest.split_once('.'));
    let found = parts.and_then(|(layer, rest)| {
        let (part, kind) = rest.rsplit_once('.')?;
        let (_, own) = PARTS.iter().find(|(published, _)| *published == part)?;
        Some(format!("blk.{layer}.{own}.{kind}"))
    });
    found.unwrap_or_else(|| name.to_owned())
}
