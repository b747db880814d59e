//! The generator: upsampling with residual blocks, the excitation added at each rate, then spectra to samples.

use std::sync::Arc;

use auricle_kernels::channels::Channels;
use auricle_kernels::convolution::dense::cpu::ChannelConvolution;
use auricle_kernels::norm::instance::cpu::Activation;
use auricle_kernels::spectral::istft::Istft;
use auricle_kernels::thread_pool::ThreadPool;
use realfft::num_complex::Complex;

use super::adain::{AdaIn, convolution, too_wide};
use super::config::{Config, GeneratorConfig};
use super::source::hann;
use super::stages::Advanced;
use super::weight_norm;
use crate::error::{Error, Result};
use crate::weights::Scope;

/// Slopes of the activations below 0: before an upsampling, and before the last convolution.
pub const SLOPE: f32 = 0.1;
pub const LAST_SLOPE: f32 = 0.01;
/// Taps of the last convolution, and of the blocks of the excitation at the last rate and before.
pub const LAST_TAPS: usize = 7;
pub const SOURCE_TAPS: [usize; 2] = [11, 7];
/// Dilations of those blocks.
pub const SOURCE_DILATIONS: [usize; 3] = [1, 3, 5];

/// The generator.
#[derive(Debug)]
pub struct Generator {
    rates: Vec<Rate>,
    last: ChannelConvolution,
    istft: Istft,
}

/// Samples that are being made: the parts are steps, so that none takes long.
#[derive(Clone, Debug)]
pub struct Unfinished {
    excitation: Arc<Channels>,
    style: Arc<[f32]>,
    /// The rate, and what it takes.
    at: usize,
    x: Arc<Channels>,
    /// The input of the rate's blocks, and how many are done, once it is there.
    entered: Option<(Arc<Channels>, usize)>,
    /// Of the blocks that are done.
    sum: Option<Arc<Channels>>,
}

/// The layers of one rate of frames.
#[derive(Debug)]
struct Rate {
    upsample: Upsampling,
    source: Downsampling,
    source_block: SnakeBlock,
    /// Their mean is taken; the next layer divides by their number.
    blocks: Vec<SnakeBlock>,
    is_last: bool,
}

/// A transposed convolution of twice as many taps as its rate.
#[derive(Debug)]
struct Upsampling {
    /// To all outputs of each frame and half its neighbours', a channel for each of `rate` places.
    frames: ChannelConvolution,
    rate: usize,
    outputs: usize,
}

/// A convolution with a stride, of twice as many taps, or of one frame.
#[derive(Debug)]
struct Downsampling {
    /// Over the frames of each place within a stride.
    frames: ChannelConvolution,
    stride: usize,
}

/// Three pairs of convolutions, each on a residual, normalised in a style.
#[derive(Debug)]
struct SnakeBlock(Vec<[Step; 2]>);

#[derive(Debug)]
struct Step {
    norm: AdaIn,
    /// `a` of the activation, of each channel.
    factors: Vec<f32>,
    convolution: ChannelConvolution,
}

impl Generator {
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let GeneratorConfig { window, hop, channels, rates, block_taps, block_dilations, .. } = &config.generator;
        // The mean of the blocks is taken by the weights of the layer that follows.
        let mean = 1.0 / block_taps.len() as f32;
        let load_rate = |at: usize| {
            let (inputs, outputs) = (channels >> at, channels >> (at + 1));
            let is_last = at + 1 == rates.len();
            let named = |name: &str, at: usize| scope.scope(name).scope(at);
            let snake = |scope: &Scope, taps, dilations: &[usize]| {
                SnakeBlock::load(scope, [outputs, taps, config.style], dilations)
            };
            let block = |(number, (taps, dilations)): (usize, (&usize, &Vec<usize>))| {
                snake(&named("resblocks", at * block_taps.len() + number), *taps, dilations)
            };
            let stride = rates[at + 1..].iter().product();
            Ok(Rate {
                upsample: Upsampling::load(
                    &named("ups", at),
                    [inputs, outputs, rates[at]],
                    if at == 0 { 1.0 } else { mean },
                )?,
                source: Downsampling::load(&named("noise_convs", at), window + 2, outputs, stride)?,
                source_block: snake(&named("noise_res", at), SOURCE_TAPS[usize::from(!is_last)], &SOURCE_DILATIONS)?,
                blocks: block_taps.iter().zip(block_dilations).enumerate().map(block).collect::<Result<_>>()?,
                is_last,
            })
        };
        let post = scope.scope("conv_post");
        let istft = Istft::new(&hann(*window), *hop);
        let istft = istft.ok_or_else(|| Error::internal("settings of a transform that were not checked"))?;
        let last_channels = channels >> rates.len();
        Ok(Self {
            rates: (0..rates.len()).map(load_rate).collect::<Result<_>>()?,
            last: scaled_inputs(&post, [last_channels, window + 2, LAST_TAPS], mean)?,
            istft,
        })
    }

    /// Begins samples of `x` `[channels, values of the pitch]` and the spectra of its excitation.
    pub fn start(&self, x: Channels, excitation: Channels, style: &[f32]) -> Unfinished {
        Unfinished { excitation: excitation.into(), style: style.into(), at: 0, x: x.into(), entered: None, sum: None }
    }

    /// Computes the next part.
    pub fn advance(&self, pool: &ThreadPool, before: &Unfinished) -> Advanced<Unfinished> {
        let Unfinished { x, style, .. } = before;
        let Some(rate) = self.rates.get(before.at) else { return Advanced::Samples(self.samples(pool, x)) };
        let mut after = before.clone();
        let Some((entered, done)) = &before.entered else {
            let entered = rate.enter(pool, x, &before.excitation, style);
            after.entered = Some((entered.into(), 0));
            return Advanced::Unfinished(after);
        };
        let mut out = rate.blocks[*done].forward(pool, Channels::clone(entered), style);
        if let Some(sum) = &before.sum {
            out.add(pool, sum);
        }
        if done + 1 < rate.blocks.len() {
            after.entered = Some((entered.clone(), done + 1));
            after.sum = Some(out.into());
        } else {
            let (excitation, style) = (after.excitation, after.style);
            after = Unfinished { excitation, style, at: before.at + 1, x: out.into(), entered: None, sum: None };
        }
        Advanced::Unfinished(after)
    }

    /// Samples of the last rate's sum.
    fn samples(&self, pool: &ThreadPool, x: &Channels) -> Vec<f32> {
        let mut x = x.clone();
        x.leaky_relu(pool, LAST_SLOPE);
        let values = self.last.forward(pool, &x).to_frames();
        let bins = self.istft.bins();
        let (mut state, mut out) = (self.istft.start(), Vec::new());
        let mut spectrum = vec![Complex::default(); bins];
        for frame in values.chunks_exact(2 * bins) {
            let (magnitudes, phases) = frame.split_at(bins);
            for (value, (magnitude, phase)) in spectrum.iter_mut().zip(magnitudes.iter().zip(phases)) {
                *value = Complex::from_polar(magnitude.exp(), phase.sin());
            }
            self.istft.push(&mut state, &mut spectrum, &mut out);
        }
        self.istft.finish(&mut state, &mut out);
        out
    }
}

/// Reads a convolution of `[inputs, outputs, taps]` whose inputs are to be multiplied by `scale`.
fn scaled_inputs(scope: &Scope, [inputs, outputs, taps]: [usize; 3], scale: f32) -> Result<ChannelConvolution> {
    let mut weight = weight_norm::weight(scope, &[outputs, inputs, taps])?;
    weight.iter_mut().for_each(|value| *value *= scale);
    let bias = scope.values("bias", &[outputs])?;
    ChannelConvolution::new(&weight, bias, inputs, 1, taps / 2).ok_or_else(|| too_wide(scope))
}

impl Rate {
    /// The input of the blocks: `x` at this rate with the excitation.
    fn enter(&self, pool: &ThreadPool, x: &Channels, excitation: &Channels, style: &[f32]) -> Channels {
        let mut x = x.clone();
        x.leaky_relu(pool, SLOPE);
        // The last rate has a frame more, at the start: there is one around each hop of samples.
        let mut x = self.upsample.forward(pool, &x, usize::from(self.is_last));
        let source = self.source.forward(pool, excitation, x.frames());
        x.add(pool, &self.source_block.forward(pool, source, style));
        x
    }
}

impl Upsampling {
    /// Reads the weights `[inputs, outputs, 2 rate]`; inputs are to be multiplied by `scale`.
    fn load(scope: &Scope, [inputs, outputs, rate]: [usize; 3], scale: f32) -> Result<Self> {
        let taps = 2 * rate;
        let published = weight_norm::weight(scope, &[inputs, outputs, taps])?;
        let mut weight = vec![0.0; published.len()];
        for (at, value) in published.into_iter().enumerate() {
            let (input, output, tap) = (at / (taps * outputs), at / taps % outputs, at % taps);
            // A frame reaches its own places by the first taps, and the next frame's by the others.
            let is_own = usize::from(tap < rate);
            weight[((output * rate + tap % rate) * inputs + input) * 2 + is_own] = value * scale;
        }
        let bias = scope.values("bias", &[outputs])?;
        let bias = bias.into_iter().flat_map(|bias| vec![bias; rate]).collect();
        let frames = ChannelConvolution::new(&weight, bias, inputs, 1, 1).ok_or_else(|| too_wide(scope))?;
        Ok(Self { frames, rate, outputs })
    }

    /// `[inputs, frames]` to `[outputs, lead + rate * frames]`, where the frames of `lead`, 0 or 1, mirror those behind the first.
    fn forward(&self, pool: &ThreadPool, x: &Channels, lead: usize) -> Channels {
        let places = self.frames.forward_to(pool, x, x.frames() + 1);
        let mut out = Channels::zeros(self.outputs, lead + self.rate * x.frames());
        // Half a rate is cut off at each end.
        out.for_each_channel(pool, |channel, out| {
            for place in 0..self.rate {
                for (frame, value) in places.channel(channel * self.rate + place).iter().enumerate() {
                    let at = (frame * self.rate + place + lead).checked_sub(self.rate / 2);
                    if let Some(to) = at.filter(|at| *at >= lead).and_then(|at| out.get_mut(at)) {
                        *to = *value;
                    }
                }
            }
            if lead == 1 && out.len() > 2 {
                out[0] = out[2];
            }
        });
        out
    }
}

impl Downsampling {
    /// Reads the weights `[outputs, inputs, 2 stride]`, or `[outputs, inputs, 1]` where the stride is 1.
    fn load(scope: &Scope, inputs: usize, outputs: usize, stride: usize) -> Result<Self> {
        if stride == 1 {
            return Ok(Self { frames: convolution(scope, [inputs, outputs, 1], 1, 1.0)?, stride });
        }
        let published = scope.values("weight", &[outputs, inputs, 2 * stride])?;
        let mut weight = vec![0.0; published.len()];
        for (at, value) in published.into_iter().enumerate() {
            let (row, tap) = (at / (2 * stride), at % (2 * stride));
            weight[(row * stride + tap % stride) * 2 + tap / stride] = value;
        }
        let bias = scope.values("bias", &[outputs])?;
        let frames = ChannelConvolution::new(&weight, bias, inputs * stride, 1, 0).ok_or_else(|| too_wide(scope))?;
        Ok(Self { frames, stride })
    }

    /// To so many frames.
    fn forward(&self, pool: &ThreadPool, x: &Channels, frames: usize) -> Channels {
        let stride = self.stride;
        if stride == 1 {
            return self.frames.forward_to(pool, x, frames);
        }
        let before = stride.div_ceil(2);
        let mut places = Channels::zeros(x.channels() * stride, frames + 1);
        places.for_each_channel(pool, |channel, row| {
            let (x, place) = (x.channel(channel / stride), channel % stride);
            for (frame, to) in row.iter_mut().enumerate() {
                *to = (frame * stride + place).checked_sub(before).and_then(|at| x.get(at)).copied().unwrap_or(0.0);
            }
        });
        self.frames.forward_to(pool, &places, frames)
    }
}

impl SnakeBlock {
    fn load(scope: &Scope, [channels, taps, style]: [usize; 3], dilations: &[usize]) -> Result<Self> {
        let step = |at: usize, half: usize, dilation| {
            let part = |name: &str| scope.scope(format!("{name}{half}")).scope(at);
            Ok(Step {
                norm: AdaIn::load(&part("adain"), channels, style)?,
                factors: scope.scope(format!("alpha{half}")).values(&at.to_string(), &[1, channels, 1])?,
                convolution: convolution(&part("convs"), [channels, channels, taps], dilation, 1.0)?,
            })
        };
        let pair = |(at, dilation): (usize, &usize)| Ok([step(at, 1, *dilation)?, step(at, 2, 1)?]);
        dilations.iter().enumerate().map(pair).collect::<Result<_>>().map(Self)
    }

    fn forward(&self, pool: &ThreadPool, mut x: Channels, style: &[f32]) -> Channels {
        for [first, second] in &self.0 {
            let normed =
                |step: &Step, x: &Channels| step.norm.forward(pool, x, style, Activation::Snake(&step.factors));
            let y = first.convolution.forward(pool, &normed(first, &x));
            second.convolution.add_to(pool, &normed(second, &y), &mut x);
        }
        x
    }
}
