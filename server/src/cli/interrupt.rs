//! Ctrl-C: clears the progress bar and ends the process at once, with the status that shells expect.
//!
//! Temporary files are removed, and outputs of earlier runs stay. A running `ffmpeg` ends with its pipe. A command with a service of its own
//! ends that, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use super::out_file;
use super::progress::Bar;

/// True once a signal is ending the process.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Waits for the end of a process that a signal is ending: what fails meanwhile, such as a call whose service has ended, is no failure
/// of the command.
pub fn wait_if_ending() {
    while IS_ENDING.load(Ordering::Acquire) {
        std::thread::park();
    }
}

/// Ends the process on SIGINT (status 130) or SIGTERM (143), after clearing `bar`.
pub fn on_signal(bar: Bar) {
    end_with(move || bar.clear());
}

/// Ends the process on SIGINT (status 130) or SIGTERM (143), after `last`.
#[cfg(unix)]
pub fn end_with(last: impl FnOnce() + Send + 'static) {
    use signal_hook::consts::{SIGINT, SIGTERM};

    match signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) {
        Ok(mut signals) => {
            std::thread::spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    IS_ENDING.store(true, Ordering::Release);
                    last();
                    out_file::remove_unfinished();
                    // Not process::exit: the exit handlers of GPU drivers must not run beside a kernel.
                    signal_hook::low_level::exit(128 + signal);
                }
            });
        }
        Err(error) => tracing::warn!("Ctrl-C leaves the progress bar behind: {error}"),
    }
}

/// Other systems end the program in their own way.
#[cfg(not(unix))]
pub fn end_with(_last: impl FnOnce() + Send + 'static) {}

/// An orderly shutdown at the first signal; the second ends the process at once.
pub struct Shutdown(Arc<AtomicI32>);

impl Shutdown {
    /// Calls `first_signal` at the first SIGINT or SIGTERM, and `second_signal` before the second one ends the process.
    #[cfg(unix)]
    pub fn on_signal(
        first_signal: impl FnOnce() + Send + 'static,
        second_signal: impl FnOnce() + Send + 'static,
    ) -> Self {
        use signal_hook::consts::{SIGINT, SIGTERM};

        let received = Arc::new(AtomicI32::new(0));
        let first = received.clone();
        match signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) {
            Ok(mut signals) => {
                std::thread::spawn(move || {
                    let mut signals = signals.forever();
                    if let Some(signal) = signals.next() {
                        first.store(signal, Ordering::Release);
                        first_signal();
                    }
                    if let Some(signal) = signals.next() {
                        second_signal();
                        signal_hook::low_level::exit(128 + signal);
                    }
                });
            }
            Err(error) => tracing::warn!("Ctrl-C ends the program at once: {error}"),
        }
        Self(received)
    }

    /// Other systems end the program in their own way.
    #[cfg(not(unix))]
    pub fn on_signal(_first: impl FnOnce() + Send + 'static, _second: impl FnOnce() + Send + 'static) -> Self {
        Self(Arc::default())
    }

    /// Ends the process if a signal has arrived, with the status that shells expect.
    pub fn exit_if_signaled(&self) {
        let signal = self.0.load(Ordering::Acquire);
        #[cfg(unix)]
        if signal != 0 {
            signal_hook::low_level::exit(128 + signal);
        }
        #[cfg(not(unix))]
        let _ = signal;
    }
}
