//! Causal convolutions over the frames of streams: a stream keeps the frames that its next output sees.

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::ThreadPool;

use super::{Bias, Packed, PackedConvolution};
use crate::error::Result;
use crate::weights::Scope;

/// A causal convolution, plain or transposed, on the CPU.
#[derive(Clone, Debug)]
pub struct CausalConvolution(PackedConvolution);

impl CausalConvolution {
    /// Reads a convolution: `weight` `[outputs, inputs, taps]` and `bias`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, inputs: usize, outputs: usize, taps: usize) -> Result<Self> {
        PackedConvolution::load(scope, inputs, outputs, taps).map(Self)
    }

    /// Reads a transposed convolution whose taps are twice its `stride`: `weight` `[inputs, outputs, 2 * stride]` and `bias`. Its
    /// `stride` outputs of a frame are made of that frame and the one before: a convolution of two taps that makes them all at once.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_transposed(scope: &Scope, inputs: usize, outputs: usize, stride: usize) -> Result<Self> {
        let taps = 2 * stride;
        let published = scope.values("weight", &[inputs, outputs, taps])?;
        let mut weight = vec![0.0; published.len()];
        for (at, value) in published.into_iter().enumerate() {
            let (input, output, tap) = (at / (taps * outputs), at / taps % outputs, at % taps);
            // A frame reaches its own outputs by the first taps, and the next frame's by the others.
            let is_own = usize::from(tap < stride);
            weight[((tap % stride * outputs + output) * 2 + is_own) * inputs + input] = value;
        }
        let bias = scope.values("bias", &[outputs])?.repeat(stride);
        Ok(Self(PackedConvolution::new(Packed::new(&weight, bias, Precision::F32), inputs, 2)))
    }

    /// Reads a convolution of every `stride` frames whose taps are twice as many: `weight` `[outputs, inputs, 2 * stride]` and, if it has
    /// one, `bias`. `stride` frames side by side are one of a convolution of two taps.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load_strided(scope: &Scope, [inputs, outputs, stride]: [usize; 3], bias: Bias) -> Result<Self> {
        let product = PackedConvolution::load_product(scope, [inputs, outputs, 2 * stride], bias)?;
        Ok(Self(PackedConvolution::new(product, stride * inputs, 2)))
    }

    /// The kept frames of a stream that begins: zeros.
    pub fn start(&self) -> Vec<f32> {
        vec![0.0; (self.0.taps() - 1) * self.0.inputs()]
    }

    /// Convolves the next frames of streams, one stream after another: `x` `[frames, inputs]` to `[frames, outputs]`, or
    /// `[frames * stride, outputs]`, or of a convolution of every `stride` frames `[frames * stride, inputs]` to `[frames, outputs]`, with
    /// `lengths` frames each. `kept` is what each stream keeps.
    pub fn forward(&self, pool: &ThreadPool, x: &[f32], lengths: &[usize], kept: &mut [&mut Vec<f32>]) -> Vec<f32> {
        let mut rest = x;
        let rows = lengths.iter().zip(kept).map(|(length, kept)| {
            let (new, after) = rest.split_at(length * self.0.inputs());
            rest = after;
            let seen = [kept.as_slice(), new].concat();
            **kept = seen[seen.len() - kept.len()..].to_vec();
            seen
        });
        self.0.forward_padded(pool, &rows.collect::<Vec<_>>())
    }
}
