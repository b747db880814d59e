//! Words of captions: measured, in time order, and cut where they are longer than a line.

use super::line_breaks::{columns, is_mark, may_break_between, pieces};
use super::{SpeakerNames, SubtitleOptions};
use crate::text::Word;
use crate::text::sentence_boundaries::is_spaced;

/// A word of a caption, or a piece of a long one, without line feeds: they would end a cue.
pub struct CaptionWord {
    pub text: String,
    /// Bytes of the speaker's label before the word.
    pub label: usize,
    pub speaker: Option<String>,
    pub columns: usize,
    /// Columns before it if all words were one line: the length of a run of words is a difference of two.
    pub column: usize,
    pub start_ms: u64,
    /// Never past the start of the next word.
    pub end_ms: u64,
    /// True if no line may end before it.
    pub is_bound: bool,
}

/// Models may let neighbouring words overlap, or even step back; captions must not.
pub fn caption_words(words: &[Word], options: &SubtitleOptions, names: SpeakerNames) -> Vec<CaptionWord> {
    let mut all: Vec<CaptionWord> = Vec::with_capacity(words.len());
    for (index, word) in words.iter().enumerate() {
        let text = word.text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            continue;
        }
        let speaker = word.shown_speaker();
        let is_same_speaker = all.last().is_some_and(|before| before.speaker.as_deref() == speaker);
        let mut column = 0;
        let mut start_ms = word.start;
        let mut end_ms = words.get(index + 1).map_or(word.end, |next| word.end.min(next.start));
        let mut is_bound = false;
        if let Some(before) = all.last_mut() {
            start_ms = start_ms.max(before.start_ms);
            before.end_ms = before.end_ms.min(start_ms);
            column = before.column + before.columns + usize::from(is_spaced(&before.text, &text));
            is_bound = is_same_speaker && !may_break_between(&before.text, &text);
            // A mark is not spoken, so a late one is no reason to show its word through a pause.
            if is_bound && is_mark(&text) && start_ms - before.end_ms > options.pause_ms {
                (start_ms, end_ms) = (before.end_ms, before.end_ms);
            }
        }
        let label = match speaker {
            Some(speaker) if names == SpeakerNames::InText && !is_same_speaker => format!("{speaker}: "),
            _ => String::new(),
        };
        let end_ms = end_ms.max(start_ms);
        let width = columns(&text);
        let is_long = columns(&label) + width > options.line_chars;
        let mut said = 0;
        // A time within the word, after so many of its columns.
        let time = |columns: usize| start_ms + (end_ms - start_ms) * columns as u64 / width.max(1) as u64;
        for (index, piece) in (if is_long { pieces(&text) } else { vec![&*text] }).into_iter().enumerate() {
            let label = if index == 0 { label.as_str() } else { "" };
            let text = format!("{label}{piece}");
            let columns_here = columns(&text);
            let from = said;
            said = (said + columns(piece)).min(width);
            all.push(CaptionWord {
                label: label.len(),
                speaker: speaker.map(str::to_owned),
                columns: columns_here,
                column,
                start_ms: time(from),
                end_ms: time(said),
                is_bound: is_bound && index == 0,
                text,
            });
            column += columns_here;
        }
    }
    all
}
