//! Transcripts, live sessions, answers and speech, in the order in which data flows.
//!
//! - [`offline`]: a recording to a transcript.
//! - [`live`]: a live session: samples in, turns out.
//! - [`language`]: a conversation to an answer.
//! - [`speech`]: text to speech, as it is written.
//! - [`executors`]: the batch executors of all families, and of a device over them.
//! - `checkpoint`: a checkpoint folder of any family.
//! - [`stage_times`]: duration of each stage of a model.

pub(crate) mod checkpoint;
pub mod executors;
pub mod language;
pub mod live;
pub mod offline;
pub mod speech;
pub mod stage_times;
