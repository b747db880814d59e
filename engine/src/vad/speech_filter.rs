//! Drops words that lie more than 1 s from detected speech. Without a detector, speech is anything louder than -65 dB
//! of full scale; that level is a judgement.

use std::ops::Range;

use super::segmenter::{SegmentationParameters, Segmenter, SpeechBoundary, SpeechSegment};
use super::shared::SharedVad;
use crate::audio::SAMPLE_RATE;
use crate::error::Result;
use crate::text::tokens::Token;

/// A frame whose root mean square is below this (-65 dB of full scale) is silent.
const SILENCE_RMS: f32 = 5.6e-4;
/// Length of a frame of the level method, samples: 80 ms.
const LEVEL_FRAME: usize = 1280;

/// Longest distance of a token from speech, ms: recognisers emit a word up to about this late, or, with a long
/// look-ahead, this early.
const MAX_DISTANCE_MS: f64 = 1000.0;

/// Shorter speech counts than by default: a missed segment costs words.
const PARAMETERS: SegmentationParameters =
    SegmentationParameters { on: 0.5, off: 0.35, least_speech_ms: 95, least_silence_ms: 100, padding_ms: 0 };

/// Speech is no shorter than this together with the speech around it, ms: a bark or a knock is.
const MIN_SPEECH_MS: usize = 250;

/// Spans of speech in a piece of audio.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeechSpans {
    /// In order, in samples from the start of the audio.
    spans: Vec<SpeechSegment>,
}

impl SpeechSpans {
    /// Spans from the speech probabilities of chunks; the first chunk begins `before` samples ahead of the audio.
    ///
    /// # Errors
    /// As [`Segmenter::new`].
    pub fn from_probabilities(probabilities: &[f32], before: usize, samples: usize) -> Result<Self> {
        let mut segmenter = Segmenter::new(PARAMETERS)?;
        let mut boundaries = segmenter.push(probabilities);
        boundaries.extend(segmenter.finish(before + samples));
        let within = |at: usize| at.saturating_sub(before);
        let segments = without_knocks(SpeechSegment::between(&boundaries)).into_iter();
        Ok(Self { spans: segments.map(|s| SpeechSegment { start: within(s.start), end: within(s.end) }).collect() })
    }

    /// Keeps the tokens near speech and returns the others; `frame_ms` is the length of an encoder frame.
    pub fn keep_near(&self, tokens: &mut Vec<Token>, frame_ms: f64) -> Vec<Token> {
        let from = |token: &Token| token.frame as f64 * frame_ms;
        tokens.extract_if(.., |token| !self.is_near(from(token), from(token) + frame_ms)).collect()
    }

    /// Of `count` frames of `frame_ms`, those within `margin_ms` of speech.
    pub fn frames(&self, count: usize, frame_ms: u64, margin_ms: u64) -> Vec<usize> {
        let ms = |sample: usize| sample as u64 * 1000 / u64::from(SAMPLE_RATE);
        let within = |frame: &usize| {
            let (from, to) = (*frame as u64 * frame_ms, (*frame as u64 + 1) * frame_ms);
            self.spans.iter().any(|span| ms(span.start) < to + margin_ms && from < ms(span.end) + margin_ms)
        };
        (0..count).filter(within).collect()
    }

    /// The spans, ms from the start of the audio.
    pub fn spans_ms(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let ms = |sample: usize| sample as u64 * 1000 / u64::from(SAMPLE_RATE);
        self.spans.iter().map(move |span| ms(span.start)..ms(span.end))
    }

    /// The parts of the spans that lie in a range, ms.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let cut = move |span: Range<u64>| span.start.max(range.start)..span.end.min(range.end);
        self.spans_ms().map(cut).filter(|span| span.start < span.end)
    }

    /// Length of all speech, ms.
    pub fn total_ms(&self) -> u64 {
        self.spans_ms().map(|span| span.end - span.start).sum()
    }

    /// True if there is no speech.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// True if speech lies within 1 s of a span, ms from the start.
    pub fn is_near(&self, from_ms: f64, to_ms: f64) -> bool {
        let ms = |sample: usize| sample as f64 * 1000.0 / f64::from(SAMPLE_RATE);
        let next = self.spans.partition_point(|span| ms(span.end) <= from_ms - MAX_DISTANCE_MS);
        self.spans.get(next).is_some_and(|span| ms(span.start) < to_ms + MAX_DISTANCE_MS)
    }
}

/// Finds the spans of speech in a stream of samples.
#[derive(Debug)]
pub struct SpeechFilter(Method);

#[derive(Debug)]
enum Method {
    Detector { stream: SharedVad, segmenter: Segmenter, boundaries: Vec<SpeechBoundary>, samples: usize },
    Level { energy: f32, count: usize, start: usize, spans: Vec<SpeechSegment> },
}

impl SpeechFilter {
    /// Uses the detector, or the level without one.
    ///
    /// # Errors
    /// As [`Segmenter::new`].
    pub fn new(detector: Option<SharedVad>) -> Result<Self> {
        Ok(Self(match detector {
            Some(stream) => {
                Method::Detector { stream, segmenter: Segmenter::new(PARAMETERS)?, boundaries: Vec::new(), samples: 0 }
            }
            None => Method::Level { energy: 0.0, count: 0, start: 0, spans: Vec::new() },
        }))
    }

    /// Takes the next samples.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn push(&mut self, new: &[f32]) -> Result<()> {
        match &mut self.0 {
            Method::Detector { stream, segmenter, boundaries, samples } => {
                *samples += new.len();
                boundaries.extend(segmenter.push(&stream.push(new)?));
            }
            Method::Level { energy, count, start, spans } => {
                let mut new = new;
                while !new.is_empty() {
                    let (now, rest) = new.split_at(new.len().min(LEVEL_FRAME - *count));
                    *energy += now.iter().map(|s| s * s).sum::<f32>();
                    *count += now.len();
                    if *count == LEVEL_FRAME {
                        end_frame(energy, count, start, spans);
                    }
                    new = rest;
                }
            }
        }
        Ok(())
    }

    /// Ends the stream and returns its spans of speech.
    ///
    /// # Errors
    /// As [`SpeechFilter::push`].
    pub fn finish(self) -> Result<SpeechSpans> {
        match self.0 {
            Method::Detector { stream, mut segmenter, mut boundaries, samples } => {
                boundaries.extend(segmenter.push(&stream.finish()?));
                boundaries.extend(segmenter.finish(samples));
                Ok(SpeechSpans { spans: without_knocks(SpeechSegment::between(&boundaries)) })
            }
            Method::Level { mut energy, mut count, mut start, mut spans } => {
                end_frame(&mut energy, &mut count, &mut start, &mut spans);
                Ok(SpeechSpans { spans })
            }
        }
    }
}

/// The segments without those that are short even with the ones near to them.
fn without_knocks(segments: Vec<SpeechSegment>) -> Vec<SpeechSegment> {
    const MS: usize = SAMPLE_RATE as usize / 1000;
    let around = MAX_DISTANCE_MS as usize * MS;
    let near = |segment: &SpeechSegment| {
        let from = segments.partition_point(|other| other.end + around < segment.start);
        let near = segments[from..].iter().take_while(|other| other.start <= segment.end + around);
        near.map(|other| other.end - other.start).sum::<usize>()
    };
    segments.iter().filter(|segment| near(segment) >= MIN_SPEECH_MS * MS).copied().collect()
}

/// Ends a frame of the level method, and joins it to the span before if both are loud.
fn end_frame(energy: &mut f32, count: &mut usize, start: &mut usize, spans: &mut Vec<SpeechSegment>) {
    let end = *start + *count;
    if *energy > SILENCE_RMS * SILENCE_RMS * *count as f32 {
        match spans.last_mut() {
            Some(last) if last.end == *start => last.end = end,
            _ => spans.push(SpeechSegment { start: *start, end }),
        }
    }
    (*energy, *count, *start) = (0.0, 0, end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(ms: usize) -> Token {
        Token { id: 1, frame: ms / 80, span: 1, confidence: 0.5 }
    }

    #[test]
    fn without_a_detector_tokens_in_silence_go_and_those_near_sound_stay() {
        let mut filter = SpeechFilter::new(None).unwrap();
        let second = SAMPLE_RATE as usize;
        filter.push(&vec![0.0; 5 * second]).unwrap();
        filter.push(&vec![0.01; second]).unwrap();
        filter.push(&vec![1e-5; 5 * second]).unwrap();
        let mut tokens: Vec<Token> = [1000, 3800, 4200, 5500, 6900, 7200, 10_000].map(token).to_vec();
        let dropped = filter.finish().unwrap().keep_near(&mut tokens, 80.0);
        assert_eq!(tokens, [4200, 5500, 6900].map(token));
        assert_eq!(dropped, [1000, 3800, 7200, 10_000].map(token));
    }

    #[test]
    fn a_short_sound_is_speech_only_beside_speech() {
        let spans = |chunks: &[(usize, usize)]| {
            let speech = |chunk: &usize| chunks.iter().any(|(from, to)| (from..to).contains(&chunk));
            let probabilities: Vec<f32> = (0..200).map(|n| if speech(&n) { 0.9 } else { 0.1 }).collect();
            SpeechSpans::from_probabilities(&probabilities, 0, 200 * 512).unwrap().spans.len()
        };
        assert_eq!(spans(&[(10, 15)]), 0, "160 ms");
        assert_eq!(spans(&[(10, 19)]), 1, "288 ms");
        assert_eq!(spans(&[(10, 15), (30, 50)]), 2, "a short word before others");
        assert_eq!(spans(&[(10, 15), (100, 120)]), 1, "too far away");
        assert_eq!(spans(&[(10, 15), (30, 35)]), 2, "two short words");
    }

    #[test]
    fn probabilities_of_a_window_count_from_its_first_sample() {
        // Speech from 0.96 s to 1.6 s of the stream, in a window that begins at 0.8 s, which is within a chunk.
        let probabilities: Vec<f32> = (25..100).map(|n| if (30..50).contains(&n) { 0.9 } else { 0.1 }).collect();
        let spans = SpeechSpans::from_probabilities(&probabilities, 0, 38_400).unwrap();
        assert_eq!(spans.spans, [SpeechSegment { start: 5 * 512, end: 25 * 512 }]);
        let shifted = SpeechSpans::from_probabilities(&probabilities, 100, 38_300).unwrap();
        assert_eq!(shifted.spans, [SpeechSegment { start: 5 * 512 - 100, end: 25 * 512 - 100 }]);
        // Speech that the window's end cuts off reaches to its end.
        let cut = SpeechSpans::from_probabilities(&probabilities[..15], 0, 15 * 512).unwrap();
        assert_eq!(cut.spans, [SpeechSegment { start: 5 * 512, end: 15 * 512 }]);
    }
}
