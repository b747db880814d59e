//! Which sentences answer a question.

use std::borrow::Cow;

use super::Passage;
use super::index::{Index, Match};
use super::prompt::{Kind, Question, Task, questions};
use super::spans;
use super::terms::{Term, TermReader};
use crate::text::quote_marks::{original_part, plain};
use crate::text::word_list::{phrases, words};

/// The part of a neighbour's match that counts for a passage.
const NEIGHBOUR: f64 = 0.35;

/// The least share of a question's weight that its best sentence holds.
const LEAST_COVERAGE: f64 = 0.45;
/// The same for a question that is answered by yes or no.
const LEAST_CLOSED_COVERAGE: f64 = 0.7;
/// The same for a script without spaces, where pairs of characters across words never match.
const LEAST_PAIR_COVERAGE: f64 = 0.25;

/// Further sentences have at least this share of the best one's score.
const NEXT_SCORE: f64 = 0.75;

/// The most sentences of an answer, and of a summary.
const MOST_QUOTES: usize = 3;
const MOST_SUMMARY: usize = 5;
/// The most sentences of a list.
const MOST_LIST: usize = 12;

/// The share of a question's score that the sentence after it has.
const ANSWERS: f64 = 0.85;

/// The factors of a sentence that has the kind of thing asked for, and of one that has not.
const HAS_KIND: f64 = 1.35;
const LACKS_KIND: f64 = 0.7;

/// A transcript that is ready to be asked.
pub struct Transcript<'a> {
    /// The passages as they are read: with plain apostrophes and quotation marks.
    pub passages: Cow<'a, [Passage]>,
    /// The passages as they are quoted.
    pub originals: &'a [Passage],
    pub reader: TermReader,
    index: Index,
}

impl<'a> Transcript<'a> {
    pub fn new(passages: &'a [Passage], language: Option<&str>) -> Self {
        let reader = TermReader::new(language);
        let originals = passages;
        let passages = plain_passages(passages);
        let index = Index::new(&reader, passages.iter().map(|passage| passage.text.as_str()));
        Self { passages, originals, reader, index }
    }

    /// A part of a passage as it is read, as the passage has it.
    pub fn original(&self, at: usize, part: &str) -> String {
        original_part(&self.originals[at].text, part).to_owned()
    }

    /// Each question of a prompt with the positions of the sentences that answer it, in the transcript's order.
    pub fn answers(&self, prompt: &str) -> Vec<(String, Vec<usize>)> {
        let questions = questions(prompt, &self.reader);
        questions.into_iter().map(|question| (question.text.clone(), self.answer(&question))).collect()
    }

    /// The sentences that answer a question, in the transcript's order.
    pub fn answer(&self, question: &Question) -> Vec<usize> {
        let mut found = match question.task {
            Some(Task::Summary) => self.index.central(MOST_SUMMARY),
            Some(Task::Actions) => self.with_cue(holds_action),
            Some(Task::Decisions) => self.with_cue(holds_decision),
            Some(Task::Questions) => self.with_cue(|passage, _| passage.text.trim_end().ends_with(['?', '？', '؟'])),
            None => self.search(question, MOST_QUOTES).into_iter().map(|(at, _)| at).collect(),
        };
        found.sort_unstable();
        found
    }

    /// The most central sentences, in the transcript's order.
    pub fn summary(&self, most: usize) -> Vec<usize> {
        let mut found = self.index.central(most);
        found.sort_unstable();
        found
    }

    /// The sentences that bear on a question, the best first, with their scores.
    pub fn search(&self, question: &Question, most: usize) -> Vec<(usize, f64)> {
        let matches = self.index.matches(&question.query, NEIGHBOUR);
        let mut ranked: Vec<(usize, f64)> = Vec::new();
        for (at, found) in matches.iter().enumerate() {
            // What follows a question of the transcript answers it, in words of its own.
            let asked = at.checked_sub(1).filter(|before| self.is_question(*before)).map(|before| matches[before]);
            let found = match asked {
                Some(asked) if asked.score * ANSWERS > found.score => {
                    Match { score: asked.score * ANSWERS, coverage: asked.coverage.max(found.coverage) }
                }
                _ => *found,
            };
            if self.is_enough(question, at, found) {
                ranked.push((at, found.score * self.kind_factor(question.kind, at)));
            }
        }
        ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        let least = ranked.first().map_or(0.0, |(_, score)| score * NEXT_SCORE);
        ranked.retain(|(_, score)| *score >= least);
        ranked.truncate(most);
        ranked
    }

    fn is_enough(&self, question: &Question, at: usize, found: Match) -> bool {
        let pairs = question
            .query
            .iter()
            .any(|term| term.stem.chars().any(crate::text::sentence_boundaries::is_unspaced_script));
        let least = if pairs {
            LEAST_PAIR_COVERAGE
        } else if question.is_closed {
            LEAST_CLOSED_COVERAGE
        } else {
            LEAST_COVERAGE
        };
        // A question is not its own answer.
        found.coverage >= least
            && !self.is_question(at)
            && (self.has_kind(question.kind, at) || !is_required(question.kind))
    }

    fn is_question(&self, at: usize) -> bool {
        self.passages[at].text.trim_end().ends_with(['?', '？', '؟'])
    }

    fn kind_factor(&self, kind: Kind, at: usize) -> f64 {
        match kind {
            Kind::Other => 1.0,
            _ if self.has_kind(kind, at) => HAS_KIND,
            _ => LACKS_KIND,
        }
    }

    /// True if a passage holds the kind of thing that is asked for.
    fn has_kind(&self, kind: Kind, at: usize) -> bool {
        let terms = &self.index.terms[at];
        let text = &self.passages[at].text;
        let holds = |words: &[&str]| terms.iter().any(|term| words.contains(&term.word.as_str()));
        match kind {
            Kind::Person => {
                !spans::names(text, &self.reader).is_empty()
                    || holds(words!(
                        "i he she father mother brother sister wife husband grandmother grandfather team doctor"
                    ))
            }
            Kind::Time => spans::holds_time(terms),
            Kind::Duration => spans::holds_duration(terms),
            Kind::Quantity => spans::holds_number(terms),
            Kind::Identifier => spans::holds_number(terms) || text.contains('@'),
            Kind::Place => {
                !spans::names(text, &self.reader).is_empty()
                    || holds(&["in", "at", "near", "on", "from", "nach", "aus", "bei", "en", "à", "a", "dans", "em"])
            }
            Kind::Reason => holds(words!(
                "because since so therefore due cause caused weil denn porque parce car perché omdat but to aber"
            )),
            Kind::Other => false,
        }
    }

    fn with_cue(&self, cue: impl Fn(&Passage, &[Term]) -> bool) -> Vec<usize> {
        let with = (0..self.passages.len()).filter(|&at| cue(&self.passages[at], &self.index.terms[at]));
        with.take(MOST_LIST).collect()
    }

    /// The sentences with a commitment, and those with a decision.
    pub fn actions(&self) -> Vec<usize> {
        self.with_cue(holds_action)
    }

    pub fn decisions(&self) -> Vec<usize> {
        self.with_cue(holds_decision)
    }

    /// All positions: those that bear on the prompt first, the best first, then the others in order.
    pub fn rank(&self, prompt: &str) -> Vec<usize> {
        let mut scores = vec![0.0f64; self.passages.len()];
        for question in questions(prompt, &self.reader) {
            for (score, found) in scores.iter_mut().zip(self.index.matches(&question.query, NEIGHBOUR)) {
                *score = score.max(found.score);
            }
        }
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]).then(one.cmp(other)));
        order
    }

    /// The content words that the transcript repeats, the most frequent first.
    pub fn keywords(&self, most: usize) -> Vec<String> {
        let mut counts: Vec<(String, String, f64)> = Vec::new();
        for term in self.index.terms.iter().flatten() {
            if term.is_stop || term.is_number || term.word.chars().count() < 4 {
                continue;
            }
            let weight = if term.is_name { 1.5 } else { 1.0 };
            match counts.iter_mut().find(|(stem, ..)| *stem == term.stem) {
                Some((_, _, count)) => *count += weight,
                None => counts.push((term.stem.clone(), term.word.clone(), weight)),
            }
        }
        counts.retain(|(.., count)| *count >= 2.0);
        counts.sort_by(|one, other| other.2.total_cmp(&one.2));
        counts.into_iter().take(most).map(|(_, word, _)| word).collect()
    }
}

/// True if a sentence without this kind of thing cannot be the answer.
fn is_required(kind: Kind) -> bool {
    matches!(kind, Kind::Time | Kind::Duration | Kind::Quantity | Kind::Identifier)
}

/// A commitment or a request: someone is to do something.
fn plain_passages(passages: &[Passage]) -> Cow<'_, [Passage]> {
    if passages.iter().all(|passage| matches!(plain(&passage.text), Cow::Borrowed(_))) {
        return Cow::Borrowed(passages);
    }
    passages.iter().map(|passage| Passage { text: plain(&passage.text).into_owned(), ..passage.clone() }).collect()
}

fn holds_action(passage: &Passage, terms: &[Term]) -> bool {
    let lower = passage.text.to_lowercase();
    if lower.trim_end().ends_with(['?', '？']) {
        return false;
    }
    let phrases = [
        "i will ",
        "i'll ",
        "we will ",
        "we'll ",
        "you will ",
        "need to ",
        "needs to ",
        "have to ",
        "has to ",
        "going to ",
        "let's ",
        "make sure",
        "remember to",
        "don't forget",
        "action item",
        "should ",
        "must ",
        "to do ",
        " will ",
    ];
    let asks = ["please"].iter().any(|word| terms.iter().any(|term| term.word == *word));
    let words = terms.iter().filter(|term| !term.is_stop).count();
    words >= 2 && (asks || phrases.iter().any(|phrase| lower.contains(phrase)))
}

fn holds_decision(passage: &Passage, _: &[Term]) -> bool {
    let lower = passage.text.to_lowercase();
    phrases!(
        "we agreed, we decided, decided to, agreed to, we have decided, we settled, approved, the vote was, voted, \
         we will go with, let's go with, we chose, then let's, it is settled, the decision, concluded"
    )
    .iter()
    .any(|phrase| lower.contains(phrase))
}
