//! Progress as JSON lines on standard error, for programs: at most a few a second.

use std::time::{Duration, Instant};

use serde_json::json;

use super::output::event;

/// The least time between two lines of progress.
const INTERVAL: Duration = Duration::from_millis(250);

/// The lines of one file.
#[derive(Default)]
pub struct ProgressLines {
    file: String,
    began: Option<Instant>,
    last: Option<Instant>,
    total_s: Option<f64>,
    pub total_bytes: Option<u64>,
}

impl ProgressLines {
    pub fn new(file: &str) -> Self {
        Self { file: file.to_owned(), ..Self::default() }
    }

    /// Something is being loaded.
    pub fn loading(&mut self, what: &str) {
        event("loading", &json!({ "file": self.file, "what": what }));
    }

    /// So many bytes are fetched.
    pub fn fetched(&mut self, bytes: u64) {
        if self.is_due() {
            let percent = self.total_bytes.map(|total| percent(bytes as f64, total as f64));
            let fields =
                json!({ "file": self.file, "bytes": bytes, "total_bytes": self.total_bytes, "percent": percent });
            event("fetching", &fields);
        }
    }

    /// The model is loaded, and the audio begins.
    pub fn begin(&mut self, total_s: Option<f64>) {
        (self.began, self.last, self.total_s) = (Some(Instant::now()), None, total_s);
        self.update(0.0, total_s);
    }

    /// So much of the audio is done.
    pub fn update(&mut self, audio_s: f64, total_s: Option<f64>) {
        if !self.is_due() {
            return;
        }
        // A container may understate its length.
        let total_s = total_s.or(self.total_s).map(|total_s| total_s.max(audio_s));
        let work = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        let speed = (audio_s > 0.0 && !work.is_zero()).then(|| audio_s / work.as_secs_f64());
        let eta_s = total_s.zip(speed).map(|(total_s, speed)| rounded((total_s - audio_s) / speed, 10.0));
        let fields = json!({
            "file": self.file,
            "percent": total_s.map(|total_s| percent(audio_s, total_s)),
            "audio_sec": rounded(audio_s, 1e3),
            "total_sec": total_s.map(|total_s| rounded(total_s, 1e3)),
            "speed": speed.map(|speed| rounded(speed, 10.0)),
            "eta_sec": eta_s,
        });
        event("progress", &fields);
    }

    fn is_due(&mut self) -> bool {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= INTERVAL);
        if is_due {
            self.last = Some(Instant::now());
        }
        is_due
    }
}

fn percent(part: f64, total: f64) -> f64 {
    rounded(if total > 0.0 { (part / total * 100.0).min(100.0) } else { 0.0 }, 10.0)
}

fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}
