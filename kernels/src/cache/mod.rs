//! State that the streams of a batch keep from step to step, each stream in a slot of a tensor.
//!
//! - [`ring`]: the last frames, which stay in their columns
//! - [`state`]: the last columns, which move up

pub mod ring;
pub mod state;
