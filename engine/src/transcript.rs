//! The result of a transcription, and its progress.

use std::fmt;

use serde::Serialize;

use crate::error::Result;
use crate::speakers::words;
use crate::text::analysis::{self, Analysis, Passes, Tagger};
use crate::text::tokens::{joined, mean_confidence};
use crate::text::{Word, itn, segments};

/// Progress of a transcription.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// Seconds of audio done.
    pub audio_s: f64,
    /// Seconds of audio in all, where the file tells.
    pub total_s: Option<f64>,
    /// Words that no later step changes, each reported once, in order, without speakers. The transcript has the rest: those of the end, all
    /// words of a checkpoint that streams, and all of channels that are transcribed apart.
    pub words: &'a [Word],
}

/// The transcript of a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Transcript {
    /// The whole text; empty where nothing was said.
    pub text: String,
    /// The words, in order.
    pub words: Vec<Word>,
    /// Runs of one speaker's words, sorted by start, where speaker labels were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utterances: Option<Vec<Utterance>>,
    /// Mean confidence of the words, 0 to 1; none without words.
    pub confidence: Option<f32>,
    /// The language that was given or found.
    pub language_code: Option<String>,
    /// Seconds of audio.
    pub audio_duration_sec: f64,
    /// The service model.
    pub model: String,
    /// Warnings about the audio and the analysis, a line each.
    pub warnings: Vec<String>,
}

/// A run of one speaker's words.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Utterance {
    /// Label of the speaker: `A`, `B` and so on, by first word.
    pub speaker: String,
    /// Name of the speaker, where known people were to be named and this is surely one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker_name: Option<String>,
    /// Text of the words.
    pub text: String,
    /// First moment of the first word, ms.
    pub start: u64,
    /// Last moment of the last word, ms.
    pub end: u64,
    /// Mean confidence of the words, 0 to 1.
    pub confidence: f32,
}

impl Transcript {
    /// Does analysis passes over the words, with what a tagger finds in them, if there is one: that of
    /// [`Engine::tagger`](crate::Engine::tagger), say. Words, text and utterances are afterwards those that redaction and the profanity
    /// filter leave. A pass that is left out for its language gets a warning.
    ///
    /// # Errors
    /// As [`analysis::analyze`]; the transcript has no words then.
    pub fn analyze(&mut self, passes: &Passes, tagger: Option<&dyn Tagger>) -> Result<Analysis> {
        // Nothing is missing from a recording without words.
        if !self.words.is_empty() {
            self.warnings.extend(passes.left_out(self.language_code.as_deref()));
        }
        let words = std::mem::take(&mut self.words);
        let done = analysis::analyze(words, self.language_code.as_deref(), passes, tagger)?;
        self.words = done.words;
        if let Some(text) = done.text {
            self.text = text;
        }
        self.cut_utterances_again();
        Ok(done.analysis)
    }

    /// Writes numbers in digits, in a language whose numbers are known.
    pub(crate) fn format_numbers(&mut self) {
        let Some(language) = &self.language_code else { return };
        let words = itn::numbers(&self.words, language);
        if words == self.words {
            return;
        }
        self.text = joined(&words);
        self.confidence = mean_confidence(&words);
        self.words = words;
        self.cut_utterances_again();
    }

    /// Moves the times of an excerpt to those of its recording.
    pub(crate) fn begin_at(&mut self, start_ms: u64) {
        for word in &mut self.words {
            word.start += start_ms;
            word.end += start_ms;
        }
        for utterance in self.utterances.iter_mut().flatten() {
            utterance.start += start_ms;
            utterance.end += start_ms;
        }
    }

    /// Cuts words that have changed into utterances, if there are any, by their labels.
    fn cut_utterances_again(&mut self) {
        if self.utterances.is_some() {
            self.cut_utterances(&numbered(&self.words));
        }
    }

    /// Cuts the words into utterances, given each word's speaker, numbered by first word.
    pub(crate) fn cut_utterances(&mut self, speakers: &[usize]) {
        self.utterances = Some(cut(&self.words, speakers, |speaker, _| words::label(speaker)));
    }

    /// The text of words, as [`Transcript::text`] has it.
    #[must_use]
    pub fn text_of(words: &[Word]) -> String {
        joined(words)
    }
}

impl Utterance {
    /// Cuts words into utterances by their labels, which stay as they are.
    #[must_use]
    pub fn of_words(words: &[Word]) -> Vec<Self> {
        let label = |_, own: &[Word]| own.first().and_then(|word| word.speaker.clone()).unwrap_or_default();
        cut(words, &numbered(words), label)
    }
}

/// The speaker of each word, numbered by first word.
fn numbered(words: &[Word]) -> Vec<usize> {
    let mut labels = Vec::new();
    let speakers = words.iter().map(|word| {
        labels.iter().position(|label| *label == &word.speaker).unwrap_or_else(|| {
            labels.push(&word.speaker);
            labels.len() - 1
        })
    });
    speakers.collect()
}

/// Cuts words into utterances, given each word's speaker. `label` gives that of a speaker with these words.
fn cut(words: &[Word], speakers: &[usize], label: impl Fn(usize, &[Word]) -> String) -> Vec<Utterance> {
    let spans: Vec<_> = words.iter().map(|word| word.start..word.end).collect();
    let utterance = |found: words::Utterance| {
        let own: Vec<_> = found.words.iter().filter_map(|at| words.get(*at)).cloned().collect();
        let segment = segments::whole(&own);
        Utterance {
            speaker: label(found.speaker, &own),
            speaker_name: name_of(&own),
            text: segment.text,
            start: segment.start,
            end: segment.end,
            confidence: segment.confidence,
        }
    };
    words::utterances(&spans, speakers).into_iter().map(utterance).collect()
}

/// The name that most words have, if it is three quarters of them.
fn name_of(words: &[Word]) -> Option<String> {
    let name = words.iter().find_map(|word| word.speaker_name.as_ref())?;
    let named = words.iter().filter(|word| word.speaker_name.as_ref() == Some(name)).count();
    (4 * named >= 3 * words.len()).then(|| name.clone())
}

/// A person's voice: what [`Engine::enroll`](crate::Engine::enroll) keeps of a clip. It identifies a person, so store it encrypted.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct VoiceProfile {
    /// The fingerprint of the speaker embedding that made it. Directions of other embeddings cannot be compared with it.
    pub model: String,
    /// The voice's direction, of unit length.
    pub direction: Vec<f32>,
    /// Seconds of speech behind it.
    pub speech_sec: f64,
}

impl VoiceProfile {
    /// A profile that was stored.
    pub fn new(model: impl Into<String>, direction: Vec<f32>, speech_sec: f64) -> Self {
        Self { model: model.into(), direction, speech_sec }
    }
}

/// The direction is left out: it is in no log.
impl fmt::Debug for VoiceProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, speech_sec, .. } = self;
        f.debug_struct("VoiceProfile").field("model", model).field("speech_sec", speech_sec).finish_non_exhaustive()
    }
}

/// A person whom transcripts may name.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownSpeaker {
    /// The name.
    pub name: String,
    /// The voice.
    pub profile: VoiceProfile,
}

/// Facts of a checkpoint folder of which every tensor is accounted for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ModelReport {
    /// The published class.
    pub class: String,
    /// Values in its tensors.
    pub parameters: usize,
    /// Encoder blocks and their width.
    pub layers: usize,
    /// Width of the encoder.
    pub hidden_size: usize,
    /// Tokens, the blank included.
    pub vocab_size: usize,
    /// It can transcribe live.
    pub streaming: bool,
    /// Look-aheads it was trained with, in ms; empty where none are named.
    pub look_aheads_ms: Vec<u32>,
    /// The form of its weights: `safetensors`, `GGUF`, or `whisper.cpp` or `CTranslate2` with the types of its tensors.
    pub form: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "it cost twelve" of A, "thousand dollars in nineteen ninety" of B.
    fn transcript(language: Option<&str>) -> Transcript {
        let texts = ["it", "cost", "twelve", "thousand", "dollars", "in", "nineteen", "ninety"];
        let words = texts.iter().zip(0..).map(|(text, at)| Word {
            text: (*text).into(),
            start: at * 300,
            end: at * 300 + 250,
            confidence: 0.9 - at as f32 / 10.0,
            speaker: Some(if at < 3 { "A" } else { "B" }.into()),
            speaker_name: None,
            channel: None,
        });
        let words: Vec<Word> = words.collect();
        let mut transcript = Transcript {
            text: joined(&words),
            confidence: mean_confidence(&words),
            words,
            utterances: None,
            language_code: language.map(str::to_owned),
            audio_duration_sec: 3.0,
            model: String::new(),
            warnings: Vec::new(),
        };
        transcript.cut_utterances(&[0, 0, 0, 1, 1, 1, 1, 1]);
        transcript
    }

    #[test]
    fn numbers_change_words_text_utterances_and_confidence_together() {
        let mut formatted = transcript(Some("en"));
        formatted.format_numbers();
        assert_eq!(formatted.text, "it cost 12 thousand dollars in 1990", "no number is of two speakers");
        let year = formatted.words.last().unwrap();
        assert_eq!((year.text.as_str(), year.start, year.end), ("1990", 1_800, 2_350));
        assert_eq!((year.speaker.as_deref(), year.confidence), (Some("B"), 0.9 - 0.7));
        let spoken: Vec<&str> = formatted.utterances.iter().flatten().map(|one| one.text.as_str()).collect();
        assert_eq!(spoken, ["it cost 12", "thousand dollars in 1990"]);
        assert_eq!(formatted.confidence, mean_confidence(&formatted.words));
        assert_ne!(formatted.confidence, transcript(Some("en")).confidence);
    }

    #[test]
    fn a_language_without_rules_changes_nothing() {
        for language in [None, Some("ja"), Some("de")] {
            let mut formatted = transcript(language);
            formatted.format_numbers();
            assert_eq!(formatted, transcript(language));
        }
    }
}
