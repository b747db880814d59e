//! What is not speech is no text, whatever a model makes of it: words stand only near speech that the detector heard.
//! Without a detector they stand near anything louder than -65 dB of full scale; that level is a judgement.

use super::segmenter::{Edge, Segment, SegmentationParameters, Segmenter};
use super::stream::VadStream;
use crate::audio::SAMPLE_RATE;
use crate::error::Result;
use crate::models::silero::Silero;
use crate::text::tokens::Token;

/// A stretch whose root mean square stays below this (-65 dB of full scale) holds nothing to hear.
const EMPTY_RMS: f32 = 5.6e-4;
/// Such a stretch, samples: 80 ms.
const STRETCH: usize = 1280;

/// How far from something heard a token may lie, ms: recognisers write a word up to about this late, or, with a long
/// look-ahead, this early.
const REACH_MS: f64 = 1000.0;

/// What counts as heard. Shorter than a segment needs to be: a missed one costs words.
const PARAMETERS: SegmentationParameters =
    SegmentationParameters { on: 0.5, off: 0.35, least_speech_ms: 95, least_silence_ms: 100, padding_ms: 0 };

/// Where a stretch of audio holds something to write down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpeechSpans {
    /// In order, in samples from the stretch's start.
    spans: Vec<Segment>,
}

impl SpeechSpans {
    /// From the chances of speech of chunks, the first of which begins `before` samples ahead of the stretch.
    ///
    /// # Errors
    /// As [`Segmenter::new`].
    pub fn in_chunks(chances: &[f32], before: usize, samples: usize) -> Result<Self> {
        let mut segmenter = Segmenter::new(PARAMETERS)?;
        let mut edges = segmenter.push(chances);
        edges.extend(segmenter.finish(before + samples));
        let within = |at: usize| at.saturating_sub(before);
        let segments = Segment::between(&edges).into_iter();
        Ok(Self { spans: segments.map(|s| Segment { start: within(s.start), end: within(s.end) }).collect() })
    }

    /// Keeps the tokens that have something heard near them, and gives the others; `frame_ms` is the length of an
    /// encoder frame.
    pub fn keep_near(&self, tokens: &mut Vec<Token>, frame_ms: f64) -> Vec<Token> {
        let from = |token: &Token| token.frame as f64 * frame_ms;
        tokens.extract_if(.., |token| !self.is_near(from(token), from(token) + frame_ms)).collect()
    }

    /// Those of `count` frames of `frame_ms` in which something was heard, and what is within `margin_ms` of them.
    pub fn frames(&self, count: usize, frame_ms: u64, margin_ms: u64) -> Vec<usize> {
        let ms = |sample: usize| sample as u64 * 1000 / u64::from(SAMPLE_RATE);
        let within = |frame: &usize| {
            let (from, to) = (*frame as u64 * frame_ms, (*frame as u64 + 1) * frame_ms);
            self.spans.iter().any(|span| ms(span.start) < to + margin_ms && from < ms(span.end) + margin_ms)
        };
        (0..count).filter(within).collect()
    }

    /// Whether nothing was heard.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Whether something was heard near a stretch, ms from the start.
    pub fn is_near(&self, from_ms: f64, to_ms: f64) -> bool {
        let ms = |sample: usize| sample as f64 * 1000.0 / f64::from(SAMPLE_RATE);
        let next = self.spans.partition_point(|span| ms(span.end) <= from_ms - REACH_MS);
        self.spans.get(next).is_some_and(|span| ms(span.start) < to_ms + REACH_MS)
    }
}

/// Follows a stream to its end to say what was heard in it.
#[derive(Debug)]
pub struct SpeechFilter<'a>(Method<'a>);

#[derive(Debug)]
enum Method<'a> {
    Detector { listener: Box<VadStream<'a>>, segmenter: Segmenter, heard: Vec<Edge>, samples: usize },
    Level { energy: f32, count: usize, start: usize, spans: Vec<Segment> },
}

impl<'a> SpeechFilter<'a> {
    /// Method the detector, or without one by level.
    ///
    /// # Errors
    /// As [`Segmenter::new`].
    pub fn new(detector: Option<&'a Silero>) -> Result<Self> {
        Ok(Self(match detector {
            Some(detector) => Method::Detector {
                listener: Box::new(VadStream::new(detector)),
                segmenter: Segmenter::new(PARAMETERS)?,
                heard: Vec::new(),
                samples: 0,
            },
            None => Method::Level { energy: 0.0, count: 0, start: 0, spans: Vec::new() },
        }))
    }

    /// Takes the next samples.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when the device failed.
    pub fn push(&mut self, new: &[f32]) -> Result<()> {
        match &mut self.0 {
            Method::Detector { listener, segmenter, heard, samples } => {
                *samples += new.len();
                heard.extend(segmenter.push(&listener.push(new)?));
            }
            Method::Level { energy, count, start, spans } => {
                let mut new = new;
                while !new.is_empty() {
                    let (now, rest) = new.split_at(new.len().min(STRETCH - *count));
                    *energy += now.iter().map(|s| s * s).sum::<f32>();
                    *count += now.len();
                    if *count == STRETCH {
                        close(energy, count, start, spans);
                    }
                    new = rest;
                }
            }
        }
        Ok(())
    }

    /// The end of the stream.
    ///
    /// # Errors
    /// As [`SpeechFilter::push`].
    pub fn finish(self) -> Result<SpeechSpans> {
        match self.0 {
            Method::Detector { listener, mut segmenter, mut heard, samples } => {
                heard.extend(segmenter.push(&listener.finish()?));
                heard.extend(segmenter.finish(samples));
                Ok(SpeechSpans { spans: Segment::between(&heard) })
            }
            Method::Level { mut energy, mut count, mut start, mut spans } => {
                close(&mut energy, &mut count, &mut start, &mut spans);
                Ok(SpeechSpans { spans })
            }
        }
    }
}

/// Ends a stretch of the level rule, and joins it to the one before where both are loud.
fn close(energy: &mut f32, count: &mut usize, start: &mut usize, spans: &mut Vec<Segment>) {
    let end = *start + *count;
    if *energy > EMPTY_RMS * EMPTY_RMS * *count as f32 {
        match spans.last_mut() {
            Some(last) if last.end == *start => last.end = end,
            _ => spans.push(Segment { start: *start, end }),
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
        let mut gate = SpeechFilter::new(None).unwrap();
        let second = SAMPLE_RATE as usize;
        gate.push(&vec![0.0; 5 * second]).unwrap();
        gate.push(&vec![0.01; second]).unwrap();
        gate.push(&vec![1e-5; 5 * second]).unwrap();
        let mut tokens: Vec<Token> = [1000, 3800, 4200, 5500, 6900, 7200, 10_000].map(token).to_vec();
        let dropped = gate.finish().unwrap().keep_near(&mut tokens, 80.0);
        assert_eq!(tokens, [4200, 5500, 6900].map(token));
        assert_eq!(dropped, [1000, 3800, 7200, 10_000].map(token));
    }

    #[test]
    fn chances_of_a_window_count_from_its_first_sample() {
        // Speech from 0.96 s to 1.6 s of the stream, in a window that begins at 0.8 s, which is within a chunk.
        let chances: Vec<f32> = (25..100).map(|n| if (30..50).contains(&n) { 0.9 } else { 0.1 }).collect();
        let heard = SpeechSpans::in_chunks(&chances, 0, 38_400).unwrap();
        assert_eq!(heard.spans, [Segment { start: 5 * 512, end: 25 * 512 }]);
        let shifted = SpeechSpans::in_chunks(&chances, 100, 38_300).unwrap();
        assert_eq!(shifted.spans, [Segment { start: 5 * 512 - 100, end: 25 * 512 - 100 }]);
        // Speech that the window's end cuts off reaches to its end.
        let cut = SpeechSpans::in_chunks(&chances[..15], 0, 15 * 512).unwrap();
        assert_eq!(cut.spans, [Segment { start: 5 * 512, end: 15 * 512 }]);
    }
}
