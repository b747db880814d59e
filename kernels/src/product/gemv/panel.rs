//! The inner product of [`PackedMatrix`](super::PackedMatrix): up to eight rows times one panel of 32 outputs, in AVX-512 where the
//! processor has it, and in NEON on ARM.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::{
    float32x4_t, vcvtq_f32_s32, vdupq_n_f32, vfmaq_n_f32, vget_low_s16, vget_low_u16, vld1_s8, vld1q_f32, vld1q_u16,
    vmovl_high_s16, vmovl_s8, vmovl_s16, vreinterpretq_f32_u32, vshll_high_n_u16, vshll_n_u16, vst1q_f32,
};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m512, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm256_loadu_si256, _mm512_castsi512_ps, _mm512_cvtepi8_epi32,
    _mm512_cvtepi32_ps, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_slli_epi32, _mm512_storeu_ps,
};

use half::{bf16, f16};

#[cfg(target_arch = "aarch64")]
use crate::neon::widen_f16;

/// Outputs of one panel: two of the widest vectors.
pub(crate) const PANEL: usize = 32;
/// Largest number of rows of a block: their sums over one panel fill the registers of the processor.
pub(crate) const ROWS: usize = 8;

/// Distance of the prefetch ahead of the read, in bytes. It goes through all caches: a processor has few lines in flight past them.
#[cfg(target_arch = "x86_64")]
const PREFETCH_BYTES: usize = 4096;

/// A stored weight of a product.
pub(crate) trait Weight: Copy + Sync {
    fn as_f32(self) -> f32;

    /// Loads sixteen weights as f32.
    ///
    /// # Safety
    /// Sixteen weights are readable at `from`, and the processor has AVX-512.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load_16(from: *const Self) -> __m512;

    /// Loads eight weights as f32.
    ///
    /// # Safety
    /// Eight weights are readable at `from`.
    #[cfg(target_arch = "aarch64")]
    unsafe fn load_8(from: *const Self) -> [float32x4_t; 2];
}

impl Weight for f32 {
    #[inline(always)]
    fn as_f32(self) -> f32 {
        self
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load_16(from: *const Self) -> __m512 {
        // SAFETY: the caller guarantees it.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    unsafe fn load_8(from: *const Self) -> [float32x4_t; 2] {
        // SAFETY: the caller guarantees it.
        unsafe { [vld1q_f32(from), vld1q_f32(from.add(4))] }
    }
}

impl Weight for f16 {
    #[inline(always)]
    fn as_f32(self) -> f32 {
        self.to_f32()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load_16(from: *const Self) -> __m512 {
        // SAFETY: the caller guarantees it.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    unsafe fn load_8(from: *const Self) -> [float32x4_t; 2] {
        // SAFETY: the caller guarantees it.
        unsafe { widen_f16(vld1q_u16(from.cast())) }
    }
}

impl Weight for bf16 {
    #[inline(always)]
    fn as_f32(self) -> f32 {
        self.to_f32()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load_16(from: *const Self) -> __m512 {
        // SAFETY: the caller guarantees it. bf16 is the upper half of f32.
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())))) }
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    unsafe fn load_8(from: *const Self) -> [float32x4_t; 2] {
        // SAFETY: the caller guarantees it. bf16 is the upper half of f32.
        unsafe {
            let halves = vld1q_u16(from.cast());
            let (one, two) = (vshll_n_u16::<16>(vget_low_u16(halves)), vshll_high_n_u16::<16>(halves));
            [vreinterpretq_f32_u32(one), vreinterpretq_f32_u32(two)]
        }
    }
}

impl Weight for i8 {
    #[inline(always)]
    fn as_f32(self) -> f32 {
        f32::from(self)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load_16(from: *const Self) -> __m512 {
        // SAFETY: the caller guarantees it.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) }
    }

    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    unsafe fn load_8(from: *const Self) -> [float32x4_t; 2] {
        // SAFETY: the caller guarantees it.
        unsafe {
            let wide = vmovl_s8(vld1_s8(from));
            [vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), vcvtq_f32_s32(vmovl_high_s16(wide))]
        }
    }
}

/// Converts the weights of a panel to f32.
pub(super) fn widen<W: Weight>(weights: &[W], wide: &mut [f32]) {
    assert!(weights.len() == wide.len() && wide.len().is_multiple_of(PANEL), "packed matrix: length of a panel");
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512, and the lengths are checked above.
        return unsafe { widen_512(weights, wide) };
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the lengths are checked above.
    return unsafe { widen_neon(weights, wide) };
    #[cfg(not(target_arch = "aarch64"))]
    wide.iter_mut().zip(weights).for_each(|(wide, weight)| *wide = weight.as_f32());
}

/// # Safety
/// The processor has AVX-512; `weights` and `wide` have the same length, a multiple of sixteen.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn widen_512<W: Weight>(weights: &[W], wide: &mut [f32]) {
    for at in (0..wide.len()).step_by(16) {
        // SAFETY: both have sixteen values from `at` on.
        unsafe { _mm512_storeu_ps(wide.as_mut_ptr().add(at), W::load_16(weights.as_ptr().add(at))) };
    }
}

/// # Safety
/// `weights` and `wide` have the same length, a multiple of eight.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn widen_neon<W: Weight>(weights: &[W], wide: &mut [f32]) {
    for at in (0..wide.len()).step_by(8) {
        // SAFETY: both have eight values from `at` on.
        unsafe {
            let [one, two] = W::load_8(weights.as_ptr().add(at));
            vst1q_f32(wide.as_mut_ptr().add(at), one);
            vst1q_f32(wide.as_mut_ptr().add(at + 4), two);
        }
    }
}

/// Multiplies `x` `[inputs, width]` with `weights` `[inputs, 32]` into the first `width` rows of `sums`; `width` is 1, 2, 4 or 8.
pub(crate) fn multiply<W: Weight>(width: usize, x: &[f32], weights: &[W], sums: &mut [[f32; PANEL]; ROWS]) {
    sums[..width].fill([0.0; PANEL]);
    accumulate(width, x, weights, sums);
}

/// As [`multiply`], added to `sums`: inputs in several calls have the sums of one, to the last bit.
pub(crate) fn accumulate<W: Weight>(width: usize, x: &[f32], weights: &[W], sums: &mut [[f32; PANEL]; ROWS]) {
    assert_eq!(x.len() * PANEL, weights.len() * width, "packed matrix: inputs of a panel");
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx512f") {
        let inputs = weights.len() / PANEL;
        // SAFETY: the processor has AVX-512, and the lengths are checked above.
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
    // SAFETY: the lengths are checked above.
    #[cfg(target_arch = "aarch64")]
    return unsafe {
        match width {
            1 => panel_neon::<1, 4, W>(x, weights, sums),
            2 => panel_neon::<2, 4, W>(x, weights, sums),
            4 => panel_neon::<4, 2, W>(x, weights, sums),
            _ => panel_neon::<8, 1, W>(x, weights, sums),
        }
    };
    #[cfg(not(target_arch = "aarch64"))]
    pulp::Arch::new().dispatch(Accumulate { width, x, weights, sums });
}

/// [`accumulate`] in AVX-512, with the sums in registers. The order of the additions does not depend on the number of rows, so a row
/// has the same result to the last bit in every block.
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
    for (row, sums) in rows.iter_mut().zip(sums.iter()) {
        // SAFETY: a row of sums has 32 values.
        *row = unsafe { [_mm512_loadu_ps(sums.as_ptr()), _mm512_loadu_ps(sums.as_ptr().add(16))] };
    }
    let (mut x, mut weights) = (x.as_ptr(), weights.as_ptr());
    for _ in 0..inputs {
        // The hardware prefetcher stops at the end of a page. A prefetch of an invalid address has no effect.
        for line in 0..(PANEL * size_of::<W>()).div_ceil(64) {
            _mm_prefetch::<_MM_HINT_T0>(weights.cast::<i8>().wrapping_add(PREFETCH_BYTES + 64 * line));
        }
        // SAFETY: the caller guarantees `inputs` rows of both.
        let (one, two) = unsafe { (W::load_16(weights), W::load_16(weights.add(16))) };
        for (row, sums) in rows.iter_mut().enumerate() {
            // SAFETY: as above.
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

/// Multiplies one row `x` `[inputs]` with two panels `[inputs, 32]`, each in the order of [`multiply`]: twice as many sums are in progress as
/// with one, which hides how long an addition takes.
pub(crate) fn multiply_pair<W: Weight>(x: &[f32], weights: [&[W]; 2], mut out: [&mut [f32; PANEL]; 2]) {
    out.iter_mut().for_each(|out| out.fill(0.0));
    accumulate_pair(x, weights, out);
}

/// As [`multiply_pair`], added to `out`.
pub(crate) fn accumulate_pair<W: Weight>(x: &[f32], weights: [&[W]; 2], out: [&mut [f32; PANEL]; 2]) {
    assert!(weights.iter().all(|weights| weights.len() == x.len() * PANEL), "packed matrix: inputs of two panels");
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512, and the lengths are checked above.
        return unsafe { pair_512(x, weights, out) };
    }
    weights.into_iter().zip(out).for_each(|(weights, out)| accumulate_one(x, weights, out));
}

/// Multiplies one row `x` `[inputs]` with a panel `[inputs, 32]`, added to `out`.
fn accumulate_one<W: Weight>(x: &[f32], weights: &[W], out: &mut [f32; PANEL]) {
    let mut sums = [[0f32; PANEL]; ROWS];
    sums[0] = *out;
    accumulate(1, x, weights, &mut sums);
    *out = sums[0];
}

/// # Safety
/// The processor has AVX-512; both weights have 32 values for each of `x`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn pair_512<W: Weight>(x: &[f32], weights: [&[W]; 2], out: [&mut [f32; PANEL]; 2]) {
    let mut sums = [_mm512_setzero_ps(); 4];
    for (sums, out) in sums.as_chunks_mut::<2>().0.iter_mut().zip(&out) {
        // SAFETY: `out` has 32 values.
        *sums = unsafe { [_mm512_loadu_ps(out.as_ptr()), _mm512_loadu_ps(out.as_ptr().add(16))] };
    }
    let mut panels = weights.map(<[W]>::as_ptr);
    for x in x {
        let x = _mm512_set1_ps(*x);
        for (from, sums) in panels.iter_mut().zip(sums.as_chunks_mut::<2>().0) {
            for line in 0..(PANEL * size_of::<W>()).div_ceil(64) {
                // A prefetch of an invalid address has no effect.
                _mm_prefetch::<_MM_HINT_T0>(from.cast::<i8>().wrapping_add(PREFETCH_BYTES + 64 * line));
            }
            // SAFETY: the caller guarantees 32 weights for each `x`; the next are at most one past the end.
            unsafe {
                sums[0] = _mm512_fmadd_ps(x, W::load_16(*from), sums[0]);
                sums[1] = _mm512_fmadd_ps(x, W::load_16(from.add(16)), sums[1]);
                *from = from.add(PANEL);
            }
        }
    }
    for (out, sums) in out.into_iter().zip(sums.as_chunks::<2>().0) {
        // SAFETY: `out` has 32 values.
        unsafe {
            _mm512_storeu_ps(out.as_mut_ptr(), sums[0]);
            _mm512_storeu_ps(out.as_mut_ptr().add(16), sums[1]);
        }
    }
}

/// As [`panel_512`], in the same order, with `V` times eight outputs at a time: the sums fill half of the registers.
///
/// # Safety
/// `x` has `R` values for every 32 weights; `V` divides 4.
#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
unsafe fn panel_neon<const R: usize, const V: usize, W: Weight>(
    x: &[f32],
    weights: &[W],
    sums: &mut [[f32; PANEL]; ROWS],
) {
    for first in (0..PANEL).step_by(8 * V) {
        let mut rows = [[[vdupq_n_f32(0.0); 2]; V]; R];
        for (row, sums) in rows.iter_mut().zip(sums.iter()) {
            for (at, sum) in row.as_flattened_mut().iter_mut().enumerate() {
                // SAFETY: a row of sums has 32 values, of which these are four.
                *sum = unsafe { vld1q_f32(sums.as_ptr().add(first + 4 * at)) };
            }
        }
        let (mut x, mut from) = (x.as_ptr(), weights.as_ptr().wrapping_add(first));
        for _ in 0..weights.len() / PANEL {
            for vector in 0..V {
                // SAFETY: the caller guarantees 32 weights, of which these are eight.
                let [one, two] = unsafe { W::load_8(from.add(8 * vector)) };
                for (row, sums) in rows.iter_mut().enumerate() {
                    // SAFETY: the caller guarantees `R` values.
                    let x = unsafe { *x.add(row) };
                    sums[vector] = [vfmaq_n_f32(sums[vector][0], one, x), vfmaq_n_f32(sums[vector][1], two, x)];
                }
            }
            (x, from) = (x.wrapping_add(R), from.wrapping_add(PANEL));
        }
        for (row, sums) in rows.iter().zip(sums.iter_mut()) {
            for (at, sum) in row.as_flattened().iter().enumerate() {
                // SAFETY: a row of sums has 32 values, of which these are four.
                unsafe { vst1q_f32(sums.as_mut_ptr().add(first + 4 * at), *sum) };
            }
        }
    }
}

/// [`accumulate`] for any processor.
#[cfg(any(test, not(target_arch = "aarch64")))]
struct Accumulate<'a, W> {
    width: usize,
    x: &'a [f32],
    weights: &'a [W],
    sums: &'a mut [[f32; PANEL]; ROWS],
}

#[cfg(any(test, not(target_arch = "aarch64")))]
impl<W: Weight> pulp::NullaryFnOnce for Accumulate<'_, W> {
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

/// [`accumulate`] for `R` rows.
#[cfg(any(test, not(target_arch = "aarch64")))]
#[inline(always)]
fn panel<const R: usize, W: Weight>(x: &[f32], weights: &[W], sums: &mut [[f32; PANEL]; ROWS]) {
    let mut rows = [[0f32; PANEL]; R];
    rows.copy_from_slice(&sums[..R]);
    let (x, _) = x.as_chunks::<R>();
    let (weights, _) = weights.as_chunks::<PANEL>();
    for (x, weights) in x.iter().zip(weights) {
        let mut wide = [0f32; PANEL];
        for (wide, weight) in wide.iter_mut().zip(weights) {
            *wide = weight.as_f32();
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

    /// Two panels at once have the sums of each alone, to the last bit.
    #[test]
    fn two_panels_at_once_equal_each_alone() {
        for inputs in [1, 2, 5, 64] {
            let x: Vec<f32> = (0..inputs).map(|at| (at * 37 % 11) as f32 - 4.7).collect();
            let weights: Vec<i8> = (0..2 * inputs * PANEL).map(|at| (at * 71 % 251) as i8).collect();
            let (one, two) = weights.split_at(inputs * PANEL);
            let (mut first, mut second) = ([0f32; PANEL], [0f32; PANEL]);
            multiply_pair(&x, [one, two], [&mut first, &mut second]);
            let half = inputs / 2;
            let mut parts = [[f32::NAN; PANEL]; 2];
            let [a, b] = &mut parts;
            multiply_pair(&x[..half], [one, two].map(|panel| &panel[..half * PANEL]), [a, b]);
            accumulate_pair(&x[half..], [one, two].map(|panel| &panel[half * PANEL..]), [a, b]);
            assert_eq!(parts, [first, second], "{inputs}, in parts");
            for (weights, found) in [(one, first), (two, second)] {
                let mut alone = [0f32; PANEL];
                accumulate_one(&x, weights, &mut alone);
                assert_eq!(alone, found, "{inputs}");
            }
        }
    }

    /// The body that the processor has equals the portable one, to the last bit.
    #[test]
    fn both_bodies_of_multiply_are_equal() {
        let mut state = 1u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        for width in [1, 2, 4, 8] {
            for inputs in [1, 2, 3, 4, 5, 63, 64, 385] {
                let x: Vec<f32> = (0..inputs * width).map(|_| draw()).collect();
                let weights: Vec<f32> = (0..inputs * PANEL).map(|_| draw()).collect();
                let int8: Vec<i8> = weights.iter().map(|weight| (weight * 127.0) as i8).collect();
                let (mut one, mut two) = ([[0f32; PANEL]; ROWS], [[0f32; PANEL]; ROWS]);
                accumulate(width, &x, &weights, &mut one);
                pulp::NullaryFnOnce::call(Accumulate { width, x: &x, weights: &weights, sums: &mut two });
                assert_eq!(one, two, "{width} {inputs}");
                let (first, last) = (inputs / 2 * width, inputs / 2 * PANEL);
                let mut whole = [[f32::NAN; PANEL]; ROWS];
                let mut parts = whole;
                multiply(width, &x, &weights, &mut whole);
                multiply(width, &x[..first], &weights[..last], &mut parts);
                accumulate(width, &x[first..], &weights[last..], &mut parts);
                assert_eq!(parts[..width], whole[..width], "{width} {inputs}, in parts");
                accumulate(width, &x, &int8, &mut one);
                pulp::NullaryFnOnce::call(Accumulate { width, x: &x, weights: &int8, sums: &mut two });
                assert_eq!(one, two, "{width} {inputs}, int8");
                let halves: Vec<f16> = weights.iter().map(|weight| f16::from_f32(*weight)).collect();
                accumulate(width, &x, &halves, &mut one);
                pulp::NullaryFnOnce::call(Accumulate { width, x: &x, weights: &halves, sums: &mut two });
                assert_eq!(one, two, "{width} {inputs}, f16");
                let halves: Vec<bf16> = weights.iter().map(|weight| bf16::from_f32(*weight)).collect();
                accumulate(width, &x, &halves, &mut one);
                pulp::NullaryFnOnce::call(Accumulate { width, x: &x, weights: &halves, sums: &mut two });
                assert_eq!(one, two, "{width} {inputs}, bf16");
            }
        }
    }
}
