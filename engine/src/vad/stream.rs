//! Speech detection over a stream of samples, in constant memory.

use std::ops::Deref;

use super::segmenter::{SegmentationParameters, Segmenter, SpeechBoundary, SpeechSegment};
use crate::audio::AudioStream;
use crate::error::Result;
use crate::models::silero::{CHUNK, Silero, VadState};

/// Speech probabilities of one stream. `D` leads to the detector: a reference or a shared pointer.
#[derive(Debug)]
pub struct VadStream<D> {
    detector: D,
    memory: [VadState; 1],
    /// Samples of an incomplete chunk.
    pending: Vec<f32>,
}

impl<D: Deref<Target = Silero>> VadStream<D> {
    /// A stream without samples.
    pub fn new(detector: D) -> Self {
        Self { detector, memory: [VadState::default()], pending: Vec::new() }
    }

    /// Takes samples at 16 kHz; returns the speech probability, 0 to 1, of every chunk of [`CHUNK`] that they complete.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<f32>> {
        self.pending.extend_from_slice(samples);
        let whole = self.pending.len() / CHUNK * CHUNK;
        let probabilities = self.detector.probabilities(&[&self.pending[..whole]], &mut self.memory)?;
        self.pending.drain(..whole);
        Ok(probabilities.into_iter().flatten().collect())
    }

    /// Pads an incomplete last chunk with zeros and returns its probability.
    ///
    /// # Errors
    /// As [`VadStream::push`].
    pub fn finish(mut self) -> Result<Vec<f32>> {
        let missing = self.pending.len().next_multiple_of(CHUNK) - self.pending.len();
        self.push(&vec![0.0; missing])
    }
}

/// Speech segmentation of one stream: samples in, boundaries of speech out.
#[derive(Debug)]
pub struct SegmentStream<'a> {
    probabilities: VadStream<&'a Silero>,
    segmenter: Segmenter,
    samples: usize,
}

impl<'a> SegmentStream<'a> {
    /// A stream without samples.
    ///
    /// # Errors
    /// As [`Segmenter::new`].
    pub fn new(detector: &'a Silero, rules: SegmentationParameters) -> Result<Self> {
        Ok(Self { probabilities: VadStream::new(detector), segmenter: Segmenter::new(rules)?, samples: 0 })
    }

    /// Takes samples at 16 kHz; returns the boundaries that are now certain.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<SpeechBoundary>> {
        self.samples += samples.len();
        Ok(self.segmenter.push(&self.probabilities.push(samples)?))
    }

    /// Ends the audio and returns its last boundaries.
    ///
    /// # Errors
    /// As [`SegmentStream::push`].
    pub fn finish(mut self) -> Result<Vec<SpeechBoundary>> {
        let mut boundaries = self.segmenter.push(&self.probabilities.finish()?);
        boundaries.extend(self.segmenter.finish(self.samples));
        Ok(boundaries)
    }
}

/// Reads audio to its end and returns its segments of speech.
///
/// # Errors
/// Errors of decoding and of the device; as [`Segmenter::new`] for the rules.
pub fn speech(detector: &Silero, audio: &mut AudioStream, rules: SegmentationParameters) -> Result<Vec<SpeechSegment>> {
    let mut stream = SegmentStream::new(detector, rules)?;
    let mut boundaries = Vec::new();
    while let Some(block) = audio.next_block()? {
        boundaries.extend(stream.push(&block)?);
    }
    boundaries.extend(stream.finish()?);
    Ok(SpeechSegment::between(&boundaries))
}
