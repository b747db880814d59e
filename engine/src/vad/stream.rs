//! Where somebody speaks: the detector over a stream of samples, in constant memory.

use super::segmenter::{Edge, Segment, SegmentationParameters, Segmenter};
use crate::audio::AudioStream;
use crate::error::Result;
use crate::models::silero::{CHUNK, Silero, VadState};

/// The detector's view of one stream.
#[derive(Debug)]
pub struct VadStream<'a> {
    detector: &'a Silero,
    memory: [VadState; 1],
    /// Samples that do not fill a chunk yet.
    pending: Vec<f32>,
}

impl<'a> VadStream<'a> {
    /// Before the first sample.
    pub fn new(detector: &'a Silero) -> Self {
        Self { detector, memory: [VadState::default()], pending: Vec::new() }
    }

    /// Takes samples at 16 kHz; gives the chance of speech, 0 to 1, of every chunk of [`CHUNK`] that they complete.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<f32>> {
        self.pending.extend_from_slice(samples);
        let whole = self.pending.len() / CHUNK * CHUNK;
        let chances = self.detector.chances(&[&self.pending[..whole]], &mut self.memory)?;
        self.pending.drain(..whole);
        Ok(chances.into_iter().flatten().collect())
    }

    /// The last chunk's chance, filled up with zeros, if samples are left.
    ///
    /// # Errors
    /// As [`VadStream::push`].
    pub fn finish(mut self) -> Result<Vec<f32>> {
        let missing = self.pending.len().next_multiple_of(CHUNK) - self.pending.len();
        self.push(&vec![0.0; missing])
    }
}

/// Live speech detection: samples in, boundaries of speech out.
#[derive(Debug)]
pub struct SegmentStream<'a> {
    listener: VadStream<'a>,
    segmenter: Segmenter,
    samples: usize,
}

impl<'a> SegmentStream<'a> {
    /// Before the first sample.
    ///
    /// # Errors
    /// As [`Segmenter::new`].
    pub fn new(detector: &'a Silero, rules: SegmentationParameters) -> Result<Self> {
        Ok(Self { listener: VadStream::new(detector), segmenter: Segmenter::new(rules)?, samples: 0 })
    }

    /// Takes samples at 16 kHz; gives the boundaries that are now certain.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<Edge>> {
        self.samples += samples.len();
        Ok(self.segmenter.push(&self.listener.push(samples)?))
    }

    /// The end of the audio: the boundaries that were open.
    ///
    /// # Errors
    /// As [`SegmentStream::push`].
    pub fn finish(mut self) -> Result<Vec<Edge>> {
        let mut edges = self.segmenter.push(&self.listener.finish()?);
        edges.extend(self.segmenter.finish(self.samples));
        Ok(edges)
    }
}

/// The stretches of speech in audio, read to its end.
///
/// # Errors
/// What decoding or the device reports; as [`Segmenter::new`] for the rules.
pub fn speech(detector: &Silero, audio: &mut AudioStream, rules: SegmentationParameters) -> Result<Vec<Segment>> {
    let mut stream = SegmentStream::new(detector, rules)?;
    let mut edges = Vec::new();
    while let Some(block) = audio.next_block()? {
        edges.extend(stream.push(&block)?);
    }
    edges.extend(stream.finish()?);
    Ok(Segment::between(&edges))
}
