//! Attention with relative positions (Transformer-XL form) of a few queries to what their stream has seen, on the CPU. Keys lie
//! in the panels of [`crate::gemv`], of which a stream drops the oldest, so that nothing is moved from step to step.

use std::collections::VecDeque;
use std::ops::Range;

use crate::gemv::{PANEL, ROWS, multiply};
use crate::vector_math::softmax;

/// Queries of one call at most.
pub const MAX_QUERIES: usize = ROWS;

/// The keys of distances, of one block: `[heads, panels, head, 32]`, the farthest past first.
#[derive(Clone, Debug)]
pub struct PositionKeys {
    keys: Vec<f32>,
    farthest: usize,
    count: usize,
    heads: usize,
}

impl PositionKeys {
    /// From `rows` `[count, heads * head]`, whose first is that of the distance `farthest` and each next one is for a key one
    /// frame later.
    ///
    /// # Panics
    /// When these are no rows of so many heads.
    pub fn new(rows: &[f32], farthest: usize, count: usize, heads: usize) -> Self {
        assert!(count > 0 && rows.len().is_multiple_of(count * heads), "the keys of distances");
        let size = rows.len() / count;
        let head = size / heads;
        let panels = count.div_ceil(PANEL);
        let mut keys = vec![0f32; heads * panels * head * PANEL];
        for (at, row) in rows.chunks_exact(size).enumerate() {
            for (number, row) in row.chunks_exact(head).enumerate() {
                let from = (number * panels + at / PANEL) * head * PANEL + at % PANEL;
                keys[from..].iter_mut().step_by(PANEL).zip(row).for_each(|(to, value)| *to = *value);
            }
        }
        Self { keys, farthest, count, heads }
    }
}

/// The keys and values of one row of one block: what its queries may still look at. Frames are numbered from the stream's
/// first.
#[derive(Clone, Debug)]
pub struct SlidingKvCache {
    panels: VecDeque<Panel>,
    /// Number of the first frame of the first panel.
    first: usize,
    /// Frames that there have been.
    end: usize,
    heads: usize,
    head: usize,
}

/// Thirty-two frames.
#[derive(Clone, Debug)]
struct Panel {
    /// `[heads, head, 32]`
    keys: Vec<f32>,
    /// `[heads, parts, 32 frames, 32]`: a head's values in parts of 32, the last filled up.
    values: Vec<f32>,
}

/// What is asked of a [`SlidingKvCache`].
#[derive(Clone, Copy, Debug)]
pub struct RelativeQueries<'a> {
    /// Queries, already scaled: of each the first `heads * head` values of a row.
    pub queries: &'a [f32],
    /// Values from one query's first to the next one's.
    pub stride: usize,
    /// What a query has more where it asks for content, and for a position, already scaled: `[heads * head]` each.
    pub biases: [&'a [f32]; 2],
    /// The frame of the first query; the others follow it.
    pub frame: usize,
    /// The frames that each query may look at.
    pub seen: &'a [Range<usize>],
}

impl SlidingKvCache {
    /// Nothing yet.
    pub fn new(heads: usize, head: usize) -> Self {
        Self { panels: VecDeque::new(), first: 0, end: 0, heads, head }
    }

    /// Frames that there have been.
    pub fn end(&self) -> usize {
        self.end
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.panels.iter().map(|panel| 4 * (panel.keys.len() + panel.values.len())).sum()
    }

    /// The next frame's key and value: `[heads * head]` each.
    ///
    /// # Panics
    /// When they are of another length.
    pub fn push(&mut self, key: &[f32], value: &[f32]) {
        let (head, parts) = (self.head, self.head.div_ceil(PANEL));
        assert!(key.len() == self.heads * head && value.len() == key.len(), "a frame's key and value");
        let lane = self.end % PANEL;
        if lane == 0 {
            let panel = Panel {
                keys: vec![0.0; self.heads * head * PANEL],
                values: vec![0.0; self.heads * parts * PANEL * PANEL],
            };
            self.panels.push_back(panel);
        }
        let Some(panel) = self.panels.back_mut() else { return };
        panel.keys[lane..].iter_mut().step_by(PANEL).zip(key).for_each(|(to, key)| *to = *key);
        let heads = panel.values.chunks_exact_mut(parts * PANEL * PANEL).zip(value.chunks_exact(head));
        for (values, value) in heads {
            for (values, value) in values.chunks_exact_mut(PANEL * PANEL).zip(value.chunks(PANEL)) {
                values[lane * PANEL..][..value.len()].copy_from_slice(value);
            }
        }
        self.end += 1;
    }

    /// Nothing before `frame` will be looked at any more.
    pub fn forget_before(&mut self, frame: usize) {
        while self.first + PANEL <= frame.min(self.end) {
            self.panels.pop_front();
            self.first += PANEL;
        }
    }

    /// What up to [`MAX_QUERIES`] queries find: `[queries, heads * head]`; nought where there is nothing to see.
    ///
    /// # Panics
    /// When more is asked than there is, or than `distances` have.
    pub fn attend(&self, distances: &PositionKeys, asked: RelativeQueries, out: &mut [f32]) {
        let (heads, head) = (self.heads, self.head);
        let size = heads * head;
        let taken = asked.seen.len();
        assert!(
            (1..=MAX_QUERIES).contains(&taken)
                && out.len() == taken * size
                && asked.queries.len() >= (taken - 1) * asked.stride + size
                && asked.biases.iter().all(|bias| bias.len() == size)
                && distances.heads == heads,
            "what is asked of a past"
        );
        let some = asked.seen.iter().enumerate().filter(|(_, seen)| !seen.is_empty());
        let low = some.clone().map(|(_, seen)| seen.start).min();
        let high = some.clone().map(|(_, seen)| seen.end).max();
        // The key of frame j is, for the query of frame i, at the distance i - j, and so in place `farthest - i + j`.
        let place = |row: usize, frame: usize| (distances.farthest + frame).checked_sub(asked.frame + row);
        let from = some.clone().map(|(row, seen)| place(row, seen.start)).min().flatten();
        let to = some.map(|(row, seen)| place(row, seen.end)).max().flatten();
        let (Some(low), Some(high)) = (low, high) else { return out.fill(0.0) };
        assert!(low >= self.first && high <= self.end, "frames that are not there");
        let (Some(from), Some(to)) = (from, to) else { panic!("distances that are not there") };
        assert!(to <= distances.count, "distances that are not there");
        let places = from / PANEL..to.div_ceil(PANEL);
        pulp::Arch::new().dispatch(Attend { past: self, distances, asked, frames: low..high, places, out });
    }
}

struct Attend<'a> {
    past: &'a SlidingKvCache,
    distances: &'a PositionKeys,
    asked: RelativeQueries<'a>,
    /// All that one of the queries may look at.
    frames: Range<usize>,
    /// Panels of distances that they need.
    places: Range<usize>,
    out: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { past, distances, asked, frames, places, out } = self;
        let (heads, head, parts) = (past.heads, past.head, past.head.div_ceil(PANEL));
        let (taken, width) = (asked.seen.len(), asked.seen.len().next_power_of_two());
        let panels = (frames.start - past.first) / PANEL..(frames.end - past.first).div_ceil(PANEL);
        let base = past.first + panels.start * PANEL;
        let columns = panels.len() * PANEL;
        let reach = places.len() * PANEL;
        let all = distances.count.div_ceil(PANEL) * head * PANEL;
        let mut scores = vec![0f32; taken * columns];
        let mut by_place = vec![0f32; taken * reach];
        let mut turned = vec![0f32; width * columns.max(2 * head)];
        let mut sums = [[0f32; PANEL]; ROWS];
        for number in 0..heads {
            {
                let (content, position) = turned.split_at_mut(width * head);
                let at = number * head..(number + 1) * head;
                for row in 0..taken {
                    let query = &asked.queries[row * asked.stride..][at.clone()];
                    let biases = asked.biases[0][at.clone()].iter().zip(&asked.biases[1][at.clone()]);
                    for (input, (query, (by_content, by_position))) in query.iter().zip(biases).enumerate() {
                        content[input * width + row] = query + by_content;
                        position[input * width + row] = query + by_position;
                    }
                }
                let content = &content[..width * head];
                for (column, panel) in past.panels.range(panels.clone()).enumerate() {
                    multiply(width, content, &panel.keys[number * head * PANEL..][..head * PANEL], &mut sums);
                    for (row, sums) in sums.iter().take(taken).enumerate() {
                        scores[row * columns + column * PANEL..][..PANEL].copy_from_slice(sums);
                    }
                }
                let position = &position[..width * head];
                let keys = &distances.keys[number * all..][..all];
                for (column, keys) in keys.chunks_exact(head * PANEL).skip(places.start).take(places.len()).enumerate()
                {
                    multiply(width, position, keys, &mut sums);
                    for (row, sums) in sums.iter().take(taken).enumerate() {
                        by_place[row * reach + column * PANEL..][..PANEL].copy_from_slice(sums);
                    }
                }
            }
            turned[..width * columns].fill(0.0);
            for (row, seen) in asked.seen.iter().enumerate() {
                if seen.is_empty() {
                    continue;
                }
                let place = distances.farthest + seen.start - (asked.frame + row) - places.start * PANEL;
                let places = &by_place[row * reach + place..][..seen.len()];
                let scores = &mut scores[row * columns + seen.start - base..][..seen.len()];
                for (score, place) in scores.iter_mut().zip(places) {
                    *score += place;
                }
                softmax(scores);
                for (at, chance) in scores.iter().enumerate() {
                    turned[(seen.start - base + at) * width + row] = *chance;
                }
            }
            for part in 0..parts {
                let mut found = [[0f32; PANEL]; ROWS];
                let chances = turned[..width * columns].chunks_exact(width * PANEL);
                for (panel, chances) in past.panels.range(panels.clone()).zip(chances) {
                    let values = &panel.values[(number * parts + part) * PANEL * PANEL..][..PANEL * PANEL];
                    multiply(width, chances, values, &mut sums);
                    for (found, sums) in found.iter_mut().zip(&sums).take(taken) {
                        for (found, sum) in found.iter_mut().zip(sums) {
                            *found += sum;
                        }
                    }
                }
                let wide = PANEL.min(head - part * PANEL);
                for (row, found) in found.iter().take(taken).enumerate() {
                    out[row * heads * head + number * head + part * PANEL..][..wide].copy_from_slice(&found[..wide]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, in f64, for one query and head.
    fn exact(query: [&[f64]; 2], seen: &[(Vec<f64>, Vec<f64>, Vec<f64>)]) -> Vec<f64> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let scores: Vec<f64> = seen.iter().map(|(key, place, _)| dot(query[0], key) + dot(query[1], place)).collect();
        let sum: f64 = scores.iter().map(|score| score.exp()).sum();
        let mut out = vec![0.0; query[0].len()];
        for (score, (_, _, value)) in scores.iter().zip(seen) {
            out.iter_mut().zip(value).for_each(|(out, value)| *out += score.exp() / sum * value);
        }
        out
    }

    #[test]
    fn queries_find_what_the_definition_says_at_any_age_of_a_stream() {
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
            let distances = PositionKeys::new(&places, farthest, count, heads);
            let mut past = SlidingKvCache::new(heads, head);
            let (mut keys, mut values): (Vec<Vec<f32>>, Vec<Vec<f32>>) = (Vec::new(), Vec::new());
            for step in 0..60 {
                let frames = [4, 8, 1, 5][step % 4].min(4 * (1 + step % 2));
                let frame = past.end();
                for _ in 0..frames {
                    keys.push(draw(size));
                    values.push(draw(size));
                    past.push(&keys[keys.len() - 1], &values[values.len() - 1]);
                }
                let end = past.end();
                let seen: Vec<Range<usize>> =
                    (frame..end).map(|at| at.saturating_sub(kept)..(at + ahead + 1).min(end)).collect();
                let stride = size + 5;
                let queries = draw(frames * stride);
                let mut out = vec![0.0; frames * size];
                let asked =
                    RelativeQueries { queries: &queries, stride, biases: [&biases[0], &biases[1]], frame, seen: &seen };
                past.attend(&distances, asked, &mut out);
                for (row, range) in seen.iter().enumerate() {
                    for number in 0..heads {
                        let part = |row: &[f32]| -> Vec<f64> {
                            row[number * head..][..head].iter().map(|value| f64::from(*value)).collect()
                        };
                        let query = part(&queries[row * stride..]);
                        let with = |bias: &[f32]| -> Vec<f64> {
                            query.iter().zip(part(bias)).map(|(query, bias)| query + bias).collect()
                        };
                        let looked: Vec<_> = range
                            .clone()
                            .map(|at| {
                                let place = farthest + at - (frame + row);
                                (part(&keys[at]), part(&places[place * size..]), part(&values[at]))
                            })
                            .collect();
                        let exact = exact([&with(&biases[0]), &with(&biases[1])], &looked);
                        let ours = part(&out[row * size..]);
                        let error = ours.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                        assert!(error < 1e-5, "{heads} x {head}, frame {}: {error}", frame + row);
                    }
                }
                past.forget_before(end.saturating_sub(kept));
            }
            assert!(past.end() > 200 && past.bytes() <= 3 * 4 * PANEL * heads * (head + head.div_ceil(PANEL) * PANEL));
            let mut out = vec![1.0; size];
            let nothing = std::slice::from_ref(&(0..0));
            let asked = RelativeQueries {
                queries: &draw(size),
                stride: size,
                biases: [&biases[0], &biases[1]],
                frame: past.end(),
                seen: nothing,
            };
            past.attend(&distances, asked, &mut out);
            assert!(out.iter().all(|value| *value == 0.0));
        }
    }
}
