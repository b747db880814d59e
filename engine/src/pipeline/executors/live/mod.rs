//! Live streams: a chunk of audio in, tokens out, with the state of each stream between steps.
//!
//! - `executor`: the steps of all live streams.
//! - `slot`: the state of one stream between steps.
//! - `judge`: questions to the turn detector.
//! - `turn_windows`: the audio of turns for their second pass.
//! - [`backlog`]: the audio that waits for the device.

pub mod backlog;
mod executor;
mod judge;
mod slot;
mod turn_windows;

pub use executor::{LiveBatchKey, LiveExecutor};
pub use slot::{LiveAudio, LiveRequest, StepOutput, TurnQuestion};
pub use turn_windows::TurnWindow;
