//! Apostrophes and quotation marks in their plain form, in which every analysis reads a text.

use std::borrow::Cow;

use super::Word;

/// The plain form of a typographic apostrophe or quotation mark.
fn plain_mark(mark: char) -> Option<char> {
    match mark {
        '\u{2018}'..='\u{201b}' | '\u{2bc}' | '\u{b4}' | '\u{ff07}' | '\u{2039}' | '\u{203a}' => Some('\''),
        '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}' | '\u{ff02}' => Some('"'),
        _ => None,
    }
}

/// The text with `'` and `"` for typographic apostrophes and quotation marks, a character for a character.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.contains(is_typographic) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|mark| plain_mark(mark).unwrap_or(mark)).collect())
}

/// True for a typographic apostrophe or quotation mark, one of which is a letter by its Unicode category.
pub(super) fn is_typographic(mark: char) -> bool {
    plain_mark(mark).is_some()
}

/// Words in the plain form.
pub(crate) fn plain_words(words: &[Word]) -> Cow<'_, [Word]> {
    if words.iter().all(|word| matches!(plain(&word.text), Cow::Borrowed(_))) {
        return Cow::Borrowed(words);
    }
    words.iter().map(|word| Word { text: plain(&word.text).into_owned(), ..word.clone() }).collect()
}

/// The place in a text of a place in its plain form, both in bytes.
pub(super) fn original_place(original: &str, place: usize) -> usize {
    let mut left = place;
    let passed = original.chars().take_while(|mark| {
        let goes_on = left > 0;
        left = left.saturating_sub(plain_mark(*mark).unwrap_or(*mark).len_utf8());
        goes_on
    });
    passed.map(char::len_utf8).sum()
}

/// A part of a text's plain form, as the text has it.
pub(super) fn original_part<'a>(original: &'a str, part: &'a str) -> &'a str {
    let Cow::Owned(plain) = plain(original) else { return part };
    plain
        .find(part)
        .map_or(part, |start| &original[original_place(original, start)..original_place(original, start + part.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_have_a_plain_form_and_letters_stay() {
        assert_eq!(plain("don\u{2019}t don\u{2bc}t don\u{ff07}t \u{2018}em"), "don't don't don't 'em");
        assert_eq!(plain("“so” „so“ «so» 5′10″ é—…"), "\"so\" \"so\" \"so\" 5′10″ é—…");
        assert!(matches!(plain("l'été, 北京"), Cow::Borrowed(_)));
    }

    #[test]
    fn places_lead_back_to_the_text() {
        let text = "«Zoë’s» été";
        for (start, _) in text.char_indices().chain([(text.len(), ' ')]) {
            assert_eq!(original_place(text, plain(&text[..start]).len()), start);
        }
        assert_eq!(original_part(text, "Zoë's"), "Zoë’s");
        assert_eq!(original_part("O'Neal", "O'Neal"), "O'Neal");
        assert_eq!(original_part(text, "Ann"), "Ann");
    }
}
