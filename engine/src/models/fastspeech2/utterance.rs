//! Input and output of an acoustic model.

/// An utterance to say.
#[derive(Clone, Copy, Debug)]
pub struct Utterance<'a> {
    /// Numbers of the vocabulary, at least one.
    pub symbols: &'a [usize],
    /// Number of the voice.
    pub voice: usize,
    /// From slow to fast; 1 as the voice was trained.
    pub speed: f32,
}

/// How an utterance sounds.
#[derive(Clone, Debug, PartialEq)]
pub struct MelFrames {
    /// Log-mels, `[frames][mels]`.
    pub mels: Vec<f32>,
    /// Frames of each symbol.
    pub durations: Vec<usize>,
}

/// Values between symbols and mels, for the numeric tests.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Stages {
    /// `[symbols, hidden]`, with the voice.
    pub encoded: Vec<f32>,
    /// `[symbols]` each.
    pub log_durations: Vec<f32>,
    pub pitch: Vec<f32>,
    pub energy: Vec<f32>,
}
