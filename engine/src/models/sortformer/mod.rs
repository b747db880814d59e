//! Diarization in the form of Sortformer: audio to the activity of each speaker. See `README.md` beside this file.

mod config;
mod encoder;
mod model;
mod speaker_cache;
mod stream;

pub use config::{Chunking, Config, MODEL_TYPE};
pub use model::{Sortformer, StartedStep};
pub use speaker_cache::{CachePolicy, frames_moved, pool};
pub use stream::{Scored, SpeakerStream, Step};
