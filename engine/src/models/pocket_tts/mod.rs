//! Text to speech in the form of Pocket TTS and Phonon. See `README.md` beside this file.

mod backbone;
mod codec;
mod codec_config;
mod config;
mod draw;
mod embeddings;
mod encoder;
mod flow;
mod gpu;
mod model;
mod names;
mod network;
mod text;
mod transformer;

pub use codec::{Codec, CodecState};
pub use codec_config::CodecConfig;
pub use config::Config;
pub use draw::SequenceOptions;
pub use encoder::{Encoder, ending_on_pause, fingerprint};
pub use gpu::{GpuNetwork, Spoken};
pub use model::{Frame, PocketTts, Utterance, Voice, voice_ids, voice_path};
pub use network::{Latent, Network, Prefix, Sequence};
pub use text::PreparedText;
