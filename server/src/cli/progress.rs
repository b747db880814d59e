//! The progress bar on standard error: processed and total audio, speed, and remaining time.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::time::Duration;

use auricle_engine::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

const WITH_LENGTH: &str = "{name:.bold} [{bar:24}] {done} / {all}  {speed}  {left} left";
const WITHOUT_LENGTH: &str = "{name:.bold} {spinner} {done}  {speed}";
const BYTES: &str = "{name:.bold} [{bar:24}] {bytes} / {total_bytes}  {bytes_per_sec}  {eta} left";
const BYTES_WITHOUT_TOTAL: &str = "{name:.bold} {spinner} {bytes}  {bytes_per_sec}";
const LOADING: &str = "{name:.bold} {spinner} loading the model";

/// Characters of a file's name that the bar shows.
const NAME_CHARS: usize = 28;

/// A bar for a sequence of files. Clones share the bar.
#[derive(Clone)]
pub struct Bar(ProgressBar);

/// The bar while it shows one file.
pub struct FileBar<'a> {
    bar: &'a ProgressBar,
    name: String,
}

impl Bar {
    /// A bar on standard error. It is hidden if `quiet` is set or standard error is not a terminal.
    pub fn new(quiet: bool) -> Self {
        // The default target is hidden without a terminal.
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        Self(ProgressBar::with_draw_target(None, target))
    }

    /// Starts over for a file.
    pub fn start(&self, name: &str) -> FileBar<'_> {
        self.0.set_style(style(LOADING, name));
        self.0.reset();
        if !self.0.is_hidden() {
            self.0.enable_steady_tick(Duration::from_millis(200));
        }
        FileBar { bar: &self.0, name: name.to_owned() }
    }

    /// Starts over for a download of `total` bytes, if that is known.
    pub fn bytes(&self, name: &str, total: Option<u64>) {
        self.0.reset();
        self.0.set_style(style(if total.is_some() { BYTES } else { BYTES_WITHOUT_TOTAL }, name));
        if let Some(total) = total {
            self.0.set_length(total);
        }
    }

    /// Shows how much of the download is here.
    pub fn set_bytes(&self, bytes: u64) {
        self.0.set_position(bytes);
    }

    /// Takes the bar off the terminal.
    pub fn clear(&self) {
        self.0.disable_steady_tick();
        self.0.finish_and_clear();
    }

    /// Tells if the bar is hidden.
    pub fn is_hidden(&self) -> bool {
        self.0.is_hidden()
    }
}

impl FileBar<'_> {
    /// Starts the measurement of speed after the model has loaded.
    pub fn begin(&self, total_s: Option<f64>) {
        self.bar.reset();
        self.bar.set_style(style(if total_s.is_some() { WITH_LENGTH } else { WITHOUT_LENGTH }, &self.name));
        if let Some(total_s) = total_s {
            self.bar.set_length(ms(total_s));
        }
    }

    /// Shows the progress, and lets the transcription continue.
    pub fn update(&self, progress: Progress) -> ControlFlow<()> {
        if let Some(total_s) = progress.total_s {
            // A container may understate its length.
            self.bar.set_length(ms(total_s.max(progress.audio_s)));
        }
        self.bar.set_position(ms(progress.audio_s));
        ControlFlow::Continue(())
    }
}

impl FileBar<'_> {
    /// Shows how much speech is made.
    pub fn show(&self, audio_s: f64) {
        self.bar.set_position(ms(audio_s));
    }
}

fn style(template: &str, name: &str) -> ProgressStyle {
    let mut name: String = name.chars().take(NAME_CHARS).collect();
    if name.chars().count() == NAME_CHARS {
        name.pop();
        name.push('…');
    }
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

/// `0:42`, `12:03`, `1:02:03`.
pub fn clock(ms: u64) -> String {
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

fn ms(seconds: f64) -> u64 {
    (seconds * 1e3) as u64
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn times_read_as_clocks() {
        assert_eq!([0, 62_999, 3_723_000].map(clock), ["0:00", "1:02", "1:02:03"]);
    }
}
