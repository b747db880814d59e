//! A clip of one person's speech to the profile of the voice.

use std::sync::Arc;

use super::embedded::Embedding;
use crate::audio::{AudioStream, SAMPLE_RATE};
use crate::error::{Error, Result};
use crate::models::voice::VoiceEmbedder;
use crate::pipeline::executors::device::DeviceExecutor;
use crate::scheduler::Scheduler;
use crate::speakers::clustering::cluster;
use crate::speakers::directions::{mean, unit};
use crate::transcript::VoiceProfile;
use crate::vad::shared::SharedVad;

/// The rules for a clip.
#[derive(Clone, Copy, Debug)]
pub struct ClipRules {
    /// Seconds of speech at least.
    least_speech_s: f64,
    /// Seconds of audio at most: one block of the clustering or less.
    longest_s: usize,
    /// A clip is of several people where so large a part of its speech is not the first one's.
    others: f64,
}

impl ClipRules {
    /// For a profile that is kept.
    pub const PROFILE: Self = Self { least_speech_s: 5.0, longest_s: 600, others: 0.15 };
    /// For one transcription. So short a clip of one person may look like two.
    pub const REFERENCE: Self = Self { least_speech_s: 0.5, longest_s: 15, others: 0.5 };
}

/// Makes the profile of the person who speaks in a clip.
///
/// # Errors
/// [`Error::UnsuitableClip`] for a clip with too little speech, with several people, or that is too long; what decoding or the device
/// reports.
pub fn profile(
    model: &Arc<VoiceEmbedder>,
    worker: &Scheduler<DeviceExecutor>,
    detector: Option<SharedVad>,
    audio: AudioStream,
    rules: ClipRules,
) -> Result<VoiceProfile> {
    let ClipRules { least_speech_s, longest_s, others } = rules;
    let mut samples = 0;
    let blocks = audio.with_leveling().map(|block| {
        let block = block?;
        samples += block.len();
        match samples > longest_s * SAMPLE_RATE as usize {
            true => unsuitable(format!("the clip is longer than {longest_s} s; cut it")),
            false => Ok(block),
        }
    });
    let mut directions = Vec::new();
    let embedding = Embedding::open(model.clone(), worker)?;
    let decided = embedding.run(detector, blocks, |direction| directions.push(unit(direction)))?;
    let speech_sec = decided.iter().map(|span| span.end - span.start).sum::<u64>() as f64 / 1e3;
    if speech_sec < least_speech_s {
        return unsuitable(format!(
            "the clip has {speech_sec:.1} s of speech; at least {least_speech_s} s of one person are needed, without music"
        ));
    }
    let speakers = cluster(&directions, None);
    let count = |speaker: usize| speakers.iter().filter(|one| **one == speaker).count();
    let most = (0..=speakers.iter().copied().max().unwrap_or(0)).map(count).max().unwrap_or(0);
    if (speakers.len() - most) as f64 > others * speakers.len() as f64 {
        return unsuitable("more than one person seems to speak in the clip; cut out one person's speech".into());
    }
    let direction = unit(mean(&directions.iter().collect::<Vec<_>>()));
    Ok(VoiceProfile::new(model.fingerprint(), direction, speech_sec))
}

fn unsuitable<T>(reason: String) -> Result<T> {
    Err(Error::UnsuitableClip(reason))
}
