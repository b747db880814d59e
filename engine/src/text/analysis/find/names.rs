//! Names of persons: after a phrase that announces one, by the lists of names, by capitals, and where they come again.

use std::collections::HashSet;
use std::ops::Range;

use super::super::cues::{self, Cue, Cued};
use super::super::label::Label;
use super::super::lists::{CALENDAR, COMMON, COMPANY, FIRM, GIVEN, Lists, PhraseKind, RARE, SURNAME, TOWN};
use super::super::numbers::Code;
use super::super::reading::{Break, Reading, is_clear_given};
use super::super::{Finding, Source};
use super::mentions;
use super::name_words::{Hit, Names, PARTICLES};
use super::secrets::FILLERS;
use crate::text::word_list::{phrases, words};

/// Family names that are common words, too.
const COMMON_SURNAMES: &str = include_str!("../lists/common-surnames.txt");

/// Given names that are common words, too; with a capital within a sentence they mean a person.
const COMMON_GIVEN: &str = include_str!("../lists/common-given.txt");

/// Phrases after which a name stands.
const STRONG: &[&str] = phrases!(
    "my name is, name is, names, name was, named, surname is, name as, known as, goes by, go by, mr, mrs, ms, mister, \
     missus, dr, sincerely, regards, professor, prof, signed by, attn, name's, cardholder is, beneficiary is, mx, \
     maiden name was, in the name of, under the name, made out to, yours faithfully, yours truly, someone called, \
     somebody called, man called, woman called, guy called, lady called, person called, son called, daughter called, \
     call me, calls me"
);

/// Phrases after which a name often stands.
const WEAK: &[&str] = phrases!(
    "i'm, i am, this is, it's, it is, with, hi, hello, hey, dear, thanks, thank you, ask for, contact, called, call, \
     tell, told, met, meet, by, from, to, and, is, for"
);

/// Words after which a name stands nearly always, if it is one: kinship, acquaintance, address, rank, roles.
const BESIDE: &str = "wife husband son daughter brother sister mother father mom mum dad grandmother grandfather grandma grandpa granny \
    grandad grandson granddaughter stepson stepdaughter stepmother stepfather cousin aunt auntie uncle nephew niece girlfriend boyfriend \
    fiance fiancee friend friends colleague coworker boss manager supervisor assistant neighbor neighbour roommate flatmate partner \
    therapist landlord landlady tenant client customer patient passenger witness carer caregiver nanny babysitter tutor teammate classmate \
    doctor nurse miss officer captain detective judge lieutenant sergeant colonel inspector constable sheriff senator reverend pastor \
    rabbi imam sir dame";

/// Words before "name" that make it no person's.
const OTHER_NAMES: &[&str] = words!(
    "user file domain brand product company host screen street event project table class variable hotel restaurant \
     band team business code place city town game song movie book school server field column network wifi store bank \
     account"
);

/// Fields that hold a name.
const NAME_FIELDS: &[&str] = words!(
    "name patient customer caller client contact signed from surname attn applicant tenant nachname vorname nom prenom \
     nombre apellido apellidos cognome nome naam achternaam voornaam efternavn imie nazwisko"
);

/// Words that follow the name of something that is no person.
const NO_PERSON_AFTER: &[&str] = words!(
    "inc ltd llc corp university airport stadium bridge prize award effect theorem park museum hotel hospital school \
     college street avenue road lane drive boulevard county station river lake island mountain church cathedral \
     library theatre theater bank airlines square court cup"
);

/// Sets of words, built once.
struct Sets {
    surnames: HashSet<&'static str>,
    given: HashSet<&'static str>,
    beside: HashSet<&'static str>,
}

static SETS: std::sync::LazyLock<Sets> = std::sync::LazyLock::new(|| Sets {
    surnames: COMMON_SURNAMES.split_whitespace().collect(),
    given: COMMON_GIVEN.split_whitespace().collect(),
    beside: BESIDE.split_whitespace().collect(),
});

/// Finds names. Those that a tagger has found are looked for again elsewhere.
pub fn find(reading: &Reading<'_>, codes: &[Code], cues: &[Cued], tagged: &[Finding], found: &mut Vec<Finding>) {
    let names = Names { reading, lists: Lists::get() };
    let mut hits: Vec<Hit> = Vec::new();
    let mut at = 0;
    while at < reading.tokens.len() {
        let hit = names.after_cue(at).or_else(|| names.set_apart(at)).or_else(|| names.by_lists(at));
        match hit {
            Some((words, confidence, source)) => {
                at = words.end.max(at + 1);
                hits.push((words, confidence, source));
            }
            None => at += 1,
        }
    }
    names.answers(&mut hits);
    mentions::find(&names, tagged, &mut hits);
    for (words, confidence, source) in hits {
        found.push(Finding { words, label: Label::PersonName, confidence, source });
    }
    spelled(reading, codes, cues, found);
}

impl Names<'_, '_> {
    /// The name after the phrase that ends before `at`.
    fn after_cue(&self, at: usize) -> Option<Hit> {
        let begins = self.begins_with_particle(at);
        if at == 0 || !self.is_wordlike(at) || self.is_stop(at) && !begins {
            return None;
        }
        let ends = |phrase: &str| {
            phrase.rsplit(' ').zip(1..).all(|(word, back)| {
                self.reading.before(at, back) == word && self.reading.joined(at - back, at - back + 1)
            })
        };
        // "Nom : Lecoq".
        let mark = self.reading.tokens[at - 1].text.ends_with([':', '=']);
        let field = self.reading.before(at, 1 + usize::from(self.reading.before(at, 1) == ":"));
        let colon = mark && NAME_FIELDS.contains(&field);
        let owned = self.reading.before(at, 1) == "name" && self.reading.tokens[at - 1].text.contains('\'');
        // "name Chidi Iyer, date of birth".
        let listed = matches!(self.reading.before(at, 1), "name" | "surname")
            && self.reading.tokens[at].flags & (GIVEN | SURNAME) != 0
            && !self.reading.tokens[at].is(COMMON);
        // "Can you spell your surname? It's Osei."
        let answered = self.reading.before(at, 1) == "it"
            && self.reading.is_contracted(at - 1)
            && at > 1
            && matches!(self.reading.before(at, 2), "name" | "surname");
        let asked = self.reading.before(at, 1) == "who" && self.reading.is_contracted(at - 1);
        let strong = colon || owned || listed || answered || asked || STRONG.iter().any(|phrase| ends(phrase));
        // "The named field", "known as kolam": where names have capitals, a word without one is none that no list has.
        let token = &self.reading.tokens[at];
        let is_listed = token.flags & (GIVEN | SURNAME) != 0 && (!token.is(COMMON) || token.is(FIRM));
        let strong = strong && (token.capital || !self.reading.cased || is_listed || begins);
        if strong && !self.is_other_name(at) {
            let words = self.extent(at, true);
            // "From: Head Office".
            let is_everyday = colon
                && !token.is(GIVEN)
                && words.clone().all(|at| self.reading.tokens[at].is(COMMON))
                && words.len() > 1;
            if !words.is_empty() && !is_everyday {
                return Some((words, 0.9, Source::Pattern));
            }
        }
        let is_its = self.reading.before(at, 1) == "it" && self.reading.is_contracted(at - 1);
        let before = &self.reading.tokens[at - 1];
        let beside = before.after == Break::None
            && !self.reading.is_contracted(at - 1)
            && (SETS.beside.contains(self.reading.before(at, 1)) || self.is_work(at - 1));
        if !(strong || is_its || beside || WEAK.iter().any(|phrase| ends(phrase))) {
            return None;
        }
        if token.flags & (COMPANY | CALENDAR) != 0 || self.is_other_phrase(at) {
            return None;
        }
        let preposition =
            matches!(self.reading.before(at, 1), "in" | "from" | "to" | "is" | "and" | "for" | "by" | "it" | "with");
        let town = token.is(TOWN);
        // A given name, or a capital that no dictionary explains.
        let given = token.is(GIVEN) && (token.is(FIRM) || !token.is(COMMON)) && !(town && preposition);
        let capital = self.reading.cased && token.capital && !token.is(COMMON) && !town;
        let clear = beside
            || matches!(
                self.reading.before(at, 1),
                "i'm" | "dear" | "hi" | "hello" | "hey" | "thanks" | "told" | "met"
            );
        let greeted = matches!(self.reading.before(at, 1), "hi" | "hello" | "hey" | "dear")
            && self.reading.cased
            && token.capital
            && token.is(GIVEN)
            && !token.is(TOWN);
        let surname = token.flags & (SURNAME | RARE) != 0
            && !token.is(COMMON)
            && (clear || (self.reading.cased && token.capital))
            && !(town && preposition);
        if given || greeted || (capital && (clear || self.looks_like_person(at))) || surname {
            let words = self.extent(at, false);
            if !words.is_empty() && !self.is_no_person(&words) {
                let confidence = if words.len() > 1 || clear { 0.85 } else { 0.7 };
                return Some((words, confidence, Source::List));
            }
        }
        None
    }

    /// "von Stauffen", "de la Cruz": small words in front of a family name, where names have capitals.
    fn begins_with_particle(&self, at: usize) -> bool {
        let small = |at: usize| {
            self.reading.cased && PARTICLES.contains(&self.reading.lower(at)) && !self.reading.tokens[at].capital
        };
        let name = at + 1 + usize::from(small(at) && small(at + 1));
        small(at) && self.reading.joined(at, name.min(self.reading.tokens.len())) && self.is_part(name, true, true)
    }

    /// A capital word without a list, where the words after it tell of a person.
    fn looks_like_person(&self, at: usize) -> bool {
        let next = self.reading.tokens.get(at + 1);
        let followed = next.is_some_and(|next| {
            next.capital && next.is(SURNAME) && !next.is(COMMON) && self.reading.tokens[at].after == Break::None
        });
        followed || self.reading.tokens[at].flags & (SURNAME | RARE) != 0
    }

    /// A single word for somebody's work: "engineer".
    fn is_work(&self, at: usize) -> bool {
        let is_work = |phrase: &super::super::lists::Phrase| {
            phrase.rest.is_empty() && matches!(phrase.kind, PhraseKind::Term(Label::Occupation))
        };
        self.lists.phrases(self.reading.lower(at)).iter().any(is_work)
    }

    /// "user name is", "the name of the company is".
    fn is_other_name(&self, at: usize) -> bool {
        let name = (1..=2).find(|back| matches!(self.reading.before(at, *back), "name" | "name's"));
        name.is_some_and(|back| OTHER_NAMES.contains(&self.reading.before(at, back + 1)))
            || (self.reading.before(at, 1) == "is"
                && self.reading.before(at, 2) == "name"
                && self.reading.before(at, 3) == "its")
    }

    /// The words of a name that begins at `start`. After a strong phrase unknown words count.
    fn extent(&self, start: usize, strong: bool) -> Range<usize> {
        let reading = self.reading;
        let begins = self.begins_with_particle(start);
        let capitals = reading.cased && (reading.tokens[start].capital || begins);
        let mut end = start;
        while end < reading.tokens.len() && end - start < 5 {
            let owner = |token: &super::super::reading::Token<'_>| token.text[token.core.end..].contains('\'');
            if end > start && (reading.tokens[end - 1].after > Break::None || owner(&reading.tokens[end - 1])) {
                break;
            }
            let token = &reading.tokens[end];
            let lower = token.lower.as_str();
            if token.masked || end > start && token.text.starts_with('(') {
                break;
            }
            if (end > start || begins) && PARTICLES.contains(&lower) {
                let next = end + 1 + usize::from(PARTICLES.contains(&reading.lower(end + 1)));
                if token.after == Break::None && self.is_part(next, capitals, strong) {
                    end = next + 1;
                    continue;
                }
            }
            // "John Q. Public".
            let initial = lower.len() == 1 && token.core().chars().all(char::is_alphabetic) && lower != "i";
            if end > start
                && initial
                && (capitals == token.capital)
                && (lower != "a" || token.text.ends_with('.'))
                && self.is_part(end + 1, capitals, strong)
            {
                end += 1;
                continue;
            }
            if end > start && matches!(lower, "jr" | "sr" | "junior" | "senior" | "iii" | "ii") {
                end += 1;
                break;
            }
            let first = end == start;
            if !(self.is_part(end, capitals, strong)
                || (first
                    && strong
                    && self.is_wordlike(end)
                    && !self.is_stop(end)
                    && token.flags & (GIVEN | SURNAME) != 0))
            {
                break;
            }
            end += 1;
        }
        start..end
    }

    /// A word that can continue a name.
    fn is_part(&self, at: usize, capitals: bool, strong: bool) -> bool {
        if !self.is_wordlike(at) || self.is_stop(at) {
            return false;
        }
        let token = &self.reading.tokens[at];
        if capitals {
            return token.capital && !self.is_other_phrase(at);
        }
        let listed = token.flags & (GIVEN | SURNAME) != 0;
        (listed && (!token.is(COMMON) || token.is(FIRM) || SETS.surnames.contains(token.lower.as_str())))
            || (!token.is(COMMON) && (strong || token.flags & !RARE == 0) && token.flags & COMPANY == 0)
    }

    /// A family name that a comma or a colon sets apart: "Smith, John A.", "CHAPIN: I think so", "Chapin, can I".
    fn set_apart(&self, at: usize) -> Option<Hit> {
        let reading = self.reading;
        let token = &reading.tokens[at];
        // Capitals throughout are how a masthead writes, in whatever text.
        let is_masthead = token.text.ends_with(':') && !token.core().contains(char::is_lowercase);
        let is_name = (reading.cased || is_masthead)
            && token.capital
            && !token.masked
            && token.lower.len() > 2
            // "Best, Imogen" closes a letter.
            && !(token.first && token.lower == "best")
            && token.flags & (SURNAME | GIVEN) != 0
            && token.flags & (COMPANY | CALENDAR | TOWN) == 0
            && (!token.is(COMMON) || SETS.surnames.contains(token.lower.as_str()));
        if !is_name || self.is_stop(at) || self.is_other_phrase(at) {
            return None;
        }
        let mark = &token.text[token.core.end..];
        let next = reading.tokens.get(at + 1)?;
        if mark == "," && token.is(SURNAME) && next.capital && is_clear_given(next) && self.is_wordlike(at + 1) {
            let mut end = self.extent(at + 1, false).end.max(at + 2);
            end += usize::from(
                reading.tokens[end - 1].after == Break::None
                    && reading
                        .tokens
                        .get(end)
                        .is_some_and(|token| token.capital && token.lower.len() == 1 && token.lower != "i"),
            );
            return Some((at..end, 0.8, Source::List));
        }
        let addressed = mark == ","
            && words!("can could would will i you please do did how let thanks when where why are")
                .contains(&next.lower.as_str());
        (token.first && !token.is(COMMON) && (mark == ":" || addressed)).then_some((at..at + 1, 0.7, Source::List))
    }

    /// A name that the lists tell.
    fn by_lists(&self, at: usize) -> Option<Hit> {
        let token = &self.reading.tokens[at];
        let reading = self.reading;
        if !self.is_wordlike(at) || self.is_stop(at) || self.is_other_phrase(at) {
            return None;
        }
        let capital = token.capital && reading.cased;
        if reading.cased && !token.capital {
            return None;
        }
        let joined = token.after == Break::None;
        let next = reading
            .tokens
            .get(at + 1)
            .filter(|next| joined && !next.masked && self.is_wordlike(at + 1) && !self.is_stop(at + 1));
        let next_surname = next.is_some_and(|next| {
            (next.is(SURNAME) || next.is(RARE) && (!token.is(COMMON) || capital))
                && (!next.is(COMMON) || (capital && next.capital) || SETS.surnames.contains(next.lower.as_str()))
                && (next.capital || !reading.cased)
                && next.flags & COMPANY == 0
                && !self.is_other_phrase(at + 1)
        });
        let next_unknown = next.is_some_and(|next| {
            next.flags & (COMMON | COMPANY | TOWN) == 0
                && (next.capital || !reading.cased)
                && !self.is_other_phrase(at + 1)
        });
        let next_particle = next.is_some_and(|next| PARTICLES.contains(&next.lower.as_str()))
            && reading.tokens.get(at + 2).is_some_and(|after| {
                (after.capital || !reading.cased)
                    && after.flags & (SURNAME | COMMON) != COMMON
                    && self.is_wordlike(at + 2)
                    && !self.is_stop(at + 2)
            });
        let initial = reading.lower(at + 1).len() == 1
            && capital
            && reading
                .tokens
                .get(at + 2)
                .is_some_and(|after| after.capital && after.flags & CALENDAR == 0 && self.is_wordlike(at + 2))
            && token.is(GIVEN);
        let clear = is_clear_given(token);
        let hit = if clear && (next_surname || next_unknown || next_particle || initial) {
            Some(0.85)
        } else if clear && (token.lower.len() > 3 || capital || token.is(FIRM)) {
            Some(0.65)
        } else if token.is(GIVEN)
            && next_surname
            && next.is_some_and(|next| {
                !next.is(TOWN) || !token.is(COMMON) || capital || SETS.given.contains(token.lower.as_str())
            })
        {
            // "Grace Okafor", "will thompson", "Austin Powell".
            let both_common = token.is(COMMON) && next.is_some_and(|next| next.is(COMMON));
            let verb = matches!(
                token.lower.as_str(),
                "will" | "may" | "can" | "see" | "do" | "let" | "so" | "mark" | "bill" | "in" | "an"
            ) && !capital;
            (!both_common || (capital && !token.first)).then_some(if verb { 0.4 } else { 0.7 })
        } else if token.is(GIVEN)
            && capital
            && (next_unknown || initial)
            && token.flags & (COMPANY | CALENDAR) == 0
            && (!token.first || !token.is(COMMON))
        {
            Some(0.6)
        } else if !reading.cased
            && token.flags & (SURNAME | RARE) != 0
            && token.flags & (COMMON | COMPANY | TOWN | CALENDAR) == 0
            && token.lower.len() > 3
            && next.is_some_and(|next| next.flags & (SURNAME | RARE) != 0 && !next.is(COMMON))
        {
            // Two family names: one may be a given name that no list has.
            Some(0.56)
        } else if capital
            && (!token.first || token.flags & (SURNAME | RARE) != 0)
            && token.flags & (COMMON | COMPANY | TOWN | CALENDAR) == 0
            && (next_surname || (token.is(RARE) && next_unknown))
            && next.is_some_and(|next| !next.is(COMMON))
        {
            Some(0.62)
        } else if capital
            && !token.first
            && SETS.given.contains(token.lower.as_str())
            && token.flags & CALENDAR == 0
            && !(joined && reading.tokens.get(at + 1).is_some_and(|next| next.capital))
        {
            // "Grace" within a sentence.
            Some(0.56)
        } else if token.is(GIVEN)
            && token.is(TOWN)
            && capital
            && token.flags & (COMMON | CALENDAR | COMPANY) == 0
            && !matches!(
                reading.before(at, 1),
                "in" | "from" | "to" | "at" | "near" | "of" | "around" | "through" | "over"
            )
            && self.acts(at + 1)
        {
            Some(0.6)
        } else if capital
            && !token.first
            && token.flags & (SURNAME | RARE) != 0
            && token.flags & (COMMON | COMPANY | TOWN | CALENDAR) == 0
            && self.acts(at + 1)
        {
            Some(0.58)
        } else {
            None
        };
        let confidence = hit?;
        let words = self.extent(at, false);
        let words = if words.is_empty() { at..at + 1 } else { words };
        // "The jack of hearts", "a Stanford study", "al dente".
        let is_article = matches!(reading.before(at, 1), "the" | "a" | "an" | "this" | "that");
        let is_noun = joined
            && reading.tokens.get(at + 1).is_some_and(|next| next.is(COMMON) && !next.capital && !self.is_stop(at + 1));
        let is_thing = words.len() == 1 && token.is(COMMON) && (is_article || reading.lower(at + 1) == "of")
            || words.len() == 1 && is_article && capital && !token.is(FIRM) && is_noun;
        let is_particle =
            !reading.cased && token.is(COMMON) && PARTICLES.contains(&token.lower.as_str()) && token.lower.len() < 3;
        (!is_thing && !is_particle && !self.is_no_person(&words)).then_some((words, confidence, Source::List))
    }

    /// A verb that persons are the subject of.
    fn acts(&self, at: usize) -> bool {
        at > 0
            && self.reading.tokens[at - 1].after < Break::Sentence
            && words!(
                "said says called calls told asked asks wants wanted wrote replied thinks thought emailed texted \
                 agreed lives works signed sent promised mentioned confirmed needs knows joined paid owes left came \
                 took gave"
            )
            .contains(&self.reading.lower(at))
    }

    fn is_no_person(&self, words: &Range<usize>) -> bool {
        let next = self.reading.lower(words.end);
        let joined = self.reading.tokens[words.end - 1].after == Break::None;
        joined && NO_PERSON_AFTER.contains(&next) && (self.reading.tokens[words.end].capital || !self.reading.cased)
            || (NO_PERSON_AFTER.contains(&self.reading.lower(words.end - 1))
                && !(words.len() > 1
                    && is_clear_given(&self.reading.tokens[words.start])
                    && self.reading.tokens[words.end - 1].is(SURNAME)))
    }

    /// "What's your name?" - "Priya Raman."
    fn answers(&self, hits: &mut Vec<Hit>) {
        let reading = self.reading;
        for (at, token) in reading.tokens.iter().enumerate() {
            if !matches!(token.lower.as_str(), "name" | "surname" | "calling" | "names") || token.masked {
                continue;
            }
            let end = (at..(at + 8).min(reading.tokens.len())).find(|at| reading.tokens[*at].after >= Break::Sentence);
            let Some(question) = end.filter(|at| reading.tokens[*at].after == Break::Question) else { continue };
            if OTHER_NAMES.contains(&reading.before(at, 1)) {
                continue;
            }
            let asks_person =
                token.lower != "calling" || (1..=4).any(|back| matches!(reading.before(at, back), "who" | "who's"));
            let start = (question + 1..(question + 12).min(reading.tokens.len())).find(|at| {
                !FILLERS.contains(&reading.lower(*at))
                    && !reading.tokens[*at].text.ends_with(':')
                    && !matches!(
                        reading.lower(*at),
                        "name" | "name's" | "last" | "first" | "surname" | "full" | "this" | "i'm" | "am"
                    )
            });
            let Some(start) = start.filter(|_| asks_person) else { continue };
            if hits.iter().any(|(words, _, _)| words.contains(&start))
                || !self.is_wordlike(start)
                || self.is_stop(start)
            {
                continue;
            }
            let words = self.extent(start, true);
            if !words.is_empty() && words.len() <= 4 {
                hits.push((words, 0.8, Source::Pattern));
            }
        }
    }
}

/// Names that are spelled: "S-M-I-T-H", "that's r a m a n".
fn spelled(reading: &Reading<'_>, codes: &[Code], cues: &[Cued], found: &mut Vec<Finding>) {
    let names = found.iter().filter(|other| other.label == Label::PersonName && other.confidence > 0.5);
    let mut name_ends: HashSet<usize> = names.map(|name| name.words.end).collect();
    for code in codes {
        if code.digits > 0 || code.letters < 3 {
            continue;
        }
        let start = code.words.start;
        let hyphens = code.words.len() == 1 && code.written.contains('-');
        if code.words.len() == 1 && !hyphens {
            continue;
        }
        let cue = (1..=7).any(|back| {
            matches!(reading.before(start, back), "spelled" | "spell" | "spelt" | "spelling" | "name" | "surname")
        });
        let near = (start.saturating_sub(4)..=start).any(|end| name_ends.contains(&end));
        let shown = matches!(reading.before(start, 1), "that" | "that's" | "it's" | "it") && code.letters > 3;
        if !(cue || near || shown) {
            continue;
        }
        let email = cues::before(reading, cues, start, 8, |cue| matches!(cue, Cue::Email | Cue::Username)).is_some();
        let label = if email && !near { Label::EmailAddress } else { Label::PersonName };
        if label == Label::PersonName {
            name_ends.insert(code.words.end);
        }
        found.push(Finding { words: code.words.clone(), label, confidence: 0.86, source: Source::Pattern });
    }
}
