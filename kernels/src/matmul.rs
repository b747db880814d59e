//! Matrix products of plain slices.

/// An output slice that several threads write at the same time, each to its own values.
#[derive(Clone, Copy)]
pub(crate) struct SharedOutput(*mut f32);

// SAFETY: every write through the pointer is `unsafe` and states why no two threads write the same value.
unsafe impl Send for SharedOutput {}
// SAFETY: as above.
unsafe impl Sync for SharedOutput {}

impl SharedOutput {
    pub(crate) fn new(values: &mut [f32]) -> Self {
        Self(values.as_mut_ptr())
    }

    /// Pointer to the value at `index`.
    pub(crate) fn at(self, index: usize) -> *mut f32 {
        self.0.wrapping_add(index)
    }
}

/// Computes `out = a b` on this thread: `a` `[m, depth]` and `b` `[depth, n]` with their strides; rows of `out` `[m, n]` lie `out.1`
/// values apart.
///
/// # Panics
/// When `a` or `b` is too short for its shape and strides.
///
/// # Safety
/// All values of `out` are writable, and nothing else accesses them during the call.
pub(crate) unsafe fn product(
    [m, n, depth]: [usize; 3],
    out: (*mut f32, usize),
    a: (&[f32], [usize; 2]),
    b: (&[f32], [usize; 2]),
) {
    if m == 0 || n == 0 {
        return;
    }
    let last = |[rows, columns]: [usize; 2], [down, along]: [usize; 2]| (rows - 1) * down + (columns - 1) * along;
    assert!(
        depth > 0 && last([m, depth], a.1) < a.0.len() && last([depth, n], b.1) < b.0.len(),
        "product: lengths of a and b"
    );
    // SAFETY: the lengths of `a` and `b` are checked above; the caller guarantees `out`.
    unsafe {
        gemm::gemm(
            m,
            n,
            depth,
            out.0,
            1,
            out.1 as isize,
            false,
            a.0.as_ptr(),
            a.1[1] as isize,
            a.1[0] as isize,
            b.0.as_ptr(),
            b.1[1] as isize,
            b.1[0] as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
