//! The protocol of `/v2/voice-agent`.

use auricle_engine::converse::{Action, Event, Failure};
use tokio::time::Instant;

use super::driver::Driver;
use super::frames::{ClientFrame, Fault, ReplyStatus, ServerFrame};
use super::session::{self, End, Protocol, Reason, Step, end, happens, settled};
use crate::clock;
use crate::live::socket::{ServerMessage, Socket};

pub async fn send(socket: &Socket, frame: &ServerFrame<'_>) -> Step {
    session::send(socket, frame.to_json()).await
}

pub async fn refuse(socket: &Socket, fault: &Fault) -> Step {
    send(socket, &ServerFrame::Error { code: fault.code, message: &fault.message }).await
}

pub fn ended(began: Instant, audio_s: f64) -> ServerFrame<'static> {
    ServerFrame::Ended {
        session_duration_seconds: began.elapsed().as_secs_f64(),
        audio_duration_seconds: audio_s,
        timestamp: clock::now_ms() as f64 / 1e3,
    }
}

pub struct V2 {
    /// The ids of the voices.
    pub voices: Vec<String>,
}

impl Protocol for V2 {
    async fn begin(&mut self, driver: &mut Driver, socket: &Socket) -> Step {
        let greeting = driver.settings.greeting.clone();
        happens(driver, self, socket, Event::Greet(greeting)).await
    }

    async fn receive(&mut self, driver: &mut Driver, socket: &Socket, text: String) -> Step {
        let frame = match ClientFrame::parse(&text) {
            Ok(frame) => frame,
            Err(fault) => return refuse(socket, &fault).await,
        };
        match frame {
            ClientFrame::Audio(base64) if driver.append(&base64) => Ok(()),
            ClientFrame::Audio(_) => refuse(socket, &Fault::new("invalid_audio", "`audio` is not base64.")).await,
            ClientFrame::ToolResult { call_id, result } => {
                happens(driver, self, socket, Event::ToolResult { call_id, result }).await
            }
            ClientFrame::End => end(driver, self, socket, (1000, "")).await,
            ClientFrame::Update(session) => {
                let settings = match driver.settings.updated(session, &self.voices).await {
                    Ok(settings) => settings,
                    Err(fault) => return refuse(socket, &fault).await,
                };
                match driver.update(settings).await {
                    Ok(cuts) => {
                        for cut in cuts {
                            settled(driver, self, socket, cut).await?;
                        }
                        send(socket, &ServerFrame::Updated).await
                    }
                    Err((code, message)) => send(socket, &ServerFrame::Error { code, message: &message }).await,
                }
            }
        }
    }

    async fn act(&mut self, driver: &mut Driver, socket: &Socket, action: Action) -> Step {
        match action {
            Action::SpeechStarted => send(socket, &ServerFrame::SpeechStarted).await,
            Action::SpeechStopped => send(socket, &ServerFrame::SpeechStopped).await,
            Action::UserPartial(text) => {
                // The next one replaces it.
                let _ = socket.try_send(ServerMessage::Text(ServerFrame::UserDelta { text: &text }.to_json()));
                Ok(())
            }
            Action::UserFinal(text) => send(socket, &ServerFrame::User { text: &text }).await,
            Action::Think { thought, tools } => {
                driver.reply(thought, tools);
                Ok(())
            }
            Action::ReplyStarted { reply } => {
                send(socket, &ServerFrame::ReplyStarted { reply_id: &reply_id(reply) }).await
            }
            Action::Audio { reply, samples, .. } => {
                let data = driver.encode(&samples);
                send_audio(socket, reply, &data).await
            }
            Action::AgentText { reply, text, interrupted } => {
                send(socket, &ServerFrame::Agent { reply_id: &reply_id(reply), text: &text, interrupted }).await
            }
            Action::ReplyDone { reply, interrupted } => {
                send_audio(socket, reply, &driver.finish_audio()).await?;
                let status = if interrupted { ReplyStatus::Interrupted } else { ReplyStatus::Completed };
                send(socket, &ServerFrame::ReplyDone { reply_id: &reply_id(reply), status }).await
            }
            Action::Call(call) => {
                let arguments = serde_json::from_str(&call.arguments).unwrap_or_default();
                send(socket, &ServerFrame::Call { call_id: &call.id, name: &call.name, arguments }).await
            }
            Action::Error(Failure { code, message, .. }) => {
                send(socket, &ServerFrame::Error { code, message: &message }).await
            }
            _ => Ok(()),
        }
    }

    async fn rest(&mut self, _: &mut Driver, _: &Socket) -> Result<Option<Instant>, End> {
        Ok(None)
    }

    async fn ending(&mut self, _: &mut Driver, socket: &Socket, reason: Reason) -> Step {
        let (code, message) = match reason {
            Reason::Idle => ("session_timeout", "No audio came for too long: the session is ended."),
            Reason::Failed => ("recognition_failed", "Speech recognition failed, and the session is ended."),
            Reason::Longest | Reason::Stopping => return Ok(()),
        };
        send(socket, &ServerFrame::Error { code, message }).await
    }

    async fn ended(&mut self, driver: &mut Driver, socket: &Socket) -> Step {
        send(socket, &ended(driver.began, driver.heard_s)).await
    }
}

async fn send_audio(socket: &Socket, reply: u64, data: &str) -> Step {
    if data.is_empty() {
        return Ok(());
    }
    send(socket, &ServerFrame::Audio { reply_id: &reply_id(reply), data }).await
}

fn reply_id(reply: u64) -> String {
    format!("reply_{reply}")
}
