use auricle_kernels::norm::layer_norm_rows_with;
use auricle_kernels::product::gemv::{PackedMatrix, Precision};
use auricle_kernels::product::int8::cpu::Int8Matrix;
use auricle_kernels::thread_pool::ThreadPool;

use super::{Bias, Matrix, Rounded};
use crate::error::Result;
use crate::weights::Scope;

/// Values in one thread's share of an elementwise operation.
const CHUNK: usize = 8 * 1024;

/// A linear layer on the CPU: `y = W x + b` over plain memory.
#[derive(Clone, Debug)]
pub struct Packed(Body);

#[derive(Clone, Debug)]
enum Body {
    /// The weight, and the bias `[outputs]`.
    Packed(Matrix, Vec<f32>),
    /// For many rows.
    Rounded(Rounded),
}

impl Packed {
    /// Packs `weight` `[outputs, inputs]` with its `bias` `[outputs]`.
    pub fn new(weight: &[f32], bias: Vec<f32>, precision: Precision) -> Self {
        let outputs = bias.len();
        let matrix = PackedMatrix::new(weight, weight.len() / outputs.max(1), outputs, precision);
        Self(Body::Packed(Matrix::Floats(matrix), bias))
    }

    /// As [`Packed::new`], with [`Precision::Int4`] as [`Matrix::new`].
    pub fn for_few_rows(weight: &[f32], bias: Vec<f32>, precision: Precision) -> Self {
        let outputs = bias.len();
        Self(Body::Packed(Matrix::new(weight, weight.len() / outputs.max(1), outputs, precision), bias))
    }

    /// As [`Packed::new`] for products with many rows: with 8 bits, on a processor that is faster with them, the rows are rounded to 8
    /// bits too, and on another the weights stay in 32.
    pub fn for_rows(weight: &[f32], bias: Vec<f32>, precision: Precision) -> Self {
        if !precision.has_8_bits() || !Int8Matrix::is_fast() {
            return Self::new(weight, bias, Precision::F32);
        }
        Self(Body::Rounded(Rounded::new(weight, bias)))
    }

    /// Reads `weight` `[outputs, inputs]` and `bias` `[outputs]`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, inputs: usize, outputs: usize, precision: Precision) -> Result<Self> {
        Ok(Self::new(&scope.values("weight", &[outputs, inputs])?, scope.values("bias", &[outputs])?, precision))
    }

    /// Reads `weight` of the published `shape` `[outputs, inputs]` (trailing ones allowed) and, if present, `bias`
    /// `[outputs]`; the layer's output is multiplied by `scale`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_scaled(scope: &Scope, shape: &[usize], bias: Bias, scale: f32) -> Result<Self> {
        let (weight, bias) = scaled(scope, shape, bias, scale)?;
        Ok(Self::new(&weight, bias, Precision::F32))
    }

    /// As [`Packed::load_scaled`] and [`Packed::for_rows`].
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_for_rows(scope: &Scope, shape: &[usize], bias: Bias, scale: f32, precision: Precision) -> Result<Self> {
        let (weight, bias) = scaled(scope, shape, bias, scale)?;
        Ok(Self::for_rows(&weight, bias, precision))
    }

    /// Width of an output row.
    pub fn outputs(&self) -> usize {
        match &self.0 {
            Body::Packed(_, bias) => bias.len(),
            Body::Rounded(layer) => layer.outputs(),
        }
    }

    /// Applies the layer: `x` `[rows, inputs]` to `[rows, outputs]`.
    pub fn forward(&self, pool: &ThreadPool, x: &[f32]) -> Vec<f32> {
        match &self.0 {
            Body::Packed(weight, bias) => weight.forward(pool, x, Some(bias)),
            Body::Rounded(layer) => layer.forward(pool, &layer.round(pool, x)),
        }
    }

    /// As [`Packed::forward`], added to `out` `[rows, outputs]`.
    pub fn add_to(&self, pool: &ThreadPool, x: &[f32], out: &mut [f32]) {
        match &self.0 {
            Body::Packed(weight, bias) => weight.add_to(pool, x, Some(bias), out),
            Body::Rounded(layer) => layer.add_to(pool, &layer.round(pool, x), out),
        }
    }

    /// Bytes of weights.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Body::Packed(weight, _) => weight.bytes(),
            Body::Rounded(layer) => layer.bytes(),
        }
    }
}

/// Reads a linear layer's `weight` `[outputs, inputs]` and `bias` `[outputs]`, zeros without one, both multiplied by
/// `scale`.
///
/// # Errors
/// As [`Scope::values`].
pub fn scaled(scope: &Scope, shape: &[usize], bias: Bias, scale: f32) -> Result<(Vec<f32>, Vec<f32>)> {
    let mut weight = scope.values("weight", shape)?;
    let mut bias = match bias {
        Bias::With => scope.values("bias", &shape[..1])?,
        Bias::Without => vec![0.0; shape[0]],
    };
    if scale != 1.0 {
        weight.iter_mut().chain(&mut bias).for_each(|value| *value *= scale);
    }
    Ok((weight, bias))
}

/// Layer normalisation on the CPU, over plain memory.
#[derive(Clone, Debug)]
pub struct PackedNorm {
    gamma: Vec<f32>,
    beta: Vec<f32>,
    epsilon: f32,
}

/// The epsilon of most published classes.
const EPSILON: f32 = 1e-5;

impl PackedNorm {
    /// Reads `weight` and `bias`, `[size]` each; epsilon is 1e-5.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, size: usize) -> Result<Self> {
        Self::load_with(scope, size, EPSILON)
    }

    /// As [`PackedNorm::load`] with another epsilon.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_with(scope: &Scope, size: usize, epsilon: f32) -> Result<Self> {
        Ok(Self { gamma: scope.values("weight", &[size])?, beta: scope.values("bias", &[size])?, epsilon })
    }

    /// Normalises each row of `x` `[rows, size]`.
    pub fn forward(&self, pool: &ThreadPool, x: &[f32]) -> Vec<f32> {
        let mut out = vec![0f32; x.len()];
        let rows = (CHUNK / self.gamma.len()).max(1) * self.gamma.len();
        let mut work: Vec<_> = x.chunks(rows).zip(out.chunks_mut(rows)).collect();
        pool.for_each_item(&mut work, |_, (x, out)| {
            layer_norm_rows_with(x, &self.gamma, &self.beta, self.epsilon, out)
        });
        out
    }
}

/// Applies an elementwise operation in place, a chunk of values at a time.
pub fn apply_in_place(pool: &ThreadPool, values: &mut [f32], with: impl Fn(&mut [f32]) + Sync) {
    pool.for_each_item(&mut values.chunks_mut(CHUNK).collect::<Vec<_>>(), |_, values| with(values));
}
