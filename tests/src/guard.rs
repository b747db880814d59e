//! Stops what a test program started, even if the program is killed.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// A shell that waits for the end of this program and then cleans up after it: values in statics are never dropped, and a
/// test program may be killed.
pub(crate) struct CleanupGuard(Child);

impl CleanupGuard {
    /// Runs `script` with these arguments once this program has ended.
    pub(crate) fn new(script: &str, args: &[&str]) -> Self {
        // The shell reads until this program writes a line, or its end closes the pipe.
        let script = format!("read done || {{ {script}; }}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A process group of its own, so that an interrupt from the terminal does not end it first.
        Self(shell.process_group(0).spawn().expect("sh starts"))
    }

    /// Ends the shell without the cleanup.
    pub(crate) fn dismiss(mut self) {
        let _ = self.0.stdin.take().map(|mut stdin| stdin.write_all(b"done\n"));
        let _ = self.0.wait();
    }
}
