//! Attention of one query of each row over a range of cached keys and values, for decoders that emit one token per step. On GPUs it is one
//! launch with a cube per head; on the CPU [`cpu`] keeps the keys and values of a head in the order in which a query reads them.

pub mod cpu;
#[cfg(feature = "wgpu")]
mod gpu;
mod reference;

use std::ops::Range;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{Device, Int, Tensor, TensorData};

/// The range of keys that the query of each row attends to.
#[derive(Clone, Debug)]
pub struct KeyRanges {
    rows: Vec<Range<usize>>,
    /// `[rows, 2]`, flat: start and end.
    packed: Tensor<1, Int>,
}

impl KeyRanges {
    /// `rows` has one range per row; no range is empty.
    pub fn new(rows: Vec<Range<usize>>, device: &Device) -> Self {
        let packed: Vec<i32> = rows.iter().flat_map(|row| [row.start as i32, row.end as i32]).collect();
        let packed = Tensor::from_data(TensorData::new(packed, [rows.len() * 2]), device);
        Self { rows, packed }
    }

    /// As [`KeyRanges::new`] with the tensor of starts and ends, `[rows, 2]`, flat, which a caller has on the device; it may be longer.
    pub fn with_packed(rows: Vec<Range<usize>>, packed: Tensor<1, Int>) -> Self {
        debug_assert!(packed.dims()[0] >= 2 * rows.len(), "key ranges: a start and an end for each row");
        Self { rows, packed }
    }
}

/// Attention of one query per row, `[rows, heads, 1, head]`, already scaled, over the keys and values `[rows, heads, columns, head]`
/// in its range; on GPUs these may have 16 bits. Returns `[rows, 1, heads * head]`.
pub fn attend(query: Tensor<4>, keys: Tensor<4>, values: Tensor<4>, ranges: &KeyRanges) -> Tensor<3> {
    let (query, keys, values) = (query.into_dispatch(), keys.into_dispatch(), values.into_dispatch());
    let packed = ranges.packed.clone().into_dispatch();
    Tensor::from_dispatch(Dispatch::single_query_attention(query, keys, values, packed, ranges.rows.clone()))
}

/// True if GPUs compute [`attend`] of this many keys and values of a head in one launch; else it is several of burn's
/// operations, which no recording can hold.
pub fn is_one_launch(keys: usize, head: usize) -> bool {
    keys <= MAX_KEYS && head <= MAX_HEAD
}

/// Largest number of keys of a query: their weights and the other buffers fit into the 16 KiB of shared memory of every device.
const MAX_KEYS: usize = 2048;
/// The largest head.
const MAX_HEAD: usize = 256;

#[backend_extension(Flex, Cube: cfg(feature = "wgpu"))]
pub(crate) trait SingleQueryOps: Backend {
    fn single_query_attention(
        query: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        ranges: IntTensor<Self>,
        rows: Vec<Range<usize>>,
    ) -> FloatTensor<Self>;
}
