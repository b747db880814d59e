use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::Slice;

use super::StateCacheOps;
use crate::flex::{contiguous, integers, tensor, values};

impl StateCacheOps for Flex {
    fn cache_write(cache: FloatTensor<Self>, new: FloatTensor<Self>, at: usize) -> FloatTensor<Self> {
        let shape = new.shape();
        let region = [0..shape[0], 0..shape[1], at..at + shape[2], 0..shape[3]].map(Slice::from);
        Self::float_slice_assign(cache, &region, new)
    }

    fn cache_write_at(cache: FloatTensor<Self>, new: FloatTensor<Self>, at: IntTensor<Self>) -> FloatTensor<Self> {
        let first = integers(&contiguous(at))[0] as usize;
        Self::cache_write(cache, new, first)
    }

    fn cache_prepend(
        cache: FloatTensor<Self>,
        _places: IntTensor<Self>,
        new: FloatTensor<Self>,
        rows: Vec<(usize, bool)>,
    ) -> FloatTensor<Self> {
        let (columns, shape) = (cache.shape()[2], new.shape());
        let (outer, more, inner) = (shape[1], shape[2], shape[3]);
        let [cache, new] = values([cache, new]);
        let (cached_len, new_len) = (columns * inner, more * inner);
        let mut out = Vec::with_capacity(rows.len() * outer * (cached_len + new_len));
        for (row, (slot, has_state)) in rows.iter().enumerate() {
            for at in 0..outer {
                match has_state {
                    true => out.extend_from_slice(&cache[(slot * outer + at) * cached_len..][..cached_len]),
                    false => out.resize(out.len() + cached_len, 0.0),
                }
                out.extend_from_slice(&new[(row * outer + at) * new_len..][..new_len]);
            }
        }
        tensor(out, [rows.len(), outer, columns + more, inner].into())
    }

    fn cache_store(
        cache: FloatTensor<Self>,
        _places: IntTensor<Self>,
        window: FloatTensor<Self>,
        rows: Vec<(usize, bool)>,
    ) -> FloatTensor<Self> {
        let (shape, width) = (cache.shape(), window.shape()[2]);
        let (outer, columns, inner) = (shape[1], shape[2], shape[3]);
        let [mut out, window] = values([cache, window]);
        let (cached_len, window_len) = (columns * inner, width * inner);
        for (row, (slot, _)) in rows.iter().enumerate() {
            for at in 0..outer {
                let last = &window[(row * outer + at) * window_len..][window_len - cached_len..window_len];
                out[(slot * outer + at) * cached_len..][..cached_len].copy_from_slice(last);
            }
        }
        tensor(out, shape)
    }
}
