//! Text rules for the end of a turn.

use crate::text::word_list::words;

/// How a turn's text sounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Finished.
    Complete,
    /// Nothing tells.
    Unsure,
    /// In the middle of a sentence.
    Open,
}

/// Silence that ends a turn of which nothing tells whether it is finished, ms.
pub const UNSURE_SILENCE_MS: u32 = 700;

/// English words after which a sentence goes on: articles, possessives, conjunctions, prepositions, subjects, fillers. "Thee" is "the" as it
/// is said before a pause.
const OPEN: &[&str] = words!(
    "a an the thee and or but nor because whereas than whose my your our their every if while although though unless \
     until whether as which his its of to in on at for with from by about into onto under between through during \
     without against toward towards via per i we they he she i'm i'd i'll i've we're they're he's she's it's that's \
     there's is are was were am be been um uh er erm hmm uhm mm gonna wanna so like"
);

/// English words after which a sentence may or may not go on.
const UNSURE: &[&str] = words!(
    "want need have has had get know think say said tell give make take do does did don't doesn't didn't can could \
     will would should may might must can't couldn't won't not very really just also then that this these those when \
     where what who how why well actually maybe called zero oh one two three four five six seven eight nine ten \
     hundred thousand double mister mrs mr doctor dot"
);

/// English answers of one word.
const ANSWERS: &[&str] = words!(
    "yes no yeah yep nope nah okay ok sure thanks hello hi hey goodbye bye please right correct exactly stop wait \
     never great perfect fine absolutely definitely help cancel none both neither today tomorrow"
);

/// Tells how the text of a turn sounds, in a language that is known.
pub fn ending(text: &str, language: Option<&str>) -> Ending {
    if !language.is_some_and(is_english) {
        return Ending::Unsure;
    }
    let words = words(text);
    let Some(last) = words.last().map(String::as_str) else { return Ending::Unsure };
    if OPEN.contains(&last) {
        return Ending::Open;
    }
    let is_number = last.chars().any(|c| c.is_ascii_digit());
    if UNSURE.contains(&last) || is_number || (words.len() == 1 && !ANSWERS.contains(&last)) {
        return Ending::Unsure;
    }
    Ending::Complete
}

/// True for `en`, `en_us` and the like.
pub fn is_english(language: &str) -> bool {
    language.split(['_', '-']).next().is_some_and(|base| base.eq_ignore_ascii_case("en"))
}

/// The words of a text in lower case, without marks.
pub fn words(text: &str) -> Vec<String> {
    let word = |word: &str| -> String {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        bare.to_lowercase().replace('\u{2019}', "'")
    };
    text.split_whitespace().map(word).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_tells() {
        for (text, expected) in [
            ("I would like to book a table for", Ending::Open),
            ("Send it to my brother and", Ending::Open),
            ("Well, um", Ending::Open),
            ("Can I", Ending::Open),
            ("I need", Ending::Unsure),
            ("My number is five five one", Ending::Unsure),
            ("It is 23", Ending::Unsure),
            ("Potato", Ending::Unsure),
            ("", Ending::Unsure),
            ("Yes.", Ending::Complete),
            ("What is the weather in Paris?", Ending::Complete),
            ("Tell me a story.", Ending::Complete),
        ] {
            assert_eq!(ending(text, Some("en_us")), expected, "{text}");
        }
        assert_eq!(ending("Yes.", None), Ending::Unsure, "the language is not known");
        assert_eq!(ending("Ich gehe in", Some("de")), Ending::Unsure, "no list for it");
    }
}
