//! Pieces of a recording that are recognised by themselves, with the speech that is in them.

use std::ops::Range;

use super::shared::SharedVad;
use super::speech_filter::{SpeechFilter, SpeechSpans};
use crate::audio::SAMPLE_RATE;
use crate::error::Result;
use crate::models::silero::CHUNK;

/// Samples in a millisecond.
const MS: usize = SAMPLE_RATE as usize / 1000;

/// A piece of audio that is recognised by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Time of the first sample, ms from the start of the audio.
    pub start_ms: u64,
    /// `[samples]` at 16 kHz.
    pub samples: Vec<f32>,
    /// Overlap with the window before, ms; 0 after a pause.
    pub overlap_ms: u64,
    /// With a detector: distance of its first chunk ahead of the window, samples, and the speech probabilities.
    pub(super) probabilities: Option<(usize, Vec<f32>)>,
}

impl Window {
    /// Length of the audio, ms.
    pub fn length_ms(&self) -> u64 {
        (self.samples.len() / MS) as u64
    }

    /// The place of the window, without samples, and the window by itself, whose first sample is at 0 ms.
    pub fn apart(self) -> (Self, Self) {
        let place = Self { samples: Vec::new(), probabilities: None, ..self };
        (place, Self { start_ms: 0, overlap_ms: 0, ..self })
    }

    /// Keeps at most the first `samples` samples.
    pub fn truncate(&mut self, samples: usize) {
        if samples < self.samples.len() {
            self.samples.truncate(samples);
            if let Some((before, probabilities)) = &mut self.probabilities {
                probabilities.truncate((*before + samples) / CHUNK);
            }
        }
    }

    /// The part of the window in a range of its samples. It overlaps with no window.
    pub fn part(&self, range: Range<usize>) -> Self {
        let range = range.start.min(range.end)..range.end.min(self.samples.len());
        let probabilities = self.probabilities.as_ref().map(|(before, probabilities)| {
            let from = *before + range.start;
            let to = (*before + range.end).div_ceil(CHUNK).min(probabilities.len());
            (from % CHUNK, probabilities[(from / CHUNK).min(to)..to].to_vec())
        });
        Self {
            start_ms: self.start_ms + (range.start / MS) as u64,
            samples: self.samples[range].to_vec(),
            overlap_ms: 0,
            probabilities,
        }
    }

    /// True if a detector has heard the window.
    pub fn has_detector(&self) -> bool {
        self.probabilities.is_some()
    }

    /// The window's spans of speech.
    ///
    /// # Errors
    /// As [`SpeechFilter::new`].
    pub fn speech(&self) -> Result<SpeechSpans> {
        match &self.probabilities {
            Some((before, probabilities)) => {
                SpeechSpans::from_probabilities(probabilities, *before, self.samples.len())
            }
            None => {
                let mut filter = SpeechFilter::new(None)?;
                filter.push(&self.samples)?;
                filter.finish()
            }
        }
    }
}

/// Buffered samples of a stream, and their speech probabilities.
#[derive(Debug)]
pub(super) struct BufferedAudio {
    buffer: Vec<f32>,
    /// Position of the buffer's first sample in the stream.
    start: usize,
    vad: Option<SharedVad>,
    /// Speech probabilities from the chunk in which the buffer begins; none without a detector.
    probabilities: Option<Vec<f32>>,
}

impl BufferedAudio {
    pub fn new(detector: Option<SharedVad>) -> Self {
        let probabilities = detector.as_ref().map(|_| Vec::new());
        Self { buffer: Vec::new(), start: 0, vad: detector, probabilities }
    }

    /// For samples that come with the probabilities of their chunks: [`BufferedAudio::push_chunk`].
    pub fn of_chunks() -> Self {
        Self { buffer: Vec::new(), start: 0, vad: None, probabilities: Some(Vec::new()) }
    }

    /// Number of samples in the buffer.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Position of the buffer's first sample in the stream.
    pub fn start(&self) -> usize {
        self.start
    }

    /// The first samples of the buffer.
    pub fn samples(&self, length: usize) -> &[f32] {
        &self.buffer[..length]
    }

    /// Takes samples.
    pub fn push(&mut self, samples: &[f32]) -> Result<()> {
        if let (Some(vad), Some(probabilities)) = (&mut self.vad, &mut self.probabilities) {
            probabilities.extend(vad.push(samples)?);
        }
        self.buffer.extend_from_slice(samples);
        Ok(())
    }

    /// Takes the samples of a chunk and its speech probability.
    pub fn push_chunk(&mut self, samples: impl Iterator<Item = f32>, probability: f32) {
        self.probabilities.get_or_insert_default().push(probability);
        self.buffer.extend(samples);
    }

    /// Ends the stream.
    pub fn finish(&mut self) -> Result<()> {
        if let (Some(vad), Some(probabilities)) = (self.vad.take(), &mut self.probabilities) {
            probabilities.extend(vad.finish()?);
        }
        Ok(())
    }

    /// The probabilities of the chunks that end within the buffer's first `samples`, even if more are known: windows
    /// must not depend on the size of pushes. At the end of the stream an incomplete last chunk counts too.
    pub fn probabilities(&self, samples: usize) -> Option<&[f32]> {
        let probabilities = self.probabilities.as_ref()?;
        let at_end = self.vad.is_none() && samples == self.buffer.len();
        let whole = (self.start % CHUNK + samples) / CHUNK;
        Some(if at_end { probabilities } else { &probabilities[..whole.min(probabilities.len())] })
    }

    /// A window of the buffer's first samples, of which `overlap` overlap with the window before.
    pub fn window(&self, length: usize, overlap: usize) -> Window {
        Window {
            start_ms: (self.start / MS) as u64,
            samples: self.buffer[..length].to_vec(),
            overlap_ms: (overlap / MS) as u64,
            probabilities: self.probabilities(length).map(|probabilities| (self.start % CHUNK, probabilities.to_vec())),
        }
    }

    /// Drops the first samples of the buffer.
    pub fn advance(&mut self, samples: usize) {
        if let Some(probabilities) = &mut self.probabilities {
            let whole = (self.start + samples) / CHUNK - self.start / CHUNK;
            probabilities.drain(..whole.min(probabilities.len()));
        }
        self.buffer.drain(..samples);
        self.start += samples;
    }
}
