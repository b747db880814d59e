//! Ctrl-C: the progress bar leaves the terminal, and the process ends at once with the status that shells expect.
//!
//! Nothing else needs care: temporary files have no name, output files are written in one piece at the end, and a
//! running `ffmpeg` ends with its pipe.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use super::progress::Bar;

/// Ends the process on SIGINT (status 130) or SIGTERM (143), after taking `bar` off the terminal.
#[cfg(unix)]
pub fn on_signal(bar: Bar) {
    use signal_hook::consts::{SIGINT, SIGTERM};

    match signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) {
        Ok(mut signals) => {
            std::thread::spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    bar.clear();
                    // Not process::exit: the exit handlers of GPU drivers must not run beside a kernel.
                    signal_hook::low_level::exit(128 + signal);
                }
            });
        }
        Err(error) => tracing::warn!("Ctrl-C leaves the progress bar behind: {error}"),
    }
}

/// Elsewhere the system's own way of ending a program has to do.
#[cfg(not(unix))]
pub fn on_signal(_bar: Bar) {}

/// A process that ends in its own way at the first signal, and at once at the second.
pub struct Winding(Arc<AtomicI32>);

impl Winding {
    /// Calls `down` at the first SIGINT or SIGTERM, and `out` before the second one ends the process.
    #[cfg(unix)]
    pub fn down(down: impl FnOnce() + Send + 'static, out: impl FnOnce() + Send + 'static) -> Self {
        use signal_hook::consts::{SIGINT, SIGTERM};

        let got = Arc::new(AtomicI32::new(0));
        let first = got.clone();
        match signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) {
            Ok(mut signals) => {
                std::thread::spawn(move || {
                    let mut signals = signals.forever();
                    if let Some(signal) = signals.next() {
                        first.store(signal, Ordering::Release);
                        down();
                    }
                    if let Some(signal) = signals.next() {
                        out();
                        signal_hook::low_level::exit(128 + signal);
                    }
                });
            }
            Err(error) => tracing::warn!("Ctrl-C ends the program at once: {error}"),
        }
        Self(got)
    }

    /// Elsewhere the system's own way of ending a program has to do.
    #[cfg(not(unix))]
    pub fn down(_down: impl FnOnce() + Send + 'static, _out: impl FnOnce() + Send + 'static) -> Self {
        Self(Arc::default())
    }

    /// Ends the process if a signal asked for it, with the status that shells expect.
    pub fn end(&self) {
        let signal = self.0.load(Ordering::Acquire);
        #[cfg(unix)]
        if signal != 0 {
            signal_hook::low_level::exit(128 + signal);
        }
        #[cfg(not(unix))]
        let _ = signal;
    }
}
