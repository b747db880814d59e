//! Speech probabilities to segments of speech, by the rules of the published `get_speech_timestamps`.

use crate::error::{Error, Result};
use crate::models::silero::CHUNK;

/// Samples in a millisecond.
const MS: usize = 16;

/// Thresholds at which speech begins and ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentationParameters {
    /// Speech begins with a chunk whose probability is at least this.
    pub on: f32,
    /// Speech ends where probabilities fall below this.
    pub off: f32,
    /// Speech must be longer than this, ms.
    pub least_speech_ms: usize,
    /// Shorter silence does not end speech, ms.
    pub least_silence_ms: usize,
    /// Padding at both ends, ms.
    pub padding_ms: usize,
}

impl Default for SegmentationParameters {
    /// The published defaults.
    fn default() -> Self {
        Self { on: 0.5, off: 0.35, least_speech_ms: 250, least_silence_ms: 100, padding_ms: 30 }
    }
}

/// A segment of speech, in samples at 16 kHz from the start of the audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeechSegment {
    /// The first sample.
    pub start: usize,
    /// Past the last sample.
    pub end: usize,
}

impl SpeechSegment {
    /// Segments from boundaries in order, which alternate between start and end.
    pub fn between(boundaries: &[SpeechBoundary]) -> Vec<Self> {
        let mut segments: Vec<Self> = Vec::new();
        for boundary in boundaries {
            match (*boundary, segments.last_mut()) {
                (SpeechBoundary::Start(start), _) => segments.push(Self { start, end: start }),
                (SpeechBoundary::End(end), Some(last)) => last.end = end,
                (SpeechBoundary::End(_), None) => {}
            }
        }
        segments
    }
}

/// A boundary of speech, at a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeechBoundary {
    /// Speech begins here. Reported once the speech is long enough.
    Start(usize),
    /// Speech ends here. Reported once the silence is long enough.
    End(usize),
}

/// Finds the boundaries of speech in one stream, in constant memory.
#[derive(Clone, Debug)]
pub struct Segmenter {
    rules: SegmentationParameters,
    /// First sample of the next chunk.
    at: usize,
    speech: Option<Speech>,
}

/// Speech that has not ended.
#[derive(Clone, Copy, Debug)]
struct Speech {
    start: usize,
    /// First sample with a probability below `off`, unless one has reached `on` since.
    quiet_since: Option<usize>,
    /// True once its start is reported.
    reported: bool,
}

impl Segmenter {
    /// A segmenter without chunks.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when padding could make neighbours overlap, or `off` is above `on`.
    pub fn new(rules: SegmentationParameters) -> Result<Self> {
        if 2 * rules.padding_ms > rules.least_silence_ms {
            return Err(Error::InvalidOption("padding is to be no more than half of the shortest silence".into()));
        }
        if !(0.0..=1.0).contains(&rules.on) || !(rules.off..=1.0).contains(&rules.on) {
            return Err(Error::InvalidOption(
                "probabilities are 0 to 1, and speech ends no higher than it begins".into(),
            ));
        }
        Ok(Self { rules, at: 0, speech: None })
    }

    /// Takes the probabilities of the next chunks; returns the boundaries that are now certain.
    pub fn push(&mut self, probabilities: &[f32]) -> Vec<SpeechBoundary> {
        let mut boundaries = Vec::new();
        for probability in probabilities {
            self.step(*probability, &mut boundaries);
            self.at += CHUNK;
        }
        boundaries
    }

    /// Ends the audio, which has this many samples, and with it any speech.
    pub fn finish(mut self, samples: usize) -> Vec<SpeechBoundary> {
        let mut boundaries = Vec::new();
        if let Some(mut speech) = self.speech.take() {
            if samples.saturating_sub(speech.start) > self.rules.least_speech_ms * MS {
                self.report(&mut speech, &mut boundaries);
            }
            if speech.reported {
                boundaries.push(SpeechBoundary::End(samples));
            }
        }
        boundaries
    }

    /// Drops speech that goes on. Its end is not reported.
    pub fn forget_speech(&mut self) {
        self.speech = None;
    }

    /// True if speech goes on, even if it is still too short to count.
    pub fn is_speech(&self) -> bool {
        self.speech.is_some()
    }

    /// Silence since speech that counts, ms; none while it goes on, and without any.
    pub fn quiet_ms(&self) -> Option<usize> {
        let quiet_since = self.speech.filter(|speech| speech.reported)?.quiet_since?;
        Some(self.at.saturating_sub(quiet_since) / MS)
    }

    fn step(&mut self, probability: f32, boundaries: &mut Vec<SpeechBoundary>) {
        let Some(mut speech) = self.speech else {
            if probability >= self.rules.on {
                self.speech = Some(Speech { start: self.at, quiet_since: None, reported: false });
            }
            return;
        };
        if probability >= self.rules.on {
            speech.quiet_since = None;
        } else if probability < self.rules.off {
            speech.quiet_since.get_or_insert(self.at);
        }
        // Certain speech reaches to the end of the audio so far, or to the point where it became quiet.
        let certain = speech.quiet_since.unwrap_or(self.at);
        if certain - speech.start > self.rules.least_speech_ms * MS {
            self.report(&mut speech, boundaries);
        }
        self.speech = Some(speech);
        if let Some(quiet_since) = speech.quiet_since
            && probability < self.rules.off
            && self.at - quiet_since >= self.rules.least_silence_ms * MS
        {
            if speech.reported {
                boundaries.push(SpeechBoundary::End(quiet_since + self.rules.padding_ms * MS));
            }
            self.speech = None;
        }
    }

    fn report(&self, speech: &mut Speech, boundaries: &mut Vec<SpeechBoundary>) {
        if !speech.reported {
            speech.reported = true;
            boundaries.push(SpeechBoundary::Start(speech.start.saturating_sub(self.rules.padding_ms * MS)));
        }
    }
}
