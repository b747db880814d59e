//! A word of a transcript.

use serde::{Deserialize, Serialize};

/// A word with its place in the audio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Word {
    /// As the model writes it, punctuation included.
    pub text: String,
    /// First moment, ms from the start of the audio.
    pub start: u64,
    /// Last moment, ms from the start of the audio.
    pub end: u64,
    /// 0 to 1: the mean over the word's tokens of one minus the normalised entropy of the model's distribution, mapped to the share of right
    /// words where the checkpoint states a map. Without one it is usually higher than that share, and orders the words of one checkpoint.
    pub confidence: f32,
    /// Label of the speaker, `A` say, where speaker labels were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// Name of the speaker, where known people were to be named and this is surely one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker_name: Option<String>,
    /// The channel, counted from 1, where each channel was transcribed by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<usize>,
}

impl Word {
    /// The speaker as a reader sees it: the name, else the label.
    #[must_use]
    pub fn shown_speaker(&self) -> Option<&str> {
        self.speaker_name.as_deref().or(self.speaker.as_deref())
    }
}
