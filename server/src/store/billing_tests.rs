//! Whatever the interleaving of jobs, crashes and retries: what was finished is billed, once, and credit is never overdrawn.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which may")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::*;
use crate::billing::{Kind, Price};
use crate::clock;
use crate::ids::{AccountId, NodeId, SessionId, TranscriptId};

const MODEL: &str = "svc-best";
const LIVE: &str = "svc-realtime";
const CREDIT: i64 = 40;
const WORKERS: u64 = 6;
const ACTIONS: usize = 60;

/// A draw that a seed repeats.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| &from[self.below(from.len() as u64) as usize])
    }
}

/// What must have been billed in the end.
#[derive(Default)]
struct Finished {
    /// Milliseconds of audio of each transcript that was completed.
    transcripts: BTreeMap<String, i64>,
    /// What was reported of each session, by whichever node.
    sessions: BTreeMap<String, BTreeSet<i64>>,
}

fn completed(draw: &mut Draw) -> (Outcome, i64) {
    let duration_ms = draw.below(400_000) as i64;
    let price = Price::of(MODEL, Kind::Prerecorded).unwrap();
    let outcome = Outcome::Completed(super::Finished {
        text: String::new(),
        words: "[]".into(),
        confidence: None,
        language_code: None,
        duration_ms,
        sku: price.model,
        unit_type: price.unit_type,
        cents: price.cents(duration_ms),
    });
    (outcome, duration_ms)
}

async fn create(store: &Store, account: &AccountId) {
    let new = NewTranscript {
        id: TranscriptId::new(),
        account: account.clone(),
        source: Source::Url("https://example.com/a.wav".into()),
        model: MODEL.into(),
        title: None,
        language_code: None,
        webhook_url: None,
        options: json!({}),
        created_at: clock::now_ms(),
    };
    store.create_transcript(&new, None).await.unwrap();
}

/// Ends a job, and notes it if that counted.
async fn finish(store: &Store, job: &Job, draw: &mut Draw, finished: &Mutex<Finished>) {
    let (outcome, duration_ms) = completed(draw);
    if store.finish_job(job, &outcome).await.unwrap() {
        let before = finished.lock().unwrap().transcripts.insert(job.id.to_string(), duration_ms);
        assert_eq!(before, None, "{} ended twice", job.id);
    }
}

/// One node that does as it likes with its jobs and those it has lost.
async fn node(store: Store, account: AccountId, seed: u64, finished: Arc<Mutex<Finished>>) {
    let mut draw = Draw(seed);
    let price = Price::of(LIVE, Kind::Realtime).unwrap();
    let node = NodeId::new();
    // Whatever it ever held: a job that was given to another is finished here all the same.
    let mut held: Vec<Job> = Vec::new();
    for _ in 0..ACTIONS {
        match draw.below(10) {
            0 | 1 => create(&store, &account).await,
            2..=4 => {
                // A lease that has run out already is one whose worker has died.
                let lease_ms = if draw.below(3) == 0 { -1 } else { 60_000 };
                held.extend(store.claim_job(5, 5, lease_ms).await.unwrap());
            }
            5 | 6 => {
                if let Some(job) = draw.pick(&held).cloned() {
                    finish(&store, &job, &mut draw, &finished).await;
                }
            }
            7 => {
                if let Some(job) = draw.pick(&held) {
                    let counted = [Counted::Yes, Counted::No];
                    store.release_job(job, 0, *draw.pick(&counted).unwrap()).await.unwrap();
                }
            }
            8 => {
                store.reap_jobs().await.unwrap();
                if let Some(job) = draw.pick(&held) {
                    store.heartbeat(job, 60_000, 1).await.unwrap();
                    store.finish_job(job, &Outcome::Failed("broken".into())).await.unwrap();
                }
            }
            _ => {
                let now = clock::now_ms();
                let (id, model) = (SessionId::new(), LIVE.into());
                let session = LiveSession { id, account: account.clone(), model, began_at: now, seen_at: now };
                store.begin_session(&session, &node).await.unwrap();
                // Its node ends it, and so does one that thought it dead.
                for _ in 0..2 {
                    let ms = draw.below(90_000) as i64;
                    finished.lock().unwrap().sessions.entry(session.id.to_string()).or_default().insert(ms);
                    store.end_session(&session, price.unit_type, ms, price.cents(ms)).await.unwrap();
                }
            }
        }
        let left = store.allowance(&account).await.unwrap().balance;
        assert!((0..=CREDIT).contains(&left), "{left} cents left");
    }
}

async fn run(seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&Store::url_in(folder.path())).await.unwrap();
    let account = store.account_of("somebody@example.org", CREDIT).await.unwrap().id;
    let finished = Arc::new(Mutex::new(Finished::default()));
    let nodes: Vec<_> = (1..=WORKERS)
        .map(|n| tokio::spawn(node(store.clone(), account.clone(), seed * 1_000 + n, finished.clone())))
        .collect();
    for node in nodes {
        node.await.unwrap();
    }
    // All of them die; the next one does what is left.
    store.release_all_jobs().await.unwrap();
    store.reap_jobs().await.unwrap();
    let mut draw = Draw(seed + 1);
    while let Some(job) = store.claim_job(5, 5, 60_000).await.unwrap() {
        finish(&store, &job, &mut draw, &finished).await;
    }

    let finished = std::mem::take(&mut *finished.lock().unwrap());
    let (events, total) = store.usage(&account, 100_000, 0).await.unwrap();
    assert_eq!(events.len() as i64, total);
    let (mut transcripts, mut sessions) = (BTreeMap::new(), BTreeSet::new());
    for event in &events {
        let kind = if event.transcript_id.is_some() { Kind::Prerecorded } else { Kind::Realtime };
        let price = Price::of(&event.sku, kind).unwrap();
        assert_eq!(event.retail_cost_cents, price.cents(event.quantity_ms));
        assert_eq!(event.credit_applied_cents + event.billable_cents, event.retail_cost_cents);
        if let Some(id) = &event.transcript_id {
            assert_eq!(transcripts.insert(id.clone(), event.quantity_ms), None, "{id} is billed twice");
        }
        if let Some(id) = &event.session_id {
            assert!(sessions.insert(id.clone()), "{id} is billed twice");
            assert!(finished.sessions[id].contains(&event.quantity_ms));
        }
    }
    assert!(!transcripts.is_empty() && !sessions.is_empty());
    assert_eq!(transcripts, finished.transcripts, "what was finished, and nothing else");
    assert_eq!(sessions, finished.sessions.into_keys().collect());
    let sum = |of: fn(&usage::UsageEvent) -> i64| events.iter().map(of).sum::<i64>();
    let left = store.allowance(&account).await.unwrap().balance;
    assert_eq!(left, CREDIT - sum(|event| event.credit_applied_cents));
    assert!(left == 0 || sum(|event| event.billable_cents) == 0, "credit goes first");
    let ended =
        store.transcripts(&account, TranscriptQuery { status: None, limit: 100_000, offset: 0 }).await.unwrap().0;
    for transcript in ended {
        assert!(
            matches!(transcript.status, Status::Completed | Status::Error),
            "{} is {:?}",
            transcript.id,
            transcript.status
        );
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_happens_what_is_finished_is_billed_once() {
    for seed in 1..=12 {
        run(seed).await;
    }
}
