//! Live transcription: samples in as they are spoken, turns of text out while they are spoken.
//!
//! - [`session`]: the two halves that a caller holds, samples in and events out.
//! - `turns`: tokens of a turn to partials and finals.

pub mod session;
mod turns;

pub use turns::{Caption, LiveEvent};
