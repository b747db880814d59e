//! The speakers of a transcript: the names that people give them on its page, and its text by speaker. The API has labels alone.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use auricle_engine::{Word, segments};
use serde::Deserialize;
use serde_json::json;

use super::DashboardState;
use super::frame::private;
use super::shown::duration;
use crate::api::transcripts::completed_transcript;
use crate::context::RequestContext;
use crate::http::body::{self, Fields};
use crate::http::response::{self, ApiError, Response, Result};
use crate::store::SpeakerNames;
use crate::visible;

/// The longest label that is looked for, in characters.
const MAX_LABEL_CHARS: usize = 20;

/// The longest name, in characters.
const MAX_NAME_CHARS: usize = 100;

#[derive(Deserialize)]
struct Utterance<'a> {
    #[serde(borrow)]
    speaker: Cow<'a, str>,
    #[serde(borrow, default)]
    speaker_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    text: Cow<'a, str>,
}

/// The text of a transcript: a line for each utterance where there are speakers.
///
/// # Errors
/// For utterances that are not JSON.
pub fn text_by_speaker(text: &str, utterances: Option<&str>, names: &SpeakerNames) -> serde_json::Result<String> {
    let utterances: Vec<Utterance> = utterances.map(serde_json::from_str).transpose()?.unwrap_or_default();
    if utterances.is_empty() {
        return Ok(format!("{text}\n"));
    }
    let line = |one: &Utterance| {
        let known = one.speaker_name.as_ref().unwrap_or(&one.speaker);
        let name = names.get(&*one.speaker).map_or(&**known, String::as_str);
        format!("{name}: {}\n", one.text)
    };
    Ok(utterances.iter().map(line).collect())
}

/// The text of words: a line for each paragraph, with its time, and its speaker where there are speakers.
pub fn text_with_times(words: &[Word], names: &SpeakerNames) -> String {
    let line = |said: segments::Segment<'_>| {
        let known = said.words.first().and_then(Word::shown_speaker).unwrap_or_default();
        let name = said.speaker.map(|label| format!("{}: ", names.get(label).map_or(known, String::as_str)));
        let time = duration(i64::try_from(said.start).unwrap_or(0));
        format!("[{time}] {}{}\n", name.unwrap_or_default(), said.text)
    };
    segments::paragraphs(words).into_iter().map(line).collect()
}

/// A name on one line.
fn one_line(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `POST /data/transcripts/{transcript_id}/speakers`: names a speaker. With an empty name the speaker has the label again.
pub async fn name(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let id = request.param("transcript_id");
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), body::MAX_JSON_BYTES).await?;
    let mut fields = Fields::parse(&headers, &bytes)?;
    let label = fields.required_string("speaker", 1..=MAX_LABEL_CHARS)?;
    let name = one_line(&fields.required_string("name", 0..=MAX_NAME_CHARS)?);
    visible::check(&name).map_err(|reason| ApiError::validation(format!("`name` {reason}.")))?;
    let transcript = completed_transcript(&state.store, &account, id).await?;
    let permit = state.transcripts.renderer.permit().await?;
    let spoken = transcript.clone();
    let labels = move || {
        let utterances: Vec<Utterance> = serde_json::from_str(spoken.utterances.as_deref().unwrap_or("[]"))?;
        Ok(utterances.into_iter().map(|one| one.speaker.into_owned()).collect::<BTreeSet<String>>())
    };
    let labels = state.transcripts.renderer.run(permit, labels).await?;
    if !labels.contains(&label) {
        let known: Vec<String> = labels.into_iter().collect();
        let known = if known.is_empty() { "no speakers".to_owned() } else { known.join(", ") };
        return Err(ApiError::validation(format!("`speaker` must be one of the transcript, which has {known}.")));
    }
    state.store.name_speaker(&account, &transcript.id, &label, &name).await?;
    Ok(private(response::json(&json!({ "speaker": label, "name": name }))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_line_for_each_utterance() {
        let utterances =
            r#"[{"speaker":"A","speaker_name":"X","text":"Say \"hi\".","start":1},{"speaker":"B","text":"Hi."}]"#;
        let names = SpeakerNames::from([("A".to_owned(), "Ada".to_owned())]);
        let text = text_by_speaker("Say \"hi\". Hi.", Some(utterances), &names).unwrap();
        assert_eq!(text, "Ada: Say \"hi\".\nB: Hi.\n", "who reads the page knows better");
        let text = text_by_speaker("Say \"hi\". Hi.", Some(utterances), &SpeakerNames::new()).unwrap();
        assert_eq!(text, "X: Say \"hi\".\nB: Hi.\n");
        for none in [None, Some("[]")] {
            assert_eq!(text_by_speaker("Hi.", none, &names).unwrap(), "Hi.\n");
        }
        assert!(text_by_speaker("Hi.", Some("[{"), &names).is_err());
    }

    #[test]
    fn a_name_is_one_line() {
        assert_eq!(one_line("  Ada\r\n\tKing of  Lovelace\u{85}"), "Ada King of Lovelace");
        assert_eq!(one_line(" \n "), "");
    }
}
