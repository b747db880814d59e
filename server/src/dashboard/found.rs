//! The sentence that a search found, as a row of the list shows it.

use std::ops::Range;

use super::shown::duration;
use crate::store::FoundSentence;

/// The sentence that a search found.
pub struct Found {
    pub start_ms: i64,
    pub time: String,
    /// Parts of the sentence; true for those that were searched.
    pub parts: Vec<(bool, String)>,
}

impl Found {
    pub fn new(sentence: FoundSentence) -> Self {
        let (mut parts, mut end) = (Vec::new(), 0);
        let part = |range: Range<usize>| sentence.text.get(range).unwrap_or_default().to_owned();
        for mark in &sentence.marks {
            parts.push((false, part(end..mark.start)));
            parts.push((true, part(mark.clone())));
            end = mark.end;
        }
        parts.push((false, part(end..sentence.text.len())));
        Self { start_ms: sentence.start_ms, time: duration(sentence.start_ms), parts }
    }
}
