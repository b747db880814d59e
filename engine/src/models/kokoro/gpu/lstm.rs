//! An LSTM in both directions over the positions of an utterance.

use auricle_kernels::recurrent::bidirectional_lstm::{MOST_HIDDEN, bidirectional_lstm};
use burn::tensor::{Tensor, TensorData};

use crate::error::{Error, Result};
use crate::layers::{Linear, transpose};
use crate::weights::Scope;

/// A layer of two directions.
#[derive(Debug)]
pub struct BidirectionalLstm {
    /// `[inputs]` to `[2 * 4 hidden]`, with both biases.
    input: Linear,
    /// `[2, hidden, 4 hidden]`
    recurrent: Tensor<3>,
}

impl BidirectionalLstm {
    /// Reads `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, and the same with `_reverse`; each direction gives `hidden` values.
    ///
    /// # Errors
    /// As [`Scope::values`]; [`Error::Weights`] for a layer that is wider than a GPU computes.
    pub fn load(scope: &Scope, inputs: usize, hidden: usize) -> Result<Self> {
        if hidden > MOST_HIDDEN {
            let reason =
                format!("{hidden} values of a direction; a GPU computes up to {MOST_HIDDEN}: say --device cpu");
            return Err(Error::Weights { tensor: scope.name("weight_hh_l0"), reason });
        }
        let (mut weights, mut biases, mut recurrent) = (Vec::new(), Vec::new(), Vec::new());
        for suffix in ["", "_reverse"] {
            let bias = scope.values(&format!("bias_ih_l0{suffix}"), &[4 * hidden])?;
            let second = scope.values(&format!("bias_hh_l0{suffix}"), &[4 * hidden])?;
            biases.extend(bias.iter().zip(second).map(|(a, b)| a + b));
            weights.extend(scope.values(&format!("weight_ih_l0{suffix}"), &[4 * hidden, inputs])?);
            let own = scope.values(&format!("weight_hh_l0{suffix}"), &[4 * hidden, hidden])?;
            recurrent.extend(transpose(&own, 4 * hidden, hidden));
        }
        let weights = transpose(&weights, 8 * hidden, inputs);
        Ok(Self {
            input: Linear::from_values(weights, inputs, 8 * hidden, Some(biases), scope.device()),
            recurrent: Tensor::from_data(TensorData::new(recurrent, [2, hidden, 4 * hidden]), scope.device()),
        })
    }

    /// `[positions, inputs]` to `[positions, 2 hidden]`, the forward direction first.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        bidirectional_lstm(self.input.forward(x), self.recurrent.clone())
    }
}
