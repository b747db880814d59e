//! Services, clients, fixtures and oracles for the tests.

mod agent;
pub mod arrows;
mod browser;
mod bucket;
pub mod chat_replies;
mod client;
mod disk;
mod faketime;
mod faulty_agent;
mod forwarder;
mod guard;
pub mod hub;
pub mod launches;
mod live;
mod mail;
mod media;
mod openid;
mod optional;
mod oracle;
mod postgres;
mod program;
mod published;
mod published_diarizer;
mod receiver;
mod service;
#[cfg(target_os = "linux")]
mod sound_server;
mod turn_detector;
mod visitor;
mod voices;
pub mod wire;

pub use agent::{Call, Reply as AgentReply, Said};
pub use browser::Browser;
pub use bucket::Bucket;
pub use client::{Account, Answer, Signed, block_on, http, http2};
pub use disk::SmallDisk;
pub use faketime::Clock;
pub use faulty_agent::{Fault, FaultyAgent};
pub use forwarder::Forwarder;
pub use live::{Frame, Live, Token, TranscriptFrame, TranscriptWord, Turn, text_of, turns};
pub use mail::MailServer;
pub use media::{long_reading, noise, pcm, readers, silence, spoken, two_readers, wav, wav_of};
pub use openid::OpenIdProvider;
pub use optional::{devices, fixtures, repository, skip};
pub use oracle::{Oracle, relative_error, with_config, with_json, without_tensors};
pub use postgres::Postgres;
pub use program::{
    Run, arpa, auricle, binary, command, command_of, ended, models, models_with, models_with_detector,
    models_with_diarizer, speech, tiny_models,
};
pub use published::{write_published_size, write_streaming_size};
pub use published_diarizer::{DIARIZER_BLOCKS, write_diarizer_size};
pub use receiver::{Delivery, Gate, Receiver, Reply};
pub use service::{Service, Setup, eventually, unique, write_talking_models};
#[cfg(target_os = "linux")]
pub use sound_server::{Recording, SoundServer};
pub use turn_detector::{Verdict, turn_detector};
pub use visitor::{PASSWORD, Visitor};
pub use voices::{tiny_voice, write_clause_voice, write_frame_voice, write_tiny_voice};
