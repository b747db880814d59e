//! The progress of a transcription: how far it is, and the words that are settled.

use std::ops::ControlFlow;

use crate::audio::AudioStream;
use crate::error::{Error, Result};
use crate::language::ENGLISH;
use crate::options::TranscribeOptions;
use crate::text::Word;
use crate::text::itn::{self, PAUSE_MS};
use crate::text::sentence_boundaries::ends_sentence;
use crate::text::tokens::Spoken;
use crate::transcript::Progress;

/// No number has so many words: settled words without a pause are reported then.
const MANY_WORDS: usize = 100;

/// Reports the progress of a transcription.
pub struct ProgressReport<'a> {
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    total_s: Option<f64>,
    format_numbers: bool,
    /// The language of the options.
    language: Option<String>,
    /// Words of the text that are reported.
    reported: usize,
}

impl<'a> ProgressReport<'a> {
    /// Reports progress over `audio` to a callback.
    pub fn new(
        progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
        audio: &AudioStream,
        options: &TranscribeOptions,
    ) -> Self {
        let language = if options.translate { Some(ENGLISH.into()) } else { options.language.clone() };
        let format_numbers = options.format_numbers;
        Self { progress, total_s: audio.duration_s(), format_numbers, language, reported: 0 }
    }

    /// The words of a text that end by `settled_ms` and are not reported yet, up to the last place at which no number goes on. They count
    /// as reported.
    pub fn new_words<'w>(&mut self, spoken: &'w Spoken, settled_ms: u64) -> &'w [Word] {
        if self.language.is_none() {
            self.language = spoken.language.clone();
        }
        let new = spoken.words.get(self.reported..).unwrap_or_default();
        let settled = new.iter().take_while(|word| word.end <= settled_ms).count();
        let is_cut = |at: &usize| match (new.get(*at), new.get(at + 1)) {
            (Some(word), Some(next)) => next.start >= word.end + PAUSE_MS || ends_sentence(&word.text, &next.text),
            _ => false,
        };
        let cut = match (0..settled).rev().find(is_cut) {
            Some(last) => last + 1,
            None if settled > MANY_WORDS => settled,
            None => 0,
        };
        self.reported += cut;
        &new[..cut]
    }

    /// Reports that the audio is processed up to `audio_s`, and words that are settled.
    ///
    /// # Errors
    /// [`Error::Canceled`] if the callback stops the transcription.
    pub fn report(&mut self, audio_s: f64, words: &[Word]) -> Result<()> {
        let formatted = match &self.language {
            Some(language) if self.format_numbers => itn::numbers(words, language),
            _ => words.to_vec(),
        };
        match (self.progress)(Progress { audio_s, total_s: self.total_s, words: &formatted }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Canceled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// Words of 200 ms, 100 ms apart; `|` is a pause of a second.
    fn spoken(text: &str) -> Spoken {
        let mut start = 0;
        let mut words = Vec::new();
        for text in text.split_whitespace() {
            if text == "|" {
                start += 1_000;
                continue;
            }
            words.push(Word {
                text: text.into(),
                start,
                end: start + 200,
                confidence: 1.0,
                speaker: None,
                speaker_name: None,
                channel: None,
            });
            start += 300;
        }
        Spoken { words, text: text.into(), language: Some("en".into()) }
    }

    #[test]
    fn settled_words_are_reported_once_and_never_within_a_number() {
        let mut reported = Vec::new();
        let mut progress = |progress: Progress| {
            reported.push(progress.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "));
            ControlFlow::Continue(())
        };
        let audio = AudioStream::from_pcm_s16le(Cursor::new(Vec::new()), 16_000, 1).unwrap();
        let mut report = ProgressReport::new(&mut progress, &audio, &TranscribeOptions::default());
        let spoken = spoken("we sold | twenty three cars | or more. we saw it");
        for settled_ms in [1_000, 2_000, 2_400, 4_200, 4_500, 9_000] {
            let words = report.new_words(&spoken, settled_ms).to_vec();
            report.report(1.0, &words).unwrap();
        }
        assert_eq!(reported, ["we sold", "", "23 cars", "or more.", "", ""], "the end is never settled");
    }
}
