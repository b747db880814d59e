//! FastConformer speech recognition: the Parakeet and Nemotron streaming checkpoints. See `README.md` beside this file.

mod attention;
mod config;
mod decode;
mod encoder;
mod model;
mod subsampling;
mod transducer;

pub use config::{Class, Config, EncoderConfig};
pub use decode::Token;
pub use encoder::{Encoder, EncoderState};
pub use model::{FastConformer, Stream};
