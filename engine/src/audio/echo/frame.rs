//! Frames of the canceller.

use crate::audio::SAMPLE_RATE;

/// Samples of a block of the canceller, 4 ms.
pub const BLOCK: usize = 64;
/// Samples of a frame of the microphone, 8 ms.
pub const FRAME: usize = 2 * BLOCK;
/// Frames a second.
pub const FRAMES: u32 = SAMPLE_RATE / FRAME as u32;

/// Mean energy of a frame of the loudspeaker that counts as sound: -60 dB of full scale.
pub const SOUND: f32 = 1e-6;

/// Frames of a time, ms.
pub const fn frames(ms: usize) -> usize {
    ms * FRAMES as usize / 1000
}
