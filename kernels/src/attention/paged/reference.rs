use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};

use super::cpu::PAGE;
use super::{Form, Heads, PageCacheOps, StoredStep};
use crate::flex::{integers, tensor, values};
use crate::norm::rms_norm_rows;
use crate::reference::{attend, dot};

impl PageCacheOps for Flex {
    fn store_in_pages(step: StoredStep<Self>, form: Form) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let StoredStep { inputs, rotations, norms, tokens, pages, cache, epsilon, scale } = step;
        let shape = cache.shape();
        let [inputs, rotations, norms, mut cache] = values([inputs, rotations, norms, cache]);
        let [tokens, pages] = [&tokens, &pages].map(integers);
        let Form { heads: Heads { queries, keys, width: head }, width, has_norms, .. } = form;
        let half = head / 2;
        let count = inputs.len() / form.heads.inputs();
        let mut out = Vec::with_capacity(count * queries * head);
        for (row, token) in inputs.chunks_exact(form.heads.inputs()).zip(tokens.as_chunks::<2>().0) {
            let [sequence, position] = token.map(|value| value as usize);
            let page = pages[sequence * width + form.page_at(position)] as usize * form.heads.page();
            let (cosines, sines) = rotations[position * head..][..head].split_at(half);
            for (index, x) in row.chunks_exact(head).enumerate() {
                if index >= queries + keys {
                    let at = (keys + index - queries - keys) * head * PAGE + position % PAGE * head;
                    cache[page + at..][..head].copy_from_slice(x);
                    continue;
                }
                let mut x = x.to_vec();
                if has_norms {
                    let norm = &norms[if index < queries { 0 } else { head }..][..head];
                    rms_norm_rows(&x.clone(), norm, epsilon, &mut x);
                }
                let turned = |at: usize| match at < half {
                    true => x[at] * cosines[at] - x[at + half] * sines[at],
                    false => x[at] * cosines[at - half] + x[at - half] * sines[at - half],
                };
                if index < queries {
                    out.extend((0..head).map(|at| turned(at) * scale));
                } else {
                    let to = page + (index - queries) * head * PAGE + position % PAGE;
                    (0..head).for_each(|at| cache[to + at * PAGE] = turned(at));
                }
            }
        }
        (tensor(out, [count, queries * head].into()), tensor(cache, shape))
    }

    fn attend_to_pages(
        queries: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        pages: IntTensor<Self>,
        cache: FloatTensor<Self>,
        form: Form,
    ) -> FloatTensor<Self> {
        let shape = queries.shape();
        let [queries, cache] = values([queries, cache]);
        let [tokens, pages] = [&tokens, &pages].map(integers);
        let Form { heads: Heads { queries: of_queries, keys, width: head }, width, .. } = form;
        let mut out = Vec::with_capacity(queries.len());
        for (row, token) in queries.chunks_exact(of_queries * head).zip(tokens.as_chunks::<2>().0) {
            let [sequence, position] = token.map(|value| value as usize);
            let page = |at: usize| pages[sequence * width + form.page_at(at)] as usize * form.heads.page();
            let first = form.first_seen(position);
            for (index, query) in row.chunks_exact(head).enumerate() {
                let of = index * keys / of_queries;
                let key = |at: usize| {
                    let from = page(at) + of * head * PAGE + at % PAGE;
                    cache[from..].iter().step_by(PAGE).take(head).copied().collect::<Vec<f32>>()
                };
                let value = |at: usize| cache[page(at) + ((keys + of) * PAGE + at % PAGE) * head..][..head].to_vec();
                let scores: Vec<f32> = (first..=position).map(|at| dot(query, &key(at))).collect();
                let mut sum = vec![0.0; head];
                attend(&scores, (first..=position).map(value), &mut sum);
                out.extend(sum);
            }
        }
        tensor(out, shape)
    }
}
