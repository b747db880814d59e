//! A recording: its audio goes into the object store as it arrives, and becomes an ordinary job at its end.

use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;

use auricle_engine::SAMPLE_RATES;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::Wyoming;
use super::event::Event;
use crate::api::form::{self, Form, FormFile};
use crate::api::one_request;
use crate::api::openai::transcriptions::hints_among;
use crate::api::uploads::new_upload;
use crate::compat::options;
use crate::http::response::{ApiError, Result};
use crate::sound_format::wav_header;
use crate::store::Transcript;

/// The name of a recording in the list of transcripts.
const TITLE: &str = "wyoming.wav";

/// Chunks that wait for the object store.
const WAITING_CHUNKS: usize = 4;

/// The data of `transcribe`. The client ends a recording, so `vad_sensitivity` has no meaning here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Transcribe {
    name: Option<String>,
    language: Option<String>,
    transcript_names: Option<Vec<String>>,
    transcript_terms: Option<Vec<String>>,
}

impl Transcribe {
    /// The options of a transcript.
    fn options(&self) -> Map<String, Value> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let mut options = options(given(&self.language).as_deref(), None, false);
        if let Some(model) = given(&self.name) {
            options.insert("model".into(), model.into());
        }
        let terms = [&self.transcript_names, &self.transcript_terms].into_iter().flatten().flatten();
        let hints = hints_among(terms.map(String::as_str));
        if !hints.is_empty() {
            options.insert("keyterms_prompt".into(), hints.into());
        }
        options
    }
}

/// The form of audio, in the data of `audio-start` and `audio-chunk`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
struct Format {
    rate: u32,
    /// Bytes of a sample.
    width: u32,
    channels: u32,
}

impl Format {
    fn of(event: Event) -> Result<Self> {
        let format: Self = event.parse()?;
        let Self { rate, width, channels } = format;
        if (width, channels) != (2, 1) || !SAMPLE_RATES.contains(&rate) {
            return Err(ApiError::unsupported_option(format!(
                "Audio has one channel, 2 bytes for each sample, and {} to {} samples in a second; this has {channels}, {width} and {rate}.",
                SAMPLE_RATES.start(),
                SAMPLE_RATES.end()
            )));
        }
        Ok(format)
    }
}

/// A recording under way.
pub struct Recording {
    format: Format,
    began: Instant,
    bytes: u64,
    chunks: mpsc::Sender<Bytes>,
    /// Aborted with this value, which deletes what was stored.
    stored: AbortOnDropHandle<Result<FormFile>>,
}

impl Recording {
    /// Begins with an `audio-start` or an `audio-chunk`.
    ///
    /// # Errors
    /// For audio of another form.
    pub fn begin(state: &Arc<Wyoming>, event: Event) -> Result<Self> {
        let format = Format::of(event)?;
        let (chunks, mut received) = mpsc::channel(WAITING_CHUNKS);
        let header = wav_header(format.rate, None);
        let state = state.clone();
        let store = async move {
            let bytes = stream::poll_fn(move |context| received.poll_recv(context)).map(Ok::<_, Infallible>);
            let (uploads, account) = (&state.transcripts.uploads, state.account.clone());
            let upload = new_upload(uploads, account, TITLE.into(), "audio/wav".into(), None).await?;
            form::store(uploads, upload, Some(header), bytes).await
        };
        let stored = AbortOnDropHandle::new(tokio::spawn(store));
        Ok(Self { format, began: Instant::now(), bytes: 0, chunks, stored })
    }

    /// Adds the audio of an `audio-chunk`.
    ///
    /// # Errors
    /// For audio of another form, for too much of it, and if it cannot be stored.
    pub async fn push(&mut self, state: &Wyoming, mut event: Event) -> Result<()> {
        let audio = std::mem::take(&mut event.payload);
        if Format::of(event)? != self.format {
            return Err(ApiError::invalid(
                "The form of the audio changes within a recording; send `audio-stop` first.",
            ));
        }
        self.bytes += audio.len() as u64;
        let longest_s = state.longest.as_secs();
        if self.bytes > longest_s * 2 * u64::from(self.format.rate) || self.began.elapsed() > state.longest {
            let message = format!("A recording lasts {longest_s} s at most; end it with `audio-stop`.");
            return Err(ApiError::new(hyper::StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message));
        }
        if self.chunks.send(audio).await.is_err() {
            // The store takes no more: its error says why.
            return poll_fn(|context| std::pin::Pin::new(&mut self.stored).poll(context))
                .await
                .map_err(|panic| ApiError::internal(&panic))?
                .map(drop);
        }
        Ok(())
    }

    /// Ends the recording, and waits for its transcript. Silence of no length has no words, and costs nothing.
    ///
    /// # Errors
    /// Those of a request to create a transcript, and for audio that cannot be transcribed.
    pub async fn finish(self, state: &Wyoming, wanted: &Transcribe) -> Result<Event> {
        if self.bytes == 0 {
            return Ok(Event::new("transcript", json!({ "text": "" })));
        }
        drop(self.chunks);
        let file = self.stored.await.map_err(|panic| ApiError::internal(&panic))??;
        let form = Form { file: Some(file), fields: Vec::new() };
        let transcript = one_request::transcribe(&state.transcripts, &state.account, form, wanted.options()).await?;
        let Transcript { text, language_code, .. } = &*transcript;
        let mut data = json!({ "text": text.as_deref().unwrap_or_default() });
        if let Some(language) = language_code {
            data["language"] = language.as_str().into();
        }
        Ok(Event::new("transcript", data))
    }
}
