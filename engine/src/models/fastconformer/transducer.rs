//! Predictor and joint of the RNN-T and TDT classes.

use burn::tensor::{Tensor, activation};

use super::config::{Class, Config};
use crate::error::Result;
use crate::layers::{Bias, Linear, Lstm, LstmState, replace_rows, row_indices, select_rows};
use crate::weights::Scope;

/// Predictor and joint.
#[derive(Clone, Debug)]
pub struct Transducer {
    /// `[vocabulary, hidden]`
    embedding: Tensor<2>,
    lstm: Lstm,
    predictor_output: Linear,
    head: Linear,
}

/// The predictor after each row's last token.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// `[rows, hidden]`: what the joint adds to a frame.
    output: Tensor<2>,
    state: LstmState,
}

impl Prediction {
    /// How many there are.
    pub fn rows(&self) -> usize {
        self.output.dims()[0]
    }

    /// Those of several, one after the other.
    pub fn join(predictions: &[&Self]) -> Self {
        let states: Vec<&LstmState> = predictions.iter().map(|prediction| &prediction.state).collect();
        let outputs = predictions.iter().map(|prediction| prediction.output.clone()).collect();
        Self { output: Tensor::cat(outputs, 0), state: LstmState::join(&states) }
    }

    /// One of them.
    pub fn row(&self, row: usize) -> Self {
        Self { output: self.output.clone().narrow(0, row, 1), state: self.state.row(row) }
    }

    /// Some of them, in the order given by `rows`.
    pub fn select(&self, rows: &[usize]) -> Self {
        Self { output: select_rows(self.output.clone(), rows), state: self.state.select(rows) }
    }
}

impl Transducer {
    /// Reads `decoder` and `joint`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(decoder: &Scope, joint: &Scope, config: &Config) -> Result<Self> {
        let (hidden, vocab) = (config.decoder_hidden_size, config.vocab_size);
        let outputs = vocab + if config.class == Class::ParakeetTdt { config.durations.len() } else { 0 };
        Ok(Self {
            embedding: decoder.scope("embedding").tensor("weight", [vocab, hidden])?,
            lstm: Lstm::load(&decoder.scope("lstm"), config.num_decoder_layers, hidden)?,
            predictor_output: Linear::load(&decoder.scope("decoder_projector"), hidden, hidden, Bias::With)?,
            head: Linear::load(&joint.scope("head"), hidden, outputs, Bias::With)?,
        })
    }

    /// The prediction before the first token of `rows` utterances: the blank, from a state of zeros.
    pub fn start(&self, rows: usize, blank: u32) -> Prediction {
        let state = self.lstm.start(rows, &self.embedding);
        self.advance(&vec![blank; rows], &state)
    }

    /// Moves `rows` of a prediction on by one token each.
    pub fn step(&self, prediction: &Prediction, rows: &[usize], tokens: &[u32]) -> Prediction {
        let moved = self.follow(prediction, rows, tokens);
        Prediction {
            output: replace_rows(prediction.output.clone(), rows, moved.output),
            state: prediction.state.replace(rows, &moved.state),
        }
    }

    /// The predictions after one more token each, for the given rows of a prediction, in their order.
    pub fn follow(&self, prediction: &Prediction, rows: &[usize], tokens: &[u32]) -> Prediction {
        self.advance(tokens, &prediction.state.select(rows))
    }

    fn advance(&self, tokens: &[u32], state: &LstmState) -> Prediction {
        let tokens: Vec<usize> = tokens.iter().map(|token| *token as usize).collect();
        let input = self.embedding.clone().select(0, row_indices(&tokens, &self.embedding.device()));
        let (output, state) = self.lstm.step(input, state);
        Prediction { output: self.predictor_output.forward(output), state }
    }

    /// Scores of frames against the prediction of their rows: `frames` `[rows, block, hidden]`, the predictions of
    /// `rows`, to `[rows, block, outputs]`; for TDT the durations follow the tokens.
    pub fn joint(&self, frames: Tensor<3>, prediction: &Prediction, rows: &[usize]) -> Tensor<3> {
        let predicted = select_rows(prediction.output.clone(), rows).unsqueeze_dim::<3>(1);
        self.head.forward(activation::relu(frames + predicted))
    }

    /// The predictor's output after each token of a prefix that begins with the blank: `[prefix, hidden]`.
    #[doc(hidden)]
    pub fn predictor_outputs(&self, prefix: &[u32]) -> Tensor<2> {
        let mut state = self.lstm.start(1, &self.embedding);
        let outputs = prefix.iter().map(|token| {
            let next = self.advance(&[*token], &state);
            state = next.state;
            next.output
        });
        Tensor::cat(outputs.collect(), 0)
    }

    /// Scores of frames `[rows, frames, hidden]` against given predictor outputs `[rows, 1, hidden]`.
    #[doc(hidden)]
    pub fn joint_with(&self, frames: Tensor<3>, predicted: Tensor<3>) -> Tensor<3> {
        self.head.forward(activation::relu(frames + predicted))
    }
}
