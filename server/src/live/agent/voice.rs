//! The voice: says text as it comes.

use auricle_engine::converse::{Event, Failure, VoiceFrame, VoiceWord};
use auricle_engine::{Engine, Error, SpeakOptions, SpeechFrame, SpeechFrames, SpeechInput};
use tokio::sync::mpsc::{Sender, UnboundedReceiver};

use super::report::Report;
use crate::cloned_voices::ClonedVoices;
use crate::ids::AccountId;
use crate::languages::primary_subtag;

/// Text to say.
pub enum Words {
    More(String),
    Finished,
}

const APOLOGY: &str = "I am sorry, my voice failed for a moment. Please go on.";

/// The ids of the voices that there are.
pub fn ids(engine: &Engine) -> Vec<String> {
    match engine.voices(&SpeakOptions::default()) {
        Ok(voices) => voices.into_iter().map(|voice| voice.id).collect(),
        Err(error) => {
            tracing::debug!(%error, "there are no voices");
            Vec::new()
        }
    }
}

/// The voice of a text.
pub struct Speaker {
    pub engine: Engine,
    pub clones: ClonedVoices,
    pub account: AccountId,
    pub options: SpeakOptions,
    /// The caller's language, if it is known.
    pub language: Option<String>,
}

impl Speaker {
    async fn open(self) -> auricle_engine::Result<(SpeechInput, SpeechFrames)> {
        let Self { engine, clones, account, mut options, language } = self;
        if options.voice.is_none() {
            options.language = language.filter(|language| speaks(&engine, language));
        }
        let voice = options.voice.clone().unwrap_or_default();
        let options = clones.chosen(&account, options).await.map_err(|error| {
            tracing::error!(%error, "a voice could not be read");
            Error::UnknownVoice(voice)
        })?;
        engine.speak(&options).await
    }
}

/// True if a voice speaks the language. Where none does, the default voice answers.
fn speaks(engine: &Engine, language: &str) -> bool {
    let voices = engine.voices(&SpeakOptions::default()).unwrap_or_default();
    let speaks = voices.iter().any(|voice| voice.language == primary_subtag(language));
    if !speaks {
        tracing::warn!(language, "no voice speaks the caller's language; the default voice answers");
    }
    speaks
}

/// Says what comes, and sends its frames. Dropping the future cancels it.
pub async fn say(speaker: Speaker, speech: u64, mut words: UnboundedReceiver<Words>, reports: Sender<Report>) {
    let (input, mut frames) = match speaker.open().await {
        Ok(opened) => opened,
        Err(error) => return fail(speech, &error, &reports).await,
    };
    let mut input = Some(input);
    loop {
        tokio::select! {
            more = words.recv(), if input.is_some() => match more {
                Some(Words::More(text)) => {
                    if let Some(Err(error)) = input.as_mut().map(|input| input.push(&text)) {
                        return fail(speech, &error, &reports).await;
                    }
                }
                Some(Words::Finished) => {
                    if let Some(input) = input.take() {
                        input.finish();
                    }
                }
                None => return,
            },
            frame = frames.next() => {
                let event = match frame {
                    Some(Ok(frame)) => Event::Frame { speech, frame: voice_frame(frame) },
                    Some(Err(error)) => return fail(speech, &error, &reports).await,
                    None => Event::Said { speech },
                };
                let last = matches!(event, Event::Said { .. });
                if reports.send(Report::Event(event)).await.is_err() || last {
                    return;
                }
            }
        }
    }
}

fn voice_frame(frame: SpeechFrame) -> VoiceFrame {
    let word =
        |word: auricle_engine::SpokenWord| VoiceWord { text: word.text, start_ms: word.start_ms, end_ms: word.end_ms };
    VoiceFrame { samples: frame.samples, words: frame.words.into_iter().map(word).collect() }
}

async fn fail(speech: u64, error: &Error, reports: &Sender<Report>) {
    tracing::warn!(%error, "the voice failed");
    let (code, apology) = match error {
        Error::NotPulled(_) => ("voice_unavailable", String::new()),
        Error::Busy(_) => ("unavailable", APOLOGY.into()),
        _ => ("voice_error", APOLOGY.into()),
    };
    let failure = Failure { code, message: format!("The voice failed: {error}."), apology };
    let _ = reports.send(Report::Event(Event::VoiceFailed { speech, failure })).await;
}
