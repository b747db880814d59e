//! The words of both sides on standard error, and how long a reply took.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use console::{Style, Term, truncate_str};

/// Loudness below which a piece of the caller's turn is silent, relative to its loudest: -30 dB.
const SILENCE: f64 = 1e-3;
/// Pieces of a turn that are kept: one minute.
const MAX_PIECES: usize = 3_000;

/// The lines of a call.
pub struct Screen {
    is_terminal: bool,
    /// Pieces of the caller's sound since before the turn began: time and energy.
    pieces: Vec<(Instant, f64)>,
    is_speaking: bool,
    /// The caller's last sound, as long as the reply to it has made no sound.
    awaiting: Option<Instant>,
    /// From there to the first sound of the reply.
    took: Option<Duration>,
}

impl Screen {
    pub fn new() -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
            pieces: Vec::new(),
            is_speaking: false,
            awaiting: None,
            took: None,
        }
    }

    /// A piece of the caller's sound.
    pub fn spoken(&mut self, samples: &[i16]) {
        if !self.is_speaking && self.awaiting.is_none() {
            // The detector is later than the first sound.
            let surplus = self.pieces.len().saturating_sub(50);
            self.pieces.drain(..surplus);
        }
        if self.pieces.len() < MAX_PIECES {
            self.pieces.push((Instant::now(), samples.iter().map(|sample| f64::from(*sample).powi(2)).sum()));
        }
    }

    pub fn speech_started(&mut self) {
        self.is_speaking = true;
        self.awaiting = None;
    }

    pub fn speech_stopped(&mut self) {
        self.is_speaking = false;
        self.awaiting = last_sound(&self.pieces);
        self.pieces.clear();
    }

    /// The agent makes a sound.
    pub fn sounds(&mut self) {
        if let Some(since) = self.awaiting.take() {
            self.took = Some(since.elapsed());
        }
    }

    pub fn partial(&self, text: &str) {
        if self.is_terminal {
            let width = usize::from(Term::stderr().size().1);
            let line = format!("you    {}", printable(text));
            self.write(&format!(
                "\r\x1b[K{}",
                Style::new().dim().for_stderr().apply_to(truncate_str(&line, width, "…"))
            ));
        }
    }

    pub fn user(&self, text: &str) {
        self.line("you", text);
    }

    pub fn agent(&mut self, text: &str) {
        match self.took.take() {
            Some(took) => self.line("agent", &format!("{text}  ({:.1} s)", took.as_secs_f64())),
            None => self.line("agent", text),
        }
    }

    pub fn error(&self, message: &str) {
        self.line("error", message);
    }

    fn line(&self, who: &str, text: &str) {
        let start = if self.is_terminal { "\r\x1b[K" } else { "" };
        self.write(&format!("{start}{who:6} {}\n", printable(text)));
    }

    fn write(&self, text: &str) {
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// The time of the last piece that is not silent.
fn last_sound(pieces: &[(Instant, f64)]) -> Option<Instant> {
    let loudest = pieces.iter().map(|(_, energy)| *energy).fold(0.0, f64::max);
    pieces.iter().rev().find(|(_, energy)| *energy > loudest * SILENCE).map(|(at, _)| *at)
}

/// A terminal would obey control characters.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_with_its_last_sound() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let pieces = [(at(0), 10.0), (at(20), 1e6), (at(40), 5e3), (at(60), 400.0)];
        assert_eq!(last_sound(&pieces), Some(at(40)));
        assert_eq!(last_sound(&[]), None);
    }

    #[test]
    fn control_characters_are_not_printed() {
        assert_eq!(printable("a\x1b[31mb\r\n"), "a[31mb");
    }
}
