//! Sentence and clause boundaries by punctuation, and spaces between words.

use crate::text::quote_marks::plain;
use crate::text::word_list::words;

/// Characters that may follow the mark that ends a sentence or a clause.
pub const CLOSERS: [char; 10] = ['"', '\'', ')', ']', '»', '”', '’', '」', '』', '）'];

/// Abbreviations that a name, a number or an example follows.
const NEVER_LAST: &[&str] = words!("mr mrs ms mx dr prof messrs mme mlle vs approx e.g i.e sra srta nr bzw z.b");

/// Titles and labels that are common words in lower case ("one more rep.").
const TITLES: [&str; 16] =
    ["Gen", "Col", "Maj", "Capt", "Lt", "Cmdr", "Sgt", "Rev", "Hon", "Gov", "Sen", "Rep", "Fig", "Vol", "Mt", "Ft"];

/// Abbreviations that end a sentence as often as not, beside single capitals and those with full stops inside.
const SOMETIMES_LAST: [&str; 9] = ["st", "jr", "sr", "inc", "ltd", "co", "corp", "ave", "blvd"];

/// Words that begin a sentence far oftener than a name, in English.
const SENTENCE_STARTERS: &[&str] = words!(
    "a after all also an and another are as at because before but can could did do every for from have he her here his \
     how however i if in is it its just let many maybe most my no nobody not nothing now of on one or our perhaps she \
     should since so some thank thanks that the their then there these they this those to today was we well were what \
     when where while who why with would yes you your"
);

/// Such words in German, Dutch, French, Spanish, Italian and Portuguese. Some are parts of names ("M. Le Pen").
const SENTENCE_STARTERS_ELSEWHERE: &[&str] = words!(
    "aber als am auch bei da danach dann das denn der die doch ein eine er es für ich ihr im ja man mit nach nein nur \
     sie und vielleicht warum wenn wie wir alleen dan dat de een en het hij ik maar nu wat ze alors avec c ce cela \
     dans elle et il ils j je la le les mais nous on pour puis quand si un une vous ahora como cuando después el ella \
     ellos entonces esto los luego para pero por porque pues que sí una y yo allora anche che e gli i io lo ma non poi \
     se ela ele então eu mas"
);

/// True if a sentence ends with `word`, which `next` follows.
pub(crate) fn ends_sentence(word: &str, next: &str) -> bool {
    let (word, next) = (plain(word), plain(next));
    let word = word.trim_end_matches(CLOSERS);
    let next = next.trim_start_matches(|character: char| !character.is_alphanumeric());
    let stem = word.trim_end_matches(['.', '…']);
    match &word[stem.len()..] {
        "" => word.ends_with(['!', '?', '。', '！', '？', '؟', '।']),
        "." => ends_with_full_stop(stem.trim_start_matches(|character: char| !character.is_alphanumeric()), next),
        _ => !next.starts_with(char::is_lowercase),
    }
}

/// True if a sentence ends with `word` whatever follows it.
pub(crate) fn always_ends_sentence(word: &str) -> bool {
    let word = plain(word);
    let word = word.trim_end_matches(CLOSERS);
    let stem = word.trim_end_matches(['.', '…']);
    match &word[stem.len()..] {
        "" => ends_sentence(word, ""),
        "." => {
            let stem = stem.trim_start_matches(|character: char| !character.is_alphanumeric());
            let lower = stem.to_lowercase();
            let listed = |words: &[&str]| words.contains(&lower.as_str());
            !(listed(NEVER_LAST)
                || TITLES.contains(&stem)
                || listed(&["no", "etc", "a.m", "p.m"])
                || stem.starts_with(char::is_numeric)
                || is_capital(stem)
                || is_dotted_abbreviation(stem)
                || listed(&SOMETIMES_LAST))
        }
        _ => false,
    }
}

/// True if a sentence ends with a word whose single full stop is removed: the stop may belong to an abbreviation or to
/// an ordinal ("5. Mai").
fn ends_with_full_stop(stem: &str, next: &str) -> bool {
    let lower = stem.to_lowercase();
    let is_one_of = |words: &[&str]| words.contains(&lower.as_str());
    let goes_on = next.starts_with(char::is_lowercase);
    if is_one_of(NEVER_LAST) || TITLES.contains(&stem) {
        false
    } else if lower == "no" {
        !next.starts_with(char::is_numeric)
    } else if is_one_of(&["etc", "a.m", "p.m"]) {
        !goes_on
    } else if stem.starts_with(char::is_numeric) {
        let first = first_word(next).to_lowercase();
        // "Am 5. Mai", "der 3. Platz": German nouns have capitals too, so only other words indicate a new sentence.
        let may_count = stem.len() <= 2 && next.starts_with(char::is_uppercase);
        !goes_on
            && (!may_count
                || SENTENCE_STARTERS.contains(&first.as_str())
                || SENTENCE_STARTERS_ELSEWHERE.contains(&first.as_str()))
    } else if stem == "I" {
        !is_initial(next)
    } else if is_capital(stem) || is_dotted_abbreviation(stem) || is_one_of(&SOMETIMES_LAST) {
        // A name follows "J.", a noun follows "U.S."; a common first word of sentences is neither.
        next.starts_with(char::is_uppercase)
            && !is_initial(next)
            && SENTENCE_STARTERS.contains(&first_word(next).to_lowercase().as_str())
    } else {
        true
    }
}

/// The first word of a text: "It" of "It's,".
fn first_word(text: &str) -> &str {
    text.split(|character: char| !character.is_alphanumeric()).next().unwrap_or_default()
}

fn is_capital(stem: &str) -> bool {
    let mut characters = stem.chars();
    characters.next().is_some_and(char::is_uppercase) && characters.next().is_none()
}

/// True for an abbreviation with full stops inside: "U.S", "Ph.D"; not "auricle.com".
fn is_dotted_abbreviation(stem: &str) -> bool {
    stem.contains('.') && stem.split('.').all(|part| part.chars().count() <= 2 && part.chars().all(char::is_alphabetic))
}

/// True for an initial: "J."
fn is_initial(word: &str) -> bool {
    word.strip_suffix('.').is_some_and(is_capital)
}

/// True if a clause ends with `word`, which `next` follows.
pub(super) fn ends_clause(word: &str, next: &str) -> bool {
    let plain = plain(word);
    let bare = plain.trim_end_matches(CLOSERS);
    bare.ends_with([',', ';', ':', '–', '—', '、', '，', '；', '：', '،']) || ends_sentence(word, next)
}

/// True if a space stands between the two words: not if both are of a script without spaces.
pub(crate) fn is_spaced(before: &str, after: &str) -> bool {
    let unspaced = |character: Option<char>| character.is_some_and(is_unspaced_script);
    !(unspaced(before.chars().next_back()) && unspaced(after.chars().next()))
}

/// Chinese, Japanese and their punctuation, Thai, Lao, Khmer and Burmese.
pub(super) fn is_unspaced_script(character: char) -> bool {
    matches!(character,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3000}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_marks_and_not_at_abbreviations() {
        for (word, next) in [
            ("came.", "He"),
            ("came.", "he"),
            ("No.", "We"),
            ("5.", "Then"),
            ("1995.", "The"),
            ("B.", "We"),
            ("U.S.", "The"),
            ("p.m.", "Tomorrow"),
            ("I.", "Nobody"),
            ("etc.", "Tomorrow"),
            ("\"Stop!\"", "and"),
            ("Well...", "Yes"),
            ("rep.", "Then"),
            ("St.", "He"),
            ("好。", "我"),
            ("Jr.", "\"It's"),
            ("D.C.", "However,"),
            ("U.S.", "You"),
            ("auricle.com.", "Thanks"),
            ("Node.js.", "Next"),
            ("네.", "그렇습니다"),
            ("я.", "Он"),
            ("è.", "Poi"),
            ("25.", "Dann"),
            ("25.", "Pero"),
            ("1995.", "Paris"),
            ("3.5.", "Paris"),
            ("5.", "\"You"),
        ] {
            assert!(ends_sentence(word, next), "{word} {next}");
        }
        for (word, next) in [
            ("Mr.", "He"),
            ("(Dr.", "Gray"),
            ("No.", "5"),
            ("5.", "Mai"),
            ("5.", "maj"),
            ("J.", "Smith"),
            ("J.", "R."),
            ("I.", "M."),
            ("U.S.", "Army"),
            ("U.S.", "and"),
            ("p.m.", "on"),
            ("e.g.", "The"),
            ("etc.", "and"),
            ("Gen.", "Grant"),
            ("Well...", "yes"),
            ("came", "He"),
            ("M.", "Dupont"),
            ("M.", "Le"),
            ("3.", "Platz"),
            ("19.", "Jahrhundert"),
            ("1.", "Open"),
            ("Ph.D.", "Smith"),
        ] {
            assert!(!ends_sentence(word, next), "{word} {next}");
            assert!(!always_ends_sentence(word), "{word}");
        }
    }

    #[test]
    fn plain_words_always_end_their_sentence() {
        for word in ["came.", "\"Stop!\"", "Why?", "auricle.com.", "rep.", "你。"] {
            assert!(always_ends_sentence(word), "{word}");
            for next in ["He", "he", "5", "\"so", "M.", "the"] {
                assert!(ends_sentence(word, next), "{word} {next}");
            }
        }
        for word in ["5.", "U.S.", "St.", "No.", "etc.", "B.", "Well...", "came"] {
            assert!(!always_ends_sentence(word), "{word}");
        }
    }
}
