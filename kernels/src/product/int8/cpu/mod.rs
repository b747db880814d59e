//! Products of many rows with an 8-bit matrix on the CPU, as in an encoder: the rows are rounded to 8 bits too, with one scale for each
//! row, so that the sums are those of integers and exact. [`gemv`](crate::product::gemv) serves few rows, which stay in f32.
//!
//! Four neighbouring inputs of a row meet four weights of an output in one instruction where the processor has AVX-512 VNNI or, on
//! ARM, `dotprod`. Its factors are an unsigned and a signed byte on x86, so a row's numbers are stored plus 128, and 128 times the sum of
//! an output's weights is taken off its sums.

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::mem::MaybeUninit;

use rayon::prelude::*;

use crate::product::gemv::int8_scale;
use crate::product::slices::{Destination, SharedOutput};
use crate::thread_pool::ThreadPool;
use crate::vector_math::largest_magnitude;

/// Outputs of a panel: two of the widest vectors.
pub(crate) const PANEL: usize = 32;
/// Rows of a tile: the sums of a tile over a panel fill the registers of the processor.
pub(crate) const ROWS: usize = 12;
/// Inputs that one instruction adds up.
pub(crate) const QUAD: usize = 4;
/// Added to the numbers of rows.
pub(crate) const OFFSET: i32 = 128;
/// Tiles and bytes of weights of a task: they stay in a core's caches.
const TASK_TILES: usize = 4;
const TASK_WEIGHTS: usize = 128 * 1024;

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Vnni,
    /// Signed bytes by signed ones.
    #[cfg(target_arch = "aarch64")]
    Sdot,
    /// Signed bytes by unsigned ones.
    #[cfg(target_arch = "aarch64")]
    Sudot,
}

impl Body {
    /// All that the processor has, the fastest last.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let special = {
            use std::is_x86_feature_detected as has;
            [(has!("avx512f") && has!("avx512vnni")).then_some(Self::Vnni)]
        };
        #[cfg(target_arch = "aarch64")]
        let special = {
            use std::arch::is_aarch64_feature_detected as has;
            [has!("dotprod").then_some(Self::Sdot), has!("i8mm").then_some(Self::Sudot)]
        };
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let special = [];
        [Self::Portable].into_iter().chain(special.into_iter().flatten())
    }

    pub(crate) fn fastest() -> Self {
        Self::all().last().unwrap_or(Self::Portable)
    }
}

/// A matrix `[outputs, inputs]` of 8-bit weights with a scale for each output.
#[derive(Clone, Debug)]
pub struct Int8Matrix {
    /// `[panels, quads, 32, 4]`; the last panel and the last quad are padded with 0.
    weights: Vec<i8>,
    /// `[panels, 32]`: what [`OFFSET`] adds to the sums.
    excess: Vec<i32>,
    /// `[panels, 32]`
    scales: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

/// Rows `[rows, inputs]`, rounded to 8 bits with a scale for each.
#[derive(Clone, Debug)]
pub struct Int8Rows {
    /// `[tiles, quads, 12, 4]`; what is missing in the last tile and quad is zero.
    numbers: Vec<u8>,
    scales: Vec<f32>,
    inputs: usize,
}

impl Int8Rows {
    /// Rounds `x` `[rows, inputs]`.
    ///
    /// # Panics
    /// When `x` is not a whole number of rows.
    pub fn new(pool: &ThreadPool, x: &[f32], inputs: usize) -> Self {
        assert!(x.len().is_multiple_of(inputs), "8-bit rows: length of x");
        let (rows, quads) = (x.len() / inputs, inputs.div_ceil(QUAD));
        let tile = quads * ROWS * QUAD;
        let mut numbers = Vec::with_capacity(rows.div_ceil(ROWS) * tile);
        let mut scales = vec![0f32; rows];
        let spare = numbers.spare_capacity_mut().chunks_exact_mut(tile);
        let mut tiles: Vec<_> = x.chunks(ROWS * inputs).zip(spare).zip(scales.chunks_mut(ROWS)).collect();
        pool.for_each_item(&mut tiles, |_, ((x, spare), scales)| {
            spare.fill(MaybeUninit::new(OFFSET as u8));
            // SAFETY: all `tile` numbers are written just above.
            let numbers = unsafe { std::slice::from_raw_parts_mut(spare.as_mut_ptr().cast::<u8>(), tile) };
            let mut row_numbers = vec![OFFSET as u8; quads * QUAD];
            for (row, (x, scale)) in x.chunks_exact(inputs).zip(scales.iter_mut()).enumerate() {
                *scale = pulp::Arch::new().dispatch(Round { x, numbers: &mut row_numbers });
                spread_quads(&row_numbers, row, numbers);
            }
        });
        // SAFETY: there are as many tiles as the capacity was asked for, and each is written above.
        unsafe { numbers.set_len(rows.div_ceil(ROWS) * tile) };
        Self { numbers, scales, inputs }
    }
}

/// Stores a row's numbers in a tile `[quads, 12, 4]`.
pub(crate) fn spread_quads(numbers: &[u8], row: usize, tile: &mut [u8]) {
    let (from, _) = numbers.as_chunks::<QUAD>();
    let (to, _) = tile.as_chunks_mut::<QUAD>();
    to.iter_mut().skip(row).step_by(ROWS).zip(from).for_each(|(to, from)| *to = *from);
}

/// Rounds a row to 8 bits and returns its scale.
pub(crate) struct Round<'a> {
    pub x: &'a [f32],
    pub numbers: &'a mut [u8],
}

impl pulp::NullaryFnOnce for Round<'_> {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        // Adding 1.5 * 2^23 rounds to an integer, whose lowest byte is then the number's.
        const ROUND: f32 = 12_582_912.0;
        let max = largest_magnitude(self.x);
        let inverse = if max > 0.0 { 127.0 / max } else { 0.0 };
        for (number, x) in self.numbers.iter_mut().zip(self.x) {
            *number = (x.mul_add(inverse, ROUND).to_bits() as u8).wrapping_add(OFFSET as u8);
        }
        max / 127.0
    }
}

impl Int8Matrix {
    /// Rounds `values` `[outputs, inputs]`, the published layout of a linear layer.
    ///
    /// # Panics
    /// When `values` has another length.
    pub fn new(values: &[f32], inputs: usize, outputs: usize) -> Self {
        assert_eq!(values.len(), inputs * outputs, "8-bit matrix: number of values");
        let (panels, quads) = (outputs.div_ceil(PANEL), inputs.div_ceil(QUAD));
        let mut weights = vec![0i8; panels * PANEL * quads * QUAD];
        let (mut excess, mut scales) = (vec![0i32; panels * PANEL], vec![0f32; panels * PANEL]);
        weights
            .par_chunks_mut(PANEL * quads * QUAD)
            .zip(excess.par_chunks_mut(PANEL).zip(scales.par_chunks_mut(PANEL)))
            .zip(values.par_chunks(PANEL * inputs))
            .for_each(|((weights, (excess, scales)), values)| {
                for (lane, values) in values.chunks_exact(inputs).enumerate() {
                    let (scale, inverse) = int8_scale(values);
                    scales[lane] = scale;
                    for (quad, values) in values.chunks(QUAD).enumerate() {
                        for (to, value) in weights[(quad * PANEL + lane) * QUAD..].iter_mut().zip(values) {
                            *to = (value * inverse).round() as i8;
                            excess[lane] += OFFSET * i32::from(*to);
                        }
                    }
                }
            });
        Self { weights, excess, scales, inputs, outputs }
    }

    /// Returns true if the processor multiplies bytes faster than it multiplies f32.
    pub fn is_fast() -> bool {
        Body::fastest() != Body::Portable
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
        self.weights.len() + 4 * (self.scales.len() + self.excess.len())
    }

    /// Multiplies `x` to `[rows, outputs]` and adds `bias` `[outputs]`.
    ///
    /// # Panics
    /// When the rows or `bias` have another length.
    pub fn forward(&self, pool: &ThreadPool, x: &Int8Rows, bias: Option<&[f32]>) -> Vec<f32> {
        let mut out = Vec::new();
        self.multiply(pool, x, bias, Destination::New(&mut out), Body::fastest());
        out
    }

    /// Adds the result of [`Int8Matrix::forward`] to `out` `[rows, outputs]`.
    ///
    /// # Panics
    /// When the rows, `out` or `bias` have another length.
    pub fn add_to(&self, pool: &ThreadPool, x: &Int8Rows, bias: Option<&[f32]>, out: &mut [f32]) {
        self.multiply(pool, x, bias, Destination::Added(out), Body::fastest());
    }

    fn multiply(&self, pool: &ThreadPool, x: &Int8Rows, bias: Option<&[f32]>, out: Destination, body: Body) {
        let (rows, outputs) = (x.scales.len(), self.outputs);
        assert!(
            x.inputs == self.inputs && bias.is_none_or(|bias| bias.len() == outputs),
            "8-bit matrix: lengths of rows and bias"
        );
        // SAFETY: the tasks go through all tiles of rows and all panels of outputs.
        unsafe { out.fill(rows * outputs, |output| self.add_products(pool, x, bias, output, body)) };
    }

    fn add_products(&self, pool: &ThreadPool, x: &Int8Rows, bias: Option<&[f32]>, output: SharedOutput, body: Body) {
        let (rows, outputs, quads) = (x.scales.len(), self.outputs, self.inputs.div_ceil(QUAD));
        let (tiles, panels) = (rows.div_ceil(ROWS), outputs.div_ceil(PANEL));
        let task_panels = (TASK_WEIGHTS / (PANEL * quads * QUAD)).max(1);
        let across = panels.div_ceil(task_panels);
        pool.for_each_index(tiles.div_ceil(TASK_TILES) * across, |task| {
            let (down, across) = (task / across, task % across);
            for panel in across * task_panels..panels.min((across + 1) * task_panels) {
                let weights = &self.weights[panel * PANEL * quads * QUAD..][..PANEL * quads * QUAD];
                let lanes = panel * PANEL..(panel + 1) * PANEL;
                let count = PANEL.min(outputs - lanes.start);
                let bias = bias.map(|bias| &bias[lanes.start..lanes.start + count]);
                for tile in down * TASK_TILES..tiles.min((down + 1) * TASK_TILES) {
                    let numbers = &x.numbers[tile * ROWS * quads * QUAD..][..ROWS * quads * QUAD];
                    let mut sums = [[0i32; PANEL]; ROWS];
                    multiply(numbers, weights, &mut sums, body);
                    let scales = x.scales[tile * ROWS..].iter().take(ROWS);
                    for (row, (sums, scale)) in sums.iter().zip(scales).enumerate() {
                        // SAFETY: `count` outputs of this row from this panel's first on lie within the result of `rows * outputs`, and only
                        // this task asks for them, once.
                        let out = unsafe { output.sums((tile * ROWS + row) * outputs + lanes.start, count) };
                        let (excess, scales) = (&self.excess[lanes.clone()], &self.scales[lanes.clone()]);
                        pulp::Arch::new().dispatch(Scale { sums, excess, scales, scale: *scale, bias, out });
                    }
                }
            }
        });
    }
}

/// Adds the products that integer sums stand for to `out`.
struct Scale<'a> {
    sums: &'a [i32; PANEL],
    excess: &'a [i32],
    scales: &'a [f32],
    scale: f32,
    bias: Option<&'a [f32]>,
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Scale<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let products = self.sums.iter().zip(self.excess).zip(self.scales);
        let products = products.map(|((sum, excess), scale)| (sum - excess) as f32 * (scale * self.scale));
        match self.bias {
            Some(bias) => {
                self.out.iter_mut().zip(products.zip(bias)).for_each(|(out, (product, bias))| *out += product + bias);
            }
            None => self.out.iter_mut().zip(products).for_each(|(out, product)| *out += product),
        }
    }
}

/// Multiplies a tile of rows `[quads, 12, 4]` with a panel of weights `[quads, 32, 4]`.
pub(crate) fn multiply(numbers: &[u8], weights: &[i8], sums: &mut [[i32; PANEL]; ROWS], body: Body) {
    assert!(
        numbers.len() * PANEL == weights.len() * ROWS && weights.len().is_multiple_of(PANEL * QUAD),
        "8-bit matrix: length of a panel"
    );
    match body {
        Body::Portable => pulp::Arch::new().dispatch(Multiply { numbers, weights, sums }),
        // SAFETY: callers pass a body that the processor has; the lengths are checked above.
        #[cfg(target_arch = "x86_64")]
        Body::Vnni => unsafe { x86::multiply_vnni(numbers, weights, sums) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Body::Sdot => unsafe { neon::multiply_sdot(numbers, weights, sums) },
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        Body::Sudot => unsafe { neon::multiply_sudot(numbers, weights, sums) },
    }
}

/// [`multiply`] for any processor.
struct Multiply<'a> {
    numbers: &'a [u8],
    weights: &'a [i8],
    sums: &'a mut [[i32; PANEL]; ROWS],
}

impl pulp::NullaryFnOnce for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let (weights, _) = self.weights.as_chunks::<QUAD>();
        let (quads, _) = self.numbers.as_chunks::<QUAD>();
        for (quads, weights) in quads.chunks_exact(ROWS).zip(weights.chunks_exact(PANEL)) {
            for (quad, sums) in quads.iter().zip(self.sums.iter_mut()) {
                let quad = quad.map(i32::from);
                for (sum, weights) in sums.iter_mut().zip(weights) {
                    for (number, weight) in quad.iter().zip(weights) {
                        *sum += number * i32::from(*weight);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(count: usize) -> Vec<f32> {
        let mut state = 1u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| draw()).collect()
    }

    /// All bodies equal the portable one, to the last bit, and are near the product in f64 of the unrounded numbers.
    #[test]
    fn all_bodies_are_equal_and_near_the_exact_product() {
        let pool = &ThreadPool::SINGLE_THREADED;
        for [rows, inputs, outputs] in
            [[1, 1, 1], [12, 4, 32], [13, 5, 33], [50, 80, 70], [97, 514, 257], [3, 2048, 40]]
        {
            let (x, weights) = (draws(rows * inputs), draws(inputs * outputs));
            let bias = draws(outputs);
            let matrix = Int8Matrix::new(&weights, inputs, outputs);
            let rounded = Int8Rows::new(pool, &x, inputs);
            let run = |body| {
                let mut out = vec![1f32; rows * outputs];
                matrix.multiply(pool, &rounded, Some(&bias), Destination::Added(&mut out), body);
                out
            };
            let out = run(Body::Portable);
            for body in Body::all() {
                assert_eq!(out, run(body), "{rows} {inputs} {outputs} {body:?}");
            }
            let (mut apart, mut whole) = (0f64, 0f64);
            for (x, out) in x.chunks_exact(inputs).zip(out.chunks_exact(outputs)) {
                for ((weights, out), bias) in weights.chunks_exact(inputs).zip(out).zip(&bias) {
                    let exact: f64 = x.iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                    apart += (f64::from(out - bias - 1.0) - exact).powi(2);
                    whole += exact.powi(2);
                }
            }
            assert!((apart / whole).sqrt() < 0.01, "{rows} {inputs} {outputs}: {}", (apart / whole).sqrt());
        }
    }

    /// Full-scale numbers do not overflow, and rows of zeros are zero.
    #[test]
    fn extremes_are_exact() {
        let pool = &ThreadPool::SINGLE_THREADED;
        let inputs = 5120;
        for sign in [1.0, -1.0] {
            let matrix = Int8Matrix::new(&vec![3.0; inputs * 33], inputs, 33);
            let rows = Int8Rows::new(pool, &[vec![2.0 * sign; inputs], vec![0.0; inputs]].concat(), inputs);
            let out = matrix.forward(pool, &rows, None);
            let exact = 6.0 * sign * inputs as f32;
            assert!(out[..33].iter().all(|out| (out / exact - 1.0).abs() < 1e-5), "{:?}", &out[..2]);
            assert!(out[33..].iter().all(|out| *out == 0.0));
        }
    }
}
