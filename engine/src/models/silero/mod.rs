//! Voice activity detection in the silero form. See `README.md` beside this file.

mod front;
mod memory;
mod model;

pub use memory::VadState;
pub use model::Silero;

/// Samples of a chunk, 32 ms at 16 kHz: the detector returns one probability of speech for each.
pub const CHUNK: usize = 512;

/// Samples of context before a chunk.
const CONTEXT: usize = 64;
/// Width of the encoded chunk and of the recurrent state.
const HIDDEN: usize = 128;
