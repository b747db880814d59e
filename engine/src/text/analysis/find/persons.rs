//! Words around others that tell of a person.

use super::super::reading::{Reading, is_clear_given};
use crate::text::word_list::words;

/// Pronouns of a person.
const PRONOUNS: &[&str] =
    &["i", "i'm", "i've", "my", "me", "he", "she", "he's", "she's", "his", "her", "him", "we", "we're", "they're"];

/// Nouns for a person, by kinship or role.
pub(super) const ROLES: &[&str] = words!(
    "patient wife husband son daughter mother father brother sister mom dad mum grandmother grandfather uncle aunt \
     friend partner cousin daddy mummy grandma grandpa grandson granddaughter boyfriend girlfriend fiance fiancee \
     nephew niece colleague neighbour neighbor boss roommate flatmate landlord landlady"
);

/// A word that tells of a person stands in the sentence before `at`, at most `most` words away.
pub(super) fn person_near(reading: &Reading<'_>, at: usize, most: usize) -> bool {
    let sentence = reading.tokens[at].sentence;
    (at.saturating_sub(most)..at).any(|before| {
        let token = &reading.tokens[before];
        token.sentence == sentence
            && (PRONOUNS.contains(&token.lower.as_str())
                || ROLES.contains(&token.lower.as_str())
                || is_clear_given(token)
                || is_person_mask(&token.text))
    })
}

/// A word that tells of a person follows in the sentence.
pub(super) fn person_after(reading: &Reading<'_>, end: usize, most: usize) -> bool {
    let sentence = reading.tokens[end - 1].sentence;
    (end..(end + most).min(reading.tokens.len())).any(|at| {
        reading.tokens[at].sentence == sentence
            && matches!(reading.lower(at), "i" | "i'm" | "i've" | "my" | "me" | "he" | "she" | "his" | "her")
    })
}

/// "my", "his" and the like before a word.
pub(super) fn is_owned(reading: &Reading<'_>, at: usize) -> bool {
    matches!(reading.before(at, 1), "my" | "his" | "her" | "our" | "their" | "your")
}

pub(super) fn is_person_mask(text: &str) -> bool {
    text.contains("[PERSON_NAME]")
}

pub(super) fn any_before(reading: &Reading<'_>, at: usize, most: usize, words: &[&str]) -> bool {
    let sentence = reading.tokens[at].sentence;
    (at.saturating_sub(most)..at)
        .any(|before| reading.tokens[before].sentence == sentence && words.contains(&reading.lower(before)))
}

/// "I'm French", "she is a nurse", "my brother was Catholic": a person, a form of "be", at most `most` words.
pub(super) fn is_said_of_person(reading: &Reading<'_>, at: usize, most: usize) -> bool {
    let sentence = reading.tokens[at].sentence;
    (at.saturating_sub(most)..at).rev().any(|be| {
        if reading.tokens[be].sentence != sentence {
            return false;
        }
        let word = reading.lower(be);
        if matches!(word, "i'm" | "we're" | "they're") {
            return true;
        }
        // "he's" is "he" without its "'s".
        if matches!(word, "he" | "she")
            && reading.tokens[be].text.len() > reading.tokens[be].core.end
            && reading.tokens[be].text.contains('\'')
        {
            return true;
        }
        matches!(
            word,
            "am" | "is" | "was" | "are" | "were" | "become" | "became" | "been" | "being" | "identify" | "raised"
        ) && (be.saturating_sub(3)..be).any(|person| {
            let token = &reading.tokens[person];
            token.sentence == sentence
                && (matches!(token.lower.as_str(), "i" | "he" | "she" | "they" | "we" | "who")
                    || ROLES.contains(&token.lower.as_str())
                    || is_clear_given(token)
                    || is_person_mask(&token.text))
        })
    })
}
