//! The work behind transcripts: claimed, fetched, transcribed, finished; given back when the service stops or fails.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use auricle_engine::audio::{AudioStream, OpenOptions};
use auricle_engine::{Engine, Error, TranscribeOptions};
use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::create::base;
use crate::billing::{Kind, Price};
use crate::outbound::OutboundError;
use crate::state::AppState;
use crate::storage::OnDisk;
use crate::store::{ATTEMPTS, Counted, Finished, Job, Outcome, Source, object_key};

/// How long to wait where the database gives no answer.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a job waits after the first failure that was not its own fault; longer after each more.
const RETRY_MS: i64 = 5_000;

/// Why a job did not end with a transcript.
enum Stop {
    /// The file is at fault: no attempt will do better.
    Refused(String),
    /// Something of ours is at fault.
    Failed(String),
    /// The job was deleted, given to another worker, or the service stops.
    Let,
}

/// Runs jobs until `stopping`, then waits for those in work until `give_up`, and gives back what is left.
pub async fn run(app: Arc<AppState>, engine: Arc<Engine>, stopping: CancellationToken, give_up: CancellationToken) {
    let lease_ms = lease_ms(&app);
    // Jobs whose time has come ring no bell, nor do those of the dead.
    let poll = Duration::from_secs(app.config.poll_seconds.into()).min(Duration::from_millis(lease_ms as u64 / 2));
    let mut running = JoinSet::new();
    let mut reaped: Option<Instant> = None;
    while !stopping.is_cancelled() {
        if reaped.is_none_or(|at| at.elapsed() > Duration::from_millis(lease_ms as u64 / 2)) {
            match app.store.reap_jobs().await {
                Ok(0) => {}
                Ok(jobs) => tracing::warn!(jobs, "jobs of a worker that died are begun again"),
                Err(error) => tracing::error!(%error, "leases could not be looked at"),
            }
            reaped = Some(Instant::now());
        }
        while running.try_join_next().is_some() {}
        if running.len() >= app.config.job_workers {
            tokio::select! {
                _ = running.join_next() => {}
                () = stopping.cancelled() => {}
            }
            continue;
        }
        let (cap, cap_subscribed) = (app.config.parallel_jobs.into(), app.config.parallel_jobs_subscribed.into());
        let claimed = match app.store.has_queued_jobs().await {
            Ok(true) => app.store.claim_job(cap, cap_subscribed, lease_ms).await,
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        match claimed {
            Ok(Some(job)) => {
                running.spawn(work(app.clone(), engine.clone(), job, give_up.clone()));
            }
            Ok(None) => {
                tokio::select! {
                    () = app.job_notify.notified() => {}
                    () = tokio::time::sleep(poll) => {}
                    _ = running.join_next(), if !running.is_empty() => {}
                    () = stopping.cancelled() => {}
                }
            }
            Err(error) => {
                tracing::error!(%error, "no job could be claimed");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    while running.join_next().await.is_some() {}
}

fn lease_ms(app: &AppState) -> i64 {
    i64::from(app.config.job_lease_seconds) * 1000
}

/// One attempt at one job.
async fn work(app: Arc<AppState>, engine: Arc<Engine>, job: Job, give_up: CancellationToken) {
    let began = Instant::now();
    let done_ms = Arc::new(AtomicI64::new(0));
    // Cancelled when the job is this worker's no more.
    let lost = CancellationToken::new();
    let pulse = tokio::spawn(keep_alive(app.clone(), job.clone(), done_ms.clone(), lost.clone()));
    let result = tokio::select! {
        result = attempt(&app, engine, &job, done_ms, &lost, &give_up) => result,
        () = lost.cancelled() => Err(Stop::Let),
        () = give_up.cancelled() => Err(Stop::Let),
    };
    let outcome = match result {
        Ok(finished) => Some(Outcome::Completed(finished)),
        Err(Stop::Refused(reason)) => Some(Outcome::Failed(reason)),
        Err(Stop::Failed(reason)) if job.attempt >= ATTEMPTS => {
            tracing::error!(job = %job.id, reason, "the last attempt failed");
            Some(Outcome::Failed(format!("The service failed {ATTEMPTS} times on this file: {reason}.")))
        }
        Err(Stop::Failed(reason)) => {
            tracing::warn!(job = %job.id, attempt = job.attempt, reason, "will be tried again");
            let delay = RETRY_MS << (job.attempt - 1).clamp(0, 8);
            release(&app, &job, delay, Counted::Yes).await;
            None
        }
        Err(Stop::Let) => {
            if !lost.is_cancelled() {
                release(&app, &job, 0, Counted::No).await;
            }
            None
        }
    };
    if let Some(outcome) = outcome {
        finish(&app, &job, &outcome, &lost, &give_up).await;
        let state = match outcome {
            Outcome::Completed(_) => "completed",
            Outcome::Failed(_) => "error",
        };
        metrics::counter!("auricle_jobs_total", "status" => state).increment(1);
        metrics::histogram!("auricle_job_seconds").record(began.elapsed());
        tracing::info!(job = %job.id, state, s = began.elapsed().as_secs_f64(), "ended");
    }
    pulse.abort();
}

/// Writes the end of a job down, however long the database needs to take it, while the job is still ours.
async fn finish(app: &AppState, job: &Job, outcome: &Outcome, lost: &CancellationToken, give_up: &CancellationToken) {
    let mut wait = Duration::from_millis(100);
    loop {
        match app.store.finish_job(job, outcome).await {
            Ok(true) => {
                app.webhook_notify.notify_one();
                app.job_notify.notify_one();
                return;
            }
            Ok(false) => return tracing::info!(job = %job.id, "was taken away before it ended"),
            Err(error) => tracing::error!(job = %job.id, %error, "the end of a job could not be written; trying again"),
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(Duration::from_secs(10)),
            () = lost.cancelled() => return,
            () = give_up.cancelled() => return,
        }
    }
}

async fn release(app: &AppState, job: &Job, delay_ms: i64, counted: Counted) {
    // If it cannot be written, the lease runs out and does the same.
    if let Err(error) = app.store.release_job(job, delay_ms, counted).await {
        tracing::error!(job = %job.id, %error, "a job could not be given back; its lease will run out");
    }
    app.job_notify.notify_one();
}

/// Renews the lease three times in its length.
async fn keep_alive(app: Arc<AppState>, job: Job, done_ms: Arc<AtomicI64>, lost: CancellationToken) {
    let lease_ms = lease_ms(&app);
    loop {
        tokio::time::sleep(Duration::from_millis(lease_ms as u64 / 3)).await;
        match app.store.heartbeat(&job, lease_ms, done_ms.load(Ordering::Relaxed)).await {
            Ok(true) => {}
            Ok(false) => return lost.cancel(),
            Err(error) => tracing::warn!(job = %job.id, %error, "a lease could not be renewed"),
        }
    }
}

async fn attempt(
    app: &Arc<AppState>,
    engine: Arc<Engine>,
    job: &Job,
    done_ms: Arc<AtomicI64>,
    lost: &CancellationToken,
    give_up: &CancellationToken,
) -> Result<Finished, Stop> {
    let Some(price) = Price::of(&job.model, Kind::Prerecorded) else {
        return Err(Stop::Refused(format!("There is no model {}.", job.model)));
    };
    let file = match &job.source {
        Source::Upload(id) => app
            .storage
            .on_disk(&object_key(&job.account, id), &app.scratch)
            .await
            .map_err(|error| Stop::Failed(format!("the upload could not be read: {error}")))?
            .ok_or_else(|| Stop::Refused("The uploaded file is gone.".into()))?,
        Source::Url(url) => fetch(app, url).await?,
    };
    let keyterms = job.options["keyterms_prompt"].as_array().into_iter().flatten();
    let codes = job.options["language_codes"].as_array().into_iter().flatten();
    let languages: Vec<String> = codes.filter_map(|code| code.as_str()).map(str::to_owned).collect();
    let options = TranscribeOptions {
        model: job.model.clone(),
        // One that may be spoken is the one that is.
        language: job.language_code.clone().or_else(|| {
            let (first, others) = languages.split_first()?;
            others.iter().all(|other| base(other) == base(first)).then(|| first.clone())
        }),
        languages,
        keyterms: keyterms.filter_map(|term| term.as_str()).map(str::to_owned).collect(),
        ..TranscribeOptions::default()
    };
    // The engine's thread is told to stop when this future is dropped, too.
    let flag = Arc::new(AtomicBool::new(false));
    let _dropped = SetOnDrop(flag.clone());
    let (lost, give_up) = (lost.clone(), give_up.clone());
    let transcript = tokio::task::spawn_blocking(move || {
        let go_on = |audio_s: f64| {
            done_ms.store((audio_s * 1e3) as i64, Ordering::Relaxed);
            let stop = flag.load(Ordering::Relaxed) || lost.is_cancelled() || give_up.is_cancelled();
            if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        transcribe(&engine, file.path(), &options, go_on)
    });
    let transcript = match transcript.await {
        Ok(Ok(transcript)) => transcript,
        Ok(Err(error)) => return Err(stop_for(error)),
        Err(panic) => return Err(Stop::Failed(format!("the engine stopped: {panic}"))),
    };
    let duration_ms = (transcript.audio_duration_sec * 1e3).round() as i64;
    let words = serde_json::to_string(&transcript.words).map_err(|error| Stop::Failed(error.to_string()))?;
    for warning in &transcript.warnings {
        tracing::info!(job = %job.id, warning, "about the audio");
    }
    Ok(Finished {
        text: transcript.text,
        words,
        confidence: transcript.confidence.map(|confidence| f64::from(confidence).clamp(0.0, 1.0)),
        language_code: transcript.language_code,
        duration_ms,
        sku: price.model,
        unit_type: price.unit_type,
        cents: price.cents(duration_ms),
    })
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn transcribe(
    engine: &Engine,
    path: &Path,
    options: &TranscribeOptions,
    go_on: impl Fn(f64) -> ControlFlow<()>,
) -> auricle_engine::Result<auricle_engine::Transcript> {
    let named = OpenOptions { name: Some("the file".into()), ..OpenOptions::default() };
    let audio = AudioStream::open_with(path, &named)?;
    engine.transcribe(audio, options, &mut |progress| go_on(progress.audio_s))
}

/// Whether another attempt may do better.
fn stop_for(error: Error) -> Stop {
    match error {
        Error::Canceled => Stop::Let,
        Error::Device { .. }
        | Error::Checkpoint { .. }
        | Error::Weights { .. }
        | Error::Read { .. }
        | Error::Busy(_) => Stop::Failed(error.to_string()),
        other => Stop::Refused(sentence(&other.to_string())),
    }
}

/// With a capital letter and a full stop, as the service's other messages.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

/// Fetches `audio_url` into a file of ours.
async fn fetch(app: &AppState, url: &str) -> Result<OnDisk, Stop> {
    let limit = Duration::from_secs(app.config.fetch_timeout_seconds.into());
    match tokio::time::timeout(limit, download(app, url)).await {
        Ok(fetched) => fetched,
        Err(_) => Err(refused(&format!("it took longer than {} s", limit.as_secs()))),
    }
}

fn refused(reason: &str) -> Stop {
    Stop::Refused(format!("The audio could not be fetched from audio_url: {reason}."))
}

async fn download(app: &AppState, url: &str) -> Result<OnDisk, Stop> {
    let response = app.outbound.get(url).await.map_err(|error: OutboundError| refused(&error.to_string()))?;
    let most = app.config.fetch_max_bytes;
    let too_large = || refused(&format!("it is larger than {most} bytes"));
    if response.content_length().is_some_and(|length| length > most) {
        return Err(too_large());
    }
    let ours = |error: std::io::Error| Stop::Failed(format!("the audio could not be stored: {error}"));
    let file = tempfile::NamedTempFile::new_in(&app.scratch).map_err(ours)?;
    let mut out = tokio::fs::File::from_std(file.reopen().map_err(ours)?);
    let mut stream = response.bytes_stream();
    let mut length = 0u64;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| refused(&format!("the connection broke off ({error})")))?;
        length += chunk.len() as u64;
        if length > most {
            return Err(too_large());
        }
        out.write_all(&chunk).await.map_err(ours)?;
    }
    out.flush().await.map_err(ours)?;
    Ok(OnDisk::Copy(file))
}
