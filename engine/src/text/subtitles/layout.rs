//! Words cut into cues, and cues into lines.

use std::ops::Range;

use super::SubtitleOptions;
use super::caption_words::CaptionWord;
use crate::text::sentence_boundaries::{ends_clause, ends_sentence};

/// A sentence shorter than this shares a cue with the next one, if no pause lies between: "Yes." alone would only
/// flash.
const SHORTEST_SENTENCE_MS: u64 = 1_000;

/// A silence that makes the place after a word a good cut, as a comma does.
const BREATH_MS: u64 = 300;

/// Words and the rules to set them by. Ranges are of words.
pub struct Layout<'a> {
    pub words: &'a [CaptionWord],
    pub options: &'a SubtitleOptions,
}

impl Layout<'_> {
    /// The words of each cue.
    pub fn cues(&self) -> Vec<Range<usize>> {
        let cues = self.segments().into_iter().flat_map(|segment| self.cut(&segment)).collect();
        self.merge_crowded(cues)
    }

    /// Segments: sentences, the words between two pauses, and those of one speaker.
    fn segments(&self) -> Vec<Range<usize>> {
        let words = self.words;
        let mut pieces = Vec::new();
        let mut first = 0;
        // The first word of a run with its marks.
        let mut host = 0;
        for (index, pair) in words.windows(2).enumerate() {
            let (this, next) = (&pair[0], &pair[1]);
            if !this.is_bound {
                host = index;
            }
            let pause = next.start_ms - this.end_ms > self.options.pause_ms;
            let sentence = || {
                let run: String = words[host..=index].iter().map(|word| word.text.as_str()).collect();
                ends_sentence(&run, &next.text)
            };
            let is_long = this.end_ms - words[first].start_ms >= SHORTEST_SENTENCE_MS;
            if pause || this.speaker != next.speaker || (is_long && !next.is_bound && sentence()) {
                pieces.push(first..index + 1);
                first = index + 1;
            }
        }
        if first < words.len() {
            pieces.push(first..words.len());
        }
        pieces
    }

    /// Cuts a segment into cues so that the sum of [`Layout::cost`] is least.
    fn cut(&self, segment: &Range<usize>) -> Vec<Range<usize>> {
        let first = segment.start;
        // best[to] = (cost of the words before `to`, where their last cue starts)
        let mut best = vec![(f64::INFINITY, first); segment.len() + 1];
        best[0].0 = 0.0;
        for to in first + 1..=segment.end {
            if to < segment.end && self.words[to].is_bound {
                continue;
            }
            let mut fill = Fill::before(to);
            for from in (first..to).rev() {
                if from > first && self.words[from].is_bound {
                    continue;
                }
                let is_first = fill.is_empty();
                fill.add(self, from);
                if !is_first && (fill.lines > self.line_count() || !self.is_short_enough(from, to)) {
                    break;
                }
                let cost = best[from - first].0 + self.cost(from, to, segment.end);
                if cost < best[to - first].0 {
                    best[to - first] = (cost, from);
                }
            }
        }
        let mut cuts = Vec::new();
        let mut to = segment.end;
        while to > first {
            let from = best[to - first].1;
            cuts.push(from..to);
            to = from;
        }
        cuts.reverse();
        cuts
    }

    /// Few cues, evenly filled (in columns or in time, whichever is scarcer), cut after a comma or a breath.
    fn cost(&self, from: usize, to: usize, end: usize) -> f64 {
        let room = (self.line_count() * self.line_chars()) as f64;
        let filled = self.columns(from, to) as f64 / room;
        let passed = self.length_ms(from, to) as f64 / self.options.longest_cue_ms.max(1) as f64;
        let slack = (1.0 - filled.max(passed)).max(0.0);
        let clean = to == end || self.is_good_break(to);
        1.0 + slack * slack + if clean { 0.0 } else { 0.3 }
    }

    /// Joins a cue that is too short, and has no room to be longer, with the nearer of its neighbours where the two fit.
    fn merge_crowded(&self, cues: Vec<Range<usize>>) -> Vec<Range<usize>> {
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(cues.len());
        let mut rest = cues.into_iter().peekable();
        while let Some(mut cue) = rest.next() {
            while self.is_crowded(&cue, rest.peek()) {
                let before = merged.last().filter(|before| self.may_join(before, &cue));
                let after = rest.peek().filter(|after| self.may_join(&cue, after));
                let is_before = match (before, after) {
                    (Some(_), Some(_)) => self.gap_ms(cue.start) <= self.gap_ms(cue.end),
                    (before, _) => before.is_some(),
                };
                if is_before && let Some(before) = merged.pop() {
                    cue.start = before.start;
                } else if after.is_some()
                    && let Some(after) = rest.next()
                {
                    cue.end = after.end;
                } else {
                    break;
                }
            }
            merged.push(cue);
        }
        merged
    }

    fn is_crowded(&self, cue: &Range<usize>, next: Option<&Range<usize>>) -> bool {
        let shortest = self.options.shortest_cue_ms;
        let room_from = if cue.start == 0 { 0 } else { self.words[cue.start - 1].end_ms };
        let room_to = next.map(|next| self.words[next.start].start_ms).or(self.options.audio_ms).unwrap_or(u64::MAX);
        self.length_ms(cue.start, cue.end) < shortest && room_to.saturating_sub(room_from) < shortest
    }

    fn may_join(&self, before: &Range<usize>, after: &Range<usize>) -> bool {
        self.words[before.start].speaker == self.words[after.start].speaker
            && self.gap_ms(after.start) <= self.options.pause_ms
            && self.is_short_enough(before.start, after.end)
            && self.fewest_lines(&(before.start..after.end)) <= self.line_count()
    }

    fn fewest_lines(&self, cue: &Range<usize>) -> usize {
        let mut fill = Fill::before(cue.end);
        for from in cue.clone().rev().filter(|&from| from == cue.start || !self.words[from].is_bound) {
            fill.add(self, from);
        }
        fill.lines
    }

    /// The fewest lines of a cue, as even as they can be, cut after a comma where that costs little.
    pub fn lines(&self, cue: &Range<usize>) -> Vec<Range<usize>> {
        let count = self.fewest_lines(cue);
        if count <= 1 {
            return vec![cue.clone()];
        }
        let mut places: Vec<usize> =
            cue.clone().filter(|&place| place == cue.start || !self.words[place].is_bound).collect();
        places.push(cue.end);
        let total = self.columns(cue.start, cue.end);
        let uneven = |from: usize, to: usize| {
            let clean = to == cue.end || self.is_good_break(to);
            (count * self.columns(from, to)).abs_diff(total) + if clean { 0 } else { 12 * count }
        };
        // best[line][place] = (cost of so many lines that end there, where the last one starts)
        let mut best = vec![vec![(usize::MAX, 0); places.len()]; count + 1];
        best[0][0].0 = 0;
        for line in 1..=count {
            for to in line..places.len() {
                for from in (line - 1..to).rev() {
                    if !(from + 1 == to || self.columns(places[from], places[to]) <= self.line_chars()) {
                        break;
                    }
                    let cost = best[line - 1][from].0.saturating_add(uneven(places[from], places[to]));
                    if cost < usize::MAX && cost <= best[line][to].0 {
                        best[line][to] = (cost, from);
                    }
                }
            }
        }
        let mut lines = Vec::with_capacity(count);
        let mut to = places.len() - 1;
        for line in (1..=count).rev() {
            let from = best[line][to].1;
            lines.push(places[from]..places[to]);
            to = from;
        }
        lines.reverse();
        lines
    }

    fn line_chars(&self) -> usize {
        self.options.line_chars.max(1)
    }

    fn line_count(&self) -> usize {
        self.options.line_count.max(1)
    }

    /// True if the place before word `at` is a good cut: after a comma or the like, or in a short silence.
    fn is_good_break(&self, at: usize) -> bool {
        let (this, next) = (&self.words[at - 1], &self.words[at]);
        ends_clause(&this.text, &next.text) || self.gap_ms(at) > BREATH_MS
    }

    /// The silence before word `at`.
    fn gap_ms(&self, at: usize) -> u64 {
        self.words[at].start_ms - self.words[at - 1].end_ms
    }

    fn is_short_enough(&self, from: usize, to: usize) -> bool {
        self.length_ms(from, to) <= self.options.longest_cue_ms
    }

    fn length_ms(&self, from: usize, to: usize) -> u64 {
        self.words[to - 1].end_ms - self.words[from].start_ms
    }

    fn columns(&self, from: usize, to: usize) -> usize {
        let last = &self.words[to - 1];
        last.column + last.columns - self.words[from].column
    }
}

/// Lines filled from their last word backwards. A word with its marks is never cut, however long.
struct Fill {
    lines: usize,
    line_end: usize,
    from: usize,
}

impl Fill {
    fn before(to: usize) -> Self {
        Self { lines: 1, line_end: to, from: to }
    }

    fn is_empty(&self) -> bool {
        self.from == self.line_end
    }

    fn add(&mut self, layout: &Layout<'_>, from: usize) {
        if !self.is_empty() && layout.columns(from, self.line_end) > layout.line_chars() {
            self.lines += 1;
            self.line_end = self.from;
        }
        self.from = from;
    }
}
