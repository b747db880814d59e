//! The word lists, read once. `lists/README.md` names their sources.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::label::Label;
use crate::text::word_list::words;

/// Memberships of a single word, one bit each.
pub type Flags = u16;

/// A word of everyday English, in lower case.
pub const COMMON: Flags = 1;
/// A given name.
pub const GIVEN: Flags = 1 << 1;
/// A family name.
pub const SURNAME: Flags = 1 << 2;
/// A town.
pub const TOWN: Flags = 1 << 3;
/// A given name whose everyday meaning is rare: "john", "jack".
pub const FIRM: Flags = 1 << 4;
/// A name of a month or a weekday.
pub const CALENDAR: Flags = 1 << 5;
/// A name of a company.
pub const COMPANY: Flags = 1 << 6;
/// A given name or a family name that few bear, and that is nothing else in the lists. Alone it is no evidence of a person.
pub const RARE: Flags = 1 << 7;

/// Months, whole and short.
pub const MONTHS: &[&str] = words!(
    "january february march april may june july august september october november december jan feb mar apr jun jul aug \
     sep sept oct nov dec"
);

const WEEKDAYS: &[&str] = words!("monday tuesday wednesday thursday friday saturday sunday");

/// Short forms of the states, in capitals.
pub const STATE_CODES: &[&str] = words!(
    "AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR \
     PA RI SC SD TN TX UT VT VA WA WV WI WY DC ON QC BC AB MB SK NS NB NSW VIC QLD TAS"
);

/// A phrase of a list: its words and its label.
#[derive(Debug)]
pub struct Phrase {
    /// All its words but the first.
    pub rest: Vec<&'static str>,
    /// The kind of thing that it names.
    pub kind: PhraseKind,
}

/// The kind of a phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhraseKind {
    /// A town of several words, or a region.
    Place,
    /// A country.
    Country,
    /// A term with a label.
    Term(Label),
}

/// Rare names, sorted. They are searched where they lie: of the words of a text few come this far.
static RARE_NAMES: &str = include_str!("lists/rare-names.txt");

/// True if a text of sorted lines in ASCII has this line.
fn is_line(text: &str, line: &str) -> bool {
    let bytes = text.as_bytes();
    let (mut from, mut to) = (0, bytes.len());
    while from < to {
        let middle = from + (to - from) / 2;
        let start = bytes[from..middle].iter().rposition(|byte| *byte == b'\n').map_or(from, |at| from + at + 1);
        let end = bytes[middle..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| middle + at);
        match bytes[start..end].cmp(line.as_bytes()) {
            std::cmp::Ordering::Equal => return start < end,
            std::cmp::Ordering::Less => from = end + 1,
            std::cmp::Ordering::Greater => to = start,
        }
    }
    false
}

/// All lists.
pub struct Lists {
    flags: HashMap<&'static str, Flags>,
    phrases: HashMap<&'static str, Vec<Phrase>>,
}

impl Lists {
    /// The lists of the program.
    pub fn get() -> &'static Self {
        static LISTS: LazyLock<Lists> = LazyLock::new(Lists::read);
        &LISTS
    }

    /// The memberships of a folded word.
    pub fn flags(&self, word: &str) -> Flags {
        self.flags.get(word).copied().unwrap_or_else(|| if is_line(RARE_NAMES, word) { RARE } else { 0 })
    }

    /// The phrases that begin with a folded word, the longest first.
    pub fn phrases(&self, word: &str) -> &[Phrase] {
        self.phrases.get(word).map_or(&[], Vec::as_slice)
    }

    fn read() -> Self {
        let mut flags: HashMap<&'static str, Flags> = HashMap::with_capacity(120_000);
        let lists = [
            (include_str!("lists/words.txt"), COMMON),
            (include_str!("lists/no-names.txt"), COMMON),
            (include_str!("lists/given.txt"), GIVEN),
            (include_str!("lists/names-by-hand.txt"), GIVEN),
            (include_str!("lists/firm-names.txt"), FIRM | GIVEN),
            (include_str!("lists/surnames.txt"), SURNAME),
            (include_str!("lists/companies.txt"), COMPANY),
        ];
        let mut mark = |word: &'static str, flag: Flags| *flags.entry(word).or_default() |= flag;
        for (text, flag) in lists {
            text.split_whitespace().for_each(|word| mark(word, flag));
        }
        MONTHS.iter().chain(WEEKDAYS).for_each(|word| mark(word, CALENDAR));
        let mut phrases: HashMap<&'static str, Vec<Phrase>> = HashMap::new();
        let mut add = |text: &'static str, kind: PhraseKind| {
            // Readings have no `'s` either.
            let mut words = text.split([' ', '-']).map(|word| word.strip_suffix("'s").unwrap_or(word));
            let Some(first) = words.next() else { return };
            let rest: Vec<&str> = words.collect();
            phrases.entry(first).or_default().push(Phrase { rest, kind });
        };
        for town in include_str!("lists/cities.txt").lines() {
            if town.contains([' ', '-']) {
                add(town, PhraseKind::Place);
            } else {
                mark(town, TOWN);
            }
        }
        let terms = [
            (include_str!("lists/regions.txt"), PhraseKind::Place),
            (include_str!("lists/countries.txt"), PhraseKind::Country),
            (include_str!("lists/countries-by-hand.txt"), PhraseKind::Country),
            (include_str!("lists/conditions.txt"), PhraseKind::Term(Label::MedicalCondition)),
            (include_str!("lists/procedures.txt"), PhraseKind::Term(Label::MedicalProcess)),
            (include_str!("lists/drugs.txt"), PhraseKind::Term(Label::Drug)),
            (include_str!("lists/occupations.txt"), PhraseKind::Term(Label::Occupation)),
            (include_str!("lists/nationalities.txt"), PhraseKind::Term(Label::Nationality)),
            (include_str!("lists/languages.txt"), PhraseKind::Term(Label::Language)),
        ];
        for (text, kind) in terms {
            text.lines().for_each(|term| add(term, kind));
        }
        for line in include_str!("lists/beliefs.txt").lines() {
            if let Some((term, label)) = line.split_once('\t')
                && let Some(label) = Label::named(label)
            {
                add(term, PhraseKind::Term(label));
            }
        }
        for found in phrases.values_mut() {
            found.sort_by_key(|phrase| std::cmp::Reverse(phrase.rest.len()));
        }
        Self { flags, phrases }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found_and_nothing_else() {
        for text in ["ada\nbo\ncyrus\ndi\n", "ada\nbo\ncyrus", "ada\n", ""] {
            for line in text.lines() {
                assert!(is_line(text, line), "{line} of {text:?}");
            }
            for other in ["", "a", "ad", "adam", "b", "cyru", "cyruss", "zed"] {
                assert!(!is_line(text, other), "{other} of {text:?}");
            }
        }
        assert!(RARE_NAMES.lines().is_sorted());
        assert!(RARE_NAMES.lines().step_by(997).all(|name| Lists::get().flags(name) == RARE));
        assert_eq!(Lists::get().flags("zzzzzz"), 0);
    }
}
