//! Scales and minimums of the runs of a [`BlockMatrix`](super::BlockMatrix). A product of one row would read half as many bytes of them as
//! of numbers of 4 bits, so they stay in the 16 bits in which most checkpoints have them.

#[cfg(target_arch = "aarch64")]
use std::arch::aarch64::{float32x4_t, vcombine_u16, vld1_u16, vld1q_f32};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m512;

use half::f16;

use super::is_exact;
use super::panel::PANEL;
#[cfg(target_arch = "x86_64")]
use super::panel::Weight;
#[cfg(target_arch = "aarch64")]
use crate::neon::widen_f16;

/// A value for each run: `[panels, runs, 32]`.
#[derive(Clone, Debug)]
pub(super) enum RunValues {
    F16(Vec<f16>),
    F32(Vec<f32>),
}

impl RunValues {
    /// Keeps values in 16 bits if these hold each of them exactly, and the processor converts them fast enough.
    pub fn new(values: Vec<f32>) -> Self {
        match !values.is_empty() && is_exact(&values, |value| f16::from_f32(value).to_f32()) {
            true => Self::F16(values.into_iter().map(f16::from_f32).collect()),
            false => Self::F32(values),
        }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::F16(values) => 2 * values.len(),
            Self::F32(values) => 4 * values.len(),
        }
    }

    /// The values of all panels.
    pub fn all(&self) -> RunSlice<'_> {
        match self {
            Self::F16(values) => RunSlice::F16(values),
            Self::F32(values) => RunSlice::F32(values),
        }
    }

    /// The values of a panel with `runs` for each output, `[runs, 32]`; empty if there are none.
    pub fn panel(&self, panel: usize, runs: usize) -> RunSlice<'_> {
        let part = panel * runs * PANEL..(panel + 1) * runs * PANEL;
        match self {
            Self::F16(values) => RunSlice::F16(values.get(part).unwrap_or_default()),
            Self::F32(values) => RunSlice::F32(values.get(part).unwrap_or_default()),
        }
    }
}

/// Values of some runs, `[runs, 32]`.
#[derive(Clone, Copy, Debug)]
pub(super) enum RunSlice<'a> {
    F16(&'a [f16]),
    F32(&'a [f32]),
}

impl RunSlice<'_> {
    /// Number of values.
    #[inline(always)]
    pub fn len(self) -> usize {
        match self {
            Self::F16(values) => values.len(),
            Self::F32(values) => values.len(),
        }
    }

    /// True if there are no values.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// `L` values from `at` on.
    #[inline(always)]
    pub fn lanes<const L: usize>(self, at: usize) -> [f32; L] {
        let mut lanes = [0f32; L];
        match self {
            Self::F16(values) => {
                lanes.iter_mut().zip(&values[at..][..L]).for_each(|(lane, value)| *lane = value.to_f32());
            }
            Self::F32(values) => lanes.copy_from_slice(&values[at..][..L]),
        }
        lanes
    }

    /// Sixteen values.
    ///
    /// # Safety
    /// There are sixteen from `at` on, and the processor has AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub unsafe fn load_16(self, at: usize) -> __m512 {
        // SAFETY: the caller guarantees it.
        unsafe {
            match self {
                Self::F16(values) => f16::load_16(values.as_ptr().add(at)),
                Self::F32(values) => f32::load_16(values.as_ptr().add(at)),
            }
        }
    }

    /// Four values.
    ///
    /// # Safety
    /// There are four from `at` on.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    pub unsafe fn load_4(self, at: usize) -> float32x4_t {
        // SAFETY: the caller guarantees it.
        unsafe {
            match self {
                Self::F16(values) => {
                    let four = vld1_u16(values.as_ptr().add(at).cast());
                    widen_f16(vcombine_u16(four, four))[0]
                }
                Self::F32(values) => vld1q_f32(values.as_ptr().add(at)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that 16 bits hold are the same as in 32 bits, in half the bytes; others stay in 32.
    #[test]
    fn values_of_16_bits_are_exact() {
        let runs = 3;
        let halves: Vec<f32> = (0..2 * runs * PANEL).map(|at| f16::from_f32(0.37 * at as f32 - 9.0).to_f32()).collect();
        let mut full = halves.clone();
        full[runs * PANEL] = 0.1;
        for (values, size) in [(halves, if super::super::widens_16_bits() { 2 } else { 4 }), (full, 4)] {
            let stored = RunValues::new(values.clone());
            assert_eq!(stored.bytes(), size * values.len());
            assert_eq!(stored.all().lanes(5), [values[5], values[6]]);
            let panel = stored.panel(1, runs);
            for (at, of_run) in values[runs * PANEL..].chunks_exact(PANEL).enumerate() {
                assert_eq!(panel.lanes::<PANEL>(at * PANEL), of_run);
            }
        }
        let none = RunValues::new(Vec::new());
        assert!(none.all().is_empty() && none.panel(1, runs).is_empty());
    }
}
