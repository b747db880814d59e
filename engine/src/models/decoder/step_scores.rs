//! The results of a step of the network on a GPU.

use auricle_kernels::sampling::likeliest::likeliest;
use burn::tensor::Tensor;

/// The scores of the texts that want some.
#[derive(Clone)]
pub struct StepScores {
    /// `[rows, vocabulary]`
    pub scores: Tensor<2>,
    /// The likeliest token of each row, -1 where no score is a number: `[rows, 1]`
    pub likeliest: Tensor<2>,
}

impl StepScores {
    pub fn of(scores: Tensor<2>) -> Self {
        Self { likeliest: likeliest(scores.clone()), scores }
    }
}
