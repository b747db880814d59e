//! Live transcription: samples in as they are spoken, turns of text out while they are spoken.
//!
//! - [`session`]: the two halves that a caller holds, samples in and events out.
//! - `turns`: tokens of a turn to partials and finals.
//! - `second_pass`: turns read again by an offline model, or by it alone.
//! - `agreement`: the words on which readings of a turn agree.
//! - `reading`: a window on its way through an offline model.
//! - `alarm`: wakes tasks at given times.

mod agreement;
mod alarm;
mod reading;
mod second_pass;
pub mod session;
mod turns;

pub use turns::{Caption, LiveEvent, LiveOutput};
