//! Products of a few rows with weights that are stored as published checkpoints quantise them: small integers in runs of 16 or 32
//! inputs, each run with a scale and, for some types, a minimum. A weight is `scale * number + minimum`. Nothing is rounded again:
//! the products are those of the same weights in f32, up to the order of the additions. With [`Precision::Int8`] inputs are rounded to
//! 8 bits where that is faster.

use rayon::prelude::*;

use super::factors::RunValues;
use super::panel::{PANEL, ROWS};
use super::rounded::{self, Quads, RunFactors};
use super::runs::{EightBits, Factors, FourBits, NumberPanels, WideNumbers, Widen, multiply_runs};
use super::{Precision, RowBlock, Rows, multiply_panels};
use crate::product::slices::Destination;
use crate::thread_pool::ThreadPool;

/// From this number of row blocks on, the numbers of a panel are converted to f32 once instead of once per block.
const WIDEN_FROM_BLOCKS: usize = 3;
/// A run of consecutive weights of one output, as the checkpoint has it.
#[derive(Clone, Copy, Debug)]
pub struct WeightRun<'a> {
    /// The numbers of the weights.
    pub numbers: &'a [i8],
    /// The value of 1 above that of 0.
    pub scale: f32,
    /// The value of 0.
    pub minimum: f32,
}

/// A quantised matrix `[outputs, inputs]` in panels of 32 outputs.
#[derive(Clone, Debug)]
pub struct BlockMatrix {
    numbers: Numbers,
    scales: RunValues,
    /// Empty where all are zero.
    minimums: RunValues,
    /// Inputs of a run.
    run: usize,
    inputs: usize,
    outputs: usize,
}

#[derive(Clone, Debug)]
enum Numbers {
    /// Two inputs in a byte, the first in its low half: `[panels, inputs / 2, 32]`. A number is `lowest` plus these bits.
    Four { bits: Vec<u8>, lowest: i8 },
    /// `[panels, inputs, 32]`
    Eight(Vec<i8>),
    /// For inputs of 8 bits.
    Quads(Quads),
}

impl BlockMatrix {
    /// Packs the rows that `row` gives, one output each: runs of `run` numbers that make up `inputs`, as `view` shows them. Where all
    /// numbers lie within 16 from `lowest` on they take 4 bits, else 8. With [`Precision::Int8`] or [`Precision::Int4`] products round their
    /// inputs to 8 bits, by runs, on a processor that is faster with them.
    ///
    /// # Panics
    /// When `run` is odd, `inputs` is no multiple of it, or a row has runs of another length or number.
    pub fn new<R>(
        [outputs, inputs]: [usize; 2],
        run: usize,
        lowest: i8,
        precision: Precision,
        row: impl Fn(usize) -> Vec<R> + Sync,
        view: impl Fn(&R) -> WeightRun<'_> + Sync,
    ) -> Self {
        assert!(run > 0 && run.is_multiple_of(2) && inputs.is_multiple_of(run), "block matrix: length of a run");
        let (panels, runs) = (outputs.div_ceil(PANEL), inputs / run);
        let fits = |number: i8| (0..16).contains(&(i16::from(number) - i16::from(lowest)));
        let mut wide = vec![0i8; panels * PANEL * inputs];
        let mut scales = vec![0f32; panels * runs * PANEL];
        let mut minimums = vec![0f32; panels * runs * PANEL];
        let four = wide
            .par_chunks_mut(PANEL * inputs)
            .zip(scales.par_chunks_mut(PANEL * runs).zip(minimums.par_chunks_mut(PANEL * runs)))
            .enumerate()
            .map(|(panel, (wide, (scales, minimums)))| {
                // The last panel's padding has no influence; it must fit like the rest.
                wide.fill(lowest);
                let mut four = true;
                for lane in 0..PANEL.min(outputs - panel * PANEL) {
                    let row = row(panel * PANEL + lane);
                    assert!(row.len() == runs, "block matrix: runs of a row");
                    for (at, of) in row.iter().map(&view).enumerate() {
                        assert!(of.numbers.len() == run, "block matrix: length of a run");
                        let to = wide[at * run * PANEL..].iter_mut().skip(lane).step_by(PANEL);
                        to.zip(of.numbers).for_each(|(to, number)| *to = *number);
                        four &= of.numbers.iter().all(|number| fits(*number));
                        (scales[at * PANEL + lane], minimums[at * PANEL + lane]) = (of.scale, of.minimum);
                    }
                }
                four
            })
            .reduce(|| true, |a, b| a && b);
        let is_rounded = precision.has_8_bits() && rounded::is_fast() && run.is_multiple_of(8);
        let numbers = if is_rounded {
            Numbers::Quads(Quads::new(&wide, inputs, lowest, four))
        } else if four {
            let half = |number: i8| (i16::from(number) - i16::from(lowest)) as u8;
            let pairs = wide.par_chunks(2 * PANEL);
            let bits = pairs.flat_map_iter(|pair| {
                let (low, high) = pair.split_at(PANEL);
                low.iter().zip(high).map(move |(low, high)| half(*low) | half(*high) << 4)
            });
            Numbers::Four { bits: bits.collect(), lowest }
        } else {
            Numbers::Eight(wide)
        };
        if minimums.iter().all(|minimum| *minimum == 0.0) {
            minimums = Vec::new();
        }
        Self { numbers, scales: RunValues::new(scales), minimums: RunValues::new(minimums), run, inputs, outputs }
    }

    /// Length of an input row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Length of an output row.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Size of numbers, scales and minimums, in bytes.
    pub fn bytes(&self) -> usize {
        let numbers = match &self.numbers {
            Numbers::Four { bits, .. } => bits.len(),
            Numbers::Eight(numbers) => numbers.len(),
            Numbers::Quads(quads) => quads.bytes(),
        };
        numbers + self.scales.bytes() + self.minimums.bytes()
    }

    /// The weights of one output as f32: `[inputs]`.
    pub fn output(&self, output: usize) -> Vec<f32> {
        let (panel, lane) = (output / PANEL, output % PANEL);
        let runs = panel * (self.inputs / self.run) * PANEL + lane;
        let (scales, minimums) = (self.scales.all(), self.minimums.all());
        let weight = |input: usize| {
            let number = match &self.numbers {
                Numbers::Four { bits, lowest } => {
                    let byte = bits[(panel * self.inputs / 2 + input / 2) * PANEL + lane];
                    f32::from(*lowest + (byte >> (4 * (input % 2)) & 15) as i8)
                }
                Numbers::Eight(numbers) => f32::from(numbers[(panel * self.inputs + input) * PANEL + lane]),
                Numbers::Quads(quads) => f32::from(quads.number(self.inputs, output, input)),
            };
            let at = runs + input / self.run * PANEL;
            let [minimum] = if minimums.is_empty() { [-0.0] } else { minimums.lanes(at) };
            scales.lanes::<1>(at)[0] * number + minimum
        };
        (0..self.inputs).map(weight).collect()
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

    /// Adds the result of [`BlockMatrix::forward`] to `out` `[rows, outputs]`.
    ///
    /// # Panics
    /// When `x` is not a whole number of rows, or `out` or `bias` has another length.
    pub fn add_to(&self, pool: &ThreadPool, x: &[f32], bias: Option<&[f32]>, out: &mut [f32]) {
        self.write(Rows { pool, x, bias, out: Destination::Added(out) });
    }

    fn write(&self, rows: Rows) {
        match &self.numbers {
            Numbers::Four { bits, lowest } => self.multiply(rows, FourBits { bits, lowest: *lowest }),
            Numbers::Eight(numbers) => self.multiply(rows, EightBits(numbers)),
            Numbers::Quads(quads) => self.multiply_rounded(rows, quads),
        }
    }

    fn multiply_rounded(&self, rows: Rows, quads: &Quads) {
        let prepare = |block: &mut RowBlock| block.round(self.inputs, self.run);
        let product = |_: &(), panel: usize, block: &RowBlock, sums: &mut [[f32; PANEL]; ROWS]| {
            let runs = self.inputs / self.run;
            let (scales, minimums) = (self.scales.panel(panel, runs), self.minimums.panel(panel, runs));
            let factors = RunFactors { scales, minimums, run: self.run };
            rounded::multiply(block.width, &block.rounded, quads, panel, factors, sums);
        };
        multiply_panels(rows, [self.inputs, self.outputs], prepare, |_| (), |_, _| {}, product);
    }

    fn multiply<N: NumberPanels>(&self, rows: Rows, numbers: N) {
        let (inputs, runs) = (self.inputs, self.inputs / self.run);
        let has_minimums = !self.minimums.all().is_empty();
        let prepare = |block: &mut RowBlock| {
            block.transpose(inputs);
            if has_minimums {
                block.run_sums(self.run);
            }
        };
        let wide = |blocks: usize| vec![0f32; if blocks >= WIDEN_FROM_BLOCKS { PANEL * inputs } else { 0 }];
        let load = |wide: &mut Vec<f32>, panel: usize| {
            if !wide.is_empty() {
                pulp::Arch::new().dispatch(Widen { numbers, panel, inputs, wide });
            }
        };
        let product = |wide: &Vec<f32>, panel: usize, block: &RowBlock, sums: &mut [[f32; PANEL]; ROWS]| {
            let factors = Factors {
                scales: self.scales.panel(panel, runs),
                minimums: self.minimums.panel(panel, runs),
                run_sums: &block.run_sums,
                run: self.run,
            };
            if wide.is_empty() {
                multiply_runs(block.width, &block.values, numbers, panel, &factors, sums);
            } else {
                multiply_runs(block.width, &block.values, WideNumbers(wide), 0, &factors, sums);
            }
        };
        multiply_panels(rows, [inputs, self.outputs], prepare, wide, load, product);
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::super::runs::MultiplyRuns;
    use super::super::widens_16_bits;
    use super::*;

    fn random(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_769) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as f32 / u32::MAX as f32 - 0.5
        };
        (0..count).map(|_| next()).collect()
    }

    struct Published {
        numbers: Vec<i8>,
        scales: Vec<f32>,
        minimums: Vec<f32>,
        inputs: usize,
        run: usize,
    }

    impl Published {
        fn new(
            [inputs, outputs]: [usize; 2],
            run: usize,
            lowest: i8,
            levels: usize,
            minimums: bool,
            has_halves: bool,
        ) -> Self {
            let half = |value: f32| f16::from_f32(value).to_f32();
            let factors = |values: Vec<f32>| if has_halves { values.into_iter().map(half).collect() } else { values };
            let numbers = random(inputs * outputs, 7).into_iter().map(|at| lowest + ((at + 0.5) * levels as f32) as i8);
            let runs = inputs / run * outputs;
            let zero_or = |values: Vec<f32>| if minimums { values } else { vec![0.0; runs] };
            Self {
                numbers: numbers.collect(),
                scales: factors(random(runs, 8)),
                minimums: zero_or(factors(random(runs, 9))),
                inputs,
                run,
            }
        }

        fn row(&self, output: usize) -> Vec<WeightRun<'_>> {
            let runs = self.inputs / self.run;
            let one = |at: usize| WeightRun {
                numbers: &self.numbers[output * self.inputs + at * self.run..][..self.run],
                scale: self.scales[output * runs + at],
                minimum: self.minimums[output * runs + at],
            };
            (0..runs).map(one).collect()
        }

        fn value(&self, output: usize, input: usize) -> f32 {
            let at = output * (self.inputs / self.run) + input / self.run;
            self.scales[at] * f32::from(self.numbers[output * self.inputs + input]) + self.minimums[at]
        }
    }

    /// Products equal those of the values in f64, and a row has the same bits in any company and on any processor.
    #[test]
    fn products_are_those_of_the_values() {
        let (inputs, outputs) = (96, 70);
        for (lowest, levels, run, minimums, has_halves) in [
            (-8, 16, 32, false, true),
            (0, 16, 32, true, true),
            (-128, 255, 32, false, false),
            (-128, 255, 32, false, true),
            (-32, 64, 16, true, false),
        ] {
            let published = Published::new([inputs, outputs], run, lowest, levels, minimums, has_halves);
            let matrix = BlockMatrix::new(
                [outputs, inputs],
                run,
                lowest,
                Precision::F32,
                |output| published.row(output),
                |run| *run,
            );
            let rounding = BlockMatrix::new(
                [outputs, inputs],
                run,
                lowest,
                Precision::Int8,
                |output| published.row(output),
                |run| *run,
            );
            let bytes = if levels == 16 { 96 * inputs / 2 } else { 96 * inputs };
            let of_factor = if has_halves && widens_16_bits() { 2 } else { 4 };
            let factors = 96 * inputs / run * of_factor * (1 + usize::from(minimums));
            assert_eq!(matrix.bytes(), bytes + factors, "{levels} levels");
            for output in [0, 31, 32, 69] {
                let values: Vec<f32> = (0..inputs).map(|input| published.value(output, input)).collect();
                assert_eq!(matrix.output(output), values);
                assert_eq!(rounding.output(output), values);
            }
            let x = random(40 * inputs, 3);
            let bias = random(outputs, 4);
            let all = crate::thread_pool::run(|pool| matrix.forward(pool, &x, Some(&bias)));
            for (row, x) in x.chunks_exact(inputs).enumerate() {
                let alone = matrix.forward(&ThreadPool::SINGLE_THREADED, x, Some(&bias));
                assert_eq!(alone, all[row * outputs..][..outputs], "row {row}");
                for output in 0..outputs {
                    let products = (0..inputs).map(|at| f64::from(x[at]) * f64::from(published.value(output, at)));
                    let exact = products.clone().sum::<f64>() + f64::from(bias[output]);
                    let size: f64 = products.map(f64::abs).sum();
                    let error = (f64::from(alone[output]) - exact).abs();
                    assert!(error < 2e-6 * size.max(1.0), "{levels} levels, row {row}, {output}: {error}");
                }
            }
            // Inputs of 8 bits are near those of 32, and a row has the same bits in any company.
            let near = crate::thread_pool::run(|pool| rounding.forward(pool, &x, Some(&bias)));
            let apart: f64 = near.iter().zip(&all).map(|(near, exact)| f64::from(near - exact).powi(2)).sum();
            let size: f64 = all.iter().map(|exact| f64::from(*exact).powi(2)).sum();
            assert!((apart / size).sqrt() < 0.01, "{levels} levels: {}", (apart / size).sqrt());
            assert_eq!(rounding.forward(&ThreadPool::SINGLE_THREADED, &x[..inputs], Some(&bias)), near[..outputs]);
            // The twin for any processor.
            let numbers: Vec<i8> = (0..inputs)
                .flat_map(|at| (0..PANEL).map(move |lane| (at, lane)))
                .map(|(at, lane)| published.numbers[lane * inputs + at])
                .collect();
            let (scales, minimums) = (matrix.scales.panel(0, inputs / run), matrix.minimums.panel(0, inputs / run));
            for width in [1, 2, 4, 8] {
                let mut block = RowBlock::new(&x[..width * inputs]);
                block.transpose(inputs);
                block.run_sums(run);
                let factors = Factors { scales, minimums, run_sums: &block.run_sums, run };
                let (mut one, mut two) = ([[0f32; PANEL]; ROWS], [[0f32; PANEL]; ROWS]);
                multiply_runs(width, &block.values, EightBits(&numbers), 0, &factors, &mut one);
                let twin = MultiplyRuns {
                    width,
                    x: &block.values,
                    numbers: EightBits(&numbers),
                    panel: 0,
                    factors: &factors,
                    sums: &mut two,
                };
                pulp::NullaryFnOnce::call(twin);
                assert_eq!(one, two, "{width} rows");
            }
        }
    }
}
