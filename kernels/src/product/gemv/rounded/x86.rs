//! [`multiply`](super::multiply) in AVX-512 VNNI and in AVX2.

use std::arch::x86_64::{
    _MM_HINT_T0, _mm_prefetch, _mm256_abs_epi8, _mm256_add_epi16, _mm256_add_epi32, _mm256_and_si256,
    _mm256_cvtepi32_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
    _mm256_mul_ps, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_si256,
    _mm256_sign_epi8, _mm256_srli_epi16, _mm256_storeu_ps, _mm256_xor_si256, _mm512_and_si512, _mm512_cvtepi32_ps,
    _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_loadu_si512, _mm512_mul_ps, _mm512_set1_epi8, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_setzero_si512, _mm512_srli_epi16, _mm512_storeu_ps,
};

use super::{PANEL, QUAD, ROWS, Task};

/// Distance of the prefetch ahead of the read, in bytes. It goes through all caches: a processor has few lines in flight past them.
const PREFETCH_BYTES: usize = 2048;

/// The order of the additions does not depend on the number of rows, so a row has the same result to the last bit in every block.
///
/// # Safety
/// The processor has AVX-512 VNNI; the lengths are those that [`multiply_by`](super::multiply_by) checks, for `R` rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn multiply_vnni<const R: usize, const HALVES: bool>(task: &Task, sums: &mut [[f32; PANEL]; ROWS]) {
    let Task { rows, bits, lowest, factors } = *task;
    let mask = _mm512_set1_epi8(15);
    let mut totals = [[_mm512_setzero_ps(); 2]; R];
    let (mut quad, mut bits) = (rows.numbers.as_ptr().cast::<i32>(), bits.as_ptr());
    for run in 0..factors.scales.len() / PANEL {
        let mut of_run = [[_mm512_setzero_si512(); 2]; R];
        for (row, sums) in of_run.iter_mut().enumerate() {
            // SAFETY: a run has a sum for each row.
            *sums = [_mm512_set1_epi32(lowest * unsafe { *rows.sums.as_ptr().add(run * R + row) }); 2];
        }
        for _ in 0..factors.run / if HALVES { 2 * QUAD } else { QUAD } {
            // SAFETY: the caller guarantees 128 bytes and the quads of each round, of which there are two if a byte holds two numbers. A
            // prefetch of an invalid address has no effect.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(bits.cast::<i8>().wrapping_add(PREFETCH_BYTES));
                _mm_prefetch::<_MM_HINT_T0>(bits.cast::<i8>().wrapping_add(PREFETCH_BYTES + 64));
                let (one, two) = (_mm512_loadu_si512(bits.cast()), _mm512_loadu_si512(bits.add(64).cast()));
                if HALVES {
                    let even = [_mm512_and_si512(one, mask), _mm512_and_si512(two, mask)];
                    let odd = [
                        _mm512_and_si512(_mm512_srli_epi16::<4>(one), mask),
                        _mm512_and_si512(_mm512_srli_epi16::<4>(two), mask),
                    ];
                    for (row, sums) in of_run.iter_mut().enumerate() {
                        let x = _mm512_set1_epi32(quad.add(row).read_unaligned());
                        sums[0] = _mm512_dpbusd_epi32(sums[0], even[0], x);
                        sums[1] = _mm512_dpbusd_epi32(sums[1], even[1], x);
                        let x = _mm512_set1_epi32(quad.add(R + row).read_unaligned());
                        sums[0] = _mm512_dpbusd_epi32(sums[0], odd[0], x);
                        sums[1] = _mm512_dpbusd_epi32(sums[1], odd[1], x);
                    }
                    quad = quad.add(2 * R);
                } else {
                    for (row, sums) in of_run.iter_mut().enumerate() {
                        let x = _mm512_set1_epi32(quad.add(row).read_unaligned());
                        sums[0] = _mm512_dpbusd_epi32(sums[0], one, x);
                        sums[1] = _mm512_dpbusd_epi32(sums[1], two, x);
                    }
                    quad = quad.add(R);
                }
                bits = bits.add(QUAD * PANEL);
            }
        }
        for half in 0..2 {
            let at = run * PANEL + 16 * half;
            // SAFETY: a run has 32 scales and, where there are any, 32 minimums, and a scale and a sum for each row.
            unsafe {
                let scale = factors.scales.load_16(at);
                for (row, (total, sums)) in totals.iter_mut().zip(&of_run).enumerate() {
                    let of_row = _mm512_set1_ps(*rows.scales.as_ptr().add(run * R + row));
                    let sum = _mm512_cvtepi32_ps(sums[half]);
                    total[half] = _mm512_fmadd_ps(sum, _mm512_mul_ps(scale, of_row), total[half]);
                }
                if !factors.minimums.is_empty() {
                    let minimum = factors.minimums.load_16(at);
                    for (row, total) in totals.iter_mut().enumerate() {
                        let place = run * R + row;
                        let sum = *rows.scales.as_ptr().add(place) * *rows.sums.as_ptr().add(place) as f32;
                        total[half] = _mm512_fmadd_ps(_mm512_set1_ps(sum), minimum, total[half]);
                    }
                }
            }
        }
    }
    for (total, sums) in totals.iter().zip(sums) {
        // SAFETY: a row of sums has 32 values.
        unsafe {
            _mm512_storeu_ps(sums.as_mut_ptr(), total[0]);
            _mm512_storeu_ps(sums.as_mut_ptr().add(16), total[1]);
        }
    }
}

/// As [`multiply_vnni`], in the same order, with 8 outputs at a time.
///
/// # Safety
/// The processor has AVX2 and FMA; the lengths are those that [`multiply_by`](super::multiply_by) checks, for `R` rows.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn multiply_avx2<const R: usize, const HALVES: bool>(task: &Task, sums: &mut [[f32; PANEL]; ROWS]) {
    /// Quads of 4-bit numbers whose sums fit into 16 bits: 8 * 2 * 15 * 127.
    const NARROW: usize = 8;
    let Task { rows, bits, lowest, factors } = *task;
    let (ones, mask, middle) = (_mm256_set1_epi16(1), _mm256_set1_epi8(15), _mm256_set1_epi8(-128));
    let quads = factors.run / QUAD;
    // Whole bytes are taken less 128, as a product of two pairs of bytes then fits into 16 bits.
    let least = if HALVES { lowest } else { lowest + 128 };
    sums.iter_mut().take(R).for_each(|sums| *sums = [0.0; PANEL]);
    for run in 0..factors.scales.len() / PANEL {
        for lanes in (0..PANEL).step_by(8) {
            let mut of_run = [_mm256_setzero_si256(); R];
            for (row, sum) in of_run.iter_mut().enumerate() {
                *sum = _mm256_set1_epi32(least * rows.sums[run * R + row]);
            }
            // SAFETY: the caller guarantees the bytes and the quads of the run.
            unsafe {
                let input = rows.numbers.as_ptr().cast::<i32>().add(run * quads * R);
                let x = |quad: usize, row: usize| _mm256_set1_epi32(input.add(quad * R + row).read_unaligned());
                let of_lanes = |quad: usize| {
                    let from = if HALVES { (run * quads + quad) / 2 } else { run * quads + quad };
                    _mm256_loadu_si256(bits.as_ptr().add((from * PANEL + lanes) * QUAD).cast())
                };
                if HALVES {
                    for first in (0..quads).step_by(NARROW) {
                        let mut narrow = [_mm256_setzero_si256(); R];
                        for quad in (first..quads.min(first + NARROW)).step_by(2) {
                            let both = of_lanes(quad);
                            let even = _mm256_and_si256(both, mask);
                            let odd = _mm256_and_si256(_mm256_srli_epi16::<4>(both), mask);
                            for (row, narrow) in narrow.iter_mut().enumerate() {
                                *narrow = _mm256_add_epi16(*narrow, _mm256_maddubs_epi16(even, x(quad, row)));
                                *narrow = _mm256_add_epi16(*narrow, _mm256_maddubs_epi16(odd, x(quad + 1, row)));
                            }
                        }
                        for (sum, narrow) in of_run.iter_mut().zip(narrow) {
                            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(narrow, ones));
                        }
                    }
                } else {
                    for quad in 0..quads {
                        let number = _mm256_xor_si256(of_lanes(quad), middle);
                        let size = _mm256_abs_epi8(number);
                        for (row, sum) in of_run.iter_mut().enumerate() {
                            let pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(x(quad, row), number));
                            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
                        }
                    }
                }
                let at = run * PANEL + lanes;
                let scale = _mm256_loadu_ps(factors.scales.lanes::<8>(at).as_ptr());
                for (row, (sum, to)) in of_run.iter().zip(sums.iter_mut()).enumerate() {
                    let to = to.as_mut_ptr().add(lanes);
                    let of_row = rows.scales[run * R + row];
                    let factor = _mm256_mul_ps(scale, _mm256_set1_ps(of_row));
                    let mut total = _mm256_fmadd_ps(_mm256_cvtepi32_ps(*sum), factor, _mm256_loadu_ps(to));
                    if !factors.minimums.is_empty() {
                        let minimum = _mm256_loadu_ps(factors.minimums.lanes::<8>(at).as_ptr());
                        let sum = of_row * rows.sums[run * R + row] as f32;
                        total = _mm256_fmadd_ps(_mm256_set1_ps(sum), minimum, total);
                    }
                    _mm256_storeu_ps(to, total);
                }
            }
        }
    }
}
