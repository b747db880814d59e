//! Instructions of ARM processors for which the standard library has no stable functions.

use std::arch::aarch64::{float32x4_t, int8x16_t, int32x4_t, uint8x16_t, uint16x8_t};
use std::arch::asm;

/// Adds to each sum the products of its four `weights` with the four numbers from `4 * QUAD` on.
///
/// # Safety
/// The function that this is inlined into enables the feature `dotprod`, and the processor has it.
#[inline(always)]
pub(crate) unsafe fn sdot<const QUAD: u8>(mut sums: int32x4_t, weights: int8x16_t, numbers: int8x16_t) -> int32x4_t {
    // SAFETY: the instruction reads and writes its operands alone; the caller guarantees that the processor has it.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {weights:v}.16b, {numbers:v}.4b[{quad}]",
            sums = inout(vreg) sums, weights = in(vreg) weights, numbers = in(vreg) numbers, quad = const QUAD,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

/// As [`sdot`], with unsigned numbers.
///
/// # Safety
/// The function that this is inlined into enables the feature `i8mm`, and the processor has it.
#[inline(always)]
pub(crate) unsafe fn sudot<const QUAD: u8>(mut sums: int32x4_t, weights: int8x16_t, numbers: uint8x16_t) -> int32x4_t {
    // SAFETY: as in `sdot`.
    unsafe {
        asm!(
            "sudot {sums:v}.4s, {weights:v}.16b, {numbers:v}.4b[{quad}]",
            sums = inout(vreg) sums, weights = in(vreg) weights, numbers = in(vreg) numbers, quad = const QUAD,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

/// Converts numbers of 16 bits to f32.
#[inline(always)]
pub(crate) fn widen_f16(numbers: uint16x8_t) -> [float32x4_t; 2] {
    let (one, two): (float32x4_t, float32x4_t);
    // SAFETY: every processor has the instructions, which read and write their operands alone.
    unsafe {
        asm!(
            "fcvtl {one:v}.4s, {numbers:v}.4h", "fcvtl2 {two:v}.4s, {numbers:v}.8h",
            one = out(vreg) one, two = lateout(vreg) two, numbers = in(vreg) numbers,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    [one, two]
}
