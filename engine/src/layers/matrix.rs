use auricle_kernels::product::gemv::{BlockMatrix, EightBitRun, FourBitRun, PackedMatrix, Precision};
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
    /// Packs `values` `[outputs, inputs]`: with [`Precision::Int4`] and [`Precision::Int8`] as numbers in runs of inputs, whose products
    /// round their inputs to 8 bits on a processor that is faster with them. Where inputs are no multiple of a run the numbers have 8
    /// bits, a scale for each output, and exact inputs.
    pub fn new(values: &[f32], inputs: usize, outputs: usize, precision: Precision) -> Self {
        let (shape, row) = ([outputs, inputs], |output: usize| &values[output * inputs..][..inputs]);
        if precision == Precision::Int4 && inputs.is_multiple_of(FourBitRun::WEIGHTS) {
            let row = |output: usize| FourBitRun::row(row(output));
            return Self::Blocks(BlockMatrix::new(shape, FourBitRun::WEIGHTS, 0, precision, row, FourBitRun::weights));
        }
        if precision.has_8_bits() && inputs.is_multiple_of(EightBitRun::WEIGHTS) {
            let row = |output: usize| EightBitRun::row(row(output));
            let (run, lowest) = (EightBitRun::WEIGHTS, EightBitRun::LOWEST);
            return Self::Blocks(BlockMatrix::new(shape, run, lowest, precision, row, EightBitRun::weights));
        }
        Self::Floats(PackedMatrix::new(values, inputs, outputs, precision))
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

    /// Length of an input row.
    pub fn inputs(&self) -> usize {
        match self {
            Self::Floats(matrix) => matrix.inputs(),
            Self::Blocks(matrix) => matrix.inputs(),
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
