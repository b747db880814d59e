//! The inner product of [`BlockMatrix`](super::BlockMatrix) with inputs of 32 bits: up to eight rows times one panel of 32 outputs, in
//! AVX-512 where the processor has it.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m512, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm512_cvtepi8_epi32, _mm512_cvtepi32_ps, _mm512_cvtepu8_epi32,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_permutexvar_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_srli_epi32,
    _mm512_storeu_ps,
};

use super::factors::RunSlice;
use super::panel::{PANEL, ROWS};

/// Distance of the prefetch ahead of the read, in bytes. It goes through all caches: a processor has few lines in flight past them.
#[cfg(target_arch = "x86_64")]
const PREFETCH_BYTES: usize = 2048;

/// Factors that turn the sums over the numbers of a panel into products.
#[derive(Clone, Copy)]
pub(super) struct Factors<'a> {
    pub scales: RunSlice<'a>,
    /// Empty where all are zero.
    pub minimums: RunSlice<'a>,
    /// `[runs, width]`: the sum of the inputs of each run and row; read where there are minimums.
    pub run_sums: &'a [f32],
    pub run: usize,
}

/// The numbers of a matrix in panels of 32 outputs.
pub(super) trait NumberPanels: Copy + Sync {
    /// The numbers of an even input and the next, for `L` outputs of one panel from `first` on.
    fn pair<const L: usize>(self, panel: usize, inputs: usize, pair: usize, first: usize) -> [[f32; L]; 2];

    /// As [`NumberPanels::pair`], in vectors.
    ///
    /// # Safety
    /// The panel has this pair, and the processor has AVX-512.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load_pair(self, panel: usize, inputs: usize, pair: usize, table: __m512) -> [[__m512; 2]; 2];

    /// What [`NumberPanels::load_pair`] looks numbers up in.
    #[cfg(target_arch = "x86_64")]
    fn table(self) -> [f32; 16] {
        [0.0; 16]
    }

    /// Number of values of all panels.
    fn count(self) -> usize;
}

#[derive(Clone, Copy)]
pub(super) struct FourBits<'a> {
    pub bits: &'a [u8],
    pub lowest: i8,
}

impl NumberPanels for FourBits<'_> {
    #[inline(always)]
    fn pair<const L: usize>(self, panel: usize, inputs: usize, pair: usize, first: usize) -> [[f32; L]; 2] {
        let bytes = &self.bits[(panel * inputs / 2 + pair) * PANEL + first..][..L];
        let mut numbers = [[0f32; L]; 2];
        let lowest = f32::from(self.lowest);
        for (lane, byte) in bytes.iter().enumerate() {
            numbers[0][lane] = f32::from(byte & 15) + lowest;
            numbers[1][lane] = f32::from(byte >> 4) + lowest;
        }
        numbers
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load_pair(self, panel: usize, inputs: usize, pair: usize, table: __m512) -> [[__m512; 2]; 2] {
        // SAFETY: the caller guarantees 32 bytes. The lookup reads the lowest 4 bits of each index. A prefetch of an invalid address
        // has no effect.
        unsafe {
            let from = self.bits.as_ptr().add((panel * inputs / 2 + pair) * PANEL);
            _mm_prefetch::<_MM_HINT_T0>(from.cast::<i8>().wrapping_add(PREFETCH_BYTES));
            let one = _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()));
            let two = _mm512_cvtepu8_epi32(_mm_loadu_si128(from.add(16).cast()));
            // No closures: they would be compiled without AVX-512 where they are not inlined.
            [
                [_mm512_permutexvar_ps(one, table), _mm512_permutexvar_ps(two, table)],
                [
                    _mm512_permutexvar_ps(_mm512_srli_epi32::<4>(one), table),
                    _mm512_permutexvar_ps(_mm512_srli_epi32::<4>(two), table),
                ],
            ]
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn table(self) -> [f32; 16] {
        std::array::from_fn(|bits| bits as f32 + f32::from(self.lowest))
    }

    fn count(self) -> usize {
        2 * self.bits.len()
    }
}

#[derive(Clone, Copy)]
pub(super) struct EightBits<'a>(pub &'a [i8]);

impl NumberPanels for EightBits<'_> {
    #[inline(always)]
    fn pair<const L: usize>(self, panel: usize, inputs: usize, pair: usize, first: usize) -> [[f32; L]; 2] {
        let mut wide = [[0f32; L]; 2];
        for (input, wide) in wide.iter_mut().enumerate() {
            let numbers = &self.0[(panel * inputs + 2 * pair + input) * PANEL + first..][..L];
            for (wide, number) in wide.iter_mut().zip(numbers) {
                *wide = f32::from(*number);
            }
        }
        wide
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load_pair(self, panel: usize, inputs: usize, pair: usize, _: __m512) -> [[__m512; 2]; 2] {
        // SAFETY: the caller guarantees 64 numbers.
        unsafe {
            let from = self.0.as_ptr().add((panel * inputs + 2 * pair) * PANEL);
            _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(PREFETCH_BYTES));
            [
                [
                    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))),
                    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.add(16).cast()))),
                ],
                [
                    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.add(32).cast()))),
                    _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.add(48).cast()))),
                ],
            ]
        }
    }

    fn count(self) -> usize {
        self.0.len()
    }
}

/// The numbers of one panel, converted.
#[derive(Clone, Copy)]
pub(super) struct WideNumbers<'a>(pub &'a [f32]);

impl NumberPanels for WideNumbers<'_> {
    #[inline(always)]
    fn pair<const L: usize>(self, _: usize, _: usize, pair: usize, first: usize) -> [[f32; L]; 2] {
        let mut wide = [[0f32; L]; 2];
        for (input, wide) in wide.iter_mut().enumerate() {
            wide.copy_from_slice(&self.0[(2 * pair + input) * PANEL + first..][..L]);
        }
        wide
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load_pair(self, _: usize, _: usize, pair: usize, _: __m512) -> [[__m512; 2]; 2] {
        // SAFETY: the caller guarantees 64 numbers.
        unsafe {
            let from = self.0.as_ptr().add(2 * pair * PANEL);
            [
                [_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(16))],
                [_mm512_loadu_ps(from.add(32)), _mm512_loadu_ps(from.add(48))],
            ]
        }
    }

    fn count(self) -> usize {
        self.0.len()
    }
}

/// Converts the numbers of a panel to f32.
pub(super) struct Widen<'a, N> {
    pub numbers: N,
    pub panel: usize,
    pub inputs: usize,
    pub wide: &'a mut [f32],
}

impl<N: NumberPanels> pulp::NullaryFnOnce for Widen<'_, N> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (pair, wide) in self.wide.chunks_exact_mut(2 * PANEL).enumerate() {
            wide.copy_from_slice(self.numbers.pair::<PANEL>(self.panel, self.inputs, pair, 0).as_flattened());
        }
    }
}

/// Multiplies `x` `[inputs, width]` with one panel into the first `width` rows of `sums`; `width` is 1, 2, 4 or 8.
pub(super) fn multiply_runs<N: NumberPanels>(
    width: usize,
    x: &[f32],
    numbers: N,
    panel: usize,
    factors: &Factors,
    sums: &mut [[f32; PANEL]; ROWS],
) {
    let inputs = x.len() / width;
    let runs = inputs / factors.run;
    assert!(
        x.len() == inputs * width
            && inputs == runs * factors.run
            && (panel + 1) * inputs * PANEL <= numbers.count()
            && factors.scales.len() == runs * PANEL
            && (factors.minimums.is_empty()
                || factors.minimums.len() == runs * PANEL && factors.run_sums.len() == runs * width),
        "block matrix: inputs of a panel"
    );
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has AVX-512, and the lengths are checked above.
        unsafe {
            match width {
                1 => runs_512::<1, N>(x, numbers, panel, factors, sums),
                2 => runs_512::<2, N>(x, numbers, panel, factors, sums),
                4 => runs_512::<4, N>(x, numbers, panel, factors, sums),
                _ => runs_512::<8, N>(x, numbers, panel, factors, sums),
            }
        }
        return;
    }
    pulp::Arch::new().dispatch(MultiplyRuns { width, x, numbers, panel, factors, sums });
}

/// [`multiply_runs`] in AVX-512, with the sums of a run in registers. The order of the additions does not depend on the number of
/// rows, so a row has the same result to the last bit in every block.
///
/// # Safety
/// The processor has AVX-512; the lengths are those that [`multiply_runs`] checks, for `R` rows.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn runs_512<const R: usize, N: NumberPanels>(
    x: &[f32],
    numbers: N,
    panel: usize,
    factors: &Factors,
    sums: &mut [[f32; PANEL]; ROWS],
) {
    let inputs = x.len() / R;
    let table = numbers.table();
    // SAFETY: sixteen values.
    let table = unsafe { _mm512_loadu_ps(table.as_ptr()) };
    let mut totals = [[_mm512_setzero_ps(); 2]; R];
    let mut x = x.as_ptr();
    for run in 0..inputs / factors.run {
        let mut rows = [[_mm512_setzero_ps(); 2]; R];
        for pair in 0..factors.run / 2 {
            // SAFETY: the caller guarantees that the panel has every input of every run.
            let loaded = unsafe { numbers.load_pair(panel, inputs, run * factors.run / 2 + pair, table) };
            for [one, two] in loaded {
                for (row, sums) in rows.iter_mut().enumerate() {
                    // SAFETY: as above.
                    let x = _mm512_set1_ps(unsafe { *x.add(row) });
                    sums[0] = _mm512_fmadd_ps(x, one, sums[0]);
                    sums[1] = _mm512_fmadd_ps(x, two, sums[1]);
                }
                // SAFETY: at most one past the end.
                x = unsafe { x.add(R) };
            }
        }
        for half in 0..2 {
            let at = run * PANEL + 16 * half;
            // SAFETY: a run has 32 scales and, where there are any, 32 minimums and a sum for each row.
            unsafe {
                let scale = factors.scales.load_16(at);
                for (total, row) in totals.iter_mut().zip(&rows) {
                    total[half] = _mm512_fmadd_ps(scale, row[half], total[half]);
                }
                if !factors.minimums.is_empty() {
                    let minimum = factors.minimums.load_16(at);
                    for (row, total) in totals.iter_mut().enumerate() {
                        let x = _mm512_set1_ps(*factors.run_sums.as_ptr().add(run * R + row));
                        total[half] = _mm512_fmadd_ps(x, minimum, total[half]);
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

/// [`multiply_runs`] for any processor.
pub(super) struct MultiplyRuns<'a, 'b, N> {
    pub width: usize,
    pub x: &'a [f32],
    pub numbers: N,
    pub panel: usize,
    pub factors: &'a Factors<'b>,
    pub sums: &'a mut [[f32; PANEL]; ROWS],
}

impl<N: NumberPanels> pulp::NullaryFnOnce for MultiplyRuns<'_, '_, N> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        match self.width {
            1 => self.rows::<1, { lanes(1) }>(),
            2 => self.rows::<2, { lanes(2) }>(),
            4 => self.rows::<4, { lanes(4) }>(),
            _ => self.rows::<8, { lanes(8) }>(),
        }
    }
}

/// Outputs that rows meet at a time in the body for any processor. On ARM the sums of 64 products fill half of the registers.
const fn lanes(rows: usize) -> usize {
    if cfg!(target_arch = "aarch64") && rows > 2 { 64 / rows } else { PANEL }
}

impl<N: NumberPanels> MultiplyRuns<'_, '_, N> {
    /// The product of `R` rows, with `L` outputs at a time.
    #[inline(always)]
    fn rows<const R: usize, const L: usize>(self) {
        let (x, _) = self.x.as_chunks::<R>();
        let Factors { scales, minimums, run_sums, run: length } = *self.factors;
        for first in (0..PANEL).step_by(L) {
            let mut totals = [[0f32; L]; R];
            for (run, of_run) in x.chunks_exact(length).enumerate() {
                let mut rows = [[0f32; L]; R];
                for (pair, of_pair) in of_run.as_chunks::<2>().0.iter().enumerate() {
                    let numbers = self.numbers.pair::<L>(self.panel, x.len(), run * length / 2 + pair, first);
                    for (x, numbers) in of_pair.iter().zip(&numbers) {
                        for (row, x) in rows.iter_mut().zip(x) {
                            for (sum, number) in row.iter_mut().zip(numbers) {
                                *sum = x.mul_add(*number, *sum);
                            }
                        }
                    }
                }
                let scales = scales.lanes::<L>(run * PANEL + first);
                for (total, row) in totals.iter_mut().zip(&rows) {
                    for ((total, sum), scale) in total.iter_mut().zip(row).zip(&scales) {
                        *total = scale.mul_add(*sum, *total);
                    }
                }
                if !minimums.is_empty() {
                    let minimums = minimums.lanes::<L>(run * PANEL + first);
                    for (total, x) in totals.iter_mut().zip(&run_sums[run * R..]) {
                        for (total, minimum) in total.iter_mut().zip(&minimums) {
                            *total = x.mul_add(*minimum, *total);
                        }
                    }
                }
            }
            for (sums, totals) in self.sums.iter_mut().zip(&totals) {
                sums[first..][..L].copy_from_slice(totals);
            }
        }
    }
}
