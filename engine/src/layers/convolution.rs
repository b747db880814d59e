//! Convolutions over frames as products: the taps of each frame side by side, times one matrix.

use auricle_kernels::activation::Activation;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::ThreadPool;
use burn::tensor::{Slice, Tensor};

use super::{Bias, Linear, Packed};
use crate::error::Result;
use crate::weights::Scope;

/// A convolution over frames, as tensors.
#[derive(Clone, Debug)]
pub struct Convolution {
    /// `[taps * inputs]` to `[outputs]`, the earliest tap first.
    product: Linear,
    taps: usize,
    stride: usize,
}

impl Convolution {
    /// Reads `weight` `[outputs, inputs, taps]` and `bias`; `taps` is odd.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, inputs: usize, outputs: usize, taps: usize) -> Result<Self> {
        Self::load_strided(scope, [inputs, outputs, taps, 1], Precision::F32)
    }

    /// As [`Convolution::load`] for every so many frames, with weights of this precision: inputs, outputs, taps, stride.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_strided(
        scope: &Scope,
        [inputs, outputs, taps, stride]: [usize; 4],
        precision: Precision,
    ) -> Result<Self> {
        let weight = tap_rows(&scope.values("weight", &[outputs, inputs, taps])?, [outputs, inputs, taps]);
        let bias = scope.values("bias", &[outputs])?;
        let product = Linear::from_values(weight, taps * inputs, outputs, Some(bias), scope.device());
        Ok(Self { product: product.with_precision(precision), taps, stride })
    }

    /// `[rows, frames, inputs]` to `[rows, frames / stride, outputs]`, with zeros before and after the frames.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        self.product.forward(self.windows(x))
    }

    /// An activation of [`Convolution::forward`].
    pub fn forward_activated(&self, x: Tensor<3>, activation: Activation) -> Tensor<3> {
        self.product.forward_activated(self.windows(x), activation)
    }

    /// The taps of each frame side by side, in the type that the product takes.
    fn windows(&self, x: Tensor<3>) -> Tensor<3> {
        let x = if x.dtype() == self.product.dtype() { x } else { x.cast(self.product.dtype()) };
        if self.taps == 1 && self.stride == 1 {
            return x;
        }
        let [rows, frames, inputs] = x.dims();
        let zeros = Tensor::zeros([rows, self.taps / 2, inputs], (&x.device(), x.dtype()));
        let padded = Tensor::cat(vec![zeros.clone(), x, zeros], 1);
        let range = |tap: usize| Slice::with_step(tap as isize, Some((tap + frames) as isize), self.stride as isize);
        let taps =
            (0..self.taps).map(|tap| padded.clone().slice([Slice::from(0..rows), range(tap), Slice::from(0..inputs)]));
        Tensor::cat(taps.collect(), 2)
    }
}

/// The published weights of a convolution, `[outputs, inputs, taps]`, as `[taps * inputs, outputs]`, the earliest tap first.
pub fn tap_rows(published: &[f32], [outputs, inputs, taps]: [usize; 3]) -> Vec<f32> {
    let mut weight = vec![0.0; published.len()];
    for (at, value) in published.iter().enumerate() {
        let (output, input, tap) = (at / (taps * inputs), at / taps % inputs, at % taps);
        weight[(tap * inputs + input) * outputs + output] = *value;
    }
    weight
}

/// A convolution over frames of plain memory, on the CPU.
#[derive(Clone, Debug)]
pub struct PackedConvolution {
    product: Packed,
    inputs: usize,
    taps: usize,
}

impl PackedConvolution {
    /// As [`Convolution::load`].
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, inputs: usize, outputs: usize, taps: usize) -> Result<Self> {
        Ok(Self { product: Self::load_product(scope, [inputs, outputs, taps], Bias::With)?, inputs, taps })
    }

    /// Reads `weight` `[outputs, inputs, taps]` and, if it has one, `bias`, as a product of the windows.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_product(scope: &Scope, [inputs, outputs, taps]: [usize; 3], bias: Bias) -> Result<Packed> {
        let published = scope.values("weight", &[outputs, inputs, taps])?;
        let mut weight = vec![0.0; published.len()];
        for (at, value) in published.into_iter().enumerate() {
            let (output, input, tap) = (at / (taps * inputs), at / taps % inputs, at % taps);
            weight[(output * taps + tap) * inputs + input] = value;
        }
        let bias = match bias {
            Bias::With => scope.values("bias", &[outputs])?,
            Bias::Without => vec![0.0; outputs],
        };
        Ok(Packed::new(&weight, bias, Precision::F32))
    }

    /// A convolution by a product of the windows: `[taps * inputs]` to the outputs, the earliest tap first.
    pub fn new(product: Packed, inputs: usize, taps: usize) -> Self {
        Self { product, inputs, taps }
    }

    /// Values of a frame before it.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Frames that an output sees.
    pub fn taps(&self) -> usize {
        self.taps
    }

    /// Convolves rows one after another, of `lengths` frames each, with zeros before and after each row: `x` `[frames, inputs]` to
    /// `[frames, outputs]`.
    pub fn forward(&self, pool: &ThreadPool, x: &[f32], lengths: &[usize]) -> Vec<f32> {
        if self.taps == 1 {
            return self.product.forward(pool, x);
        }
        let (margin, mut rest) = (self.taps / 2 * self.inputs, x);
        let rows = lengths.iter().map(|length| {
            let (row, after) = rest.split_at(length * self.inputs);
            rest = after;
            let mut padded = vec![0.0; row.len() + 2 * margin];
            padded[margin..margin + row.len()].copy_from_slice(row);
            padded
        });
        self.forward_padded(pool, &rows.collect::<Vec<_>>())
    }

    /// Convolves rows that hold the frames before and after them: each `[frames + taps - 1, inputs]`; the outputs
    /// `[frames, outputs]` of all rows are concatenated. A row shorter than the taps has no output.
    pub fn forward_padded(&self, pool: &ThreadPool, rows: &[Vec<f32>]) -> Vec<f32> {
        let span = self.taps * self.inputs;
        let frames = |row: &Vec<f32>| (row.len() / self.inputs + 1).saturating_sub(self.taps);
        let mut windows = Vec::with_capacity(rows.iter().map(frames).sum::<usize>() * span);
        for row in rows {
            (0..frames(row)).for_each(|frame| windows.extend_from_slice(&row[frame * self.inputs..][..span]));
        }
        self.product.forward(pool, &windows)
    }
}
