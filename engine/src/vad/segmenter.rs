//! Chances of speech to stretches of speech, by the rules of the published `get_speech_timestamps`.

use crate::error::{Error, Result};
use crate::models::silero::CHUNK;

/// Samples in a millisecond.
const MS: usize = 16;

/// When speech begins and ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentationParameters {
    /// Speech begins with a chunk whose chance is at least this.
    pub on: f32,
    /// It ends where chances fall below this.
    pub off: f32,
    /// Speech that is no longer than this does not count, ms.
    pub least_speech_ms: usize,
    /// Shorter silence does not end speech, ms.
    pub least_silence_ms: usize,
    /// How much is added at both ends, ms.
    pub padding_ms: usize,
}

impl Default for SegmentationParameters {
    /// The published defaults.
    fn default() -> Self {
        Self { on: 0.5, off: 0.35, least_speech_ms: 250, least_silence_ms: 100, padding_ms: 30 }
    }
}

/// A stretch of speech, in samples at 16 kHz from the start of the audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first sample.
    pub start: usize,
    /// Past the last sample.
    pub end: usize,
}

impl Segment {
    /// Boundaries in order, a start and an end in turn, as segments.
    pub fn between(edges: &[Edge]) -> Vec<Self> {
        let mut segments: Vec<Self> = Vec::new();
        for edge in edges {
            match (*edge, segments.last_mut()) {
                (Edge::Start(start), _) => segments.push(Self { start, end: start }),
                (Edge::End(end), Some(last)) => last.end = end,
                (Edge::End(_), None) => {}
            }
        }
        segments
    }
}

/// A boundary of speech, at a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// Speech began here. Told once it is long enough to count.
    Start(usize),
    /// It ended here. Told once the silence is long enough.
    End(usize),
}

/// Follows the chances of one stream. Its memory is fixed.
#[derive(Clone, Debug)]
pub struct Segmenter {
    rules: SegmentationParameters,
    /// Sample of the next chunk.
    at: usize,
    speech: Option<Speech>,
}

/// Speech that goes on.
#[derive(Clone, Copy, Debug)]
struct Speech {
    start: usize,
    /// Where chances fell below `off`, unless they have been above `on` since.
    quiet: Option<usize>,
    /// Whether its start was told.
    told: bool,
}

impl Segmenter {
    /// Before the first chunk.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when padding could make neighbours overlap, or `off` is above `on`.
    pub fn new(rules: SegmentationParameters) -> Result<Self> {
        if 2 * rules.padding_ms > rules.least_silence_ms {
            return Err(Error::InvalidOption("padding is to be no more than half of the shortest silence".into()));
        }
        if !(0.0..=1.0).contains(&rules.on) || !(rules.off..=1.0).contains(&rules.on) {
            return Err(Error::InvalidOption("chances are 0 to 1, and speech ends no higher than it begins".into()));
        }
        Ok(Self { rules, at: 0, speech: None })
    }

    /// Takes the chances of the next chunks; gives the boundaries that are now certain.
    pub fn push(&mut self, chances: &[f32]) -> Vec<Edge> {
        let mut edges = Vec::new();
        for chance in chances {
            self.step(*chance, &mut edges);
            self.at += CHUNK;
        }
        edges
    }

    /// The end of the audio, which has this many samples; speech that goes on ends with it.
    pub fn finish(mut self, samples: usize) -> Vec<Edge> {
        let mut edges = Vec::new();
        if let Some(mut speech) = self.speech.take() {
            if samples.saturating_sub(speech.start) > self.rules.least_speech_ms * MS {
                self.tell(&mut speech, &mut edges);
            }
            if speech.told {
                edges.push(Edge::End(samples));
            }
        }
        edges
    }

    /// Whether speech goes on, be it too short to count yet.
    pub fn is_speech(&self) -> bool {
        self.speech.is_some()
    }

    fn step(&mut self, chance: f32, edges: &mut Vec<Edge>) {
        let Some(mut speech) = self.speech else {
            if chance >= self.rules.on {
                self.speech = Some(Speech { start: self.at, quiet: None, told: false });
            }
            return;
        };
        if chance >= self.rules.on {
            speech.quiet = None;
        } else if chance < self.rules.off {
            speech.quiet.get_or_insert(self.at);
        }
        // What is certain to be part of it reaches to the end of the audio so far, or to where it fell quiet.
        let certain = speech.quiet.unwrap_or(self.at);
        if certain - speech.start > self.rules.least_speech_ms * MS {
            self.tell(&mut speech, edges);
        }
        self.speech = Some(speech);
        if let Some(quiet) = speech.quiet
            && chance < self.rules.off
            && self.at - quiet >= self.rules.least_silence_ms * MS
        {
            if speech.told {
                edges.push(Edge::End(quiet + self.rules.padding_ms * MS));
            }
            self.speech = None;
        }
    }

    fn tell(&self, speech: &mut Speech, edges: &mut Vec<Edge>) {
        if !speech.told {
            speech.told = true;
            edges.push(Edge::Start(speech.start.saturating_sub(self.rules.padding_ms * MS)));
        }
    }
}
