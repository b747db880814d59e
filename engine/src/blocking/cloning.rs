//! Voices that are made of recordings.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use auricle_kernels::thread_pool;

use super::Engine;
use crate::audio::AudioStream;
use crate::error::{Error, Result};
use crate::language::primary_subtag;
use crate::models::pocket_tts::{self, Encoder, ending_on_pause};
use crate::pipeline::executors::speech::voice_model::clones;
use crate::speech::{ClonedVoice, SpeakOptions, VoiceInfo};

/// Seconds of a clip.
const CLIP_S: std::ops::RangeInclusive<f64> = 5.0..=20.0;

impl Engine {
    /// Makes a voice of a clip of one person, who has agreed to it in the words of `consent`. It speaks the language of its model: the first
    /// that makes voices, or the first that speaks `language`.
    ///
    /// # Errors
    /// [`Error::NotPulled`] without such a model; [`Error::Language`] if none speaks the language; [`Error::UnsuitableClip`] for a clip that
    /// is shorter than 5 s or longer than 20, has less than 5 s of speech, or several people; [`Error::Checkpoint`] for a model without the
    /// encoder that makes voices; else as [`Engine::enroll`].
    pub fn clone_voice(&self, audio: AudioStream, consent: &str, language: Option<&str>) -> Result<ClonedVoice> {
        let (model, path) = self.cloning_model(language)?;
        let tokenizer = path.join("audio_tokenizer");
        let encoder = Encoder::load(&tokenizer)?;
        let rate = encoder.sample_rate();
        let unsuitable = |reason: String| Err(Error::UnsuitableClip(reason));
        let (least, most) = (CLIP_S.start(), CLIP_S.end());
        let Some(samples) = audio.read_at(rate, *most)? else {
            return unsuitable(format!("the clip is longer than {most:.0} s; cut it"));
        };
        let seconds = samples.len() as f64 / f64::from(rate);
        if seconds < *least {
            let needed = format!("{least:.0} to {most:.0} s of one person's speech are needed");
            return unsuitable(format!("the clip has {seconds:.1} s; {needed}"));
        }
        let sample = |sample: &f32| ((sample.clamp(-1.0, 1.0) * 32_767.0).round() as i16).to_le_bytes();
        let pcm: Vec<u8> = samples.iter().flat_map(sample).collect();
        self.enroll(AudioStream::from_pcm_s16le(Cursor::new(pcm), rate, 1)?)?;
        let latents = thread_pool::run(|pool| encoder.forward(pool, &ending_on_pause(&samples, rate)));
        if latents.iter().any(|value| !value.is_finite()) {
            return Err(Error::Checkpoint { path: tokenizer, reason: "the encoder's values are no numbers".into() });
        }
        Ok(ClonedVoice {
            model: model.model,
            language: model.language,
            tokenizer: pocket_tts::fingerprint(&tokenizer)?,
            consent: consent.into(),
            width: encoder.latent(),
            latents,
        })
    }

    /// The file of a voice by its name, beside the voices of the model that a clip's voice of this language is made for.
    ///
    /// # Errors
    /// As [`Engine::clone_voice`] without a model.
    pub fn cloned_voice_path(&self, name: &str, language: Option<&str>) -> Result<PathBuf> {
        Ok(pocket_tts::voice_path(&self.cloning_model(language)?.1, name))
    }

    /// The file of a listed voice that [`Engine::clone_voice`] has made; none for one that came with its model.
    ///
    /// # Errors
    /// As [`Engine::voices`]; [`Error::UnknownVoice`] for a name that no voice has.
    pub fn cloned_voice_file(&self, name: &str) -> Result<Option<PathBuf>> {
        let voices = self.voices_and_paths(&SpeakOptions::default())?;
        let found = voices.into_iter().find(|(voice, _)| voice.id == name);
        let (_, path) =
            found.ok_or_else(|| Error::UnknownVoice(format!("{name:?}; `auricle voices list` lists them")))?;
        Ok(cloned_file(&path, name))
    }

    /// The model of a voice that was made of a recording.
    pub(super) fn model_of(&self, cloned: &ClonedVoice, options: &SpeakOptions) -> Result<(VoiceInfo, PathBuf)> {
        let is_its = |path: &Path| {
            clones(path)
                && pocket_tts::fingerprint(&path.join("audio_tokenizer")).is_ok_and(|of| of == cloned.tokenizer)
        };
        let wanted = options.language.as_deref().map_or_else(|| cloned.language.clone(), primary_subtag);
        let mut models = self.voices_and_paths(options)?;
        models.dedup_by(|a, b| a.1 == b.1);
        models.retain(|(_, path)| is_its(path));
        if models.is_empty() {
            let reason = "its model is gone, or was made anew; make the voice again from its clip";
            return Err(Error::UnknownVoice(format!("of a recording: {reason}")));
        }
        let known: Vec<String> = models.iter().map(|(voice, _)| voice.language.clone()).collect();
        let found = models.into_iter().find(|(voice, _)| voice.language == wanted);
        found.ok_or_else(|| Error::Language(format!("the voice speaks {}, not {wanted}", known.join(", "))))
    }

    fn cloning_model(&self, language: Option<&str>) -> Result<(VoiceInfo, PathBuf)> {
        let none =
            "no model here makes voices of recordings: it takes a folder of Pocket TTS's form with its audio tokenizer";
        let mut models = match self.voices_and_paths(&SpeakOptions::default()) {
            Err(Error::NotPulled(_)) => Vec::new(),
            models => models?,
        };
        models.retain(|(_, path)| clones(path));
        let speaks = |(voice, _): &&(VoiceInfo, PathBuf)| {
            language.is_none_or(|language| voice.language == primary_subtag(language))
        };
        match (models.iter().find(speaks), models.first(), language) {
            (Some(model), _, _) => Ok(model.clone()),
            (None, Some((voice, _)), Some(language)) => {
                let speaks = &voice.language;
                Err(Error::Language(format!(
                    "the models that make voices of recordings speak {speaks}, not {language}"
                )))
            }
            _ => Err(Error::NotPulled(none.into())),
        }
    }
}

/// The file of a folder's voice that was made of a recording; none for another.
pub fn cloned_file(dir: &Path, id: &str) -> Option<PathBuf> {
    let file = pocket_tts::voice_path(dir, id);
    let is_made = clones(dir) && std::fs::read(&file).is_ok_and(|bytes| ClonedVoice::from_file(&bytes).is_some());
    is_made.then_some(file)
}
