//! A call that is transcribed alone.

use std::time::Duration;

use auricle_engine::{LiveEvents, LiveInput};
use tokio::time::{Instant, sleep_until};

use super::call::WRONG_FRAME;
use super::frame::{CallFrame, NOT_BASE64};
use super::provider::Provider;
use super::record::SharedRecord;
use crate::live::LiveState;
use crate::live::codec::Decoder;
use crate::live::screen::Screen;
use crate::live::socket::{ClientMessage, CloseFrame, ServerMessage, Socket};

/// Audio that a provider may be ahead of the engine. Above it the socket is not read.
const MAX_AHEAD_MS: u64 = 60_000;

const FAILED: CloseFrame = (1011, "The session failed.");

/// A transcription that the engine has accepted.
pub struct Transcription {
    pub provider: Provider,
    pub decoder: Decoder,
    pub input: LiveInput,
    pub events: LiveEvents,
    /// None if no words are hidden.
    pub screen: Option<Screen>,
    pub record: SharedRecord,
    pub longest: Duration,
}

/// The end of the audio.
enum End {
    /// The socket is to be closed.
    Close(CloseFrame),
    /// The provider is gone.
    Gone,
}

impl Transcription {
    /// Runs to the end of the call, and to the last words of it. Returns how to close the socket; none if the provider is gone.
    pub async fn run(mut self, live: &LiveState, socket: &mut Socket) -> Option<CloseFrame> {
        match self.listen(live, socket).await {
            Ok(end) => match self.finish().await {
                Ok(()) => match end {
                    End::Close(close) => Some(close),
                    End::Gone => None,
                },
                Err(error) => self.fail(&error),
            },
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&self, error: &auricle_engine::Error) -> Option<CloseFrame> {
        tracing::error!(%error, "the transcription of a call failed");
        self.record.write(|record| record.warn("Speech recognition failed, and the call was ended.".into()));
        Some(FAILED)
    }

    async fn listen(&mut self, live: &LiveState, socket: &mut Socket) -> auricle_engine::Result<End> {
        let began = Instant::now();
        let mut last_audio = began;
        loop {
            let ahead = self.input.waiting_ms() >= MAX_AHEAD_MS;
            let refused = self.input.is_refused();
            let ahead_ms = if ahead { MAX_AHEAD_MS - 1 } else { u64::MAX };
            tokio::select! {
                event = self.events.next() => match event {
                    Some(event) => note(&self.record, self.screen.as_ref(), event?)?,
                    None => return Ok(End::Close(FAILED)),
                },
                message = socket.next(), if !ahead => match message {
                    ClientMessage::Text(text) => match self.provider.parse(&text) {
                        Ok(CallFrame::Audio(payload)) => {
                            let Some(samples) = self.decoder.decode(&payload) else {
                                return Ok(End::Close((WRONG_FRAME, NOT_BASE64)));
                            };
                            last_audio = Instant::now();
                            self.input.push(&samples)?;
                        }
                        Ok(CallFrame::Key(key)) => {
                            let now_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or_default();
                            self.record.write(|record| record.press(key, now_ms));
                        }
                        Ok(CallFrame::Stop) => return Ok(End::Close((1000, ""))),
                        Ok(CallFrame::Start(_) | CallFrame::Played(_) | CallFrame::Other) => {}
                        Err(fault) => return Ok(End::Close((WRONG_FRAME, fault))),
                    },
                    ClientMessage::Binary(_) | ClientMessage::Audio(_) => {}
                    ClientMessage::Ping(payload) => {
                        socket.send(ServerMessage::Pong(payload)).await;
                    }
                    ClientMessage::Close(code) => return Ok(End::Close((code.unwrap_or(1000), ""))),
                    ClientMessage::Disconnected => return Ok(End::Gone),
                    ClientMessage::ProtocolError(code) => return Ok(End::Close((code, ""))),
                },
                () = self.input.caught_up(ahead_ms), if ahead || refused => last_audio = Instant::now(),
                () = sleep_until(last_audio + live.settings.idle_timeout), if !ahead => {
                    return Ok(End::Close((1000, "No audio came.")));
                }
                () = sleep_until(began + self.longest) => {
                    return Ok(End::Close((1000, "The session has reached its longest time.")));
                }
                () = live.stopping.cancelled() => return Ok(End::Close((1001, "The service is stopping."))),
            }
        }
    }

    /// Waits for the words of all audio.
    async fn finish(&mut self) -> auricle_engine::Result<()> {
        self.record.write(|record| {
            record.end();
        });
        self.input.finish()?;
        while let Some(event) = self.events.next().await {
            note(&self.record, self.screen.as_ref(), event?)?;
        }
        Ok(())
    }
}

fn note(
    record: &SharedRecord,
    screen: Option<&Screen>,
    event: auricle_engine::LiveEvent,
) -> auricle_engine::Result<()> {
    let shown = match screen {
        None => vec![event],
        Some(screen) => screen.show(event)?,
    };
    record.write(|record| shown.iter().for_each(|event| record.recognise(event)));
    Ok(())
}
