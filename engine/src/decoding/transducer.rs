//! Interface of predictor and joint of a transducer for decoding.

use auricle_kernels::sampling::TopTokens;
use burn::tensor::Tensor;

use crate::error::Result;

/// Constants of a transducer checkpoint that its decoding depends on.
#[derive(Clone, Debug)]
pub struct TransducerRules {
    /// The blank token.
    pub blank: u32,
    /// Number of tokens, blank included; scores after them are durations.
    pub vocab_size: usize,
    /// Most tokens that one frame may emit.
    pub max_symbols: usize,
    /// TDT: frames a duration output stands for. Empty for RNN-T.
    pub durations: Vec<usize>,
}

/// Predictor and joint network of an RNN-T or TDT checkpoint.
pub trait TransducerNetwork {
    /// Predictor states of several rows.
    type Prediction: PredictorState;
    /// Projected encoder frames, numbered over all rows.
    type Frames;

    /// Frames that one joint product scores ahead, after `blank_rounds` products in a row from which no row took a token.
    fn frames_ahead(&self, blank_rounds: u32) -> usize;

    /// The prediction before the first token of `rows` utterances: the blank, from a state of zeros.
    fn start(&self, rows: usize, blank: u32) -> Self::Prediction;

    /// Moves `rows` of a prediction on by one token each.
    fn step(&self, prediction: &mut Self::Prediction, rows: &[usize], tokens: &[u32]);

    /// Appends the predictions after one more token each of the given rows, in their order.
    fn follow(&self, prediction: &mut Self::Prediction, rows: &[usize], tokens: &[u32]);

    /// Scores of frames against the predictions of `rows`, each against the same number of frames: `at` `[rows *
    /// frames]`.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    fn joint(
        &self,
        frames: &Self::Frames,
        at: &[usize],
        prediction: &Self::Prediction,
        rows: &[usize],
    ) -> Result<Scores>;

    /// As [`TransducerNetwork::joint`], reduced to the values that greedy search reads; `all_scores` asks for every
    /// score.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    fn joint_output(
        &self,
        frames: &Self::Frames,
        at: &[usize],
        prediction: &Self::Prediction,
        rows: &[usize],
        all_scores: bool,
    ) -> Result<JointOutput>;

    /// Internal language model scores: the joint of the predictions of `rows` without a frame (Meng and others, 2021).
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    fn internal_lm(&self, prediction: &Self::Prediction, rows: &[usize]) -> Result<Scores>;
}

/// Predictor states of several rows, each after that row's last token.
pub trait PredictorState: Sized {
    /// Number of rows.
    fn rows(&self) -> usize;

    /// The rows of several states, one after the other.
    fn join(states: &[&Self]) -> Self;

    /// Copies of some rows, in the order of `rows`.
    fn select(&self, rows: &[usize]) -> Self;
}

/// Joint output of each frame for greedy search.
#[derive(Clone, Debug)]
pub enum JointOutput {
    /// All scores.
    Scores(Scores),
    /// The best label with its softmax statistics, and the index of the best duration of a TDT checkpoint.
    Best(Vec<TopTokens>, Vec<usize>),
}

/// Scores in CPU memory: `[frames, outputs]`.
#[derive(Clone, Debug)]
pub struct Scores {
    values: Vec<f32>,
    outputs: usize,
}

impl Scores {
    /// Scores of `outputs` values a frame.
    pub fn new(values: Vec<f32>, outputs: usize) -> Self {
        Self { values, outputs }
    }

    /// Reads scores `[.., outputs]` back from their device.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn read<const D: usize>(scores: Tensor<D>) -> Result<Self> {
        let outputs = scores.dims()[D - 1];
        Ok(Self { values: crate::device::read(scores)?, outputs })
    }

    /// The scores of one frame.
    pub fn row(&self, at: usize) -> &[f32] {
        &self.values[at * self.outputs..][..self.outputs]
    }

    /// All values, and the number of values of a frame.
    pub fn into_values(self) -> (Vec<f32>, usize) {
        (self.values, self.outputs)
    }
}
