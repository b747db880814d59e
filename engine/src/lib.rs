//! Auricle's speech engine: audio in, structured text out; text in, speech out.
//!
//! ```no_run
//! use auricle_engine::{Engine, EngineOptions, TranscribeOptions};
//!
//! # async fn example() -> auricle_engine::Result<()> {
//! let engine = Engine::open(EngineOptions::default())?;
//! let transcript = engine
//!     .transcribe_file("talk.mp3", &TranscribeOptions::default().language("en"))
//!     .on_progress(|progress| eprintln!("{:.0} s", progress.audio_s))
//!     .await?;
//! for word in &transcript.words {
//!     println!("{:>6} ms  {}", word.start, word.text);
//! }
//! # Ok(()) }
//! ```
//!
//! [`Engine`]'s calls are awaited, on any asynchronous runtime; those of [`blocking::Engine`] block. `engine/examples/` has a
//! program for a file, for many files, for a microphone, and a web service.
//!
//! # Features
//!
//! - `wgpu` (default), `vulkan` (SPIR-V kernels), `metal`: GPUs. Without any, the engine computes on the CPU.
//! - `unstable`: makes the inner modules public, for tests and benchmarks. They change without notice.
//!
//! # Layout
//!
//! A module uses those below it, and none above it.
//!
//! - `engine`: the engine with calls that are awaited.
//! - [`blocking`]: the engine with calls that block; it holds a device and the models on it.
//! - `pipeline`: recordings and live sessions, in the order in which data flows.
//! - `options`, `chat`, `speech`, `transcript`: options and results.
//! - [`converse`]: a spoken conversation: turns, interruptions, replies, tools.
//! - `scheduler`: the worker thread of a device, and the batches that it runs.
//! - `speakers`: speaker labels: windows, clustering, words to speakers.
//! - `vad`: voice activity: segments, endpointing, chunking, the speech filter.
//! - `models`: model families, one folder each.
//! - `decoding`: scores to tokens: greedy and beam search, fusion, biasing.
//! - `text`: words and spans in, words and spans out.
//! - `layers`, `weights`: layers that families share, and the files that their weights come from.
//! - `audio`: files to samples, as a stream.
//! - `catalog`, `device`, `load_once`: the models folder, the device, files that are read once.
//! - `error`, `language`, `memory`: the one error type, language codes, the machine's memory.

// Without `unstable`, some of what tests use has no user.
#![cfg_attr(not(feature = "unstable"), allow(dead_code, unused_imports))]

pub mod audio;
pub mod blocking;
mod catalog;
mod chat;
pub mod converse;
mod decoding;
mod device;
mod engine;
mod error;
pub mod language;
mod layers;
mod load_once;
mod memory;
mod models;
mod options;
mod pipeline;
mod scheduler;
mod speakers;
mod speech;
mod text;
mod transcript;
mod vad;
mod weights;

/// The inner modules, for tests and benchmarks. They change without notice.
#[cfg(feature = "unstable")]
#[doc(hidden)]
pub mod unstable {
    macro_rules! inner_modules {
        ($($name:ident)*) => { $(
            #[doc = concat!("`", stringify!($name), "`, whole.")]
            pub mod $name {
                pub use crate::$name::*;
            }
        )* };
    }

    inner_modules! { decoding device layers models pipeline scheduler speakers text vad weights }
}

pub use auricle_kernels::product::gemv::Precision;
pub use auricle_kernels::vulkan_layers::disable_mesa_device_select;
pub use blocking::{
    check_detector, check_diarizer, check_model, check_tagger, check_turn_detector, check_voice, load_tagger,
    speaker_embedding,
};
pub use catalog::{
    Catalog, CatalogDetector, CatalogDiarizer, CatalogLanguageModel, CatalogModel, CatalogSize, CatalogTagger,
    CatalogTurnDetector, CatalogVoice, SelectedCheckpoint, WordErrorRate,
};
pub use chat::{
    ChatEnd, ChatEvent, ChatFormat, ChatMessage, ChatOptions, ChatRole, ChatTool, ChatToolCall, ChatToolChoice,
    ChatUsage, FinishReason,
};
pub use decoding::fusion::FusionWeights;
pub use decoding::keyterms::Keyterm;
pub use device::{DeviceChoice, DeviceInfo, DeviceKind, devices};
pub use engine::{Engine, Transcription};
pub use error::{Error, Result};
pub use memory::available as available_memory;
pub use options::{
    EngineOptions, LanguageModelChoice, ListenOptions, SAMPLE_RATES, SecondPass, SpeakerLabels, TaggerChoice,
    TranscribeOptions, TurnDetectorChoice, models_dir,
};
pub use pipeline::language::ChatReply;
pub use pipeline::live::session::{LiveEvents, LiveInput, MAX_AHEAD_MS};
pub use pipeline::live::{Caption, LiveEvent, LiveOutput};
pub use pipeline::speech::session::{SpeechFrames, SpeechInput};
pub use pipeline::stage_times::StageTimes;
pub use speech::{ClonedVoice, SPEECH_FRAME, SPEECH_RATE, SPEEDS, SpeakOptions, SpeechFrame, SpokenWord, VoiceInfo};
pub use text::itn::numbers_in_text;
pub use text::{Word, analysis, documents, extractive, search, search_tokens, segments, subtitles};
pub use transcript::{KnownSpeaker, ModelReport, Progress, Transcript, Utterance, VoiceProfile};
pub use vad::endpointer::EndpointingRules;

/// Compiles the README's examples with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
