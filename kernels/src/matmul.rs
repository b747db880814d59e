//! PackedMatrix products of plain memory.

/// Values that several threads fill, each its own.
#[derive(Clone, Copy)]
pub(crate) struct Target(*mut f32);

// SAFETY: what is written through it is `unsafe`, and has to say why no two threads write the same value.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

impl Target {
    pub(crate) fn new(values: &mut [f32]) -> Self {
        Self(values.as_mut_ptr())
    }

    /// The place of a value.
    pub(crate) fn at(self, index: usize) -> *mut f32 {
        self.0.wrapping_add(index)
    }
}

/// `out = a b` on this thread alone, `a` `[m, depth]` and `b` `[depth, n]` with their strides; rows of `out` `[m, n]` lie
/// `out.1` values apart.
///
/// # Panics
/// When a source is too short for its shape and strides.
///
/// # Safety
/// `out` can be written at all its values, and nothing else reads or writes them meanwhile.
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
        "a product's source is short"
    );
    // SAFETY: the sources are long enough, as was just seen; the caller answers for `out`.
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
