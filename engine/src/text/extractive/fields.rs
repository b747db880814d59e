//! Values of a described object, taken from a transcript.

use serde_json::{Map, Number, Value, json};

use super::answer::Transcript;
use super::prompt::{Kind, Question, Task, questions};
use super::shape::{self, Field, FieldType};
use super::spans;
use crate::text::quote_marks;
use crate::text::word_list::words;

/// The most values of a list.
const MOST_VALUES: usize = 12;

/// The object that a prompt describes. Fields that cannot be filled are null.
pub fn fill(transcript: &Transcript<'_>, prompt: &str) -> Value {
    let prompt = &*quote_marks::plain(prompt);
    let fields = shape::parse(prompt);
    if fields.is_empty() {
        return plain(transcript, prompt);
    }
    let context = shape::without_shape(prompt);
    object(transcript, &fields, &context)
}

/// The object for a prompt that describes none.
fn plain(transcript: &Transcript<'_>, prompt: &str) -> Value {
    let mut found: Vec<usize> = transcript.answers(prompt).into_iter().flat_map(|(_, found)| found).collect();
    found.sort_unstable();
    found.dedup();
    let quotes: Vec<Value> = found
        .iter()
        .map(|&at| {
            let passage = &transcript.originals[at];
            json!({ "speaker": passage.speaker, "start": passage.start_ms, "text": passage.text })
        })
        .collect();
    let answer = if found.is_empty() { Value::Null } else { Value::String(joined(transcript, &found)) };
    json!({ "answer": answer, "quotes": quotes })
}

fn object(transcript: &Transcript<'_>, fields: &[Field], context: &str) -> Value {
    let mut filled = Map::new();
    for field in fields {
        filled.insert(field.name.clone(), value(transcript, field, context));
    }
    Value::Object(filled)
}

/// The words of a name such as `due_date` or `dueDate`.
fn words_of(name: &str) -> String {
    let mut words = String::new();
    let mut was_lower = false;
    for character in name.chars() {
        if character.is_uppercase() && was_lower {
            words.push(' ');
        }
        was_lower = character.is_lowercase() || character.is_numeric();
        match character {
            '_' | '-' | '.' => words.push(' '),
            other => words.extend(other.to_lowercase()),
        }
    }
    words
}

/// The source of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Summary,
    Actions,
    Decisions,
    Questions,
    Speakers,
    People,
    Times,
    Numbers,
    Emails,
    Phones,
    Keywords,
    /// The answer to the rest of the prompt.
    Answer,
    /// A sentence about the field's words.
    Sentence,
    /// An opinion or an invention, which no transcript holds in words.
    Judgement,
}

fn wanted(words: &str) -> Wanted {
    let all: Vec<&str> = words.split_whitespace().collect();
    let holds = |some: &[&str]| all.iter().any(|word| some.contains(word));
    if holds(&["summary", "overview", "recap", "abstract", "synopsis", "gist", "highlights", "takeaways"])
        || words.contains("key points")
        || words.contains("main points")
    {
        Wanted::Summary
    } else if words.contains("action")
        || words.contains("next step")
        || holds(&["todo", "todos", "tasks", "commitments"])
        || words.contains("to do")
        || words.contains("follow up")
    {
        Wanted::Actions
    } else if holds(&["decision", "decisions", "agreements"]) {
        Wanted::Decisions
    } else if holds(&["questions"]) {
        Wanted::Questions
    } else if holds(&["speakers"]) {
        Wanted::Speakers
    } else if holds(words!(
        "sentiment tone mood score rating confidence emotion urgency priority category title headline language"
    )) {
        Wanted::Judgement
    } else if holds(&["email", "emails"]) {
        Wanted::Emails
    } else if holds(&["phone", "telephone", "phones"]) {
        Wanted::Phones
    } else if holds(&["topics", "topic", "keywords", "tags", "themes", "subjects"]) {
        Wanted::Keywords
    } else if holds(words!(
        "people names name attendees participants persons person who owner assignee customer companies company \
         organizations places place city location"
    )) {
        Wanted::People
    } else if holds(&["date", "dates", "when", "deadline", "deadlines", "day", "time", "times", "year", "due"]) {
        Wanted::Times
    } else if holds(words!("number numbers amount amounts price prices cost count quantity percentage total figures"))
        || words.starts_with("how many")
        || words.starts_with("how much")
    {
        Wanted::Numbers
    } else if holds(&["answer", "response", "result", "quote", "quotes", "evidence"]) {
        Wanted::Answer
    } else {
        Wanted::Sentence
    }
}

fn value(transcript: &Transcript<'_>, field: &Field, context: &str) -> Value {
    let words = words_of(&field.name);
    match &field.kind {
        FieldType::Object(fields) => object(transcript, fields, context),
        FieldType::Flag => Value::Null,
        FieldType::OneOf(alternatives) => one_of(transcript, alternatives, &words, &field.description),
        FieldType::Number => number(transcript, &words, &field.description),
        FieldType::Text => {
            let texts = texts(transcript, &words, &field.description, context, 1);
            texts.and_then(|texts| texts.into_iter().next()).map_or(Value::Null, Value::String)
        }
        FieldType::List(item) => list(transcript, item, &words, &field.description, context),
    }
}

fn list(transcript: &Transcript<'_>, item: &FieldType, words: &str, description: &str, context: &str) -> Value {
    match item {
        FieldType::Number => {
            let found = relevant(transcript, words, description, MOST_VALUES);
            let sentences = if found.is_empty() && wanted(words) == Wanted::Numbers { all(transcript) } else { found };
            let numerals = sentences.iter().flat_map(|&at| spans::numbers(&transcript.passages[at].text));
            let values: Vec<Value> = numerals.filter_map(|numeral| numeric(&numeral)).take(MOST_VALUES).collect();
            if values.is_empty() { Value::Null } else { Value::Array(values) }
        }
        FieldType::Object(fields) => {
            // One object for each sentence of a list that can be found as such.
            let found = match wanted(words) {
                Wanted::Actions => transcript.actions(),
                Wanted::Decisions => transcript.decisions(),
                Wanted::Summary => transcript.summary(5),
                Wanted::Answer => {
                    sorted(transcript.answers(context).into_iter().flat_map(|(_, found)| found).collect())
                }
                _ => relevant(transcript, words, description, MOST_VALUES),
            };
            let objects: Vec<Value> = found.into_iter().map(|at| of_sentence(transcript, fields, at)).collect();
            if objects.is_empty() { Value::Null } else { Value::Array(objects) }
        }
        _ => match texts(transcript, words, description, context, MOST_VALUES) {
            Some(texts) if !texts.is_empty() => Value::Array(texts.into_iter().map(Value::String).collect()),
            _ => Value::Null,
        },
    }
}

/// An object about one sentence: its speaker, its time, its names and its words.
fn of_sentence(transcript: &Transcript<'_>, fields: &[Field], at: usize) -> Value {
    let passage = &transcript.passages[at];
    let mut filled = Map::new();
    for field in fields {
        let words = words_of(&field.name);
        let holds = |some: &[&str]| words.split_whitespace().any(|word| some.contains(&word));
        let first = |texts: Vec<String>| texts.first().map(|text| Value::String(transcript.original(at, text)));
        let value = if field.kind == FieldType::Flag {
            None
        } else if holds(&["speaker"]) {
            passage.speaker.clone().map(Value::String)
        } else if holds(&["start", "timestamp", "ms"]) {
            Some(if field.kind == FieldType::Number {
                json!(passage.start_ms)
            } else {
                json!(passage.quote().split(']').next().unwrap_or_default().trim_start_matches('[').to_owned())
            })
        } else if field.kind == FieldType::Number {
            spans::numbers(&passage.text).iter().find_map(|numeral| numeric(numeral))
        } else if field.kind != FieldType::Text {
            None
        } else {
            match wanted(&words) {
                Wanted::People => first(spans::names(&passage.text, &transcript.reader)),
                Wanted::Times => first(spans::times(&passage.text)),
                Wanted::Numbers => first(spans::numbers(&passage.text)),
                Wanted::Emails => first(spans::emails(&passage.text)),
                Wanted::Phones => first(spans::phones(&passage.text)),
                Wanted::Judgement | Wanted::Keywords | Wanted::Speakers => None,
                _ => Some(Value::String(transcript.originals[at].text.clone())),
            }
        };
        filled.insert(field.name.clone(), value.unwrap_or(Value::Null));
    }
    Value::Object(filled)
}

/// The alternative that the sentences about a field name, if they name exactly one.
fn one_of(transcript: &Transcript<'_>, alternatives: &[String], words: &str, description: &str) -> Value {
    if wanted(words) == Wanted::Judgement {
        return Value::Null;
    }
    let found = relevant(transcript, words, description, 3);
    let mut named = alternatives.iter().filter(|alternative| {
        let wanted: Vec<String> = transcript.reader.terms(alternative).into_iter().map(|term| term.stem).collect();
        !wanted.is_empty()
            && found.iter().any(|&at| {
                let held: Vec<String> =
                    transcript.reader.terms(&transcript.passages[at].text).into_iter().map(|term| term.stem).collect();
                held.windows(wanted.len()).any(|window| window == wanted)
            })
    });
    match (named.next(), named.next()) {
        (Some(only), None) => Value::String(only.clone()),
        _ => Value::Null,
    }
}

fn number(transcript: &Transcript<'_>, words: &str, description: &str) -> Value {
    if wanted(words) == Wanted::Judgement {
        return Value::Null;
    }
    let found = ranked(transcript, words, description, 3);
    // Two numbers in the best sentence: which one is meant cannot be known.
    let values: Vec<Value> = found
        .first()
        .map(|&at| {
            spans::numbers(&transcript.passages[at].text).iter().filter_map(|numeral| numeric(numeral)).collect()
        })
        .unwrap_or_default();
    match values.as_slice() {
        [only] => only.clone(),
        _ => Value::Null,
    }
}

fn numeric(numeral: &str) -> Option<Value> {
    let value = spans::value(numeral)?;
    let whole = value.fract() == 0.0 && value.abs() < 9e15;
    if whole { Some(json!(value as i64)) } else { Number::from_f64(value).map(Value::Number) }
}

/// Up to `most` texts for a field; none if there is nothing.
fn texts(
    transcript: &Transcript<'_>,
    words: &str,
    description: &str,
    context: &str,
    most: usize,
) -> Option<Vec<String>> {
    let sentences = |found: Vec<usize>| -> Vec<String> {
        if most == 1 {
            return if found.is_empty() { Vec::new() } else { vec![joined(transcript, &found)] };
        }
        found.into_iter().map(|at| transcript.originals[at].text.clone()).collect()
    };
    // The spans of the sentences about a field, or of all sentences for a list of such spans.
    let spans_of = |spans: &dyn Fn(&str) -> Vec<String>| -> Vec<String> {
        let about = ranked(transcript, words, description, 3);
        // The only address of a transcript is the one that is asked for, whatever stands around it.
        let is_address = matches!(wanted(words), Wanted::Emails | Wanted::Phones);
        let places = if most > 1 || is_address { all(transcript) } else { about };
        let mut texts: Vec<String> = Vec::new();
        let mut seen: Vec<String> = Vec::new();
        for at in places {
            for text in spans(&transcript.passages[at].text) {
                if !seen.contains(&text) {
                    texts.push(transcript.original(at, &text));
                    seen.push(text);
                }
            }
        }
        if is_address && most == 1 && texts.len() > 1 {
            return Vec::new();
        }
        texts.truncate(most);
        texts
    };
    let found = match wanted(words) {
        Wanted::Summary => sentences(transcript.summary(3)),
        Wanted::Actions => sentences(transcript.actions()),
        Wanted::Decisions => sentences(transcript.decisions()),
        Wanted::Questions => {
            let asked = (0..transcript.passages.len())
                .filter(|&at| transcript.passages[at].text.trim_end().ends_with(['?', '？']));
            sentences(asked.take(MOST_VALUES).collect())
        }
        Wanted::Speakers => speakers(transcript),
        Wanted::Judgement => Vec::new(),
        Wanted::Keywords => {
            let keywords = transcript.keywords(8);
            if most == 1 { Vec::new() } else { keywords }
        }
        Wanted::Emails => spans_of(&spans::emails),
        Wanted::Phones => spans_of(&spans::phones),
        Wanted::People => spans_of(&|text| spans::names(text, &transcript.reader)),
        Wanted::Times => spans_of(&spans::times),
        Wanted::Numbers => spans_of(&spans::numbers),
        Wanted::Answer => {
            sentences(sorted(transcript.answers(context).into_iter().flat_map(|(_, found)| found).collect()))
        }
        Wanted::Sentence => sentences(relevant(transcript, words, description, most.min(3))),
    };
    (!found.is_empty()).then_some(found)
}

fn speakers(transcript: &Transcript<'_>) -> Vec<String> {
    let mut speakers: Vec<String> = transcript.passages.iter().filter_map(|passage| passage.speaker.clone()).collect();
    speakers.sort_unstable();
    speakers.dedup();
    speakers
}

/// The sentences about a field, the best first.
fn ranked(transcript: &Transcript<'_>, words: &str, description: &str, most: usize) -> Vec<usize> {
    let text = if description.is_empty() { words.to_owned() } else { description.to_owned() };
    let mut questions = questions(&text, &transcript.reader);
    let kind = match wanted(words) {
        Wanted::Times => Kind::Time,
        Wanted::Numbers => Kind::Quantity,
        Wanted::Emails | Wanted::Phones => Kind::Identifier,
        _ => Kind::Other,
    };
    let Some(question) = questions.first_mut() else { return Vec::new() };
    let kind = if question.kind == Kind::Other { kind } else { question.kind };
    // The word for the kind of value is no part of the subject: "due date" is about what is due.
    let query = super::prompt::query(&transcript.reader.terms(&text), &transcript.reader, kind);
    let question = Question { kind, task: None::<Task>, query, text, is_closed: false };
    transcript.search(&question, most).into_iter().map(|(at, _)| at).collect()
}

/// The sentences about a field, in the transcript's order.
fn relevant(transcript: &Transcript<'_>, words: &str, description: &str, most: usize) -> Vec<usize> {
    sorted(ranked(transcript, words, description, most))
}

fn all(transcript: &Transcript<'_>) -> Vec<usize> {
    (0..transcript.passages.len()).collect()
}

fn sorted(mut found: Vec<usize>) -> Vec<usize> {
    found.sort_unstable();
    found.dedup();
    found
}

fn joined(transcript: &Transcript<'_>, found: &[usize]) -> String {
    found.iter().map(|&at| transcript.originals[at].text.as_str()).collect::<Vec<_>>().join(" ")
}
