//! The transducer on a GPU: predictions and scores are tensors.

use burn::tensor::{Tensor, activation};

use super::super::config::Config;
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

impl Transducer {
    /// Reads `decoder` and `joint`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(decoder: &Scope, joint: &Scope, config: &Config, outputs: usize) -> Result<Self> {
        let (hidden, vocab) = (config.decoder_hidden_size, config.vocab_size);
        Ok(Self {
            embedding: decoder.scope("embedding").tensor("weight", [vocab, hidden])?,
            lstm: Lstm::load(&decoder.scope("lstm"), config.num_decoder_layers, hidden)?,
            predictor_output: Linear::load(&decoder.scope("decoder_projector"), hidden, hidden, Bias::With)?,
            head: Linear::load(&joint.scope("head"), hidden, outputs, Bias::With)?,
        })
    }

    pub fn start(&self, rows: usize, blank: u32) -> Prediction {
        let state = self.lstm.start(rows, &self.embedding);
        self.advance(&vec![blank; rows], &state)
    }

    pub fn step(&self, prediction: &mut Prediction, rows: &[usize], tokens: &[u32]) {
        let moved = self.advance(tokens, &prediction.state.select(rows));
        *prediction = Prediction {
            output: replace_rows(prediction.output.clone(), rows, moved.output),
            state: prediction.state.replace(rows, &moved.state),
        };
    }

    pub fn follow(&self, prediction: &mut Prediction, rows: &[usize], tokens: &[u32]) {
        let moved = self.advance(tokens, &prediction.state.select(rows));
        *prediction = Prediction::join(&[prediction, &moved]);
    }

    fn advance(&self, tokens: &[u32], state: &LstmState) -> Prediction {
        let tokens: Vec<usize> = tokens.iter().map(|token| *token as usize).collect();
        let input = self.embedding.clone().select(0, row_indices(&tokens, &self.embedding.device()));
        let (output, state) = self.lstm.step(input, state);
        Prediction { output: self.predictor_output.forward(output), state }
    }

    /// `[rows * frames, outputs]`
    pub fn joint(&self, frames: &Tensor<2>, at: &[usize], prediction: &Prediction, rows: &[usize]) -> Tensor<2> {
        let [total, hidden] = frames.dims();
        let width = at.len() / rows.len().max(1);
        let predicted = select_rows(prediction.output.clone(), rows).reshape([rows.len(), 1, hidden]);
        let first = at.first().copied().unwrap_or(0);
        let follows = |(ahead, at): (usize, &usize)| *at == first + ahead;
        let frames = if rows.len() == 1 && at.iter().enumerate().all(follows) && first + width <= total {
            // Neighbours: a view, no copy.
            frames.clone().narrow(0, first, width).reshape([1, width, hidden])
        } else if width == 1 && at.iter().all(|at| *at == first) {
            frames.clone().narrow(0, first, 1).reshape([1, 1, hidden])
        } else {
            frames.clone().select(0, row_indices(at, &frames.device())).reshape([rows.len(), width, hidden])
        };
        self.head.forward(activation::relu(frames + predicted)).flatten(0, 1)
    }

    /// `[rows, outputs]`
    pub fn unheard(&self, prediction: &Prediction, rows: &[usize]) -> Tensor<2> {
        self.head.forward(activation::relu(select_rows(prediction.output.clone(), rows)))
    }
}

impl Prediction {
    pub fn rows(&self) -> usize {
        self.output.dims()[0]
    }

    pub fn join(predictions: &[&Self]) -> Self {
        let states: Vec<&LstmState> = predictions.iter().map(|prediction| &prediction.state).collect();
        let outputs = predictions.iter().map(|prediction| prediction.output.clone()).collect();
        Self { output: Tensor::cat(outputs, 0), state: LstmState::join(&states) }
    }

    pub fn select(&self, rows: &[usize]) -> Self {
        if let [row] = *rows {
            return Self { output: self.output.clone().narrow(0, row, 1), state: self.state.row(row) };
        }
        Self { output: select_rows(self.output.clone(), rows), state: self.state.select(rows) }
    }

    pub fn output(&self) -> Tensor<2> {
        self.output.clone()
    }

    pub fn with_output(self, output: Tensor<2>) -> Self {
        Self { output, ..self }
    }
}
