//! Matrix products of plain slices.

/// A result that several threads write, each its own values.
#[derive(Clone, Copy)]
pub(crate) struct SharedOutput {
    first: *mut f32,
    /// True if the values have never been written.
    is_new: bool,
}

// SAFETY: every write through the pointer is `unsafe` and states why no two threads write the same value.
unsafe impl Send for SharedOutput {}
// SAFETY: as above.
unsafe impl Sync for SharedOutput {}

impl SharedOutput {
    pub(crate) fn new(values: &mut [f32]) -> Self {
        Self { first: values.as_mut_ptr(), is_new: false }
    }

    /// Adds `values` to those from `index` on, or writes them if these are new.
    ///
    /// # Safety
    /// There are as many values from `index` on, nothing else accesses them during the call, and they are written once if they are new.
    #[inline(always)]
    pub(crate) unsafe fn add(self, index: usize, values: &[f32]) {
        let to = self.at(index);
        // SAFETY: as the caller promises.
        unsafe {
            if self.is_new {
                to.copy_from_nonoverlapping(values.as_ptr(), values.len());
            } else {
                let to = std::slice::from_raw_parts_mut(to, values.len());
                to.iter_mut().zip(values).for_each(|(to, value)| *to += value);
            }
        }
    }

    /// Pointer to the value at `index`.
    pub(crate) fn at(self, index: usize) -> *mut f32 {
        self.first.wrapping_add(index)
    }

    /// The values from `index` on, to add to: 0 if they are new.
    ///
    /// # Safety
    /// There are `count` values from `index` on; nothing else accesses them while the slice lives, and it is asked for once if they are new.
    pub(crate) unsafe fn sums<'a>(self, index: usize, count: usize) -> &'a mut [f32] {
        let values = self.at(index);
        // SAFETY: as the caller promises; the values are written before a slice refers to them.
        unsafe {
            if self.is_new {
                values.write_bytes(0, count);
            }
            std::slice::from_raw_parts_mut(values, count)
        }
    }
}

/// The place of a product.
pub(crate) enum Destination<'a> {
    /// It becomes the values of this empty vector. No pass over them sets them to 0 beforehand.
    New(&'a mut Vec<f32>),
    /// It is added to these values.
    Added(&'a mut [f32]),
}

impl Destination<'_> {
    /// Lets `write` write the `len` values of a result.
    ///
    /// # Panics
    /// When values to add to have another length.
    ///
    /// # Safety
    /// `write` writes all of the values.
    pub(crate) unsafe fn fill(self, len: usize, write: impl FnOnce(SharedOutput)) {
        match self {
            Destination::New(values) => {
                values.clear();
                values.reserve_exact(len);
                write(SharedOutput { first: values.as_mut_ptr(), is_new: true });
                // SAFETY: there is room for `len` values, and the caller promises that all are written.
                unsafe { values.set_len(len) };
            }
            Destination::Added(values) => {
                assert_eq!(values.len(), len, "length of the values that a product is added to");
                write(SharedOutput::new(values));
            }
        }
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
