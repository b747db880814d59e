//! The network on GPUs: the utterances of a batch are rows of tensors, padded to the longest.

use auricle_kernels::activation;
use burn::tensor::ops::{AttentionModuleOptions, ConvOptions};
use burn::tensor::{Bool, Device, Tensor, TensorData, module};

use super::config::{Config, PredictorConfig, StackConfig};
use super::cpu::position_embeddings;
use super::durations::durations;
use super::utterance::{MelFrames, Stages, Utterance};
use crate::device::read;
use crate::error::Result;
use crate::layers::{Bias, Convolution, LayerNorm, Linear, fold_batch_norm, row_indices};
use crate::weights::{Scope, Weights};

/// Added to the score of a masked key. Finite, so that a row without any key stays finite too.
const MASKED: f32 = -1e4;

/// The network.
#[derive(Debug)]
pub struct Network {
    /// `[symbols, hidden]`
    symbols: Tensor<2>,
    /// `[voices, hidden]`
    voices: Option<Tensor<2>>,
    encoder: Stack,
    duration: Predictor,
    pitch: Predictor,
    energy: Predictor,
    pitch_embedding: Convolution,
    energy_embedding: Convolution,
    decoder: Stack,
    /// Includes the factor of two of a model without a post-net.
    mels: Linear,
    config: Config,
}

#[derive(Debug)]
struct Stack {
    layers: Vec<Layer>,
    size: usize,
}

#[derive(Debug)]
struct Layer {
    macaron: FeedForward,
    attention_norm: LayerNorm,
    attention: Attention,
    convolution: ConvolutionModule,
    feed_forward: FeedForward,
    norm: LayerNorm,
}

#[derive(Debug)]
struct FeedForward {
    norm: LayerNorm,
    up: Convolution,
    down: Convolution,
}

#[derive(Debug)]
struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    position: Linear,
    /// `[1, heads, 1, head]`: content and position bias of the query.
    by_content: Tensor<4>,
    by_position: Tensor<4>,
    heads: usize,
}

#[derive(Debug)]
struct ConvolutionModule {
    norm: LayerNorm,
    gated: Linear,
    /// `[hidden, 1, taps]` and `[hidden]`; the batch norm is folded in.
    depthwise: (Tensor<3>, Tensor<1>),
    output: Linear,
}

#[derive(Debug)]
struct Predictor {
    layers: Vec<(Convolution, LayerNorm)>,
    linear: Linear,
}

/// The real part of padded rows; none where all is real.
struct Padding {
    /// `[rows, length, 1]`: 1 where real, else 0.
    real: Option<Tensor<3>>,
    /// `[rows, 1, 1, length]`: true at keys that are not real.
    hidden_keys: Option<Tensor<4, Bool>>,
}

impl Padding {
    fn of(lengths: &[usize], longest: usize, device: &Device) -> Self {
        if lengths.iter().all(|length| *length == longest) {
            return Self { real: None, hidden_keys: None };
        }
        let is_real: Vec<bool> = lengths.iter().flat_map(|length| (0..longest).map(move |at| at < *length)).collect();
        let ones: Vec<f32> = is_real.iter().map(|real| f32::from(u8::from(*real))).collect();
        let hidden: Vec<bool> = is_real.iter().map(|real| !real).collect();
        let rows = lengths.len();
        Self {
            real: Some(Tensor::from_data(TensorData::new(ones, [rows, longest, 1]), device)),
            hidden_keys: Some(Tensor::from_data(TensorData::new(hidden, [rows, 1, 1, longest]), device)),
        }
    }

    /// Sets what is not real to zero.
    fn clear(&self, x: Tensor<3>) -> Tensor<3> {
        match &self.real {
            Some(real) => x * real.clone(),
            None => x,
        }
    }
}

impl Network {
    pub fn load(weights: &Weights, config: &Config) -> Result<Self> {
        let size = config.hidden;
        let encoder = weights.scope("encoder");
        let voices = (config.voices > 0)
            .then(|| weights.scope("speaker_id_embedding").tensor("weight", [config.voices, size]))
            .transpose()?;
        let predictor = |name: &str, of| Predictor::load(&weights.scope(name), size, of);
        let embedding = |name: &str, taps| Convolution::load(&weights.scope(name).scope("conv"), 1, size, taps);
        Ok(Self {
            symbols: encoder.scope("embed").tensor("weight", [config.symbols, size])?,
            voices,
            encoder: Stack::load(&encoder, config, config.encoder)?,
            duration: predictor("duration_predictor", config.duration)?,
            pitch: predictor("pitch_predictor", config.pitch)?,
            energy: predictor("energy_predictor", config.energy)?,
            pitch_embedding: embedding("pitch_embed", config.pitch_taps)?,
            energy_embedding: embedding("energy_embed", config.energy_taps)?,
            decoder: Stack::load(&weights.scope("decoder"), config, config.decoder)?,
            mels: Linear::load_scaled(
                &weights.scope("speech_decoder_postnet").scope("feat_out"),
                &[config.mels, size],
                Bias::With,
                2.0,
            )?,
            config: config.clone(),
        })
    }

    /// None when the weights give no numbers, or an utterance without end.
    pub fn speak(&self, utterances: &[Utterance], device: &Device) -> Result<Option<(Vec<MelFrames>, Vec<Stages>)>> {
        let Config { hidden: size, duration_scale, .. } = self.config;
        let lengths: Vec<usize> = utterances.iter().map(|utterance| utterance.symbols.len()).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let rows = utterances.len();
        let symbols = utterances.iter().flat_map(|utterance| {
            let padding = std::iter::repeat_n(0, longest - utterance.symbols.len());
            utterance.symbols.iter().copied().chain(padding)
        });
        let symbols = row_indices(&symbols.collect::<Vec<_>>(), device);
        let padding = Padding::of(&lengths, longest, device);
        let x = self.symbols.clone().select(0, symbols).reshape([rows, longest, size]);
        let mut x = self.encoder.forward(x, &padding);
        if let Some(voices) = &self.voices {
            let numbers: Vec<usize> = utterances.iter().map(|utterance| utterance.voice).collect();
            let voices = voices.clone().select(0, row_indices(&numbers, device));
            x = x + voices.reshape([rows, 1, size]);
        }
        let predicted = [&self.duration, &self.pitch, &self.energy].map(|of| of.forward(x.clone(), &padding));
        let [log_durations, pitch, energy] = predicted;
        let stages = [log_durations, pitch.clone(), energy.clone()].map(read);
        let encoded = read(x.clone())?;
        let x = x + self.energy_embedding.forward(padding.clear(energy));
        let x = x + self.pitch_embedding.forward(padding.clear(pitch));
        let [log_durations, pitch, energy] = stages;
        let (log_durations, pitch, energy) = (log_durations?, pitch?, energy?);
        let (mut found, mut stages) = (Vec::new(), Vec::new());
        for (row, (utterance, length)) in utterances.iter().zip(&lengths).enumerate() {
            let own = row * longest..row * longest + length;
            let logs = &log_durations[own.clone()];
            let Some(durations) = durations(logs, duration_scale / utterance.speed) else { return Ok(None) };
            found.push(MelFrames { mels: Vec::new(), durations });
            stages.push(Stages {
                encoded: encoded[own.start * size..own.end * size].to_vec(),
                log_durations: logs.to_vec(),
                pitch: pitch[own.clone()].to_vec(),
                energy: energy[own].to_vec(),
            });
        }
        let lengths: Vec<usize> = found.iter().map(|found| found.durations.iter().sum()).collect();
        let frames = lengths.iter().copied().max().unwrap_or(0);
        // Each symbol is repeated for its frames. What pads a row does not matter.
        let repeated = found.iter().enumerate().flat_map(|(row, found)| {
            let symbols = found.durations.iter().enumerate();
            let own = symbols.flat_map(move |(at, count)| std::iter::repeat_n(row * longest + at, *count));
            own.chain(std::iter::repeat(row * longest)).take(frames)
        });
        let repeated = row_indices(&repeated.collect::<Vec<_>>(), device);
        let x = x.reshape([rows * longest, size]).select(0, repeated).reshape([rows, frames, size]);
        let x = self.decoder.forward(x, &Padding::of(&lengths, frames, device));
        let mels = read(self.mels.forward(x))?;
        for (row, (found, length)) in found.iter_mut().zip(lengths).enumerate() {
            found.mels = mels[row * frames * self.config.mels..][..length * self.config.mels].to_vec();
        }
        Ok(Some((found, stages)))
    }
}

impl Stack {
    fn load(scope: &Scope, config: &Config, stack: StackConfig) -> Result<Self> {
        let layers = scope.scope("conformer_layers");
        let load = |at| Layer::load(&layers.scope(at), config, stack);
        Ok(Self { layers: (0..stack.layers).map(load).collect::<Result<_>>()?, size: config.hidden })
    }

    /// `[rows, length, hidden]` to the same.
    fn forward(&self, x: Tensor<3>, padding: &Padding) -> Tensor<3> {
        let length = x.dims()[1];
        let embeddings = position_embeddings(length.saturating_sub(1), self.size);
        let count = embeddings.len() / self.size;
        let positions = Tensor::from_data(TensorData::new(embeddings, [count, self.size]), &x.device());
        let mut x = x * (self.size as f32).sqrt();
        for layer in &self.layers {
            x = layer.macaron.forward(x, padding);
            x = x.clone() + layer.attention.forward(layer.attention_norm.forward(x), &positions, padding);
            x = layer.convolution.forward(x, padding);
            x = layer.norm.forward(layer.feed_forward.forward(x, padding));
        }
        x
    }
}

impl Layer {
    fn load(scope: &Scope, config: &Config, stack: StackConfig) -> Result<Self> {
        let norm = |name: &str| LayerNorm::load(&scope.scope(name), config.hidden);
        let feed_forward = |name: &str, norm| FeedForward::load(&scope.scope(name), norm, config, stack);
        Ok(Self {
            macaron: feed_forward("feed_forward_macaron", norm("ff_macaron_layer_norm")?)?,
            attention_norm: norm("self_attn_layer_norm")?,
            attention: Attention::load(&scope.scope("self_attn"), config.hidden, stack.heads)?,
            convolution: ConvolutionModule::load(&scope.scope("conv_module"), norm("conv_layer_norm")?, config, stack)?,
            feed_forward: feed_forward("feed_forward", norm("ff_layer_norm")?)?,
            norm: norm("final_layer_norm")?,
        })
    }
}

impl FeedForward {
    fn load(scope: &Scope, norm: LayerNorm, config: &Config, stack: StackConfig) -> Result<Self> {
        let (size, taps) = (config.hidden, config.feed_forward_taps);
        Ok(Self {
            norm,
            up: Convolution::load(&scope.scope("conv1"), size, stack.inner, taps)?,
            down: Convolution::load(&scope.scope("conv2"), stack.inner, size, taps)?,
        })
    }

    /// Adds half of its output.
    fn forward(&self, x: Tensor<3>, padding: &Padding) -> Tensor<3> {
        let inner = self.up.forward(padding.clear(self.norm.forward(x.clone())));
        x + self.down.forward(padding.clear(activation::relu(inner))) * 0.5
    }
}

impl Attention {
    fn load(scope: &Scope, size: usize, heads: usize) -> Result<Self> {
        let head = size / heads;
        let linear = |name: &str, bias| Linear::load(&scope.scope(name), size, size, bias);
        let per_head = |name: &str| Ok(scope.tensor(name, [heads, head])?.reshape([1, heads, 1, head]));
        Ok(Self {
            query: linear("linear_q", Bias::With)?,
            key: linear("linear_k", Bias::With)?,
            value: linear("linear_v", Bias::With)?,
            output: linear("linear_out", Bias::With)?,
            position: linear("linear_pos", Bias::Without)?,
            by_content: per_head("pos_bias_u")?,
            by_position: per_head("pos_bias_v")?,
            heads,
        })
    }

    /// `[rows, length, hidden]`, normalised, to the same; `positions` are those of `2 length - 1` distances.
    fn forward(&self, x: Tensor<3>, positions: &Tensor<2>, padding: &Padding) -> Tensor<3> {
        let [rows, length, size] = x.dims();
        let head = size / self.heads;
        let split = |t: Tensor<3>| t.reshape([rows, length, self.heads, head]).swap_dims(1, 2);
        let [query, keys, values] = [&self.query, &self.key, &self.value].map(|of| split(of.forward(x.clone())));
        let count = positions.dims()[0];
        let places = self.position.forward(positions.clone()).reshape([1, count, self.heads, head]);
        let scale = (head as f32).powf(-0.5);
        let by_position = (query.clone() + self.by_position.clone()) * scale;
        let mut bias = by_key(by_position.matmul(places.permute([0, 2, 3, 1])));
        if let Some(hidden) = &padding.hidden_keys {
            bias = bias.mask_fill(hidden.clone().expand([rows, self.heads, length, length]), MASKED);
        }
        let options = AttentionModuleOptions { scale: Some(f64::from(scale)), softcap: None, is_causal: false };
        let attended = module::attention(query + self.by_content.clone(), keys, values, None, Some(bias), options);
        self.output.forward(attended.swap_dims(1, 2).reshape([rows, length, size]))
    }
}

/// Converts scores by distance, `[rows, heads, length, 2 length - 1]` from the farthest past to the farthest future, to scores by key,
/// `[rows, heads, length, length]`: row `i` moves left by `length - 1 - i`.
fn by_key(scores: Tensor<4>) -> Tensor<4> {
    let [rows, heads, length, distances] = scores.dims();
    // Padding by a column and reshaping move each row by one more than the row above.
    let padded = Tensor::cat(vec![Tensor::zeros([rows, heads, length, 1], &scores.device()), scores], 3);
    padded
        .reshape([rows, heads, distances + 1, length])
        .narrow(2, 1, distances)
        .reshape([rows, heads, length, distances])
        .narrow(3, 0, length)
}

impl ConvolutionModule {
    fn load(scope: &Scope, norm: LayerNorm, config: &Config, stack: StackConfig) -> Result<Self> {
        let (size, depthwise) = (config.hidden, scope.scope("depthwise_conv"));
        let mut weight = depthwise.values("weight", &[size, 1, stack.taps])?;
        let mut bias = Some(depthwise.values("bias", &[size])?);
        fold_batch_norm(&scope.scope("norm"), &mut weight, &mut bias, size)?;
        let weight = Tensor::from_data(TensorData::new(weight, [size, 1, stack.taps]), scope.device());
        let bias = Tensor::from_data(TensorData::new(bias.unwrap_or_default(), [size]), scope.device());
        Ok(Self {
            norm,
            gated: Linear::load_pointwise(&scope.scope("pointwise_conv1"), size, 2 * size, Bias::With)?,
            depthwise: (weight, bias),
            output: Linear::load_pointwise(&scope.scope("pointwise_conv2"), size, size, Bias::With)?,
        })
    }

    /// Adds its output.
    fn forward(&self, x: Tensor<3>, padding: &Padding) -> Tensor<3> {
        let gated = padding.clear(activation::glu(self.gated.forward(self.norm.forward(x.clone()))));
        let (weight, bias) = &self.depthwise;
        let out = depthwise(gated, weight.clone(), bias.clone());
        x + self.output.forward(activation::silu(out))
    }
}

/// A depthwise convolution of `[rows, frames, channels]` with zeros at both ends; `weight` is `[channels, 1, taps]`.
pub fn depthwise(x: Tensor<3>, weight: Tensor<3>, bias: Tensor<1>) -> Tensor<3> {
    let [channels, _, taps] = weight.dims();
    let options = ConvOptions::new([1], [taps / 2], [1], channels);
    module::conv1d(x.swap_dims(1, 2), weight, Some(bias), options).swap_dims(1, 2)
}

impl Predictor {
    fn load(scope: &Scope, size: usize, config: PredictorConfig) -> Result<Self> {
        let layers = scope.scope("conv_layers");
        let load = |at: usize| {
            let inputs = if at == 0 { size } else { config.channels };
            let layer = layers.scope(at);
            let convolution = Convolution::load(&layer.scope("conv"), inputs, config.channels, config.taps)?;
            Ok((convolution, LayerNorm::load(&layer.scope("layer_norm"), config.channels)?))
        };
        Ok(Self {
            layers: (0..config.layers).map(load).collect::<Result<_>>()?,
            linear: Linear::load(&scope.scope("linear"), config.channels, 1, Bias::With)?,
        })
    }

    /// `[rows, length, hidden]` to `[rows, length, 1]`.
    fn forward(&self, x: Tensor<3>, padding: &Padding) -> Tensor<3> {
        let mut x = x;
        for (convolution, norm) in &self.layers {
            x = norm.forward(activation::relu(convolution.forward(padding.clear(x))));
        }
        self.linear.forward(x)
    }
}
