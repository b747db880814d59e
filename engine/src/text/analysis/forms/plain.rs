//! A text in its plainest characters: one sign for all hyphens, ASCII for full-width letters and for digits of all scripts.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;

/// A text in plain characters, and the place of each in the original.
pub struct Plain {
    /// The plain text.
    pub text: String,
    /// The original byte of each plain byte, and the end.
    places: Vec<usize>,
}

impl Plain {
    /// Characters that show nothing are left out; a percent code of a sign becomes the sign.
    pub fn new(text: &str) -> Self {
        let (mut plain, mut places) = (String::with_capacity(text.len()), Vec::with_capacity(text.len() + 1));
        let mut at = 0;
        while let Some(letter) = text[at..].chars().next() {
            let (sign, length) = match percent_code(&text[at..]) {
                Some(sign) => (Some(sign), 3),
                None => (plain_sign(letter), letter.len_utf8()),
            };
            if let Some(sign) = sign {
                plain.push(sign);
                places.resize(plain.len(), at);
            }
            at += length;
        }
        places.push(text.len());
        Self { text: plain, places }
    }

    /// The bytes of the original.
    pub fn original(&self, bytes: &Range<usize>) -> Range<usize> {
        self.places[bytes.start]..self.places[bytes.end]
    }
}

fn percent_code(text: &str) -> Option<char> {
    let code = text.strip_prefix('%')?.get(..2)?.to_ascii_uppercase();
    Some(match code.as_str() {
        "40" => '@',
        "2D" => '-',
        "2E" => '.',
        "2B" => '+',
        "5F" => '_',
        _ => return None,
    })
}

fn plain_sign(letter: char) -> Option<char> {
    if letter.is_ascii() {
        return Some(letter);
    }
    match letter {
        '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}' => None,
        '\u{2010}'..='\u{2013}' | '\u{2212}' => Some('-'),
        '\u{660}'..='\u{669}' => digit(letter, '\u{660}'),
        '\u{6f0}'..='\u{6f9}' => digit(letter, '\u{6f0}'),
        '\u{966}'..='\u{96f}' => digit(letter, '\u{966}'),
        _ => {
            let mut forms = std::iter::once(letter).nfkc();
            match (forms.next(), forms.next()) {
                (Some(form), None) => Some(form),
                _ => Some(letter),
            }
        }
    }
}

fn digit(letter: char, zero: char) -> Option<char> {
    char::from_digit(u32::from(letter) - u32::from(zero), 10)
}
