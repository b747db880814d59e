//! SRT and WebVTT from words: readable captions, cut at pauses of the speech.
//!
//! Stages: words -> segments (a sentence, or the words between two pauses) -> cues (the cheapest way to cut a segment
//! into pieces that fit two lines and seven seconds) -> lines (balanced) -> text in one of the two formats.

use std::fmt::Write as _;

use super::Word;
use super::sentence_boundaries::{ends_clause, ends_sentence, is_spaced};

/// Most lines of a cue.
const LINES: usize = 2;

/// A sentence shorter than this shares a cue with the next one, if no pause lies between: "Yes." alone would only
/// flash.
const SHORTEST_SENTENCE_MS: u64 = 1_000;

/// A silence that makes the place after a word a good cut, as a comma does.
const BREATH_MS: u64 = 300;

/// Limits of captions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubtitleOptions {
    /// Most characters of a line, at least 1; a longer word is kept whole on a line of its own.
    pub line_chars: usize,
    /// Longest duration of a cue, in milliseconds.
    pub longest_cue_ms: u64,
    /// A silence longer than this, in milliseconds, always ends a cue.
    pub pause_ms: u64,
}

impl Default for SubtitleOptions {
    /// 42 characters, 7 s, 1 s: the usual rules of broadcasters for Latin scripts.
    fn default() -> Self {
        Self { line_chars: 42, longest_cue_ms: 7_000, pause_ms: 1_000 }
    }
}

/// SubRip: numbered cues, a comma before the milliseconds, UTF-8 with plain line feeds. A speaker's first cue begins with their
/// label. Empty without words.
#[must_use]
pub fn srt(words: &[Word], options: &SubtitleOptions) -> String {
    let mut out = String::new();
    for (index, cue) in cues(words, options, SpeakerNames::InText).iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let (start, end) = (Clock(cue.start_ms, ','), Clock(cue.end_ms, ','));
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{}\n{start} --> {end}", index + 1);
        for line in &cue.lines {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// WebVTT: the header, a blank line, then the cues with `&`, `<` and `>` escaped, in a voice span where there are
/// speaker labels. Without words, the header alone.
#[must_use]
pub fn vtt(words: &[Word], options: &SubtitleOptions) -> String {
    let mut out = String::from("WEBVTT\n");
    for cue in cues(words, options, SpeakerNames::Apart) {
        let (start, end) = (Clock(cue.start_ms, '.'), Clock(cue.end_ms, '.'));
        let _ = writeln!(out, "\n{start} --> {end}");
        if let Some(speaker) = &cue.speaker {
            out.push_str("<v ");
            escape(speaker, &mut out);
            out.push('>');
        }
        for line in &cue.lines {
            escape(line, &mut out);
            out.push('\n');
        }
    }
    if out.len() == "WEBVTT\n".len() {
        out.push('\n');
    }
    out
}

/// Writes text that WebVTT reads neither as markup nor as the end of a line.
fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\n' | '\r' => out.push(' '),
            other => out.push(other),
        }
    }
}

/// One caption: `start_ms < end_ms`, and it ends before the next one starts.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cue {
    start_ms: u64,
    end_ms: u64,
    speaker: Option<String>,
    lines: Vec<String>,
}

/// A word of a caption: without line feeds (they would end a cue), measured, and in time order.
struct CaptionWord {
    text: String,
    speaker: Option<String>,
    chars: usize,
    /// Characters before it if all words were one line: the length of a run of words is a difference of two.
    column: usize,
    start_ms: u64,
    /// Never past the start of the next word.
    end_ms: u64,
}

/// A time in the notation of both formats, which differ in the mark before the milliseconds.
struct Clock(u64, char);

impl std::fmt::Display for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(ms, mark) = self;
        let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
        write!(f, "{hours:02}:{minutes:02}:{:02}{mark}{:03}", ms / 1_000 % 60, ms % 1_000)
    }
}

/// Where a format names speakers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SpeakerNames {
    /// Before the first word of a speaker's run.
    InText,
    /// Beside the text.
    Apart,
}

fn cues(words: &[Word], options: &SubtitleOptions, names: SpeakerNames) -> Vec<Cue> {
    let words = caption_words(words, names);
    let mut cues: Vec<Cue> = Vec::new();
    for segment in segments(&words, options) {
        let layout = Layout { words: segment, options };
        for (from, to) in layout.cut() {
            // Only an empty cue, which gets one millisecond, can reach into the next one.
            let start_ms = cues.last().map_or(0, |last| last.end_ms).max(segment[from].start_ms);
            let longest = start_ms.saturating_add(options.longest_cue_ms);
            let end_ms = segment[to - 1].end_ms.min(longest).max(start_ms.saturating_add(1));
            let lines = layout.lines(from, to);
            cues.push(Cue { start_ms, end_ms, speaker: segment[from].speaker.clone(), lines });
        }
    }
    cues
}

/// Models may let neighbouring words overlap, or even step back; captions must not.
fn caption_words(words: &[Word], names: SpeakerNames) -> Vec<CaptionWord> {
    let mut all: Vec<CaptionWord> = Vec::with_capacity(words.len());
    for word in words {
        let mut text = word.text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            continue;
        }
        if let Some(speaker) = word.shown_speaker()
            && names == SpeakerNames::InText
            && all.last().is_none_or(|before| before.speaker.as_deref() != Some(speaker))
        {
            text = format!("{speaker}: {text}");
        }
        let mut column = 0;
        let mut start_ms = word.start;
        if let Some(before) = all.last_mut() {
            start_ms = start_ms.max(before.start_ms);
            before.end_ms = before.end_ms.min(start_ms);
            column = before.column + before.chars + usize::from(is_spaced(&before.text, &text));
        }
        let (chars, speaker) = (text.chars().count(), word.shown_speaker().map(str::to_owned));
        all.push(CaptionWord { chars, text, speaker, column, start_ms, end_ms: word.end.max(start_ms) });
    }
    all
}

/// Segments that no cue may cross: sentences, the words between two pauses, and those of one speaker.
fn segments<'a>(words: &'a [CaptionWord], options: &SubtitleOptions) -> Vec<&'a [CaptionWord]> {
    let mut pieces = Vec::new();
    let mut first = 0;
    for (index, pair) in words.windows(2).enumerate() {
        let (this, next) = (&pair[0], &pair[1]);
        let pause = next.start_ms - this.end_ms > options.pause_ms;
        let length_ms = this.end_ms - words[first].start_ms;
        if pause
            || this.speaker != next.speaker
            || (ends_sentence(&this.text, &next.text) && length_ms >= SHORTEST_SENTENCE_MS)
        {
            pieces.push(&words[first..=index]);
            first = index + 1;
        }
    }
    if first < words.len() {
        pieces.push(&words[first..]);
    }
    pieces
}

/// A segment and the rules to set it by.
struct Layout<'a> {
    words: &'a [CaptionWord],
    options: &'a SubtitleOptions,
}

impl Layout<'_> {
    /// Cuts the segment into cues, `[from, to)` each, so that the sum of [`Layout::cost`] is least.
    fn cut(&self) -> Vec<(usize, usize)> {
        let count = self.words.len();
        // best[to] = (cost of the words before `to`, where their last cue starts)
        let mut best = vec![(f64::INFINITY, 0); count + 1];
        best[0].0 = 0.0;
        for to in 1..=count {
            for from in (0..to).rev() {
                if from + 1 < to && !self.fits(from, to) {
                    break;
                }
                let cost = best[from].0 + self.cost(from, to);
                if cost < best[to].0 {
                    best[to] = (cost, from);
                }
            }
        }
        let mut cuts = Vec::new();
        let mut to = count;
        while to > 0 {
            let from = best[to].1;
            cuts.push((from, to));
            to = from;
        }
        cuts.reverse();
        cuts
    }

    /// Few cues, evenly filled (in characters or in time, whichever is scarcer), cut after a comma or a breath.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let room = (LINES * self.line_chars()) as f64;
        let filled = self.chars(from, to) as f64 / room;
        let passed = self.length_ms(from, to) as f64 / self.options.longest_cue_ms.max(1) as f64;
        let slack = (1.0 - filled.max(passed)).max(0.0);
        let clean = to == self.words.len() || self.is_good_break(to);
        1.0 + slack * slack + if clean { 0.0 } else { 0.3 }
    }

    fn fits(&self, from: usize, to: usize) -> bool {
        self.length_ms(from, to) <= self.options.longest_cue_ms
            && (self.is_line(from, to) || (from + 1..to).any(|cut| self.is_line(from, cut) && self.is_line(cut, to)))
    }

    /// The cue's one or two lines. Two are as even as they can be, the cut after a comma where that costs little.
    fn lines(&self, from: usize, to: usize) -> Vec<String> {
        if self.is_line(from, to) {
            return vec![self.text(from, to)];
        }
        let uneven = |cut: usize| {
            let difference = self.chars(from, cut).abs_diff(self.chars(cut, to));
            difference + if self.is_good_break(cut) { 0 } else { 12 }
        };
        (from + 1..to)
            .filter(|&cut| self.is_line(from, cut) && self.is_line(cut, to))
            .min_by_key(|&cut| uneven(cut))
            .map_or_else(|| vec![self.text(from, to)], |cut| vec![self.text(from, cut), self.text(cut, to)])
    }

    fn is_line(&self, from: usize, to: usize) -> bool {
        from + 1 == to || self.chars(from, to) <= self.line_chars()
    }

    fn line_chars(&self) -> usize {
        self.options.line_chars.max(1)
    }

    /// True if the place before word `at` is a good cut: after a comma or the like, or in a short silence.
    fn is_good_break(&self, at: usize) -> bool {
        let (this, next) = (&self.words[at - 1], &self.words[at]);
        ends_clause(&this.text, &next.text) || next.start_ms - this.end_ms > BREATH_MS
    }

    fn length_ms(&self, from: usize, to: usize) -> u64 {
        self.words[to - 1].end_ms - self.words[from].start_ms
    }

    fn chars(&self, from: usize, to: usize) -> usize {
        let last = &self.words[to - 1];
        last.column + last.chars - self.words[from].column
    }

    fn text(&self, from: usize, to: usize) -> String {
        let mut text = String::new();
        let mut column = self.words[from].column;
        for word in &self.words[from..to] {
            if word.column > column {
                text.push(' ');
            }
            text.push_str(&word.text);
            column = word.column + word.chars;
        }
        text
    }
}

#[cfg(test)]
#[path = "subtitles_tests.rs"]
mod tests;
