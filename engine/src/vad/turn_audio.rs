//! The audio of a live session's turns, cut into windows that are recognised by themselves.

use std::collections::VecDeque;

use super::chunker::{Chunker, WindowLengths};
use super::window::{BufferedAudio, Window};
use crate::models::silero::CHUNK;

/// The audio of the turn, in bounded memory however long it lasts, and of the time before it.
#[derive(Debug)]
pub struct TurnAudio {
    /// Samples of chunks that are not followed yet.
    waiting: VecDeque<f32>,
    chunker: Chunker,
}

impl TurnAudio {
    /// Audio without samples.
    pub fn new(lengths: WindowLengths) -> Self {
        Self { waiting: VecDeque::new(), chunker: Chunker::over(BufferedAudio::of_chunks(), lengths) }
    }

    /// Takes samples at 16 kHz.
    pub fn push(&mut self, samples: &[f32]) {
        self.waiting.extend(samples);
    }

    /// Follows the next chunk, whose speech probability is known now.
    pub fn follow(&mut self, probability: f32) {
        let samples = self.waiting.len().min(CHUNK);
        self.chunker.audio.push_chunk(self.waiting.drain(..samples), probability);
    }

    /// Drops the samples before this one of the session: no turn has them.
    pub fn forget_before(&mut self, sample: usize) {
        let audio = &mut self.chunker.audio;
        audio.advance(sample.saturating_sub(audio.start()).min(audio.len()));
        self.chunker.overlap = 0;
    }

    /// A part of the turn that is as long as a window may be, cut at a pause; what follows is the rest of the turn.
    pub fn next_part(&mut self) -> Option<Window> {
        self.chunker.complete()
    }

    /// The turn since its last part, up to this sample of the session; none if that is no more than what both share.
    pub fn rest(&self, end: usize) -> Option<Window> {
        let (audio, overlap) = (&self.chunker.audio, self.chunker.overlap);
        let length = end.saturating_sub(audio.start()).min(audio.len());
        (length > overlap).then(|| audio.window(length, overlap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: usize = 16_000;

    fn sample(at: usize) -> f32 {
        (at % 60_000) as f32
    }

    /// Follows speech with a pause of 0.4 s each 5 s, whose samples tell their places in the session.
    fn speak(audio: &mut TurnAudio, from: usize, chunks: usize) -> Vec<Window> {
        let mut parts = Vec::new();
        for chunk in from..from + chunks {
            let samples: Vec<f32> = (chunk * CHUNK..(chunk + 1) * CHUNK).map(sample).collect();
            audio.push(&samples);
            audio.follow(if chunk * CHUNK % (5 * SECOND) < 2 * SECOND / 5 { 0.1 } else { 0.9 });
            parts.extend(std::iter::from_fn(|| audio.next_part()));
        }
        parts
    }

    #[test]
    fn a_turn_of_an_hour_has_bounded_windows_without_gaps() {
        let mut audio = TurnAudio::new(WindowLengths::THIRTY_SECONDS);
        speak(&mut audio, 0, 40);
        audio.forget_before(10 * CHUNK + 7);
        let parts = speak(&mut audio, 40, 55 * 60 * SECOND / CHUNK);
        assert!(parts.len() > 55, "{} parts", parts.len());
        let mut next = 10 * CHUNK + 7;
        for part in &parts {
            assert!(part.samples.len() <= 30 * SECOND && part.overlap_ms == 0);
            assert_eq!((part.samples[0], part.start_ms), (sample(next), next as u64 / 16));
            next += part.samples.len();
        }
        let rest = audio.rest(usize::MAX).unwrap();
        assert_eq!(rest.samples[0], sample(next));
        assert!(audio.chunker.audio.len() < 31 * SECOND);
    }

    #[test]
    fn the_rest_ends_where_it_is_asked_to() {
        let mut audio = TurnAudio::new(WindowLengths::THIRTY_SECONDS);
        speak(&mut audio, 0, 100);
        audio.forget_before(5_000);
        let rest = audio.rest(20_000).unwrap();
        assert_eq!((rest.samples.len(), rest.samples[0]), (15_000, 5_000.0));
        assert!(rest.has_detector() && !rest.speech().unwrap().is_empty());
        assert_eq!(audio.rest(5_000), None);
        audio.forget_before(20_000);
        assert_eq!(audio.rest(20_001).unwrap().samples, [20_000.0]);
    }
}
