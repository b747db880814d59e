//! Function words of seven languages, and words of prompts that name the task and not its subject.

use crate::text::word_list::words;

/// Function words of a language; none for a language without a list.
pub fn stop_words(code: &str) -> &'static [&'static str] {
    match code {
        "en" => words!(include_str!("stop_words/en.txt")),
        "de" => words!(include_str!("stop_words/de.txt")),
        "es" => words!(include_str!("stop_words/es.txt")),
        "fr" => words!(include_str!("stop_words/fr.txt")),
        "it" => words!(include_str!("stop_words/it.txt")),
        "pt" => words!(include_str!("stop_words/pt.txt")),
        "nl" => words!(include_str!("stop_words/nl.txt")),
        _ => &[],
    }
}

/// Words of a prompt that name the task. They count as function words in prompts, not in transcripts.
pub const TASK_WORDS: &[&str] = words!(
    "according answer briefly caller callers clip conversation describe discuss discussed explain extract field fields \
     format give guest happen happened happens host identify information interviewee interviewer json key keys list \
     mention mentioned mentions name object please provide question quote recording said say saying says speaker state \
     stated talk talked tell transcript transcription valid"
);
