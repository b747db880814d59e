//! The columns that text takes, and the places where a line of it may end.

use unicode_normalization::char::is_combining_mark;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::text::sentence_boundaries::is_unspaced_script;

/// Marks that close or end something, signs of repetition and length, and small kana: none begins a line.
const NEVER_FIRST: &str = ",.!?;:…‥%‰)]}»›”’،؛؟।、。，．！？；：・％）］｝」』】〕〉》〗〙〛〟～〜｡｣､･\
    ーｰ々〻ゝゞヽヾぁぃぅぇぉっゃゅょゎゕゖァィゥェォッャュョヮヵヶㇰㇱㇲㇳㇴㇵㇶㇷㇸㇹㇺㇻㇼㇽㇾㇿｧｨｩｪｫｬｭｮｯ\
    ะาำๅๆฯะາຳໆຯ";

/// Marks that open something, vowels that are written before their consonant, and signs that join two consonants: none
/// ends a line.
const NEVER_LAST: &str = "([{«‹“‘„‚¿¡（［｛「『【〔〈《〖〘〚〝｢เแโใไເແໂໃໄ\u{1039}\u{17d2}";

/// Columns of a text in a font of fixed width: two for a wide character, none for a combining mark.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// True if no letter or digit is in the text.
pub fn is_mark(text: &str) -> bool {
    !text.chars().any(char::is_alphanumeric)
}

/// True if a line may end between two words. A mark with a space before it, as in French, stays with its word; one that
/// begins a word, as in ".NET", is a part of that.
pub fn may_break_between(before: &str, after: &str) -> bool {
    let binds = |text: &str, edge: Option<char>, marks: &str| {
        edge.is_some_and(|edge| marks.contains(edge) && (is_unspaced_script(edge) || is_mark(text)))
    };
    !binds(after, after.chars().next(), NEVER_FIRST) && !binds(before, before.chars().next_back(), NEVER_LAST)
}

/// The pieces of a word between which a line may end: of scripts without spaces.
pub fn pieces(word: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut before = None;
    for (at, after) in word.char_indices() {
        if before.is_some_and(|before| may_break_inside(before, after)) {
            pieces.push(&word[start..at]);
            start = at;
        }
        before = Some(after);
    }
    pieces.push(&word[start..]);
    pieces
}

fn may_break_inside(before: char, after: char) -> bool {
    let parts = |character: char| is_unspaced_script(character) && !is_fullwidth_latin(character);
    (parts(before) || parts(after))
        && !NEVER_FIRST.contains(after)
        && !NEVER_LAST.contains(before)
        && !is_combining_mark(after)
        && after.width() != Some(0)
}

/// Fullwidth digits and Latin letters: they make numbers and words, as their common forms do.
fn is_fullwidth_latin(character: char) -> bool {
    matches!(character, '０'..='９' | 'Ａ'..='Ｚ' | 'ａ'..='ｚ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns_and_marks_that_combine_none() {
        for (text, expected) in
            [("abc", 3), ("你好", 4), ("ｱｲ", 2), ("Ａ", 2), ("e\u{301}", 1), ("한국", 4), ("กำ", 2), ("ที่", 1), ("", 0)]
        {
            assert_eq!(columns(text), expected, "{text}");
        }
    }

    #[test]
    fn marks_stay_with_their_words() {
        for (before, after) in [
            ("va", "?"),
            ("va", "!"),
            ("dit", "»"),
            ("«", "Oui"),
            ("50", "%"),
            ("and", "..."),
            ("你好", "。"),
            ("好", "，但是"),
            ("「", "はい"),
            ("待", "っ"),
            ("¿", "qué"),
        ] {
            assert!(!may_break_between(before, after), "{before} {after}");
        }
        for (before, after) in [
            ("Oui.", "—"),
            ("yes.", "-"),
            ("a", "–"),
            ("the", ".NET"),
            ("say", "'tis"),
            ("and", "...so"),
            ("sagt", "»Ja«"),
            ("R", "&"),
            ("你好", "世界"),
            ("f(x)", "is"),
        ] {
            assert!(may_break_between(before, after), "{before} {after}");
        }
    }

    #[test]
    fn words_without_spaces_have_pieces_and_others_are_whole() {
        for (word, expected) in [
            ("今日は、「雨」です。", "今|日|は、|「雨」|で|す。"),
            ("ちょっと", "ちょっ|と"),
            ("スーパー", "スー|パー"),
            ("用Rust写——好……", "用|Rust|写|——|好……"),
            ("２０２６年", "２０２６|年"),
            ("か\u{3099}く", "か\u{3099}|く"),
            ("ที่เก่า", "ที่|เก่า"),
            ("extraordinary!", "extraordinary!"),
            ("한국어입니다", "한국어입니다"),
        ] {
            assert_eq!(pieces(word).join("|"), expected);
        }
    }
}
