//! Edits of a transcript: a title, corrected words, other speakers. An edit names the version that it changes.

use std::ops::Range;
use std::sync::Arc;

use auricle_engine::{Transcript as Recognized, Utterance, Word};
use hyper::StatusCode;
use serde::Serialize;
use serde_json::Value;

use super::TranscriptsState;
use super::create::MAX_TITLE_CHARS;
use super::transcripts::{completed_transcript, find, unknown};
use crate::context::RequestContext;
use crate::http::body::{self, Fields};
use crate::http::response::{self, ApiError, Response, Result};
use crate::ids::TranscriptId;
use crate::store::{EditedText, NewTitle, Saved};
use crate::visible;

/// The most edits of a request.
const MAX_EDITS: usize = 200;

/// The longest text of an edit, and its longest word, in characters.
const MAX_TEXT_CHARS: usize = 20_000;
const MAX_WORD_CHARS: usize = 200;

/// The most words that an edit may give with their times.
const MAX_WORDS: usize = 5_000;

/// The longest label of a speaker, in characters.
const MAX_LABEL_CHARS: usize = 20;

/// The size limit of an edited transcript's words, in bytes of JSON: those of some forty hours.
const MAX_WORDS_BYTES: usize = 48 << 20;

/// One change of words. Places are those after the changes before it.
enum Edit {
    /// Other words in the place of some. They share the time of those.
    Text(Range<usize>, Vec<String>),
    /// Words with their times in the place of some.
    Words(Range<usize>, Vec<Word>),
    /// Another speaker of words.
    Turn(Range<usize>, String),
    /// Another speaker of all words of a speaker.
    Speaker(String, String),
}

/// The words that stand in the place of others.
#[derive(Debug, Serialize)]
struct Change {
    from: usize,
    to: usize,
    words: Vec<Word>,
}

#[derive(Serialize)]
struct Edited<'a> {
    id: &'a str,
    version: i64,
    title: Option<&'a str>,
    changes: Vec<Change>,
}

/// `PATCH /v2/transcripts/{transcript_id}`
pub async fn patch(state: Arc<TranscriptsState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let id = TranscriptId::from(request.param("transcript_id"));
    let before = find(&state, &request).await?;
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), body::MAX_JSON_BYTES).await?;
    let mut fields = Fields::parse(&headers, &bytes)?;
    let has_title = fields.has("title");
    let title = fields.string_of("title", 0..=MAX_TITLE_CHARS)?.filter(|title| !title.trim().is_empty());
    if let Some(title) = &title {
        visible::check(title).map_err(|reason| ApiError::validation(format!("`title` {reason}.")))?;
    }
    let edits = fields.values("edits", MAX_EDITS)?.unwrap_or_default();
    let edits: Vec<Edit> =
        edits.into_iter().enumerate().map(|(at, edit)| named(at, parse(edit))).collect::<Result<_>>()?;
    let version = fields.integer("version", 0..=i64::MAX)?;
    let version =
        version.ok_or_else(|| ApiError::invalid("`version` is missing: the version that the edit changes."))?;
    fields.check_all_known()?;
    if edits.is_empty() && !has_title {
        return Err(ApiError::invalid("There is no edit: send `title` or `edits`."));
    }
    // Places in other words mean nothing.
    if before.version != version {
        return Err(conflict(version, before.version));
    }
    let (text, changes) = if edits.is_empty() {
        (None, Vec::new())
    } else {
        let transcript = completed_transcript(&state.store, &account, id.to_string()).await?;
        let permit = state.renderer.permit().await?;
        let stored = state.store.words(&transcript).await?.ok_or_else(unknown)?;
        let has_speakers = transcript.utterances.is_some();
        let work = move || {
            let words: Vec<Word> = serde_json::from_str(&stored)?;
            Ok(match apply(words, edits, has_speakers) {
                Ok((words, changes)) => Ok((written(&words, has_speakers)?, changes)),
                Err(refused) => Err(refused),
            })
        };
        let (text, changes) = state.renderer.run(permit, work).await??;
        if text.words.len() > MAX_WORDS_BYTES {
            let message = "The transcript would be too long: leave words out, or make it two transcripts.";
            return Err(ApiError::validation(message));
        }
        (Some(text), changes)
    };
    let new_title = has_title.then_some(NewTitle(title));
    match state.store.save_edit(&account, &id, version, new_title.as_ref(), text.as_ref()).await? {
        Saved::Gone => Err(unknown()),
        Saved::Conflict(now) => Err(conflict(version, now)),
        Saved::Version(version) => {
            let title = new_title.as_ref().map_or(before.title.as_deref(), |title| title.0.as_deref());
            Ok(response::json(&Edited { id: id.as_str(), version, title, changes }))
        }
    }
}

fn conflict(edited: i64, now: i64) -> ApiError {
    let message = format!(
        "The transcript was edited meanwhile: it has version {now}, and this edit changes version {edited}. Get it again, and edit that."
    );
    ApiError::new(StatusCode::CONFLICT, "edit_conflict", message)
}

/// An error with the place of its edit.
fn named<T>(at: usize, result: Result<T>) -> Result<T> {
    result.map_err(|mut error| {
        error.message = format!("`edits[{at}]`: {}", error.message);
        error
    })
}

fn parse(edit: Value) -> Result<Edit> {
    let mut fields = Fields::of("It", edit)?;
    let mut place = |name: &str| fields.integer(name, 0..=i64::from(u32::MAX));
    let range = match (place("from")?.map(|from| from as usize), place("to")?.map(|to| to as usize)) {
        (Some(from), Some(to)) => Some(from..to),
        (None, None) => None,
        _ => return Err(ApiError::invalid("`from` and `to` belong together.")),
    };
    let of = fields.string_of("of", 1..=MAX_LABEL_CHARS)?;
    let text = fields.string_of("text", 0..=MAX_TEXT_CHARS)?;
    let words = fields.values("words", MAX_WORDS)?;
    let speaker = fields.string_of("speaker", 1..=MAX_LABEL_CHARS)?;
    fields.check_all_known()?;
    match (range, of, text, words, speaker) {
        (Some(range), None, Some(text), None, None) => Ok(Edit::Text(range, split(&text)?)),
        (Some(range), None, None, Some(words), None) => {
            Ok(Edit::Words(range, words.into_iter().map(word).collect::<Result<_>>()?))
        }
        (Some(range), None, None, None, Some(speaker)) => Ok(Edit::Turn(range, speaker)),
        (None, Some(of), None, None, Some(speaker)) => Ok(Edit::Speaker(of, speaker)),
        _ => Err(ApiError::invalid(
            "An edit has `from` and `to` with one of `text`, `words` and `speaker`, or it has `of` and `speaker`.",
        )),
    }
}

fn split(text: &str) -> Result<Vec<String>> {
    text.split_whitespace().map(|word| check_word(word).map(|()| word.to_owned())).collect()
}

fn check_word(word: &str) -> Result<()> {
    visible::check(word).map_err(|reason| ApiError::validation(format!("A word {reason}.")))?;
    match word.chars().count() {
        0 => Err(ApiError::validation("A word must have a character.")),
        1..=MAX_WORD_CHARS => Ok(()),
        count => {
            let message =
                format!("A word has {count} characters; it may have {MAX_WORD_CHARS}. Put spaces between words.");
            Err(ApiError::validation(message))
        }
    }
}

fn word(value: Value) -> Result<Word> {
    let word: Word = serde_json::from_value(value)
        .map_err(|error| ApiError::validation(format!("`words` has an entry that is no word: {error}.")))?;
    check_word(&word.text)?;
    if word.text.contains(char::is_whitespace) {
        return Err(ApiError::validation(format!("A word must not have a space: {:?}.", word.text)));
    }
    if word.start > word.end || !(0.0..=1.0).contains(&word.confidence) {
        let message = "A word's `start` must not be after its `end`, and its `confidence` must be 0 to 1.";
        return Err(ApiError::validation(message));
    }
    if let Some(name) = &word.speaker_name {
        check_word(name)?;
    }
    Ok(word)
}

/// Applies edits, one after another.
fn apply(mut words: Vec<Word>, edits: Vec<Edit>, has_speakers: bool) -> Result<(Vec<Word>, Vec<Change>)> {
    let mut changes = Vec::new();
    for (at, edit) in edits.into_iter().enumerate() {
        changes.extend(named(at, apply_one(&mut words, edit, has_speakers))?);
    }
    if words.is_empty() {
        return Err(ApiError::validation("An edit must leave a word; delete the transcript instead."));
    }
    Ok((words, changes))
}

fn apply_one(words: &mut Vec<Word>, edit: Edit, has_speakers: bool) -> Result<Option<Change>> {
    let check = |range: &Range<usize>| match range.start <= range.end && range.end <= words.len() {
        true => Ok(()),
        false => {
            let message = format!("{} to {} is no part of its {} words.", range.start, range.end, words.len());
            Err(ApiError::validation(message))
        }
    };
    let (range, new) = match edit {
        Edit::Text(range, texts) => {
            check(&range)?;
            let Some(old) = words.get(range.clone()).filter(|old| !old.is_empty()) else {
                let message = "`text` takes the time of the words that it replaces, so `from` must be less than `to`.";
                return Err(ApiError::validation(message));
            };
            let new = timed(old, texts);
            (range, new)
        }
        Edit::Words(range, mut new) => {
            check(&range)?;
            check_order(words, &range, &new)?;
            for word in &mut new {
                word.speaker = word.speaker.take().filter(|_| has_speakers);
                if has_speakers {
                    check_label(words, word.speaker.as_deref().unwrap_or_default())?;
                }
            }
            (range, new)
        }
        Edit::Turn(range, speaker) => {
            check(&range)?;
            give(words, range, &speaker, has_speakers, |_| true)?;
            return Ok(None);
        }
        Edit::Speaker(of, speaker) => {
            if !words.iter().any(|word| word.speaker.as_ref() == Some(&of)) {
                return Err(ApiError::validation(format!("`of` must be a speaker of the transcript, not {of:?}.")));
            }
            let all = 0..words.len();
            give(words, all, &speaker, has_speakers, |word| word.speaker.as_ref() == Some(&of))?;
            return Ok(None);
        }
    };
    let change = Change { from: range.start, to: range.start + new.len(), words: new.clone() };
    words.splice(range, new);
    Ok(Some(change))
}

/// Words of these texts in the place of others, which are not none. As many words keep the times; others share the time by their length.
fn timed(old: &[Word], texts: Vec<String>) -> Vec<Word> {
    let start = old.iter().map(|word| word.start).min().unwrap_or(0);
    let end = old.iter().map(|word| word.end).max().unwrap_or(start);
    let weights: Vec<u64> = texts.iter().map(|text| text.chars().count() as u64 + 1).collect();
    let all: u64 = weights.iter().sum::<u64>().max(1);
    let same_count = old.len() == texts.len();
    let mut before = 0;
    let place = |weight: u64| start + (end - start) * weight / all;
    let mut new = Vec::with_capacity(texts.len());
    for (at, (text, weight)) in texts.into_iter().zip(weights).enumerate() {
        let (from, to) = (place(before), place(before + weight));
        before += weight;
        let beside = if same_count { old.get(at) } else { old.iter().rfind(|word| word.start <= from).or(old.first()) };
        let Some(beside) = beside else { continue };
        // A word that a person has written is sure.
        let confidence = if old.get(at).is_some_and(|word| word.text == text) { beside.confidence } else { 1.0 };
        let (start, end) = if same_count { (beside.start, beside.end) } else { (from, to) };
        new.push(Word { text, start, end, confidence, ..beside.clone() });
    }
    new
}

/// Checks that words are in order of time, among themselves and with those around them. Channels overlap.
fn check_order(words: &[Word], range: &Range<usize>, new: &[Word]) -> Result<()> {
    let before = range.start.checked_sub(1).and_then(|before| words.get(before));
    let around = before.into_iter().chain(new).chain(words.get(range.end));
    let around: Vec<&Word> = around.collect();
    if around.iter().any(|word| word.channel.is_some()) || around.iter().map(|word| word.start).is_sorted() {
        return Ok(());
    }
    Err(ApiError::validation("`words` must be in order of `start`, with the words before and after them."))
}

/// Checks the label of a speaker: one of the transcript, or one or two letters.
fn check_label(words: &[Word], label: &str) -> Result<()> {
    let is_new = (1..=2).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_uppercase());
    if is_new || words.iter().any(|word| word.speaker.as_deref() == Some(label)) {
        return Ok(());
    }
    let message = format!("`speaker` must be a speaker of the transcript, or A to ZZ; it is {label:?}.");
    Err(ApiError::validation(message))
}

/// Gives words of a range to a speaker.
fn give(
    words: &mut [Word],
    range: Range<usize>,
    label: &str,
    has_speakers: bool,
    chosen: impl Fn(&Word) -> bool,
) -> Result<()> {
    if !has_speakers {
        return Err(ApiError::validation("The transcript has no speakers; create it with `speaker_labels`."));
    }
    check_label(words, label)?;
    let own = words.iter().filter(|word| word.speaker.as_deref() == Some(label));
    let name = own.filter_map(|word| word.speaker_name.clone()).next();
    for word in words.get_mut(range).unwrap_or_default().iter_mut().filter(|word| chosen(word)) {
        if word.speaker.as_deref() != Some(label) {
            word.speaker = Some(label.to_owned());
            word.speaker_name.clone_from(&name);
        }
    }
    Ok(())
}

/// Words as they are stored, with the text and the utterances that they make.
fn written(words: &[Word], has_speakers: bool) -> serde_json::Result<EditedText> {
    let utterances = has_speakers.then(|| serde_json::to_string(&Utterance::of_words(words))).transpose()?;
    Ok(EditedText { text: Recognized::text_of(words), words: serde_json::to_string(words)?, utterances })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Word> {
        let word = |(at, text): (usize, &str)| {
            let start = at as u64 * 1000;
            let word = serde_json::json!({ "text": text, "start": start, "end": start + 900, "confidence": 0.5 });
            serde_json::from_value(word).unwrap()
        };
        text.split(' ').enumerate().map(word).collect()
    }

    fn edited(text: &str, edit: Value) -> Result<Vec<Word>> {
        Ok(apply(words(text), vec![parse(edit)?], false)?.0)
    }

    fn shown(words: &[Word]) -> String {
        let shown = words.iter().map(|word| format!("{}@{}-{}", word.text, word.start, word.end));
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn times_stay_with_as_many_words_and_are_shared_by_others() {
        let edit = |from: usize, to: usize, text: &str| serde_json::json!({ "from": from, "to": to, "text": text });
        let same = edited("the gray hous", edit(1, 3, "grey house")).unwrap();
        assert_eq!(shown(&same), "the@0-900 grey@1000-1900 house@2000-2900");
        assert_eq!(same.iter().map(|word| word.confidence).collect::<Vec<_>>(), [0.5, 1.0, 1.0]);
        let more = edited("the gray house", edit(1, 2, "big grey")).unwrap();
        assert_eq!(shown(&more), "the@0-900 big@1000-1400 grey@1400-1900 house@2000-2900");
        let fewer = edited("in to it", edit(0, 2, "into")).unwrap();
        assert_eq!(shown(&fewer), "into@0-1900 it@2000-2900");
        assert_eq!(shown(&edited("no no yes", edit(0, 1, " ")).unwrap()), "no@1000-1900 yes@2000-2900");
        for (from, to, text) in [(0, 0, "a"), (2, 1, "a"), (0, 4, "a"), (0, 3, "")] {
            edited("a b c", edit(from, to, text)).unwrap_err();
        }
    }

    #[test]
    fn words_with_times_undo_an_edit() {
        let before = words("one two three");
        let (after, changes) =
            apply(before.clone(), vec![parse(serde_json::json!({ "from": 1, "to": 2, "text": "" })).unwrap()], false)
                .unwrap();
        assert_eq!((after.len(), changes[0].from, changes[0].to), (2, 1, 1));
        let back = serde_json::json!({ "from": 1, "to": 1, "words": [before[1]] });
        assert_eq!(apply(after.clone(), vec![parse(back).unwrap()], false).unwrap().0, before);
        let wrong_place = serde_json::json!({ "from": 0, "to": 0, "words": [before[1]] });
        apply(after, vec![parse(wrong_place).unwrap()], false).unwrap_err();
    }
}
