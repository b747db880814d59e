//! Double talk: a caller's speech beside the echo.

use std::collections::VecDeque;

use super::frame::{SOUND, frames};
use super::opening::WAY;

/// Part of a frame's energy below which the rest of it is an echo's. Detectors may take it for speech, as quiet as it is.
const ECHO_LEFT: f32 = 0.01;

/// Sound that exceeds what the estimate is known to leave of the echo by this factor, 7 dB, is a caller's speech. It exceeds the echo as well.
const ABOVE_LEFT: f32 = 5.0;
/// Frames in which that echo may still be heard.
const REVERB: usize = frames(100);
/// Frames over which the residual is averaged: single ones stand out of an echo.
const AVERAGED: usize = frames(24);
/// Frames behind the last one that is loud enough, in which the end of a word may be too quiet; and those of them that count as speech.
const HANGOVER: usize = frames(200);
const COUNTED: usize = frames(80);
/// Mean energy of a frame that may be speech: -59 dB of full scale.
const LEAST_SPEECH: f32 = 1.3e-6;
/// Part of the echo, -4 dB, that the estimate leaves at most once it has been learned, and the frames of echo that tell so.
const CONVERGED: f32 = 0.4;
const LEAST_ECHO_FRAMES: usize = frames(400);
/// Weight of the frames before in the part that is left.
const SMOOTHING: f32 = 0.976;
/// Silence of the loudspeaker after which its echo may come with another delay, and sound with which the canceller has found that.
const LONG_SILENCE: usize = frames(500);
const SETTLED: usize = frames(400);
/// Part of what was heard, -10 dB, below which the estimate of an echo shows that there is none, in this many frames; and the frames of both
/// sides' sound in which an echo would have been found.
const NO_ESTIMATE: f32 = 0.1;
const ESTIMATED: usize = frames(500);
const FOUND: usize = frames(800);
/// Factor by which the subtraction of a wrong estimate raises the energy of this many frames: the way has changed.
const WRONG: f32 = 1.25;
const WRONG_FRAMES: usize = frames(120);

/// Mean energies of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Energies {
    /// Of the microphone's sound.
    pub heard: f32,
    /// Of the estimated echo.
    pub echo: f32,
    /// Of the rest that its subtraction leaves.
    pub left: f32,
    /// Of the rest that suppression leaves.
    pub suppressed: f32,
    /// Of the loudspeaker's sound.
    pub played: f32,
}

impl Energies {
    /// True if hardly anything was heard but echo, as suppression has it.
    pub fn is_echo(&self) -> bool {
        self.suppressed < ECHO_LEFT * self.heard
    }
}

/// Tells a caller's speech beside the echo. Suppression takes half of such speech for echo, but once the echo can be estimated, what its
/// subtraction leaves is either much less than the estimate, or speech.
#[derive(Debug, Default)]
pub struct DoubleTalk {
    /// The last frames.
    recent: VecDeque<Energies>,
    /// Smoothed energies of frames of echo: what was heard, and what was left.
    learned: [f32; 2],
    echo_frames: usize,
    /// Frames in which both sides sounded.
    both_sound: usize,
    /// Frames in which a word may go on.
    hangover: usize,
    /// Frames of silence of the loudspeaker.
    silence: usize,
    /// Frames of its sound until an echo is taken to come as late as before that silence.
    unsettled: usize,
}

impl DoubleTalk {
    /// Takes a frame.
    pub fn hear(&mut self, frame: Energies) {
        self.recent.push_front(frame);
        self.recent.truncate(ESTIMATED);
        self.settle(frame.played > SOUND);
        let [heard, left] = self.learned;
        let is_learned = self.echo_frames >= LEAST_ECHO_FRAMES && left < CONVERGED * heard;
        let part_left = left / heard.max(SOUND);
        self.both_sound += usize::from(frame.heard > SOUND && self.silence < WAY);
        let echo = self.recent.iter().take(REVERB).map(|frame| frame.echo).fold(0.0, f32::max);
        let echo_left = echo * (ABOVE_LEFT * part_left).max(1.0);
        let sum =
            |frames: usize, energy: fn(&Energies) -> f32| self.recent.iter().take(frames).map(energy).sum::<f32>();
        let is_wrong = sum(WRONG_FRAMES, |frame| frame.left) > WRONG * sum(WRONG_FRAMES, |frame| frame.heard);
        let has_none = !is_learned
            && self.both_sound >= FOUND
            && sum(ESTIMATED, |frame| frame.echo) < NO_ESTIMATE * sum(ESTIMATED, |frame| frame.heard);
        let can_tell = (is_learned || has_none) && !is_wrong && self.unsettled == 0;
        let average = sum(AVERAGED, |frame| frame.left) / AVERAGED as f32;
        let echo_left = if has_none { LEAST_SPEECH } else { echo_left.max(LEAST_SPEECH) };
        let speaks = can_tell && average > echo_left;
        if !speaks && frame.is_echo() && frame.heard > SOUND {
            let smooth = |before: f32, now: f32| SMOOTHING * before + (1.0 - SMOOTHING) * now;
            self.learned = [smooth(heard, frame.heard), smooth(left, frame.left)];
            self.echo_frames += 1;
        }
        self.hangover = match (speaks, can_tell) {
            (true, _) => HANGOVER,
            (false, true) => self.hangover.saturating_sub(1),
            (false, false) => 0,
        };
    }

    /// True if a caller speaks, or may have gone on to.
    pub fn may_speak(&self) -> bool {
        self.hangover > 0
    }

    /// True if a caller speaks.
    pub fn speaks(&self) -> bool {
        self.hangover > HANGOVER - COUNTED
    }

    /// Counts the loudspeaker's silence and the sound after it.
    fn settle(&mut self, sounds: bool) {
        if !sounds {
            self.silence += 1;
        } else if std::mem::take(&mut self.silence) >= LONG_SILENCE {
            self.unsettled = SETTLED;
        } else {
            self.unsettled = self.unsettled.saturating_sub(1);
        }
    }
}
