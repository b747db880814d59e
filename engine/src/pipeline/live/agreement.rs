//! LocalAgreement: the words on which two successive readings of a turn agree, which then stay. (Liu et al. 2020; Machacek et al. 2023
//! for Whisper.)

use crate::text::Word;

/// Words that a reading may repeat of those that stay, as its times differ a little.
const MOST_REPEATED: usize = 5;
/// Times of a word in two readings differ by no more than this, ms.
const TIME_MARGIN_MS: u64 = 100;

/// The words of a turn on which readings agree.
#[derive(Debug, Default)]
pub struct Agreement {
    stable: Vec<Word>,
    /// The words of the last reading behind them.
    open: Vec<Word>,
}

/// A word without case and punctuation.
fn bare(word: &Word) -> String {
    word.text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn are_same(a: &[Word], b: &[Word]) -> bool {
    a.iter().map(bare).eq(b.iter().map(bare))
}

impl Agreement {
    /// The words that stay.
    pub fn words(&self) -> &[Word] {
        &self.stable
    }

    /// End of the last word that stays, ms; 0 without one.
    pub fn end_ms(&self) -> u64 {
        self.stable.last().map_or(0, |word| word.end)
    }

    /// Takes a reading; true if more words stay now.
    pub fn take(&mut self, reading: Vec<Word>) -> bool {
        let new = self.behind(reading);
        let agreed = new.iter().zip(&self.open).take_while(|(new, old)| bare(new) == bare(old)).count();
        self.open = new;
        self.stable.extend(self.open.drain(..agreed));
        agreed > 0
    }

    /// Takes the last reading of a part of the turn: its words stay; true if there are more now.
    pub fn settle(&mut self, reading: Vec<Word>) -> bool {
        let new = self.behind(reading);
        self.open.clear();
        let count = new.len();
        self.stable.extend(new);
        count > 0
    }

    /// Forgets the turn.
    pub fn clear(&mut self) {
        self.stable.clear();
        self.open.clear();
    }

    /// The words of a reading that come after those that stay.
    fn behind(&self, mut reading: Vec<Word>) -> Vec<Word> {
        let end = self.end_ms();
        if end > 0 {
            reading.retain(|word| word.start.midpoint(word.end) + TIME_MARGIN_MS > end);
        }
        let most = MOST_REPEATED.min(self.stable.len()).min(reading.len());
        let repeats = |count: &usize| are_same(&self.stable[self.stable.len() - count..], &reading[..*count]);
        let repeated = (1..=most).rev().find(repeats).unwrap_or(0);
        reading.drain(..repeated);
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of 300 ms, one after the other from `start` on.
    fn reading(start: u64, text: &str) -> Vec<Word> {
        let word = |(at, text): (usize, &str)| {
            let start = start + 300 * at as u64;
            let text = text.to_owned();
            Word { text, start, end: start + 300, confidence: 0.9, speaker: None, speaker_name: None, channel: None }
        };
        text.split_whitespace().enumerate().map(word).collect()
    }

    fn text(agreement: &Agreement) -> String {
        agreement.words().iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_stay_when_two_readings_agree_on_them() {
        let mut agreement = Agreement::default();
        assert!(!agreement.take(reading(1_000, "Ask not want")));
        assert!(agreement.take(reading(1_000, "ask not, what your")));
        assert_eq!(text(&agreement), "ask not,");
        assert!(agreement.take(reading(1_000, "And so what your country")));
        assert_eq!(text(&agreement), "ask not, what your", "what stays is no more revised");
        assert!(!agreement.take(reading(1_000, "Ask not what your")), "a reading that lost its end");
        assert_eq!(text(&agreement), "ask not, what your");
    }

    #[test]
    fn a_word_that_moved_is_not_there_twice() {
        let mut agreement = Agreement::default();
        for shift in [0, 0, 180, 180] {
            agreement.take(reading(1_000 + shift, "one two three"));
        }
        assert_eq!(text(&agreement), "one two three");
    }

    #[test]
    fn the_words_of_a_part_stay_and_the_next_part_follows() {
        let mut agreement = Agreement::default();
        agreement.take(reading(0, "one two"));
        agreement.take(reading(0, "one too"));
        assert!(agreement.settle(reading(0, "One two three.")));
        assert_eq!(text(&agreement), "one two three.");
        assert!(!agreement.take(reading(950, "Four")) && agreement.take(reading(950, "Four five")));
        assert_eq!(text(&agreement), "one two three. Four");
        agreement.clear();
        assert_eq!((text(&agreement).as_str(), agreement.end_ms()), ("", 0));
    }
}
