//! Convolutions over frames.
//!
//! - [`dense`]: of all channels, over the frames of an utterance
//! - [`depthwise`]: channel by channel, as in a conformer
//! - [`stream`]: of all channels, causal, over the frames of many streams in rings

pub mod dense;
pub mod depthwise;
pub mod stream;
