//! An LSTM in both directions over the positions of an utterance.

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::recurrent::lstm;
use auricle_kernels::thread_pool::ThreadPool;

use crate::error::Result;
use crate::layers::Packed;
use crate::weights::Scope;

/// A layer of two directions.
#[derive(Debug)]
pub struct BidirectionalLstm {
    directions: [Direction; 2],
    hidden: usize,
}

#[derive(Debug)]
struct Direction {
    /// `[inputs]` to `[4 hidden]`, with both biases.
    input: Packed,
    /// `[hidden]` to `[4 hidden]`
    recurrent: Packed,
}

impl BidirectionalLstm {
    /// Reads `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, and the same with `_reverse`; each direction gives `hidden` values.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, inputs: usize, hidden: usize) -> Result<Self> {
        let direction = |suffix: &str| {
            let mut bias = scope.values(&format!("bias_ih_l0{suffix}"), &[4 * hidden])?;
            let second = scope.values(&format!("bias_hh_l0{suffix}"), &[4 * hidden])?;
            bias.iter_mut().zip(second).for_each(|(a, b)| *a += b);
            let input = scope.values(&format!("weight_ih_l0{suffix}"), &[4 * hidden, inputs])?;
            let recurrent = scope.values(&format!("weight_hh_l0{suffix}"), &[4 * hidden, hidden])?;
            Ok(Direction {
                input: Packed::new(&input, bias, Precision::F32),
                recurrent: Packed::new(&recurrent, vec![0.0; 4 * hidden], Precision::F32),
            })
        };
        Ok(Self { directions: [direction("")?, direction("_reverse")?], hidden })
    }

    /// `[positions, inputs]` to `[positions, 2 hidden]`, the forward direction first.
    pub fn forward(&self, pool: &ThreadPool, x: &[f32]) -> Vec<f32> {
        let mut sums = self.directions.each_ref().map(|direction| (direction, direction.input.forward(pool, x)));
        let width = self.hidden;
        let mut outputs: Vec<Vec<f32>> = vec![Vec::new(); 2];
        let mut work: Vec<_> = sums.iter_mut().zip(&mut outputs).collect();
        pool.for_each_item(&mut work, |at, ((direction, sums), out)| {
            **out = vec![0.0; sums.len() / 4];
            let (mut state, mut output) = (vec![0.0; width], vec![0.0; width]);
            let positions = out.len() / width;
            for step in 0..positions {
                let position = if at == 0 { step } else { positions - 1 - step };
                let gates = &mut sums[position * 4 * width..][..4 * width];
                direction.recurrent.add_to(&ThreadPool::SINGLE_THREADED, &output, gates);
                lstm::cell(gates, &mut state, &mut output);
                out[position * width..][..width].copy_from_slice(&output);
            }
        });
        let [forward, backward] = [&outputs[0], &outputs[1]].map(|out| out.chunks_exact(width));
        forward.zip(backward).flat_map(|(forward, backward)| [forward, backward].concat()).collect()
    }
}
