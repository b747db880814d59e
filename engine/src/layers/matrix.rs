use auricle_kernels::gemv::{BlockMatrix, FourBitRun, PackedMatrix, Precision};
use auricle_kernels::thread_pool::ThreadPool;

/// A matrix of weights `[outputs, inputs]` on the CPU, for products of a few rows.
#[derive(Clone, Debug)]
pub enum Matrix {
    /// Floats, or numbers of 8 bits with a scale for each output.
    Floats(PackedMatrix),
    /// Small integers in runs with a scale.
    Blocks(BlockMatrix),
}

impl Matrix {
    /// Packs `values` `[outputs, inputs]`; those of [`Precision::Int4`] have 8 bits where inputs are no multiple of a run.
    pub fn new(values: &[f32], inputs: usize, outputs: usize, precision: Precision) -> Self {
        if precision != Precision::Int4 || !inputs.is_multiple_of(FourBitRun::WEIGHTS) {
            return Self::Floats(PackedMatrix::new(values, inputs, outputs, precision));
        }
        let row = |output: usize| FourBitRun::row(&values[output * inputs..][..inputs]);
        let shape = [outputs, inputs];
        Self::Blocks(BlockMatrix::new(shape, FourBitRun::WEIGHTS, 0, precision, row, FourBitRun::weights))
    }

    /// Multiplies `x` `[rows, inputs]` to `[rows, outputs]` and adds `bias`.
    pub fn forward(&self, pool: &ThreadPool, x: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        match self {
            Self::Floats(matrix) => matrix.forward(pool, x, bias),
            Self::Blocks(matrix) => matrix.forward(pool, x, bias),
        }
    }

    /// Adds the result of [`Matrix::forward`] to `out`.
    pub fn add_to(&self, pool: &ThreadPool, x: &[f32], bias: Option<&[f32]>, out: &mut [f32]) {
        match self {
            Self::Floats(matrix) => matrix.add_to(pool, x, bias, out),
            Self::Blocks(matrix) => matrix.add_to(pool, x, bias, out),
        }
    }

    /// The weights of one output.
    pub fn output(&self, output: usize) -> Vec<f32> {
        match self {
            Self::Floats(matrix) => matrix.output(output),
            Self::Blocks(matrix) => matrix.output(output),
        }
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Floats(matrix) => matrix.outputs(),
            Self::Blocks(matrix) => matrix.outputs(),
        }
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Floats(matrix) => matrix.bytes(),
            Self::Blocks(matrix) => matrix.bytes(),
        }
    }
}
