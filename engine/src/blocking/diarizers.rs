//! The models that tell who speaks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use auricle_kernels::product::gemv::Precision;
use burn::tensor::Device;

use super::devices::EngineDevice;
use super::{Engine, RecordingPermit};
use crate::audio::AudioStream;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::models::sortformer::{self, Sortformer};
use crate::models::voice::{VoiceEmbedder, fingerprint};
use crate::options::{SpeakerLabels, TranscribeOptions};
use crate::pipeline::offline::speaker_labels::{
    Diarizer, DiarizerForm, Naming,
    enrolment::{self, ClipRules},
};
use crate::scheduler::Priority;
use crate::transcript::{KnownSpeaker, VoiceProfile};
use crate::vad::shared::SharedVad;

/// Of a speaker embedding on a CPU that is faster with 8 bits: conversations have about as many errors in the mean as with 32.
const PRECISION: Precision = Precision::Int8;

/// Loads a model that tells who speaks on the CPU, a diarizer or a speaker embedding, to see that every tensor is there, has its shape,
/// and none is left over; gives the number of values in its tensors.
///
/// # Errors
/// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
pub fn check_diarizer(dir: impl AsRef<Path>) -> Result<usize> {
    let (dir, device) = (dir.as_ref(), Device::flex());
    match DiarizerForm::of(dir)? {
        DiarizerForm::Clustering => Ok(VoiceEmbedder::load(dir, &device, PRECISION)?.parameters()),
        DiarizerForm::EndToEnd => Ok(Sortformer::load(dir, &device)?.parameters()),
    }
}

/// The fingerprint of the embedding that profiles of voices are made with; none where the catalog names no embedding. A profile of
/// another fingerprint cannot be used.
///
/// # Errors
/// [`Error::Checkpoint`] when the embedding cannot be read.
pub fn speaker_embedding(catalog: &Catalog) -> Result<Option<String>> {
    embedding_dir(catalog)?.map(|dir| fingerprint(&dir)).transpose()
}

/// The folder of the embedding: that of the diarizer if it is one, else the starter's.
fn embedding_dir(catalog: &Catalog) -> Result<Option<PathBuf>> {
    match catalog.diarizer() {
        Some(dir) if DiarizerForm::of(&dir)? == DiarizerForm::Clustering => Ok(Some(dir)),
        _ => Ok(catalog.starter_diarizer()),
    }
}

fn embedder(on: &EngineDevice, dir: &Path) -> Result<Arc<VoiceEmbedder>> {
    on.model(dir, || VoiceEmbedder::load(dir, &on.device, PRECISION))
}

impl Engine {
    /// Makes the profile of the person who speaks in a clip. It is for a transcription's
    /// [`known_speakers`](TranscribeOptions::known_speakers).
    ///
    /// # Errors
    /// [`Error::UnsuitableClip`] for less than five seconds of speech, several people, or more than ten minutes;
    /// [`Error::InvalidOption`] where the models folder cannot name speakers; [`Error::Busy`] when there are as many recordings as there
    /// may be; what loading, decoding or the device reports.
    pub fn enroll(&self, audio: AudioStream) -> Result<VoiceProfile> {
        self.profile(audio, ClipRules::PROFILE)
    }

    /// The same of a short reference, for one transcription: half a second of speech, in at most 15 s. The less speech there is, the more often
    /// the person stays without a name.
    ///
    /// # Errors
    /// As [`Engine::enroll`].
    pub fn enroll_reference(&self, audio: AudioStream) -> Result<VoiceProfile> {
        self.profile(audio, ClipRules::REFERENCE)
    }

    fn profile(&self, audio: AudioStream, rules: ClipRules) -> Result<VoiceProfile> {
        let _permit = RecordingPermit::take(&self.recordings)?;
        let on = self.devices.choose(Priority::Offline)?;
        let (model, worker, detector) = (self.speaker_embedder(&on)?, on.worker()?, self.detector()?);
        on.suspect(enrolment::profile(&model, &worker, detector.map(SharedVad::new), audio, rules))
    }

    /// The people whom a transcription names, and the embedding that made their profiles; none if nobody is to be named.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] without speaker labels, for a profile of another embedding, and where the models folder cannot name
    /// speakers.
    pub(super) fn naming(&self, on: &EngineDevice, options: &TranscribeOptions) -> Result<Option<Naming>> {
        if options.known_speakers.is_empty() {
            return Ok(None);
        }
        if options.speakers == SpeakerLabels::Off {
            return Err(Error::InvalidOption("known speakers are named where speaker labels are asked for".into()));
        }
        let model = self.speaker_embedder(on)?;
        let other = |known: &&KnownSpeaker| known.profile.model != model.fingerprint();
        if let Some(KnownSpeaker { name, .. }) = options.known_speakers.iter().find(other) {
            let reason = format!("the profile of {name} was made by another speaker embedding; make it anew");
            return Err(Error::InvalidOption(reason));
        }
        Ok(Some(Naming { model, known: options.known_speakers.clone() }))
    }

    /// # Errors
    /// [`Error::InvalidOption`] if there is no embedding, or it has no cohort.
    fn speaker_embedder(&self, on: &EngineDevice) -> Result<Arc<VoiceEmbedder>> {
        let none = || Error::InvalidOption("the models folder has no speaker embedding that can name people".into());
        let dir = embedding_dir(&self.catalog)?.ok_or_else(none)?;
        let model = embedder(on, &dir)?;
        if model.cohort().is_empty() { Err(none()) } else { Ok(model) }
    }

    /// The model that tells `expected` speakers apart: the catalog's, or its starter for more than that can tell apart.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if the catalog names none, [`Error::Checkpoint`], [`Error::Weights`].
    pub(super) fn diarizer(&self, on: &EngineDevice, expected: Option<usize>) -> Result<Diarizer> {
        let none =
            || Error::InvalidOption("the models folder has no speaker labels: catalog.toml names no diarizer".into());
        let dir = self.catalog.diarizer().ok_or_else(none)?;
        let clustering = |dir: PathBuf| Ok(Diarizer::Clustering(embedder(on, &dir)?));
        if DiarizerForm::of(&dir)? == DiarizerForm::Clustering {
            return clustering(dir);
        }
        let most = sortformer::Config::read(&dir)?.head.num_speakers;
        if expected.is_some_and(|count| count > most) {
            return clustering(self.catalog.starter_diarizer().ok_or_else(none)?);
        }
        Ok(Diarizer::EndToEnd(on.model(&dir, || Sortformer::load(&dir, &on.device))?))
    }
}
