//! A session of a voice agent: drives a conversation between the client, recognition, the mind and the voice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use auricle_engine::converse::{Action, Conversation, Event, Failure, Rules, TurnTimes};
use auricle_engine::{Engine, LiveEvent, LiveOutput};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedSender};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep_until};

use super::ears::{CHUNK_MS, Ears};
use super::frames::{ClientFrame, Fault, ReplyStatus, ServerFrame};
use super::settings::Settings;
use super::voice::Words;
use super::{mind, voice};
use crate::auth::session_token::AgentClaims;
use crate::clock;
use crate::live::AgentState;
use crate::live::codec::Encoder;
use crate::live::socket::{ClientMessage, CloseFrame, ServerMessage, Socket};

/// Audio that a client may be ahead of the engine. Above it the socket is not read.
const MAX_AHEAD_MS: u64 = 60_000;
/// A client that sends no audio for this time is heard as silent.
const GAP: Duration = Duration::from_millis(500);
/// Length of a piece of such silence.
const SILENCE: Duration = Duration::from_millis(100);
/// Silence after which it adds nothing.
const LONGEST_SILENCE: Duration = Duration::from_secs(12);
/// Events of mind and voice that wait for the session.
const EVENTS: usize = 256;

pub async fn send(socket: &Socket, frame: &ServerFrame<'_>) -> bool {
    socket.send(ServerMessage::Text(frame.to_json())).await
}

pub async fn tell(socket: &Socket, fault: &Fault) -> bool {
    send(socket, &ServerFrame::Error { code: fault.code, message: &fault.message }).await
}

pub fn ended(began: Instant, audio_s: f64) -> ServerFrame<'static> {
    ServerFrame::Ended {
        session_duration_seconds: began.elapsed().as_secs_f64(),
        audio_duration_seconds: audio_s,
        timestamp: clock::now_ms() as f64 / 1e3,
    }
}

/// A task that ends with this value.
struct Task(AbortHandle);

impl From<JoinHandle<()>> for Task {
    fn from(task: JoinHandle<()>) -> Self {
        Self(task.abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A session that may open.
pub struct Opening {
    pub state: Arc<AgentState>,
    pub engine: Engine,
    pub claims: AgentClaims,
    /// The runtime with sockets, for the mind.
    pub runtime: Handle,
}

/// The end of a session.
#[derive(Debug)]
enum End {
    /// The client is gone.
    Gone,
    /// The socket is to be closed.
    Close(CloseFrame),
}

pub struct Session {
    opening: Opening,
    settings: Settings,
    voices: Vec<String>,
    ears: Ears,
    conversation: Conversation,
    began: Instant,
    thought: Option<(u64, Task)>,
    speeches: HashMap<u64, (UnboundedSender<Words>, Task)>,
    encoder: Option<Encoder>,
    /// Events of mind and voice.
    sender: Sender<Event>,
    receiver: Receiver<Event>,
    /// Samples of the client's audio by its rate, as seconds.
    heard_s: f64,
    /// The last audio of the client, and the silence that stood for it since.
    last_audio: Instant,
    silence: Duration,
    /// The last activity of either side.
    last_activity: Instant,
    /// How to close the socket once the conversation has ended.
    close: CloseFrame,
    ending: bool,
}

impl Session {
    pub fn new(opening: Opening, settings: Settings, voices: Vec<String>, ears: Ears) -> Self {
        let (sender, receiver) = mpsc::channel(EVENTS);
        let now = Instant::now();
        Self {
            conversation: Conversation::new(rules(&settings, &ears)),
            opening,
            settings,
            voices,
            ears,
            began: now,
            thought: None,
            speeches: HashMap::new(),
            encoder: None,
            sender,
            receiver,
            heard_s: 0.0,
            last_audio: now,
            silence: Duration::ZERO,
            last_activity: now,
            close: (1000, ""),
            ending: false,
        }
    }

    /// Milliseconds of the conversation's clock, from 1 on.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    pub async fn relay(mut self, socket: &mut Socket) -> Option<CloseFrame> {
        let greeting = self.settings.greeting.clone();
        let mut end = self.happens(socket, Event::Greet(greeting)).await;
        while end.is_ok() {
            end = self.step(socket).await;
        }
        match end {
            Err(End::Close(close)) => Some(close),
            _ => None,
        }
    }

    async fn step(&mut self, socket: &mut Socket) -> Result<(), End> {
        let live = &self.opening.state.live;
        let (idle, stopping) = (live.settings.idle_timeout, live.stopping.clone());
        let longest = Duration::from_secs(self.opening.claims.max_session_duration_sec.into());
        let (began, ending) = (self.began, self.ending);
        let now = self.now();
        let tick = self.conversation.deadline(now).map(|at| began + Duration::from_millis(at.saturating_sub(1)));
        let ahead = !ending && self.ears.input.waiting_ms() >= MAX_AHEAD_MS;
        let refused = !ending && self.ears.input.is_refused();
        let ahead_ms = if ahead { MAX_AHEAD_MS - 1 } else { u64::MAX };
        let Ears { input, events, .. } = &mut self.ears;
        tokio::select! {
            heard = events.next_output() => self.recognised(socket, heard).await,
            Some(event) = self.receiver.recv() => {
                if let Event::Said { speech } = event {
                    self.speeches.remove(&speech);
                }
                self.happens(socket, event).await
            }
            message = socket.next(), if !ahead => self.received(socket, message).await,
            () = input.caught_up(ahead_ms), if ahead || refused => {
                self.last_activity = Instant::now();
                Ok(())
            }
            () = sleep_until(tick.unwrap_or(began)), if tick.is_some() => self.happens(socket, Event::Tick).await,
            () = sleep_until(self.last_audio + GAP + self.silence),
                if !ending && !ahead && self.silence < LONGEST_SILENCE => self.hear_silence(socket).await,
            () = sleep_until(self.last_activity + idle), if !ending && !ahead => {
                let message = "No audio came for too long: the session is ended.";
                let told = send(socket, &ServerFrame::Error { code: "session_timeout", message }).await;
                if told { self.end(socket, (1000, "No audio came.")).await } else { Err(End::Gone) }
            }
            () = sleep_until(began + longest), if !ending => {
                self.end(socket, (1000, "The session has reached its longest time.")).await
            }
            () = stopping.cancelled(), if !ending => self.end(socket, (1001, "The service is stopping.")).await,
        }
    }

    async fn end(&mut self, socket: &mut Socket, close: CloseFrame) -> Result<(), End> {
        self.close = close;
        self.ending = true;
        self.happens(socket, Event::End).await
    }

    /// Takes what recognition says.
    async fn recognised(
        &mut self,
        socket: &mut Socket,
        heard: Option<auricle_engine::Result<LiveOutput>>,
    ) -> Result<(), End> {
        let event = match heard {
            Some(Ok(LiveOutput::Event(LiveEvent::Partial(caption)))) => Event::Partial(caption.text),
            Some(Ok(LiveOutput::Event(LiveEvent::Final(caption)))) => Event::Final(caption.text),
            Some(Ok(LiveOutput::Event(LiveEvent::Formatted(caption)))) => Event::Formatted(caption.text),
            Some(Ok(LiveOutput::Settled)) => {
                self.ears.unsettled = self.ears.unsettled.saturating_sub(1);
                Event::Settled
            }
            Some(Ok(LiveOutput::Judged(probability))) => match self.ears.questions.pop_front() {
                Some(question) => Event::Judged { question, probability },
                None => return Ok(()),
            },
            Some(Err(error)) => {
                tracing::error!(%error, "a voice agent's recognition failed");
                return self.deaf(socket).await;
            }
            None => return self.deaf(socket).await,
        };
        self.happens(socket, event).await
    }

    /// Without recognition a session ends.
    async fn deaf(&mut self, socket: &Socket) -> Result<(), End> {
        let message = "Speech recognition failed, and the session is ended.";
        let told = send(socket, &ServerFrame::Error { code: "recognition_failed", message }).await;
        if !told || !send(socket, &ended(self.began, self.heard_s)).await {
            return Err(End::Gone);
        }
        Err(End::Close((1011, "The session failed.")))
    }

    async fn received(&mut self, socket: &mut Socket, message: ClientMessage) -> Result<(), End> {
        match message {
            ClientMessage::Text(_) if self.ending => Ok(()),
            ClientMessage::Text(text) => match ClientFrame::parse(&text) {
                Ok(frame) => self.take(socket, frame).await,
                Err(fault) => told(tell(socket, &fault).await),
            },
            ClientMessage::Binary(_) => Ok(()),
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

    async fn take(&mut self, socket: &mut Socket, frame: ClientFrame) -> Result<(), End> {
        match frame {
            ClientFrame::Audio(base64) => {
                let Some(samples) = self.ears.decoder.decode(&base64) else {
                    let fault = Fault::new("invalid_audio", "`audio` is not base64.");
                    return told(tell(socket, &fault).await);
                };
                self.heard_s += samples.len() as f64 / f64::from(self.ears.rate);
                self.last_audio = Instant::now();
                self.last_activity = self.last_audio;
                self.silence = Duration::ZERO;
                self.hear(socket, &samples).await
            }
            ClientFrame::ToolResult { call_id, result } => {
                self.happens(socket, Event::ToolResult { call_id, result }).await
            }
            ClientFrame::End => self.end(socket, (1000, "")).await,
            ClientFrame::Update(session) => match self.settings.updated(session, &self.voices).await {
                Ok(settings) => self.update(socket, settings).await,
                Err(fault) => told(tell(socket, &fault).await),
            },
        }
    }

    async fn update(&mut self, socket: &mut Socket, settings: Settings) -> Result<(), End> {
        if (settings.input, &settings.keyterms) != (self.settings.input, &self.settings.keyterms) {
            match Ears::open(&self.opening.engine, &self.opening.state.live, &settings).await {
                Ok(ears) => {
                    let unsettled = std::mem::replace(&mut self.ears, ears).unsettled;
                    for _ in 0..unsettled {
                        self.happens(socket, Event::Settled).await?;
                    }
                }
                Err((code, message, _)) => {
                    return told(send(socket, &ServerFrame::Error { code, message: &message }).await);
                }
            }
        }
        if settings.output != self.settings.output {
            self.encoder = None;
        }
        self.conversation.set_rules(rules(&settings, &self.ears));
        self.settings = settings;
        told(send(socket, &ServerFrame::Updated).await)
    }

    /// Stands in for a client that sends no audio.
    async fn hear_silence(&mut self, socket: &mut Socket) -> Result<(), End> {
        self.silence += SILENCE;
        let samples = (f64::from(self.ears.rate) * SILENCE.as_secs_f64()) as usize;
        self.hear(socket, &vec![0.0; samples]).await
    }

    async fn hear(&mut self, socket: &mut Socket, samples: &[f32]) -> Result<(), End> {
        let chunks = match self.ears.hear(samples, self.began.elapsed(), self.settings.vad_threshold) {
            Ok(chunks) => chunks,
            Err(error) => {
                tracing::error!(%error, "a voice agent's audio could not be processed");
                return self.deaf(socket).await;
            }
        };
        for speech in chunks {
            self.happens(socket, Event::Heard { speech, ms: CHUNK_MS }).await?;
        }
        Ok(())
    }

    /// Tells the conversation what happens, and does what it wants.
    async fn happens(&mut self, socket: &mut Socket, event: Event) -> Result<(), End> {
        let now = self.now();
        for action in self.conversation.handle(now, event) {
            self.act(socket, action).await?;
        }
        Ok(())
    }

    async fn act(&mut self, socket: &Socket, action: Action) -> Result<(), End> {
        let sent = match action {
            Action::SpeechStarted => send(socket, &ServerFrame::SpeechStarted).await,
            Action::SpeechStopped => send(socket, &ServerFrame::SpeechStopped).await,
            Action::UserPartial(text) => {
                // The next one replaces it.
                let _ = socket.try_send(ServerMessage::Text(ServerFrame::UserDelta { text: &text }.to_json()));
                true
            }
            Action::UserFinal(text) => send(socket, &ServerFrame::User { text: &text }).await,
            Action::Settle => {
                self.ears.unsettled += 1;
                self.ears.input.end_turn();
                true
            }
            Action::Judge { question, turn_ms } => {
                if self.ears.input.judge_turn(turn_ms) {
                    self.ears.questions.push_back(question);
                }
                true
            }
            Action::Think { thought, tools } => {
                self.think(thought, tools);
                true
            }
            Action::StopThinking { thought } => {
                self.thought.take_if(|(current, _)| *current == thought);
                true
            }
            Action::Say { speech, text } => {
                self.say(speech, Words::More(text));
                true
            }
            Action::FinishSpeech { speech } => {
                self.say(speech, Words::Finished);
                true
            }
            Action::StopSpeech { speech } => {
                self.speeches.remove(&speech);
                true
            }
            Action::ReplyStarted { reply } => {
                self.encoder = None;
                send(socket, &ServerFrame::ReplyStarted { reply_id: &reply_id(reply) }).await
            }
            Action::Audio { reply, samples } => {
                self.last_activity = Instant::now();
                self.ears.echo.play(&samples, self.began.elapsed());
                let data = self.encode(&samples);
                send_audio(socket, reply, data).await
            }
            Action::AgentText { reply, text, interrupted } => {
                let frame = ServerFrame::Agent { reply_id: &reply_id(reply), text: &text, interrupted };
                send(socket, &frame).await
            }
            Action::ReplyDone { reply, interrupted } => self.reply_done(socket, reply, interrupted).await,
            Action::Call(call) => {
                let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
                send(socket, &ServerFrame::Call { call_id: &call.id, name: &call.name, arguments }).await
            }
            Action::Error(Failure { code, message, .. }) => {
                send(socket, &ServerFrame::Error { code, message: &message }).await
            }
            Action::Trace(times) => {
                trace(&times);
                true
            }
            Action::Ended => {
                self.thought = None;
                self.speeches.clear();
                if send(socket, &ended(self.began, self.heard_s)).await {
                    return Err(End::Close(self.close));
                }
                false
            }
        };
        told(sent)
    }

    fn think(&mut self, thought: u64, tools: bool) {
        let Some(model) = self.opening.state.models.default_model().cloned() else {
            let sender = self.sender.clone();
            let event = Event::MindFailed { thought, failure: mind::missing() };
            let task = tokio::spawn(async move {
                let _ = sender.send(event).await;
            });
            self.thought = Some((thought, task.into()));
            return;
        };
        let history = self.conversation.history();
        let account = self.opening.claims.payer.account.clone();
        let request = mind::request(&*model, &self.settings, &history, tools, account);
        let task = self.opening.runtime.spawn(mind::think(
            model,
            request,
            self.settings.max_reply_s,
            thought,
            self.sender.clone(),
        ));
        self.thought = Some((thought, task.into()));
    }

    fn say(&mut self, speech: u64, words: Words) {
        let (engine, sender) = (&self.opening.engine, &self.sender);
        let voice = &self.settings.voice;
        let (to, _) = self.speeches.entry(speech).or_insert_with(|| {
            let (to, from) = mpsc::unbounded_channel();
            let said = voice::say(engine.clone(), voice.clone(), speech, from, sender.clone());
            (to, tokio::spawn(said).into())
        });
        let _ = to.send(words);
    }

    fn encode(&mut self, samples: &[f32]) -> auricle_engine::Result<String> {
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(Encoder::new(self.settings.output)?),
        };
        encoder.encode(samples)
    }

    async fn reply_done(&mut self, socket: &Socket, reply: u64, interrupted: bool) -> bool {
        if interrupted {
            self.ears.echo.stop();
        }
        let rest = self.encoder.take().filter(|_| !interrupted).map(Encoder::finish);
        if let Some(rest) = rest
            && !send_audio(socket, reply, rest).await
        {
            return false;
        }
        let status = if interrupted { ReplyStatus::Interrupted } else { ReplyStatus::Completed };
        send(socket, &ServerFrame::ReplyDone { reply_id: &reply_id(reply), status }).await
    }
}

/// The rules of the settings, with the turn detector if the ears have one.
fn rules(settings: &Settings, ears: &Ears) -> Rules {
    Rules { turn_detector: ears.input.has_turn_detector(), ..settings.rules.clone() }
}

async fn send_audio(socket: &Socket, reply: u64, data: auricle_engine::Result<String>) -> bool {
    match data {
        Ok(data) if data.is_empty() => true,
        Ok(data) => send(socket, &ServerFrame::Audio { reply_id: &reply_id(reply), data: &data }).await,
        Err(error) => {
            tracing::error!(%error, "audio of a reply could not be coded");
            true
        }
    }
}

fn told(sent: bool) -> Result<(), End> {
    if sent { Ok(()) } else { Err(End::Gone) }
}

fn reply_id(reply: u64) -> String {
    format!("reply_{reply}")
}

/// Records the parts of a turn, each from the caller's last speech on.
fn trace(times: &TurnTimes) {
    let TurnTimes { speech_end, turn_over, words, first_text, first_frame, first_sent } = *times;
    let parts = [
        ("turn_over", turn_over),
        ("words", words),
        ("first_text", first_text),
        ("first_frame", first_frame),
        ("first_sent", first_sent),
    ];
    for (part, at) in parts {
        let seconds = at.saturating_sub(speech_end) as f64 / 1e3;
        metrics::histogram!("auricle_agent_turn_seconds", "part" => part).record(seconds);
    }
    let since = |at: u64| at.saturating_sub(speech_end);
    tracing::debug!(
        turn_over_ms = since(turn_over),
        words_ms = since(words),
        first_text_ms = since(first_text),
        first_frame_ms = since(first_frame),
        first_sent_ms = since(first_sent),
        "a turn was answered"
    );
}
