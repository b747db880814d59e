//! A session of an agent: leads the conversation by what the client, recognition, the language model and the voice bring. A [`Protocol`]
//! reads the client's frames and writes the agent's.

use std::future::{Future, ready};
use std::time::Duration;

use auricle_engine::converse::{Action, Event};
use auricle_engine::{LiveEvent, LiveOutput};
use tokio::time::{Instant, sleep_until};

use super::audio_input::{AudioInput, CHUNK_MS, Cut};
use super::driver::Driver;
use super::report::Report;
use crate::live::socket::{ClientMessage, CloseFrame, ServerMessage, Socket};

/// Audio that a client may be ahead of the engine. Above it the socket is not read.
const MAX_AHEAD_MS: u64 = 60_000;
/// A client that sends no audio for this time is heard as silent.
const GAP: Duration = Duration::from_millis(500);
/// Length of a piece of such silence.
const SILENCE: Duration = Duration::from_millis(100);
/// Silence after which it adds nothing.
const LONGEST_SILENCE: Duration = Duration::from_secs(12);

/// The end of a session.
#[derive(Debug)]
pub enum End {
    /// The client is gone.
    Gone,
    /// The socket is to be closed.
    Close(CloseFrame),
}

pub type Step = Result<(), End>;

/// A reason for which the service ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No audio came for too long.
    Idle,
    /// The session has reached its longest time.
    Longest,
    Stopping,
    /// Recognition failed.
    Failed,
}

impl Reason {
    fn close(self) -> CloseFrame {
        match self {
            Self::Idle => (1000, "No audio came."),
            Self::Longest => (1000, "The session has reached its longest time."),
            Self::Stopping => (1001, "The service is stopping."),
            Self::Failed => (1011, "The session failed."),
        }
    }
}

/// The frames of a session.
pub trait Protocol: Send {
    /// The first frames and events.
    fn begin(&mut self, driver: &mut Driver, socket: &Socket) -> impl Future<Output = Step> + Send;

    /// Takes a text message of the client.
    fn receive(&mut self, driver: &mut Driver, socket: &Socket, text: String) -> impl Future<Output = Step> + Send;

    /// Takes a binary message of the client, which means nothing in most protocols.
    fn receive_binary(&mut self, _: &Socket) -> impl Future<Output = Step> + Send {
        ready(Ok(()))
    }

    /// Takes what recognition gives, before the conversation does.
    fn recognised(&mut self, _: &LiveEvent) {}

    /// Takes a report of the language model or the voice; returns the conversation's event, if it is one.
    fn report(
        &mut self,
        _: &mut Driver,
        _: &Socket,
        report: Report,
    ) -> impl Future<Output = Result<Option<Event>, End>> + Send {
        ready(Ok(match report {
            Report::Event(event) => Some(event),
            Report::Finished { .. } => None,
        }))
    }

    /// Takes the words of an item of [`Driver::cut_item`], by a protocol that cuts items.
    fn transcribed(&mut self, _: &mut Driver, _: &Socket, _: String, _: String) -> impl Future<Output = Step> + Send {
        ready(Ok(()))
    }

    /// Does what the conversation wants.
    fn act(&mut self, driver: &mut Driver, socket: &Socket, action: Action) -> impl Future<Output = Step> + Send;

    /// Is called when all that has happened is acted on. Returns the time at which it wants to be called again.
    fn rest(
        &mut self,
        driver: &mut Driver,
        socket: &Socket,
    ) -> impl Future<Output = Result<Option<Instant>, End>> + Send;

    /// Reports that the service ends the session.
    fn ending(&mut self, driver: &mut Driver, socket: &Socket, reason: Reason) -> impl Future<Output = Step> + Send;

    /// The last frame.
    fn ended(&mut self, driver: &mut Driver, socket: &Socket) -> impl Future<Output = Step> + Send;
}

/// Sends a frame that the client has to get.
pub async fn send(socket: &Socket, frame: String) -> Step {
    if socket.send(ServerMessage::Text(frame)).await { Ok(()) } else { Err(End::Gone) }
}

/// Leads the conversation by an event.
pub async fn happens<P: Protocol>(driver: &mut Driver, protocol: &mut P, socket: &Socket, event: Event) -> Step {
    let now = driver.now();
    for action in driver.conversation.handle(now, event) {
        match driver.act(action) {
            None => {}
            Some(Action::Ended) => {
                protocol.ended(driver, socket).await?;
                return Err(End::Close(driver.close.unwrap_or((1000, ""))));
            }
            Some(action) => protocol.act(driver, socket, action).await?,
        }
    }
    Ok(())
}

/// Ends the conversation; the socket is closed once its last words are there.
pub async fn end<P: Protocol>(driver: &mut Driver, protocol: &mut P, socket: &Socket, close: CloseFrame) -> Step {
    driver.close = Some(close);
    happens(driver, protocol, socket, Event::End).await
}

/// Takes words that will not come any more as all that there are.
pub async fn settled<P: Protocol>(driver: &mut Driver, protocol: &mut P, socket: &Socket, cut: Cut) -> Step {
    match cut {
        Cut::Turn | Cut::Dropped => happens(driver, protocol, socket, Event::Settled).await,
        Cut::Cleared => Ok(()),
        Cut::Item(part) => {
            let text = part.text();
            protocol.transcribed(driver, socket, part.item, text).await
        }
    }
}

/// Runs a session to its end. Returns how to close the socket; none if the client is gone.
pub async fn run<P: Protocol>(mut driver: Driver, mut protocol: P, socket: &mut Socket) -> Option<CloseFrame> {
    let mut end = protocol.begin(&mut driver, socket).await;
    while end.is_ok() {
        end = match protocol.rest(&mut driver, socket).await {
            Ok(wake) => step(&mut driver, &mut protocol, socket, wake).await,
            Err(end) => Err(end),
        };
    }
    match end {
        Err(End::Close(close)) => Some(close),
        _ => None,
    }
}

async fn step<P: Protocol>(driver: &mut Driver, protocol: &mut P, socket: &mut Socket, wake: Option<Instant>) -> Step {
    let live = &driver.opening.state.live;
    let (idle, stopping) = (live.settings.idle_timeout, live.stopping.clone());
    let longest = Duration::from_secs(driver.opening.claims.max_session_duration_sec.into());
    let (began, ending) = (driver.began, driver.is_ending());
    let now = driver.now();
    let tick = driver.conversation.deadline(now).map(|at| began + Duration::from_millis(at.saturating_sub(1)));
    let ahead = !ending && driver.audio.input.waiting_ms() >= MAX_AHEAD_MS;
    let refused = !ending && driver.audio.input.is_refused();
    let ahead_ms = if ahead { MAX_AHEAD_MS - 1 } else { u64::MAX };
    let has_waiting = !ending && driver.has_waiting();
    let (silent, silence) = (driver.last_audio + GAP + driver.silence, driver.silence);
    let idle_at = driver.last_activity + idle;
    let AudioInput { input, events, .. } = &mut driver.audio;
    tokio::select! {
        heard = events.next_output() => recognised(driver, protocol, socket, heard).await,
        Some(report) = driver.receiver.recv() => reported(driver, protocol, socket, report).await,
        message = socket.next(), if !ahead && !has_waiting => received(driver, protocol, socket, message).await,
        () = ready(()), if has_waiting && !ahead => {
            let chunks = driver.pass_on();
            heard(driver, protocol, socket, chunks).await
        }
        () = input.caught_up(ahead_ms), if ahead || refused => {
            driver.touch();
            Ok(())
        }
        () = sleep_until(tick.unwrap_or(began)), if tick.is_some() => {
            happens(driver, protocol, socket, Event::Tick).await
        }
        () = sleep_until(wake.unwrap_or(began)), if wake.is_some() && !ending => Ok(()),
        () = sleep_until(silent), if !ending && !ahead && !has_waiting && silence < LONGEST_SILENCE => {
            let chunks = driver.hear_silence(SILENCE);
            heard(driver, protocol, socket, chunks).await
        }
        () = sleep_until(idle_at), if !ending && !ahead => ends(driver, protocol, socket, Reason::Idle).await,
        () = sleep_until(began + longest), if !ending => ends(driver, protocol, socket, Reason::Longest).await,
        () = stopping.cancelled(), if !ending => ends(driver, protocol, socket, Reason::Stopping).await,
    }
}

/// The service ends the session.
async fn ends<P: Protocol>(driver: &mut Driver, protocol: &mut P, socket: &Socket, reason: Reason) -> Step {
    protocol.ending(driver, socket, reason).await?;
    end(driver, protocol, socket, reason.close()).await
}

/// Without recognition a session ends at once.
async fn fails<P: Protocol>(driver: &mut Driver, protocol: &mut P, socket: &Socket) -> Step {
    protocol.ending(driver, socket, Reason::Failed).await?;
    protocol.ended(driver, socket).await?;
    Err(End::Close(Reason::Failed.close()))
}

/// Takes what recognition gives.
async fn recognised<P: Protocol>(
    driver: &mut Driver,
    protocol: &mut P,
    socket: &Socket,
    output: Option<auricle_engine::Result<LiveOutput>>,
) -> Step {
    let event = match output {
        Some(Ok(LiveOutput::Event(event))) => {
            protocol.recognised(&event);
            driver.words(event)
        }
        Some(Ok(LiveOutput::Settled)) => {
            let Some(cut) = driver.audio.cuts.pop_front() else { return Ok(()) };
            return settled(driver, protocol, socket, cut).await;
        }
        Some(Ok(LiveOutput::Judged(probability))) => {
            driver.audio.questions.pop_front().map(|question| Event::Judged { question, probability })
        }
        Some(Err(error)) => {
            tracing::error!(%error, "an agent's recognition failed");
            return fails(driver, protocol, socket).await;
        }
        None => return fails(driver, protocol, socket).await,
    };
    match event {
        Some(event) => happens(driver, protocol, socket, event).await,
        None => Ok(()),
    }
}

/// Takes a report of the language model or the voice.
async fn reported<P: Protocol>(driver: &mut Driver, protocol: &mut P, socket: &Socket, report: Report) -> Step {
    if let Report::Event(Event::Said { speech }) = report {
        driver.end_speech(speech);
    }
    match protocol.report(driver, socket, report).await? {
        Some(event) => happens(driver, protocol, socket, event).await,
        None => Ok(()),
    }
}

/// Takes the speech of the caller's audio.
async fn heard<P: Protocol>(
    driver: &mut Driver,
    protocol: &mut P,
    socket: &Socket,
    chunks: auricle_engine::Result<Vec<bool>>,
) -> Step {
    let chunks = match chunks {
        Ok(chunks) => chunks,
        Err(error) => {
            tracing::error!(%error, "an agent's audio could not be processed");
            return fails(driver, protocol, socket).await;
        }
    };
    for speech in chunks {
        driver.heard_ms += u64::from(CHUNK_MS);
        if driver.detects_turns {
            happens(driver, protocol, socket, Event::Heard { speech, ms: CHUNK_MS }).await?;
        }
    }
    Ok(())
}

async fn received<P: Protocol>(driver: &mut Driver, protocol: &mut P, socket: &Socket, message: ClientMessage) -> Step {
    match message {
        ClientMessage::Text(_) | ClientMessage::Binary(_) | ClientMessage::Audio(_) if driver.is_ending() => Ok(()),
        ClientMessage::Text(text) => protocol.receive(driver, socket, text).await,
        ClientMessage::Binary(_) => protocol.receive_binary(socket).await,
        ClientMessage::Audio(samples) => {
            driver.take(samples);
            Ok(())
        }
        ClientMessage::Ping(payload) => {
            socket.send(ServerMessage::Pong(payload)).await;
            Ok(())
        }
        // A close is answered with the client's code.
        ClientMessage::Close(code) => Err(End::Close((code.unwrap_or(1000), ""))),
        ClientMessage::Disconnected => Err(End::Gone),
        ClientMessage::ProtocolError(code) => Err(End::Close((code, ""))),
    }
}
