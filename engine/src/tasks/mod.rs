//! What a user asks for, in the order in which data flows.

pub mod activity;
pub mod fusion;
pub mod keyterms;
pub mod listen;
pub mod measure;
pub mod silence;
pub mod transcribe;
pub mod windows;
