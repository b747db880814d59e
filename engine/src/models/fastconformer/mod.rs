//! FastConformer speech recognition: the Parakeet, Nemotron streaming, Cohere Transcribe and Canary checkpoints. See `README.md` beside
//! this file.

mod attention;
mod config;
mod encoder;
mod model;
mod preprocessor;
mod transducer;

pub use config::{Class, Config, EncoderConfig};
pub use encoder::{Encoder, EncoderState};
pub use model::{Encoded, FastConformer, SearchState, Stream};
pub use preprocessor::{Preprocessor, front_end};
