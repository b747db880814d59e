//! The network on the CPU: plain memory, symbols or frames of all utterances concatenated, each weight read once for all of them.

use std::sync::{Arc, Mutex, PoisonError};

use auricle_kernels::activation;
use auricle_kernels::attention::relative::cpu::{MAX_QUERIES, PositionKeys, RelativeQueries, SlidingKvCache};
use auricle_kernels::convolution::depthwise::cpu::DepthwiseConv;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::{self, ThreadPool};

use super::config::{Config, PredictorConfig, StackConfig};
use super::durations::durations;
use super::utterance::{MelFrames, Stages, Utterance};
use crate::error::Result;
use crate::layers::{Bias, Packed, PackedConvolution, PackedNorm, apply_in_place, fold_batch_norm, scaled};
use crate::weights::{Scope, Weights};

/// Distances are computed for a multiple of so many frames, so that they are seldom computed again.
const DISTANCES_GRID: usize = 256;

/// The network.
#[derive(Debug)]
pub struct Network {
    /// `[symbols, hidden]`
    symbols: Vec<f32>,
    /// `[voices, hidden]`
    voices: Option<Vec<f32>>,
    encoder: Stack,
    duration: Predictor,
    pitch: Predictor,
    energy: Predictor,
    pitch_embedding: PackedConvolution,
    energy_embedding: PackedConvolution,
    decoder: Stack,
    /// Includes the factor of two of a model without a post-net.
    mels: Packed,
    config: Config,
}

/// Conformer layers with relative positions.
#[derive(Debug)]
struct Stack {
    layers: Vec<Layer>,
    positions: Mutex<CachedPositions>,
    size: usize,
}

#[derive(Debug, Default)]
struct CachedPositions {
    /// The largest distance, in frames.
    farthest: usize,
    /// Of each layer.
    keys: Arc<Vec<PositionKeys>>,
}

/// Half a feed-forward, attention, convolution, half a feed-forward, each on a residual; a norm at the end.
#[derive(Debug)]
struct Layer {
    macaron: FeedForward,
    attention_norm: PackedNorm,
    attention: Attention,
    convolution: ConvolutionModule,
    feed_forward: FeedForward,
    norm: PackedNorm,
}

#[derive(Debug)]
struct FeedForward {
    norm: PackedNorm,
    up: PackedConvolution,
    down: PackedConvolution,
}

#[derive(Debug)]
struct Attention {
    /// Query (already scaled), key and value, concatenated.
    qkv: Packed,
    output: Packed,
    /// Projects position embeddings; no bias.
    position: Packed,
    /// `[heads * head]`: content and position bias of the query, already scaled.
    biases: [Vec<f32>; 2],
    heads: usize,
}

#[derive(Debug)]
struct ConvolutionModule {
    norm: PackedNorm,
    gated: Packed,
    /// The batch norm is folded in.
    depthwise: DepthwiseConv,
    output: Packed,
}

/// One value a symbol.
#[derive(Debug)]
struct Predictor {
    layers: Vec<(PackedConvolution, PackedNorm)>,
    linear: Packed,
}

impl Network {
    pub fn load(weights: &Weights, config: &Config) -> Result<Self> {
        let size = config.hidden;
        let encoder = weights.scope("encoder");
        let voices = (config.voices > 0)
            .then(|| weights.scope("speaker_id_embedding").values("weight", &[config.voices, size]))
            .transpose()?;
        let predictor = |name: &str, of| Predictor::load(&weights.scope(name), size, of);
        let embedding = |name: &str, taps| PackedConvolution::load(&weights.scope(name).scope("conv"), 1, size, taps);
        Ok(Self {
            symbols: encoder.scope("embed").values("weight", &[config.symbols, size])?,
            voices,
            encoder: Stack::load(&encoder, config, config.encoder)?,
            duration: predictor("duration_predictor", config.duration)?,
            pitch: predictor("pitch_predictor", config.pitch)?,
            energy: predictor("energy_predictor", config.energy)?,
            pitch_embedding: embedding("pitch_embed", config.pitch_taps)?,
            energy_embedding: embedding("energy_embed", config.energy_taps)?,
            decoder: Stack::load(&weights.scope("decoder"), config, config.decoder)?,
            mels: Packed::load_scaled(
                &weights.scope("speech_decoder_postnet").scope("feat_out"),
                &[config.mels, size],
                Bias::With,
                2.0,
            )?,
            config: config.clone(),
        })
    }

    /// None when the weights give no numbers, or an utterance without end.
    pub fn speak(&self, utterances: &[Utterance]) -> Option<(Vec<MelFrames>, Vec<Stages>)> {
        thread_pool::run(|pool| self.speak_on(pool, utterances))
    }

    fn speak_on(&self, pool: &ThreadPool, utterances: &[Utterance]) -> Option<(Vec<MelFrames>, Vec<Stages>)> {
        let Config { hidden: size, mels, duration_scale, .. } = self.config;
        let lengths: Vec<usize> = utterances.iter().map(|utterance| utterance.symbols.len()).collect();
        let rows = |table: &[f32], row: usize| table[row * size..(row + 1) * size].to_vec();
        let symbols = utterances.iter().flat_map(|utterance| utterance.symbols);
        let mut x: Vec<f32> = symbols.flat_map(|symbol| rows(&self.symbols, *symbol)).collect();
        self.encoder.forward(pool, &mut x, &lengths);
        if let Some(voices) = &self.voices {
            let mut rest = x.as_mut_slice();
            for (utterance, length) in utterances.iter().zip(&lengths) {
                let (own, after) = rest.split_at_mut(length * size);
                let voice = &voices[utterance.voice * size..][..size];
                own.chunks_exact_mut(size).for_each(|x| add(x, voice));
                rest = after;
            }
        }
        let [log_durations, pitch, energy] =
            [&self.duration, &self.pitch, &self.energy].map(|predictor| predictor.forward(pool, &x, &lengths));
        let encoded = x.clone();
        add(&mut x, &self.energy_embedding.forward(pool, &energy, &lengths));
        add(&mut x, &self.pitch_embedding.forward(pool, &pitch, &lengths));
        // Each symbol is repeated for its frames.
        let (mut found, mut stages) = (Vec::new(), Vec::new());
        let mut frames = Vec::new();
        let mut first = 0;
        for (utterance, length) in utterances.iter().zip(&lengths) {
            let own = first..first + length;
            let frames_of = durations(&log_durations[own.clone()], duration_scale / utterance.speed)?;
            for (symbol, count) in own.clone().zip(&frames_of) {
                (0..*count).for_each(|_| frames.extend_from_slice(&x[symbol * size..(symbol + 1) * size]));
            }
            stages.push(Stages {
                encoded: encoded[own.start * size..own.end * size].to_vec(),
                log_durations: log_durations[own.clone()].to_vec(),
                pitch: pitch[own.clone()].to_vec(),
                energy: energy[own.clone()].to_vec(),
            });
            found.push(MelFrames { mels: Vec::new(), durations: frames_of });
            first = own.end;
        }
        let lengths: Vec<usize> = found.iter().map(|found| found.durations.iter().sum()).collect();
        self.decoder.forward(pool, &mut frames, &lengths);
        let mut values = self.mels.forward(pool, &frames).into_iter();
        for (found, length) in found.iter_mut().zip(lengths) {
            found.mels = values.by_ref().take(length * mels).collect();
        }
        Some((found, stages))
    }
}

fn add(to: &mut [f32], values: &[f32]) {
    to.iter_mut().zip(values).for_each(|(to, value)| *to += value);
}

fn relu(values: &mut [f32]) {
    values.iter_mut().for_each(|value| *value = value.max(0.0));
}

/// Sines and cosines of the distances from `farthest` frames in the past to as many ahead, `[2 farthest + 1, size]`.
pub fn position_embeddings(farthest: usize, size: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity((2 * farthest + 1) * size);
    let step = -(10_000f64.ln() / size as f64) as f32;
    for at in 0..=2 * farthest {
        let distance = farthest as f32 - at as f32;
        for pair in 0..size / 2 {
            // f32 as the published class computes it.
            let (sin, cos) = (distance * (2.0 * pair as f32 * step).exp()).sin_cos();
            values.extend([sin, cos]);
        }
    }
    values
}

impl Stack {
    fn load(scope: &Scope, config: &Config, stack: StackConfig) -> Result<Self> {
        let layers = scope.scope("conformer_layers");
        let load = |at| Layer::load(&layers.scope(at), config, stack);
        Ok(Self {
            layers: (0..stack.layers).map(load).collect::<Result<_>>()?,
            positions: Mutex::default(),
            size: config.hidden,
        })
    }

    /// Applies the layers to rows one after another, of `lengths` each.
    fn forward(&self, pool: &ThreadPool, x: &mut Vec<f32>, lengths: &[usize]) {
        let scale = (self.size as f32).sqrt();
        x.iter_mut().for_each(|x| *x *= scale);
        let positions = self.positions(pool, lengths.iter().copied().max().unwrap_or(0));
        for (layer, positions) in self.layers.iter().zip(positions.iter()) {
            layer.macaron.add_to(pool, x, lengths);
            let normed = layer.attention_norm.forward(pool, x);
            layer.attention.add_to(pool, &normed, positions, lengths, x);
            layer.convolution.add_to(pool, lengths, x);
            layer.feed_forward.add_to(pool, x, lengths);
            *x = layer.norm.forward(pool, x);
        }
    }

    /// Position keys of each layer for rows of up to `longest`.
    fn positions(&self, pool: &ThreadPool, longest: usize) -> Arc<Vec<PositionKeys>> {
        let mut known = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        if known.keys.is_empty() || longest > known.farthest + 1 {
            let farthest = longest.next_multiple_of(DISTANCES_GRID);
            let embeddings = position_embeddings(farthest, self.size);
            let keys = self.layers.iter().map(|Layer { attention, .. }| {
                let keys = attention.position.forward(pool, &embeddings);
                PositionKeys::new(&keys, farthest, 2 * farthest + 1, attention.heads)
            });
            *known = CachedPositions { farthest, keys: Arc::new(keys.collect()) };
        }
        known.keys.clone()
    }
}

impl Layer {
    fn load(scope: &Scope, config: &Config, stack: StackConfig) -> Result<Self> {
        let norm = |name: &str| PackedNorm::load(&scope.scope(name), config.hidden);
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
    fn load(scope: &Scope, norm: PackedNorm, config: &Config, stack: StackConfig) -> Result<Self> {
        let (size, taps) = (config.hidden, config.feed_forward_taps);
        Ok(Self {
            norm,
            up: PackedConvolution::load(&scope.scope("conv1"), size, stack.inner, taps)?,
            down: PackedConvolution::load(&scope.scope("conv2"), stack.inner, size, taps)?,
        })
    }

    /// Adds half of its output.
    fn add_to(&self, pool: &ThreadPool, x: &mut [f32], lengths: &[usize]) {
        let mut inner = self.up.forward(pool, &self.norm.forward(pool, x), lengths);
        apply_in_place(pool, &mut inner, relu);
        let out = self.down.forward(pool, &inner, lengths);
        x.iter_mut().zip(out).for_each(|(x, out)| *x += 0.5 * out);
    }
}

impl Attention {
    fn load(scope: &Scope, size: usize, heads: usize) -> Result<Self> {
        let head = size / heads;
        let scale = (head as f32).powf(-0.5);
        let part = |name: &str, scale| scaled(&scope.scope(name), &[size, size], Bias::With, scale);
        let parts = [part("linear_q", scale)?, part("linear_k", 1.0)?, part("linear_v", 1.0)?];
        let (weights, biases): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let of_query = |name: &str| {
            let values = scope.values(name, &[heads, head])?;
            Ok(values.into_iter().map(|value| value * scale).collect::<Vec<f32>>())
        };
        Ok(Self {
            qkv: Packed::new(&weights.concat(), biases.concat(), Precision::F32),
            output: Packed::load(&scope.scope("linear_out"), size, size, Precision::F32)?,
            position: Packed::load_scaled(&scope.scope("linear_pos"), &[size, size], Bias::Without, 1.0)?,
            biases: [of_query("pos_bias_u")?, of_query("pos_bias_v")?],
            heads,
        })
    }

    /// Adds the attention of each row to itself: `normed` `[.., hidden]`.
    fn add_to(&self, pool: &ThreadPool, normed: &[f32], positions: &PositionKeys, lengths: &[usize], out: &mut [f32]) {
        let size = self.output.outputs();
        let qkv = self.qkv.forward(pool, normed);
        let mut rows = Vec::with_capacity(lengths.len());
        let mut rest = qkv.as_slice();
        for length in lengths {
            let (own, after) = rest.split_at(length * 3 * size);
            rows.push((own, SlidingKvCache::new(self.heads, size / self.heads)));
            rest = after;
        }
        pool.for_each_item(&mut rows, |_, (qkv, cache)| {
            qkv.chunks_exact(3 * size).for_each(|qkv| cache.push(&qkv[size..2 * size], &qkv[2 * size..]));
        });
        let mut found = vec![0f32; normed.len()];
        let mut rest = found.as_mut_slice();
        let mut work = Vec::new();
        for (row, length) in rows.iter().zip(lengths) {
            let (own, after) = rest.split_at_mut(length * size);
            work.extend(own.chunks_mut(MAX_QUERIES * size).enumerate().map(|(at, found)| (row, *length, at, found)));
            rest = after;
        }
        pool.for_each_item(&mut work, |_, ((qkv, cache), length, at, found)| {
            let frame = *at * MAX_QUERIES;
            let visible = vec![0..*length; found.len() / size];
            let [by_content, by_position] = &self.biases;
            let queries = RelativeQueries {
                queries: &qkv[frame * 3 * size..],
                stride: 3 * size,
                biases: [by_content, by_position],
                frame,
                visible: &visible,
            };
            cache.attend(positions, queries, found);
        });
        self.output.add_to(pool, &found, out);
    }
}

impl ConvolutionModule {
    fn load(scope: &Scope, norm: PackedNorm, config: &Config, stack: StackConfig) -> Result<Self> {
        let (size, depthwise) = (config.hidden, scope.scope("depthwise_conv"));
        let mut weight = depthwise.values("weight", &[size, 1, stack.taps])?;
        let mut bias = Some(depthwise.values("bias", &[size])?);
        fold_batch_norm(&scope.scope("norm"), &mut weight, &mut bias, size)?;
        Ok(Self {
            norm,
            gated: Packed::load_scaled(&scope.scope("pointwise_conv1"), &[2 * size, size, 1], Bias::With, 1.0)?,
            depthwise: DepthwiseConv::new(&weight, bias.unwrap_or_default()),
            output: Packed::load_scaled(&scope.scope("pointwise_conv2"), &[size, size, 1], Bias::With, 1.0)?,
        })
    }

    /// Adds its output to rows.
    fn add_to(&self, pool: &ThreadPool, lengths: &[usize], x: &mut [f32]) {
        let size = self.output.outputs();
        let gated = self.gated.forward(pool, &self.norm.forward(pool, x));
        let margin = self.depthwise.taps() / 2 * size;
        let mut out = vec![0f32; x.len()];
        let (mut gated, mut rest) = (gated.as_slice(), out.as_mut_slice());
        let mut work = Vec::with_capacity(lengths.len());
        for length in lengths {
            let (own, after) = gated.split_at(2 * length * size);
            let (own_out, after_out) = rest.split_at_mut(length * size);
            work.push((own, own_out));
            (gated, rest) = (after, after_out);
        }
        pool.for_each_item(&mut work, |_, (gated, out)| {
            let mut seen = vec![0f32; out.len() + 2 * margin];
            activation::glu_rows(gated, size, &mut seen[margin..margin + out.len()]);
            self.depthwise.forward(&seen, out);
        });
        apply_in_place(pool, &mut out, activation::silu_in_place);
        self.output.add_to(pool, &out, x);
    }
}

impl Predictor {
    fn load(scope: &Scope, size: usize, config: PredictorConfig) -> Result<Self> {
        let layers = scope.scope("conv_layers");
        let load = |at: usize| {
            let inputs = if at == 0 { size } else { config.channels };
            let layer = layers.scope(at);
            let convolution = PackedConvolution::load(&layer.scope("conv"), inputs, config.channels, config.taps)?;
            Ok((convolution, PackedNorm::load(&layer.scope("layer_norm"), config.channels)?))
        };
        Ok(Self {
            layers: (0..config.layers).map(load).collect::<Result<_>>()?,
            linear: Packed::load(&scope.scope("linear"), config.channels, 1, Precision::F32)?,
        })
    }

    /// `[.., hidden]` to one value each.
    fn forward(&self, pool: &ThreadPool, x: &[f32], lengths: &[usize]) -> Vec<f32> {
        let mut x = std::borrow::Cow::Borrowed(x);
        for (convolution, norm) in &self.layers {
            let mut out = convolution.forward(pool, &x, lengths);
            apply_in_place(pool, &mut out, relu);
            x = norm.forward(pool, &out).into();
        }
        self.linear.forward(pool, &x)
    }
}
