//! Words outside the dictionary from their relatives in it: "blogged" from "blogs", "rezoning" from "rezone".
//!
//! Each rule gives at least seven in ten dictionary words exactly if the word itself is taken out, most nine in ten. Prefixes, "-ly", "-man"
//! and compounds of two known words stay below what a letters-to-phones model reaches, and are left to it.

use super::lexicon::Lexicon;
use super::phone::{Phone, genitive, phones};

/// Fewest letters of a word that others are made from.
const MIN_LETTERS: usize = 3;
/// Most phones of an ending that is taken off.
const MAX_ENDING: usize = 3;

/// The phones that an ending adds to a word.
#[derive(Clone, Copy)]
enum Ending {
    /// A plural's, a verb's or a genitive's.
    S,
    /// A past form's.
    Ed,
    /// The same phones behind any.
    Fixed(&'static str),
}

const ING: Ending = Ending::Fixed("IH0 NG");
const NESS: Ending = Ending::Fixed("N AH0 S");

/// Endings that begin with a vowel: an e before them is dropped, a consonant may be doubled.
const VOWEL_ENDINGS: [(&str, Ending); 3] = [("ed", Ending::Ed), ("ing", ING), ("er", Ending::Fixed("ER0"))];

/// Endings that leave the word before them as it is, but for a y.
const CONSONANT_ENDINGS: [(&str, Ending); 8] = [
    ("ness", NESS),
    ("ful", Ending::Fixed("F AH0 L")),
    ("ship", Ending::Fixed("SH IH2 P")),
    ("like", Ending::Fixed("L AY2 K")),
    ("town", Ending::Fixed("T AW2 N")),
    ("ward", Ending::Fixed("W ER0 D")),
    ("wood", Ending::Fixed("W UH2 D")),
    ("berg", Ending::Fixed("B ER0 G")),
];

impl Ending {
    /// Its phones behind a phone.
    fn after(self, last: Phone) -> Vec<Phone> {
        match self {
            Self::S => genitive(last),
            Self::Ed => phones(match last.name() {
                "T" | "D" => "IH0 D",
                "P" | "K" | "F" | "TH" | "S" | "SH" | "CH" => "T",
                _ => "D",
            }),
            Self::Fixed(text) => phones(text),
        }
    }

    fn add(self, mut word: Vec<Phone>) -> Option<Vec<Phone>> {
        word.extend(self.after(*word.last()?));
        Some(word)
    }

    /// A word's phones without it; none for a word that does not end so.
    fn remove(self, word: &[Phone]) -> Option<Vec<Phone>> {
        (1..=MAX_ENDING).rev().find_map(|count| {
            let (rest, ending) = word.split_at_checked(word.len().checked_sub(count)?)?;
            (rest.len() > 1 && self.after(*rest.last()?) == ending).then(|| rest.to_vec())
        })
    }
}

/// The phones of a word in lower case that the dictionary does not have; none for one without a relative there.
pub(super) fn derived(lexicon: &Lexicon, word: &str) -> Option<Vec<Phone>> {
    if !word.is_ascii() {
        return None;
    }
    let without_s = || {
        let known = |base: String| known(lexicon, &base).or_else(|| with_ending(lexicon, &base));
        Ending::S.add(bases_of_s(word).into_iter().find_map(known)?)
    };
    known(lexicon, word).or_else(without_s).or_else(|| with_ending(lexicon, word))
}

/// The phones of a word by its entry, or else by that of an inflected form.
fn known(lexicon: &Lexicon, word: &str) -> Option<Vec<Phone>> {
    if word.len() < MIN_LETTERS {
        return None;
    }
    let by_form = |(form, ending): (String, Ending)| ending.remove(&lexicon.entry(&form)?);
    lexicon.entry(word).or_else(|| inflected(word).into_iter().find_map(by_form))
}

fn with_ending(lexicon: &Lexicon, word: &str) -> Option<Vec<Phone>> {
    let vowel = VOWEL_ENDINGS.iter().map(|(letters, ending)| (*letters, *ending, bases_of_vowel as Bases));
    let consonant = CONSONANT_ENDINGS.iter().map(|(letters, ending)| (*letters, *ending, bases_of_consonant as Bases));
    vowel.chain(consonant).find_map(|(letters, ending, bases)| {
        let stem = word.strip_suffix(letters).filter(|stem| stem.len() >= MIN_LETTERS)?;
        ending.add(bases(stem).into_iter().find_map(|base| known(lexicon, &base))?)
    })
}

/// Forms of a word, the surest first.
fn inflected(word: &str) -> [(String, Ending); 5] {
    let (verb, [s, ed]) = match word.as_bytes() {
        [stem @ .., b'y'] => (word, [b"ies", b"ied"].map(|ending| [stem, ending].concat())),
        [.., b'e'] => (&word[..word.len() - 1], [b"s", b"d"].map(|ending| [word.as_bytes(), ending].concat())),
        letters => (word, [&b"s"[..], b"ed"].map(|ending| [letters, ending].concat())),
    };
    let text = |letters: Vec<u8>| String::from_utf8_lossy(&letters).into_owned();
    [
        (format!("{word}'s"), Ending::S),
        (text(s), Ending::S),
        (text(ed), Ending::Ed),
        (format!("{verb}ing"), ING),
        (format!("{word}ness"), NESS),
    ]
}

/// Words that an ending may have been added to, by the letters before it; the likeliest first.
type Bases = fn(&str) -> Vec<String>;

/// Words whose plural, verb form or genitive a word may be.
fn bases_of_s(word: &str) -> Vec<String> {
    let Some(stem) = word.strip_suffix('s') else { return Vec::new() };
    if let Some(base) = stem.strip_suffix('\'') {
        return vec![base.to_owned()];
    }
    if let Some(base) = stem.strip_suffix("ie") {
        return vec![format!("{base}y"), stem.to_owned()];
    }
    let hissing = |base: &&str| ["s", "x", "z", "ch", "sh"].iter().any(|end| base.ends_with(end));
    match stem.strip_suffix('e').filter(hissing) {
        Some(base) => vec![base.to_owned(), stem.to_owned()],
        // "Glass" and "virus" are no plurals.
        None if stem.ends_with(['s', 'u']) => Vec::new(),
        None => vec![stem.to_owned()],
    }
}

/// "carri" is "carry", "stopp" is "stop", "bak" is "bake", "listen" is itself.
fn bases_of_vowel(stem: &str) -> Vec<String> {
    let is_vowel = |letter: u8| b"aeiouy".contains(&letter);
    match stem.as_bytes() {
        [.., b'i'] => vec![format!("{}y", &stem[..stem.len() - 1]), stem.to_owned()],
        [.., before, last] if before == last && !b"aeiouyslfz".contains(last) => {
            vec![stem[..stem.len() - 1].to_owned(), stem.to_owned()]
        }
        [rest @ .., third, before, last]
            if !is_vowel(*last) && !b"wx".contains(last) && is_vowel(*before) && !is_vowel(*third) =>
        {
            // A word of one syllable would double its consonant.
            let whole = rest.iter().copied().any(is_vowel).then(|| stem.to_owned());
            [Some(format!("{stem}e")), whole].into_iter().flatten().collect()
        }
        _ => vec![stem.to_owned(), format!("{stem}e")],
    }
}

/// "happi" is "happy".
fn bases_of_consonant(stem: &str) -> Vec<String> {
    let with_y = stem.strip_suffix('i').map(|base| format!("{base}y"));
    with_y.into_iter().chain([stem.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(word: &str) -> Option<String> {
        let lexicon = Lexicon::cmudict();
        assert!(lexicon.phones(word).is_none(), "the dictionary has {word}");
        let phones = derived(lexicon, word)?;
        Some(phones.into_iter().map(Phone::name).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn words_come_from_their_relatives() {
        for (word, phones) in [
            ("hashtags", "HH AE1 SH T AE2 G Z"),
            ("podcasts", "P AO1 D K AE2 S T S"),
            ("reassesses", "R IY0 AH0 S EH1 S IH0 Z"),
            ("vaped", "V EY1 P T"),
            ("rebooted", "R IY0 B UW1 T IH0 D"),
            ("blogged", "B L AO1 G D"),
            ("vaping", "V EY1 P IH0 NG"),
            ("debugger", "D IY0 B AH1 G ER0"),
            ("preppers", "P R EH1 P ER0 Z"),
            ("parented", "P EH1 R AH0 N T IH0 D"),
            ("geekiness", "G IY1 K IY0 N AH0 S"),
            ("laptoplike", "L AE1 P T AA2 P L AY2 K"),
            // By a form of the word: "rezoning", "googled".
            ("rezoned", "R IY0 Z OW1 N D"),
            ("googler", "G UW1 G AH0 L ER0"),
        ] {
            assert_eq!(said(word).as_deref(), Some(phones), "{word}");
        }
    }

    #[test]
    fn endings_come_off_as_they_were_put_on() {
        let word = |text: &str| phones(text);
        assert_eq!(Ending::S.remove(&word("W IH1 SH IH0 Z")), Some(word("W IH1 SH")));
        assert_eq!(Ending::S.remove(&word("K AE1 T S")), Some(word("K AE1 T")));
        assert_eq!(Ending::S.remove(&word("K AE1 T Z")), None, "no plural ends so");
        assert_eq!(Ending::Ed.remove(&word("W EY1 T IH0 D")), Some(word("W EY1 T")));
        assert_eq!(Ending::S.remove(&word("S")), None);
    }

    #[test]
    fn other_words_have_no_relatives() {
        for word in ["blorf", "blorfs", "blorf's", "zyxed", "fracked", "quokkaness", "xs", "'s's", "", "é", "éé's"] {
            assert_eq!(said(word), None, "{word:?}");
        }
    }
}
