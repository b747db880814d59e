//! Audio to words: decoded blocks, features, encoder steps, tokens, words; in constant memory.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;

use super::fusion::Fusion;
use super::keyterms::Keyterms;
use super::silence::{Gate, Heard};
use super::windows::{Cutter, Window, join};
use crate::audio::{AudioStream, SAMPLE_RATE};
use crate::error::{Error, Result};
use crate::models::fastconformer::{Beam, FastConformer, Search, Token};
use crate::models::silero::Silero;
use crate::text::lm::LanguageModel;
use crate::text::tokens::Spoken;
use crate::{Progress, TranscribeOptions, Transcript};

/// About how many encoder frames a step over a file takes: long enough to fill the device, short enough that
/// attention over frames it may not see stays cheap.
const STEP_FRAMES: usize = 112;

/// Windows of a whole-utterance checkpoint that are recognised together.
const WINDOWS_TOGETHER: usize = 4;

/// A checkpoint that transcribes.
pub struct Recogniser {
    model: FastConformer,
    device: Device,
}

/// What stays the same over one transcription.
struct Job<'a> {
    keyterms: Option<Keyterms>,
    fusion: Option<Fusion>,
    beam: usize,
    language: usize,
    look_ahead: usize,
    detector: Option<&'a Silero>,
    /// Words left out because no speech was heard near them.
    unheard: usize,
    progress: &'a mut dyn FnMut(Progress) -> ControlFlow<()>,
    total_s: Option<f64>,
}

impl Job<'_> {
    /// Greedy, unless there is a language model to search with.
    fn search(&self) -> Search<'_> {
        match &self.fusion {
            Some(fusion) => Search::Beam(Beam { width: self.beam, fusion: Some(fusion) }),
            None => Search::Greedy(self.keyterms.as_ref()),
        }
    }

    /// # Errors
    /// [`Error::Canceled`] if nobody wants the rest.
    fn report(&mut self, audio_s: f64) -> Result<()> {
        match (self.progress)(Progress { audio_s, total_s: self.total_s }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Canceled),
        }
    }
}

impl Recogniser {
    /// Loads a checkpoint folder.
    ///
    /// # Errors
    /// As [`FastConformer::load`].
    pub fn load(dir: &Path, device: &Device) -> Result<Self> {
        Ok(Self { model: FastConformer::load(dir, device)?, device: device.clone() })
    }

    /// The checkpoint.
    pub fn model(&self) -> &FastConformer {
        &self.model
    }

    /// The device that computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Transcribes audio to its end, with a beam where there is a language model; words count where the detector heard
    /// speech, or without one wherever it is not silent.
    ///
    /// # Errors
    /// What decoding or the device reports; [`Error::InvalidOption`] and [`Error::Language`] for options that the
    /// checkpoint cannot serve.
    pub fn transcribe(
        &self,
        mut audio: AudioStream,
        options: &TranscribeOptions,
        language_model: Option<Arc<LanguageModel>>,
        detector: Option<&Silero>,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Transcript> {
        let vocabulary = self.model.vocabulary();
        let keyterms = Keyterms::new(&options.keyterms, vocabulary)?;
        let fusion = language_model.map(|language_model| {
            Fusion::new(language_model, options.fusion, vocabulary, keyterms.clone(), &options.keyterms)
        });
        let mut job = Job {
            keyterms,
            fusion,
            beam: options.beam,
            language: self.language_slot(options.language.as_deref())?,
            look_ahead: self.look_ahead(options.look_ahead_ms)?,
            detector,
            unheard: 0,
            progress,
            total_s: audio.duration_s(),
        };
        let spoken = if self.model.config().class.is_streaming() {
            self.straight_through(&mut audio, &mut job)?
        } else {
            self.in_windows(&mut audio, &mut job)?
        };
        let confidence = (!spoken.words.is_empty())
            .then(|| spoken.words.iter().map(|w| w.confidence).sum::<f32>() / spoken.words.len() as f32);
        Ok(Transcript {
            text: spoken.text,
            words: spoken.words,
            confidence,
            language_code: spoken.language.or_else(|| options.language.clone()),
            audio_duration_sec: audio.position_s(),
            model: options.model.clone(),
            warnings: audio.warnings().into_iter().chain(left_out(job.unheard)).collect(),
        })
    }

    /// A cache-aware checkpoint: one stream from the first sample to the last.
    fn straight_through(&self, audio: &mut AudioStream, job: &mut Job) -> Result<Spoken> {
        let model = &self.model;
        let mut mel = model.preprocessor().stream()?;
        let mut stream = model.stream(1, job.look_ahead, job.language)?;
        let mels = model.config().encoder.num_mel_bins;
        let factor = model.config().encoder.subsampling_factor;
        let chunk = job.look_ahead + 1;
        let step = (STEP_FRAMES / chunk).max(1) * chunk * factor;
        let lead = model.encoder().lead();
        // Mel rows not yet encoded; the utterance's first chunk begins with rows that are not real.
        let mut rows = vec![0f32; lead * mels];
        let mut first = lead;
        let mut tokens: Vec<Token> = Vec::new();
        let mut gate = Gate::new(job.detector)?;
        let mut ended = false;
        while !ended {
            match audio.next_block()? {
                Some(block) => {
                    gate.push(&block)?;
                    rows.extend(mel.push(&block));
                }
                None => {
                    rows.extend(mel.finish());
                    ended = true;
                }
            }
            while rows.len() / mels >= step || (ended && rows.len() / mels > first) {
                let real = (rows.len() / mels).min(step);
                let mut now: Vec<f32> = rows.drain(..real * mels).collect();
                now.resize(real.next_multiple_of(factor) * mels, 0.0);
                let emitted =
                    model.step(&mut stream, model.features(now), std::slice::from_ref(&(first..real)), job.search())?;
                first = 0;
                tokens.extend(emitted.into_iter().flatten());
                job.report(audio.position_s())?;
            }
        }
        tokens.extend(model.finish(stream, job.search()).into_iter().flatten());
        self.keep_heard(&gate.finish()?, &mut tokens, job);
        let end_ms = (audio.position_s() * 1000.0).round() as u64;
        Ok(model.vocabulary().words(&tokens, model.frame_ms(), end_ms))
    }

    /// A whole-utterance checkpoint: windows cut at silence, a few at a time, of like length.
    fn in_windows(&self, audio: &mut AudioStream, job: &mut Job) -> Result<Spoken> {
        let mut cutter = Cutter::new(job.detector);
        let mut waiting: Vec<Window> = Vec::new();
        let mut spoken = Spoken::default();
        let mut ended = false;
        while !ended {
            match audio.next_block()? {
                Some(block) => waiting.extend(cutter.push(&block)?),
                None => {
                    waiting.extend(cutter.finish()?);
                    ended = true;
                }
            }
            while waiting.len() >= WINDOWS_TOGETHER || (ended && !waiting.is_empty()) {
                let batch: Vec<Window> = waiting.drain(..waiting.len().min(WINDOWS_TOGETHER)).collect();
                let samples: Vec<&[f32]> = batch.iter().map(|window| window.samples.as_slice()).collect();
                let (features, lengths) = self.model.preprocessor().utterances(&samples, &self.device)?;
                let tokens = self.model.recognise(features, &lengths, job.search())?;
                for (window, mut tokens) in batch.iter().zip(tokens) {
                    self.keep_heard(&window.heard()?, &mut tokens, job);
                    let length_ms = window.samples.len() as u64 * 1000 / u64::from(SAMPLE_RATE);
                    let part = self.model.vocabulary().words(&tokens, self.model.frame_ms(), length_ms);
                    join(&mut spoken, part, window);
                }
                job.report(audio.position_s())?;
            }
        }
        Ok(spoken)
    }

    /// Leaves out the tokens that have no speech near them, and counts their words.
    fn keep_heard(&self, heard: &Heard, tokens: &mut Vec<Token>, job: &mut Job) {
        let unheard = heard.keep_near(tokens, self.model.frame_ms());
        job.unheard += self.model.vocabulary().words(&unheard, self.model.frame_ms(), u64::MAX).words.len();
    }

    /// The prompt slot of a language; 0 for checkpoints without one.
    pub(crate) fn language_slot(&self, language: Option<&str>) -> Result<usize> {
        let Some(prompt) = self.model.config().prompt else { return Ok(0) };
        let Some(language) = language else { return Ok(prompt.automatic) };
        let known = &self.model.preprocessor().languages;
        let wanted = language.replace('_', "-").to_lowercase();
        let slot = known.iter().find(|(name, _)| name.to_lowercase() == wanted).or_else(|| {
            let base = wanted.split('-').next().unwrap_or_default();
            known.iter().find(|(name, _)| name.to_lowercase().split('-').next() == Some(base))
        });
        slot.map(|(_, slot)| *slot).ok_or_else(|| Error::Language(format!("the checkpoint has no language {language}")))
    }

    /// Look-ahead in encoder frames: the largest trained one within `wanted_ms`, else the largest there is.
    pub(crate) fn look_ahead(&self, wanted_ms: Option<u32>) -> Result<usize> {
        let preprocessor = self.model.preprocessor();
        let mut trained = preprocessor.look_aheads.clone();
        if trained.is_empty() {
            trained.push(self.model.config().encoder.default_num_lookahead_tokens);
        }
        trained.sort_unstable();
        // A frame waits for its chunk: look-ahead r takes (r + 1) frames of audio.
        let latency = |frames: usize| (frames + 1) as f64 * self.model.frame_ms();
        match wanted_ms {
            None => Ok(trained.last().copied().unwrap_or_default()),
            Some(_) if !self.model.config().class.is_streaming() => {
                Err(Error::InvalidOption("a look-ahead needs a streaming checkpoint".into()))
            }
            Some(ms) => trained.iter().rev().copied().find(|r| latency(*r) <= f64::from(ms)).ok_or_else(|| {
                Error::InvalidOption(format!("the checkpoint's shortest look-ahead is {} ms", latency(trained[0])))
            }),
        }
    }
}

/// The warning that words were left out.
fn left_out(words: usize) -> Option<String> {
    match words {
        0 => None,
        1 => Some("1 word where no speech was detected was left out".into()),
        _ => Some(format!("{words} words where no speech was detected were left out")),
    }
}
