//! Billing under every interleaving of jobs, crashes and retries: each expected job is billed once, and credit is never
//! overrandomn.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which may")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::{Price, ProductKind};
use crate::clock;
use crate::ids::{AccountId, NodeId, SessionId};
use crate::store::{
    Admission, AttemptCount, CompletedTranscript, Durability, Job, JobQuery, LiveSession, NewTranscript, Outcome,
    SourceKind, Status, Store, TranscriptQuery, UsageEvent, Waveform,
};

const MODEL: &str = "svc-best";
const LIVE: &str = "svc-realtime";
const CREDIT: i64 = 40;
const WORKERS: u64 = 6;
const ACTIONS: usize = 60;

/// A random number generator with a seed.
struct Random(u64);

impl Random {
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

/// The expected bills.
#[derive(Default)]
struct Expected {
    /// Milliseconds of audio of each transcript that was completed.
    transcripts: BTreeMap<String, i64>,
    /// The durations of each session, as reported by any node.
    sessions: BTreeMap<String, BTreeSet<i64>>,
}

fn completed(random: &mut Random) -> (Outcome, i64) {
    let duration_ms = random.below(400_000) as i64;
    let price = Price::of(MODEL, ProductKind::Prerecorded).unwrap();
    let outcome = Outcome::Completed(Box::new(CompletedTranscript {
        text: String::new(),
        words: "[]".into(),
        utterances: None,
        confidence: None,
        language_code: None,
        analysis: None,
        warnings: Vec::new(),
        options: None,
        duration_ms,
        waveform: Waveform::default(),
        sku: price.model,
        unit_type: price.unit_type,
        cents: price.cents(duration_ms),
    }));
    (outcome, duration_ms)
}

async fn create(store: &Store, account: &AccountId) {
    let new = NewTranscript { model: MODEL.into(), ..NewTranscript::of_url(account) };
    store.create_transcript(&new, None).await.unwrap();
}

/// Finishes a job, and records it if the lease was still held.
async fn finish(store: &Store, job: &Job, random: &mut Random, expected: &Mutex<Expected>) {
    let (outcome, duration_ms) = completed(random);
    if store.finish_job(job, &outcome).await.unwrap() {
        let before = expected.lock().unwrap().transcripts.insert(job.id.to_string(), duration_ms);
        assert_eq!(before, None, "{} ended twice", job.id);
    }
}

/// A node that acts at random on its jobs and on those that it has lost.
async fn node(store: Store, account: AccountId, seed: u64, expected: Arc<Mutex<Expected>>) {
    let mut random = Random(seed);
    let price = Price::of(LIVE, ProductKind::Realtime).unwrap();
    let node = NodeId::new();
    let key = store.create_key(&account, "test", None).await.unwrap().id;
    // All jobs that the node has ever claimed: it also finishes jobs that were given to another node.
    let mut held: Vec<Job> = Vec::new();
    for _ in 0..ACTIONS {
        match random.below(10) {
            0 | 1 => create(&store, &account).await,
            2..=4 => {
                // An expired lease simulates a dead worker.
                let lease_ms = if random.below(3) == 0 { -1 } else { 60_000 };
                held.extend(store.claim_job(JobQuery::five(SourceKind::Urls), lease_ms).await.unwrap());
            }
            5 | 6 => {
                if let Some(job) = random.pick(&held).cloned() {
                    finish(&store, &job, &mut random, &expected).await;
                }
            }
            7 => {
                if let Some(job) = random.pick(&held) {
                    let counted = [AttemptCount::Counted, AttemptCount::NotCounted];
                    store.release_job(job, 0, *random.pick(&counted).unwrap()).await.unwrap();
                }
            }
            8 => {
                store.requeue_expired_jobs().await.unwrap();
                if let Some(job) = random.pick(&held) {
                    store.heartbeat(job, 60_000, 1, 1).await.unwrap();
                    store.finish_job(job, &Outcome::Failed("broken".into())).await.unwrap();
                }
            }
            _ => {
                let now = clock::now_ms();
                let (id, model) = (SessionId::new(), LIVE.into());
                let session = LiveSession { id, account: account.clone(), model, began_at: now, seen_at: now };
                let admitted = store.begin_session(&session, &node, &key, 0).await.unwrap();
                if !matches!(admitted, Admission::Admitted) {
                    continue;
                }
                // The session's node ends it, and so does a node that treats the first as dead.
                for _ in 0..2 {
                    let ms = random.below(90_000) as i64;
                    expected.lock().unwrap().sessions.entry(session.id.to_string()).or_default().insert(ms);
                    store.end_session(&session, price.unit_type, ms, price.cents(ms)).await.unwrap();
                }
            }
        }
        let left = store.allowance(&account).await.unwrap().balance;
        assert!((0..=CREDIT).contains(&left), "{left} cents left");
    }
}

/// The sums that are kept by day and model are those of the events.
async fn check_sums(store: &Store, account: &AccountId, events: &[UsageEvent]) {
    let (mut models, mut days) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        let model: &mut [i64; 5] = models.entry((event.sku.clone(), event.unit_type.clone())).or_default();
        let cost = [event.retail_cost_cents, event.credit_applied_cents, event.billable_cents];
        for (sum, value) in model.iter_mut().zip([1, event.quantity_ms].into_iter().chain(cost)) {
            *sum += value;
        }
        *days.entry((event.created_at / 86_400_000, event.sku.clone())).or_default() += event.retail_cost_cents;
    }
    let kept = store.usage_by_model(account).await.unwrap().into_iter().map(|model| {
        let costs = [model.retail_cost_cents, model.credit_applied_cents, model.billable_cents];
        ((model.sku, model.unit_type), [model.events, model.quantity_ms, costs[0], costs[1], costs[2]])
    });
    assert_eq!(kept.collect::<BTreeMap<_, _>>(), models);
    let kept = store.daily_costs(account, 0).await.unwrap();
    let kept = kept.into_iter().map(|cost| ((cost.day, cost.sku), cost.retail_cost_cents));
    assert_eq!(kept.collect::<BTreeMap<_, i64>>(), days);
    let credit = store.credit(account).await.unwrap();
    assert_eq!(credit.lifetime_retail, models.values().map(|sums| sums[2]).sum::<i64>());
    assert_eq!(credit.lifetime_billable, models.values().map(|sums| sums[4]).sum::<i64>());
}

async fn run(seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
    let account = store.account_of("somebody@example.org", CREDIT).await.unwrap().id;
    let expected = Arc::new(Mutex::new(Expected::default()));
    let nodes: Vec<_> = (1..=WORKERS)
        .map(|n| tokio::spawn(node(store.clone(), account.clone(), seed * 1_000 + n, expected.clone())))
        .collect();
    for node in nodes {
        node.await.unwrap();
    }
    // All nodes die, and the next process does the remaining work.
    store.expire_all_leases().await.unwrap();
    store.requeue_expired_jobs().await.unwrap();
    let mut random = Random(seed + 1);
    while let Some(job) = store.claim_job(JobQuery::five(SourceKind::Urls), 60_000).await.unwrap() {
        finish(&store, &job, &mut random, &expected).await;
    }

    let expected = std::mem::take(&mut *expected.lock().unwrap());
    let (events, total) = store.usage(&account, 100_000, 0).await.unwrap();
    assert_eq!(events.len() as i64, total);
    let (mut transcripts, mut sessions) = (BTreeMap::new(), BTreeSet::new());
    for event in &events {
        let kind = if event.transcript_id.is_some() { ProductKind::Prerecorded } else { ProductKind::Realtime };
        let price = Price::of(&event.sku, kind).unwrap();
        assert_eq!(event.retail_cost_cents, price.cents(event.quantity_ms));
        assert_eq!(event.credit_applied_cents + event.billable_cents, event.retail_cost_cents);
        if let Some(id) = &event.transcript_id {
            assert_eq!(transcripts.insert(id.clone(), event.quantity_ms), None, "{id} is billed twice");
        }
        if let Some(id) = &event.session_id {
            assert!(sessions.insert(id.clone()), "{id} is billed twice");
            assert!(expected.sessions[id].contains(&event.quantity_ms));
        }
    }
    assert!(!transcripts.is_empty() && !sessions.is_empty());
    assert_eq!(transcripts, expected.transcripts, "every finished job is billed, and nothing else");
    assert_eq!(sessions, expected.sessions.into_keys().collect());
    let sum = |of: fn(&UsageEvent) -> i64| events.iter().map(of).sum::<i64>();
    let left = store.allowance(&account).await.unwrap().balance;
    assert_eq!(left, CREDIT - sum(|event| event.credit_applied_cents));
    assert!(left == 0 || sum(|event| event.billable_cents) == 0, "credit goes first");
    check_sums(&store, &account, &events).await;
    let ended =
        store.transcripts(&account, TranscriptQuery { status: None, limit: 100_000, offset: 0 }, "").await.unwrap().0;
    for id in ended {
        let transcript = store.transcript(&account, &id).await.unwrap().unwrap();
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
async fn every_finished_job_is_billed_once() {
    for seed in 1..=12 {
        run(seed).await;
    }
}
