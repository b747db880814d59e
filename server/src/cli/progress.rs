//! Progress on standard error: a bar with processed and total audio, speed, and remaining time, or the same as JSON lines.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::progress_lines::ProgressLines;
use auricle_engine::Progress;
pub use auricle_engine::documents::clock;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

const WITH_LENGTH: &str = "{name:.bold} [{bar:24}] {done} / {all}  {speed}  {left} left";
const WITHOUT_LENGTH: &str = "{name:.bold} {spinner} {done}  {speed}";
const BYTES: &str = "{name:.bold} [{bar:24}] {bytes} / {total_bytes}  {bytes_per_sec}  {eta} left";
const BYTES_WITHOUT_TOTAL: &str = "{name:.bold} {spinner} {bytes}  {bytes_per_sec}";
const LOADING: &str = "{spinner} loading {name}";
const BEGUN: &str = "{name:.bold} {spinner}";

/// Characters of a file's name that the bar shows.
const NAME_CHARS: usize = 28;

/// A bar for a sequence of files. Clones share the bar.
#[derive(Clone)]
pub struct Bar {
    bar: ProgressBar,
    /// The writer of progress as JSON, in place of the bar.
    lines: Option<Arc<Mutex<ProgressLines>>>,
}

/// The bar while it shows what is being loaded.
pub struct Loading<'a>(&'a Bar);

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// The bar while it shows one file.
pub struct FileBar<'a> {
    bar: &'a Bar,
    name: String,
}

impl Bar {
    /// A bar on standard error. It is hidden if `quiet` is set or standard error is not a terminal.
    pub fn new(quiet: bool) -> Self {
        // The default target is hidden without a terminal.
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        Self { bar: ProgressBar::with_draw_target(None, target), lines: None }
    }

    /// No bar: the progress is JSON lines on standard error.
    pub fn json() -> Self {
        Self { lines: Some(Arc::default()), ..Self::new(true) }
    }

    /// The JSON lines from now on are about this file.
    pub fn of_file(&self, name: &str) {
        self.line(|lines| *lines = ProgressLines::new(name));
    }

    /// Shows what is being loaded, until the value is dropped.
    pub fn loading(&self, what: &str) -> Loading<'_> {
        self.line(|lines| lines.loading(what));
        self.spin(spinner(LOADING, what));
        Loading(self)
    }

    /// Starts over for a file.
    pub fn start(&self, name: &str) -> FileBar<'_> {
        self.spin(style(BEGUN, name));
        FileBar { bar: self, name: name.to_owned() }
    }

    fn spin(&self, style: ProgressStyle) {
        self.bar.set_style(style);
        self.bar.reset();
        if !self.is_hidden() {
            self.bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    /// Starts over for a download of `total` bytes, if that is known.
    pub fn bytes(&self, name: &str, total: Option<u64>) {
        self.line(|lines| lines.total_bytes = total);
        self.bar.reset();
        self.bar.set_style(style(if total.is_some() { BYTES } else { BYTES_WITHOUT_TOTAL }, name));
        if let Some(total) = total {
            self.bar.set_length(total);
        }
    }

    /// Shows how much of the download is here.
    pub fn set_bytes(&self, bytes: u64) {
        self.line(|lines| lines.fetched(bytes));
        self.bar.set_position(bytes);
    }

    /// Takes the bar off the terminal.
    pub fn clear(&self) {
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
    }

    /// Tells if the bar is hidden.
    pub fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    fn line(&self, of: impl FnOnce(&mut ProgressLines)) {
        if let Some(lines) = &self.lines {
            of(&mut lines.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl FileBar<'_> {
    /// Starts the measurement of speed after the model has loaded.
    pub fn begin(&self, total_s: Option<f64>) {
        let bar = &self.bar.bar;
        self.bar.line(|lines| lines.begin(total_s));
        bar.reset();
        bar.set_style(style(if total_s.is_some() { WITH_LENGTH } else { WITHOUT_LENGTH }, &self.name));
        if let Some(total_s) = total_s {
            bar.set_length(ms(total_s));
        }
    }

    /// Shows the progress, and lets the transcription continue.
    pub fn update(&self, progress: Progress) -> ControlFlow<()> {
        self.bar.line(|lines| lines.update(progress.audio_s, progress.total_s));
        if let Some(total_s) = progress.total_s {
            // A container may understate its length.
            self.bar.bar.set_length(ms(total_s.max(progress.audio_s)));
        }
        self.show(progress.audio_s);
        ControlFlow::Continue(())
    }

    /// Shows how much speech is made.
    pub fn show(&self, audio_s: f64) {
        self.bar.bar.set_position(ms(audio_s));
    }
}

/// The style for a name that is cut to its room.
fn style(template: &str, name: &str) -> ProgressStyle {
    let mut name: String = name.chars().take(NAME_CHARS).collect();
    if name.chars().count() == NAME_CHARS {
        name.pop();
        name.push('…');
    }
    spinner(template, &name)
}

fn spinner(template: &str, name: &str) -> ProgressStyle {
    let name = name.to_owned();
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
        .with_key("name", move |_: &ProgressState, out: &mut dyn Write| {
            let _ = out.write_str(&name);
        })
        .with_key("done", |state: &ProgressState, out: &mut dyn Write| {
            let _ = out.write_str(&clock(state.pos()));
        })
        .with_key("all", |state: &ProgressState, out: &mut dyn Write| {
            let _ = out.write_str(&clock(state.len().unwrap_or(0)));
        })
        .with_key("left", |state: &ProgressState, out: &mut dyn Write| {
            let _ = out.write_str(&clock(state.eta().as_millis() as u64));
        })
        .with_key("speed", |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{:.1}x real time", speed(state.pos() as f64 / 1e3, state.elapsed()));
        })
}

/// Seconds of audio per second of work.
pub fn speed(audio_s: f64, work: Duration) -> f64 {
    audio_s / work.as_secs_f64().max(1e-3)
}

fn ms(seconds: f64) -> u64 {
    (seconds * 1e3) as u64
}
