//! The voice: says text as it comes.

use auricle_engine::converse::{Event, Failure, VoiceFrame, VoiceWord};
use auricle_engine::{Engine, Error, SpeakOptions, SpeechFrame};
use tokio::sync::mpsc::{Sender, UnboundedReceiver};

use super::report::Report;

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

/// Says what comes, and sends its frames. Dropping the future cancels it.
pub async fn say(
    engine: Engine,
    voice: Option<String>,
    speed: f32,
    speech: u64,
    mut words: UnboundedReceiver<Words>,
    reports: Sender<Report>,
) {
    let mut options = SpeakOptions::default().paced(true).speed(speed);
    options.voice = voice;
    let (input, mut frames) = match engine.speak(&options).await {
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
