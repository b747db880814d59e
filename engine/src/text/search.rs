//! Where words and short phrases occur in a transcript.

use serde::Serialize;

use crate::Word;

/// Words that a phrase has at most.
pub const LONGEST_PHRASE: usize = 5;

/// All places of one phrase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Match {
    /// The phrase as it was asked for, spaces made single.
    pub text: String,
    /// How often it occurs.
    pub count: usize,
    /// `[start, end]` of each occurrence, ms.
    pub timestamps: Vec<[u64; 2]>,
    /// Position of each occurrence's first word among the transcript's words.
    pub indexes: Vec<usize>,
}

/// Finds each phrase, case and punctuation ignored; a phrase that does not occur, or holds no letter or digit, has
/// count 0. Phrases have at most [`LONGEST_PHRASE`] words, which the caller checks.
#[must_use]
pub fn find(words: &[Word], phrases: &[&str]) -> Vec<Match> {
    let spoken: Vec<String> = words.iter().map(|word| folded(&word.text)).collect();
    phrases
        .iter()
        .map(|phrase| {
            let text = phrase.split_whitespace().collect::<Vec<_>>().join(" ");
            let wanted: Vec<String> = text.split(' ').map(folded).filter(|word| !word.is_empty()).collect();
            let indexes: Vec<usize> = match wanted.len() {
                0 => Vec::new(),
                length => (0..(spoken.len() + 1).saturating_sub(length))
                    .filter(|&at| spoken[at..at + length] == wanted[..])
                    .collect(),
            };
            let timestamps = indexes.iter().map(|&at| [words[at].start, words[at + wanted.len() - 1].end]).collect();
            Match { text, count: indexes.len(), timestamps, indexes }
        })
        .collect()
}

/// Lower case, letters and digits alone: "Don't," is "dont".
fn folded(word: &str) -> String {
    word.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_phrases_are_found_without_case_and_punctuation() {
        let words: Vec<Word> = "Ask not, what you can. Ask NOT!"
            .split(' ')
            .enumerate()
            .map(|(at, text)| Word {
                text: text.into(),
                start: at as u64 * 10,
                end: at as u64 * 10 + 9,
                confidence: 1.0,
            })
            .collect();
        let found = find(&words, &["ask  not", "what", "Äsk", "?", "not! what you can ask not more"]);
        assert_eq!((found[0].text.as_str(), found[0].count), ("ask not", 2));
        assert_eq!(found[0].timestamps, [[0, 19], [50, 69]]);
        assert_eq!(found[0].indexes, [0, 5]);
        assert_eq!(found[1].indexes, [2]);
        assert!(found[2..].iter().all(|none| none.count == 0));
        assert!(find(&[], &["a"])[0].indexes.is_empty());
    }
}
