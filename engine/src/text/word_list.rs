//! Lists of words that are written as one text, and split when the program is compiled.

/// The words of a text: `words!("a b c")` is `&["a", "b", "c"]`.
macro_rules! words {
    ($text:expr) => {
        $crate::text::word_list::items!($text, b' ')
    };
}

/// The phrases of a text between its commas: `phrases!("at last, so far")` is `&["at last", "so far"]`.
macro_rules! phrases {
    ($text:expr) => {
        $crate::text::word_list::items!($text, b',')
    };
}

macro_rules! items {
    ($text:expr, $mark:expr) => {{
        const ITEMS: [&str; $crate::text::word_list::count($text, $mark)] =
            $crate::text::word_list::split($text, $mark);
        &ITEMS
    }};
}

pub(crate) use {items, phrases, words};

/// The number of items that a mark separates; a space stands for all white space.
pub(crate) const fn count(mut text: &str, mark: u8) -> usize {
    let mut count = 0;
    while !text.is_empty() {
        text = first(text, mark).1;
        count += 1;
    }
    count
}

/// The items themselves.
pub(crate) const fn split<const N: usize>(mut text: &str, mark: u8) -> [&str; N] {
    let mut items = [""; N];
    let mut at = 0;
    while at < N {
        (items[at], text) = first(text, mark);
        at += 1;
    }
    items
}

/// The first item and the text behind it, without white space around them.
const fn first(text: &str, mark: u8) -> (&str, &str) {
    let bytes = text.trim_ascii().as_bytes();
    let mut end = 0;
    while end < bytes.len() && bytes[end] != mark && !(mark == b' ' && bytes[end].is_ascii_whitespace()) {
        end += 1;
    }
    let (item, rest) = text.trim_ascii().split_at(end);
    let (_, rest) = rest.split_at(if rest.is_empty() { 0 } else { 1 });
    (item.trim_ascii(), rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    #[test]
    fn texts_are_split_at_white_space_or_commas() {
        const WORDS: &[&str] = words!("one \n  zwölf\tx-ray\n");
        const PHRASES: &[&str] = phrases!("at last,so far,\n  née");
        assert_eq!(WORDS, ["one", "zwölf", "x-ray"]);
        assert_eq!(PHRASES, ["at last", "so far", "née"]);
        assert!(words!("").is_empty());
    }
}
