//! A call with the agent, in the frames of its provider.

use std::collections::VecDeque;
use std::time::Duration;

use auricle_engine::LiveEvent;
use auricle_engine::converse::{Action, Event, Failure, VOICE_RATE};
use data_encoding::BASE64;
use serde_json::Value;
use tokio::time::Instant;

use super::frame::{CallFrame, NOT_BASE64, RATE, Start};
use super::provider::Provider;
use super::record::SharedRecord;
use crate::live::agent::driver::Driver;
use crate::live::agent::session::{End, Protocol, Reason, Step, end, happens, send};
use crate::live::socket::Socket;

/// Keys are passed on once no other has come for this time, and at once after a `#`.
const KEYS_PAUSE: Duration = Duration::from_millis(1_500);
/// The most keys that are passed on together.
const MAX_KEYS: usize = 32;
/// Audio between two marks, ms.
const MARK_MS: u64 = 500;
/// The most marks that are awaited.
const MAX_MARKS: usize = 64;
/// The longest delay of the provider's player that is believed, ms.
const MAX_DELAY_MS: u64 = 2_000;
/// Bytes of 20 ms: providers take no shorter audio.
const PACKET: usize = RATE as usize / 50;
/// Silence in mu-law.
const SILENCE: u8 = 0xff;

/// The close of a stream with a frame that cannot be used.
pub const WRONG_FRAME: u16 = 4400;

/// The audio that the provider plays.
#[derive(Default)]
struct Player {
    /// The time at which all audio so far should be played, ms of the session.
    until_ms: u64,
    /// That of the last mark.
    marked_ms: u64,
    /// Marks that have not come back, each with the time at which it should.
    marks: VecDeque<(String, u64)>,
    /// Audio short of a packet.
    rest: Vec<u8>,
}

impl Player {
    /// Whole packets of what is there and of more audio.
    fn packets(&mut self, audio: &[u8]) -> Vec<u8> {
        self.rest.extend_from_slice(audio);
        let whole = self.rest.len() / PACKET * PACKET;
        self.rest.drain(..whole).collect()
    }

    /// The last packet of a reply.
    fn last_packet(&mut self) -> Vec<u8> {
        if !self.rest.is_empty() {
            self.rest.resize(PACKET, SILENCE);
        }
        std::mem::take(&mut self.rest)
    }

    /// Takes a mark that has come back now. Returns how late the audio before it was played, ms; none for a mark that is not awaited.
    fn played(&mut self, name: &str, now_ms: u64) -> Option<u64> {
        let at = self.marks.iter().position(|(known, _)| known == name)?;
        let (_, due_ms) = self.marks.drain(..=at).next_back()?;
        Some(now_ms.saturating_sub(due_ms).min(MAX_DELAY_MS))
    }

    /// Forgets all that is not played.
    fn clear(&mut self) {
        *self = Self::default();
    }
}

pub struct Call {
    provider: Provider,
    stream: String,
    record: SharedRecord,
    /// Keys that are not passed on yet, and the time at which they are.
    keys: String,
    keys_at: Option<Instant>,
    /// The last time at which keys were passed on.
    passed_on: Option<Instant>,
    player: Player,
}

impl Call {
    pub fn new(provider: Provider, start: Start, record: SharedRecord) -> Self {
        Self {
            provider,
            stream: start.stream,
            record,
            keys: String::new(),
            keys_at: None,
            passed_on: None,
            player: Player::default(),
        }
    }

    async fn send(&self, socket: &Socket, frame: Value) -> Step {
        send(socket, frame.to_string()).await
    }

    async fn send_audio(&self, socket: &Socket, audio: &[u8]) -> Step {
        if audio.is_empty() {
            return Ok(());
        }
        self.send(socket, self.provider.audio(&self.stream, &BASE64.encode(audio))).await
    }

    /// Marks the end of the audio so far.
    async fn mark(&mut self, socket: &Socket, reply: u64) -> Step {
        let until_ms = self.player.until_ms;
        if self.player.marks.len() >= MAX_MARKS || self.player.marked_ms == until_ms {
            return Ok(());
        }
        let name = format!("{reply}-{until_ms}");
        self.player.marked_ms = until_ms;
        self.player.marks.push_back((name.clone(), until_ms));
        self.send(socket, self.provider.mark(&self.stream, &name)).await
    }

    async fn speak(&mut self, driver: &mut Driver, socket: &Socket, reply: u64, samples: &[f32], text: &str) -> Step {
        let length_ms = samples.len() as u64 * 1000 / u64::from(VOICE_RATE);
        let start_ms = self.player.until_ms.max(driver.now());
        self.player.until_ms = start_ms + length_ms;
        self.record.write(|record| record.speak(start_ms, samples.len(), text));
        let audio = self.player.packets(&driver.encode_bytes(samples));
        self.send_audio(socket, &audio).await?;
        if self.player.until_ms - self.player.marked_ms >= MARK_MS {
            self.mark(socket, reply).await?;
        }
        Ok(())
    }

    async fn reply_is_over(&mut self, driver: &mut Driver, socket: &Socket, reply: u64, interrupted: bool) -> Step {
        if interrupted {
            self.player.clear();
            return self.send(socket, self.provider.clear(&self.stream)).await;
        }
        let mut audio = self.player.packets(&driver.finish_audio_bytes());
        audio.extend(self.player.last_packet());
        self.send_audio(socket, &audio).await?;
        self.mark(socket, reply).await
    }

    /// The first of some keys stops the agent.
    async fn press(&mut self, driver: &mut Driver, socket: &Socket, key: char) -> Step {
        driver.touch();
        let now_ms = driver.now();
        let is_taken = self.record.write(|record| record.press(key, now_ms)).unwrap_or_default();
        if !is_taken || self.keys.len() >= MAX_KEYS {
            return Ok(());
        }
        let is_first = self.keys.is_empty();
        self.keys.push(key);
        let is_last = key == '#' || self.keys.len() >= MAX_KEYS;
        let at = if is_last { Instant::now() } else { Instant::now() + KEYS_PAUSE };
        // Each time costs a request to the language model.
        self.keys_at = Some(self.passed_on.map_or(at, |last| at.max(last + KEYS_PAUSE)));
        if is_first && driver.settings.rules.interruptible {
            happens(driver, self, socket, Event::Cancel).await?;
        }
        Ok(())
    }
}

impl Protocol for Call {
    async fn begin(&mut self, driver: &mut Driver, socket: &Socket) -> Step {
        let greeting = driver.settings.greeting.clone();
        happens(driver, self, socket, Event::Greet(greeting)).await
    }

    async fn receive(&mut self, driver: &mut Driver, socket: &Socket, text: String) -> Step {
        let frame = self.provider.parse(&text).map_err(|fault| End::Close((WRONG_FRAME, fault)))?;
        match frame {
            CallFrame::Audio(payload) if driver.append(&payload) => Ok(()),
            CallFrame::Audio(_) => Err(End::Close((WRONG_FRAME, NOT_BASE64))),
            CallFrame::Key(key) => self.press(driver, socket, key).await,
            CallFrame::Played(name) => {
                if let Some(late_ms) = self.player.played(&name, driver.now()) {
                    driver.conversation.set_play_delay(late_ms);
                }
                Ok(())
            }
            CallFrame::Stop => end(driver, self, socket, (1000, "")).await,
            CallFrame::Start(_) | CallFrame::Other => Ok(()),
        }
    }

    fn recognised(&mut self, event: &LiveEvent) {
        self.record.write(|record| record.recognise(event));
    }

    async fn act(&mut self, driver: &mut Driver, socket: &Socket, action: Action) -> Step {
        match action {
            Action::Think { thought, tools } => driver.reply(thought, tools),
            Action::Audio { reply, samples, text } => {
                return self.speak(driver, socket, reply, &samples, &text).await;
            }
            Action::AgentText { text, .. } => {
                let now_ms = driver.now();
                self.record.write(|record| record.reply_ends(&text, now_ms));
            }
            Action::ReplyDone { reply, interrupted } => {
                return self.reply_is_over(driver, socket, reply, interrupted).await;
            }
            Action::Error(Failure { code, message, .. }) => {
                self.record.write(|record| record.warn(format!("{code}: {message}")));
            }
            _ => {}
        }
        Ok(())
    }

    async fn rest(&mut self, driver: &mut Driver, socket: &Socket) -> Result<Option<Instant>, End> {
        if self.keys_at.is_some_and(|at| at <= Instant::now()) {
            (self.keys_at, self.passed_on) = (None, Some(Instant::now()));
            let keys = std::mem::take(&mut self.keys);
            happens(driver, self, socket, Event::Dtmf(keys)).await?;
        }
        Ok(self.keys_at)
    }

    async fn ending(&mut self, _: &mut Driver, _: &Socket, reason: Reason) -> Step {
        if reason == Reason::Failed {
            self.record.write(|record| record.warn("Speech recognition failed, and the call was ended.".into()));
        }
        Ok(())
    }

    async fn ended(&mut self, _: &mut Driver, _: &Socket) -> Step {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_leaves_in_whole_packets() {
        let mut player = Player::default();
        assert_eq!(player.packets(&[1; 100]).len(), 0);
        assert_eq!(player.packets(&[2; 250]).len(), 320);
        let last = player.last_packet();
        assert_eq!((last.len(), &last[..31]), (160, &[&[2; 30][..], &[SILENCE]].concat()[..]));
        assert!(player.last_packet().is_empty());
    }

    #[test]
    fn marks_tell_how_late_audio_is_played() {
        let marks = [("a".to_owned(), 1_000), ("b".to_owned(), 1_500), ("c".to_owned(), 2_000)].into();
        let mut player = Player { marks, ..Player::default() };
        assert_eq!(player.played("x", 1_000), None);
        assert_eq!(player.played("b", 1_700), Some(200), "that of the first is lost");
        assert_eq!(player.played("a", 1_700), None);
        assert_eq!(player.played("c", 60_000), Some(MAX_DELAY_MS));
        player.marks.push_back(("d".into(), 3_000));
        player.clear();
        assert_eq!(player.played("d", 3_100), None, "it was not played");
    }
}
