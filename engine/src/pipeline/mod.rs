//! Transcripts, live sessions, answers and speech, in the order in which data flows.
//!
//! - [`offline`]: a recording to a transcript.
//! - [`live`]: a live session: samples in, turns out.
//! - [`language`]: a conversation to an answer.
//! - [`speech`]: text to speech, as it is written.
//! - `executor`: the batch executor of a device, over the executors of all families.
//! - `checkpoint`: a checkpoint folder of any family.
//! - `groups`: streams of a FastConformer checkpoint that can share a step.
//! - [`stage_times`]: duration of each stage of a model.

pub(crate) mod checkpoint;
pub(crate) mod executor;
pub(crate) mod groups;
pub mod language;
pub mod live;
pub mod offline;
pub mod speech;
pub mod stage_times;
