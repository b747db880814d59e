//! The error type of the engine. Every message is fit to be shown to a user.

use std::fmt;
use std::panic::Location;
use std::path::PathBuf;

/// Errors on the way from an audio file to its text.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read: it is missing, is a directory, or permission is lacking.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's message.
        reason: String,
    },
    /// A result could not be written: no room, or nobody takes it.
    #[error("cannot write: {0}")]
    Write(String),
    /// The bytes are not audio or video that can be decoded.
    #[error("{0}")]
    UnsupportedMedia(String),
    /// The container is valid and holds no audio.
    #[error("no audio track: {0}")]
    NoAudioTrack(String),
    /// The audio needs the `ffmpeg` program, which is not installed.
    #[error(
        "{0} needs ffmpeg, which was not found; install it (Debian: apt-get install ffmpeg, macOS: brew install ffmpeg) \
         or set AURICLE_FFMPEG to its path"
    )]
    FfmpegMissing(String),
    /// `ffmpeg` was started and failed, or exceeded its limits.
    #[error("ffmpeg: {0}")]
    Ffmpeg(String),
    /// A checkpoint's configuration is missing, malformed or of an architecture the engine does not have.
    #[error("checkpoint {path}: {}", InOneLine(reason))]
    Checkpoint {
        /// The faulty file or folder.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// A tensor of a checkpoint is missing, unexpected, or has another shape or type than the architecture needs.
    #[error("checkpoint tensor {}: {}", InOneLine(tensor), InOneLine(reason))]
    Weights {
        /// The tensor's name in the checkpoint.
        tensor: String,
        /// The fault.
        reason: String,
    },
    /// A file that is not a language model, or a malformed one.
    #[error("language model {path}: {}", InOneLine(reason))]
    LanguageModel {
        /// The file.
        path: PathBuf,
        /// The fault and its line.
        reason: String,
    },
    /// The requested device is not present, or failed at its first kernel.
    #[error("device {device}: {reason}")]
    Device {
        /// The device as requested.
        device: String,
        /// The reason that it cannot be used.
        reason: String,
    },
    /// The loaded checkpoint does not cover the language.
    #[error("{0}")]
    Language(String),
    /// The catalog has no model of that name.
    #[error("unknown model {0}")]
    UnknownModel(String),
    /// No voice of that name is there.
    #[error("unknown voice {0}")]
    UnknownVoice(String),
    /// No checkpoint of a language model or voice is there. The message names the command that fetches one.
    #[error("{0}")]
    NotPulled(String),
    /// A clip does not show one person's voice: it has too little speech, several people, or is too long.
    #[error("{0}")]
    UnsuitableClip(String),
    /// A conversation is longer than the language model can read.
    #[error(
        "the prompt has {prompt_tokens} tokens; with the model's context of {context_tokens} there is no room for an answer"
    )]
    ContextLength {
        /// Tokens of the prompt.
        prompt_tokens: usize,
        /// Tokens that prompt and answer may have together.
        context_tokens: usize,
    },
    /// The engine is at its capacity. The caller may try again later.
    #[error("busy: {0}")]
    Busy(String),
    /// The caller has canceled the work.
    #[error("canceled")]
    Canceled,
    /// An option's value is out of its range.
    #[error("{0}")]
    InvalidOption(String),
    /// An invariant of the engine does not hold, or a step panicked: a fault of Auricle, not of the input.
    #[error("internal error at {place}: {reason}; this is a fault of Auricle, please report it")]
    Internal {
        /// The place in the engine's source that detected it.
        place: &'static Location<'static>,
        /// The invariant that does not hold.
        reason: String,
    },
}

impl Error {
    /// An [`Error::Internal`] at the caller's place.
    #[track_caller]
    pub(crate) fn internal(reason: impl Into<String>) -> Self {
        Self::Internal { place: Location::caller(), reason: reason.into() }
    }
}

/// A text that may have parts of a file that is not trusted: control characters, which could begin a new line or steer a terminal, are
/// written as escapes.
struct InOneLine<'a>(&'a str);

impl fmt::Display for InOneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter.is_control() {
            true => write!(f, "{}", letter.escape_default()),
            false => write!(f, "{letter}"),
        })
    }
}

/// Result with the engine's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_file_neither_begin_a_line_nor_steer_a_terminal() {
        let error = Error::Weights { tensor: "a\nb".into(), reason: "\u{1b}[2J, 2 × 3 are needed".into() };
        assert_eq!(error.to_string(), r"checkpoint tensor a\nb: \u{1b}[2J, 2 × 3 are needed");
        let error = Error::Checkpoint { path: "model.gguf".into(), reason: "ro\u{8}\n: type 9".into() };
        assert_eq!(error.to_string(), r"checkpoint model.gguf: ro\u{8}\n: type 9");
    }
}
