//! Products of [`BlockMatrix`](super::BlockMatrix) with inputs that are rounded to 8 bits, each run of a row with a scale of its own, so
//! that the sums of a run are those of integers. Four inputs meet four numbers of an output in one instruction where the processor has
//! AVX-512 VNNI or, on ARM, `dotprod`, in two where it has AVX2, and in four on other processors of ARM.
//!
//! On x86 one factor of that instruction is an unsigned byte: numbers are stored as what they are above the lowest, and the lowest times
//! the sum of a run's inputs is where its sum begins.

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

use rayon::prelude::*;

use super::factors::RunSlice;
use super::panel::{PANEL, ROWS};
use crate::vector_math::largest_magnitude;

/// Inputs that one instruction adds up.
const QUAD: usize = 4;

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Vnni,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "aarch64")]
    Dot,
}

impl Body {
    /// The fastest that the processor has.
    fn fastest() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::is_x86_feature_detected as has;
            if has!("avx512f") && has!("avx512bw") && has!("avx512vnni") {
                return Self::Vnni;
            }
            // Exact inputs are faster by AVX-512.
            if has!("avx2") && has!("fma") && !has!("avx512f") {
                return Self::Avx2;
            }
            Self::Portable
        }
        #[cfg(target_arch = "aarch64")]
        {
            if std::arch::is_aarch64_feature_detected!("dotprod") { Self::Dot } else { Self::Neon }
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        Self::Portable
    }
}

/// True if the processor is faster with rounded inputs.
pub(super) fn is_fast() -> bool {
    Body::fastest() != Body::Portable
}

/// The numbers of a matrix in panels of 32 outputs.
#[derive(Clone, Debug)]
pub(super) struct Quads {
    /// The numbers less the lowest: a byte each, `[panels, quads, 32, 4]`, or 4 bits each, `[panels, quads / 2, 32, 4]`, where
    /// the low halves are the even quad.
    bits: Vec<u8>,
    lowest: i8,
    has_halves: bool,
}

impl Quads {
    /// Packs numbers `[panels, inputs, 32]`; with `has_halves` all lie within 16 from `lowest` on. `inputs` is a multiple of 8.
    pub fn new(numbers: &[i8], inputs: usize, lowest: i8, has_halves: bool) -> Self {
        let above = |number: i8| (i16::from(number) - i16::from(lowest)) as u8;
        let quads = numbers.par_chunks(inputs * PANEL).flat_map_iter(|panel| {
            panel.chunks_exact(QUAD * PANEL).flat_map(move |quad| {
                (0..PANEL).flat_map(move |lane| (0..QUAD).map(move |input| above(quad[input * PANEL + lane])))
            })
        });
        let mut bits: Vec<u8> = quads.collect();
        if has_halves {
            let pairs = bits.par_chunks(2 * QUAD * PANEL).flat_map_iter(|pair| {
                let (even, odd) = pair.split_at(QUAD * PANEL);
                even.iter().zip(odd).map(|(even, odd)| even | odd << 4)
            });
            bits = pairs.collect();
        }
        Self { bits, lowest, has_halves }
    }

    /// Bytes of the numbers.
    pub fn bytes(&self) -> usize {
        self.bits.len()
    }

    /// One number.
    pub fn number(&self, inputs: usize, output: usize, input: usize) -> i8 {
        let (panel, lane, quad) = (output / PANEL, output % PANEL, input / QUAD);
        let place = |quads: usize, quad: usize| ((panel * quads + quad) * PANEL + lane) * QUAD + input % QUAD;
        let above = match self.has_halves {
            true => self.bits[place(inputs / QUAD / 2, quad / 2)] >> (4 * (quad % 2)) & 15,
            false => self.bits[place(inputs / QUAD, quad)],
        };
        (i16::from(self.lowest) + i16::from(above)) as i8
    }

    fn panel(&self, panel: usize, inputs: usize) -> &[u8] {
        let bytes = inputs * PANEL / if self.has_halves { 2 } else { 1 };
        &self.bits[panel * bytes..][..bytes]
    }
}

/// Up to eight rows, rounded.
#[derive(Debug, Default)]
pub(super) struct RoundedRows {
    /// `[quads, width, 4]`
    numbers: Vec<i8>,
    /// `[runs, width]`: the value of 1.
    scales: Vec<f32>,
    /// `[runs, width]`: the sum of the numbers.
    sums: Vec<i32>,
}

impl RoundedRows {
    /// Rounds `x` `[rows, inputs]` by runs of `run` inputs, for `width` rows; those beyond the last are zero.
    pub fn new(x: &[f32], inputs: usize, width: usize, run: usize) -> Self {
        let runs = inputs / run;
        let mut rounded =
            Self { numbers: vec![0; inputs * width], scales: vec![0.0; runs * width], sums: vec![0; runs * width] };
        let mut numbers = vec![0i8; inputs];
        for (row, x) in x.chunks_exact(inputs).enumerate() {
            let scales = rounded.scales.iter_mut().skip(row).step_by(width);
            let sums = rounded.sums.iter_mut().skip(row).step_by(width);
            for ((x, numbers), (scale, sum)) in
                x.chunks_exact(run).zip(numbers.chunks_exact_mut(run)).zip(scales.zip(sums))
            {
                (*scale, *sum) = pulp::Arch::new().dispatch(RoundRun { x, numbers });
            }
            let (to, _) = rounded.numbers.as_chunks_mut::<QUAD>();
            let (from, _) = numbers.as_chunks::<QUAD>();
            to.iter_mut().skip(row).step_by(width).zip(from).for_each(|(to, from)| *to = *from);
        }
        rounded
    }
}

/// Rounds a run; returns its scale and the sum of its numbers.
struct RoundRun<'a> {
    x: &'a [f32],
    numbers: &'a mut [i8],
}

impl pulp::NullaryFnOnce for RoundRun<'_> {
    type Output = (f32, i32);

    #[inline(always)]
    fn call(self) -> (f32, i32) {
        // Adding 1.5 * 2^23 rounds to an integer, whose lowest byte is then the number's.
        const ROUND: f32 = 12_582_912.0;
        let max = largest_magnitude(self.x);
        let inverse = if max > 0.0 { 127.0 / max } else { 0.0 };
        let mut sum = 0;
        for (number, x) in self.numbers.iter_mut().zip(self.x) {
            *number = x.mul_add(inverse, ROUND).to_bits() as i8;
            sum += i32::from(*number);
        }
        (max / 127.0, sum)
    }
}

/// Factors that turn the integer sums of a panel into products.
#[derive(Clone, Copy)]
pub(super) struct RunFactors<'a> {
    /// The value of 1 above that of 0.
    pub scales: RunSlice<'a>,
    /// The value of 0; empty where all are zero.
    pub minimums: RunSlice<'a>,
    /// Inputs of a run.
    pub run: usize,
}

/// Calls a body for a number of rows, and for 4 or 8 bits.
macro_rules! by_width {
    ($module:ident::$body:ident, $width:expr, $quads:expr, $task:expr, $sums:expr) => {
        match ($width, $quads.has_halves) {
            (1, true) => $module::$body::<1, true>($task, $sums),
            (2, true) => $module::$body::<2, true>($task, $sums),
            (4, true) => $module::$body::<4, true>($task, $sums),
            (_, true) => $module::$body::<8, true>($task, $sums),
            (1, false) => $module::$body::<1, false>($task, $sums),
            (2, false) => $module::$body::<2, false>($task, $sums),
            (4, false) => $module::$body::<4, false>($task, $sums),
            (_, false) => $module::$body::<8, false>($task, $sums),
        }
    };
}

/// Multiplies rows with one panel into the first `width` rows of `sums`; `width` is 1, 2, 4 or 8.
pub(super) fn multiply(
    width: usize,
    rows: &RoundedRows,
    quads: &Quads,
    panel: usize,
    factors: RunFactors,
    sums: &mut [[f32; PANEL]; ROWS],
) {
    multiply_by(width, rows, quads, panel, factors, sums, Body::fastest());
}

fn multiply_by(
    width: usize,
    rows: &RoundedRows,
    quads: &Quads,
    panel: usize,
    factors: RunFactors,
    sums: &mut [[f32; PANEL]; ROWS],
    body: Body,
) {
    let (inputs, run) = (rows.numbers.len() / width, factors.run);
    let (bits, runs) = (quads.panel(panel, inputs), inputs / run);
    assert!(
        rows.numbers.len() == inputs * width
            && inputs == runs * run
            && run.is_multiple_of(2 * QUAD)
            && rows.scales.len() == runs * width
            && rows.sums.len() == runs * width
            && factors.scales.len() == runs * PANEL
            && (factors.minimums.is_empty() || factors.minimums.len() == runs * PANEL),
        "block matrix: inputs of a panel"
    );
    let task = Task { rows, bits, lowest: i32::from(quads.lowest), factors };
    // Callers pass a body that the processor has, and the lengths are checked above.
    #[cfg(target_arch = "x86_64")]
    match body {
        // SAFETY: as above.
        Body::Vnni => return unsafe { by_width!(x86::multiply_vnni, width, quads, &task, sums) },
        // SAFETY: as above.
        Body::Avx2 => return unsafe { by_width!(x86::multiply_avx2, width, quads, &task, sums) },
        Body::Portable => {}
    }
    #[cfg(target_arch = "aarch64")]
    match body {
        // SAFETY: as above.
        Body::Dot => return unsafe { by_width!(neon::multiply_dot, width, quads, &task, sums) },
        // SAFETY: as above.
        Body::Neon => return unsafe { by_width!(neon::multiply_neon, width, quads, &task, sums) },
        Body::Portable => {}
    }
    let _ = body;
    pulp::Arch::new().dispatch(Multiply { width, task, has_halves: quads.has_halves, sums });
}

/// Rows and one panel.
#[derive(Clone, Copy)]
struct Task<'a> {
    rows: &'a RoundedRows,
    bits: &'a [u8],
    lowest: i32,
    factors: RunFactors<'a>,
}

/// [`multiply`] for any processor.
struct Multiply<'a, 'b> {
    width: usize,
    task: Task<'b>,
    has_halves: bool,
    sums: &'a mut [[f32; PANEL]; ROWS],
}

impl pulp::NullaryFnOnce for Multiply<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Task { rows, bits, lowest, factors } = self.task;
        let (width, run) = (self.width, factors.run);
        let (numbers, _) = rows.numbers.as_chunks::<QUAD>();
        let (bits, _) = bits.as_chunks::<QUAD>();
        for (row, totals) in self.sums.iter_mut().take(width).enumerate() {
            *totals = [0.0; PANEL];
            for at in 0..factors.scales.len() / PANEL {
                let place = at * width + row;
                let (of_row, sum) = (rows.scales[place], rows.sums[place]);
                let mut of_run = [lowest * sum; PANEL];
                for quad in at * run / QUAD..(at + 1) * run / QUAD {
                    let x = numbers[quad * width + row].map(i32::from);
                    let from = if self.has_halves { quad / 2 } else { quad } * PANEL;
                    for (sum, bits) in of_run.iter_mut().zip(&bits[from..from + PANEL]) {
                        for (x, bits) in x.iter().zip(bits) {
                            let above = match (self.has_halves, quad % 2) {
                                (true, 0) => bits & 15,
                                (true, _) => bits >> 4,
                                (false, _) => *bits,
                            };
                            *sum += x * i32::from(above);
                        }
                    }
                }
                let scales = factors.scales.lanes::<PANEL>(at * PANEL);
                for ((total, sum), scale) in totals.iter_mut().zip(&of_run).zip(&scales) {
                    *total = (*sum as f32).mul_add(scale * of_row, *total);
                }
                if !factors.minimums.is_empty() {
                    let minimums = factors.minimums.lanes::<PANEL>(at * PANEL);
                    let sum = of_row * sum as f32;
                    totals
                        .iter_mut()
                        .zip(&minimums)
                        .for_each(|(total, minimum)| *total = sum.mul_add(*minimum, *total));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::super::factors::RunValues;
    use super::*;

    fn draws(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| draw()).collect()
    }

    /// The bodies that the processor has.
    fn bodies() -> Vec<Body> {
        let mut bodies = vec![Body::Portable, Body::fastest()];
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
            bodies.push(Body::Avx2);
        }
        #[cfg(target_arch = "aarch64")]
        bodies.push(Body::Neon);
        bodies
    }

    /// All bodies equal the portable one, and a row alone, to the last bit; with inputs that are integers up to 127, which are not rounded,
    /// all are the exact products.
    #[test]
    fn all_bodies_are_equal_and_exact_for_integers() {
        let (inputs, panels) = (96, 2);
        for (lowest, levels, run, has_minimums, has_halves) in [
            (-8i8, 16, 32, false, true),
            (0, 16, 32, true, true),
            (-128, 256, 32, false, false),
            (-32, 64, 16, true, false),
            (-8, 16, 16, true, true),
        ] {
            let numbers: Vec<i8> = draws(panels * inputs * PANEL, 1)
                .into_iter()
                .map(|at| (f32::from(lowest) + (at * 0.5 + 0.5) * (levels as f32 - 0.01)).floor() as i8)
                .collect();
            let quads = Quads::new(&numbers, inputs, lowest, levels == 16);
            assert_eq!(quads.bytes(), panels * inputs * PANEL / if levels == 16 { 2 } else { 1 });
            let number =
                |output: usize, input: usize| numbers[(output / PANEL * inputs + input) * PANEL + output % PANEL];
            let half = |value: f32| if has_halves { f16::from_f32(value).to_f32() } else { value };
            let of_runs = |seed| draws(panels * inputs / run * PANEL, seed).into_iter().map(half).collect();
            let scales = RunValues::new(of_runs(2));
            let minimums = RunValues::new(if has_minimums { of_runs(3) } else { Vec::new() });
            for output in [0, 31, 32, 63] {
                (0..inputs).for_each(|input| assert_eq!(quads.number(inputs, output, input), number(output, input)));
            }
            for width in [1, 2, 4, 8] {
                let mut x: Vec<f32> = draws(width * inputs, 4).into_iter().map(|x| (x * 127.0).round()).collect();
                x.chunks_mut(run).for_each(|run| run[3] = -127.0);
                for panel in 0..panels {
                    let runs = inputs / run;
                    let (scales, minimums) = (scales.panel(panel, runs), minimums.panel(panel, runs));
                    let factors = RunFactors { scales, minimums, run };
                    let multiply = |x: &[f32], width: usize, body| {
                        let mut sums = [[0f32; PANEL]; ROWS];
                        let rows = RoundedRows::new(x, inputs, width, run);
                        multiply_by(width, &rows, &quads, panel, factors, &mut sums, body);
                        sums
                    };
                    let sums = multiply(&x, width, Body::Portable);
                    for body in bodies() {
                        assert_eq!(sums, multiply(&x, width, body), "{width} rows, {body:?}");
                    }
                    for (row, x) in x.chunks_exact(inputs).enumerate() {
                        for body in bodies() {
                            assert_eq!(sums[row], multiply(x, 1, body)[0], "row {row} of {width}, {body:?}");
                        }
                        for (lane, found) in sums[row].iter().enumerate() {
                            let value = |input: usize| {
                                let at = input / run * PANEL + lane;
                                let number = f64::from(number(panel * PANEL + lane, input));
                                let [minimum] = if minimums.is_empty() { [0.0] } else { minimums.lanes(at) };
                                f64::from(scales.lanes::<1>(at)[0]) * number + f64::from(minimum)
                            };
                            let terms = (0..inputs).map(|input| f64::from(x[input]) * value(input));
                            let (exact, size) = (terms.clone().sum::<f64>(), terms.map(f64::abs).sum::<f64>());
                            let error = (f64::from(*found) - exact).abs();
                            assert!(error < 1e-6 * size.max(1.0), "{levels} levels, row {row}, {lane}: {error}");
                        }
                    }
                }
            }
        }
    }

    /// Inputs of any size are rounded by less than half a step of their run's largest.
    #[test]
    fn rows_are_rounded_by_run() {
        let (inputs, run) = (64, 32);
        let mut x = draws(2 * inputs, 5);
        x[..run].iter_mut().for_each(|x| *x *= 1e-6);
        x[inputs..inputs + run].fill(0.0);
        let rounded = RoundedRows::new(&x, inputs, 2, run);
        for (row, x) in x.chunks_exact(inputs).enumerate() {
            for (input, x) in x.iter().enumerate() {
                let scale = rounded.scales[input / run * 2 + row];
                let number = rounded.numbers[(input / QUAD * 2 + row) * QUAD + input % QUAD];
                assert!((f32::from(number) * scale - x).abs() <= scale * 0.501, "row {row}, input {input}");
            }
        }
        assert_eq!((rounded.scales[1], rounded.sums[1]), (0.0, 0));
    }
}
