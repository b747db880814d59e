//! What a user asks for, in the order in which data flows.

pub mod activity;
pub(crate) mod checkpoint;
pub mod fusion;
pub(crate) mod groups;
pub mod keyterms;
pub mod listen;
pub mod measure;
pub(crate) mod recordings;
pub mod silence;
pub(crate) mod streams;
pub mod transcribe;
pub(crate) mod utterances;
pub mod windows;
pub(crate) mod write;
