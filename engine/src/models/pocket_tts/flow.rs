//! The flow head: noise and a hidden state of the backbone to the next latent.

use auricle_kernels::activation;
use auricle_kernels::norm::layer_norm_rows_with;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool::{self, ThreadPool};

use super::config::{Config, FlowConfig, FlowForm};
use crate::error::Result;
use crate::layers::Packed;
use crate::weights::{Scope, Weights};

/// The head.
#[derive(Debug)]
pub struct FlowHead {
    input: Packed,
    condition: Packed,
    /// The part that the times of each step add to the condition; the drifting form has one step without times.
    steps: Vec<Vec<f32>>,
    /// Shift, scale and gate of each block, then shift and scale of the end.
    modulations: Packed,
    blocks: Vec<Block>,
    end: Packed,
    form: FlowForm,
    epsilon: f32,
}

/// A residual block.
#[derive(Debug)]
struct Block {
    gamma: Vec<f32>,
    beta: Vec<f32>,
    up: Packed,
    down: Packed,
}

impl FlowHead {
    pub fn load(weights: &Weights, config: &Config) -> Result<Self> {
        let (head, flow, latent) = (weights.scope("flow_head"), &config.flow, config.latent);
        let size = flow.size;
        let layers = head.scope("layers");
        let (weight, bias) = modulations(&head, flow)?;
        let linear = |name: &str, inputs, outputs| Packed::load(&head.scope(name), inputs, outputs, Precision::F32);
        Ok(Self {
            input: linear("input_proj", latent, size)?,
            condition: linear("cond_proj", config.backbone.size, size)?,
            steps: steps(&head, config)?,
            modulations: Packed::new(&weight, bias, Precision::F32),
            blocks: (0..flow.layers).map(|at| Block::load(&layers.scope(at), size)).collect::<Result<_>>()?,
            end: Packed::load(&head.scope("final_layer").scope("proj"), size, latent, Precision::F32)?,
            form: flow.form,
            epsilon: flow.epsilon,
        })
    }

    /// Latents from hidden states `[rows, size of the backbone]` and noise `[rows, latent]`.
    pub fn sample(&self, pool: &ThreadPool, hidden: &[f32], noise: &[f32]) -> Vec<f32> {
        let conditions = self.condition.forward(pool, hidden);
        let mut latents = noise.to_vec();
        for step in &self.steps {
            let size = step.len();
            let mut condition = conditions.clone();
            condition.chunks_exact_mut(size).for_each(|row| add(row, step));
            let found = self.forward(pool, &latents, condition, size);
            match self.form {
                FlowForm::Drifting => latents = found,
                // A step of Euler's method.
                FlowForm::Lsd => {
                    let length = 1.0 / self.steps.len() as f32;
                    latents.iter_mut().zip(found).for_each(|(latent, velocity)| *latent += velocity * length);
                }
            }
        }
        latents
    }

    fn forward(&self, pool: &ThreadPool, latents: &[f32], mut condition: Vec<f32>, size: usize) -> Vec<f32> {
        let mut x = self.input.forward(pool, latents);
        activation::silu_in_place(&mut condition);
        let modulations = self.modulations.forward(pool, &condition);
        // The part of a block, from `first` on, for each row.
        let part = |first: usize| {
            let rows = modulations.chunks_exact(self.modulations.outputs());
            rows.flat_map(move |row| &row[first * size..(first + 1) * size])
        };
        for (at, block) in self.blocks.iter().enumerate() {
            let normed = self.modulated(&x, [&block.gamma, &block.beta], part(3 * at), part(3 * at + 1));
            let mut inner = block.up.forward(pool, &normed);
            activation::silu_in_place(&mut inner);
            let out = block.down.forward(pool, &inner);
            x.iter_mut().zip(out).zip(part(3 * at + 2)).for_each(|((x, out), gate)| *x += gate * out);
        }
        let first = 3 * self.blocks.len();
        let plain = [&vec![1.0; size], &vec![0.0; size]];
        self.end.forward(pool, &self.modulated(&x, plain, part(first), part(first + 1)))
    }

    /// The norm of rows, with each row's own scale and shift.
    fn modulated<'a>(
        &self,
        x: &[f32],
        [gamma, beta]: [&Vec<f32>; 2],
        shifts: impl Iterator<Item = &'a f32>,
        scales: impl Iterator<Item = &'a f32>,
    ) -> Vec<f32> {
        let mut normed = vec![0f32; x.len()];
        layer_norm_rows_with(x, gamma, beta, self.epsilon, &mut normed);
        normed.iter_mut().zip(shifts).zip(scales).for_each(|((x, shift), scale)| *x = *x * (1.0 + scale) + shift);
        normed
    }
}

fn add(to: &mut [f32], values: &[f32]) {
    to.iter_mut().zip(values).for_each(|(to, value)| *to += value);
}

/// Weight and bias of shift, scale and gate of each block, then of shift and scale of the end: `[values, size]` and `[values]`.
pub fn modulations(head: &Scope, flow: &FlowConfig) -> Result<(Vec<f32>, Vec<f32>)> {
    let (size, layers) = (flow.size, head.scope("layers"));
    let ends = (0..flow.layers).map(|at| (layers.scope(at), 3)).chain([(head.scope("final_layer"), 2)]);
    let (mut weight, mut bias) = (Vec::new(), Vec::new());
    for (scope, parts) in ends {
        let scope = scope.scope("adaln_proj");
        weight.extend(scope.values("weight", &[parts * size, size])?);
        bias.extend(scope.values("bias", &[parts * size])?);
    }
    Ok((weight, bias))
}

/// The part that each step adds to the condition.
pub fn steps(head: &Scope, config: &Config) -> Result<Vec<Vec<f32>>> {
    match config.flow.form {
        FlowForm::Lsd => time_steps(&head.scope("timestep_embeddings"), &config.flow, config.sampling.steps),
        FlowForm::Drifting => Ok(vec![vec![0.0; config.flow.size]]),
    }
}

/// The part that the times of each of `count` steps from 0 to 1 add to a condition: the mean of the embeddings of begin and end.
fn time_steps(scope: &Scope, flow: &FlowConfig, count: usize) -> Result<Vec<Vec<f32>>> {
    let embeddings = [TimeEmbedding::load(&scope.scope(0), flow)?, TimeEmbedding::load(&scope.scope(1), flow)?];
    let step = |at: usize| {
        let [begin, end] = [at, at + 1].map(|at| at as f32 / count as f32);
        let mut sum = embeddings[0].forward(begin, flow);
        add(&mut sum, &embeddings[1].forward(end, flow));
        sum.iter().map(|value| value / 2.0).collect()
    };
    Ok((0..count).map(step).collect())
}

/// The embedding of a time, which is computed once for all.
struct TimeEmbedding {
    frequencies: Vec<f32>,
    up: Packed,
    down: Packed,
    norm: Vec<f32>,
}

impl TimeEmbedding {
    fn load(scope: &Scope, flow: &FlowConfig) -> Result<Self> {
        let (size, width) = (flow.size, flow.frequencies);
        Ok(Self {
            frequencies: scope.values("freqs", &[width / 2])?,
            up: Packed::load(&scope.scope("fc1"), width, size, Precision::F32)?,
            down: Packed::load(&scope.scope("fc2"), size, size, Precision::F32)?,
            norm: scope.scope("norm").values("weight", &[size])?,
        })
    }

    fn forward(&self, time: f32, flow: &FlowConfig) -> Vec<f32> {
        let angles = self.frequencies.iter().map(|frequency| time * frequency);
        let waves: Vec<f32> = angles.clone().map(f32::cos).chain(angles.map(f32::sin)).collect();
        let x = thread_pool::run(|pool| {
            let mut inner = self.up.forward(pool, &waves);
            activation::silu_in_place(&mut inner);
            self.down.forward(pool, &inner)
        });
        let count = x.len() as f32;
        let square = if flow.time_by_mean_square {
            x.iter().map(|value| value * value).sum::<f32>() / count
        } else {
            // The values keep their mean, and the variance is that of a sample.
            let mean = x.iter().sum::<f32>() / count;
            x.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / (count - 1.0)
        };
        let inverse = 1.0 / (square + flow.time_epsilon).sqrt();
        x.iter().zip(&self.norm).map(|(value, weight)| value * weight * inverse).collect()
    }
}

impl Block {
    fn load(scope: &Scope, size: usize) -> Result<Self> {
        let norm = scope.scope("norm");
        Ok(Self {
            gamma: norm.values("weight", &[size])?,
            beta: norm.values("bias", &[size])?,
            up: Packed::load(&scope.scope("fc1"), size, size, Precision::F32)?,
            down: Packed::load(&scope.scope("fc2"), size, size, Precision::F32)?,
        })
    }
}
