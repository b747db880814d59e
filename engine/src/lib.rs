//! Auricle's speech engine: audio in, structured text out.
//!
//! ```no_run
//! use auricle_engine::{Engine, EngineOptions, TranscribeOptions, audio::AudioStream};
//!
//! fn main() -> auricle_engine::Result<()> {
//!     let engine = Engine::open(EngineOptions::default())?;
//!     let audio = AudioStream::open("talk.mp3".as_ref())?;
//!     let transcript = engine.transcribe(audio, &TranscribeOptions::default(), &mut |progress| {
//!         eprintln!("{:.0} s", progress.audio_s);
//!         std::ops::ControlFlow::Continue(())
//!     })?;
//!     for word in &transcript.words {
//!         println!("{:>6} ms  {}", word.start, word.text);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Layout
//!
//! A module uses those below it, and none above it.
//!
//! - `engine`: the engine itself, which holds a device and the models on it.
//! - [`pipeline`]: recordings and live sessions, in the order in which data flows.
//! - `options`, `transcript`: options and results.
//! - [`scheduler`]: the worker thread of a device, and the batches that it runs.
//! - [`vad`]: voice activity: segments, endpointing, chunking, the speech filter.
//! - [`models`]: model families, one folder each.
//! - [`decoding`]: scores to tokens: greedy and beam search, fusion, biasing.
//! - [`text`]: words and spans in, words and spans out.
//! - [`layers`], [`weights`]: layers that families share, and the files that their weights come from.
//! - [`audio`]: files to samples, as a stream.
//! - [`catalog`], [`device`]: the models folder, the device.
//! - [`error`], [`language`]: the one error type, language codes.

pub mod audio;
pub mod catalog;
pub mod decoding;
pub mod device;
mod engine;
pub mod error;
pub mod language;
pub mod layers;
pub mod models;
mod options;
pub mod pipeline;
pub mod scheduler;
pub mod text;
mod transcript;
pub mod vad;
pub mod weights;

pub use auricle_kernels::gemv::Precision;
pub use catalog::{Catalog, CatalogDetector, CatalogModel, CatalogSize, WordErrorRate};
pub use decoding::fusion::FusionWeights;
pub use device::{DeviceChoice, DeviceInfo, DeviceKind, devices};
pub use engine::{Engine, check_detector, check_model};
pub use error::{Error, Result};
pub use options::{EngineOptions, LanguageModelChoice, ListenOptions, SAMPLE_RATES, TranscribeOptions, models_dir};
pub use pipeline::live::session::{LiveEvents, LiveInput};
pub use pipeline::live::{Caption, LiveEvent};
pub use pipeline::stage_times::StageTimes;
pub use text::Word;
pub use transcript::{ModelReport, Progress, Transcript};
pub use vad::endpointer::EndpointingRules;

/// Compiles the README's examples with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
