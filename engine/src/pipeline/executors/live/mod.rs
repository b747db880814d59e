//! Live streams: a chunk of audio in, tokens out, with the state of each stream between steps.
//!
//! - `executor`: the steps of all live streams.
//! - `slot`: the state of one stream between steps.
//! - `judge`: questions to the turn detector.
//! - [`backlog`]: the audio that waits for the device.

pub mod backlog;
mod executor;
mod judge;
mod slot;

pub use executor::{LiveBatchKey, LiveExecutor};
pub use slot::{LiveAudio, LiveRequest, OtherTokens, StepOutput, TurnQuestion};
