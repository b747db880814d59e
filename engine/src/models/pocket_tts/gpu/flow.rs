//! The flow head: noise and hidden states to the next latents.

use auricle_kernels::activation::Activation;
use auricle_kernels::cache::ring::StepFrames;
use auricle_kernels::convolution::stream::{StreamConvolution, StreamFrames};
use auricle_kernels::norm::modulated::ModulatedNorm;
use auricle_kernels::product::float;
use auricle_kernels::product::gemv::Precision;
use burn::tensor::{Tensor, TensorData};

use super::latents::{self, LatentScale};
use crate::error::Result;
use crate::layers::{Bias, Linear, transpose};
use crate::models::pocket_tts::config::{Config, FlowForm};
use crate::models::pocket_tts::flow;
use crate::weights::{Scope, Weights};

/// The head.
#[derive(Debug)]
pub struct FlowHead {
    /// Of rows of latents, whose second half it does not see: `[2 latent, size]`.
    input: Tensor<2>,
    input_bias: Tensor<1>,
    condition: Tensor<2>,
    /// The biases of the condition, which the times of the steps are added to: at least one.
    steps: Vec<Tensor<1>>,
    /// Shift, scale and gate of each block, then shift and scale of the end.
    modulations: Linear,
    /// Before each block, and before the end.
    norms: Vec<ModulatedNorm>,
    /// The two products of each block.
    blocks: Vec<[Linear; 2]>,
    /// To rows of latents.
    end: StreamConvolution,
    /// A step adds to the latents that it got.
    adds: bool,
}

impl FlowHead {
    /// # Errors
    /// As `Scope::values`.
    pub fn load(weights: &Weights, config: &Config, scale: &LatentScale) -> Result<Self> {
        let (head, form, latent) = (weights.scope("flow_head"), &config.flow, config.latent);
        let (size, device) = (form.size, head.device());
        let vector = |values: Vec<f32>| {
            let length = values.len();
            Tensor::<1>::from_data(TensorData::new(values, [length]), device)
        };
        let times = flow::steps(&head, config)?;
        let condition = head.scope("cond_proj");
        let condition_bias = condition.values("bias", &[size])?;
        let step = |time: &Vec<f32>| vector(condition_bias.iter().zip(time).map(|(bias, time)| bias + time).collect());
        let condition = condition.values("weight", &[size, config.backbone.size])?;
        let condition =
            TensorData::new(transpose(&condition, size, config.backbone.size), [config.backbone.size, size]);
        let (modulations, modulation_bias) = flow::modulations(&head, form)?;
        let layers = head.scope("layers");
        let norm = |at: usize| -> Result<ModulatedNorm> {
            let norm = match at < form.layers {
                true => {
                    let norm = layers.scope(at).scope("norm");
                    [norm.tensor("weight", [size])?, norm.tensor("bias", [size])?]
                }
                false => [vector(vec![1.0; size]), vector(vec![0.0; size])],
            };
            // The gates are those of the block before.
            let gate = (3 * at).saturating_sub(1) * size;
            Ok(ModulatedNorm { norm, epsilon: form.epsilon, first: 3 * at * size, gate })
        };
        let block = |scope: Scope| -> Result<[Linear; 2]> {
            let linear = |name: &str| Linear::load(&scope.scope(name), size, size, Bias::With);
            Ok([linear("fc1")?, linear("fc2")?])
        };
        let adds = form.form == FlowForm::Lsd;
        let end = head.scope("final_layer.proj");
        let [mut weight, mut bias] = [end.values("weight", &[latent, size])?, end.values("bias", &[latent])?];
        if adds {
            // A step of Euler's method.
            weight.iter_mut().chain(&mut bias).for_each(|value| *value /= times.len() as f32);
        }
        let (weight, bias) = scale.writer(&weight, &bias, !adds, device);
        let input = head.scope("input_proj");
        Ok(Self {
            input: latents::reader(&input.values("weight", &[size, latent])?, size, device),
            input_bias: input.tensor("bias", [size])?,
            condition: Tensor::from_data(condition, device),
            steps: times.iter().map(step).collect(),
            modulations: Linear::for_few_rows(&modulations, size, Some(modulation_bias), Precision::F32, device),
            norms: (0..=form.layers).map(norm).collect::<Result<_>>()?,
            blocks: (0..form.layers).map(|at| block(layers.scope(at))).collect::<Result<_>>()?,
            end: StreamConvolution { weight, bias, has_elu: false },
            adds,
        })
    }

    /// Writes the latents of `hidden` `[rows, size of the backbone]` and rows of noise `[rows, 2 latent]` to a ring, at the second of `steps`.
    pub fn sample(
        &self,
        hidden: &Tensor<2>,
        noise: Tensor<2>,
        steps: [&StepFrames; 2],
        ring: StreamFrames,
    ) -> StreamFrames {
        let mut latents = noise;
        for time in &self.steps[..self.steps.len() - 1] {
            let (x, residual) = self.step(hidden, time, latents);
            latents = self.end.forward(&x, residual.as_ref(), steps[0]).squeeze_dim(1);
        }
        let (x, residual) = self.step(hidden, &self.steps[self.steps.len() - 1], latents);
        self.end.write(&x, residual.as_ref(), steps, ring)
    }

    /// The input of the last product at a time, and what that is added to.
    fn step(&self, hidden: &Tensor<2>, time: &Tensor<1>, latents: Tensor<2>) -> (StreamFrames, Option<StreamFrames>) {
        let of_step = |rows: Tensor<2>| StreamFrames::of_step(rows.unsqueeze_dim(1));
        let condition =
            float::biased_product(hidden.clone(), self.condition.clone(), time.clone(), Some(Activation::Silu));
        let modulations = self.modulations.forward(condition);
        let mut x = float::biased_product(latents.clone(), self.input.clone(), self.input_bias.clone(), None);
        let mut normed = self.norms[0].forward(x.clone(), &modulations);
        for ([up, down], norm) in self.blocks.iter().zip(&self.norms[1..]) {
            let inner = up.forward_activated(normed, Activation::Silu);
            [x, normed] = norm.forward_added(x, down.forward(inner), &modulations);
        }
        (of_step(normed), self.adds.then(|| of_step(latents)))
    }
}
