//! [`multiply`](super::multiply) in AVX-512 VNNI.

use std::arch::x86_64::{
    _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_storeu_si512,
};

use super::{PANEL, QUAD, ROWS};

/// # Safety
/// The processor has AVX-512 VNNI; `numbers` has as many tiles of 12 quads as `weights` has panels of 32.
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) unsafe fn multiply_vnni(numbers: &[u8], weights: &[i8], sums: &mut [[i32; PANEL]; ROWS]) {
    let mut rows = [[_mm512_setzero_si512(); 2]; ROWS];
    let (mut from, mut panel) = (numbers.as_ptr().cast::<i32>(), weights.as_ptr());
    for _ in 0..weights.len() / (PANEL * QUAD) {
        // SAFETY: the caller guarantees 128 weights and 12 quads for each round.
        let (one, two) = unsafe { (_mm512_loadu_si512(panel.cast()), _mm512_loadu_si512(panel.add(64).cast())) };
        for (row, sums) in rows.iter_mut().enumerate() {
            // SAFETY: as above.
            let quad = _mm512_set1_epi32(unsafe { from.add(row).read_unaligned() });
            sums[0] = _mm512_dpbusd_epi32(sums[0], quad, one);
            sums[1] = _mm512_dpbusd_epi32(sums[1], quad, two);
        }
        // SAFETY: at most one past the end.
        (from, panel) = unsafe { (from.add(ROWS), panel.add(PANEL * QUAD)) };
    }
    for (row, sums) in rows.iter().zip(sums) {
        // SAFETY: a row of sums has 32 values.
        unsafe {
            _mm512_storeu_si512(sums.as_mut_ptr().cast(), row[0]);
            _mm512_storeu_si512(sums.as_mut_ptr().add(16).cast(), row[1]);
        }
    }
}
