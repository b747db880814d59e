//! Model families, one folder each.

pub mod bert;
pub mod decoder;
pub mod fastconformer;
pub mod silero;
pub mod voice;
pub mod whisper;
