//! The transducer on a GPU: predictions and scores are tensors.

use std::sync::Arc;

use auricle_kernels::activation;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::sampling::{self, SamplingParams, TokenMask, TopTokens};
use burn::tensor::Tensor;

use super::super::config::Config;
use crate::error::Result;
use crate::layers::{Bias, Linear, Lstm, row_indices, select_rows};
use crate::weights::Scope;

/// Predictor and joint.
#[derive(Clone, Debug)]
pub struct Transducer {
    /// `[vocabulary, hidden]`
    embedding: Tensor<2>,
    lstm: Lstm,
    predictor_output: Linear,
    head: Linear,
    /// Masks of all labels, and of all durations if there are any.
    labels: TokenMask,
    durations: Option<TokenMask>,
}

/// The predictor's state after each row's last token.
///
/// Rows that were computed together stay in one tensor, which their streams share: streams that step together again need no
/// copy. The tensor lives as long as any of its rows; a row is a thousandth of what the encoder keeps of a stream.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// `[_, hidden + width]`: the predictor's input to the joint, and the LSTM's state.
    batch: Arc<Tensor<2>>,
    /// The rows' places in the batch.
    rows: Vec<usize>,
    hidden: usize,
}

impl Transducer {
    /// Reads `decoder` and `joint`. Weights have 16 bits if the precision asks for them; what they multiply and the sums have 32.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(decoder: &Scope, joint: &Scope, config: &Config, outputs: usize, precision: Precision) -> Result<Self> {
        let (hidden, vocab) = (config.decoder_hidden_size, config.vocab_size);
        let mask = |size: usize| TokenMask::new(size, size, Vec::new(), decoder.device());
        let linear = |scope: Scope, outputs: usize| {
            Linear::load(&scope, hidden, outputs, Bias::With).map(|linear| linear.with_wide_precision(precision))
        };
        Ok(Self {
            embedding: decoder.scope("embedding").tensor("weight", [vocab, hidden])?,
            lstm: Lstm::load(&decoder.scope("lstm"), config.num_decoder_layers, hidden)?.with_wide_precision(precision),
            predictor_output: linear(decoder.scope("decoder_projector"), hidden)?,
            head: linear(joint.scope("head"), outputs)?,
            labels: mask(vocab),
            durations: (outputs > vocab).then(|| mask(outputs - vocab)),
        })
    }

    pub fn start(&self, rows: usize, blank: u32) -> Prediction {
        let state = Tensor::zeros([rows, self.lstm.width()], &self.embedding.device());
        self.advance(&vec![blank; rows], &state)
    }

    pub fn step(&self, prediction: &mut Prediction, rows: &[usize], tokens: &[u32]) {
        let moved = self.after(prediction, rows, tokens);
        let total = prediction.rows();
        if rows.iter().copied().eq(0..total) {
            *prediction = moved;
            return;
        }
        let mut places: Vec<usize> = (0..total).collect();
        rows.iter().enumerate().for_each(|(at, row)| places[*row] = total + at);
        *prediction = Prediction::concat(&[prediction, &moved]).select(&places).packed();
    }

    pub fn follow(&self, prediction: &mut Prediction, rows: &[usize], tokens: &[u32]) {
        let moved = self.after(prediction, rows, tokens);
        *prediction = Prediction::join(&[prediction, &moved]);
    }

    /// Advances the predictor by one token for the given rows.
    fn after(&self, prediction: &Prediction, rows: &[usize], tokens: &[u32]) -> Prediction {
        let state = prediction.select(rows).values();
        self.advance(tokens, &state.narrow(1, prediction.hidden, self.lstm.width()))
    }

    fn advance(&self, tokens: &[u32], state: &Tensor<2>) -> Prediction {
        let tokens: Vec<usize> = tokens.iter().map(|token| *token as usize).collect();
        let input = self.embedding.clone().select(0, row_indices(&tokens, &self.embedding.device()));
        let (output, mut parts) = self.lstm.step(input, state);
        let hidden = output.dims()[1];
        parts.insert(0, self.predictor_output.forward(output));
        Prediction::new(Tensor::cat(parts, 1), hidden)
    }

    /// The best label of each of `scores` `[frames, outputs]`, and the best duration: the only values read from the
    /// device.
    pub fn choose(&self, scores: Tensor<2>) -> Result<(Vec<TopTokens>, Vec<usize>)> {
        let [frames, outputs] = scores.dims();
        let rows = vec![SamplingParams::greedy(); frames];
        let Some(durations) = &self.durations else {
            let labels = self.labels.top_tokens_batch(scores, &rows, 1);
            return Ok((sampling::unpack(&crate::device::read(labels)?, 1), Vec::new()));
        };
        let labels = self.labels.vocab_size();
        let chosen = Tensor::cat(
            vec![
                self.labels.top_tokens_batch(scores.clone().narrow(1, 0, labels), &rows, 1),
                durations.top_tokens_batch(scores.narrow(1, labels, outputs - labels), &rows, 1),
            ],
            0,
        );
        let mut chosen = sampling::unpack(&crate::device::read(chosen)?, 1);
        let lengths = chosen.split_off(frames);
        Ok((chosen, lengths.iter().map(|length| length.tokens.first().map_or(0, |(at, _)| *at as usize)).collect()))
    }

    /// Joint scores: `[rows * frames, outputs]`.
    pub fn joint(&self, frames: &Tensor<2>, at: &[usize], prediction: &Prediction, rows: &[usize]) -> Tensor<2> {
        let [total, hidden] = frames.dims();
        let width = at.len() / rows.len().max(1);
        let predicted = prediction.select(rows).output().reshape([rows.len(), 1, hidden]);
        let first = at.first().copied().unwrap_or(0);
        let follows = |(ahead, at): (usize, &usize)| *at == first + ahead;
        let frames = if rows.len() == 1 && at.iter().enumerate().all(follows) && first + width <= total {
            // Adjacent frames: a view, no copy.
            frames.clone().narrow(0, first, width).reshape([1, width, hidden])
        } else if width == 1 && at.iter().all(|at| *at == first) {
            frames.clone().narrow(0, first, 1).reshape([1, 1, hidden])
        } else {
            frames.clone().select(0, row_indices(at, &frames.device())).reshape([rows.len(), width, hidden])
        };
        self.head.forward(activation::relu(frames + predicted)).flatten(0, 1)
    }

    /// Scores of the internal language model, which are the joint without a frame: `[rows, outputs]`.
    pub fn internal_lm(&self, prediction: &Prediction, rows: &[usize]) -> Tensor<2> {
        self.head.forward(activation::relu(prediction.select(rows).output()))
    }
}

impl Prediction {
    fn new(values: Tensor<2>, hidden: usize) -> Self {
        let rows = (0..values.dims()[0]).collect();
        Self { batch: Arc::new(values), rows, hidden }
    }

    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    pub fn join(predictions: &[&Self]) -> Self {
        let joined = Self::concat(predictions);
        // Joined batches hold rows of others too, and would grow from step to step.
        if predictions.iter().all(|other| Arc::ptr_eq(&other.batch, &joined.batch)) { joined } else { joined.packed() }
    }

    /// The rows of several as rows of one batch, which has all rows of their batches.
    fn concat(predictions: &[&Self]) -> Self {
        let mut batches: Vec<&Arc<Tensor<2>>> = Vec::new();
        let mut firsts = vec![0];
        let mut rows = Vec::new();
        for prediction in predictions {
            let known = batches.iter().position(|batch| Arc::ptr_eq(batch, &prediction.batch));
            let at = known.unwrap_or_else(|| {
                firsts.push(firsts[batches.len()] + prediction.batch.dims()[0]);
                batches.push(&prediction.batch);
                batches.len() - 1
            });
            rows.extend(prediction.rows.iter().map(|row| firsts[at] + row));
        }
        let batch = match batches.as_slice() {
            [one] => Arc::clone(one),
            _ => Arc::new(Tensor::cat(batches.iter().map(|batch| batch.as_ref().clone()).collect(), 0)),
        };
        Self { batch, rows, hidden: predictions.first().map_or(0, |first| first.hidden) }
    }

    /// Rows of the same batch.
    pub fn select(&self, rows: &[usize]) -> Self {
        Self { batch: self.batch.clone(), rows: rows.iter().map(|row| self.rows[*row]).collect(), hidden: self.hidden }
    }

    /// As a batch of their own, in their order.
    fn packed(self) -> Self {
        Self::new(self.values(), self.hidden)
    }

    /// `[rows, hidden + width]`
    fn values(&self) -> Tensor<2> {
        self.select_from(self.batch.as_ref().clone())
    }

    /// The predictor's input to the joint: `[rows, hidden]`.
    pub fn output(&self) -> Tensor<2> {
        self.select_from(self.batch.as_ref().clone().narrow(1, 0, self.hidden))
    }

    fn select_from(&self, tensor: Tensor<2>) -> Tensor<2> {
        match *self.rows {
            // A view, no copy.
            [row] => tensor.narrow(0, row, 1),
            _ => select_rows(tensor, &self.rows),
        }
    }

    pub fn with_output(self, output: Tensor<2>) -> Self {
        let values = self.values();
        let [_, width] = values.dims();
        let state = values.narrow(1, self.hidden, width - self.hidden);
        Self::new(Tensor::cat(vec![output, state], 1), self.hidden)
    }
}
