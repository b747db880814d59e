//! One connection: takes events in their order, and gives sound as it is made.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Wyoming;
use super::event::{Event, EventReader, EventWriter};
use super::info::{PROGRAM, info};
use super::recording::{Recording, Transcribe};
use super::speech::Speech;
use crate::http::admission::Place;
use crate::http::rate_limits::Client;
use crate::http::response::{ApiError, Result};

/// Time for a client to take the error that ends its connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The data of events with a text.
#[derive(Deserialize)]
struct Text {
    text: String,
}

/// The data of `select-program`.
#[derive(Deserialize)]
struct Selection {
    name: String,
}

/// Serves a connection until the client leaves, an error, or the stop of the service; speech under way is said first. An error ends the connection:
/// clients wait for the answer to a request, and not for errors.
pub async fn run(state: Arc<Wyoming>, socket: TcpStream, peer: SocketAddr, place: Place, stopping: CancellationToken) {
    let (from, to) = socket.into_split();
    let (limits, displaced) = (state.limits, place.displaced());
    let mut reader = EventReader::new(from);
    let mut session =
        Session { writer: EventWriter::new(to, limits), state, peer, wanted: Transcribe::default(), work: Work::None };
    let mut deadline = Instant::now() + limits.head;
    let ended = loop {
        let takes_event = session.work.takes_event();
        let done = tokio::select! {
            event = reader.next(), if takes_event => match event {
                Ok(Some(event)) => {
                    place.has_request();
                    session.take(event).await
                }
                Ok(None) => return,
                Err(error) => Err(error),
            },
            events = next_sound(&mut session.work), if matches!(session.work, Work::Speech(_)) => session.give(events).await,
            () = sleep_until(deadline), if takes_event => {
                Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", "No event came; connect again for the next."))
            }
            () = displaced.cancelled() => return,
            () = stopping.cancelled(), if !matches!(session.work, Work::Speech(_)) => match session.work {
                Work::None | Work::Speech(_) => return,
                // No job begins any more.
                Work::Recording(_) => {
                    let message = "The service is stopping. Connect again.";
                    Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message))
                }
            },
        };
        match done {
            Ok(true) => deadline = Instant::now() + limits.idle,
            Ok(false) => return,
            Err(error) => break error,
        }
    };
    tracing::info!(%peer, code = ended.code, message = ended.message, "refused an event");
    // What is under way ends before its client knows.
    session.work = Work::None;
    if session.writer.write(&Event::error(&ended)).await {
        session.writer.shutdown().await;
        let _ = timeout(CLOSE_TIMEOUT, reader.discard()).await;
    }
}

/// The work under way.
enum Work {
    None,
    Recording(Recording),
    Speech(Box<Speech>),
}

impl Work {
    /// False while a whole text is said: the next event waits.
    fn takes_event(&self) -> bool {
        !matches!(self, Self::Speech(speech) if !speech.takes_text())
    }
}

async fn next_sound(work: &mut Work) -> Result<(Vec<Event>, bool)> {
    match work {
        Work::Speech(speech) => speech.next().await,
        Work::None | Work::Recording(_) => std::future::pending().await,
    }
}

struct Session {
    state: Arc<Wyoming>,
    writer: EventWriter<OwnedWriteHalf>,
    peer: SocketAddr,
    /// The options of the next recording.
    wanted: Transcribe,
    work: Work,
}

impl Session {
    /// Takes an event. False if the client has left.
    async fn take(&mut self, event: Event) -> Result<bool> {
        match (event.kind.as_str(), &mut self.work) {
            ("describe", _) => {
                self.count(&Client::at(self.peer.ip()))?;
                let info = info(&self.state);
                return Ok(self.writer.write(&Event::new("info", info)).await);
            }
            ("ping", _) => {
                let text = event.data.get("text").cloned().unwrap_or_default();
                return Ok(self.writer.write(&Event::new("pong", json!({ "text": text }))).await);
            }
            ("select-program", _) => {
                let Selection { name } = event.parse()?;
                if name != PROGRAM {
                    return Err(ApiError::not_found(format!("There is no program {name:?}; take {PROGRAM:?}.")));
                }
            }
            ("transcribe", Work::None) => self.wanted = event.parse()?,
            ("audio-start", Work::None) => self.work = self.begin_recording(event)?,
            ("audio-chunk", Work::None) => {
                let format = Event { kind: event.kind.clone(), data: event.data.clone(), ..Event::default() };
                self.work = self.begin_recording(format)?;
                return Box::pin(self.take(event)).await;
            }
            ("audio-chunk", Work::Recording(recording)) => recording.push(&self.state, event).await?,
            ("audio-stop", Work::Recording(_)) => return self.finish_recording().await,
            ("synthesize", Work::None) => {
                self.count(&Client::Account(self.state.account.clone()))?;
                let text = event.data.get("text").and_then(|text| text.as_str()).unwrap_or_default().to_owned();
                let speech = Speech::of(&self.state, event.parse()?, &text).await?;
                self.work = Work::Speech(Box::new(speech));
            }
            ("synthesize-start", Work::None) => {
                self.count(&Client::Account(self.state.account.clone()))?;
                let speech = Speech::start(&self.state, event.parse()?).await?;
                self.work = Work::Speech(Box::new(speech));
            }
            // The whole text once more, for services that take no chunks.
            ("synthesize", Work::Speech(_)) => {}
            ("synthesize-chunk", Work::Speech(speech)) => speech.push(&event.parse::<Text>()?.text)?,
            ("synthesize-stop", Work::Speech(speech)) => speech.finish(),
            (
                "transcribe" | "audio-start" | "audio-chunk" | "audio-stop" | "synthesize" | "synthesize-start"
                | "synthesize-chunk" | "synthesize-stop",
                work,
            ) => {
                let during = match work {
                    Work::None => "before its beginning",
                    Work::Recording(_) => "within a recording",
                    Work::Speech(_) => "within a text",
                };
                return Err(ApiError::invalid(format!("`{}` came {during}.", event.kind)));
            }
            // Events of other services and of newer clients.
            _ => {}
        }
        Ok(true)
    }

    fn count(&self, client: &Client) -> Result<()> {
        let limit = self.state.rate_limits.count(client);
        if limit.exceeded { Err(ApiError::rate_limited(limit.reset_s)) } else { Ok(()) }
    }

    fn begin_recording(&self, event: Event) -> Result<Work> {
        self.count(&Client::Account(self.state.account.clone()))?;
        Ok(Work::Recording(Recording::begin(&self.state, event)?))
    }

    async fn finish_recording(&mut self) -> Result<bool> {
        let (wanted, work) = (std::mem::take(&mut self.wanted), std::mem::replace(&mut self.work, Work::None));
        let Work::Recording(recording) = work else { return Ok(true) };
        let transcript = recording.finish(&self.state, &wanted).await?;
        Ok(self.writer.write(&transcript).await)
    }

    /// Gives the next sound. False if the client has left.
    async fn give(&mut self, sound: Result<(Vec<Event>, bool)>) -> Result<bool> {
        let (events, is_last) = sound?;
        for event in &events {
            if !self.writer.write(event).await {
                return Ok(false);
            }
        }
        if is_last {
            self.work = Work::None;
        }
        Ok(true)
    }
}
