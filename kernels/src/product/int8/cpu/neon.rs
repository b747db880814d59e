//! [`multiply`](super::multiply) on ARM: twelve rows by eight outputs at a time, whose sums fill 24 of the 32 registers.

use std::arch::aarch64::{
    int8x16_t, int32x4_t, uint8x16_t, vdupq_n_s32, vdupq_n_u8, veorq_u8, vld1q_s8, vld1q_u8, vreinterpretq_s8_u8,
    vst1q_s32, vsubq_s32,
};

use super::{OFFSET, PANEL, QUAD, ROWS};
use crate::neon::{sdot, sudot};

/// Outputs of a round: two vectors of sums.
const LANES: usize = 8;

/// # Safety
/// The processor has the feature `dotprod`; `numbers` has as many tiles of 12 quads as `weights` has panels of 32.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn multiply_sdot(numbers: &[u8], weights: &[i8], sums: &mut [[i32; PANEL]; ROWS]) {
    // SAFETY: the caller guarantees it.
    unsafe { multiply::<false>(numbers, weights, sums) }
}

/// # Safety
/// The processor has the feature `i8mm`; `numbers` has as many tiles of 12 quads as `weights` has panels of 32.
#[target_feature(enable = "neon,i8mm")]
pub(super) unsafe fn multiply_sudot(numbers: &[u8], weights: &[i8], sums: &mut [[i32; PANEL]; ROWS]) {
    // SAFETY: the caller guarantees it.
    unsafe { multiply::<true>(numbers, weights, sums) }
}

/// # Safety
/// As for [`multiply_sudot`] if `SUDOT`, else as for [`multiply_sdot`].
#[inline(always)]
unsafe fn multiply<const SUDOT: bool>(numbers: &[u8], weights: &[i8], sums: &mut [[i32; PANEL]; ROWS]) {
    // SAFETY: the caller guarantees, for each round, 12 quads of numbers and 32 of weights, of which these are eight. A row of sums has 32
    // values. The processor has what `SUDOT` says.
    unsafe {
        let middle = vdupq_n_u8(OFFSET as u8);
        for first in (0..PANEL).step_by(LANES) {
            let mut rows = [[vdupq_n_s32(0); 2]; ROWS];
            // The share of the offset in the sums, negative.
            let mut excess = [vdupq_n_s32(0); 2];
            let mut from = numbers.as_ptr();
            let mut panel = weights.as_ptr().wrapping_add(first * QUAD);
            for _ in 0..weights.len() / (PANEL * QUAD) {
                let weights = [vld1q_s8(panel), vld1q_s8(panel.add(16))];
                if !SUDOT {
                    excess[0] = sdot::<0>(excess[0], weights[0], vreinterpretq_s8_u8(middle));
                    excess[1] = sdot::<0>(excess[1], weights[1], vreinterpretq_s8_u8(middle));
                }
                for (at, [a, b, c, d]) in rows.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    let x = vld1q_u8(from.add(16 * at));
                    let x = if SUDOT { x } else { veorq_u8(x, middle) };
                    for (half, weights) in weights.into_iter().enumerate() {
                        a[half] = dot::<SUDOT, 0>(a[half], weights, x);
                        b[half] = dot::<SUDOT, 1>(b[half], weights, x);
                        c[half] = dot::<SUDOT, 2>(c[half], weights, x);
                        d[half] = dot::<SUDOT, 3>(d[half], weights, x);
                    }
                }
                (from, panel) = (from.add(ROWS * QUAD), panel.wrapping_add(PANEL * QUAD));
            }
            for (row, sums) in rows.iter().zip(sums.iter_mut()) {
                for (half, (row, excess)) in row.iter().zip(excess).enumerate() {
                    vst1q_s32(sums.as_mut_ptr().add(first + 4 * half), vsubq_s32(*row, excess));
                }
            }
        }
    }
}

/// # Safety
/// As for [`sudot`] if `SUDOT`, else as for [`sdot`].
#[inline(always)]
unsafe fn dot<const SUDOT: bool, const QUAD: u8>(
    sums: int32x4_t,
    weights: int8x16_t,
    numbers: uint8x16_t,
) -> int32x4_t {
    // SAFETY: the caller guarantees it.
    unsafe {
        if SUDOT {
            sudot::<QUAD>(sums, weights, numbers)
        } else {
            sdot::<QUAD>(sums, weights, vreinterpretq_s8_u8(numbers))
        }
    }
}
