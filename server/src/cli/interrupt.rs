//! Ctrl-C: the progress bar leaves the terminal, and the process ends at once with the status that shells expect.
//!
//! Nothing else needs care: temporary files have no name, output files are written in one piece at the end, and a
//! running `ffmpeg` ends with its pipe.

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
