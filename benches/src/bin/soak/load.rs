//! The clients: they send recordings and hold live sessions, and repeat what failed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use auricle_tests::{Account, Answer, Frame, Live, Reply, Signed, noise, spoken, unique, wav};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tungstenite::Message;

use crate::Deployment;
use crate::faults::Random;

/// The sample rate of what clients send.
const RATE: u32 = 16_000;
/// Time limit of one attempt: a frozen node does not answer.
const ATTEMPT: Duration = Duration::from_secs(5);
/// A request that fails for so long on all nodes is a violation.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause of a client after a failed attempt.
const PAUSE: Duration = Duration::from_millis(250);

/// A job that the service has accepted.
pub struct Job {
    pub id: String,
    pub seconds: f64,
    /// The path of its webhook at the receiver.
    pub webhook: String,
}

/// The clients of a deployment, and what the service has accepted from them.
pub struct Load<'a> {
    deployment: &'a Deployment,
    seed: u64,
    recordings: Vec<(f64, Vec<u8>)>,
    jobs: Mutex<Vec<Job>>,
    /// Sessions that the service has opened, and connections that may have become one before they broke.
    pub opened: AtomicUsize,
    pub uncertain: AtomicUsize,
    /// Sessions that ended as they should.
    pub ended: AtomicUsize,
    /// Attempts that failed and were repeated.
    pub repeated: AtomicUsize,
    violations: Mutex<Vec<String>>,
}

impl<'a> Load<'a> {
    pub fn new(deployment: &'a Deployment, seed: u64) -> Self {
        let speech = spoken(RATE);
        let seconds = speech.len() as f64 / f64::from(2 * RATE);
        let recordings = vec![(seconds, wav(RATE, 16, &speech)), (20.0, noise(20.0))];
        Self {
            deployment,
            seed,
            recordings,
            jobs: Mutex::default(),
            opened: AtomicUsize::new(0),
            uncertain: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            repeated: AtomicUsize::new(0),
            violations: Mutex::default(),
        }
    }

    /// One line about what was done so far.
    pub fn progress(&self) -> String {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let (jobs, violations) = (self.jobs.lock().unwrap().len(), self.violations.lock().unwrap().len());
        format!(
            "{jobs} jobs, {} sessions of which {} ended whole, {} attempts repeated, {violations} violations",
            count(&self.opened),
            count(&self.ended),
            count(&self.repeated),
        )
    }

    /// The jobs that were accepted.
    pub fn jobs(&self) -> std::sync::MutexGuard<'_, Vec<Job>> {
        self.jobs.lock().unwrap()
    }

    /// What clients saw that may not happen.
    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().unwrap().clone()
    }

    fn violation(&self, what: String) {
        eprintln!("violation: {what}");
        self.violations.lock().unwrap().push(what);
    }

    /// The account on a node that is chosen by chance.
    fn anywhere(&self, random: &mut Random) -> Account {
        let nodes = &self.deployment.nodes;
        self.deployment.account.at(&nodes[random.below(nodes.len() as u64) as usize].api())
    }

    /// Sends a request again and again, each time anew, until a node takes it. None after a violation, or if `given_up` says that
    /// the answer is final.
    fn insist(&self, what: &str, random: &mut Random, request: impl Fn(&Account) -> RequestBuilder) -> Option<Answer> {
        let begin = Instant::now();
        loop {
            let answer = Answer::try_of(request(&self.anywhere(random)).timeout(ATTEMPT));
            match answer {
                Some(answer) if answer.status < 300 => return Some(answer),
                // 409 of `complete`: the bytes were put into a bucket that was away. The caller begins anew.
                Some(answer) if answer.status < 500 && answer.status != 429 => {
                    if answer.status != 409 && answer.status != 404 {
                        self.violation(format!("{what}: {} {:?}", answer.status, answer.body));
                    }
                    return None;
                }
                _ if begin.elapsed() > PATIENCE => {
                    let last = answer.map_or_else(|| "no answer".to_owned(), |answer| format!("{answer:?}"));
                    self.violation(format!("{what}: not within {PATIENCE:?}: {last}"));
                    return None;
                }
                _ => {
                    self.repeated.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Sends recordings, by upload and by URL in turn.
    pub fn send_recordings(&self, client: u64, stops: &AtomicBool) {
        let mut random = Random::new(self.seed.wrapping_add(1000 + client));
        while !stops.load(Ordering::Relaxed) {
            let (seconds, recording) = &self.recordings[random.below(self.recordings.len() as u64) as usize];
            let source = if random.below(2) == 0 {
                let Some(upload) = self.upload(recording, &mut random) else { continue };
                json!({"upload_id": upload})
            } else {
                let path = format!("/{}.wav", unique("recording"));
                json!({"audio_url": self.deployment.receiver.answers(&path, [Reply::audio(recording.clone())])})
            };
            self.create(source, *seconds, &mut random);
            std::thread::sleep(Duration::from_millis(random.below(1500)));
        }
    }

    fn upload(&self, recording: &[u8], random: &mut Random) -> Option<String> {
        let body = json!({"filename": "a.wav", "content_type": "audio/wav"}).to_string();
        let signed = self.insist("sign", random, |account| {
            account
                .request(Method::POST, "/v2/uploads/sign")
                .header("content-type", "application/json")
                .body(body.clone())
        })?;
        let signed = Signed(signed.json());
        self.insist("put", random, |_| signed.request(recording.to_vec()))?;
        let path = format!("/v2/uploads/{}/complete", signed.id());
        self.insist("complete", random, |account| account.request(Method::POST, &path))?;
        Some(signed.id().to_owned())
    }

    fn create(&self, mut body: Value, seconds: f64, random: &mut Random) {
        let (webhook, key) = (format!("/{}", unique("hook")), unique("key"));
        body["webhook_url"] = self.deployment.receiver.url(&webhook).into();
        let body = body.to_string();
        // The key makes the repetition of a request whose answer was lost the same job.
        let created = self.insist("create", random, |account| {
            account
                .request(Method::POST, "/v2/transcripts")
                .header("content-type", "application/json")
                .header("idempotency-key", &key)
                .body(body.clone())
        });
        let Some(created) = created else { return };
        let id = created.json()["id"].as_str().expect("an id").to_owned();
        self.jobs.lock().unwrap().push(Job { id, seconds, webhook });
    }

    /// Holds one live session after the other.
    pub fn hold_sessions(&self, client: u64, stops: &AtomicBool) {
        let mut random = Random::new(self.seed.wrapping_add(2000 + client));
        let speech = spoken(RATE);
        while !stops.load(Ordering::Relaxed) {
            let account = self.anywhere(&mut random);
            let minted = Answer::try_of(
                account
                    .request(Method::POST, "/v2/realtime/token")
                    .header("content-type", "application/json")
                    .body("{\"sample_rate\": 16000}")
                    .timeout(ATTEMPT),
            );
            let Some(minted) = minted.filter(|answer| answer.status == 200) else {
                self.repeated.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(PAUSE);
                continue;
            };
            self.session(&minted.json(), &speech);
        }
    }

    /// One session at the pace of speech.
    fn session(&self, minted: &Value, speech: &[u8]) {
        let mut url = reqwest::Url::parse(minted["websocket_url"].as_str().expect("a URL")).expect("a URL");
        for name in ["token", "model", "sample_rate"] {
            let value = &minted[name];
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            url.query_pairs_mut().append_pair(name, &text);
        }
        let Some(mut live) = Live::try_open(&url, ATTEMPT) else {
            self.uncertain.fetch_add(1, Ordering::Relaxed);
            return;
        };
        match live.read_within(ATTEMPT) {
            Some(Frame::Ready) => self.opened.fetch_add(1, Ordering::Relaxed),
            // Refused, or the node died, or froze before it said so.
            Some(Frame::Closed(code)) if code != 1006 => return,
            _ => {
                self.uncertain.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        let begin = Instant::now();
        // Frames of 100 ms.
        for (at, frame) in speech.chunks(RATE as usize / 5).enumerate() {
            let due = begin + Duration::from_millis(100 * at as u64);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if !live.try_send(Message::binary(frame.to_vec())) {
                return;
            }
        }
        if !live.try_send(Message::text("{\"type\":\"stop\"}")) {
            return;
        }
        let mut heard = false;
        // A frozen node goes on after its freeze.
        while let Some(frame) = live.read_within(2 * ATTEMPT) {
            match frame {
                Frame::Transcript(transcript) => heard |= !transcript.text.is_empty(),
                Frame::Closed(1000) if heard => {
                    self.ended.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Frame::Closed(1000) => return self.violation("a session ended whole and without a word".into()),
                Frame::Closed(_) => return,
                _ => {}
            }
        }
    }
}
