//! Whisper speech recognition: all published sizes, and distilled checkpoints. See `README.md` beside this file.

mod align;
mod attention;
mod block_form;
mod config;
mod decoder;
mod decoding;
mod encoder;
mod forms;
mod model;
mod rounded;
mod sequence;
mod token_mask;
mod vocabulary;

pub use align::{median_filter, token_times, warp};
pub use block_form::{BlockForm, DecoderConfig, TokenTables};
pub use config::{Config, EncoderConfig, SAMPLES_PER_FRAME, ShortWindows, SpecialTokens};
pub use decoder::{Decoder, DecoderOutput, DecoderState, Scores, WindowAudio};
pub use decoding::{DecodeOptions, DecodedWindow, DecodingBatch, Task};
pub use encoder::{Block, Encoder};
pub use forms::Form;
pub use model::Whisper;
pub use sequence::{Previous, Segment};
pub use token_mask::{TokenRules, compression_ratio};
pub use vocabulary::{Vocabulary, WordTokens, words_of};
