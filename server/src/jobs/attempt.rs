//! An attempt at a job: its audio, its transcript, its end.

use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use auricle_engine::analysis::{Label, Passes, Tagger};
use auricle_engine::audio::{AudioStream, Cover, OpenOptions, write_redacted};
use auricle_engine::{Error, KnownSpeaker, Progress, SpeakerLabels, TranscribeOptions, Transcript, Word, segments};
use futures_util::TryStreamExt as _;
use http_body_util::StreamBody;
use hyper::body::Frame;
use tempfile::NamedTempFile;
use tokio_util::io::ReaderStream;
use tokio_util::sync::CancellationToken;

use super::JobRunner;
use super::passes::{cover, kept, passes};
use super::peaks::Peaks;
use super::queue::Start;
use crate::backoff::jittered_ms;
use crate::billing::{Price, ProductKind, way_out};
use crate::ids::AccountId;
use crate::languages::primary_subtag;
use crate::storage::LocalFile;
use crate::store::{AttemptCount, CompletedTranscript, Job, JobOptions, Outcome, redacted_audio_key};

/// Delay before the second attempt. It doubles with each attempt.
const RETRY_MS: i64 = 5_000;

/// Delay after a fault of the service itself.
const OWN_FAULT_RETRY_S: u32 = 10;

/// The longest delay between attempts to record the end of a job.
const MAX_FINISH_RETRY: Duration = Duration::from_secs(10);

/// The progress of a job is at most this old.
const SHOWN_EVERY: Duration = Duration::from_secs(2);

/// The end of an attempt without a transcript.
#[derive(Debug)]
pub(super) enum AttemptError {
    /// The file or the request is at fault: no attempt can succeed.
    Permanent(String),
    /// The attempt failed, and the job may be the reason: another attempt may succeed.
    Retryable(String),
    /// The service failed whatever the job: its database, its store, its disk, its devices.
    OwnFault(String),
    /// The job was deleted or given to another worker, or the service stops.
    Canceled,
}

impl JobRunner {
    /// Makes one attempt at a job.
    pub(super) async fn run_job(self: Arc<Self>, job: Job, start: Start, give_up: CancellationToken) {
        let began = Instant::now();
        let progress_ms = Arc::new(AtomicI64::new(0));
        // Canceled when this worker loses the lease.
        let lost = CancellationToken::new();
        let heartbeat = tokio::spawn(self.clone().renew_lease(job.clone(), progress_ms.clone(), lost.clone()));
        let result = tokio::select! {
            result = self.attempt(&job, start, progress_ms, &lost, &give_up) => result,
            () = lost.cancelled() => Err(AttemptError::Canceled),
            () = give_up.cancelled() => Err(AttemptError::Canceled),
        };
        let outcome = match result {
            Ok(completed) => Some(Outcome::Completed(Box::new(completed))),
            Err(AttemptError::Permanent(reason)) => Some(Outcome::Failed(reason)),
            Err(AttemptError::Retryable(reason)) if job.is_last_attempt() => {
                tracing::error!(job = %job.id, reason, "the last attempt failed");
                let times = job.attempt + job.deaths;
                Some(Outcome::Failed(format!("The service failed {times} times on this file: {reason}.")))
            }
            Err(AttemptError::Retryable(reason)) => {
                tracing::warn!(job = %job.id, attempt = job.attempt, reason, "an attempt failed");
                let delay_ms = RETRY_MS << (job.attempt - 1).clamp(0, 8);
                self.release(&job, delay_ms, AttemptCount::Counted, &lost, &give_up).await;
                None
            }
            Err(AttemptError::OwnFault(reason)) => {
                tracing::error!(job = %job.id, reason, "the service is at fault; the attempt does not count");
                let delay_ms = jittered_ms(OWN_FAULT_RETRY_S);
                self.release(&job, delay_ms, AttemptCount::NotCounted, &lost, &give_up).await;
                None
            }
            Err(AttemptError::Canceled) => {
                if !lost.is_cancelled() {
                    self.release(&job, 0, AttemptCount::NotCounted, &lost, &give_up).await;
                }
                None
            }
        };
        if let Some(outcome) = outcome {
            self.finish(&job, &outcome, &lost, &give_up).await;
            let state = match outcome {
                Outcome::Completed(_) => "completed",
                Outcome::Failed(_) => "error",
            };
            metrics::counter!("auricle_jobs_total", "status" => state).increment(1);
            metrics::histogram!("auricle_job_seconds").record(began.elapsed());
            tracing::info!(job = %job.id, state, s = began.elapsed().as_secs_f64(), "a job ended");
        }
        heartbeat.abort();
    }

    /// Records the end of a job. Repeats until the database accepts it, while this worker holds the lease.
    async fn finish(&self, job: &Job, outcome: &Outcome, lost: &CancellationToken, give_up: &CancellationToken) {
        let mut delay = Duration::from_millis(100);
        loop {
            match self.store.finish_job(job, outcome).await {
                Ok(true) => {
                    self.notifiers.webhooks.notify_one();
                    self.notifiers.jobs.notify_one();
                    return;
                }
                Ok(false) => return tracing::info!(job = %job.id, "the lease was lost before the job ended"),
                Err(error) => tracing::error!(job = %job.id, %error, "recording the end of a job failed; trying again"),
            }
            tokio::select! {
                () = tokio::time::sleep(delay) => delay = (delay * 2).min(MAX_FINISH_RETRY),
                () = lost.cancelled() => return,
                () = give_up.cancelled() => return,
            }
        }
    }

    /// Releases a job. Repeats until the database accepts it, since a lease that runs out counts as a death of the worker.
    async fn release(
        &self,
        job: &Job,
        delay_ms: i64,
        count: AttemptCount,
        lost: &CancellationToken,
        give_up: &CancellationToken,
    ) {
        let mut delay = Duration::from_millis(100);
        while let Err(error) = self.store.release_job(job, delay_ms, count).await {
            tracing::error!(job = %job.id, %error, "releasing a job failed; trying again");
            tokio::select! {
                () = tokio::time::sleep(delay) => delay = (delay * 2).min(MAX_FINISH_RETRY),
                () = lost.cancelled() => return,
                () = give_up.cancelled() => return,
            }
        }
        self.notifiers.jobs.notify_one();
    }

    /// Renews the lease three times in its lifetime or more often, to show the progress. Cancels `lost` when the lease is gone.
    async fn renew_lease(self: Arc<Self>, job: Job, progress_ms: Arc<AtomicI64>, lost: CancellationToken) {
        loop {
            tokio::time::sleep((self.settings.lease / 3).min(SHOWN_EVERY)).await;
            let progress_ms = progress_ms.load(Ordering::Relaxed);
            let cents = Price::of(&job.model, ProductKind::Prerecorded).map_or(0, |price| price.cents(progress_ms));
            match self.store.heartbeat(&job, self.settings.lease_ms(), progress_ms, cents).await {
                Ok(true) => {}
                Ok(false) => return lost.cancel(),
                Err(error) => tracing::warn!(job = %job.id, %error, "renewing a lease failed"),
            }
        }
    }

    /// Reserves the cost of the whole recording.
    async fn reserve(&self, job: &Job, cents: i64) -> Result<(), AttemptError> {
        match self.store.reserve(job, cents).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(AttemptError::Permanent(format!(
                "The credit does not cover this recording: it would cost {cents} cents, and other work has used or reserved all that \
                 was left. {} Then create the transcript again.",
                way_out(self.billing_provider)
            ))),
            Err(error) => Err(AttemptError::OwnFault(format!("its cost could not be reserved: {error}"))),
        }
    }

    /// Stores the recording without what was hidden. A second attempt replaces it.
    async fn keep_redacted_audio(&self, job: &Job, file: NamedTempFile) -> Result<(), AttemptError> {
        let failed = |error: &dyn std::fmt::Display| {
            AttemptError::OwnFault(format!("the redacted audio could not be stored: {error}"))
        };
        let bytes = tokio::fs::File::open(file.path()).await.map_err(|error| failed(&error))?;
        let body = StreamBody::new(ReaderStream::new(bytes).map_ok(Frame::data));
        let key = redacted_audio_key(&job.account, &job.id);
        self.storage.put(&key, body, u64::MAX).await.map(drop).map_err(|error| failed(&error))
    }

    /// The people whom a job may name. Where names of persons are hidden it names nobody.
    async fn known_speakers(
        &self,
        account: &AccountId,
        options: &JobOptions,
        passes: &Passes,
    ) -> Result<Vec<KnownSpeaker>, AttemptError> {
        let hides_names = passes.redaction.as_ref().is_some_and(|redaction| redaction.covers(Label::PersonName));
        if !(options.identify_speakers || options.known_speakers.is_some()) || !options.speaker_labels || hides_names {
            return Ok(Vec::new());
        }
        if let Some(sealed) = &options.known_speakers {
            let unreadable =
                "The known speakers of this request cannot be read: the key of the service has changed. Send it again.";
            let known = self.profiles.open_for_a_job(account, sealed);
            return known.ok_or_else(|| AttemptError::Permanent(unreadable.into()));
        }
        let failed = |error: std::io::Error| {
            AttemptError::OwnFault(format!("the profiles of speakers could not be read: {error}"))
        };
        self.profiles.known(account).await.map_err(failed)
    }

    async fn attempt(
        &self,
        job: &Job,
        start: Start,
        progress_ms: Arc<AtomicI64>,
        lost: &CancellationToken,
        give_up: &CancellationToken,
    ) -> Result<CompletedTranscript, AttemptError> {
        let Some(price) = Price::of(&job.model, ProductKind::Prerecorded) else {
            return Err(AttemptError::Permanent(format!("There is no model {}.", job.model)));
        };
        let unreadable = |reason: &String| {
            let reason = format!("The options of this transcript cannot be read: {reason}. Create it again.");
            AttemptError::Permanent(reason)
        };
        let asked = job.options.as_ref().map_err(unreadable)?;
        let passes = passes(asked).map_err(|reason| unreadable(&reason))?;
        let cover = cover(asked).map_err(|reason| unreadable(&reason))?;
        let (file, _worker) = self.local_audio(job, start).await?;
        let _alone = if job.runs_alone() { Some(self.company.write().await) } else { None };
        let _beside_others = if _alone.is_none() { Some(self.company.read().await) } else { None };
        let (file, audio) = open(file).await?;
        if let Some(duration_s) = audio.duration_s() {
            let duration_ms = (duration_s * 1e3) as i64;
            self.reserve(job, price.cents(duration_ms)).await?;
            if let Err(error) = self.store.set_duration(job, duration_ms).await {
                tracing::warn!(job = %job.id, %error, "the length of the audio could not be stored");
            }
        }
        let known = self.known_speakers(&job.account, asked, &passes).await?;
        let options = transcribe_options(job, asked).known_speakers(known);
        let (redacts, multichannel) = (passes.redaction.is_some(), asked.multichannel);
        let scratch = self.settings.scratch.clone();
        // A word that a pass may hide is sent to no one before the pass.
        let draft = if passes.is_empty() { self.notifiers.drafts.begin(&job.id) } else { None };
        // Dropping this future stops the engine's thread, too.
        let dropped = Arc::new(AtomicBool::new(false));
        let _guard = SetOnDrop(dropped.clone());
        let asked_to_stop = {
            let (lost, give_up) = (lost.clone(), give_up.clone());
            move || dropped.load(Ordering::Relaxed) || lost.is_cancelled() || give_up.is_cancelled()
        };
        let peaks = Arc::new(Mutex::new(Peaks::default()));
        let hears = peaks.clone();
        let mut audio =
            audio.with_listener(move |block| hears.lock().unwrap_or_else(PoisonError::into_inner).push(block));
        let engine = self.engine.clone();
        let transcribing = tokio::task::spawn_blocking(move || {
            let mut last_word: Option<Word> = None;
            let mut on_progress = |progress: Progress| {
                progress_ms.store((progress.audio_s * 1e3) as i64, Ordering::Relaxed);
                if let (Some(draft), [.., last]) = (&draft, progress.words) {
                    let new = following_text(last_word.as_ref(), progress.words);
                    draft.send_modify(|text| text.push_str(&new));
                    last_word = Some(last.clone());
                }
                if asked_to_stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let engine = engine.blocking();
            // The tagger is there before the work begins.
            let tagger = if passes.ask_for_entities() { engine.tagger() } else { Ok(None) };
            let tagger = tagger.map_err(|error| classify(error, asked_to_stop()))?;
            let transcript = if multichannel {
                // The channels are decoded each by itself; the waveform is that of all together. Damage is reported by the others.
                while !asked_to_stop() && matches!(audio.next_block(), Ok(Some(_))) {}
                engine.transcribe_channels(file.path(), &named(), &options, &mut on_progress)
            } else {
                engine.transcribe_with(audio, &options, &mut on_progress)
            };
            let mut transcript = transcript.map_err(|error| classify(error, asked_to_stop()))?;
            // A decoder's own message may name the file as this machine does.
            let path = file.path().display().to_string();
            for warning in &mut transcript.warnings {
                *warning = warning.replace(&path, "the file");
            }
            // No word leaves this thread before the passes have hidden what must be hidden.
            let analyzed = analyzed(transcript, &passes, tagger.as_deref())?;
            let redacted =
                cover.map(|cover| redacted_audio(&file, &analyzed.hidden_ms, cover, &scratch)).transpose()?;
            Ok((analyzed, redacted))
        });
        let (Analyzed { transcript, words, utterances, analysis, .. }, redacted) = match transcribing.await {
            Ok(result) => result?,
            Err(panic) => return Err(AttemptError::Retryable(format!("the engine stopped: {panic}"))),
        };
        if let Some(redacted) = redacted {
            self.keep_redacted_audio(job, redacted).await?;
        }
        let waveform = peaks.lock().unwrap_or_else(PoisonError::into_inner).waveform();
        let duration_ms = (transcript.audio_duration_sec * 1e3).round() as i64;
        let mut warnings = transcript.warnings;
        for warning in &warnings {
            tracing::info!(job = %job.id, warning, "warning about the audio");
        }
        if redacts {
            // A keyterm may be what redaction must not keep.
            let terms: Vec<String> = asked.keyterms_prompt.iter().flatten().map(|term| format!("{term:?}")).collect();
            warnings.retain(|warning| !terms.iter().any(|term| warning.contains(term)));
        }
        Ok(CompletedTranscript {
            text: transcript.text,
            words,
            utterances,
            confidence: transcript.confidence.map(|confidence| f64::from(confidence).clamp(0.0, 1.0)),
            language_code: transcript.language_code,
            duration_ms,
            waveform,
            analysis,
            warnings,
            options: kept(asked),
            sku: price.model,
            unit_type: price.unit_type,
            cents: price.cents(duration_ms),
        })
    }
}

/// The text of words that follow the last one before them.
fn following_text(last: Option<&Word>, words: &[Word]) -> String {
    let Some(last) = last else { return segments::whole(words).text };
    let all: Vec<Word> = std::iter::once(last).chain(words).cloned().collect();
    segments::whole(&all).text.split_off(last.text.len())
}

/// A transcript, with the parts that are stored as JSON.
struct Analyzed {
    transcript: Transcript,
    words: String,
    utterances: Option<String>,
    analysis: Option<String>,
    hidden_ms: Vec<(u64, u64)>,
}

/// Does the passes over a transcript.
fn analyzed(
    mut transcript: Transcript,
    passes: &Passes,
    tagger: Option<&dyn Tagger>,
) -> Result<Analyzed, AttemptError> {
    let began = Instant::now();
    let mut analysis = transcript.analyze(passes, tagger).map_err(|error| classify(error, false))?;
    let hidden_ms = std::mem::take(&mut analysis.hidden_ms);
    let json = |error: serde_json::Error| AttemptError::Retryable(error.to_string());
    let words = serde_json::to_string(&transcript.words).map_err(json)?;
    let utterances = transcript.utterances.as_ref().map(serde_json::to_string).transpose().map_err(json)?;
    let analysis = if passes.is_empty() {
        None
    } else {
        metrics::histogram!("auricle_analysis_seconds").record(began.elapsed());
        Some(serde_json::to_string(&analysis).map_err(json)?)
    };
    Ok(Analyzed { transcript, words, utterances, analysis, hidden_ms })
}

/// Writes a recording without what was hidden, as a file that is deleted with its value.
fn redacted_audio(
    file: &LocalFile,
    hidden_ms: &[(u64, u64)],
    cover: Cover,
    scratch: &Path,
) -> Result<NamedTempFile, AttemptError> {
    let own_fault = |error: std::io::Error| AttemptError::OwnFault(format!("no temporary file: {error}"));
    let out = NamedTempFile::new_in(scratch).map_err(own_fault)?;
    let audio = AudioStream::open_with(file.path(), &named()).map_err(|error| classify(error, false))?;
    let mut writer = BufWriter::new(out.reopen().map_err(own_fault)?);
    write_redacted(audio, hidden_ms, cover, &mut writer).map_err(|error| match error {
        Error::Write(_) => AttemptError::OwnFault(error.to_string()),
        other => classify(other, false),
    })?;
    Ok(out)
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn transcribe_options(job: &Job, asked: &JobOptions) -> TranscribeOptions {
    let languages = asked.language_codes.clone().unwrap_or_default();
    // A list of one language names the language of the recording.
    let language = job.language_code.clone().or_else(|| {
        let (first, others) = languages.split_first()?;
        others.iter().all(|other| primary_subtag(other) == primary_subtag(first)).then(|| first.clone())
    });
    let mut options = TranscribeOptions::default()
        .model(&job.model)
        .languages(languages)
        .keyterms(asked.keyterms_prompt.iter().flatten().map(String::as_str))
        .medical_mode(asked.medical_mode)
        .translate(asked.translate)
        .format_numbers(asked.format_numbers.unwrap_or(true));
    options.language = language;
    options.speakers = match (asked.speaker_labels, asked.speakers_expected) {
        (true, Some(count)) => SpeakerLabels::Expected(count as usize),
        (true, None) => SpeakerLabels::Found,
        (false, _) => SpeakerLabels::Off,
    };
    options
}

/// The files of users have no names in messages.
fn named() -> OpenOptions {
    OpenOptions::default().name("the file")
}

/// Opens the audio of a file. The file is read while this stream is.
async fn open(file: LocalFile) -> Result<(LocalFile, AudioStream), AttemptError> {
    let opening = tokio::task::spawn_blocking(move || {
        let audio = AudioStream::open_with(file.path(), &named()).map_err(|error| classify(error, false))?;
        Ok((file, audio))
    });
    opening.await.unwrap_or_else(|panic| Err(AttemptError::Retryable(format!("the file could not be opened: {panic}"))))
}

/// Decides if another attempt may succeed. Faults of the file and of the request are permanent. A full engine and a lost device fail every
/// job alike. All others are faults of the service and count as an attempt, and so does a cancellation that was not asked for, which is a
/// bug.
fn classify(error: Error, asked_to_stop: bool) -> AttemptError {
    match error {
        Error::Canceled if asked_to_stop => AttemptError::Canceled,
        Error::UnsupportedMedia(_)
        | Error::NoAudioTrack(_)
        | Error::FfmpegMissing(_)
        | Error::Ffmpeg(_)
        | Error::Language(_)
        | Error::LanguageModel { .. }
        | Error::UnknownModel(_)
        | Error::InvalidOption(_) => AttemptError::Permanent(sentence(&error.to_string())),
        Error::Busy(_) | Error::Device { .. } => AttemptError::OwnFault(error.to_string()),
        Error::Internal { place, ref reason } => {
            tracing::error!(%place, reason, "an internal error of the engine");
            AttemptError::Retryable(error.to_string())
        }
        other => AttemptError::Retryable(other.to_string()),
    }
}

/// The text with a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_requested_cancellation_does_not_count_as_an_attempt() {
        assert!(matches!(classify(Error::Canceled, true), AttemptError::Canceled));
        assert!(matches!(classify(Error::Canceled, false), AttemptError::Retryable(_)));
        assert!(matches!(classify(Error::Busy("full".into()), true), AttemptError::OwnFault(_)));
        let lost = Error::Device { device: "vulkan:0".into(), reason: "it was lost".into() };
        assert!(matches!(classify(lost, false), AttemptError::OwnFault(_)));
        let bug = Error::Internal { place: std::panic::Location::caller(), reason: "no step".into() };
        assert!(matches!(classify(bug, true), AttemptError::Retryable(_)));
        let AttemptError::Permanent(reason) = classify(Error::UnsupportedMedia("no audio".into()), false) else {
            panic!("a fault of the file is permanent");
        };
        assert_eq!(reason, "No audio.");
    }
}
