//! Products of a few rows with a large matrix, and attention of one query to many keys, on the CPU: what a decoder does that
//! writes a token at a time. Both read much and compute little, so weights and keys lie in the order in which they are read.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m512, _MM_HINT_T1, _mm_loadu_si128, _mm_prefetch, _mm256_loadu_si256, _mm512_castsi512_ps, _mm512_cvtepi8_epi32,
    _mm512_cvtepi32_ps, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_slli_epi32, _mm512_storeu_ps,
};

use half::{bf16, f16};
use rayon::prelude::*;

use crate::matmul::Target;
use crate::thread_pool::ThreadPool;

/// Outputs that are computed together: two of the widest vectors.
pub(crate) const PANEL: usize = 32;
/// Rows that are computed together: with a panel's outputs they fill the processor's registers.
pub(crate) const ROWS: usize = 8;
/// Weights a thread takes at a time, at least.
const LEAST: usize = 32 * 1024;

/// Blocks of rows from which on it pays to widen a panel of small weights before they are multiplied.
const WIDENED: usize = 3;

/// Bytes that are asked for before they are needed.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 4096;

/// How exactly weights are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits; 16 where that is all a checkpoint has, and the processor widens them as fast as it reads them.
    #[default]
    F32,
    /// 8 bits and a scale for each output: a quarter of what is read.
    Int8,
}

impl std::str::FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Self::F32),
            "int8" => Ok(Self::Int8),
            _ => Err(format!("{text:?} is no precision: full or int8")),
        }
    }
}

/// A matrix `[outputs, inputs]` in panels of outputs: `[panels, inputs, 32]`.
#[derive(Clone, Debug)]
pub struct PackedMatrix {
    weights: Weights,
    inputs: usize,
    outputs: usize,
}

#[derive(Clone, Debug)]
enum Weights {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    /// And what an output is multiplied by.
    Int8(Vec<i8>, Vec<f32>),
}

/// What a weight is in a product.
pub(crate) trait Weight: Copy + Sync {
    fn value(self) -> f32;

    /// Sixteen of them.
    ///
    /// # Safety
    /// They can be read, and the processor has AVX-512.
    #[cfg(target_arch = "x86_64")]
    unsafe fn sixteen(from: *const Self) -> __m512;
}

impl Weight for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn sixteen(from: *const Self) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_ps(from) }
    }
}

impl Weight for f16 {
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn sixteen(from: *const Self) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }
}

impl Weight for bf16 {
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn sixteen(from: *const Self) -> __m512 {
        // SAFETY: the caller's promise. It is the upper half of the 32 bits.
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())))) }
    }
}

impl Weight for i8 {
    #[inline(always)]
    fn value(self) -> f32 {
        f32::from(self)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn sixteen(from: *const Self) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) }
    }
}

impl PackedMatrix {
    /// Packs `values` `[outputs, inputs]`, the published layout of a linear layer.
    ///
    /// # Panics
    /// When there are not as many values as that.
    pub fn new(values: &[f32], inputs: usize, outputs: usize, precision: Precision) -> Self {
        assert_eq!(values.len(), inputs * outputs, "values of a matrix");
        let weights = match precision {
            Precision::F32 if in_halves(values, |value| f16::from_f32(value).to_f32()) => {
                Weights::F16(pack(values, inputs, |_, value| f16::from_f32(value)))
            }
            Precision::F32 if in_halves(values, |value| bf16::from_f32(value).to_f32()) => {
                Weights::Bf16(pack(values, inputs, |_, value| bf16::from_f32(value)))
            }
            Precision::F32 => Weights::F32(pack(values, inputs, |_, value| value)),
            Precision::Int8 => {
                let largest = |row: &[f32]| row.iter().fold(0f32, |most, value| most.max(value.abs()));
                let scales: Vec<f32> = values.chunks_exact(inputs).map(|row| largest(row) / 127.0).collect();
                let inverse: Vec<f32> =
                    scales.iter().map(|scale| if *scale > 0.0 { 1.0 / scale } else { 0.0 }).collect();
                Weights::Int8(
                    pack(values, inputs, |output, value: f32| (value * inverse[output]).round() as i8),
                    scales,
                )
            }
        };
        Self { weights, inputs, outputs }
    }

    /// Values of a row that goes in.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Values of a row that comes out.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Bytes of weights.
    pub fn bytes(&self) -> usize {
        match &self.weights {
            Weights::F32(weights) => 4 * weights.len(),
            Weights::F16(weights) => 2 * weights.len(),
            Weights::Bf16(weights) => 2 * weights.len(),
            Weights::Int8(weights, scales) => weights.len() + 4 * scales.len(),
        }
    }

    /// Weights of one output: `[inputs]`.
    pub fn output(&self, output: usize) -> Vec<f32> {
        let from = output / PANEL * PANEL * self.inputs + output % PANEL;
        let at = (0..self.inputs).map(|input| from + input * PANEL);
        match &self.weights {
            Weights::F32(weights) => at.map(|at| weights[at]).collect(),
            Weights::F16(weights) => at.map(|at| weights[at].value()).collect(),
            Weights::Bf16(weights) => at.map(|at| weights[at].value()).collect(),
            Weights::Int8(weights, scales) => at.map(|at| weights[at].value() * scales[output]).collect(),
        }
    }

    /// `x` `[rows, inputs]` to `[rows, outputs]`, with `bias` `[outputs]` added if there is one.
    ///
    /// # Panics
    /// When `x` is not whole rows, or the bias of another length.
    pub fn forward(&self, pool: &ThreadPool, x: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
        let mut out = vec![0f32; x.len() / self.inputs * self.outputs];
        self.add_to(pool, x, bias, &mut out);
        out
    }

    /// As [`PackedMatrix::forward`], added to `out` `[rows, outputs]`.
    ///
    /// # Panics
    /// When `x` or `out` is not as many whole rows, or the bias of another length.
    pub fn add_to(&self, pool: &ThreadPool, x: &[f32], bias: Option<&[f32]>, out: &mut [f32]) {
        assert!(
            x.len().is_multiple_of(self.inputs)
                && out.len() == x.len() / self.inputs * self.outputs
                && bias.is_none_or(|bias| bias.len() == self.outputs),
            "a product's rows"
        );
        match &self.weights {
            Weights::F32(weights) => self.multiply(pool, weights, None, x, bias, out),
            Weights::F16(weights) => self.multiply(pool, weights, None, x, bias, out),
            Weights::Bf16(weights) => self.multiply(pool, weights, None, x, bias, out),
            Weights::Int8(weights, scales) => self.multiply(pool, weights, Some(scales), x, bias, out),
        }
    }

    fn multiply<W: Weight>(
        &self,
        pool: &ThreadPool,
        weights: &[W],
        scales: Option<&[f32]>,
        x: &[f32],
        bias: Option<&[f32]>,
        out: &mut [f32],
    ) {
        let (inputs, outputs) = (self.inputs, self.outputs);
        let mut blocks: Vec<Block> = x.chunks(ROWS * inputs).map(Block::new).collect();
        pool.for_each_item(&mut blocks, |_, block| block.turn(inputs));
        let target = Target::new(out);
        let at_once = (LEAST / (PANEL * inputs)).max(1);
        let panels = outputs.div_ceil(PANEL);
        pool.for_each_index(panels.div_ceil(at_once), |chunk| {
            let end = panels.min((chunk + 1) * at_once) * PANEL * inputs;
            let weights = &weights[chunk * at_once * PANEL * inputs..end];
            // For many rows weights are widened once.
            let mut wide = vec![0f32; if blocks.len() >= WIDENED && size_of::<W>() < 4 { PANEL * inputs } else { 0 }];
            for (panel, weights) in weights.chunks_exact(PANEL * inputs).enumerate() {
                if !wide.is_empty() {
                    widen(weights, &mut wide);
                }
                let first = (chunk * at_once + panel) * PANEL;
                let taken = PANEL.min(outputs - first);
                for (number, block) in blocks.iter().enumerate() {
                    let mut sums = [[0f32; PANEL]; ROWS];
                    if wide.is_empty() {
                        multiply(block.width, &block.values, weights, &mut sums);
                    } else {
                        multiply(block.width, &block.values, &wide, &mut sums);
                    }
                    for (row, sums) in sums.iter_mut().take(block.taken).enumerate() {
                        if let Some(scales) = scales {
                            sums.iter_mut().zip(&scales[first..]).for_each(|(sum, scale)| *sum *= scale);
                        }
                        if let Some(bias) = bias {
                            sums.iter_mut().zip(&bias[first..]).for_each(|(sum, bias)| *sum += bias);
                        }
                        let to = target.at((number * ROWS + row) * outputs + first);
                        // SAFETY: `taken` outputs of this row from `first` on are in `out`, and this panel's alone.
                        let to = unsafe { std::slice::from_raw_parts_mut(to, taken) };
                        to.iter_mut().zip(sums).for_each(|(to, sum)| *to += *sum);
                    }
                }
            }
        });
    }
}

/// `[outputs, inputs]` to `[panels, inputs, 32]`; what fills the last panel up is nought.
fn pack<W: Default + Copy + Send>(values: &[f32], inputs: usize, change: impl Fn(usize, f32) -> W + Sync) -> Vec<W> {
    let outputs = values.len() / inputs;
    let mut packed = vec![W::default(); outputs.div_ceil(PANEL) * PANEL * inputs];
    packed.par_chunks_mut(PANEL * inputs).enumerate().for_each(|(panel, packed)| {
        let rows = values.chunks_exact(inputs).enumerate().skip(panel * PANEL).take(PANEL);
        for (lane, (output, row)) in rows.enumerate() {
            packed.iter_mut().skip(lane).step_by(PANEL).zip(row).for_each(|(to, value)| *to = change(output, *value));
        }
    });
    packed
}

/// Whether nothing is lost when values are kept in halves, and they are as fast: without these instructions they are not.
fn in_halves(values: &[f32], there_and_back: impl Fn(f32) -> f32 + Sync) -> bool {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx512f") {
        return values.par_iter().all(|value| there_and_back(*value).to_bits() == value.to_bits());
    }
    let _ = (values, there_and_back);
    false
}

/// Weights of a panel as they are multiplied.
fn widen<W: Weight>(weights: &[W], wide: &mut [f32]) {
    assert!(weights.len() == wide.len() && wide.len().is_multiple_of(PANEL), "a panel to widen");
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor can do it, and the lengths are as was just seen.
        return unsafe { widen_512(weights, wide) };
    }
    wide.iter_mut().zip(weights).for_each(|(wide, weight)| *wide = weight.value());
}

/// # Safety
/// The processor has AVX-512; there are as many of both, and sixteen go into it.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn widen_512<W: Weight>(weights: &[W], wide: &mut [f32]) {
    for at in (0..wide.len()).step_by(16) {
        // SAFETY: sixteen from here on are in both.
        unsafe { _mm512_storeu_ps(wide.as_mut_ptr().add(at), W::sixteen(weights.as_ptr().add(at))) };
    }
}

/// Up to eight rows, turned: `[inputs, 1, 2, 4 or 8]`.
struct Block<'a> {
    rows: &'a [f32],
    values: Vec<f32>,
    width: usize,
    taken: usize,
}

impl<'a> Block<'a> {
    fn new(rows: &'a [f32]) -> Self {
        Self { rows, values: Vec::new(), width: 0, taken: 0 }
    }

    fn turn(&mut self, inputs: usize) {
        self.taken = self.rows.len() / inputs;
        self.width = self.taken.next_power_of_two();
        if self.width == 1 {
            self.values = self.rows.to_vec();
            return;
        }
        self.values = vec![0f32; inputs * self.width];
        if let (8, 8) = (self.taken, self.width) {
            let (to, _) = self.values.as_chunks_mut::<ROWS>();
            for (input, to) in to.iter_mut().enumerate() {
                for (row, to) in to.iter_mut().enumerate() {
                    *to = self.rows[row * inputs + input];
                }
            }
            return;
        }
        for (row, x) in self.rows.chunks_exact(inputs).enumerate() {
            self.values.iter_mut().skip(row).step_by(self.width).zip(x).for_each(|(to, x)| *to = *x);
        }
    }
}

/// `sums` of the first `width` rows, 1, 2, 4 or 8, become `x` `[inputs, width]` times `weights` `[inputs, 32]`.
pub(crate) fn multiply<W: Weight>(width: usize, x: &[f32], weights: &[W], sums: &mut [[f32; PANEL]; ROWS]) {
    assert_eq!(x.len() * PANEL, weights.len() * width, "a panel's inputs");
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx512f") {
        let inputs = weights.len() / PANEL;
        // SAFETY: the processor can do it, and both sources are as long as was just seen.
        unsafe {
            match width {
                1 => panel_512::<1, W>(x, weights, inputs, sums),
                2 => panel_512::<2, W>(x, weights, inputs, sums),
                4 => panel_512::<4, W>(x, weights, inputs, sums),
                _ => panel_512::<8, W>(x, weights, inputs, sums),
            }
        }
        return;
    }
    pulp::Arch::new().dispatch(Multiply { width, x, weights, sums });
}

/// The same in AVX-512; the sums stay in registers. They are added up in the same order for any number of rows, so that a row
/// comes out the same to the last bit whatever is beside it.
///
/// # Safety
/// The processor has AVX-512; `x` has `inputs * R` values, `weights` `inputs * 32`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn panel_512<const R: usize, W: Weight>(
    x: &[f32],
    weights: &[W],
    inputs: usize,
    sums: &mut [[f32; PANEL]; ROWS],
) {
    let mut rows = [[_mm512_setzero_ps(); 2]; R];
    let (mut x, mut weights) = (x.as_ptr(), weights.as_ptr());
    for _ in 0..inputs {
        // Past the end of a page the processor does not look ahead by itself. An address that is none does no harm.
        for line in 0..(PANEL * size_of::<W>()).div_ceil(64) {
            _mm_prefetch::<_MM_HINT_T1>(weights.cast::<i8>().wrapping_add(AHEAD + 64 * line));
        }
        // SAFETY: there are `inputs` of both.
        let (one, two) = unsafe { (W::sixteen(weights), W::sixteen(weights.add(16))) };
        for (row, sums) in rows.iter_mut().enumerate() {
            // SAFETY: likewise.
            let x = _mm512_set1_ps(unsafe { *x.add(row) });
            sums[0] = _mm512_fmadd_ps(x, one, sums[0]);
            sums[1] = _mm512_fmadd_ps(x, two, sums[1]);
        }
        // SAFETY: at most one past the end.
        (x, weights) = unsafe { (x.add(R), weights.add(PANEL)) };
    }
    for (row, sums) in rows.iter().zip(sums) {
        // SAFETY: a row of sums has 32 values.
        unsafe {
            _mm512_storeu_ps(sums.as_mut_ptr(), row[0]);
            _mm512_storeu_ps(sums.as_mut_ptr().add(16), row[1]);
        }
    }
}

/// The same for any processor.
struct Multiply<'a, W> {
    width: usize,
    x: &'a [f32],
    weights: &'a [W],
    sums: &'a mut [[f32; PANEL]; ROWS],
}

impl<W: Weight> pulp::NullaryFnOnce for Multiply<'_, W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        match self.width {
            1 => panel::<1, W>(self.x, self.weights, self.sums),
            2 => panel::<2, W>(self.x, self.weights, self.sums),
            4 => panel::<4, W>(self.x, self.weights, self.sums),
            _ => panel::<8, W>(self.x, self.weights, self.sums),
        }
    }
}

/// `x` `[inputs, R]` times `weights` `[inputs, 32]`.
#[inline(always)]
fn panel<const R: usize, W: Weight>(x: &[f32], weights: &[W], sums: &mut [[f32; PANEL]; ROWS]) {
    let mut rows = [[0f32; PANEL]; R];
    let (x, _) = x.as_chunks::<R>();
    let (weights, _) = weights.as_chunks::<PANEL>();
    for (x, weights) in x.iter().zip(weights) {
        let mut wide = [0f32; PANEL];
        for (wide, weight) in wide.iter_mut().zip(weights) {
            *wide = weight.value();
        }
        for (row, x) in rows.iter_mut().zip(x) {
            for (sum, weight) in row.iter_mut().zip(&wide) {
                *sum = x.mul_add(*weight, *sum);
            }
        }
    }
    sums[..R].copy_from_slice(&rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Weights that fit into halves give what they give in full, to the last bit, for few rows and for many.
    #[test]
    fn halves_lose_nothing() {
        let (inputs, outputs) = (37, 70);
        let value = |at: usize| ((at * 7919 % 2003) as f32 / 2003.0 - 0.5) * 0.3;
        let in_f16: Vec<f32> = (0..inputs * outputs).map(|at| f16::from_f32(value(at)).to_f32()).collect();
        let in_bf16: Vec<f32> = (0..inputs * outputs).map(|at| bf16::from_f32(1e9 * value(at)).to_f32()).collect();
        for weights in [in_f16, in_bf16] {
            let kept = PackedMatrix::new(&weights, inputs, outputs, Precision::F32);
            let full =
                PackedMatrix { weights: Weights::F32(pack(&weights, inputs, |_, value| value)), inputs, outputs };
            assert!(kept.bytes() == full.bytes() / 2 || !in_halves(&[1.0], |value| value), "halves are used");
            for rows in [1, 8, 100] {
                let x: Vec<f32> = (0..rows * inputs).map(|at| value(at + 13)).collect();
                let forward = |matrix: &PackedMatrix| crate::thread_pool::run(|pool| matrix.forward(pool, &x, None));
                assert_eq!(forward(&kept), forward(&full), "{rows} rows");
            }
            assert_eq!(kept.output(69), weights[69 * inputs..]);
        }
    }

    /// The widest vectors against what the compiler makes for any processor, to the last bit.
    #[test]
    fn all_bodies_of_a_panel_give_the_same() {
        let mut state = 1u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        for width in [1, 2, 4, 8] {
            for inputs in [1, 2, 3, 4, 5, 63, 64, 385] {
                let x: Vec<f32> = (0..inputs * width).map(|_| draw()).collect();
                let weights: Vec<f32> = (0..inputs * PANEL).map(|_| draw()).collect();
                let small: Vec<i8> = weights.iter().map(|weight| (weight * 127.0) as i8).collect();
                let (mut one, mut two) = ([[0f32; PANEL]; ROWS], [[0f32; PANEL]; ROWS]);
                multiply(width, &x, &weights, &mut one);
                pulp::NullaryFnOnce::call(Multiply { width, x: &x, weights: &weights, sums: &mut two });
                assert_eq!(one, two, "{width} {inputs}");
                multiply(width, &x, &small, &mut one);
                pulp::NullaryFnOnce::call(Multiply { width, x: &x, weights: &small, sums: &mut two });
                assert_eq!(one, two, "{width} {inputs}, small");
                let halves: Vec<f16> = weights.iter().map(|weight| f16::from_f32(*weight)).collect();
                multiply(width, &x, &halves, &mut one);
                pulp::NullaryFnOnce::call(Multiply { width, x: &x, weights: &halves, sums: &mut two });
                assert_eq!(one, two, "{width} {inputs}, f16");
                let halves: Vec<bf16> = weights.iter().map(|weight| bf16::from_f32(*weight)).collect();
                multiply(width, &x, &halves, &mut one);
                pulp::NullaryFnOnce::call(Multiply { width, x: &x, weights: &halves, sums: &mut two });
                assert_eq!(one, two, "{width} {inputs}, bf16");
            }
        }
    }
}
