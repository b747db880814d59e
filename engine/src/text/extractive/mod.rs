//! Answers that quote a transcript, without a language model: sentences ranked by BM25 over word stems, with the kind of answer
//! that a question asks for. Nothing is written that the transcript does not say.
//!
//! Order: `terms` (text to stems) -> `index` (BM25) -> `prompt` (what is asked) -> `answer` (which sentences); `spans` (names,
//! numbers, dates), `shape` (the JSON object that a prompt describes) and `fields` (its values) serve JSON answers.

mod answer;
mod fields;
mod index;
mod prompt;
mod shape;
mod spans;
mod stop_words;
mod terms;

use std::fmt::Write as _;

use serde_json::Value;

pub use prompt::asks_for_summary;

/// The answer where the transcript has none.
pub const NOT_SAID: &str = "The transcript does not say.";

/// A part of a transcript that is quoted whole: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The speaker's label, if speakers are known.
    pub speaker: Option<String>,
    /// Its first moment, ms from the start of the audio.
    pub start_ms: u64,
    /// Its words.
    pub text: String,
}

impl Passage {
    /// The passage with its speaker and time: `[A 00:12] text`.
    #[must_use]
    pub fn quote(&self) -> String {
        let mut quote = String::from("[");
        if let Some(speaker) = &self.speaker {
            quote.push_str(speaker);
            quote.push(' ');
        }
        let seconds = self.start_ms / 1000;
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        // Writing to a string cannot fail.
        let _ = match hours {
            0 => write!(quote, "{minutes:02}:{seconds:02}] {}", self.text),
            _ => write!(quote, "{hours}:{minutes:02}:{seconds:02}] {}", self.text),
        };
        quote
    }
}

/// Answers a prompt with the sentences that bear on it, one a line, in the order of the transcript; [`NOT_SAID`] if none does.
/// `language` is the transcript's language code, if it is known.
#[must_use]
pub fn answer(sentences: &[Passage], language: Option<&str>, prompt: &str) -> String {
    let transcript = answer::Transcript::new(sentences, language);
    let answers = transcript.answers(prompt);
    let text = |found: &[usize]| match found {
        [] => NOT_SAID.to_owned(),
        found => found.iter().map(|&at| sentences[at].quote()).collect::<Vec<_>>().join("\n"),
    };
    match answers.as_slice() {
        [] => NOT_SAID.to_owned(),
        [(_, found)] => text(found),
        several if several.iter().all(|(_, found)| found.is_empty()) => NOT_SAID.to_owned(),
        several => {
            let parts: Vec<String> =
                several.iter().map(|(question, found)| format!("{question}\n{}", text(found))).collect();
            parts.join("\n\n")
        }
    }
}

/// Answers a prompt that describes a JSON object: the fields that the transcript fills with its own words, numbers and names, null
/// for the others. Without a description the object has `answer` and `quotes`.
#[must_use]
pub fn answer_json(sentences: &[Passage], language: Option<&str>, prompt: &str) -> Value {
    let transcript = answer::Transcript::new(sentences, language);
    fields::fill(&transcript, prompt)
}

/// The positions of the passages that bear on a prompt, the best first, then all others in their order.
#[must_use]
pub fn rank(passages: &[Passage], language: Option<&str>, prompt: &str) -> Vec<usize> {
    answer::Transcript::new(passages, language).rank(prompt)
}

#[cfg(test)]
mod tests;
