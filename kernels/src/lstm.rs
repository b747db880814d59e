//! The pointwise part of an LSTM step: what it does beside its product. On GPUs one launch; [`cell`] is for values that are no
//! tensor.

use burn::backend::Dispatch;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Flex, TensorMetadata, backend_extension};
use burn::tensor::Tensor;

use crate::vector_math::{contiguous, sigmoid, tanh, tensor};

/// One layer of all rows: `gates` `[rows, 4 * hidden]` as [`cell`] takes them and the memory before, `[rows, hidden]`, to the output
/// and the memory after, side by side: `[rows, 2 * hidden]`.
pub fn cells(gates: Tensor<2>, memory: Tensor<2>) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::lstm_cells(gates.into_dispatch(), memory.into_dispatch()))
}

#[backend_extension(Flex, Cube: cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm")))]
pub(crate) trait LstmOps: Backend {
    fn lstm_cells(gates: FloatTensor<Self>, memory: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl LstmOps for Flex {
    fn lstm_cells(gates: FloatTensor<Self>, memory: FloatTensor<Self>) -> FloatTensor<Self> {
        let [rows, hidden] = [memory.shape()[0], memory.shape()[1]];
        let [gates, memory] = [gates, memory].map(contiguous);
        let (gates, memory) =
            (gates.as_slice::<f32>().unwrap_or_default(), memory.as_slice::<f32>().unwrap_or_default());
        let mut out = vec![0.0; rows * 2 * hidden];
        let rows_of = gates.chunks_exact(4 * hidden).zip(memory.chunks_exact(hidden));
        for ((gates, before), out) in rows_of.zip(out.chunks_exact_mut(2 * hidden)) {
            let (output, memory) = out.split_at_mut(hidden);
            memory.copy_from_slice(before);
            cell(gates, memory, output);
        }
        tensor(out, [rows, 2 * hidden].into())
    }
}

#[cfg(any(feature = "wgpu", feature = "cuda", feature = "rocm"))]
mod kernel {
    use burn::backend::ops::FloatTensorOps;
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Cube, FloatDType, TensorMetadata};
    use cubecl::prelude::*;

    use super::LstmOps;
    use crate::elementwise::sigmoid;

    impl LstmOps for Cube {
        fn lstm_cells(gates: FloatTensor<Self>, memory: FloatTensor<Self>) -> FloatTensor<Self> {
            let (client, device, shape) = (memory.client.clone(), memory.device(), memory.shape());
            let out = Self::float_empty([shape[0], 2 * shape[1]].into(), &device, FloatDType::F32);
            let dim = CubeDim::new(&client, shape.num_elements());
            cells_kernel::launch(
                &client,
                cubecl::calculate_cube_count_elemwise(&client, shape.num_elements(), dim),
                dim,
                gates.into_tensor_arg(),
                memory.into_tensor_arg(),
                out.clone().into_tensor_arg(),
            );
            out
        }
    }

    /// One unit a value of the memory.
    #[cube(launch)]
    fn cells_kernel(gates: &Tensor<f32>, memory: &Tensor<f32>, out: &mut Tensor<f32>) {
        let at = ABSOLUTE_POS;
        let hidden = memory.shape(1);
        if at < memory.shape(0) * hidden {
            let (row, unit) = (at / hidden, at % hidden);
            let (first, step) = (row * gates.stride(0), gates.stride(1));
            let input = gates[first + unit * step];
            let forget = gates[first + (hidden + unit) * step];
            let candidate = gates[first + (2 * hidden + unit) * step];
            let open = gates[first + (3 * hidden + unit) * step];
            let before = memory[row * memory.stride(0) + unit * memory.stride(1)];
            let after = sigmoid(forget) * before + sigmoid(input) * tanh(candidate);
            let place = row * out.stride(0) + unit;
            out[place] = sigmoid(open) * tanh(after);
            out[place + hidden] = after;
        }
    }

    /// By the sigmoid, which does not overflow.
    #[cube]
    fn tanh(x: f32) -> f32 {
        f32::new(2.0) * sigmoid(f32::new(2.0) * x) - f32::new(1.0)
    }
}

/// One row of one layer: `gates` `[4 * hidden]` in the published order (input, forget, cell, output), already summed, change
/// `memory` `[hidden]` and give `output` `[hidden]`. In the widest vectors the processor has.
///
/// # Panics
/// When the lengths do not fit together.
pub fn cell(gates: &[f32], memory: &mut [f32], output: &mut [f32]) {
    let hidden = memory.len();
    assert!(gates.len() == 4 * hidden && output.len() == hidden, "an LSTM cell's row");
    pulp::Arch::new().dispatch(Cell { gates, memory, output });
}

struct Cell<'a> {
    gates: &'a [f32],
    memory: &'a mut [f32],
    output: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Cell<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let hidden = self.memory.len();
        let (input, rest) = self.gates.split_at(hidden);
        let (forget, rest) = rest.split_at(hidden);
        let (candidate, open) = rest.split_at(hidden);
        let gates = input.iter().zip(forget).zip(candidate.iter().zip(open));
        for (((input, forget), (candidate, open)), (memory, output)) in
            gates.zip(self.memory.iter_mut().zip(self.output))
        {
            *memory = sigmoid(*forget) * *memory + sigmoid(*input) * tanh(*candidate);
            *output = sigmoid(*open) * tanh(*memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_that_of_the_definition() {
        let hidden = 37;
        let gates: Vec<f32> = (0..4 * hidden).map(|n| (n as f32 * 0.7).sin() * 9.0).collect();
        let before: Vec<f32> = (0..hidden).map(|n| (n as f32 * 1.3).cos() * 3.0).collect();
        let (mut memory, mut output) = (before.clone(), vec![0.0; hidden]);
        cell(&gates, &mut memory, &mut output);
        let sigmoid = |x: f32| 1.0 / (1.0 + f64::from(-x).exp());
        for at in 0..hidden {
            let [input, forget, candidate, open] = [0, 1, 2, 3].map(|gate| gates[gate * hidden + at]);
            let kept = sigmoid(forget) * f64::from(before[at]) + sigmoid(input) * f64::from(candidate).tanh();
            assert!((f64::from(memory[at]) - kept).abs() < 1e-6, "{at}");
            assert!((f64::from(output[at]) - sigmoid(open) * kept.tanh()).abs() < 1e-6, "{at}");
        }
    }
}
