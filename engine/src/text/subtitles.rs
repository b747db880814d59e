//! SRT, WebVTT and LRC from words: readable captions, cut at pauses of the speech.
//!
//! - `caption_words`: words, measured.
//! - `line_breaks`: the places where a line may end.
//! - `layout`: words -> segments (a sentence, or the words between two pauses) -> cues (the cheapest way to cut a segment
//!   into pieces that fit the lines and seven seconds) -> lines (balanced).

mod caption_words;
mod layout;
mod line_breaks;

use std::fmt::Write as _;
use std::ops::Range;

use self::caption_words::{CaptionWord, caption_words};
use self::layout::Layout;
use self::line_breaks::is_mark;
use super::Word;

/// Limits of captions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubtitleOptions {
    /// Most columns of a line, at least 1; a wide character, as of Chinese, takes two. A longer word is kept whole on a line of its own,
    /// except in scripts without spaces.
    pub line_chars: usize,
    /// Most lines of a cue, at least 1.
    pub line_count: usize,
    /// Longest duration of a cue, in milliseconds.
    pub longest_cue_ms: u64,
    /// A shorter cue is lengthened where neighbours leave room, else joined with one of them where the two fit.
    pub shortest_cue_ms: u64,
    /// A silence longer than this, in milliseconds, always ends a cue.
    pub pause_ms: u64,
    /// Length of the audio where it is known: no cue is lengthened beyond it.
    pub audio_ms: Option<u64>,
    /// Repeats a cue for each of its words, which is underlined while it is spoken.
    pub highlight_words: bool,
}

impl Default for SubtitleOptions {
    /// 42 columns, 2 lines, 0.5 to 7 s, 1 s: the usual rules of broadcasters for Latin scripts.
    fn default() -> Self {
        Self {
            line_chars: 42,
            line_count: 2,
            longest_cue_ms: 7_000,
            shortest_cue_ms: 500,
            pause_ms: 1_000,
            audio_ms: None,
            highlight_words: false,
        }
    }
}

/// SubRip: numbered cues, a comma before the milliseconds, UTF-8 with plain line feeds. A speaker's first cue begins with their
/// label. Empty without words.
#[must_use]
pub fn srt(words: &[Word], options: &SubtitleOptions) -> String {
    let captions = Captions::new(words, options, SpeakerNames::InText);
    let mut out = String::new();
    let mut number = 0;
    for cue in &captions.cues {
        for frame in captions.frames(cue) {
            if number > 0 {
                out.push('\n');
            }
            number += 1;
            let (start, end) = (Clock(frame.start_ms, ','), Clock(frame.end_ms, ','));
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{number}\n{start} --> {end}");
            captions.write(cue, frame.word, |text, out| out.push_str(text), &mut out);
        }
    }
    out
}

/// WebVTT: the header, a blank line, then the cues with `&`, `<` and `>` escaped, in a voice span where there are
/// speaker labels. Without words, the header alone.
#[must_use]
pub fn vtt(words: &[Word], options: &SubtitleOptions) -> String {
    let captions = Captions::new(words, options, SpeakerNames::Apart);
    let mut out = String::from("WEBVTT\n");
    for cue in &captions.cues {
        for frame in captions.frames(cue) {
            let (start, end) = (Clock(frame.start_ms, '.'), Clock(frame.end_ms, '.'));
            let _ = writeln!(out, "\n{start} --> {end}");
            if let Some(speaker) = &captions.words[cue.words.start].speaker {
                out.push_str("<v ");
                escape(speaker, &mut out);
                out.push('>');
            }
            captions.write(cue, frame.word, escape, &mut out);
        }
    }
    if out.len() == "WEBVTT\n".len() {
        out.push('\n');
    }
    out
}

/// LRC, the lyrics of a music player: a cue is a line after its time, in hundredths of a second, and an empty line ends it where a
/// silence follows. With [`SubtitleOptions::highlight_words`] each word has its time before it, too. The brackets of times are
/// parentheses in the text. Empty without words.
#[must_use]
pub fn lrc(words: &[Word], options: &SubtitleOptions) -> String {
    let captions = Captions::new(words, options, SpeakerNames::InText);
    let time = |ms: u64| format!("{:02}:{:02}.{:02}", ms / 60_000, ms / 1_000 % 60, ms / 10 % 100);
    let mut out = String::new();
    for (index, cue) in captions.cues.iter().enumerate() {
        let line = captions.line(cue, |word| match options.highlight_words && !is_mark(&word.text) {
            true => format!("<{}>", time(word.start_ms)),
            false => String::new(),
        });
        // Writing to a string cannot fail.
        let _ = writeln!(out, "[{}]{line}", time(cue.start_ms));
        let next = captions.cues.get(index + 1).map_or(u64::MAX, |next| next.start_ms);
        if next.saturating_sub(cue.end_ms) > options.pause_ms {
            let _ = writeln!(out, "[{}]", time(cue.end_ms));
        }
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
    words: Range<usize>,
    lines: Vec<Range<usize>>,
}

/// A time of a cue, and the word that is underlined in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    start_ms: u64,
    end_ms: u64,
    word: Option<usize>,
}

/// A time in the notation of SRT and WebVTT, which differ in the mark before the milliseconds.
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

struct Captions<'a> {
    words: Vec<CaptionWord>,
    cues: Vec<Cue>,
    options: &'a SubtitleOptions,
}

impl<'a> Captions<'a> {
    fn new(words: &[Word], options: &'a SubtitleOptions, names: SpeakerNames) -> Self {
        let words = caption_words(words, options, names);
        let layout = Layout { words: &words, options };
        let shortest = options.shortest_cue_ms.min(options.longest_cue_ms);
        let mut cues: Vec<Cue> = Vec::new();
        let mut ranges = layout.cues().into_iter().peekable();
        while let Some(range) = ranges.next() {
            // Only an empty cue, which gets one millisecond, can reach into the next one.
            let free_from = cues.last().map_or(0, |last| last.end_ms);
            let free_to = ranges.peek().map(|next| words[next.start].start_ms).or(options.audio_ms).unwrap_or(u64::MAX);
            let mut start_ms = free_from.max(words[range.start].start_ms);
            let longest = start_ms.saturating_add(options.longest_cue_ms);
            let mut end_ms = words[range.end - 1].end_ms.min(longest).max(start_ms.saturating_add(1));
            if end_ms - start_ms < shortest {
                end_ms = end_ms.max(free_to.min(start_ms.saturating_add(shortest)));
                start_ms = start_ms.min(free_from.max(end_ms.saturating_sub(shortest)));
            }
            cues.push(Cue { start_ms, end_ms, lines: layout.lines(&range), words: range });
        }
        Self { words, cues, options }
    }

    /// The cue as a whole, or a frame for each word: until the next one begins, so that the mark does not flicker.
    fn frames(&self, cue: &Cue) -> Vec<Frame> {
        let spoken: Vec<usize> = cue.words.clone().filter(|&word| !is_mark(&self.words[word].text)).collect();
        if !self.options.highlight_words || spoken.is_empty() {
            return vec![Frame { start_ms: cue.start_ms, end_ms: cue.end_ms, word: None }];
        }
        let mut frames = Vec::with_capacity(spoken.len());
        let mut start_ms = cue.start_ms;
        for (index, &word) in spoken.iter().enumerate() {
            let end_ms = match spoken.get(index + 1) {
                // Words that begin at one time get a millisecond each, as long as the cue has one for each.
                Some(&next) => {
                    let latest = cue.end_ms.saturating_sub((spoken.len() - index - 1) as u64);
                    self.words[next].start_ms.max(start_ms + 1).min(latest)
                }
                None => cue.end_ms,
            };
            if start_ms < end_ms {
                frames.push(Frame { start_ms, end_ms, word: Some(word) });
                start_ms = end_ms;
            }
        }
        frames
    }

    /// The words of a cue on one line of LRC, each after what `before` gives.
    fn line(&self, cue: &Cue, before: impl Fn(&CaptionWord) -> String) -> String {
        let mut line = String::new();
        let mut end = None;
        for word in self.words.get(cue.words.clone()).unwrap_or_default() {
            if end.is_some_and(|end| word.column > end) {
                line.push(' ');
            }
            end = Some(word.column + word.columns);
            line.push_str(&before(word));
            line.extend(word.text.chars().map(|letter| match letter {
                '[' | '<' => '(',
                ']' | '>' => ')',
                other => other,
            }));
        }
        line
    }

    /// Writes the lines of a cue, `marked` underlined.
    fn write(&self, cue: &Cue, marked: Option<usize>, escape: impl Fn(&str, &mut String), out: &mut String) {
        for line in &cue.lines {
            let mut column = self.words[line.start].column;
            for index in line.clone() {
                let word = &self.words[index];
                if word.column > column {
                    out.push(' ');
                }
                column = word.column + word.columns;
                let (label, text) = word.text.split_at(word.label);
                escape(label, out);
                if marked == Some(index) {
                    out.push_str("<u>");
                    escape(text, out);
                    out.push_str("</u>");
                } else {
                    escape(text, out);
                }
            }
            out.push('\n');
        }
    }
}

#[cfg(test)]
#[path = "subtitles_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "subtitles_script_tests.rs"]
mod script_tests;
