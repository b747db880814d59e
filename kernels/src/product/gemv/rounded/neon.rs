//! [`multiply`](super::multiply) on ARM. Sixteen sums of four outputs fit into the registers beside what they are made of: with more rows,
//! fewer outputs at a time.

use std::arch::aarch64::{
    int8x16_t, int32x4_t, vandq_u8, vcombine_s8, vcvtq_f32_s32, vdup_n_s8, vdupq_laneq_s32, vdupq_n_f32, vdupq_n_s8,
    vdupq_n_s32, vdupq_n_u8, veorq_u8, vfmaq_f32, vfmaq_n_f32, vget_low_s8, vld1_s8, vld1q_s8, vld1q_u8, vmull_high_s8,
    vmull_s8, vmulq_n_f32, vpadalq_s16, vpaddq_s16, vreinterpretq_s8_s32, vreinterpretq_s8_u8, vreinterpretq_s32_s8,
    vshrq_n_u8, vst1q_f32,
};

use super::{PANEL, QUAD, ROWS, Task};
use crate::neon::sdot;

/// Bytes of a vector.
const VECTOR: usize = 16;

/// # Safety
/// The processor has the feature `dotprod`; the lengths are those that [`multiply_by`](super::multiply_by) checks, for `R` rows.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn multiply_dot<const R: usize, const HALVES: bool>(task: &Task, sums: &mut [[f32; PANEL]; ROWS]) {
    // SAFETY: the caller guarantees it.
    unsafe { by_rows::<R, HALVES, true>(task, sums) }
}

/// # Safety
/// The lengths are those that [`multiply_by`](super::multiply_by) checks, for `R` rows.
pub(super) unsafe fn multiply_neon<const R: usize, const HALVES: bool>(task: &Task, sums: &mut [[f32; PANEL]; ROWS]) {
    // SAFETY: the caller guarantees it.
    unsafe { by_rows::<R, HALVES, false>(task, sums) }
}

/// # Safety
/// As for [`multiply_dot`] if `DOT`, else as for [`multiply_neon`].
#[inline(always)]
unsafe fn by_rows<const R: usize, const HALVES: bool, const DOT: bool>(task: &Task, sums: &mut [[f32; PANEL]; ROWS]) {
    // SAFETY: the caller guarantees it.
    unsafe {
        match (R, DOT) {
            (1, _) | (2, true) => multiply::<R, 8, HALVES, DOT>(task, sums),
            (2 | 4, _) => multiply::<R, 4, HALVES, DOT>(task, sums),
            _ => multiply::<R, 2, HALVES, DOT>(task, sums),
        }
    }
}

/// Multiplies with `V` vectors of four outputs at a time. The order of the additions does not depend on the number of rows, so a row has
/// the same result to the last bit in every block.
///
/// # Safety
/// As for [`by_rows`]; `V` divides 8.
#[inline(always)]
unsafe fn multiply<const R: usize, const V: usize, const HALVES: bool, const DOT: bool>(
    task: &Task,
    sums: &mut [[f32; PANEL]; ROWS],
) {
    let Task { rows, bits, lowest, factors } = *task;
    // Whole bytes are taken less 128, as both factors of the instruction are signed.
    let least = if HALVES { lowest } else { lowest + 128 };
    // SAFETY: the caller guarantees, for each run, two quads of each row and of each output at a time, 32 scales and, where there are any, 32
    // minimums, and a scale and a sum for each row. A row of `sums` has 32 values. The processor has what `DOT` says.
    unsafe {
        let (low, middle) = (vdupq_n_u8(15), vdupq_n_u8(128));
        for first in (0..PANEL).step_by(4 * V) {
            let mut totals = [[vdupq_n_f32(0.0); R]; V];
            let mut numbers = rows.numbers.as_ptr();
            let mut bits = bits.as_ptr().add(first * QUAD);
            for run in 0..factors.scales.len() / PANEL {
                let mut starts = [vdupq_n_s32(0); R];
                for (row, start) in starts.iter_mut().enumerate() {
                    *start = vdupq_n_s32(least * *rows.sums.as_ptr().add(run * R + row));
                }
                let mut of_run = [starts; V];
                for _ in 0..factors.run / (2 * QUAD) {
                    let x = load::<R>(numbers);
                    for (vector, sums) in of_run.iter_mut().enumerate() {
                        let from = bits.add(VECTOR * vector);
                        let quads = if HALVES {
                            let both = vld1q_u8(from);
                            [vandq_u8(both, low), vshrq_n_u8::<4>(both)]
                        } else {
                            [veorq_u8(vld1q_u8(from), middle), veorq_u8(vld1q_u8(from.add(QUAD * PANEL)), middle)]
                        };
                        let quads = [vreinterpretq_s8_u8(quads[0]), vreinterpretq_s8_u8(quads[1])];
                        // A vector of inputs has four quads: the first quad of all rows comes before the second of all.
                        for (at, x) in (0..2 * R).step_by(4).zip(x) {
                            sums[at % R] = products::<DOT, 0>(sums[at % R], quads[at / R], x);
                            let at = at + 1;
                            sums[at % R] = products::<DOT, 1>(sums[at % R], quads[at / R], x);
                            if R > 1 {
                                let at = at + 1;
                                sums[at % R] = products::<DOT, 2>(sums[at % R], quads[at / R], x);
                                let at = at + 1;
                                sums[at % R] = products::<DOT, 3>(sums[at % R], quads[at / R], x);
                            }
                        }
                    }
                    numbers = numbers.add(2 * QUAD * R);
                    bits = bits.wrapping_add(if HALVES { QUAD * PANEL } else { 2 * QUAD * PANEL });
                }
                for (vector, (totals, of_run)) in totals.iter_mut().zip(of_run).enumerate() {
                    let at = run * PANEL + first + 4 * vector;
                    let scale = factors.scales.load_4(at);
                    for (row, (total, sum)) in totals.iter_mut().zip(of_run).enumerate() {
                        let factor = vmulq_n_f32(scale, *rows.scales.as_ptr().add(run * R + row));
                        *total = vfmaq_f32(*total, vcvtq_f32_s32(sum), factor);
                    }
                    if !factors.minimums.is_empty() {
                        let minimum = factors.minimums.load_4(at);
                        for (row, total) in totals.iter_mut().enumerate() {
                            let place = run * R + row;
                            let sum = *rows.scales.as_ptr().add(place) * *rows.sums.as_ptr().add(place) as f32;
                            *total = vfmaq_n_f32(*total, minimum, sum);
                        }
                    }
                }
            }
            for (vector, totals) in totals.iter().enumerate() {
                for (total, sums) in totals.iter().zip(sums.iter_mut()) {
                    vst1q_f32(sums.as_mut_ptr().add(first + 4 * vector), *total);
                }
            }
        }
    }
}

/// Two quads of `R` rows, four quads a vector.
///
/// # Safety
/// `from` has as many numbers.
#[inline(always)]
unsafe fn load<const R: usize>(from: *const i8) -> [int8x16_t; 4] {
    // SAFETY: the caller guarantees it.
    unsafe {
        let mut x = [vdupq_n_s8(0); 4];
        if R == 1 {
            x[0] = vcombine_s8(vld1_s8(from), vdup_n_s8(0));
        } else {
            for (at, x) in x.iter_mut().take(R / 2).enumerate() {
                *x = vld1q_s8(from.add(VECTOR * at));
            }
        }
        x
    }
}

/// Adds to each sum the products of its four weights with those of one quad of `x`.
///
/// # Safety
/// As for [`sdot`] if `DOT`; without, no number of `x` is -128.
#[inline(always)]
unsafe fn products<const DOT: bool, const AT: u8>(sums: int32x4_t, weights: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: the caller guarantees it.
    unsafe {
        if DOT {
            return sdot::<AT>(sums, weights, x);
        }
        let x = vreinterpretq_s32_s8(x);
        let x = vreinterpretq_s8_s32(match AT {
            0 => vdupq_laneq_s32::<0>(x),
            1 => vdupq_laneq_s32::<1>(x),
            2 => vdupq_laneq_s32::<2>(x),
            _ => vdupq_laneq_s32::<3>(x),
        });
        // Two products of at most 128 * 127 fit into 16 bits.
        let pairs = vpaddq_s16(vmull_s8(vget_low_s8(weights), vget_low_s8(x)), vmull_high_s8(weights, x));
        vpadalq_s16(sums, pairs)
    }
}
