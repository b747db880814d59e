//! Causal attention over keys and values in pages, on the CPU. A page has the keys and values of 32 consecutive tokens, of every
//! layer and head, in the order in which a query reads them. Sequences with the same beginning share its pages.
//!
//! A query's sums go over the pages in order, so its result does not depend on the queries beside it.

use half::f16;

use crate::product::gemv::{PANEL, ROWS, multiply};
use crate::vector_math::Softmax;

/// Tokens of a page.
pub const PAGE: usize = PANEL;

/// Size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageShape {
    /// Layers of the model.
    pub layers: usize,
    /// Heads of keys and values.
    pub heads: usize,
    /// Values of a head.
    pub head: usize,
}

/// Precision of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagePrecision {
    /// 32 bits.
    F32,
    /// 16 bits.
    F16,
}

impl PageShape {
    /// Values of the keys of one layer and head.
    fn keys(self) -> usize {
        self.head * PAGE
    }

    /// Values of keys and values of one layer and head. Values are stored in panels of 32 values of a head.
    fn part(self) -> usize {
        self.keys() + self.head.div_ceil(PANEL) * PANEL * PAGE
    }

    /// Bytes of a page.
    pub fn bytes(self, precision: PagePrecision) -> usize {
        let each = match precision {
            PagePrecision::F32 => 4,
            PagePrecision::F16 => 2,
        };
        self.layers * self.heads * self.part() * each
    }
}

/// Keys and values of 32 tokens.
#[derive(Clone, Debug)]
pub struct Page {
    shape: PageShape,
    values: PageValues,
}

/// `[layers, heads]` of keys `[head, 32]` and values `[panels of a head][32 tokens, 32]`.
#[derive(Clone, Debug)]
enum PageValues {
    F32(Vec<f32>),
    F16(Vec<f16>),
}

impl Page {
    /// A page without tokens.
    pub fn new(shape: PageShape, precision: PagePrecision) -> Self {
        let count = shape.layers * shape.heads * shape.part();
        let values = match precision {
            PagePrecision::F32 => PageValues::F32(vec![0.0; count]),
            PagePrecision::F16 => PageValues::F16(vec![f16::ZERO; count]),
        };
        Self { shape, values }
    }

    /// Writes the key and the value of a token, `[head]` each, at place `at` of the page.
    ///
    /// # Panics
    /// When a place is outside the page, or `key` or `value` has another length.
    pub fn write(&mut self, layer: usize, head: usize, at: usize, key: &[f32], value: &[f32]) {
        let shape = self.shape;
        assert!(
            layer < shape.layers
                && head < shape.heads
                && at < PAGE
                && key.len() == shape.head
                && value.len() == shape.head,
            "page: place, and lengths of key and value"
        );
        let from = (layer * shape.heads + head) * shape.part();
        match &mut self.values {
            PageValues::F32(values) => write(&mut values[from..], shape, at, key, value, |value| value),
            PageValues::F16(values) => write(&mut values[from..], shape, at, key, value, f16::from_f32),
        }
    }
}

fn write<T>(to: &mut [T], shape: PageShape, at: usize, key: &[f32], value: &[f32], convert: impl Fn(f32) -> T) {
    let (keys, values) = to.split_at_mut(shape.keys());
    keys[at..].iter_mut().step_by(PAGE).zip(key).for_each(|(to, key)| *to = convert(*key));
    for (panel, value) in value.chunks(PANEL).enumerate() {
        let to = &mut values[(panel * PAGE + at) * PANEL..];
        to.iter_mut().zip(value).for_each(|(to, value)| *to = convert(*value));
    }
}

/// Attention of queries of one sequence to one head of keys and values. `queries` `[rows, head]` are scaled already; row `i` sees the
/// first `visible[i]` tokens of `pages`, at least one. The result goes to `out` `[rows, head]`.
///
/// # Panics
/// When the lengths do not match, or there are fewer pages than a row sees.
pub fn attend(pages: &[&Page], layer: usize, head: usize, queries: &[f32], visible: &[usize], out: &mut [f32]) {
    let Some(shape) = pages.first().map(|page| page.shape) else {
        assert!(visible.is_empty(), "paged attention: pages");
        return;
    };
    assert!(
        layer < shape.layers
            && head < shape.heads
            && queries.len() == visible.len() * shape.head
            && out.len() == queries.len()
            && visible.iter().all(|count| (1..=pages.len() * PAGE).contains(count))
            && pages.iter().all(|page| page.shape == shape),
        "paged attention: lengths of queries, out and pages"
    );
    let block = ROWS * shape.head;
    let blocks = queries.chunks(block).zip(out.chunks_mut(block)).zip(visible.chunks(ROWS));
    let mut work = Block { shape, part: (layer * shape.heads + head) * shape.part(), ..Block::default() };
    for ((queries, out), visible) in blocks {
        work.attend(pages, queries, visible, out);
    }
}

/// Up to eight queries, and memory that is used again for the next eight.
struct Block {
    shape: PageShape,
    /// First value of layer and head in a page.
    part: usize,
    /// `[head or tokens, width]`
    transposed: Vec<f32>,
    /// `[rows, pages * 32]`
    scores: Vec<f32>,
}

impl Default for Block {
    fn default() -> Self {
        let shape = PageShape { layers: 0, heads: 0, head: 0 };
        Self { shape, part: 0, transposed: Vec::new(), scores: Vec::new() }
    }
}

impl Block {
    fn attend(&mut self, pages: &[&Page], queries: &[f32], visible: &[usize], out: &mut [f32]) {
        let (head, rows) = (self.shape.head, visible.len());
        let width = rows.next_power_of_two();
        let most = visible.iter().copied().max().unwrap_or(1);
        let pages = &pages[..most.div_ceil(PAGE)];
        let stride = pages.len() * PAGE;
        self.transposed.clear();
        self.transposed.resize(head * width, 0.0);
        for (row, query) in queries.chunks_exact(head).enumerate() {
            self.transposed.iter_mut().skip(row).step_by(width).zip(query).for_each(|(to, query)| *to = *query);
        }
        self.scores.clear();
        self.scores.resize(rows * stride, 0.0);
        let mut sums = [[0f32; PANEL]; ROWS];
        let keys = self.part..self.part + self.shape.keys();
        for (number, page) in pages.iter().enumerate() {
            match &page.values {
                PageValues::F32(values) => multiply(width, &self.transposed, &values[keys.clone()], &mut sums),
                PageValues::F16(values) => multiply(width, &self.transposed, &values[keys.clone()], &mut sums),
            }
            for (scores, sums) in self.scores.chunks_exact_mut(stride).zip(&sums) {
                scores[number * PAGE..][..PAGE].copy_from_slice(sums);
            }
        }
        for (scores, count) in self.scores.chunks_exact_mut(stride).zip(visible) {
            let (seen, unseen) = scores.split_at_mut(*count);
            pulp::Arch::new().dispatch(Softmax { logits: seen, width: *count });
            unseen.fill(0.0);
        }
        out.fill(0.0);
        for (number, page) in pages.iter().enumerate() {
            // A place past the last token that any row sees may hold what another sequence left.
            let count = PAGE.min(most - number * PAGE);
            self.transposed.clear();
            self.transposed.resize(count * width, 0.0);
            for (row, scores) in self.scores.chunks_exact(stride).enumerate() {
                let weights = &scores[number * PAGE..][..count];
                self.transposed.iter_mut().skip(row).step_by(width).zip(weights).for_each(|(to, weight)| *to = *weight);
            }
            for panel in 0..head.div_ceil(PANEL) {
                let from = self.part + self.shape.keys() + panel * PAGE * PANEL;
                let part = from..from + count * PANEL;
                match &page.values {
                    PageValues::F32(values) => multiply(width, &self.transposed, &values[part], &mut sums),
                    PageValues::F16(values) => multiply(width, &self.transposed, &values[part], &mut sums),
                }
                for ((out, sums), visible) in out.chunks_exact_mut(head).zip(&sums).zip(visible) {
                    if number * PAGE < *visible {
                        out[panel * PANEL..].iter_mut().zip(sums).take(PANEL).for_each(|(out, sum)| *out += sum);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(at: usize) -> f32 {
        (at as f32 * 12.9898).sin() * 1.7
    }

    /// Softmax of products in f64, for queries alone and in company, with pages of either precision; company changes no bit.
    #[test]
    fn attention_sees_the_tokens_before() {
        for (head, precision, tolerance) in
            [(8, PagePrecision::F32, 1e-5), (40, PagePrecision::F32, 1e-5), (64, PagePrecision::F16, 3e-3)]
        {
            let (shape, tokens) = (PageShape { layers: 2, heads: 3, head }, 77);
            let mut pages: Vec<Page> = (0..3).map(|_| Page::new(shape, precision)).collect();
            let key = |at: usize| (0..head).map(|n| value(at * 131 + n * 7 + 1)).collect::<Vec<f32>>();
            let values = |at: usize| (0..head).map(|n| value(at * 57 + n * 3 + 5)).collect::<Vec<f32>>();
            for at in 0..tokens {
                pages[at / PAGE].write(1, 2, at % PAGE, &key(at), &values(at));
            }
            // What another sequence left.
            (0..head).for_each(|_| pages[2].write(1, 2, 20, &vec![f32::NAN; head], &vec![f32::NAN; head]));
            let pages: Vec<&Page> = pages.iter().collect();
            let visible: Vec<usize> = [1, 2, 31, 32, 33, 64, 65, 77, 5, 40].to_vec();
            let queries: Vec<f32> = (0..visible.len() * head).map(|at| value(at * 11)).collect();
            let mut out = vec![0.0; queries.len()];
            attend(&pages, 1, 2, &queries, &visible, &mut out);
            for (row, count) in visible.iter().enumerate() {
                let query = &queries[row * head..][..head];
                let mut alone = vec![0.0; head];
                attend(&pages, 1, 2, query, &[*count], &mut alone);
                assert_eq!(alone, out[row * head..][..head], "row {row}");
                let dot = |key: &[f32]| key.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
                let weights: Vec<f64> = (0..*count).map(|at| dot(&key(at)).exp()).collect();
                let total: f64 = weights.iter().sum();
                for (n, found) in alone.iter().enumerate() {
                    let exact: f64 =
                        weights.iter().enumerate().map(|(at, weight)| weight / total * f64::from(values(at)[n])).sum();
                    let error = (f64::from(*found) - exact).abs();
                    assert!(error < tolerance, "{head} {precision:?}, {count} tokens: {error}");
                }
            }
        }
    }
}
