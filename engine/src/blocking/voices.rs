//! Voices, and streams of speech.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Engine;
use super::cloning::cloned_file;
use super::devices::EngineDevice;
use crate::error::{Error, Result};
use crate::language::primary_subtag;
use crate::pipeline::executors::speech::text_phrase::readable;
use crate::pipeline::executors::speech::voice_model::{self, ModelVoice, VoiceModel};
use crate::pipeline::speech::session::{self as speech_session, SpeechFrames, SpeechInput};
use crate::scheduler::Priority;
use crate::speech::{SpeakOptions, SpeechFrame, VoiceInfo};
use crate::text::speech::ClauseSplitter;

/// Frames of a stream of speech, as an iterator that waits for the next one.
#[derive(Debug)]
pub struct Speech(SpeechFrames);

impl Iterator for Speech {
    type Item = Result<SpeechFrame>;

    fn next(&mut self) -> Option<Self::Item> {
        cubecl::future::block_on(self.0.next())
    }
}

impl Engine {
    /// The voices that [`Engine::speak`] has: the catalog's whose folders are there, or those of the options' checkpoint. The first is the
    /// default.
    ///
    /// # Errors
    /// [`Error::NotPulled`] when no voice is there, [`Error::Checkpoint`] when the list of a folder's voices is malformed.
    pub fn voices(&self, options: &SpeakOptions) -> Result<Vec<VoiceInfo>> {
        self.voices_and_paths(options).map(|voices| voices.into_iter().map(|(voice, _)| voice).collect())
    }

    pub(super) fn voices_and_paths(&self, options: &SpeakOptions) -> Result<Vec<(VoiceInfo, PathBuf)>> {
        let voice = |id, language: &str, model: &str, path: &Path| {
            let voice = VoiceInfo { id, language: language.into(), model: model.into() };
            (voice, path.to_path_buf())
        };
        if let Some(path) = &options.checkpoint {
            let model = path.file_name().unwrap_or_default().to_string_lossy();
            // The text front end reads English.
            let ids = voice_model::voice_ids(path)?.into_iter();
            return Ok(ids.map(|id| voice(id, "en", &model, path)).collect());
        }
        let mut voices = Vec::new();
        let folders = self.catalog.voices().iter();
        let folders =
            folders.flat_map(|model| self.catalog.voice_paths(model).into_iter().map(move |path| (model, path)));
        for (model, path) in folders.filter(|(_, path)| path.is_dir()) {
            let first = voices.len();
            let ids = voice_model::voice_ids(&path)?.into_iter();
            voices.extend(ids.map(|id| voice(id, &model.language, &model.id, &path)));
            // None that was added becomes the default.
            voices[first..].sort_by_cached_key(|(voice, path)| cloned_file(path, &voice.id).is_some());
            let default = |(voice, _): &(VoiceInfo, PathBuf)| Some(&voice.id) == model.default_voice.as_ref();
            if let Some(at) = voices[first..].iter().position(default) {
                voices[first..=first + at].rotate_right(1);
            }
        }
        if voices.is_empty() {
            let reason = "no voice is there: the models folder lacks the starter voice, which comes with the program";
            let pull = self.voices_to_pull(None).map(|command| format!("; {command}")).unwrap_or_default();
            return Err(Error::NotPulled(format!("{reason} (AURICLE_MODELS or --models names another folder){pull}")));
        }
        Ok(voices)
    }

    /// The command that fetches voices of a language, or of any, which the catalog knows and the models folder lacks.
    fn voices_to_pull(&self, language: Option<&str>) -> Option<String> {
        let model = self.catalog.voices().iter().find(|model| {
            let absent = model.published.is_some() && self.catalog.published_voice_path(model).is_none();
            absent && language.is_none_or(|language| model.language == language)
        })?;
        Some(format!("`auricle models pull {}` fetches voices", model.id))
    }

    /// Opens a stream of speech: text goes into the first part, frames of 80 ms come out of the second. All streams share the device's
    /// steps.
    ///
    /// # Errors
    /// [`Error::UnknownVoice`] and [`Error::Language`] for a voice that is not there, with those that are; [`Error::InvalidOption`] for a
    /// speed; [`Error::Busy`] when there are as many streams as there may be; what loading reports.
    pub fn speak(&self, options: &SpeakOptions) -> Result<(SpeechInput, Speech)> {
        self.open_speech(options).map(|(input, frames)| (input, Speech(frames)))
    }

    pub(crate) fn open_speech(&self, options: &SpeakOptions) -> Result<(SpeechInput, SpeechFrames)> {
        options.check()?;
        let on = self.devices.choose(Priority::Speech)?;
        let (model, voice) = self.voice_model(&on, options)?;
        speech_session::open(&*on.worker()?, model, voice, options, (self.speech.0, &self.speech.1))
    }

    /// Loads the voice that speech with these options takes, and measures its loudness, so that the first does not wait for it.
    ///
    /// # Errors
    /// As [`Engine::speak`].
    pub fn load_voice(&self, options: &SpeakOptions) -> Result<()> {
        for on in self.devices.all()? {
            let (model, voice) = self.voice_model(&on, options)?;
            on.suspect(model.measures(&voice))?;
        }
        Ok(())
    }

    /// The text that [`Engine::speak`] says for `text` with these options, a clause each: English in words, another language as its
    /// voice gets it. No voice is loaded.
    ///
    /// # Errors
    /// As [`Engine::speak`] for a voice that is not there.
    pub fn spoken_text(&self, text: &str, options: &SpeakOptions) -> Result<Vec<String>> {
        let (voice, _) = self.chosen_voice(options)?;
        let written = |range: Range<usize>| text.get(range).unwrap_or_default().to_owned();
        let mut splitter = ClauseSplitter::new();
        let mut clauses = splitter.push(text);
        clauses.extend(splitter.finish());
        Ok(clauses.iter().filter_map(|clause| readable(clause, &voice.language, written)).collect())
    }

    /// The voice of the options, and its folder.
    fn chosen_voice(&self, options: &SpeakOptions) -> Result<(VoiceInfo, PathBuf)> {
        if let Some(cloned) = &options.cloned {
            return self.model_of(cloned, options);
        }
        let voices = self.voices_and_paths(options)?;
        let pull = |language: &str| match &options.checkpoint {
            Some(_) => None,
            None => self.voices_to_pull(Some(language)),
        };
        let chosen = match (&options.voice, &options.language) {
            (None, None) => voices.first().ok_or_else(|| Error::internal("there is no voice"))?,
            (None, Some(language)) => {
                // A language is no voice's name.
                let wanted = primary_subtag(language);
                let first = voices.iter().find(|(voice, _)| voice.language == wanted);
                first.ok_or_else(|| no_voice_of(&voices, &wanted, pull))?
            }
            (Some(wanted), None) => find_voice(&voices, wanted, pull)?,
            (Some(wanted), Some(language)) => {
                let spoken = primary_subtag(language);
                // Models of two languages may each have a voice of this name.
                let both = voices.iter().find(|(voice, _)| voice.id == *wanted && voice.language == spoken);
                let chosen = both.map_or_else(|| find_voice(&voices, wanted, pull), Ok)?;
                let VoiceInfo { id, language: its, .. } = &chosen.0;
                if *its != spoken {
                    let reason = format!("{id} speaks {its}, not {language}; leave the voice or the language out");
                    return Err(Error::Language(reason));
                }
                chosen
            }
        };
        Ok(chosen.clone())
    }

    /// The model of a voice, and the voice.
    fn voice_model(&self, on: &EngineDevice, options: &SpeakOptions) -> Result<(Arc<VoiceModel>, ModelVoice)> {
        let (voice, path) = &self.chosen_voice(options)?;
        let g2p = self.catalog.g2p();
        let load =
            || VoiceModel::load(path, &voice.language, &on.device, on.precision.unwrap_or_default(), g2p.as_deref());
        let model = on.model(path, load)?;
        let voice = match &options.cloned {
            Some(cloned) => model.recorded(cloned.latents.clone())?,
            None => model.voice(path, &voice.id)?,
        };
        Ok((model, voice))
    }
}

/// The voice of an id, or the first that speaks a language; `pull` gives the command that fetches voices of a language.
///
/// # Errors
/// [`Error::Language`] for a language that no voice speaks, [`Error::UnknownVoice`] for another name; both list what is there.
fn find_voice<'a>(
    voices: &'a [(VoiceInfo, PathBuf)],
    wanted: &str,
    pull_of: impl Fn(&str) -> Option<String>,
) -> Result<&'a (VoiceInfo, PathBuf)> {
    let by_id = voices.iter().find(|(voice, _)| voice.id == wanted);
    let language = primary_subtag(wanted);
    if let Some(voice) = by_id.or_else(|| voices.iter().find(|(voice, _)| voice.language == language)) {
        return Ok(voice);
    }
    let known = known(voices);
    let of_folder = |(_, path): &(VoiceInfo, PathBuf)| voice_model::other_language(path, wanted);
    if let Some(other) = voices.iter().find_map(of_folder) {
        return Err(Error::Language(format!("{wanted} speaks {other}, and text is read as English; {known}")));
    }
    let is_code = (2..=3).contains(&language.len()) && language.bytes().all(|byte| byte.is_ascii_lowercase());
    let pull = || pull_of(&language).map(|command| format!("{command}; ")).unwrap_or_default();
    match is_code {
        true if language == wanted => Err(no_voice_of(voices, &language, &pull_of)),
        true => Err(Error::Language(format!("no voice is named {wanted} or speaks {language}; {}{known}", pull()))),
        false => Err(Error::UnknownVoice(format!("{wanted:?}; {known}"))),
    }
}

/// The voices that there are, as errors list them.
fn known(voices: &[(VoiceInfo, PathBuf)]) -> String {
    let known: Vec<String> = voices.iter().map(|(voice, _)| format!("{} ({})", voice.id, voice.language)).collect();
    format!("there are {}; `auricle voices list` lists them", known.join(", "))
}

/// The error for a language that no voice speaks.
fn no_voice_of(voices: &[(VoiceInfo, PathBuf)], language: &str, pull: impl Fn(&str) -> Option<String>) -> Error {
    let pull = pull(language).map(|command| format!("{command}; ")).unwrap_or_default();
    Error::Language(format!("no voice speaks {language}; {pull}{}", known(voices)))
}
