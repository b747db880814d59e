//! Samples of a recording to windows of its speech, in constant memory.

use std::ops::Range;

use auricle_kernels::spectral::logmel::LogMelStream;

use super::windows::{self, LENGTH};
use crate::audio::SAMPLE_RATE;
use crate::error::Result;
use crate::models::silero::CHUNK;
use crate::vad::segmenter::{SegmentationParameters, Segmenter, SpeechBoundary};
use crate::vad::shared::SharedVad;

/// Samples of a frame: 10 ms.
const FRAME: usize = SAMPLE_RATE as usize / 100;
/// Speech without a pause is cut after so many frames, so that what is kept of it stays small.
const LONGEST: usize = 3000;
/// Frames before detected speech that are kept, because its start is detected late.
const KEPT: usize = 300;
/// A chunk is speech where there is no detector if its root mean square is above this: -65 dB of full scale.
const SILENCE_RMS: f32 = 5.6e-4;
/// Short answers count.
const PARAMETERS: SegmentationParameters =
    SegmentationParameters { on: 0.5, off: 0.35, least_speech_ms: 160, least_silence_ms: 150, padding_ms: 0 };

/// A window of speech with its mel rows.
#[derive(Clone, Debug, PartialEq)]
pub struct HeardWindow {
    /// `[frames, mels]`.
    pub mels: Vec<f32>,
    /// The frames of 10 ms that its speaker is said of.
    pub decided: Range<usize>,
}

/// Finds the windows of one recording.
pub struct Listener {
    detector: Detector,
    segmenter: Segmenter,
    samples: usize,
    stream: LogMelStream,
    bands: usize,
    /// Mel rows from frame `first` on.
    rows: Vec<f32>,
    first: usize,
    /// First frame of the speech that goes on.
    speaking: Option<usize>,
}

/// Speech probabilities of a stream.
enum Detector {
    Silero(SharedVad),
    /// By level: samples of an incomplete chunk.
    Level(Vec<f32>),
}

impl Detector {
    fn push(&mut self, samples: &[f32]) -> Result<Vec<f32>> {
        match self {
            Self::Silero(stream) => stream.push(samples),
            Self::Level(pending) => {
                pending.extend_from_slice(samples);
                let whole = pending.len() / CHUNK * CHUNK;
                let loud = |chunk: &[f32]| {
                    let power = chunk.iter().map(|s| s * s).sum::<f32>() / CHUNK as f32;
                    f32::from(u8::from(power.sqrt() > SILENCE_RMS))
                };
                let found = pending[..whole].chunks_exact(CHUNK).map(loud).collect();
                pending.drain(..whole);
                Ok(found)
            }
        }
    }

    fn finish(self) -> Result<Vec<f32>> {
        match self {
            Self::Silero(stream) => stream.finish(),
            Self::Level(_) => Ok(Vec::new()),
        }
    }
}

impl Listener {
    /// A recording without samples; `stream` makes mel rows of `bands`.
    ///
    /// # Errors
    /// As [`Segmenter::new`].
    pub fn new(detector: Option<SharedVad>, stream: LogMelStream, bands: usize) -> Result<Self> {
        Ok(Self {
            detector: detector.map_or_else(|| Detector::Level(Vec::new()), Detector::Silero),
            segmenter: Segmenter::new(PARAMETERS)?,
            samples: 0,
            stream,
            bands,
            rows: Vec::new(),
            first: 0,
            speaking: None,
        })
    }

    /// The windows of a whole recording whose speech lies in these frames, with no need of a detector.
    #[must_use]
    pub fn within(
        samples: &[f32],
        speech: &[Range<usize>],
        mut stream: LogMelStream,
        bands: usize,
    ) -> Vec<HeardWindow> {
        let mut rows = stream.push(samples);
        rows.extend(stream.finish());
        let frames = rows.len() / bands;
        let within: Vec<Range<usize>> =
            speech.iter().map(|span| span.start.min(frames)..span.end.min(frames)).collect();
        let heard = |range: Range<usize>| rows[range.start * bands..range.end * bands].to_vec();
        let windows = windows::place(&within).into_iter();
        windows.map(|window| HeardWindow { mels: heard(window.heard), decided: window.decided }).collect()
    }

    /// Takes the next samples; returns the windows that are now certain, in order.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the detector failed.
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<HeardWindow>> {
        self.samples += samples.len();
        self.rows.extend(self.stream.push(samples));
        let boundaries = self.segmenter.push(&self.detector.push(samples)?);
        Ok(self.cut(&boundaries))
    }

    /// Ends the recording; returns the last windows.
    ///
    /// # Errors
    /// As [`Listener::push`].
    pub fn finish(mut self) -> Result<Vec<HeardWindow>> {
        self.rows.extend(self.stream.finish());
        let last = std::mem::replace(&mut self.detector, Detector::Level(Vec::new())).finish()?;
        let mut boundaries = self.segmenter.push(&last);
        boundaries.extend(self.segmenter.clone().finish(self.samples));
        Ok(self.cut(&boundaries))
    }

    /// Frames that there are rows of.
    fn end(&self) -> usize {
        self.first + self.rows.len() / self.bands
    }

    fn cut(&mut self, boundaries: &[SpeechBoundary]) -> Vec<HeardWindow> {
        let mut segments: Vec<Range<usize>> = Vec::new();
        for boundary in boundaries {
            match (*boundary, self.speaking) {
                (SpeechBoundary::Start(sample), _) => self.speaking = Some((sample / FRAME).max(self.first)),
                (SpeechBoundary::End(sample), Some(start)) => {
                    segments.push(start..(sample / FRAME).clamp(start, self.end().max(start)));
                    self.speaking = None;
                }
                (SpeechBoundary::End(_), None) => {}
            }
        }
        if let Some(start) = self.speaking
            && self.end() >= start + LONGEST + LENGTH
        {
            segments.push(start..start + LONGEST);
            self.speaking = Some(start + LONGEST);
        }
        let heard = |range: &Range<usize>| {
            self.rows[(range.start - self.first) * self.bands..(range.end - self.first) * self.bands].to_vec()
        };
        let windows = windows::place(&segments)
            .into_iter()
            .map(|window| HeardWindow { mels: heard(&window.heard), decided: window.decided })
            .collect();
        let kept = self.speaking.unwrap_or(usize::MAX).min(self.end().saturating_sub(KEPT)).max(self.first);
        self.rows.drain(..(kept - self.first) * self.bands);
        self.first = kept;
        windows
    }
}
