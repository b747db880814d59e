//! FastConformer speech recognition: the Parakeet and Nemotron streaming checkpoints. See `README.md` beside this file.

mod beam;
mod config;
mod decode;
mod encoder;
mod model;
mod prefix;
mod transducer;

pub use beam::Beam;
pub use config::{Class, Config, EncoderConfig};
pub use decode::{Search, Token};
pub use encoder::{Encoder, EncoderState};
pub use model::{Encoded, FastConformer, Searching, Stream};
