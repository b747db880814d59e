//! The keys that queries see, as kernels find them.

use cubecl::prelude::*;

use crate::cache::ring::FACTS;

/// The score of a key that a query does not see, and the largest score before the first key.
pub const UNSEEN: f32 = -3.0e38;

/// The keys of a row that some queries see.
#[derive(CubeType)]
pub struct KeyRange {
    /// The first key that any of the queries sees.
    pub from: usize,
    /// The key after the last one.
    pub to: usize,
    /// The first new key that is real.
    pub new_from: usize,
    /// Slot of the row's stream.
    pub slot: usize,
    /// Frames that the stream had before the step.
    pub written: usize,
}

/// The keys that the queries whose own keys are `own` to `last` see. A ring has `columns`.
#[cube]
#[allow(clippy::too_many_arguments, reason = "a kernel's numbers come one by one")]
pub fn key_range(
    packed: &Tensor<i32>,
    row: usize,
    columns: usize,
    own: usize,
    last: usize,
    chunk: usize,
    left: usize,
    #[comptime] has_ring: bool,
    #[comptime] has_chunks: bool,
) -> KeyRange {
    let facts = row * FACTS;
    let mut written = 0usize.runtime();
    let mut slot = 0usize.runtime();
    if comptime!(has_ring) {
        slot = packed[facts] as usize;
        written = packed[facts + 1] as usize;
    }
    let new_from = columns + packed[facts + 2] as usize;
    let new_to = columns + packed[facts + 3] as usize;
    let kept_from = columns - min(columns, written);
    let mut from = kept_from;
    if kept_from == columns {
        from = new_from;
    }
    let mut to = new_to;
    if new_to <= new_from {
        to = columns;
    }
    if comptime!(has_chunks) {
        from = max(from, first_seen(own, chunk, left));
        to = min(to, (last / chunk + 1) * chunk);
    }
    KeyRange { from, to, new_from, slot, written }
}

/// The first key that the query of key `own` sees.
#[cube]
pub fn first_seen(own: usize, chunk: usize, left: usize) -> usize {
    let number = own / chunk;
    (number - min(number, left)) * chunk
}
