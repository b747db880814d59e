//! Products of a few rows with a packed matrix (GEMV) on the CPU, as in a decoder that emits one token per step. Such a product reads
//! many weights and computes little with each, so weights are stored in the order in which they are read.

mod blocks;
mod eight_bits;
mod factors;
mod four_bits;
mod panel;
mod rounded;
mod runs;

use half::{bf16, f16};
use rayon::prelude::*;

use crate::product::slices::{Destination, SharedOutput};
use crate::thread_pool::ThreadPool;
pub use blocks::{BlockMatrix, WeightRun};
pub use eight_bits::EightBitRun;
pub use four_bits::FourBitRun;
use panel::widen;
pub(crate) use panel::{PANEL, ROWS, Weight, accumulate, accumulate_pair, multiply, multiply_pair};
use rounded::RoundedRows;

/// Smallest number of weights of one task of a thread.
const TASK_WEIGHTS: usize = 32 * 1024;

/// From this number of row blocks on, a panel of 8-bit or 16-bit weights is converted to f32 once instead of once per block.
const WIDEN_FROM_BLOCKS: usize = 3;

/// Precision of stored weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits. Weights that are exact in 16 bits are stored in 16, if the processor converts them as fast as it reads them.
    #[default]
    F32,
    /// 16 bits for the products of encoders and of Whisper's decoder on a GPU, with sums, norms and residuals in 32. As
    /// [`Precision::F32`] on a CPU, on a GPU without 16-bit arithmetic, and in all other products.
    F16,
    /// 8 bits, and a scale for each output: a quarter of the bytes. Matrices that a checkpoint has quantised keep their weights, and
    /// inputs are rounded to 8 bits; in Whisper's decoder 64 inputs of an output have a scale, and are rounded too.
    Int8,
    /// 4 bits, and a scale and an offset for each 32 inputs of an output, for the feed-forward layers of Whisper's decoder. As
    /// [`Precision::Int8`] in all other products.
    Int4,
}

impl Precision {
    /// True if products that have a body in 8 bits take it.
    pub fn has_8_bits(self) -> bool {
        matches!(self, Self::Int8 | Self::Int4)
    }

    /// For weights that suffer from fewer than 8 bits.
    pub fn at_least_8_bits(self) -> Self {
        if self == Self::Int4 { Self::Int8 } else { self }
    }
}

impl std::str::FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Self::F32),
            "half" => Ok(Self::F16),
            "int8" => Ok(Self::Int8),
            "int4" => Ok(Self::Int4),
            _ => Err(format!("{text:?} is not a precision; use full, half, int8 or int4")),
        }
    }
}

/// A matrix `[outputs, inputs]`, stored in panels of 32 outputs: `[panels, inputs, 32]`.
#[derive(Clone, Debug)]
pub struct PackedMatrix {
    weights: PackedWeights,
    inputs: usize,
    outputs: usize,
}

#[derive(Clone, Debug)]
enum PackedWeights {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    /// The weights, and the scale of each output.
    Int8(Vec<i8>, Vec<f32>),
}

impl PackedMatrix {
    /// Packs `values` `[outputs, inputs]`, the published layout of a linear layer.
    ///
    /// # Panics
    /// When `values` has another length.
    pub fn new(values: &[f32], inputs: usize, outputs: usize, precision: Precision) -> Self {
        assert_eq!(values.len(), inputs * outputs, "packed matrix: number of values");
        let weights = match precision {
            Precision::F32 | Precision::F16 if is_exact(values, |value| f16::from_f32(value).to_f32()) => {
                PackedWeights::F16(pack(values, inputs, |_, value| f16::from_f32(value)))
            }
            Precision::F32 | Precision::F16 if is_exact(values, |value| bf16::from_f32(value).to_f32()) => {
                PackedWeights::Bf16(pack(values, inputs, |_, value| bf16::from_f32(value)))
            }
            Precision::F32 | Precision::F16 => PackedWeights::F32(pack(values, inputs, |_, value| value)),
            Precision::Int8 | Precision::Int4 => {
                let (scales, inverse): (Vec<f32>, Vec<f32>) = values.chunks_exact(inputs).map(int8_scale).unzip();
                PackedWeights::Int8(
                    pack(values, inputs, |output, value: f32| (value * inverse[output]).round() as i8),
                    scales,
                )
            }
        };
        Self { weights, inputs, outputs }
    }

    /// Length of an input row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Length of an output row.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Size of the weights and scales, in bytes.
    pub fn bytes(&self) -> usize {
        match &self.weights {
            PackedWeights::F32(weights) => 4 * weights.len(),
            PackedWeights::F16(weights) => 2 * weights.len(),
            PackedWeights::Bf16(weights) => 2 * weights.len(),
            PackedWeights::Int8(weights, scales) => weights.len() + 4 * scales.len(),
        }
    }

    /// The weights of one output as f32: `[inputs]`.
    pub fn output(&self, output: usize) -> Vec<f32> {
        let from = output / PANEL * PANEL * self.inputs + output % PANEL;
        let at = (0..self.inputs).map(|input| from + input * PANEL);
        match &self.weights {
            PackedWeights::F32(weights) => at.map(|at| weights[at]).collect(),
            PackedWeights::F16(weights) => at.map(|at| weights[at].as_f32()).collect(),
            PackedWeights::Bf16(weights) => at.map(|at| weights[at].as_f32()).collect(),
            PackedWeights::Int8(weights, scales) => at.map(|at| weights[at].as_f32() * scales[output]).collect(),
        }
    }

    /// Multiplies `x` `[rows, inputs]` to `[rows, outputs]` and adds `bias` `[outputs]`.
    ///
    /// # Panics
    /// When `x` is not a whole number of rows, or `bias` has another length.
    pub fn forward(&self, pool: &ThreadPool, x: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let mut out = Vec::new();
        self.write(Rows { pool, x, bias, out: Destination::New(&mut out) });
        out
    }

    /// Adds the result of [`PackedMatrix::forward`] to `out` `[rows, outputs]`.
    ///
    /// # Panics
    /// When `x` is not a whole number of rows, or `out` or `bias` has another length.
    pub fn add_to(&self, pool: &ThreadPool, x: &[f32], bias: Option<&[f32]>, out: &mut [f32]) {
        self.write(Rows { pool, x, bias, out: Destination::Added(out) });
    }

    fn write(&self, rows: Rows) {
        match &self.weights {
            PackedWeights::F32(weights) => self.multiply(rows, weights, None),
            PackedWeights::F16(weights) => self.multiply(rows, weights, None),
            PackedWeights::Bf16(weights) => self.multiply(rows, weights, None),
            PackedWeights::Int8(weights, scales) => self.multiply(rows, weights, Some(scales)),
        }
    }

    fn multiply<W: Weight>(&self, rows: Rows, weights: &[W], scales: Option<&[f32]>) {
        let inputs = self.inputs;
        // Holds the converted weights of a panel.
        let wide = |blocks: usize| {
            vec![0f32; if blocks >= WIDEN_FROM_BLOCKS && size_of::<W>() < 4 { PANEL * inputs } else { 0 }]
        };
        let panel_weights = |panel: usize| &weights[panel * PANEL * inputs..(panel + 1) * PANEL * inputs];
        let load = |wide: &mut Vec<f32>, panel: usize| {
            if !wide.is_empty() {
                widen(panel_weights(panel), wide);
            }
        };
        let product = |wide: &Vec<f32>, panel: usize, block: &RowBlock, sums: &mut [[f32; PANEL]; ROWS]| {
            if wide.is_empty() {
                multiply(block.width, &block.values, panel_weights(panel), sums);
            } else {
                multiply(block.width, &block.values, wide, sums);
            }
            if let Some(scales) = scales {
                for sums in sums.iter_mut().take(block.rows) {
                    sums.iter_mut().zip(&scales[panel * PANEL..]).for_each(|(sum, scale)| *sum *= scale);
                }
            }
        };
        let prepare = |block: &mut RowBlock| block.transpose(inputs);
        multiply_panels(rows, [inputs, self.outputs], prepare, wide, load, product);
    }
}

/// Rows to multiply, and where their products go.
struct Rows<'a> {
    pool: &'a ThreadPool<'a>,
    /// `[rows, inputs]`
    x: &'a [f32],
    /// `[outputs]`
    bias: Option<&'a [f32]>,
    out: Destination<'a>,
}

/// Adds the products of all rows of `x` with all panels of a matrix `[outputs, inputs]`, and `bias`, to `out`. The threads share the
/// panels.
///
/// `prepare` transposes or rounds a block of rows. A thread keeps a state, which `begin` makes for a number of blocks and `load` fills for a
/// panel; `product` multiplies a block with that panel.
fn multiply_panels<S>(
    Rows { pool, x, bias, out }: Rows,
    [inputs, outputs]: [usize; 2],
    prepare: impl Fn(&mut RowBlock) + Sync,
    begin: impl Fn(usize) -> S + Sync,
    load: impl Fn(&mut S, usize) + Sync,
    product: impl Fn(&S, usize, &RowBlock, &mut [[f32; PANEL]; ROWS]) + Sync,
) {
    assert!(
        x.len().is_multiple_of(inputs) && bias.is_none_or(|bias| bias.len() == outputs),
        "packed matrix: lengths of x and bias"
    );
    let mut blocks: Vec<RowBlock> = x.chunks(ROWS * inputs).map(RowBlock::new).collect();
    pool.for_each_item(&mut blocks, |_, block| prepare(block));
    let panels_per_task = (TASK_WEIGHTS / (PANEL * inputs)).max(1);
    let panels = outputs.div_ceil(PANEL);
    let arch = pulp::Arch::new();
    let add = |output: SharedOutput, task: usize| {
        let mut state = begin(blocks.len());
        let mut sums = [[0f32; PANEL]; ROWS];
        for panel in task * panels_per_task..panels.min((task + 1) * panels_per_task) {
            load(&mut state, panel);
            let first = panel * PANEL;
            let mut biases = [0f32; PANEL];
            if let Some(bias) = bias {
                biases.iter_mut().zip(&bias[first..]).for_each(|(to, bias)| *to = *bias);
            }
            for (index, block) in blocks.iter().enumerate() {
                product(&state, panel, block, &mut sums);
                let at = index * ROWS * outputs + first;
                let sums = &mut sums[..block.rows];
                let count = PANEL.min(outputs - first);
                arch.dispatch(AddTile { sums, biases: &biases, output, at, outputs, count });
            }
        }
    };
    let write = |output: SharedOutput| pool.for_each_index(panels.div_ceil(panels_per_task), |task| add(output, task));
    // SAFETY: the tasks go through all panels, and each through all rows.
    unsafe { out.fill(x.len() / inputs * outputs, write) };
}

/// Adds the sums of a block with one panel, and the biases, to a result of `outputs` a row, from its value `at` on.
struct AddTile<'a> {
    sums: &'a mut [[f32; PANEL]],
    biases: &'a [f32; PANEL],
    output: SharedOutput,
    at: usize,
    outputs: usize,
    /// Outputs of the panel that are real.
    count: usize,
}

impl pulp::NullaryFnOnce for AddTile<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (row, sums) in self.sums.iter_mut().enumerate() {
            sums.iter_mut().zip(self.biases).for_each(|(sum, bias)| *sum += bias);
            let at = self.at + row * self.outputs;
            // SAFETY: `multiply_panels` makes tiles of rows and outputs that lie within the result, and each of them once.
            unsafe {
                if self.count == PANEL {
                    self.output.add(at, sums);
                } else {
                    self.output.add(at, &sums[..self.count]);
                }
            }
        }
    }
}

/// The scale of one output's weights in 8 bits, and its inverse: the largest weight becomes 127.
pub(crate) fn int8_scale(weights: &[f32]) -> (f32, f32) {
    let scale = weights.iter().fold(0f32, |max, weight| max.max(weight.abs())) / 127.0;
    (scale, if scale > 0.0 { 1.0 / scale } else { 0.0 })
}

/// Reorders `[outputs, inputs]` to `[panels, inputs, 32]`; the last panel is padded with 0.
fn pack<W: Default + Copy + Send>(values: &[f32], inputs: usize, convert: impl Fn(usize, f32) -> W + Sync) -> Vec<W> {
    let outputs = values.len() / inputs;
    let mut packed = vec![W::default(); outputs.div_ceil(PANEL) * PANEL * inputs];
    packed.par_chunks_mut(PANEL * inputs).enumerate().for_each(|(panel, packed)| {
        let rows = values.chunks_exact(inputs).enumerate().skip(panel * PANEL).take(PANEL);
        for (lane, (output, row)) in rows.enumerate() {
            packed.iter_mut().skip(lane).step_by(PANEL).zip(row).for_each(|(to, value)| *to = convert(output, *value));
        }
    });
    packed
}

/// Returns true if every value survives `round_trip` to 16 bits and back, and the processor converts 16-bit weights fast enough.
fn is_exact(values: &[f32], round_trip: impl Fn(f32) -> f32 + Sync) -> bool {
    widens_16_bits() && values.par_iter().all(|value| round_trip(*value).to_bits() == value.to_bits())
}

/// True if the processor converts weights of 16 bits as fast as it reads them.
pub fn widens_16_bits() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    cfg!(target_arch = "aarch64")
}

/// Up to eight rows, transposed or rounded.
struct RowBlock<'a> {
    source: &'a [f32],
    /// `[inputs, width]`
    values: Vec<f32>,
    /// 1, 2, 4 or 8: the number of rows, rounded up.
    width: usize,
    rows: usize,
    /// `[runs, width]`: the sum of the inputs of each run; empty where no product needs it.
    run_sums: Vec<f32>,
    /// The rows in 8 bits; empty where products take them in 32.
    rounded: RoundedRows,
}

impl<'a> RowBlock<'a> {
    fn new(source: &'a [f32]) -> Self {
        Self { source, values: Vec::new(), width: 0, rows: 0, run_sums: Vec::new(), rounded: RoundedRows::default() }
    }

    /// Rounds the rows by runs of `run` inputs.
    fn round(&mut self, inputs: usize, run: usize) {
        self.rows = self.source.len() / inputs;
        self.width = self.rows.next_power_of_two();
        self.rounded = RoundedRows::new(self.source, inputs, self.width, run);
    }

    /// Sums the inputs of each run of `run` inputs, after [`RowBlock::transpose`].
    fn run_sums(&mut self, run: usize) {
        self.run_sums = vec![0f32; self.values.len() / run];
        let runs = self.values.chunks_exact(run * self.width);
        for (sums, values) in self.run_sums.chunks_exact_mut(self.width).zip(runs) {
            for values in values.chunks_exact(self.width) {
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
    }

    fn transpose(&mut self, inputs: usize) {
        self.rows = self.source.len() / inputs;
        self.width = self.rows.next_power_of_two();
        if self.width == 1 {
            self.values = self.source.to_vec();
            return;
        }
        self.values = vec![0f32; inputs * self.width];
        if self.rows == ROWS {
            let (to, _) = self.values.as_chunks_mut::<ROWS>();
            for (input, to) in to.iter_mut().enumerate() {
                for (row, to) in to.iter_mut().enumerate() {
                    *to = self.source[row * inputs + input];
                }
            }
            return;
        }
        for (row, x) in self.source.chunks_exact(inputs).enumerate() {
            self.values.iter_mut().skip(row).step_by(self.width).zip(x).for_each(|(to, x)| *to = *x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights that are exact in 16 bits give the same products as in 32, to the last bit, for few rows and for many.
    #[test]
    fn sixteen_bit_weights_are_exact() {
        let (inputs, outputs) = (37, 70);
        let value = |at: usize| ((at * 7919 % 2003) as f32 / 2003.0 - 0.5) * 0.3;
        let in_f16: Vec<f32> = (0..inputs * outputs).map(|at| f16::from_f32(value(at)).to_f32()).collect();
        let in_bf16: Vec<f32> = (0..inputs * outputs).map(|at| bf16::from_f32(1e9 * value(at)).to_f32()).collect();
        for weights in [in_f16, in_bf16] {
            let packed = PackedMatrix::new(&weights, inputs, outputs, Precision::F32);
            let full =
                PackedMatrix { weights: PackedWeights::F32(pack(&weights, inputs, |_, value| value)), inputs, outputs };
            assert!(packed.bytes() == full.bytes() / 2 || !is_exact(&[1.0], |value| value), "16 bits are used");
            for rows in [1, 8, 100] {
                let x: Vec<f32> = (0..rows * inputs).map(|at| value(at + 13)).collect();
                let forward = |matrix: &PackedMatrix| crate::thread_pool::run(|pool| matrix.forward(pool, &x, None));
                assert_eq!(forward(&packed), forward(&full), "{rows} rows");
            }
            assert_eq!(packed.output(69), weights[69 * inputs..]);
        }
    }
}
