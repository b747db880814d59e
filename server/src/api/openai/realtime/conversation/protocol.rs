//! Translates between the client's events and those of the agent.

use std::time::Duration;

use auricle_engine::converse::{Action, Event, Rules, State};
use serde_json::Value;
use tokio::time::Instant;

use super::super::frames::{self, Fault};
use super::super::item::Item as Transcript;
use super::events::{ServerEvent, SessionObject, refuse, send, send_shared};
use super::items::Items;
use super::params::Params;
use super::requests::Request;
use super::response::{Cancelled, Response};
use super::settings::Settings;
use crate::clock;
use crate::http::response::ApiError;
use crate::ids;
use crate::language::{ChatOptions, schema};
use crate::live::agent::driver::Driver;
use crate::live::agent::report::Report;
use crate::live::agent::session::{End, Protocol, Reason, Step, happens, settled};
use crate::live::agent::settings as agent;
use crate::live::socket::Socket;

/// The longest audio of an event, in bytes.
const MAX_APPEND_BYTES: usize = 15 << 20;

/// The outcome of a client's event: its fault, if it has one.
pub type Answer = Result<Result<(), Fault>, End>;

pub struct Conversation {
    /// As it is metered.
    session: String,
    /// Of the conversation itself.
    pub(super) id: String,
    /// s since 1970
    expires_at: i64,
    pub(super) settings: Settings,
    /// The rules of the service.
    rules: Rules,
    pub(super) items: Items,
    /// The turn of the caller that is not an item yet.
    pub(super) turn: Transcript,
    /// The beginning of the audio that is in no turn, ms.
    pub(super) buffer_from_ms: u64,
    /// What the client has asked for, and waits for the end of a turn or for its words.
    pub(super) asked: Option<Params>,
    /// The response of the conversation.
    pub(super) active: Option<Response>,
    /// Responses that are none of the conversation.
    pub(super) apart: Vec<Response>,
    /// The last thought of these: those of the conversation count from 1 on.
    pub(super) last_apart: u64,
    /// The last end of a response after which the caller has said nothing, with its place in the client's audio, ms.
    pub(super) quiet_since: Option<(Instant, u64)>,
}

impl Conversation {
    pub fn new(session: &str, settings: Settings, rules: Rules) -> Self {
        Self {
            session: session.to_owned(),
            id: ids::fresh("conv"),
            expires_at: 0,
            settings,
            rules,
            items: Items::default(),
            turn: Transcript::new(),
            buffer_from_ms: 0,
            asked: None,
            active: None,
            apart: Vec::new(),
            last_apart: u64::MAX,
            quiet_since: None,
        }
    }

    fn object(&self) -> SessionObject<'_> {
        SessionObject::new(&self.session, self.expires_at, &self.settings)
    }

    async fn take(&mut self, driver: &mut Driver, socket: &Socket, request: Request) -> Answer {
        match request {
            Request::Update(session) => return self.update(driver, socket, session).await,
            Request::Append(audio) => return Ok(append(driver, &audio)),
            Request::Commit => return self.commit(driver, socket).await,
            Request::Clear => self.clear(driver, socket).await?,
            Request::CreateItem { after, item } => {
                let (before, item) = match self.items.create(after.as_deref(), item) {
                    Ok((before, item)) => (before, item.json()),
                    Err(fault) => return Ok(Err(fault)),
                };
                let previous_item_id = before.as_deref();
                send(socket, &ServerEvent::ItemAdded { previous_item_id, item: &item }).await?;
                send(socket, &ServerEvent::ItemDone { previous_item_id, item: &item }).await?;
            }
            Request::RetrieveItem(id) => match self.items.named(&id) {
                Ok(item) => send(socket, &ServerEvent::ItemRetrieved { item: &item.json() }).await?,
                Err(fault) => return Ok(Err(fault)),
            },
            Request::DeleteItem(id) => match self.items.delete(&id) {
                Ok(()) => send(socket, &ServerEvent::ItemDeleted { item_id: &id }).await?,
                Err(fault) => return Ok(Err(fault)),
            },
            Request::TruncateItem { item, content_index, audio_end_ms } => {
                // A client that stops playing a reply which is still spoken wants no more of it.
                if let Some(active) = self.active.as_mut().filter(|active| active.is_writing(&item)) {
                    active.cancelled = Cancelled::ClientCancelled;
                    happens(driver, self, socket, Event::Cancel).await?;
                }
                match self.items.truncate(&item, content_index, audio_end_ms) {
                    Ok(()) => {
                        let event = ServerEvent::ItemTruncated { item_id: &item, content_index, audio_end_ms };
                        send(socket, &event).await?;
                    }
                    Err(fault) => return Ok(Err(fault)),
                }
            }
            Request::Respond(response) => return self.respond(driver, socket, response).await,
            Request::Cancel(response) => return self.cancel(driver, socket, response).await,
            Request::ClearOutput if !socket.has_track() => {
                let message =
                    "The audio of a WebSocket is with the client, which drops it: send response.cancel alone.";
                return Ok(Err(Fault::invalid("invalid_value", message).about("type")));
            }
            // Nothing to drop is no fault.
            Request::ClearOutput => return self.cancel(driver, socket, None).await.map(|_| Ok(())),
        }
        Ok(Ok(()))
    }

    async fn update(&mut self, driver: &mut Driver, socket: &Socket, session: Value) -> Answer {
        let (settings, agent) = match self.updated(driver, session).await {
            Ok(updated) => updated,
            Err(error) => return Ok(Err(Fault::of_session(error))),
        };
        if socket.has_track() && !settings.is_for_call() {
            return Ok(Err(Fault::format_of_call()));
        }
        match driver.update(agent).await {
            Ok(cuts) => {
                for cut in cuts {
                    settled(driver, self, socket, cut).await?;
                }
            }
            Err((code, message)) => return Ok(Err(Fault::service(code, message))),
        }
        let detects_turns = settings.audio.input.turn_detection.is_some();
        if driver.detects_turns != detects_turns {
            driver.clear();
            happens(driver, self, socket, Event::ClearTurn).await?;
            driver.detects_turns = detects_turns;
        }
        self.settings = settings;
        send(socket, &ServerEvent::Updated { session: self.object() }).await?;
        Ok(Ok(()))
    }

    async fn updated(&self, driver: &mut Driver, session: Value) -> Result<(Settings, agent::Settings), ApiError> {
        let settings = self.settings.updated(session)?;
        let opening = &driver.opening;
        let agent = settings.agent(&opening.engine, &opening.state.live, &self.rules)?;
        let options = ChatOptions { tools: agent.tools.clone(), ..ChatOptions::default() };
        schema::check_options(&options).await?;
        Ok((settings, agent))
    }

    async fn respond(&mut self, driver: &mut Driver, socket: &Socket, response: Value) -> Answer {
        let params = match response {
            Value::Null => Ok(Params::default()),
            response => Params::read(response, &self.items),
        };
        let params = match params {
            Ok(params) => params,
            Err(error) => return Ok(Err(Fault::invalid("invalid_value", error.message).about("response"))),
        };
        if let Some(tools) = params.tools.clone() {
            let options = ChatOptions { tools, ..ChatOptions::default() };
            if let Err(error) = schema::check_options(&options).await {
                return Ok(Err(Fault::invalid("unsupported_schema", error.to_string()).about("response")));
            }
        }
        if params.is_apart {
            return self.respond_apart(driver, socket, params).await;
        }
        if self.asked.is_some() || self.active.as_ref().is_some_and(|active| !active.is_held()) {
            let message =
                "The conversation has a response already: wait for its response.done, or send response.cancel.";
            return Ok(Err(Fault::invalid("conversation_already_has_active_response", message)));
        }
        // One that is prepared for the caller's turn does not know what is asked for.
        happens(driver, self, socket, Event::Cancel).await?;
        self.asked = Some(params);
        Ok(Ok(()))
    }

    async fn cancel(&mut self, driver: &mut Driver, socket: &Socket, response: Option<String>) -> Answer {
        let is_named = |id: &str| response.as_deref().is_none_or(|response| response == id);
        if let Some(at) = self.apart.iter().position(|apart| response.as_deref() == Some(apart.id.as_str())) {
            let mut apart = self.apart.remove(at);
            driver.stop_thinking(apart.thought);
            apart.cancelled = Cancelled::ClientCancelled;
            apart.finish(&mut self.items, socket, true).await?;
            return Ok(Ok(()));
        }
        match &mut self.active {
            Some(active) if !active.is_held() && is_named(&active.id) => {
                active.cancelled = Cancelled::ClientCancelled;
                happens(driver, self, socket, Event::Cancel).await?;
            }
            _ if response.is_none() && self.asked.take().is_some() => {}
            _ => {
                // LiveKit Agents knows by the first words that it came too late.
                let message = "Cancellation failed: no such response is in progress.";
                return Ok(Err(Fault::invalid("response_cancel_not_active", message)));
            }
        }
        Ok(Ok(()))
    }
}

fn append(driver: &mut Driver, audio: &str) -> Result<(), Fault> {
    if audio.len() / 4 * 3 > MAX_APPEND_BYTES {
        let message = "`audio` has more than 15 MiB: send it in several events.";
        return Err(Fault::invalid("string_above_max_length", message).about("audio"));
    }
    if driver.append(audio) {
        return Ok(());
    }
    Err(Fault::invalid("invalid_value", "`audio` is not base64 of audio in the session's format.").about("audio"))
}

impl Protocol for Conversation {
    async fn begin(&mut self, driver: &mut Driver, socket: &Socket) -> Step {
        let longest_s = i64::from(driver.opening.claims.max_session_duration_sec);
        self.expires_at = clock::now_ms() / 1000 + longest_s;
        driver.detects_turns = self.settings.audio.input.turn_detection.is_some();
        send(socket, &ServerEvent::Created { session: self.object() }).await
    }

    async fn receive(&mut self, driver: &mut Driver, socket: &Socket, text: String) -> Step {
        driver.touch();
        let (event_id, request) = Request::parse(&text);
        // The text of minutes of audio need not stay.
        drop(text);
        let done = match request {
            Ok(request) => self.take(driver, socket, request).await?,
            Err(fault) => Err(fault),
        };
        match done {
            Ok(()) => Ok(()),
            Err(fault) => refuse(socket, fault.of_event(event_id)).await,
        }
    }

    async fn receive_binary(&mut self, socket: &Socket) -> Step {
        refuse(socket, Fault::binary()).await
    }

    async fn report(&mut self, driver: &mut Driver, socket: &Socket, report: Report) -> Result<Option<Event>, End> {
        self.take_report(driver, socket, report).await
    }

    async fn transcribed(&mut self, _: &mut Driver, socket: &Socket, item: String, text: String) -> Step {
        self.complete_item(socket, &item, text).await
    }

    async fn act(&mut self, driver: &mut Driver, socket: &Socket, action: Action) -> Step {
        match action {
            Action::SpeechStarted => self.speech_started(driver, socket).await,
            Action::SpeechStopped => self.speech_stopped(driver, socket).await,
            Action::UserPartial(text) => {
                self.show_words(socket, &text);
                Ok(())
            }
            Action::UserFinal(text) => self.end_turn(socket, text).await,
            action => self.act_on_reply(driver, socket, action).await,
        }
    }

    async fn rest(&mut self, driver: &mut Driver, socket: &Socket) -> Result<Option<Instant>, End> {
        let is_free = self.active.is_none()
            && driver.conversation.state() == State::Listening
            && !driver.awaits_items()
            && !driver.is_ending();
        if !is_free {
            return Ok(None);
        }
        if self.asked.is_some() {
            happens(driver, self, socket, Event::Respond).await?;
            return Ok(None);
        }
        let timeout = self.settings.audio.input.turn_detection.as_ref().and_then(|turns| turns.idle_timeout_ms);
        let (Some(timeout_ms), Some((since, from_ms))) = (timeout, self.quiet_since) else { return Ok(None) };
        let at = since + Duration::from_millis(timeout_ms.into());
        if Instant::now() < at {
            return Ok(Some(at));
        }
        self.quiet_since = None;
        self.time_out(driver, socket, from_ms).await?;
        happens(driver, self, socket, Event::Respond).await?;
        Ok(None)
    }

    async fn ending(&mut self, _: &mut Driver, socket: &Socket, reason: Reason) -> Step {
        let fault = match reason {
            Reason::Idle => Fault::invalid("session_idle", "No event came for too long."),
            Reason::Longest => {
                Fault::invalid("session_expired", "The session has reached its longest time. Open another one.")
            }
            Reason::Stopping => Fault::service("service_stopping", "The service is stopping. Connect again."),
            Reason::Failed => {
                Fault::service("recognition_failed", "Speech recognition failed, and the session is ended.")
            }
        };
        refuse(socket, fault).await
    }

    async fn ended(&mut self, _: &mut Driver, socket: &Socket) -> Step {
        for mut response in self.active.take().into_iter().chain(std::mem::take(&mut self.apart)) {
            if response.is_held() {
                continue;
            }
            response.cancelled = Cancelled::ClientCancelled;
            response.finish(&mut self.items, socket, true).await?;
        }
        Ok(())
    }
}

/// Reports a turn that the client gets as an item.
pub async fn announce_turn(socket: &Socket, before: Option<&str>, item_id: &str, item: &Value) -> Step {
    send_shared(socket, &frames::ServerEvent::Committed { previous_item_id: before, item_id }).await?;
    send(socket, &ServerEvent::ItemAdded { previous_item_id: before, item }).await?;
    send(socket, &ServerEvent::ItemDone { previous_item_id: before, item }).await
}
