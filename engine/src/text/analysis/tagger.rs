//! A trained tagger beside the finders: what it is asked, and how its findings join theirs.

use std::fmt::Debug;
use std::ops::Range;

use super::cues::{self, Cue, Cued};
use super::find::{codes, is_stop, places};
use super::label::Label;
use super::lists::{COMMON, GIVEN, STATE_CODES, SURNAME, TOWN};
use super::mask::MIN_CONFIDENCE;
use super::reading::{Break, Reading, Token};
use super::{Finding, Source, Turn};
use crate::error::Result;
use crate::text::word_list::words;

/// Tells by the words around them which words are names, places and the like.
pub trait Tagger: Debug + Send + Sync {
    /// The findings in the words of a text, in order and without overlaps.
    ///
    /// # Errors
    /// If the words cannot be read: a text is not redacted then.
    fn tag(&self, words: &[Turn<'_>]) -> Result<Vec<Finding>>;

    /// Labels of the checkpoint that have no meaning here, and that it finds in vain.
    fn ignored_labels(&self) -> &[String] {
        &[]
    }
}

/// From this confidence on, the tagger is heard against lists: those that say that words tell of no person, and the dictionary.
const SURE: f32 = 0.9;

/// Words before a colon that name a field or a speaker.
const FIELDS: &[&str] = words!(
    "user bot agent customer caller operator speaker assistant phone mobile email e-mail fax desk tel office website \
     address name date when where what who to from cc subject re regards sincerely note ps attn signed kontakt nachname \
     vorname nom prenom nombre apellido apellidos cognome nome naam fotos foto photo text betreff adresse indirizzo direccion"
);

/// Words that greet: no part of the name after them.
const GREETINGS: &[&str] = words!(
    "best liebe lieber cher chere estimado estimada caro cara hallo hola bonjour sehr viele distinti grussen grusse \
     gruss cordialement cordiali hochachtungsvoll"
);

/// Labels of terms that bear names of persons: "Alzheimer's research".
const MEDICAL: [Label; 3] = [Label::MedicalCondition, Label::MedicalProcess, Label::Drug];

/// From this confidence on, a date is one of birth though nothing else says so.
const CERTAIN: f32 = 0.97;

/// How much less certain a finding of the tagger is than a pattern on the same words, at least.
const BELOW_PATTERNS: f32 = 0.01;

/// Adds the findings of a tagger to those of the finders.
///
/// Findings of one label that overlap are one. Countries are nobody's, and so are medical terms that bear a name. Lists say which towns
/// and terms tell of no person; a tagger that marks no more than these must be sure. Everyday words in lower case are names where lists have
/// them as names, too. Codes have the form of one, and no cue before them says
/// that they are nobody's, the number of an order say. A pattern is more certain than the tagger, which is
/// more certain than a list about words within its own.
pub fn join(reading: &Reading<'_>, cues: &[Cued], tagged: &[Finding], found: &mut Vec<Finding>) {
    let mut others: Vec<&Finding> = found.iter().collect();
    others.sort_by_key(|other| other.words.start);
    let longest = others.iter().map(|other| other.words.len()).max().unwrap_or_default();
    let mut joined = Vec::new();
    let firms: Vec<Range<usize>> = tagged
        .iter()
        .filter(|finding| {
            finding.label == Label::Organization && finding.confidence >= SURE && ends_with_kind(reading, finding)
        })
        .map(|finding| finding.words.clone())
        .collect();
    for tagged in tagged.iter().flat_map(|finding| within_sentences(reading, finding)) {
        let Some(tagged) = without_fields(reading, tagged) else { continue };
        let first = others.partition_point(|other| other.words.start + longest <= tagged.words.start);
        let near = others[first..].iter().copied().take_while(|other| other.words.start < tagged.words.end);
        let touching: Vec<&Finding> = near.filter(|other| other.words.end > tagged.words.start).collect();
        let is_given = reading.tokens[tagged.words.start].flags & (GIVEN | SURNAME) != 0;
        let may_be_country = tagged.label == Label::Location || tagged.label == Label::PersonName && !is_given;
        let is_country = may_be_country && places::is_country(reading, &tagged.words);
        let is_term = tagged.label == Label::PersonName
            && MEDICAL.iter().any(|label| is_mere_mention(&tagged.words, *label, &touching));
        let is_mention = || is_mere_mention(&tagged.words, tagged.label, &touching);
        let is_no_code = tagged.label.is_code()
            && (holds_identifier(reading, &tagged.words)
                || is_decimal(reading, &tagged.words)
                || !is_personal_code(reading, cues, &tagged.words, tagged.label));
        let is_date = tagged.label == Label::DateOfBirth
            && touching
                .iter()
                .any(|other| other.label == Label::Date && is_plain_date(reading, other, tagged.confidence));
        if is_country
            || is_term
            || is_no_code
            || is_symbol(reading, &tagged)
            || is_field_of_identifier(reading, cues, &tagged)
            || is_stop_word(reading, &tagged)
            || is_product(reading, &tagged)
            || is_hash(reading, &tagged)
            || is_day_or_town(reading, &tagged)
            || tagged.label == Label::Location && places::is_topic(reading, &tagged.words)
            || is_date
            || is_abbreviation(reading, &tagged)
            || is_everyday(reading, &tagged)
            || (tagged.confidence < SURE && is_mention())
        {
            continue;
        }
        let mut finding = tagged.clone();
        for other in touching.into_iter().filter(|other| other.confidence >= MIN_CONFIDENCE) {
            let contains = finding.words.start <= other.words.start && other.words.end <= finding.words.end;
            if other.label == finding.label {
                finding.words = finding.words.start.min(other.words.start)..finding.words.end.max(other.words.end);
                finding.confidence = finding.confidence.max(other.confidence);
            } else if other.source == Source::Pattern {
                finding.confidence = finding.confidence.min(other.confidence - BELOW_PATTERNS);
            } else if contains && finding.words.len() > other.words.len() {
                finding.confidence = finding.confidence.max(other.confidence);
            }
        }
        joined.push(finding);
    }
    // A firm that bears the name of a person is no person.
    found.retain(|finding| {
        finding.label != Label::PersonName
            || finding.source != Source::List
            || firms
                .get(firms.partition_point(|firm| firm.end < finding.words.end))
                .is_none_or(|firm| firm.start > finding.words.start)
    });
    found.append(&mut joined);
}

/// The parts of a finding between ends of sentences.
fn within_sentences(reading: &Reading<'_>, finding: &Finding) -> Vec<Finding> {
    let mut parts = Vec::new();
    let mut start = finding.words.start;
    for at in finding.words.clone() {
        if at + 1 == finding.words.end || reading.tokens[at].after >= Break::Sentence {
            parts.push(Finding { words: start..at + 1, ..finding.clone() });
            start = at + 1;
        }
    }
    parts
}

/// A name or a place without the names of fields at its ends: "User:", "Mobile:". None if nothing is left.
fn without_fields(reading: &Reading<'_>, mut finding: Finding) -> Option<Finding> {
    if matches!(finding.label, Label::PersonName | Label::Location) {
        let has_colon = |at: usize| {
            reading.tokens[at].text.ends_with(':') || reading.tokens.get(at + 1).is_some_and(|next| next.text == ":")
        };
        let is_field = |at: usize| {
            has_colon(at) && FIELDS.contains(&reading.lower(at))
                || GREETINGS.contains(&reading.lower(at))
                    && (reading.tokens[at].first || reading.before(at, 1) == "freundlichen")
        };
        while !finding.words.is_empty() && is_field(finding.words.end - 1) {
            finding.words.end -= 1;
        }
        // "Mahendran Given names".
        while finding.words.len() > 1 && is_stop(reading.lower(finding.words.end - 1)) {
            finding.words.end -= 1;
        }
        while !finding.words.is_empty() && is_field(finding.words.start) {
            finding.words.start += 1;
        }
    }
    (!finding.words.is_empty()).then_some(finding)
}

/// True if the last of several words is of everyday English and no family name: "Garin Utilities", not "Garin and Lopez".
fn ends_with_kind(reading: &Reading<'_>, firm: &Finding) -> bool {
    let last = &reading.tokens[firm.words.end - 1];
    firm.words.len() > 1 && last.is(COMMON) && last.flags & (GIVEN | SURNAME) == 0
}

/// True if a date in which no birth is spoken of is a plain one: by the word before it, or because the tagger is not certain.
fn is_plain_date(reading: &Reading<'_>, date: &Finding, confidence: f32) -> bool {
    let on = matches!(
        reading.before(date.words.start, 1),
        "date" | "dated" | "when" | "on" | "since" | "until" | "by" | "due"
    );
    date.source == Source::Pattern && (on || confidence < CERTAIN)
}

/// True if a name or a place holds no word: "sha256:9f86", "38 40 42", "parser.rs". The number of an address stands beside its words.
fn is_symbol(reading: &Reading<'_>, tagged: &Finding) -> bool {
    let is_word = |token: &Token<'_>| {
        let core = token.core();
        // "Wi-Fi" has no part of a word.
        let letters = |part: &str| part.chars().filter(|letter| letter.is_alphabetic()).count();
        let letters = core.split('-').map(letters).max().unwrap_or_default();
        let is_file = core.contains('.') && !token.capital;
        let is_known = STATE_CODES.contains(&core) || token.flags & (GIVEN | SURNAME | TOWN) != 0;
        let is_long = letters > 3 || letters > 2 && core.contains(char::is_lowercase);
        token.form.is_some()
            || (is_long || is_known) && !core.contains(|letter: char| letter.is_ascii_digit()) && !is_file
    };
    let is_near = || {
        let near = tagged.words.start.saturating_sub(1)..(tagged.words.end + 1).min(reading.tokens.len());
        tagged.label == Label::Location
            && reading.tokens[near]
                .iter()
                .any(|token| is_word(token) && token.capital && token.core().contains(char::is_lowercase))
    };
    matches!(tagged.label, Label::PersonName | Label::Location)
        && !reading.tokens[tagged.words.clone()].iter().any(is_word)
        && tagged.words.len() < 6
        && !is_near()
}

/// True if a name is a month or a weekday before a number ("Tue, 4 Mar"), or a town in a sentence about no person.
fn is_day_or_town(reading: &Reading<'_>, tagged: &Finding) -> bool {
    const DAYS: &[&str] =
        words!("mon tue tues wed thu thur thurs fri sat sun jan feb mar apr jun jul aug sep sept oct nov dec");
    let token = &reading.tokens[tagged.words.start];
    let is_day = || {
        DAYS.contains(&token.lower.as_str())
            && reading.lower(tagged.words.end).starts_with(|letter: char| letter.is_ascii_digit())
    };
    let before = tagged.words.start.checked_sub(1).map(|before| &reading.tokens[before]);
    let is_prose = before.is_some_and(|before| before.sentence == token.sentence && !before.capital);
    let is_town = token.is(TOWN)
        && is_prose
        && token.flags & (GIVEN | SURNAME) == 0
        && !places::is_about_person(reading, &tagged.words);
    tagged.label == Label::PersonName && tagged.words.len() == 1 && (is_town || is_day())
}

/// True if a name or a place is one short word in capitals that no list has: "ATM".
fn is_abbreviation(reading: &Reading<'_>, tagged: &Finding) -> bool {
    let token = &reading.tokens[tagged.words.start];
    let is_capital = |letter: char| letter.is_uppercase() || !letter.is_alphabetic();
    matches!(tagged.label, Label::PersonName | Label::Location)
        && tagged.words.len() == 1
        && (reading.cased || reading.lower(tagged.words.end).starts_with(|letter: char| letter.is_ascii_digit()))
        && token.core().chars().count() <= 4
        && token.core().chars().all(is_capital)
        && token.flags & (GIVEN | SURNAME | TOWN) == 0
        && !STATE_CODES.contains(&token.core())
}

/// True if a name or a place is nothing but words of everyday English. In lower case such a word is a name where lists have it as a given name
/// or a town, and where the tagger is sure also as a family name; with a capital within a sentence the tagger is heard where it is sure, or
/// lists have it. One or two single letters are variables, not what is spelled; an address ("juniper close") has more than one word.
fn is_everyday(reading: &Reading<'_>, tagged: &Finding) -> bool {
    let is_sure = tagged.confidence >= SURE;
    let (listed, listed_family) = match tagged.label {
        Label::PersonName => (GIVEN, SURNAME),
        Label::Location if tagged.words.len() == 1 => (TOWN, 0),
        _ => return false,
    };
    let is_word = |token: &Token<'_>| {
        // "INFO" is written in capitals whatever it means.
        let has_capital = reading.cased && token.capital && !token.first && token.core().contains(char::is_lowercase);
        let names = if is_sure || has_capital { listed | listed_family } else { listed };
        token.is(COMMON) && token.flags & names == 0 && !(has_capital && is_sure)
    };
    let tokens = &reading.tokens[tagged.words.clone()];
    tokens.iter().all(is_word) || (tokens.len() < 3 && tokens.iter().all(|token| token.core().chars().count() == 1))
}

/// True if an identifier that was found by its form is among the words: it is whole, and numbers beside it are others.
fn holds_identifier(reading: &Reading<'_>, words: &Range<usize>) -> bool {
    reading.tokens[words.clone()].iter().any(|token| token.form.is_some())
}

/// True for a number with a fraction: a measure, a price or a time in seconds.
fn is_decimal(reading: &Reading<'_>, words: &Range<usize>) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit());
    let parts = reading.tokens[words.start].core().split_once('.');
    words.len() == 1 && parts.is_some_and(|(whole, part)| digits(whole) && digits(part) && part.len() < 3)
}

/// True if a name is a word before a number of a bank, a network or a state, and names its kind: "IBAN: DE89", "Bitcoin 1A1z".
fn is_field_of_identifier(reading: &Reading<'_>, cues: &[Cued], tagged: &Finding) -> bool {
    let form = reading.tokens.get(tagged.words.end).and_then(|next| next.form);
    let is_personal = matches!(form, Some(Label::PhoneNumber | Label::EmailAddress | Label::Url | Label::Username));
    tagged.label == Label::PersonName
        && tagged.words.len() == 1
        && (form.is_some() && !is_personal || cues::holds(cues, tagged.words.start))
}

/// True for a name that stands for a thing and its number: "RAM: 64 GB", "AMD Zorblax 9".
fn is_product(reading: &Reading<'_>, tagged: &Finding) -> bool {
    let tokens = &reading.tokens[tagged.words.clone()];
    let is_listed = tokens.iter().any(|token| token.flags & (GIVEN | SURNAME) != 0);
    let last = &tokens[tokens.len() - 1];
    let number = reading.tokens.get(tagged.words.end).map_or("", |next| next.core());
    let has_digit = number.contains(|letter: char| letter.is_ascii_digit());
    let is_short = has_digit && number.len() < 6;
    let near = tagged.words.start.saturating_sub(3)..(tagged.words.end + 3).min(reading.tokens.len());
    let is_mixed = reading.tokens[near].iter().any(|token| token.core().contains(char::is_lowercase));
    let is_shouted = is_mixed && is_all_capitals(tokens[0].core());
    let is_field = tokens.len() == 1 && last.text.ends_with(':') && is_short && (is_shouted || !is_listed);
    let is_brand = is_short && last.after == Break::None && is_shouted && !is_listed;
    tagged.label == Label::PersonName && (is_field || is_brand)
}

fn is_all_capitals(word: &str) -> bool {
    word.len() > 2 && word.chars().all(char::is_uppercase)
}

/// True for a name before a hash, or a date of birth that is one.
fn is_hash(reading: &Reading<'_>, tagged: &Finding) -> bool {
    const LONGEST_DATE: usize = 20;
    let is_long = |at: usize| {
        reading.tokens.get(at).is_some_and(|token| {
            let core = token.core();
            core.len() > LONGEST_DATE && core.contains(|letter: char| letter.is_ascii_digit())
        })
    };
    match tagged.label {
        Label::DateOfBirth => tagged.words.clone().any(is_long),
        Label::PersonName => reading.tokens[tagged.words.end - 1].text.ends_with(':') && is_long(tagged.words.end),
        _ => false,
    }
}

/// True if a name is one word in lower case that is in no name: "ok".
fn is_stop_word(reading: &Reading<'_>, tagged: &Finding) -> bool {
    let token = &reading.tokens[tagged.words.start];
    let is_name = token.flags & (GIVEN | SURNAME) != 0 && tagged.confidence >= SURE;
    tagged.label == Label::PersonName && tagged.words.len() == 1 && !token.capital && is_stop(&token.lower) && !is_name
}

/// True if words are a code, by a digit or a mark in them or because they are many, and no cue says that it is nobody's.
fn is_personal_code(reading: &Reading<'_>, cues: &[Cued], words: &Range<usize>, label: Label) -> bool {
    let is_mark = |letter: char| letter.is_ascii_digit() || matches!(letter, '@' | '.');
    let has_form = words.len() > 2 || words.clone().any(|at| reading.tokens[at].core().contains(is_mark));
    let cue = cues::before(reading, cues, words.start, codes::REACH, |_| true);
    // Few digits are a telephone number where a cue says so.
    let text: String = reading.tokens[words.clone()].iter().map(|token| token.core()).collect();
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let is_short = (1..7).contains(&digits) && cue.is_none();
    // "(#3321)" is a ticket, unless a number of a person is announced.
    let announced = cue.is_some_and(|cued| !matches!(cued.cue, Cue::Username | Cue::Email | Cue::Url | Cue::Harmless));
    let is_ticket =
        digits < 7 && !announced && reading.tokens[words.start].text.trim_start_matches('(').starts_with('#');
    let is_mixed = |token: &Token<'_>| {
        let core = token.core().trim_start_matches(|letter: char| !letter.is_ascii_digit());
        core.trim_start_matches(|letter: char| letter.is_ascii_digit()).starts_with(char::is_alphabetic)
    };
    let is_no_number = label == Label::PhoneNumber && (is_short || reading.tokens[words.clone()].iter().any(is_mixed));
    has_form && !is_no_number && !is_ticket && cue.is_none_or(|cued| cued.cue != Cue::Harmless)
}

/// True if lists know all words by this label and say that they tell of no person.
fn is_mere_mention(words: &Range<usize>, label: Label, touching: &[&Finding]) -> bool {
    let mentions = |at: usize| {
        touching.iter().any(|other| {
            other.words.contains(&at)
                && other.label == label
                && other.source == Source::List
                && other.confidence < MIN_CONFIDENCE
        })
    };
    words.clone().all(mentions)
}

#[cfg(test)]
mod tests {
    use super::super::find_in;
    use super::*;

    fn turns(text: &str) -> Vec<Turn<'_>> {
        text.split(' ').map(|text| Turn { text, ends: false }).collect()
    }

    /// The findings in a text with this one of a tagger, from 0.5 on.
    fn joined(text: &str, words: Range<usize>, label: Label, confidence: f32) -> Vec<(Range<usize>, Label, Source)> {
        let turns = turns(text);
        let tagged = [Finding { words, label, confidence, source: Source::Tagger }];
        let reading = Reading::new(&turns);
        let found = find_in(&reading, &tagged).into_iter().filter(|finding| finding.confidence >= MIN_CONFIDENCE);
        let found = super::super::resolve(&reading, found.collect());
        found.into_iter().map(|finding| (finding.words, finding.label, finding.source)).collect()
    }

    #[test]
    fn what_overlaps_is_one_and_ends_with_its_sentence() {
        let person = Label::PersonName;
        assert_eq!(
            joined("I met Maria Qvortrup today", 3..4, person, 0.8)
                .iter()
                .map(|(words, label, _)| (words.clone(), *label))
                .collect::<Vec<_>>(),
            [(2..4, person)]
        );
        assert_eq!(
            joined("we saw zorblax. frumious left", 2..4, person, 0.8),
            [(2..3, person, Source::Tagger), (3..4, person, Source::Tagger)]
        );
    }

    #[test]
    fn a_pattern_is_more_certain_and_a_list_less() {
        let card = joined("It reads 4111111111111111 on top", 2..3, Label::PhoneNumber, 1.0);
        assert_eq!(card, [(2..3, Label::CreditCardNumber, Source::Pattern)]);
        let firm = joined("I work for Maria Lopez Clothing here", 3..6, Label::Organization, 0.95);
        assert_eq!(firm, [(3..6, Label::Organization, Source::Tagger)]);
    }

    #[test]
    fn lists_say_what_is_nobodys_unless_the_tagger_is_sure() {
        let place = Label::Location;
        assert_eq!(joined("Reykjavik is lovely in spring.", 0..1, place, 0.8), []);
        assert_eq!(joined("Reykjavik is lovely in spring.", 0..1, place, 0.95), [(0..1, place, Source::Tagger)]);
        assert_eq!(joined("They visited Portugal last year.", 2..3, place, 0.99), []);
        let term = joined("Alzheimer's research needs more funding.", 0..1, Label::PersonName, 0.99);
        assert!(term.iter().all(|(_, label, _)| *label != Label::PersonName), "{term:?}");
        let person = joined("Jordan said that it works.", 0..1, Label::PersonName, 0.8);
        assert!(person.iter().any(|(words, label, _)| (words, *label) == (&(0..1), Label::PersonName)), "{person:?}");
    }

    #[test]
    fn everyday_words_in_lower_case_are_names_where_lists_have_them() {
        let person = |text, confidence| joined(text, 2..3, Label::PersonName, confidence);
        assert_eq!(person("and then oblivion took it", 0.99), []);
        assert_eq!(person("and then gardener took it", 0.8), []);
        assert_eq!(person("and then gardener took it", 0.95), [(2..3, Label::PersonName, Source::Tagger)]);
        assert_eq!(person("and then heather took it", 0.8), [(2..3, Label::PersonName, Source::Tagger)]);
        assert_eq!(person("And then Oblivion took it", 0.8), []);
        assert_eq!(person("And then Oblivion took it", 0.95), [(2..3, Label::PersonName, Source::Tagger)]);
        assert_eq!(person("And then Gardener took it", 0.8), [(2..3, Label::PersonName, Source::Tagger)]);
        assert_eq!(joined("not in verse", 2..3, Label::Location, 0.99), []);
        assert_eq!(joined("The line between A and B.", 3..4, Label::PersonName, 0.99), []);
        let address = joined("at juniper close", 1..3, Label::Location, 0.8);
        assert_eq!(address, [(1..3, Label::Location, Source::Tagger)]);
    }

    #[test]
    fn fields_abbreviations_firms_and_plain_dates_are_nobodys() {
        let person = |text, words| joined(text, words, Label::PersonName, 0.99);
        assert_eq!(person("Bot: what is it?", 0..1), []);
        assert_eq!(person("It is Zorblax Mobile: 12", 2..4), [(2..3, Label::PersonName, Source::Tagger)]);
        assert_eq!(person("Take money from the QZX here.", 4..5), []);
        let firm = joined("I work for Maria Lopez Clothing here", 3..6, Label::Organization, 0.95);
        assert!(firm.iter().all(|(_, label, _)| *label == Label::Organization), "{firm:?}");
        let both = joined("we met maria and fevold here", 2..5, Label::Organization, 0.99);
        assert!(both.iter().any(|(_, label, _)| *label == Label::PersonName), "{both:?}");
        let birth = |text, words| joined(text, words, Label::DateOfBirth, 0.9);
        assert!(birth("It ended on 7 November 2020 there.", 3..6).iter().all(|(_, label, _)| *label == Label::Date));
        assert!(
            birth("His DOB is 7 November 2020 here.", 3..6).iter().all(|(_, label, _)| *label == Label::DateOfBirth)
        );
    }

    #[test]
    fn codes_are_of_a_form_and_of_somebody() {
        let account = |text, words| joined(text, words, Label::AccountNumber, 0.99);
        assert_eq!(account("it starts with a zero here", 3..5), []);
        assert_eq!(account("the order number is 48210 today", 4..5), []);
        assert_eq!(account("he gave me oh four nine then", 3..6), [(3..6, Label::AccountNumber, Source::Tagger)]);
    }

    #[test]
    fn numbers_beside_an_identifier_and_its_field_are_no_part_of_it() {
        let found = |text: &str, words: Range<usize>, label| {
            let turns = turns(text);
            let tagged = [Finding { words, label, confidence: 0.99, source: Source::Tagger }];
            let mut reading = Reading::new(&turns);
            reading.mark(&[(1, Label::BankingInformation)]);
            let found = find_in(&reading, &tagged).into_iter().filter(|finding| finding.confidence >= MIN_CONFIDENCE);
            let found = super::super::resolve(&reading, found.collect());
            found.into_iter().map(|finding| (finding.words, finding.label)).collect::<Vec<_>>()
        };
        let bank = [(1..2, Label::BankingInformation)];
        assert_eq!(found("SSN: 130-07-5728 1 2 3", 1..5, Label::UsSocialSecurityNumber), bank);
        assert_eq!(found("it 4111111111111111 123", 1..3, Label::PhoneNumber), bank);
        assert_eq!(found("Zorbcoin 1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", 0..1, Label::PersonName), bank);
        assert_eq!(joined("1607635102.00 -0.96", 0..1, Label::AccountNumber, 0.99), []);
        assert_eq!(joined("Aadhaar 2345 6789 0123", 0..1, Label::PersonName, 0.99).len(), 1);
        assert_eq!(joined("It has RAM: 64 GB here", 2..3, Label::PersonName, 0.99), []);
        assert_eq!(joined("An AMD Zorblax 9 here", 1..3, Label::PersonName, 0.99), []);
        assert_eq!(joined("Fix the login form (#3321) today", 4..5, Label::VehicleId, 0.99), []);
        assert_eq!(joined("Barcode 4006381333931 does not scan", 1..2, Label::PhoneNumber, 0.99), []);
        assert_eq!(joined("So Wi-Fi is free", 1..2, Label::PersonName, 0.99), []);
        let hash = "Hash: sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!(joined(hash, 1..2, Label::DateOfBirth, 0.99), []);
        assert_eq!(joined(hash, 0..1, Label::PersonName, 0.99), []);
        assert_eq!(joined("1120 ok", 1..2, Label::PersonName, 0.8), []);
    }

    #[test]
    fn a_name_that_was_found_once_is_found_again() {
        let found = joined("this is zorblax here and zorblax is late", 2..3, Label::PersonName, 0.9);
        assert!(found.iter().any(|(words, ..)| *words == (5..6)), "{found:?}");
    }

    #[test]
    fn symbols_greetings_days_and_topics_are_nobodys() {
        let place = Label::Location;
        let person = Label::PersonName;
        assert_eq!(joined("In size 38 40 42 only", 2..5, place, 0.99), []);
        assert_eq!(joined("It is in parser.rs here", 3..4, place, 0.99), []);
        assert_eq!(joined("It has sha256:9f86d081 here", 2..3, person, 0.99), []);
        let sent = joined("Sent Tue, 4 Mar at noon", 1..2, person, 0.99);
        assert!(sent.iter().all(|(_, label, _)| *label == Label::Date), "{sent:?}");
        assert_eq!(joined("Sehr geehrte Frau Zorblax", 0..1, person, 0.99), []);
        assert_eq!(joined("Then Zorblax Street is loud at night.", 1..3, place, 0.99), []);
        let met = joined("Then I saw Zorblax Street at night.", 3..5, place, 0.99);
        assert_eq!(met, [(3..5, place, Source::Tagger)]);
        assert_eq!(joined("Use the resistors 330 470 ohm", 3..6, Label::PhoneNumber, 0.99), []);
    }
}
