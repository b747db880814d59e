//! Characters that readers do not see, or that change the order of those around them. In a name they make one person look like
//! another.

/// Checks a short text that other people read: a name, a title, an address.
///
/// # Errors
/// The end of a sentence that names the first hidden character.
pub fn check(text: &str) -> Result<(), String> {
    match hidden(text).next() {
        None => Ok(()),
        Some(character) => {
            let code = u32::from(character);
            Err(format!("must not have the character U+{code:04X}, which readers do not see; leave it out"))
        }
    }
}

/// The text without its hidden characters.
pub fn only(text: &str) -> String {
    judged(text).filter(|(_, is_hidden)| !is_hidden).map(|(character, _)| character).collect()
}

fn hidden(text: &str) -> impl Iterator<Item = char> {
    judged(text).filter(|(_, is_hidden)| *is_hidden).map(|(character, _)| character)
}

/// The characters, each with whether it is hidden.
fn judged(text: &str) -> impl Iterator<Item = (char, bool)> {
    let (mut before, mut rest) = (None, text.chars().peekable());
    std::iter::from_fn(move || {
        let character = rest.next()?;
        let (last, next) = (before.replace(character), rest.peek().copied());
        let is_hidden = match character {
            // Joiners shape letters of Arabic and Indic scripts, and make one sign of several emoji.
            '\u{200c}' | '\u{200d}' => !(last.is_some_and(is_joined) && next.is_some_and(is_joined)),
            // Selectors choose the form of an emoji, of a keycap and of an ideograph.
            _ if is_selector(character) => {
                let is_keycap = last.is_some_and(|last| last.is_ascii()) && next == Some('\u{20e3}');
                let has_forms = |last: char| matches!(last, '©' | '®' | '\u{2030}'..) && !is_ignored(last);
                !is_keycap && !last.is_some_and(has_forms)
            }
            other => other.is_control() || is_ignored(other),
        };
        Some((character, is_hidden))
    })
}

/// Letters of the scripts behind Latin, Greek and Cyrillic, and emoji.
fn is_joined(character: char) -> bool {
    character >= '\u{590}' && !character.is_whitespace() && (is_selector(character) || !is_ignored(character))
}

fn is_selector(character: char) -> bool {
    matches!(character, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Unicode's default ignorable code points, the separators of lines and paragraphs, and the marks of annotations.
fn is_ignored(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_found_and_left_out() {
        for hidden in [
            '\0',
            '\n',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{180e}',
            '\u{200b}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{3164}',
            '\u{feff}',
            '\u{fff9}',
            '\u{e0041}',
        ] {
            let name = format!("Ada{hidden} King");
            let error = check(&name).unwrap_err();
            assert!(error.contains(&format!("U+{:04X}", u32::from(hidden))), "{error}");
            assert_eq!(only(&name), "Ada King");
        }
        // A joiner or a selector between Latin letters, at an end, and in a row.
        for name in [
            "A\u{200d}da",
            "\u{200d}Ada",
            "می\u{200c}",
            "می\u{200c}\u{200c}خواهم",
            "Zoë\u{fe0f}",
            "1\u{fe0f}",
            "❤\u{fe0f}\u{fe0f}",
        ] {
            assert!(check(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn names_of_all_scripts_are_seen() {
        for name in [
            "",
            "Ada King",
            "Zoë O’Brien-Łukasiewicz",
            "早上 好",
            "田中\u{e0100}",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "שלום",
            "👩\u{200d}💻",
            "❤\u{fe0f}\u{200d}🔥",
            "1\u{fe0f}\u{20e3} of 3",
            "©\u{fe0f}",
            "a\u{a0}b",
            "ünïcödé 🎙 'quoted' #5",
        ] {
            assert_eq!(check(name), Ok(()), "{name:?}");
            assert_eq!(only(name), name);
        }
    }
}
