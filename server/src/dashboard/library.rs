//! The library: the list of transcripts with its search, filters and orders, and what is done with many of them at once.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use askama::Template;
use auricle_engine::Word;
use auricle_engine::subtitles::{self, SubtitleOptions};
use bytes::Bytes;
use futures_util::{TryStreamExt as _, stream};
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use super::DashboardState;
use super::docx::{self, Parts};
use super::found::Found;
use super::frame::{Frame, Section, page, private};
use super::playground::UploadForm;
use super::shown::language;
use super::speakers::text_by_speaker;
use super::starters::StarterNotice;
use super::transcripts::{Row, row, status_name};
use super::words::EN;
use super::zip::ZipWriter;
use crate::api::rendering::Renderer;
use crate::api::tags::checked_tag;
use crate::api::transcript_search::MAX_QUERY_CHARS;
use crate::api::transcripts::name_speakers;
use crate::clock;
use crate::context::RequestContext;
use crate::http::body::{self, Fields};
use crate::http::response::{self, ApiError, Response, Result, streamed};
use crate::http::response_body::ResponseBroken;
use crate::ids::{AccountId, TranscriptId};
use crate::store::{
    Cursor, FoundSentence, ListQuery, ListedTranscript, SearchQuery, SearchTerms, Sort, SpeakerNames, Status, Store,
    TagChange, Transcript,
};

/// Transcripts of a page.
const PAGE: usize = 50;

/// Transcripts of a request that changes many. The page sends one request after another.
const BATCH: usize = 100;

/// The limits of a list.
#[derive(Clone, Debug, Default)]
struct Filter {
    search: String,
    status: Option<Status>,
    language: String,
    tag: String,
    sort: Sort,
}

/// A transcript of a list, with the sentence that a search found.
struct Entry {
    listed: ListedTranscript,
    sentence: Option<FoundSentence>,
}

/// A part of a list.
#[derive(Default)]
struct Part {
    entries: Vec<Entry>,
    /// The cursor of the next part.
    next: Option<String>,
}

impl Filter {
    /// The filter of parameters. What is no filter is left out.
    fn new(given: impl Fn(&str) -> Option<String>) -> Self {
        let given = |name: &str| given(name).unwrap_or_default().replace('\0', "");
        Self {
            search: given("q").trim().chars().take(MAX_QUERY_CHARS).collect(),
            status: Status::named(&given("status")),
            language: given("language"),
            tag: given("tag"),
            sort: Sort::named(&given("sort")).unwrap_or_default(),
        }
    }

    fn is_empty(&self) -> bool {
        self.search.is_empty() && self.status.is_none() && self.language.is_empty() && self.tag.is_empty()
    }

    /// The names and values of all that is not at its default.
    fn fields(&self) -> Vec<(&'static str, &str)> {
        let sort = if self.sort == Sort::default() { "" } else { self.sort.name() };
        let fields = [
            ("q", self.search.as_str()),
            ("status", self.status.map_or("", Status::name)),
            ("language", &self.language),
            ("tag", &self.tag),
            ("sort", sort),
        ];
        fields.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    /// The address of a page of the list.
    fn address(&self, path: &str, after: Option<&str>) -> String {
        let fields = self.fields().into_iter().chain(after.map(|after| ("after", after)));
        let fields = fields.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)));
        let query = fields.collect::<Vec<_>>().join("&");
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }

    /// Up to `limit` transcripts after the one of a cursor.
    async fn read(&self, store: &Store, account: &AccountId, after: &str, limit: usize) -> Result<Part> {
        let limit_and_more = limit as i64 + 1;
        let (status, language, tag) = (self.status, self.language.clone(), self.tag.clone());
        let mut cursors = Vec::new();
        let mut entries = Vec::new();
        if self.search.is_empty() {
            let after = Cursor::parse(after);
            let query = ListQuery {
                status,
                language,
                tag,
                sort: self.sort,
                after,
                limit: limit_and_more,
                ..ListQuery::default()
            };
            for listed in store.list_transcripts(account, &query).await? {
                cursors.push(listed.cursor().to_string());
                entries.push(Entry { listed, sentence: None });
            }
        } else {
            // Nothing has the words of a search that has none.
            let Some(terms) = SearchTerms::new(&self.search) else { return Ok(Part::default()) };
            let query = SearchQuery { terms, status, language, tag, after: after.parse().ok(), limit: limit_and_more };
            for found in store.search_transcripts(account, &query).await? {
                cursors.push(found.place.to_string());
                entries.push(Entry { listed: found.listed, sentence: found.sentence });
            }
        }
        let next = (entries.len() > limit).then(|| cursors.swap_remove(limit - 1));
        entries.truncate(limit);
        Ok(Part { entries, next })
    }
}

/// A heading that orders the list.
struct Heading {
    address: String,
    /// As `aria-sort` has it; empty where the list has another order.
    order: &'static str,
}

#[derive(Template)]
#[template(path = "transcripts.html")]
struct ListPage {
    frame: Frame,
    rows: Vec<Row>,
    search: String,
    status: &'static str,
    language: String,
    tag: String,
    sort: &'static str,
    statuses: Vec<(&'static str, &'static str)>,
    languages: Vec<(String, String)>,
    tags: Vec<(String, i64)>,
    by_title: Heading,
    by_length: Heading,
    by_created: Heading,
    /// The address of the first page, and of the next.
    newest: String,
    older: Option<String>,
    is_first: bool,
    /// The filter for the script, as JSON.
    filter: String,
    /// No transcript was ever created, so there is nothing to search.
    is_new: bool,
    starter: Option<StarterNotice>,
    form: UploadForm,
}

/// `GET /transcripts`
pub async fn list(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Transcripts, EN.transcripts).await?;
    let account = &request.account()?.id;
    let filter = Filter::new(|name| request.query(name));
    let after = request.query("after").unwrap_or_default();
    let Part { entries, next } = filter.read(&state.store, account, &after, PAGE).await?;
    let codes = state.store.transcript_languages(account).await?;
    let tags = state.store.account_tags(account).await?;
    let heading = |sorts: [(Sort, &'static str); 2]| {
        // A search has the newest first.
        let is_search = !filter.search.is_empty();
        let now = sorts.iter().find(|(sort, _)| *sort == filter.sort && !is_search);
        let next = if now.is_some_and(|(sort, _)| *sort == sorts[0].0) { sorts[1].0 } else { sorts[0].0 };
        let target = Filter { sort: next, search: String::new(), ..filter.clone() };
        Heading { address: target.address("/transcripts", None), order: now.map_or("", |(_, order)| order) }
    };
    let rows: Vec<Row> =
        entries.into_iter().map(|entry| Row { found: entry.sentence.map(Found::new), ..row(entry.listed) }).collect();
    let is_first = Cursor::parse(&after).is_none() && after.parse::<i64>().is_err();
    let form = UploadForm::new(&state, account).await?;
    page(&ListPage {
        form,
        starter: StarterNotice::new(&state, &frame, rows.iter().map(|row| row.model.as_str())),
        frame,
        is_new: rows.is_empty() && is_first && filter.is_empty(),
        rows,
        by_title: heading([(Sort::Title, "ascending"), (Sort::Newest, "")]),
        by_length: heading([(Sort::Longest, "descending"), (Sort::Shortest, "ascending")]),
        by_created: heading([(Sort::Newest, "descending"), (Sort::Oldest, "ascending")]),
        newest: filter.address("/transcripts", None),
        older: next.map(|next| filter.address("/transcripts", Some(&next))),
        filter: json!(filter.fields().into_iter().filter(|(name, _)| *name != "sort").collect::<HashMap<_, _>>())
            .to_string(),
        status: filter.status.map_or("", Status::name),
        sort: if filter.sort == Sort::default() { "" } else { filter.sort.name() },
        search: filter.search,
        language: filter.language,
        tag: filter.tag,
        statuses: Status::ALL.into_iter().map(|status| (status.name(), status_name(status))).collect(),
        languages: codes.into_iter().map(|code| (code.clone(), language(&code))).collect(),
        tags,
        is_first,
    })
}

/// `POST /data/transcripts/change`: deletes transcripts, or adds or removes a tag. `ids` names them, else the filter of a list does: then a
/// request changes the first ones after `after`, and its answer has the `after` of the next request.
pub async fn change(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let headers = request.headers().clone();
    let bytes = body::read(request.into_request(), body::MAX_JSON_BYTES).await?;
    let mut fields = Fields::parse(&headers, &bytes)?;
    let action = fields.required_string("action", 1..=20)?;
    let tag = match action.as_str() {
        "delete" => String::new(),
        "add_tag" | "remove_tag" => checked_tag(&fields.required_string("tag", 1..=200)?)?,
        _ => return Err(ApiError::validation("`action` must be delete, add_tag or remove_tag.")),
    };
    let (ids, next) = match fields.strings("ids", BATCH, 100)? {
        Some(ids) => (ids.into_iter().filter(|id| !id.contains('\0')).map(TranscriptId::from).collect(), None),
        None => {
            let mut filter = Fields::of("filter", fields.take("filter").unwrap_or_else(|| json!({})))?;
            let mut given = HashMap::new();
            for name in ["q", "status", "language", "tag"] {
                given.insert(name, filter.string(name)?);
            }
            // In the order of creation a change moves no transcript.
            let filter = Filter { sort: Sort::Newest, ..Filter::new(|name| given.get(name).cloned().flatten()) };
            let after = fields.string("after")?.unwrap_or_default();
            let part = filter.read(&state.store, &account, &after, BATCH).await?;
            (part.entries.into_iter().map(|entry| entry.listed.id).collect::<Vec<_>>(), part.next)
        }
    };
    let mut changed = 0;
    match action.as_str() {
        "delete" => {
            for id in &ids {
                changed += u64::from(state.store.delete_transcript(&account, id).await?);
            }
            state.notifiers.deletions.notify_one();
        }
        "add_tag" => changed = state.store.change_tag(&account, &ids, TagChange::Add, &tag).await?,
        _ => changed = state.store.change_tag(&account, &ids, TagChange::Remove, &tag).await?,
    }
    Ok(private(response::json(&json!({ "changed": changed, "after": next }))))
}

/// A format of exported transcripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Txt,
    Srt,
    Vtt,
    Docx,
}

impl Format {
    const ALL: [(&'static str, Self); 4] =
        [("txt", Self::Txt), ("srt", Self::Srt), ("vtt", Self::Vtt), ("docx", Self::Docx)];

    fn bytes(self, transcript: &Transcript, mut words: Vec<Word>, names: &SpeakerNames) -> io::Result<Vec<u8>> {
        name_speakers(&mut words, names);
        let options = SubtitleOptions {
            audio_ms: transcript.duration_ms.and_then(|ms| u64::try_from(ms).ok()),
            ..SubtitleOptions::default()
        };
        Ok(match self {
            Self::Txt => {
                let text = transcript.text.as_deref().unwrap_or_default();
                text_by_speaker(text, transcript.utterances.as_deref(), names)?.into()
            }
            Self::Srt => subtitles::srt(&words, &options).into(),
            Self::Vtt => subtitles::vtt(&words, &options).into(),
            Self::Docx => docx::document(transcript, &words, names, Parts { times: true })?,
        })
    }
}

/// The name of a file of the archive: the title, and the id, which no other has.
fn entry_name(title: &str, id: &str, format: &str) -> String {
    let plain = |character: char| !character.is_control() && !"/\\:*?\"<>|".contains(character);
    let title: String = title.chars().map(|one| if plain(one) { one } else { '_' }).take(80).collect();
    let title = title.trim_matches(|one: char| one == '.' || one.is_whitespace());
    if title.is_empty() { format!("{id}.{format}") } else { format!("{title} {id}.{format}") }
}

/// An export that goes on as the client reads: one transcript in memory, and a line for each in the archive's directory.
struct Export {
    store: Store,
    renderer: Arc<Renderer>,
    account: AccountId,
    filter: Filter,
    format: (&'static str, Format),
    /// The transcripts of the part, and the cursor of the next one.
    part: std::vec::IntoIter<TranscriptId>,
    next: Option<String>,
    /// None once the archive is whole.
    zip: Option<ZipWriter>,
}

impl Export {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(id) = self.part.next() {
                if let Some(entry) = self.entry(&id).await? {
                    return Ok(Some(entry));
                }
                continue;
            }
            let Some(after) = self.next.take() else { break };
            let part = self.filter.read(&self.store, &self.account, &after, BATCH).await?;
            self.part = part.entries.into_iter().map(|entry| entry.listed.id).collect::<Vec<_>>().into_iter();
            self.next = part.next;
        }
        Ok(self.zip.take().map(|zip| zip.end().into()))
    }

    /// None for a transcript without text, and for one that is gone.
    async fn entry(&mut self, id: &TranscriptId) -> Result<Option<Bytes>> {
        let Some(transcript) = self.store.transcript(&self.account, id).await? else { return Ok(None) };
        if transcript.status != Status::Completed || transcript.text.as_deref().is_none_or(str::is_empty) {
            return Ok(None);
        }
        let Some(mut zip) = self.zip.take() else { return Ok(None) };
        let names = self.store.speaker_names(id).await?;
        let permit = self.renderer.permit().await?;
        let words = match self.format.1 {
            Format::Txt => None,
            _ => self.store.words(&transcript).await?,
        };
        let (extension, format) = self.format;
        let work = move || {
            let words: Vec<Word> = words.map(|words| serde_json::from_str(&words)).transpose()?.unwrap_or_default();
            let name = entry_name(transcript.title.as_deref().unwrap_or_default(), transcript.id.as_str(), extension);
            let bytes = format.bytes(&transcript, words, &names).map_err(serde_json::Error::io)?;
            let entry = zip.entry(&name, &bytes).map_err(serde_json::Error::io)?;
            Ok((zip, entry))
        };
        let (zip, entry) = self.renderer.run(permit, work).await?;
        self.zip = Some(zip);
        Ok(Some(entry.into()))
    }
}

/// `GET /transcripts/export?format=F`: an archive of the transcripts that `ids` names, else of all that match the filter.
pub async fn export(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let account = request.account()?.id.clone();
    let format = request.query("format").unwrap_or_else(|| "txt".into());
    let Some(format) = Format::ALL.into_iter().find(|(name, _)| *name == format) else {
        return Err(ApiError::not_found("There is no such format."));
    };
    let ids = request.query("ids").map(|ids| ids.replace('\0', ""));
    let part: Vec<TranscriptId> =
        ids.iter().flat_map(|ids| ids.split(',')).map(|id| TranscriptId::from(id.to_owned())).collect();
    let export = Export {
        store: state.store.clone(),
        renderer: state.transcripts.renderer.clone(),
        account,
        filter: Filter::new(|name| request.query(name)),
        format,
        next: ids.is_none().then(String::new),
        part: part.into_iter(),
        zip: Some(ZipWriter::default()),
    };
    let parts = stream::try_unfold(export, |mut export| async move {
        Ok::<_, ApiError>(export.next().await?.map(|bytes| (bytes, export)))
    });
    let parts = parts.map_err(|error| {
        tracing::error!(error = error.message, "an export broke off");
        ResponseBroken
    });
    let mut response = streamed("application/zip", parts);
    let day = clock::iso(clock::now_ms()).chars().take(10).collect::<String>();
    let name = format!("attachment; filename=\"transcripts-{day}.zip\"");
    if let Ok(name) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(CONTENT_DISPOSITION, name);
    }
    Ok(private(response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_leads_out_of_no_folder() {
        for (title, name) in [
            ("../../etc/passwd", "_.._etc_passwd tr_1.txt"),
            ("C:\\a\u{0}b", "C__a_b tr_1.txt"),
            ("…", "… tr_1.txt"),
            ("..", "tr_1.txt"),
            ("", "tr_1.txt"),
        ] {
            assert_eq!(entry_name(title, "tr_1", "txt"), name, "{title:?}");
        }
    }

    #[test]
    fn an_address_has_what_is_not_at_its_default() {
        let fields = [("q", " a&b "), ("status", "error"), ("sort", "created"), ("tag", "\0x")];
        let filter =
            Filter::new(|name| fields.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()));
        assert_eq!(filter.address("/t", Some("5.x")), "/t?q=a%26b&status=error&tag=x&after=5%2Ex");
        assert_eq!(Filter::default().address("/t", None), "/t");
    }
}
