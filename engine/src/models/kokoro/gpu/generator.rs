//! The generator: upsampling with residual blocks, the excitation added at each rate, then spectra to samples.

use auricle_kernels::convolution::dense::Windows;
use auricle_kernels::norm::instance::{Activation, instance_norm};
use auricle_kernels::spectral::istft::polar_istft;
use burn::tensor::{Tensor, TensorData};

use super::convolution::Convolution;
use super::style::StyleLayers;
use crate::device::{read, wait};
use crate::error::Result;
use crate::models::kokoro::config::{Config, GeneratorConfig};
use crate::models::kokoro::generator::{LAST_SLOPE, LAST_TAPS, SLOPE, SOURCE_DILATIONS, SOURCE_TAPS};
use crate::models::kokoro::source::hann;
use crate::models::kokoro::stages::Advanced;
use crate::models::kokoro::weight_norm;
use crate::weights::Scope;

/// The generator.
#[derive(Debug)]
pub struct Generator {
    rates: Vec<Rate>,
    last: Convolution,
    window: Tensor<1>,
    hop: usize,
}

/// Samples that are being made: the parts are steps, so that none takes long.
#[derive(Clone, Debug)]
pub struct Unfinished {
    /// `[samples / hop + 1, 2 bins]`
    excitation: Tensor<2>,
    /// Factors and biases of all layers.
    factors: Tensor<1>,
    /// The rate, and what it takes.
    at: usize,
    x: Tensor<2>,
    /// The input of the rate's blocks, and how many are done, once it is there.
    entered: Option<(Tensor<2>, usize)>,
    /// Of the blocks that are done.
    sum: Option<Tensor<2>>,
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
    /// Two taps to the outputs of each of `rate` places, place by place.
    places: Convolution,
    rate: usize,
    outputs: usize,
}

/// A convolution with a stride, of twice as many taps, or of one frame.
#[derive(Debug)]
struct Downsampling {
    convolution: Convolution,
    stride: usize,
}

/// Three pairs of convolutions, each on a residual, normalised in a style.
#[derive(Debug)]
struct SnakeBlock(Vec<[Step; 2]>);

#[derive(Debug)]
struct Step {
    /// Place of the factors of the norm.
    norm: usize,
    activation: Activation,
    convolution: Convolution,
}

impl Generator {
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, config: &Config, styles: &mut StyleLayers) -> Result<Self> {
        let GeneratorConfig { window, hop, channels, rates, block_taps, block_dilations, .. } = &config.generator;
        // The mean of the blocks is taken by the weights of the layer that follows.
        let mean = 1.0 / block_taps.len() as f32;
        let mut loaded = Vec::with_capacity(rates.len());
        for (at, rate) in rates.iter().enumerate() {
            let (inputs, outputs) = (channels >> at, channels >> (at + 1));
            let is_last = at + 1 == rates.len();
            let named = |name: &str, at: usize| scope.scope(name).scope(at);
            let stride = rates[at + 1..].iter().product();
            let taps = SOURCE_TAPS[usize::from(!is_last)];
            let source_block = SnakeBlock::load(&named("noise_res", at), [outputs, taps], &SOURCE_DILATIONS, styles)?;
            let mut blocks = Vec::with_capacity(block_taps.len());
            for (number, (taps, dilations)) in block_taps.iter().zip(block_dilations).enumerate() {
                let scope = named("resblocks", at * block_taps.len() + number);
                blocks.push(SnakeBlock::load(&scope, [outputs, *taps], dilations, styles)?);
            }
            let scale = if at == 0 { 1.0 } else { mean };
            loaded.push(Rate {
                upsample: Upsampling::load(&named("ups", at), [inputs, outputs, *rate], scale)?,
                source: Downsampling::load(&named("noise_convs", at), window + 2, outputs, stride)?,
                source_block,
                blocks,
                is_last,
            });
        }
        let post = scope.scope("conv_post");
        let shape = [channels >> rates.len(), window + 2, LAST_TAPS];
        Ok(Self {
            rates: loaded,
            last: Convolution::load(&post, shape, 1, [mean, 1.0])?,
            window: Tensor::from_data(TensorData::new(hann(*window), [*window]), scope.device()),
            hop: *hop,
        })
    }

    /// Begins samples of `x` `[values of the pitch, channels]`, the spectra of its excitation, and the factors of its style.
    pub fn start(&self, x: Tensor<2>, excitation: Tensor<2>, factors: Tensor<1>) -> Unfinished {
        Unfinished { excitation, factors, at: 0, x, entered: None, sum: None }
    }

    /// Computes the next part, and waits for it: others may have the device then.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn advance(&self, before: &Unfinished) -> Result<Advanced<Unfinished>> {
        let Some(rate) = self.rates.get(before.at) else {
            return self.samples(before.x.clone()).map(Advanced::Samples);
        };
        let mut after = before.clone();
        match &before.entered {
            None => after.entered = Some((rate.enter(before), 0)),
            Some((entered, done)) => {
                let mut out = rate.blocks[*done].forward(entered.clone(), &before.factors);
                if let Some(sum) = &before.sum {
                    out = out + sum.clone();
                }
                if done + 1 < rate.blocks.len() {
                    after.entered = Some((entered.clone(), done + 1));
                    after.sum = Some(out);
                } else {
                    after = Unfinished { at: before.at + 1, x: out, entered: None, sum: None, ..after };
                }
            }
        }
        wait(&before.x.device())?;
        Ok(Advanced::Unfinished(after))
    }

    /// Samples of the last rate's sum.
    fn samples(&self, x: Tensor<2>) -> Result<Vec<f32>> {
        let values = self.last.forward_sloped(x, LAST_SLOPE);
        read(polar_istft(values, self.window.clone(), self.hop))
    }
}

impl Rate {
    /// The input of the blocks: `x` at this rate with the excitation.
    fn enter(&self, Unfinished { x, excitation, factors, .. }: &Unfinished) -> Tensor<2> {
        let x = self.upsample.forward(x.clone());
        // The last rate has a frame more, at the start, which mirrors the one behind the first: there is one around each hop of samples.
        let x = if self.is_last { Tensor::cat(vec![x.clone().narrow(0, 1, 1), x], 0) } else { x };
        let source = self.source.forward(excitation.clone(), x.dims()[0]);
        x + self.source_block.forward(source, factors)
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
            weight[((tap % rate * outputs + output) * inputs + input) * 2 + is_own] = value * scale;
        }
        let bias = scope.values("bias", &[outputs])?.repeat(rate);
        Ok(Self { places: Convolution::new(&weight, bias, 2, 1, scope.device()), rate, outputs })
    }

    /// Activates `[frames, inputs]`, and gives `[rate * frames, outputs]`.
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let frames = x.dims()[0];
        let windows = Windows { frames: frames + 1, stride: 1, dilation: 1, before: 1, slope: SLOPE };
        let places = self.places.forward_windows(x, windows).reshape([(frames + 1) * self.rate, self.outputs]);
        // Half a rate is cut off at each end.
        places.narrow(0, self.rate / 2, self.rate * frames)
    }
}

impl Downsampling {
    /// Reads the weights `[outputs, inputs, 2 stride]`, or `[outputs, inputs, 1]` where the stride is 1.
    fn load(scope: &Scope, inputs: usize, outputs: usize, stride: usize) -> Result<Self> {
        let taps = if stride == 1 { 1 } else { 2 * stride };
        Ok(Self { convolution: Convolution::load(scope, [inputs, outputs, taps], 1, [1.0; 2])?, stride })
    }

    /// To so many frames.
    fn forward(&self, x: Tensor<2>, frames: usize) -> Tensor<2> {
        let before = if self.stride == 1 { 0 } else { self.stride.div_ceil(2) };
        self.convolution.forward_windows(x, Windows { frames, stride: self.stride, dilation: 1, before, slope: 1.0 })
    }
}

impl SnakeBlock {
    fn load(
        scope: &Scope,
        [channels, taps]: [usize; 2],
        dilations: &[usize],
        styles: &mut StyleLayers,
    ) -> Result<Self> {
        let mut step = |at: usize, half: usize, dilation| {
            let part = |name: &str| scope.scope(format!("{name}{half}")).scope(at);
            let factors = scope.scope(format!("alpha{half}")).tensor(&at.to_string(), [1, channels, 1])?;
            Ok(Step {
                norm: styles.load(&part("adain"), channels)?,
                activation: Activation::Snake(Box::new(factors.reshape([channels]))),
                convolution: Convolution::load(&part("convs"), [channels, channels, taps], dilation, [1.0; 2])?,
            })
        };
        let pair = |(at, dilation): (usize, &usize)| Ok([step(at, 1, *dilation)?, step(at, 2, 1)?]);
        dilations.iter().enumerate().map(pair).collect::<Result<_>>().map(Self)
    }

    fn forward(&self, mut x: Tensor<2>, factors: &Tensor<1>) -> Tensor<2> {
        for [first, second] in &self.0 {
            let normed = |step: &Step, x| instance_norm(x, factors.clone(), step.norm, &step.activation);
            let y = first.convolution.forward(normed(first, x.clone()));
            x = second.convolution.forward_added(normed(second, y), x, 1.0);
        }
        x
    }
}
