//! Adaptive instance normalisation and the residual blocks of it: a style sets factor and bias of each channel.

use auricle_kernels::channels::Channels;
use auricle_kernels::convolution::dense::cpu::ChannelConvolution;
use auricle_kernels::norm::instance::cpu::{Activation, instance_norm};
use auricle_kernels::thread_pool::ThreadPool;

use super::weight_norm;
use crate::error::{Error, Result};
use crate::weights::Scope;

/// Slope of the activation below 0.
pub const SLOPE: f32 = 0.2;

/// Reads a convolution to as many frames of `[inputs, outputs, taps]`, whose output is multiplied by `scale`; without a bias where there
/// is none.
///
/// # Errors
/// As [`Scope::values`].
pub fn convolution(
    scope: &Scope,
    [inputs, outputs, taps]: [usize; 3],
    dilation: usize,
    scale: f32,
) -> Result<ChannelConvolution> {
    let mut weight = weight_norm::weight(scope, &[outputs, inputs, taps])?;
    let mut bias = if scope.has("bias") { scope.values("bias", &[outputs])? } else { vec![0.0; outputs] };
    if scale != 1.0 {
        weight.iter_mut().chain(&mut bias).for_each(|value| *value *= scale);
    }
    let before = taps / 2 * dilation;
    ChannelConvolution::new(&weight, bias, inputs, dilation, before).ok_or_else(|| too_wide(scope))
}

/// A convolution that sees more frames than there are around an utterance.
pub fn too_wide(scope: &Scope) -> Error {
    let reason = "the convolution sees more frames than are supported".into();
    Error::Weights { tensor: scope.name("weight"), reason }
}

/// A normalisation whose factors and biases come from a style.
#[derive(Debug)]
pub struct AdaIn {
    /// `[2 channels, style]`
    weight: Vec<f32>,
    bias: Vec<f32>,
    /// Factors and biases that the published class has beside the style's; most checkpoints leave them at 1 and 0.
    affine: Option<[Vec<f32>; 2]>,
    channels: usize,
}

impl AdaIn {
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, channels: usize, style: usize) -> Result<Self> {
        let (fc, norm) = (scope.scope("fc"), scope.scope("norm"));
        let affine = match norm.has("weight") || norm.has("bias") {
            true => Some([norm.values("weight", &[channels])?, norm.values("bias", &[channels])?]),
            false => None,
        };
        let (weight, bias) = (fc.values("weight", &[2 * channels, style])?, fc.values("bias", &[2 * channels])?);
        Ok(Self { weight, bias, affine, channels })
    }

    /// Normalises `x` in a style, and applies an activation.
    pub fn forward(&self, pool: &ThreadPool, x: &Channels, style: &[f32], activation: Activation) -> Channels {
        let rows = self.weight.chunks_exact(style.len()).zip(&self.bias);
        let mut scale: Vec<f32> =
            rows.map(|(row, bias)| row.iter().zip(style).map(|(a, b)| a * b).sum::<f32>() + bias).collect();
        let mut shift = scale.split_off(self.channels);
        for (channel, (scale, shift)) in scale.iter_mut().zip(&mut shift).enumerate() {
            *scale += 1.0;
            if let Some([factor, bias]) = &self.affine {
                *shift += *scale * bias[channel];
                *scale *= factor[channel];
            }
        }
        instance_norm(x, pool, &scale, &shift, activation)
    }
}

/// A residual block: two normalisations with convolutions, and a shortcut; some double the frames.
#[derive(Debug)]
pub struct AdaInBlock {
    norms: [AdaIn; 2],
    convolutions: [ChannelConvolution; 2],
    /// None if inputs and outputs are as many.
    shortcut: Option<ChannelConvolution>,
    /// Of a block that doubles the frames.
    doubling: Option<Doubling>,
}

/// A transposed convolution of three taps of each channel alone, to twice the frames.
#[derive(Debug)]
struct Doubling {
    /// `[channels, 3]`
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl AdaInBlock {
    /// The block doubles the frames where its checkpoint has the weights of that.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, inputs: usize, outputs: usize, style: usize) -> Result<Self> {
        // The sum of the two branches has the variance of one.
        let scale = std::f32::consts::FRAC_1_SQRT_2;
        let pool = scope.scope("pool");
        let doubling = match weight_norm::shape(&pool).is_some() {
            true => Some(Doubling {
                weight: weight_norm::weight(&pool, &[inputs, 1, 3])?,
                bias: pool.values("bias", &[inputs])?,
            }),
            false => None,
        };
        let shortcut = match inputs == outputs {
            true => None,
            false => Some(convolution(&scope.scope("conv1x1"), [inputs, outputs, 1], 1, scale)?),
        };
        Ok(Self {
            norms: [
                AdaIn::load(&scope.scope("norm1"), inputs, style)?,
                AdaIn::load(&scope.scope("norm2"), outputs, style)?,
            ],
            convolutions: [
                convolution(&scope.scope("conv1"), [inputs, outputs, 3], 1, 1.0)?,
                convolution(&scope.scope("conv2"), [outputs, outputs, 3], 1, scale)?,
            ],
            shortcut,
            doubling,
        })
    }

    /// `[inputs, frames]` to `[outputs, frames]`, or twice the frames.
    pub fn forward(&self, pool: &ThreadPool, x: &Channels, style: &[f32]) -> Channels {
        let activation = Activation::LeakyRelu(SLOPE);
        let mut y = self.norms[0].forward(pool, x, style, activation);
        let doubled = self.doubling.as_ref().map(|doubling| {
            y = doubling.forward(pool, &y);
            each_twice(pool, x)
        });
        let x = doubled.as_ref().unwrap_or(x);
        let y = self.convolutions[0].forward(pool, &y);
        let y = self.norms[1].forward(pool, &y, style, activation);
        let mut out = match &self.shortcut {
            Some(shortcut) => shortcut.forward(pool, x),
            None => {
                let mut out = x.clone();
                out.for_each_channel(pool, |_, row| {
                    row.iter_mut().for_each(|value| *value *= std::f32::consts::FRAC_1_SQRT_2);
                });
                out
            }
        };
        self.convolutions[1].add_to(pool, &y, &mut out);
        out
    }
}

impl Doubling {
    fn forward(&self, pool: &ThreadPool, x: &Channels) -> Channels {
        let mut out = Channels::zeros(x.channels(), 2 * x.frames());
        out.for_each_channel(pool, |channel, out| {
            let (weight, bias) = (&self.weight[3 * channel..][..3], self.bias[channel]);
            let x = x.channel(channel);
            for ((at, value), pair) in x.iter().enumerate().zip(out.as_chunks_mut::<2>().0) {
                let next = x.get(at + 1).copied().unwrap_or(0.0);
                *pair = [value * weight[1] + bias, value * weight[2] + next * weight[0] + bias];
            }
        });
        out
    }
}

/// Each frame twice.
fn each_twice(pool: &ThreadPool, x: &Channels) -> Channels {
    let mut out = Channels::zeros(x.channels(), 2 * x.frames());
    out.for_each_channel(pool, |channel, out| {
        let pairs = out.as_chunks_mut::<2>().0;
        pairs.iter_mut().zip(x.channel(channel)).for_each(|(pair, value)| *pair = [*value; 2]);
    });
    out
}
