//! The loudspeaker's first seconds: tells whether the microphone hears it at all.

use std::collections::VecDeque;

use super::frame::{SOUND, frames};

/// Frames of the loudspeaker's first sound in which the microphone's level shows whether it hears it at all: the longest way, and some more.
pub const OPENING: usize = frames(900);
/// Frames of the loudspeaker's sound after which the canceller has learned that there is no echo. Before, it takes a caller's speech for one.
const LEARNED: usize = frames(9_000);
/// Frames after which the loudspeaker's sound has been heard.
pub const WAY: usize = frames(600);
/// Part of the loudspeaker's energy, -34 dB, below which a microphone in the opening has no echo that a canceller is needed for. At -26 dB
/// the words of an echo beside a listener's "yeah" become others.
const NO_ECHO: f32 = 4e-4;
/// The least part of the loudspeaker's energy that counts as its echo, -40 dB.
const LEAST_ECHO: f32 = 1e-4;
/// Sound that exceeds the expected echo's energy by this factor, 6 dB, is no echo.
const ABOVE_ECHO: f32 = 4.0;

/// Tells in the loudspeaker's first seconds whether the microphone hears it. A headset or a telephone does not, and the canceller, which has
/// learned nothing yet, would take out its caller's speech.
#[derive(Debug, Default)]
pub struct Opening {
    /// Energies of the loudspeaker's last frames.
    recent: VecDeque<f32>,
    /// Frames since its first sound in which it sounded.
    sounded: usize,
    /// The largest energies of a frame of the microphone and of the loudspeaker in the opening.
    peaks: [f32; 2],
}

impl Opening {
    /// Takes a frame of both. If the canceller is not needed: true for echo, false for a caller.
    pub fn hear(&mut self, heard: f32, played: f32) -> Option<bool> {
        self.recent.push_back(played);
        if self.recent.len() > WAY {
            self.recent.pop_front();
        }
        let loudest = self.recent.iter().copied().fold(0.0, f32::max);
        let sounds = loudest > SOUND;
        self.sounded += usize::from(sounds);
        if self.sounded <= OPENING {
            if sounds {
                self.peaks = [self.peaks[0].max(heard), self.peaks[1].max(played)];
            }
            return None;
        }
        // Of the loudspeaker's energy, what the microphone has heard at most.
        let part = self.peaks[0] / self.peaks[1].max(SOUND);
        let is_trusted = self.sounded <= LEARNED && part < NO_ECHO;
        is_trusted.then(|| sounds && heard < ABOVE_ECHO * part.max(LEAST_ECHO) * loudest)
    }

    /// The loudspeaker has sounded before the microphone's first sound: its client sends sound only while somebody speaks.
    pub fn skip(&mut self) {
        self.sounded = self.sounded.max(OPENING);
    }
}
