//! The batch executors: one for each family of models, and one for a device over all of them.
//!
//! - `device`: the executor of a device.
//! - `live`: live streams of a transducer.
//! - `transducer`: recordings by a transducer.
//! - `whisper`: recordings by Whisper.
//! - `qwen3_asr`: recordings by Qwen3-ASR.
//! - `voice`: speaker embeddings.
//! - `diarizer`: the activity of speakers.
//! - [`language`]: answers of language models.
//! - `speech`: speech synthesis.
//! - `second_pass`: windows of live turns, read by an offline model.
//! - `groups`: streams of a FastConformer checkpoint that can share a step.
//! - `shares`: places of a batch, dealt to the streams in turn, and what of a batch is computed together.

pub(crate) mod device;
pub(crate) mod diarizer;
pub(crate) mod groups;
pub mod language;
pub(crate) mod live;
pub(crate) mod qwen3_asr;
pub(crate) mod second_pass;
mod shares;
pub(crate) mod speech;
pub(crate) mod transducer;
pub(crate) mod voice;
pub(crate) mod whisper;
