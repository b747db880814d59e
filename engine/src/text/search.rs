//! Search for words and short phrases in a transcript.

use serde::Serialize;
use unicode_normalization::UnicodeNormalization as _;

use super::Word;
use super::quote_marks::plain;
use super::sentence_boundaries::is_unspaced_script;

/// Most words of a phrase.
pub const LONGEST_PHRASE: usize = 5;

/// All occurrences of one phrase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Match {
    /// The phrase as requested, with single spaces.
    pub text: String,
    /// Number of occurrences.
    pub count: usize,
    /// `[start, end]` of each occurrence, ms.
    pub timestamps: Vec<[u64; 2]>,
    /// Position of each occurrence's first word among the transcript's words.
    pub indexes: Vec<usize>,
}

/// Finds each phrase, case and punctuation ignored; a phrase that does not occur, or holds no letter or digit, has
/// count 0. Whole words are found, and any run of characters of a script that is written without spaces. Phrases have
/// at most [`LONGEST_PHRASE`] words, which the caller checks with [`word_count`].
#[must_use]
pub fn find(words: &[Word], phrases: &[&str]) -> Vec<Match> {
    let spoken = Folded::new(words.iter().map(|word| word.text.as_str()));
    phrases
        .iter()
        .map(|phrase| {
            let found = spoken.places(&Folded::new(phrase.split_whitespace()).text);
            Match {
                text: phrase.split_whitespace().collect::<Vec<_>>().join(" "),
                count: found.len(),
                timestamps: found.iter().map(|&(first, last)| [words[first].start, words[last].end]).collect(),
                indexes: found.iter().map(|&(first, _)| first).collect(),
            }
        })
        .collect()
}

/// Number of words of a phrase; a word has at least one letter or digit.
#[must_use]
pub fn word_count(phrase: &str) -> usize {
    phrase.split_whitespace().filter(|word| !folded(word).is_empty()).count()
}

/// Words in the form in which they are compared: one text, and the start of each word in it.
struct Folded {
    text: String,
    /// First byte of a word, and the word's position.
    words: Vec<(usize, usize)>,
}

impl Folded {
    fn new<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Self { text: String::new(), words: Vec::new() };
        for (at, word) in words.enumerate() {
            let word = folded(word);
            if word.is_empty() {
                continue;
            }
            if !all.text.is_empty() && !may_split(&all.text, &word) {
                all.text.push(' ');
            }
            all.words.push((all.text.len(), at));
            all.text.push_str(&word);
        }
        all
    }

    /// First and last word of every occurrence; those of one phrase may overlap.
    fn places(&self, phrase: &str) -> Vec<(usize, usize)> {
        let mut places = Vec::new();
        let mut from = 0;
        while let (Some(at), false) = (self.text[from..].find(phrase), phrase.is_empty()) {
            let (start, end) = (from + at, from + at + phrase.len());
            if self.is_edge(start) && self.is_edge(end) {
                places.push((self.word_at(start), self.word_at(end - 1)));
            }
            from = start + phrase.chars().next().map_or(1, char::len_utf8);
        }
        places
    }

    /// True if a word begins or ends here: at a space, or anywhere in a script without spaces.
    fn is_edge(&self, at: usize) -> bool {
        let (before, after) = self.text.split_at(at);
        let is_edge = |character: Option<char>| character.is_none_or(|character| character == ' ');
        is_edge(before.chars().next_back()) || is_edge(after.chars().next()) || may_split(before, after)
    }

    fn word_at(&self, byte: usize) -> usize {
        let next = self.words.partition_point(|&(start, _)| start <= byte);
        self.words[next - 1].1
    }
}

/// True if a word may end between the two without a space: "2024" and "年" are one word or two.
fn may_split(before: &str, after: &str) -> bool {
    let is_unspaced = |character: Option<char>| character.is_some_and(is_unspaced_script);
    is_unspaced(before.chars().next_back()) || is_unspaced(after.chars().next())
}

/// Letters and digits only, in one form: "Don't," is "dont", "ΟΔΟΣ" is "οδοσ", "ﬁ" is "fi".
fn folded(word: &str) -> String {
    // Conversion to capitals first makes letters with two lower-case forms equal.
    let plain = plain(word);
    let capitals = plain.nfkc().flat_map(char::to_uppercase);
    capitals.flat_map(char::to_lowercase).nfkc().filter(|character| character.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Word> {
        text.split(' ')
            .enumerate()
            .map(|(at, text)| Word {
                text: text.into(),
                start: at as u64 * 10,
                end: at as u64 * 10 + 9,
                confidence: 1.0,
                speaker: None,
                speaker_name: None,
                channel: None,
            })
            .collect()
    }

    #[test]
    fn words_and_phrases_are_found_without_case_and_punctuation() {
        let words = words("Ask not, what you can. Ask NOT!");
        let found = find(&words, &["ask  not", "what", "Äsk", "?", "not! what you can ask not more", "sk", "no"]);
        assert_eq!((found[0].text.as_str(), found[0].count), ("ask not", 2));
        assert_eq!(found[0].timestamps, [[0, 19], [50, 69]]);
        assert_eq!(found[0].indexes, [0, 5]);
        assert_eq!(found[1].indexes, [2]);
        assert!(found[2..].iter().all(|none| none.count == 0));
        assert!(find(&[], &["a"])[0].indexes.is_empty());
    }

    #[test]
    fn marks_that_stand_alone_are_passed_over() {
        let words = words("salt – and pepper , please");
        let found = find(&words, &["salt and", "pepper - please", "– salt"]);
        assert_eq!(found.iter().map(|found| found.indexes.as_slice()).collect::<Vec<_>>(), [&[0], &[3], &[0]]);
        assert_eq!(found[1].timestamps, [[30, 59]]);
        assert_eq!((word_count("a - b – c"), word_count("!"), word_count("")), (3, 0, 0));
    }

    #[test]
    fn scripts_without_spaces_are_found_across_words_and_inside_them() {
        let words = words("我们 都 是 中国人 OK");
        let found = find(&words, &["都是中国", "国人", "们都", "人 ok", "人o", "都 是"]);
        let indexes: Vec<_> = found.iter().map(|found| found.indexes.as_slice()).collect();
        assert_eq!(indexes, [&[1][..], &[3], &[0], &[3], &[], &[1]]);
        assert_eq!(found[0].timestamps, [[10, 39]]);
    }

    #[test]
    fn scripts_with_and_without_spaces_may_touch() {
        let words = words("在 2024 年 买 手机iPhone 了 3月");
        let found = find(&words, &["2024年", "2024 年", "手机", "iphone", "3月", "3", "phone", "年买", "024年"]);
        let indexes: Vec<_> = found.iter().map(|found| found.indexes.as_slice()).collect();
        assert_eq!(indexes, [&[1][..], &[1], &[4], &[4], &[6], &[6], &[], &[2], &[]]);
    }

    #[test]
    fn letters_with_several_forms_are_one() {
        let words = words("ὁδός ΟΔΟΣ cafe\u{301} Straße ﬁne ２");
        let found = find(&words, &["οδος", "café", "STRASSE", "fine", "2"]);
        let indexes: Vec<_> = found.iter().map(|found| found.indexes.as_slice()).collect();
        assert_eq!(indexes, [&[1], &[2], &[3], &[4], &[5]]);
    }

    #[test]
    fn occurrences_may_overlap() {
        assert_eq!(find(&words("so so so"), &["so so"])[0].indexes, [0, 1]);
    }

    #[test]
    fn apostrophes_of_every_form_are_equal() {
        for mark in ["'", "\u{2019}", "\u{2018}", "\u{2bc}", "\u{ff07}"] {
            let spoken = words(&format!("I don{mark}t know {mark}em"));
            for phrase in ["don't know", "don\u{2bc}t know", "don\u{2019}t know", "em"] {
                assert_eq!(find(&spoken, &[phrase])[0].count, 1, "{phrase} with {mark}");
            }
        }
    }
}
