//! Model families: one folder each.

mod confidence;
pub mod fastconformer;
pub mod silero;
pub mod whisper;

pub(crate) use confidence::{confidence, confidence_of};
