//! What punctuation says of words: where sentences and clauses end, and between which words a space stands.

/// What may follow the mark that ends a sentence or a clause.
pub const CLOSERS: [char; 10] = ['"', '\'', ')', ']', '»', '”', '’', '」', '』', '）'];

/// What a name, a number or an example follows.
const NEVER_LAST: [&str; 18] = [
    "mr", "mrs", "ms", "mx", "dr", "prof", "messrs", "mme", "mlle", "vs", "approx", "e.g", "i.e", "sra", "srta", "nr",
    "bzw", "z.b",
];

/// Offices, which are common words in small letters ("one more rep.").
const OFFICES: [&str; 16] =
    ["Gen", "Col", "Maj", "Capt", "Lt", "Cmdr", "Sgt", "Rev", "Hon", "Gov", "Sen", "Rep", "Fig", "Vol", "Mt", "Ft"];

/// Abbreviations that end a sentence as often as not, beside single letters and those with full stops inside.
const SOMETIMES_LAST: [&str; 9] = ["st", "jr", "sr", "inc", "ltd", "co", "corp", "ave", "blvd"];

/// Words that begin a sentence far oftener than a name, in English.
const BEGINNERS: [&str; 61] = [
    "a", "after", "all", "and", "are", "as", "at", "because", "before", "but", "can", "could", "did", "do", "for",
    "from", "he", "her", "here", "his", "how", "however", "i", "if", "in", "is", "it", "its", "let", "my", "no",
    "nobody", "not", "now", "on", "one", "our", "she", "should", "since", "so", "some", "that", "the", "their", "then",
    "there", "these", "they", "this", "those", "was", "we", "well", "were", "what", "when", "where", "who", "why",
    "yes",
];

/// "5. Mai" is a day; in most languages the month has a small letter.
const GERMAN_MONTHS: [&str; 12] = [
    "januar",
    "februar",
    "märz",
    "april",
    "mai",
    "juni",
    "juli",
    "august",
    "september",
    "oktober",
    "november",
    "dezember",
];

/// Whether a sentence ends with `word`, where `next` follows it.
pub(crate) fn ends_sentence(word: &str, next: &str) -> bool {
    let word = word.trim_end_matches(CLOSERS);
    let next = next.trim_start_matches(|character: char| !character.is_alphanumeric());
    let stem = word.trim_end_matches(['.', '…']);
    match &word[stem.len()..] {
        "" => word.ends_with(['!', '?', '。', '！', '？', '؟', '।']),
        "." => ends_with_full_stop(stem.trim_start_matches(|character: char| !character.is_alphanumeric()), next),
        _ => !next.starts_with(char::is_lowercase),
    }
}

/// The same for a word whose one full stop was taken off: it may be that of an abbreviation, or of a number that counts
/// ("5. Mai").
fn ends_with_full_stop(stem: &str, next: &str) -> bool {
    let lower = stem.to_lowercase();
    let is_one_of = |words: &[&str]| words.contains(&lower.as_str());
    let goes_on = next.starts_with(char::is_lowercase);
    if is_one_of(&NEVER_LAST) || OFFICES.contains(&stem) {
        false
    } else if lower == "no" {
        !next.starts_with(char::is_numeric)
    } else if is_one_of(&["etc", "a.m", "p.m"]) {
        !goes_on
    } else if stem.starts_with(char::is_numeric) {
        !goes_on && !GERMAN_MONTHS.contains(&first_word(next).to_lowercase().as_str())
    } else if stem == "I" {
        !is_initial(next)
    } else if is_letter(stem) || stem.contains('.') || is_one_of(&SOMETIMES_LAST) {
        // "J." is followed by a name, "U.S." by what it tells of: unless what follows is neither.
        next.starts_with(char::is_uppercase)
            && !is_initial(next)
            && BEGINNERS.contains(&first_word(next).to_lowercase().as_str())
    } else {
        true
    }
}

/// "It" of "It's,".
fn first_word(text: &str) -> &str {
    text.split(|character: char| !character.is_alphanumeric()).next().unwrap_or_default()
}

fn is_letter(stem: &str) -> bool {
    let mut characters = stem.chars();
    characters.next().is_some_and(char::is_alphabetic) && characters.next().is_none()
}

/// "J."
fn is_initial(word: &str) -> bool {
    word.starts_with(char::is_uppercase) && word.strip_suffix('.').is_some_and(is_letter)
}

/// Whether a clause ends with `word`, where `next` follows it.
pub(super) fn ends_clause(word: &str, next: &str) -> bool {
    let bare = word.trim_end_matches(CLOSERS);
    bare.ends_with([',', ';', ':', '–', '—', '、', '，', '；', '：', '،']) || ends_sentence(word, next)
}

/// Whether a space stands between the two: not if both are of a script that is written without.
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
    fn what_ends_a_sentence_and_what_does_not() {
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
        ] {
            assert!(!ends_sentence(word, next), "{word} {next}");
        }
    }
}
