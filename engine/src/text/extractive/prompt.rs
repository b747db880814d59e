//! The request of a prompt: a subject, a kind of answer, or a task such as a summary.

use super::index::QueryTerm;
use super::stop_words::TASK_WORDS;
use super::terms::{Term, TermReader};
use crate::text::quote_marks::plain;
use crate::text::word_list::{phrases, words};

/// English words that ask for each other, a group a line: a question about the cost is answered by a price. Each is compared by its stem.
const SYNONYMS: &str = include_str!("synonyms.txt");

/// The kind of thing that a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Person,
    Time,
    Place,
    /// A number of things or a measure.
    Quantity,
    /// A duration or the distance to a time.
    Duration,
    /// A number that names something: an account, a telephone.
    Identifier,
    Reason,
    Other,
}

/// A task about the whole transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Summary,
    Actions,
    Decisions,
    Questions,
}

/// One question of a prompt.
pub struct Question {
    /// As the prompt has it.
    pub text: String,
    pub kind: Kind,
    pub task: Option<Task>,
    pub query: Vec<QueryTerm>,
    /// A yes-or-no question: everything in it must be said.
    pub is_closed: bool,
}

/// The questions of a prompt: its parts up to each question mark, or the whole.
pub fn questions(prompt: &str, reader: &TermReader) -> Vec<Question> {
    let mut parts: Vec<String> = Vec::new();
    let mut part = String::new();
    for character in prompt.chars() {
        part.push(character);
        if matches!(character, '?' | '？' | '؟') {
            parts.push(std::mem::take(&mut part).trim().to_owned());
        }
    }
    // What stands behind the last question mark is usually "answer briefly".
    if parts.is_empty() {
        parts.push(prompt.trim().to_owned());
    }
    parts.iter().map(|part| question(part, reader)).collect()
}

/// True if a prompt asks for the whole transcript in short, and not for something in it.
#[must_use]
pub fn asks_for_summary(prompt: &str) -> bool {
    let lower = plain(prompt).to_lowercase();
    let words: Vec<&str> = lower.split(|character: char| !character.is_alphanumeric()).collect();
    let starts = |beginnings: &[&str]| words.iter().any(|word| beginnings.iter().any(|stem| word.starts_with(stem)));
    let holds = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
    starts(words!(
        "summar recap overview gist tldr highlight takeaway zusammenfass überblick résum resum riassu samenvat sintes"
    )) || holds(phrases!(
        "main point, key point, main topic, main idea, main theme, key theme, tl;dr, what is this about, \
         what is it about, what's this about, what was this about, what topics, which topics, \
         what is the transcript about, what is discussed, what was discussed, what did they talk about, \
         what do they talk about, what is the recording about, what is the meeting about, what is the call about, \
         worum geht, de quoi s'agit, de qué trata, de cosa parla, waar gaat"
    ))
}

fn task(text: &str) -> Option<Task> {
    let lower = text.to_lowercase();
    let holds = |phrases: &[&str]| phrases.iter().any(|phrase| lower.contains(phrase));
    if holds(phrases!("action item, next step, to-do, todo, to do list, follow-up, follow up, tasks, action points")) {
        Some(Task::Actions)
    } else if holds(phrases!(
        "decisions, what was decided, what did they decide, what was agreed, what did they agree, agreements"
    )) {
        Some(Task::Decisions)
    } else if holds(phrases!(
        "questions were, questions are, list the questions, list all questions, which questions, what questions"
    )) {
        Some(Task::Questions)
    } else if asks_for_summary(text) {
        Some(Task::Summary)
    } else {
        None
    }
}

fn question(text: &str, reader: &TermReader) -> Question {
    let plain = plain(text);
    let terms = reader.terms(&plain);
    let kind = kind(&terms, &plain);
    let first = terms.first().map_or("", |term| term.word.as_str());
    let is_closed = ["do", "does", "did", "is", "are", "was", "were", "can", "has", "have", "will"].contains(&first);
    Question { text: text.to_owned(), kind, task: task(text), query: query(&terms, reader, kind), is_closed }
}

/// The terms of a prompt's subject.
pub fn query(terms: &[Term], reader: &TermReader, kind: Kind) -> Vec<QueryTerm> {
    let mut query: Vec<QueryTerm> = Vec::new();
    for term in terms.iter().filter(|term| !term.is_stop && (term.is_name || !TASK_WORDS.contains(&term.word.as_str())))
    {
        if query.iter().any(|known| known.stem == term.stem) {
            continue;
        }
        let is_same = |word: &str| word == term.word || reader.stem(word) == term.stem;
        let groups = SYNONYMS.lines().filter(|group| group.split(' ').any(is_same));
        let mut related: Vec<String> =
            groups.flat_map(|group| group.split(' ').map(|word| reader.stem(word))).collect();
        related.retain(|stem| *stem != term.stem);
        let weight = if names_kind(&term.word, kind) {
            0.25
        } else if term.is_name || term.is_number {
            1.3
        } else {
            1.0
        };
        query.push(QueryTerm { stem: term.stem.clone(), related, weight });
    }
    query
}

/// True for a word that says which kind of answer is asked for: "what year", "which city", "how long".
fn names_kind(word: &str, kind: Kind) -> bool {
    let words: &[&str] = match kind {
        Kind::Person => &["person", "man", "woman", "people", "guy"],
        Kind::Time => words!(
            "time date day year month hour moment week come comes happen happens happened occur occurred place take \
             took"
        ),
        Kind::Place => &["place", "city", "town", "country", "location", "located", "street"],
        Kind::Quantity => words!("number amount much far tall high big large old hot heavy percent percentage"),
        Kind::Duration => &["long", "time", "years", "days", "weeks", "months", "hours", "minutes"],
        Kind::Identifier => &["number", "code", "id"],
        Kind::Reason => &["reason"],
        Kind::Other => &[],
    };
    words.contains(&word)
}

fn kind(terms: &[Term], text: &str) -> Kind {
    let words: Vec<&str> = terms.iter().take(8).map(|term| term.word.as_str()).collect();
    let first = |wanted: &[&str]| words.iter().take(3).any(|word| wanted.contains(word));
    let pair =
        |first: &str, seconds: &[&str]| words.windows(2).any(|pair| pair[0] == first && seconds.contains(&pair[1]));
    let lower = text.to_lowercase();
    if lower.contains("phone number")
        || lower.contains("account number")
        || lower.contains("email")
        || lower.contains("e-mail")
    {
        Kind::Identifier
    } else if pair("how", &["long"])
        || lower.starts_with("wie lange")
        || lower.contains("cuánto tiempo")
        || lower.contains("combien de temps")
    {
        Kind::Duration
    } else if pair(
        "how",
        &["many", "much", "far", "tall", "high", "old", "big", "large", "hot", "often", "heavy", "fast", "deep"],
    ) || pair("what", &["percentage", "percent", "amount", "number"])
        || first(words!("wieviel wieviele cuánto cuánta cuántos cuántas combien quanto quanti quante quantos hoeveel"))
        || pair("wie", &["viel", "viele", "hoch", "weit", "alt"])
    {
        Kind::Quantity
    } else if first(&["when", "wann", "cuándo", "quand", "quando", "wanneer"])
        || pair("what", &["time", "date", "day", "year", "month"])
        || pair("which", &["date", "day", "year", "month"])
    {
        Kind::Time
    } else if first(&["where", "wo", "woher", "wohin", "dónde", "où", "dove", "onde", "waar"]) {
        Kind::Place
    } else if first(words!("who whom whose wer wem wen wessen quién quiénes qui chi quem wie")) && !first(&["how"]) {
        // Dutch "wie" is German "how": the kind only adds weight there.
        if words.first() == Some(&"wie") { Kind::Other } else { Kind::Person }
    } else if first(&["why", "warum", "weshalb", "pourquoi", "perché", "waarom"])
        || lower.contains("por qué")
        || lower.contains("por que")
    {
        Kind::Reason
    } else {
        Kind::Other
    }
}
