//! Model families, one folder each.

pub mod bert;
pub(crate) mod calibration;
pub mod decoder;
pub(crate) mod emission_delay;
pub mod fastconformer;
pub mod fastspeech2;
pub mod kokoro;
pub mod noise;
pub mod pocket_tts;
pub mod qwen3_asr;
pub mod silero;
pub mod smart_turn;
pub mod sortformer;
pub mod vocos;
pub mod voice;
pub mod whisper;
