//! Windows of words that a classifier reads at a time.

use std::ops::Range;

use crate::text::analysis::Turn;

/// Words at each side of a cut within a sentence that both windows read; the labels of each are those of the window on its side.
const SHARED_WORDS: usize = 8;

/// Words that are read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The words.
    pub words: Range<usize>,
    /// Those of them whose labels count.
    pub kept: Range<usize>,
}

/// Cuts words into windows of at most `room` tokens, at the last end of a turn or a sentence that fits. Where none does, neighbours
/// share words. `starts` has the first token of each word and the end of the last. A word has at most half as many tokens as `room`.
pub fn windows(words: &[Turn<'_>], starts: &[usize], room: usize) -> Vec<Window> {
    let mut found = Vec::new();
    let (mut start, mut kept) = (0, 0);
    while kept < words.len() {
        let fits =
            words[start..].iter().enumerate().take_while(|(at, _)| starts[start + at + 1] - starts[start] <= room);
        let end = start + fits.count().max(1);
        let is_end = |at: &usize| words[at - 1].ends || ends_sentence(words[at - 1].text);
        let cut = if end == words.len() { Some(end) } else { (kept + 1..=end).rev().find(is_end) };
        match cut {
            Some(cut) => {
                found.push(Window { words: start..cut, kept: kept..cut });
                (start, kept) = (cut, cut);
            }
            None => {
                let middle = end - SHARED_WORDS.min((end - kept) / 2);
                found.push(Window { words: start..end, kept: kept..middle });
                // The next word fits as well.
                let back = (start..middle).rev().take(SHARED_WORDS);
                let back = back.take_while(|at| starts[middle] - starts[*at] <= room / 2);
                (start, kept) = (middle - back.count(), middle);
            }
        }
    }
    found
}

/// True if the word ends with a mark that ends a sentence, brackets and quotation marks aside.
fn ends_sentence(word: &str) -> bool {
    let word = word.trim_end_matches(|mark: char| !mark.is_alphanumeric() && !".!?…。！？".contains(mark));
    word.ends_with(['.', '!', '?', '…', '。', '！', '？'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(text: &str) -> Vec<Turn<'_>> {
        text.split(' ').map(|text| Turn { text, ends: false }).collect()
    }

    fn ranges(words: &[Turn<'_>], tokens_each: usize, room: usize) -> Vec<(Range<usize>, Range<usize>)> {
        let starts: Vec<usize> = (0..=words.len()).map(|at| at * tokens_each).collect();
        windows(words, &starts, room).into_iter().map(|window| (window.words, window.kept)).collect()
    }

    #[test]
    fn windows_end_with_sentences_and_turns() {
        let mut words = turns("a b. c d? e f g");
        assert_eq!(ranges(&words, 2, 10), [(0..4, 0..4), (4..7, 4..7)]);
        assert_eq!(ranges(&words, 1, 10), [(0..7, 0..7)]);
        words[4].ends = true;
        assert_eq!(ranges(&words, 2, 10), [(0..5, 0..5), (5..7, 5..7)]);
    }

    #[test]
    fn every_word_is_kept_once_and_seen_with_its_neighbours() {
        let mut text = String::from("word");
        (0..200).for_each(|at| text.push_str(if at % 61 == 7 { " last." } else { " word" }));
        let words = turns(&text);
        for (tokens, room) in [(1, 40), (3, 40), (3, 7), (1, 3), (5, 13), (0, 4)] {
            let mut next = 0;
            for (seen, kept) in ranges(&words, tokens, room) {
                assert_eq!(kept.start, next, "{tokens} {room}");
                assert!(seen.start <= kept.start && kept.end <= seen.end && !kept.is_empty(), "{seen:?} {kept:?}");
                assert!(seen.len() * tokens <= room, "{seen:?}");
                // A cut within a sentence shows both sides words of the other.
                let is_cut = kept.end < words.len() && words[kept.end - 1].text == "word";
                assert!(!is_cut || seen.end > kept.end || seen.len() < 4, "{seen:?} {kept:?}");
                next = kept.end;
            }
            assert_eq!(next, words.len());
        }
        assert_eq!(windows(&[], &[0], 5), []);
    }
}
