//! Attention with relative positions (Transformer-XL form), or without, of a few queries over the sliding KV cache of their stream, on
//! the CPU. Keys are stored in the panels of [`crate::product::gemv`]. A stream drops its oldest panels, so nothing moves in memory from
//! step to step, and a copy of a cache shares the panels that are full.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::product::gemv::{PANEL, ROWS, multiply};
use crate::vector_math::softmax;

/// Largest number of queries of one call.
pub const MAX_QUERIES: usize = ROWS;

/// The relative position keys of one block, from the most distant past on: `[heads, panels, head, 32]`.
#[derive(Clone, Debug)]
pub struct PositionKeys {
    keys: Vec<f32>,
    /// Distance of the first key, in frames.
    farthest: usize,
    count: usize,
    heads: usize,
}

impl PositionKeys {
    /// `rows` are the keys `[count, heads * head]`: the first for the distance `farthest`, each next one for a distance one frame
    /// smaller.
    ///
    /// # Panics
    /// When `rows` is empty or is not `count` rows of `heads` heads.
    pub fn new(rows: &[f32], farthest: usize, count: usize, heads: usize) -> Self {
        assert!(count > 0 && rows.len().is_multiple_of(count * heads), "position keys: length of rows");
        let size = rows.len() / count;
        let head = size / heads;
        let panels = count.div_ceil(PANEL);
        let mut keys = vec![0f32; heads * panels * head * PANEL];
        for (at, row) in rows.chunks_exact(size).enumerate() {
            for (index, row) in row.chunks_exact(head).enumerate() {
                let from = (index * panels + at / PANEL) * head * PANEL + at % PANEL;
                keys[from..].iter_mut().step_by(PANEL).zip(row).for_each(|(to, value)| *to = *value);
            }
        }
        Self { keys, farthest, count, heads }
    }

    /// No position keys: scores are those of the keys alone. For positions that queries and keys hold themselves, as rotary ones do.
    pub fn absent(heads: usize) -> Self {
        Self { keys: Vec::new(), farthest: 0, count: 0, heads }
    }
}

/// The keys and values of one stream in one block that its next queries may attend to. Frames are numbered from the first frame of
/// the stream.
#[derive(Clone, Debug)]
pub struct SlidingKvCache {
    panels: VecDeque<Arc<KvPanel>>,
    /// Number of the first frame of the first panel.
    first: usize,
    /// Number of the next frame.
    end: usize,
    heads: usize,
    head: usize,
}

/// The keys and values of 32 frames.
#[derive(Clone, Debug)]
struct KvPanel {
    /// `[heads, head, 32]`
    keys: Vec<f32>,
    /// `[heads, parts, 32 frames, 32]`: the values of a head in parts of 32, the last padded with 0.
    values: Vec<f32>,
}

/// The queries of one [`SlidingKvCache::attend`] call.
#[derive(Clone, Copy, Debug)]
pub struct RelativeQueries<'a> {
    /// The queries, already scaled: the first `heads * head` values of each row.
    pub queries: &'a [f32],
    /// Length of a row, in values.
    pub stride: usize,
    /// The biases that are added to a query for content and for position, already scaled: `[heads * head]` each.
    pub biases: [&'a [f32]; 2],
    /// Frame number of the first query; the others follow it.
    pub frame: usize,
    /// The frames that each query attends to.
    pub visible: &'a [Range<usize>],
}

impl SlidingKvCache {
    /// An empty cache of `heads` heads of `head` values.
    pub fn new(heads: usize, head: usize) -> Self {
        Self { panels: VecDeque::new(), first: 0, end: 0, heads, head }
    }

    /// Number of the next frame: the frames that were pushed so far.
    pub fn end(&self) -> usize {
        self.end
    }

    /// Size of the keys and values, in bytes.
    pub fn bytes(&self) -> usize {
        self.panels.iter().map(|panel| 4 * (panel.keys.len() + panel.values.len())).sum()
    }

    /// Appends the key and value of the next frame: `[heads * head]` each.
    ///
    /// # Panics
    /// When `key` or `value` has another length.
    pub fn push(&mut self, key: &[f32], value: &[f32]) {
        let (head, parts) = (self.head, self.head.div_ceil(PANEL));
        assert!(key.len() == self.heads * head && value.len() == key.len(), "KV cache: lengths of key and value");
        let lane = self.end % PANEL;
        if lane == 0 {
            let panel = KvPanel {
                keys: vec![0.0; self.heads * head * PANEL],
                values: vec![0.0; self.heads * parts * PANEL * PANEL],
            };
            self.panels.push_back(Arc::new(panel));
        }
        let Some(panel) = self.panels.back_mut().map(Arc::make_mut) else { return };
        panel.keys[lane..].iter_mut().step_by(PANEL).zip(key).for_each(|(to, key)| *to = *key);
        let heads = panel.values.chunks_exact_mut(parts * PANEL * PANEL).zip(value.chunks_exact(head));
        for (values, value) in heads {
            for (values, value) in values.chunks_exact_mut(PANEL * PANEL).zip(value.chunks(PANEL)) {
                values[lane * PANEL..][..value.len()].copy_from_slice(value);
            }
        }
        self.end += 1;
    }

    /// Drops panels that lie before `frame`.
    pub fn drop_before(&mut self, frame: usize) {
        while self.first + PANEL <= frame.min(self.end) {
            self.panels.pop_front();
            self.first += PANEL;
        }
    }

    /// Attends with up to [`MAX_QUERIES`] queries and writes `out` `[queries, heads * head]`; a query that sees no frame gives 0.
    ///
    /// # Panics
    /// When a query sees a frame that is not in the cache, or a distance that is not in `positions`.
    pub fn attend(&self, positions: &PositionKeys, queries: RelativeQueries, out: &mut [f32]) {
        let (heads, head) = (self.heads, self.head);
        let size = heads * head;
        let count = queries.visible.len();
        assert!(
            (1..=MAX_QUERIES).contains(&count)
                && out.len() == count * size
                && queries.queries.len() >= (count - 1) * queries.stride + size
                && queries.biases.iter().all(|bias| bias.len() == size)
                && positions.heads == heads,
            "relative attention: number and lengths of the queries"
        );
        let visible = queries.visible.iter().enumerate().filter(|(_, visible)| !visible.is_empty());
        let low = visible.clone().map(|(_, frames)| frames.start).min();
        let high = visible.clone().map(|(_, frames)| frames.end).max();
        let (Some(low), Some(high)) = (low, high) else { return out.fill(0.0) };
        assert!(low >= self.first && high <= self.end, "relative attention: frames outside the cache");
        if positions.count == 0 {
            return pulp::Arch::new().dispatch(Attend {
                cache: self,
                positions,
                queries,
                frames: low..high,
                position_panels: 0..0,
                out,
            });
        }
        // The query of frame i has the distance i - j to frame j, whose position key has the index `farthest - i + j`.
        let index = |row: usize, frame: usize| (positions.farthest + frame).checked_sub(queries.frame + row);
        let from = visible.clone().map(|(row, frames)| index(row, frames.start)).min().flatten();
        let to = visible.map(|(row, frames)| index(row, frames.end)).max().flatten();
        let (Some(from), Some(to)) = (from, to) else {
            panic!("relative attention: distances outside the position keys")
        };
        assert!(to <= positions.count, "relative attention: distances outside the position keys");
        let position_panels = from / PANEL..to.div_ceil(PANEL);
        pulp::Arch::new().dispatch(Attend { cache: self, positions, queries, frames: low..high, position_panels, out });
    }
}

struct Attend<'a> {
    cache: &'a SlidingKvCache,
    positions: &'a PositionKeys,
    queries: RelativeQueries<'a>,
    /// From the first to the last frame that any query sees.
    frames: Range<usize>,
    /// Panels of the position keys that the queries need.
    position_panels: Range<usize>,
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { cache, positions, queries, frames, position_panels, out } = self;
        let (heads, head, parts) = (cache.heads, cache.head, cache.head.div_ceil(PANEL));
        let (count, width) = (queries.visible.len(), queries.visible.len().next_power_of_two());
        let panels = (frames.start - cache.first) / PANEL..(frames.end - cache.first).div_ceil(PANEL);
        let base = cache.first + panels.start * PANEL;
        let columns = panels.len() * PANEL;
        let position_columns = position_panels.len() * PANEL;
        let head_keys = positions.count.div_ceil(PANEL) * head * PANEL;
        let mut scores = vec![0f32; count * columns];
        let mut position_scores = vec![0f32; count * position_columns];
        let mut transposed = vec![0f32; width * columns.max(2 * head)];
        let mut sums = [[0f32; PANEL]; ROWS];
        for index in 0..heads {
            {
                let (content, position) = transposed.split_at_mut(width * head);
                let at = index * head..(index + 1) * head;
                for row in 0..count {
                    let query = &queries.queries[row * queries.stride..][at.clone()];
                    let biases = queries.biases[0][at.clone()].iter().zip(&queries.biases[1][at.clone()]);
                    for (input, (query, (content_bias, position_bias))) in query.iter().zip(biases).enumerate() {
                        content[input * width + row] = query + content_bias;
                        position[input * width + row] = query + position_bias;
                    }
                }
                let content = &content[..width * head];
                for (column, panel) in cache.panels.range(panels.clone()).enumerate() {
                    multiply(width, content, &panel.keys[index * head * PANEL..][..head * PANEL], &mut sums);
                    for (row, sums) in sums.iter().take(count).enumerate() {
                        scores[row * columns + column * PANEL..][..PANEL].copy_from_slice(sums);
                    }
                }
                let position = &position[..width * head];
                let keys = &positions.keys[index * head_keys..][..head_keys];
                for (column, keys) in
                    keys.chunks_exact(head * PANEL).skip(position_panels.start).take(position_panels.len()).enumerate()
                {
                    multiply(width, position, keys, &mut sums);
                    for (row, sums) in sums.iter().take(count).enumerate() {
                        position_scores[row * position_columns + column * PANEL..][..PANEL].copy_from_slice(sums);
                    }
                }
            }
            transposed[..width * columns].fill(0.0);
            for (row, visible) in queries.visible.iter().enumerate() {
                if visible.is_empty() {
                    continue;
                }
                let scores = &mut scores[row * columns + visible.start - base..][..visible.len()];
                if positions.count > 0 {
                    let first_key =
                        positions.farthest + visible.start - (queries.frame + row) - position_panels.start * PANEL;
                    let position_scores = &position_scores[row * position_columns + first_key..][..visible.len()];
                    for (score, position_score) in scores.iter_mut().zip(position_scores) {
                        *score += position_score;
                    }
                }
                softmax(scores);
                for (at, weight) in scores.iter().enumerate() {
                    transposed[(visible.start - base + at) * width + row] = *weight;
                }
            }
            for part in 0..parts {
                let mut result = [[0f32; PANEL]; ROWS];
                let weights = transposed[..width * columns].chunks_exact(width * PANEL);
                for (panel, weights) in cache.panels.range(panels.clone()).zip(weights) {
                    let values = &panel.values[(index * parts + part) * PANEL * PANEL..][..PANEL * PANEL];
                    multiply(width, weights, values, &mut sums);
                    for (result, sums) in result.iter_mut().zip(&sums).take(count) {
                        for (result, sum) in result.iter_mut().zip(sums) {
                            *result += sum;
                        }
                    }
                }
                let wide = PANEL.min(head - part * PANEL);
                for (row, result) in result.iter().take(count).enumerate() {
                    out[row * heads * head + index * head + part * PANEL..][..wide].copy_from_slice(&result[..wide]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, in f64, for one query and head.
    fn exact(query: [&[f64]; 2], visible: &[(Vec<f64>, Vec<f64>, Vec<f64>)]) -> Vec<f64> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let scores: Vec<f64> =
            visible.iter().map(|(key, place, _)| dot(query[0], key) + dot(query[1], place)).collect();
        let sum: f64 = scores.iter().map(|score| score.exp()).sum();
        let mut out = vec![0.0; query[0].len()];
        for (score, (_, _, value)) in scores.iter().zip(visible) {
            out.iter_mut().zip(value).for_each(|(out, value)| *out += score.exp() / sum * value);
        }
        out
    }

    #[test]
    fn attention_matches_the_definition_at_any_age_of_a_stream() {
        let mut state = 1u32;
        let mut draw = |count: usize| -> Vec<f32> {
            let one = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            };
            (0..count).map(one).collect()
        };
        for (heads, head) in [(2, 8), (1, 64), (3, 40)] {
            let size = heads * head;
            let (kept, ahead) = (20, 3);
            let farthest = kept + ahead;
            let count = farthest + ahead + 1;
            let (places, biases) = (draw(count * size), [draw(size), draw(size)]);
            let positions = PositionKeys::new(&places, farthest, count, heads);
            let mut cache = SlidingKvCache::new(heads, head);
            let (mut keys, mut values): (Vec<Vec<f32>>, Vec<Vec<f32>>) = (Vec::new(), Vec::new());
            for step in 0..60 {
                let frames = [4, 8, 1, 5][step % 4].min(4 * (1 + step % 2));
                let frame = cache.end();
                for _ in 0..frames {
                    keys.push(draw(size));
                    values.push(draw(size));
                    cache.push(&keys[keys.len() - 1], &values[values.len() - 1]);
                }
                let end = cache.end();
                let visible: Vec<Range<usize>> =
                    (frame..end).map(|at| at.saturating_sub(kept)..(at + ahead + 1).min(end)).collect();
                let stride = size + 5;
                let queries = draw(frames * stride);
                let mut out = vec![0.0; frames * size];
                let query_rows = RelativeQueries {
                    queries: &queries,
                    stride,
                    biases: [&biases[0], &biases[1]],
                    frame,
                    visible: &visible,
                };
                cache.attend(&positions, query_rows, &mut out);
                for (row, range) in visible.iter().enumerate() {
                    for number in 0..heads {
                        let part = |row: &[f32]| -> Vec<f64> {
                            row[number * head..][..head].iter().map(|value| f64::from(*value)).collect()
                        };
                        let query = part(&queries[row * stride..]);
                        let with = |bias: &[f32]| -> Vec<f64> {
                            query.iter().zip(part(bias)).map(|(query, bias)| query + bias).collect()
                        };
                        let attended: Vec<_> = range
                            .clone()
                            .map(|at| {
                                let place = farthest + at - (frame + row);
                                (part(&keys[at]), part(&places[place * size..]), part(&values[at]))
                            })
                            .collect();
                        let exact = exact([&with(&biases[0]), &with(&biases[1])], &attended);
                        let ours = part(&out[row * size..]);
                        let error = ours.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                        assert!(error < 1e-5, "{heads} x {head}, frame {}: {error}", frame + row);
                    }
                }
                cache.drop_before(end.saturating_sub(kept));
            }
            assert!(
                cache.end() > 200 && cache.bytes() <= 3 * 4 * PANEL * heads * (head + head.div_ceil(PANEL) * PANEL)
            );
            let mut out = vec![1.0; size];
            let nothing = std::slice::from_ref(&(0..0));
            let query_rows = RelativeQueries {
                queries: &draw(size),
                stride: size,
                biases: [&biases[0], &biases[1]],
                frame: cache.end(),
                visible: nothing,
            };
            cache.attend(&positions, query_rows, &mut out);
            assert!(out.iter().all(|value| *value == 0.0));
        }
    }

    #[test]
    fn attention_without_positions_is_that_with_none_and_copies_share_what_was() {
        let (heads, head) = (2, 8);
        let size = heads * head;
        let value = |at: usize| (at as f32 * 0.7).sin();
        let rows = |from: usize| -> Vec<f32> { (from..from + size).map(value).collect() };
        let mut cache = SlidingKvCache::new(heads, head);
        (0..40).for_each(|at| cache.push(&rows(3 * at), &rows(5 * at)));
        let attend = |cache: &SlidingKvCache, positions: &PositionKeys| {
            let (queries, zeros, seen) = (rows(11), vec![0.0; size], 2..cache.end());
            let (biases, visible) = ([zeros.as_slice(), &zeros], std::slice::from_ref(&seen));
            let queries = RelativeQueries { queries: &queries, stride: size, biases, frame: 39, visible };
            let mut out = vec![0.0; size];
            cache.attend(positions, queries, &mut out);
            out
        };
        let zeros = PositionKeys::new(&vec![0.0; 60 * size], 40, 60, heads);
        let (absent, before) = (PositionKeys::absent(heads), attend(&cache, &zeros));
        assert_eq!(attend(&cache, &absent), before);
        // The other does not see the rows that a copy appends.
        let mut copy = cache.clone();
        copy.push(&rows(1), &rows(2));
        assert_ne!(attend(&copy, &absent), before);
        assert_eq!(attend(&cache, &absent), before);
        assert!(Arc::ptr_eq(&cache.panels[0], &copy.panels[0]) && !Arc::ptr_eq(&cache.panels[1], &copy.panels[1]));
    }
}
