//! Words to sentences and paragraphs, by punctuation and pauses.

use serde::Serialize;

use std::borrow::Cow;

use super::Word;
use super::quote_marks::{plain, plain_words};
use super::sentence_boundaries::{ends_sentence, is_spaced};

/// A silence this long between two words ends a sentence even without a mark.
const SENTENCE_PAUSE_MS: u64 = 2_000;

/// A sentence without pauses and marks is cut after this number of words.
const SENTENCE_WORDS: usize = 80;

/// A silence this long between two sentences starts a new paragraph.
const PARAGRAPH_PAUSE_MS: u64 = 1_500;

/// A paragraph ends with the sentence in which it reaches this number of words.
const PARAGRAPH_WORDS: usize = 100;

/// Consecutive words of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Segment<'a> {
    /// Text of the words.
    pub text: String,
    /// First moment of the first word, ms.
    pub start: u64,
    /// Last moment of the last word, ms.
    pub end: u64,
    /// Mean confidence of the words, 0 to 1.
    pub confidence: f32,
    /// Label of the speaker, where speaker labels were asked for.
    pub speaker: Option<&'a str>,
    /// The words.
    pub words: &'a [Word],
}

impl<'a> Segment<'a> {
    /// `words` must not be empty.
    fn new(words: &'a [Word]) -> Self {
        Self {
            text: text_of(words),
            start: words.first().map_or(0, |word| word.start),
            end: words.iter().map(|word| word.end).max().unwrap_or(0),
            confidence: words.iter().map(|word| word.confidence).sum::<f32>() / words.len().max(1) as f32,
            speaker: words.first().and_then(|word| word.speaker.as_deref()),
            words,
        }
    }
}

impl Segment<'_> {
    /// Label of the speaker, if known. No sentence is of two speakers.
    #[must_use]
    pub fn speaker(&self) -> Option<&str> {
        self.words.first()?.speaker.as_deref()
    }

    /// Its text as an analysis reads it.
    pub(super) fn plain_text(&self) -> Cow<'_, str> {
        plain(&self.text)
    }

    /// Its words as an analysis reads them.
    pub(super) fn plain_words(&self) -> Cow<'_, [Word]> {
        plain_words(self.words)
    }
}

/// The text of consecutive words.
pub(super) fn text_of(words: &[Word]) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() && is_spaced(&text, &word.text) {
            text.push(' ');
        }
        text.push_str(&word.text);
    }
    text
}

/// All of some words, which must not be empty, as one segment.
#[must_use]
pub fn whole(words: &[Word]) -> Segment<'_> {
    Segment::new(words)
}

/// The sentences of a transcript: every word is in exactly one, in order. None crosses a change of speaker.
#[must_use]
pub fn sentences(words: &[Word]) -> Vec<Segment<'_>> {
    cut(words, |so_far, last, next| {
        ends_sentence(&last.text, &next.text)
            || last.speaker != next.speaker
            || next.start.saturating_sub(last.end) >= SENTENCE_PAUSE_MS
            || so_far.len() >= SENTENCE_WORDS
    })
}

/// The paragraphs of a transcript, whole sentences each: every word is in exactly one, in order. None crosses a change of
/// speaker.
#[must_use]
pub fn paragraphs(words: &[Word]) -> Vec<Segment<'_>> {
    // Ends of sentences, as positions in `words`.
    let ends: Vec<usize> = sentences(words)
        .iter()
        .scan(0, |end, sentence| {
            *end += sentence.words.len();
            Some(*end)
        })
        .collect();
    let mut paragraphs = Vec::new();
    let mut first = 0;
    for (index, &end) in ends.iter().enumerate() {
        let last_one = index + 1 == ends.len();
        let pause = if last_one { 0 } else { words[end].start.saturating_sub(words[end - 1].end) };
        let change = !last_one && words[end].speaker != words[end - 1].speaker;
        if last_one || change || pause >= PARAGRAPH_PAUSE_MS || end - first >= PARAGRAPH_WORDS {
            paragraphs.push(Segment::new(&words[first..end]));
            first = end;
        }
    }
    paragraphs
}

/// Cuts between two words where `ends` says so, given the words of the segment so far, its last one and the next one.
fn cut(words: &[Word], ends: impl Fn(&[Word], &Word, &Word) -> bool) -> Vec<Segment<'_>> {
    let mut segments = Vec::new();
    let mut first = 0;
    for at in 1..words.len() {
        if ends(&words[first..at], &words[at - 1], &words[at]) {
            segments.push(Segment::new(&words[first..at]));
            first = at;
        }
    }
    if first < words.len() {
        segments.push(Segment::new(&words[first..]));
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Word> {
        text.split(' ')
            .enumerate()
            .map(|(at, text)| Word {
                text: text.into(),
                start: at as u64 * 300,
                end: at as u64 * 300 + 250,
                confidence: 0.5,
                speaker: None,
                speaker_name: None,
                channel: None,
            })
            .collect()
    }

    fn texts(segments: &[Segment<'_>]) -> Vec<String> {
        segments.iter().map(|segment| segment.text.clone()).collect()
    }

    #[test]
    fn sentences_end_at_their_marks_and_titles_do_not() {
        let words = words("Mr. Gray came. He said \"Stop!\" and no more");
        assert_eq!(texts(&sentences(&words)), ["Mr. Gray came.", "He said \"Stop!\"", "and no more"]);
    }

    #[test]
    fn a_long_silence_ends_a_sentence_and_a_paragraph() {
        let mut words = words("one two three four");
        for word in &mut words[2..] {
            word.start += 5_000;
            word.end += 5_000;
        }
        assert_eq!(texts(&sentences(&words)), ["one two", "three four"]);
        assert_eq!(texts(&paragraphs(&words)), ["one two", "three four"]);
        assert_eq!(sentences(&words)[1].start, 5_600);
    }

    #[test]
    fn every_word_is_in_one_sentence_and_one_paragraph() {
        let words = words(&"so it goes on. ".repeat(300).repeat(2).trim().replace("on. so it goes", "on so it goes"));
        for segments in [sentences(&words), paragraphs(&words)] {
            let back: Vec<Word> = segments.iter().flat_map(|segment| segment.words.to_vec()).collect();
            assert_eq!(back, words);
        }
        assert!(paragraphs(&words).len() > 5);
    }

    #[test]
    fn no_segment_crosses_a_change_of_speaker() {
        let mut words = words("well yes. I think so no you do not");
        for (at, word) in words.iter_mut().enumerate() {
            word.speaker = Some(if at < 5 { "A" } else { "B" }.into());
        }
        assert_eq!(texts(&sentences(&words)), ["well yes.", "I think so", "no you do not"]);
        let paragraphs = paragraphs(&words);
        assert_eq!(texts(&paragraphs), ["well yes. I think so", "no you do not"]);
        assert_eq!(paragraphs.iter().map(|one| one.speaker).collect::<Vec<_>>(), [Some("A"), Some("B")]);
    }

    #[test]
    fn no_words_no_segments() {
        assert!(sentences(&[]).is_empty() && paragraphs(&[]).is_empty());
    }
}
