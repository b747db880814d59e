//! Samples of phrases to frames of 80 ms at 24 kHz, with the words that begin in them.

use std::collections::VecDeque;
use std::ops::Range;

use crate::audio::Resampler;
use crate::error::Result;
use crate::pipeline::executors::speech::SpeechOutput;
use crate::speech::{SPEECH_FRAME, SPEECH_RATE, SpeechFrame, SpokenWord};

/// The frames of one stream.
pub struct Framing {
    resampler: Resampler,
    rate: u32,
    /// Samples of the model so far, and where the phrase that is being said began.
    taken: u64,
    phrase: u64,
    /// Samples of the next frames.
    samples: Vec<f32>,
    words: VecDeque<SpokenWord>,
    /// Samples of the frames so far.
    given: u64,
    begins_phrase: bool,
}

impl Framing {
    /// Frames of samples at a rate in hertz.
    ///
    /// # Errors
    /// As [`Resampler::between`].
    pub fn new(rate: u32) -> Result<Self> {
        Ok(Self {
            resampler: Resampler::between(rate, SPEECH_RATE)?,
            rate,
            taken: 0,
            phrase: 0,
            samples: Vec::new(),
            words: VecDeque::new(),
            given: 0,
            begins_phrase: true,
        })
    }

    /// Takes the next samples and appends the frames that are complete.
    ///
    /// # Errors
    /// When the samples cannot be resampled.
    pub fn push(&mut self, output: SpeechOutput, frames: &mut VecDeque<SpeechFrame>) -> Result<()> {
        if std::mem::replace(&mut self.begins_phrase, output.ends_phrase) {
            self.phrase = self.taken;
        }
        let ms = |sample: u64| sample * 1000 / u64::from(self.rate);
        let word = |(text, Range { start, end }): (String, Range<usize>)| SpokenWord {
            text,
            start_ms: ms(self.phrase + start as u64),
            end_ms: ms(self.phrase + end as u64),
        };
        self.words.extend(output.words.into_iter().map(word));
        self.taken += output.samples.len() as u64;
        self.resampler.push(&output.samples, &mut self.samples)?;
        let whole = self.samples.len() / SPEECH_FRAME * SPEECH_FRAME;
        let rest = self.samples.split_off(whole);
        let samples = std::mem::replace(&mut self.samples, rest);
        for samples in samples.chunks_exact(SPEECH_FRAME) {
            frames.push_back(self.frame(samples));
        }
        Ok(())
    }

    /// Appends the rest as a last frame, with the words that are left.
    ///
    /// # Errors
    /// When the samples cannot be resampled.
    pub fn finish(&mut self, frames: &mut VecDeque<SpeechFrame>) -> Result<()> {
        self.resampler.finish(&mut self.samples)?;
        let samples = std::mem::take(&mut self.samples);
        for samples in samples.chunks(SPEECH_FRAME) {
            frames.push_back(self.frame(samples));
        }
        if let Some(last) = frames.back_mut() {
            last.words.extend(self.words.drain(..));
        }
        Ok(())
    }

    /// Samples of the model, by now, that frames up to `given` samples hold.
    pub fn model_samples(&self, given: u64) -> u64 {
        given * u64::from(self.rate) / u64::from(SPEECH_RATE)
    }

    fn frame(&mut self, samples: &[f32]) -> SpeechFrame {
        self.given += samples.len() as u64;
        let end_ms = self.given * 1000 / u64::from(SPEECH_RATE);
        let begun = self.words.iter().take_while(|word| word.start_ms < end_ms).count();
        let samples = samples.iter().map(|sample| sample.clamp(-1.0, 1.0)).collect();
        SpeechFrame { samples, words: self.words.drain(..begun).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(samples: usize, words: &[(&str, Range<usize>)], ends_phrase: bool) -> SpeechOutput {
        let sound = (0..samples).map(|at| (at as f32 * 0.05).sin() * 0.5).collect();
        let words = words.iter().map(|(text, at)| ((*text).to_owned(), at.clone())).collect();
        SpeechOutput { samples: sound, words, ends_phrase }
    }

    fn framed(outputs: Vec<SpeechOutput>) -> Vec<SpeechFrame> {
        let mut framing = Framing::new(16_000).unwrap();
        let mut frames = VecDeque::new();
        for output in outputs {
            framing.push(output, &mut frames).unwrap();
        }
        framing.finish(&mut frames).unwrap();
        frames.into()
    }

    #[test]
    fn words_come_with_the_frame_in_which_they_begin() {
        let frames = framed(vec![
            output(3_000, &[("one", 1_000..2_000), ("two", 2_000..4_000)], false),
            output(1_000, &[], true),
            output(2_000, &[("three", 160..1_600)], true),
        ]);
        assert!(frames.iter().rev().skip(1).all(|frame| frame.samples.len() == SPEECH_FRAME));
        assert_eq!(frames.iter().map(|frame| frame.samples.len()).sum::<usize>(), 9_000);
        for (at, frame) in frames.iter().enumerate() {
            for word in &frame.words {
                assert_eq!(word.start_ms as usize / 80, at, "{word:?}");
            }
        }
        let words: Vec<SpokenWord> = frames.into_iter().flat_map(|frame| frame.words).collect();
        let times: Vec<_> = words.iter().map(|word| (word.text.as_str(), word.start_ms, word.end_ms)).collect();
        assert_eq!(times, [("one", 62, 125), ("two", 125, 250), ("three", 260, 350)]);
    }

    #[test]
    fn frames_do_not_depend_on_the_pieces() {
        let whole = framed(vec![output(20_000, &[], true)]);
        let sound = output(20_000, &[], true).samples;
        let pieces = sound.chunks(777).map(|piece| SpeechOutput {
            samples: piece.to_vec(),
            words: Vec::new(),
            ends_phrase: false,
        });
        assert_eq!(framed(pieces.collect()), whole);
    }
}
