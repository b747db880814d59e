//! The mels that a vocoder takes at a time.

/// The next mels of an utterance.
#[derive(Clone, Copy, Debug)]
pub struct MelChunk<'a> {
    /// Log-mels, `[frames][mels]`.
    pub mels: &'a [f32],
    /// The utterance ends with them.
    pub is_last: bool,
}
