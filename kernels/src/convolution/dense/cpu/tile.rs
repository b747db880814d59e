//! The inner sums of a convolution: eight outputs of 32 frames, in AVX-512 where the processor has it.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps};

/// Frames of a row of sums: two of the widest vectors.
pub(super) const LANES: usize = 32;
/// Outputs whose sums fill the registers of the processor.
pub(super) const OUTPUTS: usize = 8;

/// The frames that 32 outputs see, and the weights of eight channels.
pub(super) struct Tile<'a> {
    /// `[inputs, width]`, from the first frame on that the first output sees.
    pub seen: &'a [f32],
    pub width: usize,
    /// `[inputs, taps, 8]`
    pub weights: &'a [f32],
    pub taps: usize,
    pub dilation: usize,
}

impl Tile<'_> {
    /// Writes the sums of each output.
    ///
    /// # Panics
    /// When frames that an output sees are missing.
    pub fn multiply(&self, sums: &mut [[f32; LANES]; OUTPUTS]) {
        let inputs = self.weights.len() / (OUTPUTS * self.taps);
        let end = (inputs - 1) * self.width + (self.taps - 1) * self.dilation + LANES;
        assert!(self.seen.len() >= end && self.weights.len() == inputs * self.taps * OUTPUTS, "convolution: a tile");
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512, and the lengths are checked above.
            return unsafe { self.multiply_512(inputs, sums) };
        }
        pulp::Arch::new().dispatch(Multiply(self, sums));
    }

    /// # Safety
    /// The processor has AVX-512; the frames that the outputs see and the weights of `inputs` channels are there.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn multiply_512(&self, inputs: usize, sums: &mut [[f32; LANES]; OUTPUTS]) {
        let mut rows = [[_mm512_setzero_ps(); 2]; OUTPUTS];
        let mut weights = self.weights.as_ptr();
        for input in 0..inputs {
            for tap in 0..self.taps {
                // SAFETY: the caller guarantees 32 frames from here on.
                let (one, two) = unsafe {
                    let seen = self.seen.as_ptr().add(input * self.width + tap * self.dilation);
                    (_mm512_loadu_ps(seen), _mm512_loadu_ps(seen.add(16)))
                };
                for (output, row) in rows.iter_mut().enumerate() {
                    // SAFETY: the caller guarantees eight weights for each input and tap.
                    let weight = _mm512_set1_ps(unsafe { *weights.add(output) });
                    row[0] = _mm512_fmadd_ps(weight, one, row[0]);
                    row[1] = _mm512_fmadd_ps(weight, two, row[1]);
                }
                // SAFETY: at most one past the end.
                weights = unsafe { weights.add(OUTPUTS) };
            }
        }
        for (row, sums) in rows.iter().zip(sums) {
            // SAFETY: a row of sums has 32 values.
            unsafe {
                _mm512_storeu_ps(sums.as_mut_ptr(), row[0]);
                _mm512_storeu_ps(sums.as_mut_ptr().add(16), row[1]);
            }
        }
    }
}

/// Frames at a time in the body for any processor. On ARM the sums of eight fill half of the registers.
const PART: usize = if cfg!(target_arch = "aarch64") { 8 } else { LANES };

/// [`Tile::multiply`] for any processor.
struct Multiply<'a, 'b>(&'a Tile<'b>, &'a mut [[f32; LANES]; OUTPUTS]);

impl pulp::NullaryFnOnce for Multiply<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self(tile, sums) = self;
        let (weights, _) = tile.weights.as_chunks::<OUTPUTS>();
        for first in (0..LANES).step_by(PART) {
            let mut rows = [[0f32; PART]; OUTPUTS];
            for (seen, weights) in tile.seen.chunks(tile.width).zip(weights.chunks_exact(tile.taps)) {
                for (tap, weights) in weights.iter().enumerate() {
                    let seen = &seen[tap * tile.dilation + first..][..PART];
                    for (row, weight) in rows.iter_mut().zip(weights) {
                        for (sum, seen) in row.iter_mut().zip(seen) {
                            *sum = weight.mul_add(*seen, *sum);
                        }
                    }
                }
            }
            for (sums, row) in sums.iter_mut().zip(&rows) {
                sums[first..][..PART].copy_from_slice(row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The AVX-512 body equals the portable one, to the last bit.
    #[test]
    fn both_bodies_are_equal() {
        let value = |at: usize| ((at * 7919 + 13) % 1009) as f32 / 504.5 - 1.0;
        for (inputs, taps, dilation) in [(1, 1, 1), (5, 3, 2), (17, 11, 5)] {
            let width = LANES + (taps - 1) * dilation + 3;
            let seen: Vec<f32> = (0..inputs * width).map(value).collect();
            let weights: Vec<f32> = (0..inputs * taps * OUTPUTS).map(|at| value(at + 7)).collect();
            let tile = Tile { seen: &seen, width, weights: &weights, taps, dilation };
            let (mut one, mut two) = ([[0f32; LANES]; OUTPUTS], [[0f32; LANES]; OUTPUTS]);
            tile.multiply(&mut one);
            pulp::NullaryFnOnce::call(Multiply(&tile, &mut two));
            assert_eq!(one, two, "{inputs} {taps} {dilation}");
            assert!(one[0][0] != 0.0);
        }
    }
}
