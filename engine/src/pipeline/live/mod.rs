//! Live transcription: samples in as they are spoken, turns of text out while they are spoken.
//!
//! - [`session`]: the two halves that a caller holds, samples in and events out.
//! - `backlog`: the audio that waits for the device.
//! - `executor`: the steps of all live streams.
//! - `slot`: the state of one stream between steps.
//! - `turns`: tokens of a turn to partials and finals.

mod backlog;
mod executor;
pub mod session;
mod slot;
mod turns;

pub(crate) use executor::{LiveBatchKey, LiveExecutor};
pub(crate) use slot::{LiveAudio, LiveRequest, StepOutput};
pub use turns::{Caption, LiveEvent};
