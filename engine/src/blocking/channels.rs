//! Recordings whose channels are transcribed each by itself: a call with one speaker a side.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::Engine;
use crate::audio::{AudioStream, OpenOptions};
use crate::error::{Error, Result};
use crate::options::{SpeakerLabels, TranscribeOptions};
use crate::speakers::words::label;
use crate::text::tokens::{joined, mean_confidence};
use crate::text::{Word, segments};
use crate::transcript::{Progress, Transcript};

/// The most channels that are transcribed apart.
pub const MAX_SEPARATE_CHANNELS: usize = 8;

impl Engine {
    /// Transcribes each channel of a file by itself. Words carry their [`Word::channel`], and the channels count as speakers, labeled by
    /// first word. The words come sentence by sentence: where two channels speak at once, a sentence may begin before the end of
    /// the one before it.
    ///
    /// `progress` is called after every step, and says whether to go on.
    ///
    /// # Errors
    /// As [`Engine::transcribe_with`]; [`Error::UnsupportedMedia`] for a file of more than [`MAX_SEPARATE_CHANNELS`] channels.
    pub fn transcribe_channels(
        &self,
        path: impl AsRef<Path>,
        open: &OpenOptions,
        options: &TranscribeOptions,
        progress: impl FnMut(Progress) -> ControlFlow<()> + Send,
    ) -> Result<Transcript> {
        let path = path.as_ref();
        let count = AudioStream::open_with(path, open)?.channels();
        if count > MAX_SEPARATE_CHANNELS {
            return Err(Error::UnsupportedMedia(format!(
                "the file has {count} channels; at most {MAX_SEPARATE_CHANNELS} can be transcribed apart"
            )));
        }
        let options = options.clone().speakers(SpeakerLabels::Off);
        let together = Mutex::new(Together { done_s: vec![0.0; count], progress });
        let (together, options) = (&together, &options);
        let transcripts: Vec<Result<Transcript>> = std::thread::scope(|scope| {
            let of_channel = |channel: usize| {
                let open = open.clone().channel(channel);
                scope.spawn(move || {
                    let audio = AudioStream::open_with(path, &open)?;
                    self.transcribe_with(audio, options, |progress| {
                        together.lock().unwrap_or_else(PoisonError::into_inner).report(channel, progress)
                    })
                })
            };
            let threads: Vec<_> = (0..count.max(1)).map(of_channel).collect();
            let ended = |_| Err(Error::internal("the transcription of a channel panicked"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(ended)).collect()
        });
        Ok(merge(transcripts.into_iter().collect::<Result<_>>()?))
    }
}

/// Progress of all channels: that of the slowest.
struct Together<F> {
    done_s: Vec<f64>,
    progress: F,
}

impl<F: FnMut(Progress) -> ControlFlow<()>> Together<F> {
    fn report(&mut self, channel: usize, progress: Progress) -> ControlFlow<()> {
        if let Some(done_s) = self.done_s.get_mut(channel) {
            *done_s = progress.audio_s;
        }
        let audio_s = self.done_s.iter().copied().fold(f64::INFINITY, f64::min);
        (self.progress)(Progress { audio_s, words: &[], ..progress })
    }
}

/// One transcript of those of all channels.
fn merge(transcripts: Vec<Transcript>) -> Transcript {
    let mut sentences: Vec<(usize, &[Word])> = Vec::new();
    for (channel, transcript) in transcripts.iter().enumerate() {
        sentences.extend(segments::sentences(&transcript.words).iter().map(|sentence| (channel, sentence.words)));
    }
    sentences.sort_by_key(|(channel, words)| (words.first().map_or(0, |word| word.start), *channel));
    let mut order: Vec<usize> = Vec::new();
    let (mut words, mut speakers) = (Vec::new(), Vec::new());
    for (channel, sentence) in sentences {
        let known = order.iter().position(|known| *known == channel);
        let speaker = known.unwrap_or_else(|| {
            order.push(channel);
            order.len() - 1
        });
        words.extend(sentence.iter().map(|word| Word {
            speaker: Some(label(speaker)),
            channel: Some(channel + 1),
            ..word.clone()
        }));
        speakers.resize(words.len(), speaker);
    }
    let several = transcripts.len() > 1;
    let warnings = transcripts.iter().enumerate().flat_map(|(channel, transcript)| {
        let warnings = transcript.warnings.iter();
        warnings
            .map(move |warning| if several { format!("channel {}: {warning}", channel + 1) } else { warning.clone() })
    });
    let spoken = transcripts.iter().filter(|transcript| !transcript.words.is_empty());
    let mut whole = Transcript {
        text: joined(&words),
        confidence: mean_confidence(&words),
        language_code: spoken.chain(&transcripts).find_map(|transcript| transcript.language_code.clone()),
        audio_duration_sec: transcripts.iter().map(|transcript| transcript.audio_duration_sec).fold(0.0, f64::max),
        model: transcripts.first().map(|transcript| transcript.model.clone()).unwrap_or_default(),
        warnings: warnings.collect(),
        words,
        utterances: None,
    };
    whole.cut_utterances(&speakers);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(words: &[(&str, u64)], language: Option<&str>, warning: &str) -> Transcript {
        let words: Vec<Word> = words
            .iter()
            .map(|(text, start)| Word {
                text: (*text).into(),
                start: *start,
                end: start + 300,
                confidence: 0.5,
                speaker: None,
                speaker_name: None,
                channel: None,
            })
            .collect();
        Transcript {
            text: joined(&words),
            words,
            utterances: None,
            confidence: None,
            language_code: language.map(str::to_owned),
            audio_duration_sec: 10.0,
            model: "m".into(),
            warnings: vec![warning.into()],
        }
    }

    #[test]
    fn channels_are_speakers_whose_sentences_come_in_turn() {
        let first = transcript(&[("How", 2_000), ("are", 2_300), ("you?", 2_600), ("Good.", 5_000)], Some("en"), "one");
        // It begins before the other ends.
        let second = transcript(&[("Hello.", 0), ("Fine,", 2_700), ("thanks.", 3_000)], Some("en"), "two");
        let whole = merge(vec![first, second]);
        assert_eq!(whole.text, "Hello. How are you? Fine, thanks. Good.");
        let marks: Vec<_> =
            whole.words.iter().map(|word| (word.speaker.as_deref().unwrap(), word.channel.unwrap())).collect();
        assert_eq!(marks, [("A", 2), ("B", 1), ("B", 1), ("B", 1), ("A", 2), ("A", 2), ("B", 1)]);
        let utterances: Vec<_> =
            whole.utterances.unwrap().iter().map(|one| (one.speaker.clone(), one.text.clone())).collect();
        assert_eq!(utterances.len(), 4);
        assert_eq!(utterances[1], ("B".into(), "How are you?".into()));
        assert_eq!(whole.warnings, ["channel 1: one", "channel 2: two"]);
        assert_eq!((whole.confidence, whole.audio_duration_sec), (Some(0.5), 10.0));
    }

    #[test]
    fn silent_channels_add_nothing() {
        let whole = merge(vec![transcript(&[], None, "a"), transcript(&[("Oui.", 0)], Some("fr"), "b")]);
        assert_eq!((whole.text.as_str(), whole.language_code.as_deref()), ("Oui.", Some("fr")));
        assert_eq!(merge(vec![transcript(&[], None, "a")]).words, []);
    }
}
