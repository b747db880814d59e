//! The transducer on the CPU: plain memory, rows concatenated, each weight read once for all of them.

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::recurrent::lstm;
use auricle_kernels::thread_pool::{self, ThreadPool};

use super::super::config::Config;
use crate::decoding::Scores;
use crate::error::Result;
use crate::layers::Packed;
use crate::weights::Scope;

/// Number of weights from which several threads share a step: with fewer, one thread finishes before another wakes.
const SHARED: usize = 16 << 20;

/// Predictor and joint.
#[derive(Clone, Debug)]
pub struct Transducer {
    /// `[vocabulary, hidden]`
    embedding: Vec<f32>,
    /// For each layer, `[input + hidden]` to `[4 hidden]`.
    cells: Vec<Packed>,
    predictor_output: Packed,
    head: Packed,
    hidden: usize,
}

/// The predictor's state after each row's last token.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// `[rows, hidden]`: the predictor's input to the joint.
    output: Vec<f32>,
    /// Hidden and cell state of each layer: `[rows, layers, 2, hidden]`.
    state: Vec<f32>,
    hidden: usize,
}

impl Transducer {
    /// Reads `decoder` and `joint`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(decoder: &Scope, joint: &Scope, config: &Config, outputs: usize) -> Result<Self> {
        let hidden = config.decoder_hidden_size;
        let lstm = decoder.scope("lstm");
        let cell = |layer: usize| {
            let values = |name: &str, shape: &[usize]| lstm.values(&format!("{name}_l{layer}"), shape);
            let square = [4 * hidden, hidden];
            let (from_input, from_hidden) = (values("weight_ih", &square)?, values("weight_hh", &square)?);
            let rows = from_input.chunks_exact(hidden).zip(from_hidden.chunks_exact(hidden));
            let weight = rows.flat_map(|(input, hidden)| [input, hidden].concat()).collect::<Vec<f32>>();
            let bias = values("bias_ih", &[4 * hidden])?.into_iter().zip(values("bias_hh", &[4 * hidden])?);
            Ok(Packed::new(&weight, bias.map(|(input, hidden)| input + hidden).collect(), Precision::F32))
        };
        Ok(Self {
            embedding: decoder.scope("embedding").values("weight", &[config.vocab_size, hidden])?,
            cells: (0..config.num_decoder_layers).map(cell).collect::<Result<_>>()?,
            predictor_output: Packed::load(&decoder.scope("decoder_projector"), hidden, hidden, Precision::F32)?,
            head: Packed::load(&joint.scope("head"), hidden, outputs, Precision::F32)?,
            hidden,
        })
    }

    pub fn start(&self, rows: usize, blank: u32) -> Prediction {
        self.advance(&vec![blank; rows], vec![0.0; rows * self.state_size()])
    }

    pub fn step(&self, prediction: &mut Prediction, rows: &[usize], tokens: &[u32]) {
        let (size, width) = (self.state_size(), self.hidden);
        let moved = self.advance(tokens, prediction.states(rows, size));
        let states = moved.state.chunks_exact(size).zip(moved.output.chunks_exact(width));
        for (row, (state, output)) in rows.iter().zip(states) {
            prediction.state[row * size..][..size].copy_from_slice(state);
            prediction.output[row * width..][..width].copy_from_slice(output);
        }
    }

    pub fn follow(&self, prediction: &mut Prediction, rows: &[usize], tokens: &[u32]) {
        let moved = self.advance(tokens, prediction.states(rows, self.state_size()));
        prediction.output.extend(moved.output);
        prediction.state.extend(moved.state);
    }

    pub fn joint(&self, frames: &[f32], at: &[usize], prediction: &Prediction, rows: &[usize]) -> Scores {
        let (hidden, width) = (self.hidden, at.len() / rows.len().max(1));
        let mut x = Vec::with_capacity(at.len() * hidden);
        for (row, at) in rows.iter().zip(at.chunks_exact(width.max(1))) {
            let predicted = &prediction.output[row * hidden..][..hidden];
            for at in at {
                let frame = &frames[at * hidden..][..hidden];
                x.extend(frame.iter().zip(predicted).map(|(frame, predicted)| (frame + predicted).max(0.0)));
            }
        }
        self.scores(&x)
    }

    pub fn internal_lm(&self, prediction: &Prediction, rows: &[usize]) -> Scores {
        let hidden = self.hidden;
        let x = rows.iter().flat_map(|row| prediction.output[row * hidden..][..hidden].iter().map(|x| x.max(0.0)));
        self.scores(&x.collect::<Vec<f32>>())
    }

    fn scores(&self, x: &[f32]) -> Scores {
        let values = self.together(|pool| self.head.forward(pool, x));
        let outputs = values.len() / (x.len() / self.hidden).max(1);
        Scores::new(values, outputs)
    }

    /// Advances the predictor by one token of each row, from `state` `[rows, layers, 2, hidden]`.
    fn advance(&self, tokens: &[u32], mut state: Vec<f32>) -> Prediction {
        let (hidden, size) = (self.hidden, self.state_size());
        let embedded = |token: &u32| self.embedding[*token as usize * hidden..][..hidden].iter().copied();
        let mut x: Vec<f32> = tokens.iter().flat_map(embedded).collect();
        let output = self.together(|pool| {
            for (layer, cell) in self.cells.iter().enumerate() {
                let from = 2 * layer * hidden;
                let rows = x.chunks_exact(hidden).zip(state.chunks_exact(size));
                let input: Vec<f32> = rows.flat_map(|(x, state)| [x, &state[from..from + hidden]].concat()).collect();
                let gates = cell.forward(pool, &input);
                let rows = state.chunks_exact_mut(size).zip(x.chunks_exact_mut(hidden));
                for (gates, (state, x)) in gates.chunks_exact(4 * hidden).zip(rows) {
                    let (output, memory) = state[from..from + 2 * hidden].split_at_mut(hidden);
                    lstm::cell(gates, memory, output);
                    x.copy_from_slice(output);
                }
            }
            self.predictor_output.forward(pool, &x)
        });
        Prediction { output, state, hidden }
    }

    fn state_size(&self) -> usize {
        2 * self.cells.len() * self.hidden
    }

    fn together<R>(&self, work: impl FnOnce(&ThreadPool) -> R) -> R {
        let bytes = self.cells.iter().chain([&self.head]).map(Packed::bytes).sum::<usize>();
        if bytes < SHARED { work(&ThreadPool::SINGLE_THREADED) } else { thread_pool::run(work) }
    }
}

impl Prediction {
    pub fn rows(&self) -> usize {
        self.output.len() / self.hidden
    }

    pub fn join(predictions: &[&Self]) -> Self {
        Self {
            output: predictions.iter().flat_map(|prediction| prediction.output.iter().copied()).collect(),
            state: predictions.iter().flat_map(|prediction| prediction.state.iter().copied()).collect(),
            hidden: predictions.first().map_or(1, |prediction| prediction.hidden),
        }
    }

    pub fn select(&self, rows: &[usize]) -> Self {
        let output = rows.iter().flat_map(|row| self.output[row * self.hidden..][..self.hidden].iter().copied());
        let size = self.state.len() / self.rows().max(1);
        Self { output: output.collect(), state: self.states(rows, size), hidden: self.hidden }
    }

    fn states(&self, rows: &[usize], size: usize) -> Vec<f32> {
        rows.iter().flat_map(|row| self.state[row * size..][..size].iter().copied()).collect()
    }

    pub fn output(&self) -> &[f32] {
        &self.output
    }

    pub fn with_output(self, output: Vec<f32>) -> Self {
        Self { output, ..self }
    }
}
