//! Phrases with which people begin a new topic, in English.

use std::collections::HashMap;

use crate::text::quote_marks::plain;
use crate::text::segments::Segment;
use crate::text::word_list::phrases;

/// Words after the beginning that are looked at, and words before it.
const AFTER: usize = 30;
const BEFORE: usize = 12;

/// Phrases at the beginning and their weights, from a logistic regression on meetings with known topics. Of each row one
/// phrase counts, once.
const PHRASES: [(f64, &[&str]); 14] = [
    (1.6, &["move on", "moving on", "moves on"]),
    (1.9, &["moving to", "move to"]),
    (
        0.7,
        phrases!(
            "next item, next topic, next point, next question, next thing, next slide, next speaker, next section, \
             next up, next part, next chapter, next on, next one"
        ),
    ),
    (2.5, &["some questions", "questions now", "questions from"]),
    (0.6, &["talk about", "talking about", "speak about"]),
    (
        0.9,
        phrases!(
            "going to talk, going to discuss, going to turn, going to start, going to begin, going to show, \
             going to present, gonna talk, gonna discuss, gonna start, gonna show, gonna present, like to talk, \
             like to discuss, like to turn, like to start, like to begin, want to talk, want to discuss, \
             want to start, want to begin, wanted to talk, wanted to discuss"
        ),
    ),
    (
        0.8,
        phrases!(
            "let's start, let's begin, let's move, let's turn, let's go, let's get, let's talk, let's look, let us, \
             let me"
        ),
    ),
    (
        1.5,
        phrases!(
            "first thing, second thing, third thing, last thing, final thing, another thing, other thing, first item, \
             second item, last item, first topic, second topic, last topic, another topic, first point, second point, \
             last point, final point, another point, first question, second question, last question, another question, \
             first issue, second issue, another issue, another matter, new topic, new subject"
        ),
    ),
    (2.1, &["presentation"]),
    (1.4, &["good morning", "good afternoon", "good evening", "welcome"]),
    (0.7, &["discuss", "discussion"]),
    (1.1, &["minutes"]),
    (1.0, &["turn to", "turning to", "come to", "on to", "back to", "go to", "now to", "now on"]),
    (0.6, &["as for", "as to", "as regards", "regarding", "in terms of", "with regard"]),
];

/// Words that begin a topic, and the weight of one and of two at the start.
const STARTERS: [&str; 11] = ["okay", "ok", "right", "alright", "well", "now", "so", "anyway", "anyways", "um", "uh"];
const STARTER: f64 = 0.6;

/// Weight of thanks at the start, and before it.
const THANKS: f64 = 0.5;

/// The row of thanks, after those of phrases.
const THANKS_ROW: usize = PHRASES.len();

/// The row of the words that begin a topic.
const STARTER_ROW: usize = PHRASES.len() + 1;

/// The cues of a transcript.
pub(super) struct Cues {
    /// For each word the rows of the phrases that begin with it, as bits.
    rows: Vec<u32>,
}

impl Cues {
    pub(super) fn new(sentences: &[Segment<'_>]) -> Self {
        let phrases = PHRASES.iter().map(|(_, phrases)| *phrases).chain([&["thank you", "thanks"][..], &STARTERS[..]]);
        let mut by_first: HashMap<&str, Vec<(usize, Vec<&str>)>> = HashMap::new();
        for (row, phrase) in
            phrases.enumerate().flat_map(|(row, phrases)| phrases.iter().map(move |phrase| (row, phrase)))
        {
            let mut parts = phrase.split(' ');
            by_first.entry(parts.next().unwrap_or_default()).or_default().push((row, parts.collect()));
        }
        let bare = |text: &str| text.trim_matches(|mark: char| !mark.is_alphanumeric()).to_lowercase();
        let words: Vec<String> =
            sentences.iter().flat_map(|sentence| sentence.words).map(|word| bare(&plain(&word.text))).collect();
        let rows_at = |at: usize| {
            let phrases = by_first.get(words[at].as_str()).into_iter().flatten();
            let read = phrases.filter(|(_, rest)| words[at + 1..].iter().take(rest.len()).eq(rest.iter()));
            read.fold(0, |rows, (row, _)| rows | 1 << row)
        };
        Self { rows: (0..words.len()).map(rows_at).collect() }
    }

    /// The score, by the cues, of a new topic that begins with word `first` of a turn that ends before word `end`.
    pub(super) fn score(&self, first: usize, end: usize) -> f64 {
        let rows_of = |words: &[u32]| words.iter().fold(0, |all, rows| all | rows);
        let start = rows_of(&self.rows[first..end.min(first + AFTER)]);
        let before = rows_of(&self.rows[first.saturating_sub(BEFORE)..first]);
        let phrases: f64 =
            (0..).zip(PHRASES).filter(|(row, _)| start >> row & 1 == 1).map(|(_, (weight, _))| weight).sum();
        let is_starter = |rows: &&u32| **rows >> STARTER_ROW & 1 == 1;
        let starters = self.rows[first..end.min(first + 2)].iter().take_while(is_starter).count();
        let thanks = [start, before].iter().filter(|rows| **rows >> THANKS_ROW & 1 == 1).count();
        phrases + STARTER * starters as f64 + THANKS * thanks as f64
    }
}
