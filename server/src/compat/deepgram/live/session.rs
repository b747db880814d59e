//! A session: passes audio of the client to the engine, and results of the engine to the client.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use auricle_engine::{Caption, LiveEvent, LiveEvents, LiveInput, LiveOutput, Word};
use serde_json::Map;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until};

use super::super::common::{AnswerWord, ModelInfo, bare_text, confidence, hex, seconds};
use super::frames::{Alternative, Channel, ClientFrame, ResultsMetadata, ServerFrame};
use super::settings::Settings;
use crate::api::openai::realtime::TurnDetection;
use crate::api::openai::realtime::speech_gate::{CHUNK_MS, Change, SpeechGate};
use crate::clock;
use crate::live::LiveState;
use crate::live::codec::{AudioFormat, Decoder};
use crate::live::socket::{ClientMessage, CloseFrame, ServerMessage, Socket};

/// Audio that a client may be ahead of the engine. Above it the socket is not read.
const MAX_AHEAD_MS: u64 = 60_000;
/// A session without audio and without a frame for this time is ended.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// The close of such a session, by whose name clients know it.
const IDLE: CloseFrame =
    (1011, "NET-0001: no audio data and no text message came within the timeout window (https://dpgr.am/net0001)");
const FAILED: CloseFrame = (1011, "NET-0000: the session failed.");
/// Speech from this probability on.
const THRESHOLD: f64 = 0.5;
/// All results are of one channel.
const CHANNEL: [usize; 2] = [0, 1];

/// A session that the engine has accepted.
pub struct Opening {
    pub input: LiveInput,
    pub events: LiveEvents,
    pub settings: Settings,
    pub id: String,
    pub state: Arc<LiveState>,
}

/// An end of a segment whose text is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    reason: Reason,
    /// Audio before it, ms.
    at_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Speech has ended.
    Endpoint,
    /// The utterance has ended.
    Utterance,
    /// The client asked for it.
    Finalize,
}

/// The end of a session.
enum End {
    Gone,
    Close(CloseFrame),
}

type Step = Result<(), End>;

pub struct Session {
    input: LiveInput,
    events: LiveEvents,
    settings: Settings,
    id: String,
    state: Arc<LiveState>,
    model: ModelInfo,
    model_uuid: String,
    created: String,
    began: Instant,
    last_frame: Instant,
    decoder: Decoder,
    /// Samples of an incomplete set of channels.
    incomplete: Vec<f32>,
    hash: Sha256,
    /// Samples passed on.
    samples: u64,
    speech: SpeechGate,
    utterance: Option<SpeechGate>,
    /// In the order of the speech. Each ends with [`LiveOutput::Settled`].
    cuts: VecDeque<Cut>,
    /// The beginning of the audio without final text, ms.
    from_ms: u64,
    /// Text before the first of the cuts.
    held: Vec<Caption>,
    /// There was text since speech ended last.
    has_spoken: bool,
    /// The end of the last word since an utterance ended, ms.
    last_word_ms: Option<u64>,
    /// How to close the socket once all results are sent.
    ending: Option<CloseFrame>,
}

async fn send(socket: &Socket, frame: &ServerFrame<'_>) -> Step {
    let taken = socket.send(ServerMessage::Text(frame.to_json())).await;
    if taken { Ok(()) } else { Err(End::Gone) }
}

/// Reports a failure of the engine, which ends the session.
async fn fail(socket: &Socket, error: &auricle_engine::Error) -> Step {
    tracing::error!(%error, "a live session failed");
    send(socket, &ServerFrame::error("TranscriptionFailed", "The transcription failed.")).await?;
    Err(End::Close(FAILED))
}

fn gate(silence_duration_ms: u32) -> SpeechGate {
    SpeechGate::new(TurnDetection::ServerVad { threshold: THRESHOLD, prefix_padding_ms: 0, silence_duration_ms })
}

impl Session {
    pub fn new(opening: Opening) -> Self {
        let Opening { input, events, settings, id, state } = opening;
        let model = ModelInfo::new(settings.model);
        let now = Instant::now();
        Self {
            input,
            events,
            id,
            state,
            model_uuid: model.uuid(),
            model,
            created: clock::iso(clock::now_ms()),
            began: now,
            last_frame: now,
            decoder: Decoder::new(AudioFormat { encoding: settings.encoding, rate: settings.rate }),
            incomplete: Vec::new(),
            hash: Sha256::new(),
            samples: 0,
            speech: gate(settings.silence_ms),
            utterance: settings.utterance_end_ms.map(gate),
            cuts: VecDeque::new(),
            from_ms: 0,
            held: Vec::new(),
            has_spoken: false,
            last_word_ms: None,
            ending: None,
            settings,
        }
    }

    /// Audio passed on, ms.
    fn taken_ms(&self) -> u64 {
        self.samples * 1000 / u64::from(self.settings.rate)
    }

    /// Runs the session to its end. Returns how to close the socket; none if the client is gone.
    pub async fn run(mut self, socket: &mut Socket) -> Option<CloseFrame> {
        loop {
            match self.step(socket).await {
                Ok(()) => {}
                Err(End::Gone) => return None,
                Err(End::Close(close)) => return Some(close),
            }
        }
    }

    async fn step(&mut self, socket: &mut Socket) -> Step {
        let settings = &self.state.settings;
        let deadline = self.began + settings.max_duration;
        let idle = self.last_frame + settings.idle_timeout.min(IDLE_TIMEOUT);
        let stopping = self.state.stopping.clone();
        let listening = self.ending.is_none();
        let ahead = listening && self.input.waiting_ms() >= MAX_AHEAD_MS;
        let refused = listening && self.input.is_refused();
        // Short of the limit only the queue has to have room.
        let ahead_ms = if ahead { MAX_AHEAD_MS - 1 } else { u64::MAX };
        tokio::select! {
            output = self.events.next_output() => {
                let began = Instant::now();
                let step = self.recognised(socket, output).await;
                // While the service waits for the client, it does not read audio.
                self.last_frame += began.elapsed();
                step
            }
            message = socket.next(), if !ahead => self.received(socket, message).await,
            () = self.input.caught_up(ahead_ms), if ahead || refused => {
                self.last_frame = Instant::now();
                Ok(())
            }
            () = sleep_until(idle), if listening && !ahead => Err(End::Close(IDLE)),
            () = sleep_until(deadline), if listening => {
                self.end(socket, (1000, "The session has reached its longest time. Open another one.")).await
            }
            () = stopping.cancelled(), if listening => {
                self.end(socket, (1001, "The service is stopping. Connect again.")).await
            }
        }
    }

    /// Ends the audio. The results that are awaited are sent first.
    async fn end(&mut self, socket: &Socket, close: CloseFrame) -> Step {
        self.ending = Some(close);
        match self.input.finish() {
            Ok(()) => Ok(()),
            Err(error) => fail(socket, &error).await,
        }
    }

    async fn received(&mut self, socket: &Socket, message: ClientMessage) -> Step {
        match message {
            ClientMessage::Text(_) | ClientMessage::Binary(_) if self.ending.is_some() => Ok(()),
            ClientMessage::Audio(_) => Ok(()),
            ClientMessage::Binary(bytes) => {
                self.last_frame = Instant::now();
                self.hash.update(&bytes);
                let samples = self.decoder.samples(&bytes);
                let mono = self.mixed(samples);
                self.pass_on(socket, &mono).await
            }
            ClientMessage::Text(text) => {
                let Some(frame) = ClientFrame::read(&text) else {
                    return send(socket, &ServerFrame::unreadable(&text)).await;
                };
                self.last_frame = Instant::now();
                match frame {
                    ClientFrame::KeepAlive => Ok(()),
                    ClientFrame::CloseStream => self.end(socket, (1000, "")).await,
                    ClientFrame::Finalize => {
                        self.cut(Reason::Finalize);
                        Ok(())
                    }
                    ClientFrame::Configure => {
                        let refused = ServerFrame::ConfigureFailure {
                            request_id: &self.id,
                            code: "CONFIGURE_KEYTERMS_NOT_SUPPORTED",
                            description: "The keyterms of a session are those of its query.",
                        };
                        send(socket, &refused).await
                    }
                }
            }
            ClientMessage::Ping(payload) => {
                let began = Instant::now();
                socket.send(ServerMessage::Pong(payload)).await;
                self.last_frame += began.elapsed();
                Ok(())
            }
            // A close is answered with the client's code.
            ClientMessage::Close(code) => Err(End::Close((code.unwrap_or(1000), ""))),
            ClientMessage::Disconnected => Err(End::Gone),
            ClientMessage::ProtocolError(code) => Err(End::Close((code, ""))),
        }
    }

    /// The mean of the channels.
    fn mixed(&mut self, samples: Vec<f32>) -> Vec<f32> {
        let channels = self.settings.channels;
        if channels == 1 {
            return samples;
        }
        self.incomplete.extend(samples);
        let sets = self.incomplete.chunks_exact(channels);
        let rest = sets.remainder().to_vec();
        let mono = sets.map(|set| set.iter().sum::<f32>() / channels as f32).collect();
        self.incomplete = rest;
        mono
    }

    /// Passes audio on to the engine. A segment ends with a push, so that a push is as long as a chunk of the detector.
    async fn pass_on(&mut self, socket: &Socket, samples: &[f32]) -> Step {
        for chunk in samples.chunks((self.settings.rate * CHUNK_MS / 1000) as usize) {
            self.samples += chunk.len() as u64;
            match self.input.push_and_detect(chunk) {
                Ok(probabilities) => self.follow(socket, &probabilities).await?,
                Err(error) => return fail(socket, &error).await,
            }
        }
        Ok(())
    }

    /// Follows the speech of chunks of the detector.
    async fn follow(&mut self, socket: &Socket, probabilities: &[f32]) -> Step {
        for probability in probabilities {
            match self.speech.push(*probability) {
                Some(Change::Started { ago_ms }) if self.settings.vad_events => {
                    let timestamp = seconds(self.taken_ms().saturating_sub(ago_ms.into()));
                    send(socket, &ServerFrame::SpeechStarted { channel: CHANNEL, timestamp }).await?;
                }
                Some(Change::Stopped) => {
                    self.speech.reset();
                    if self.settings.endpointing {
                        self.cut(Reason::Endpoint);
                    }
                }
                _ => {}
            }
            let utterance = self.utterance.as_mut();
            let ended = utterance.and_then(|gate| (gate.push(*probability) == Some(Change::Stopped)).then_some(gate));
            if let Some(gate) = ended {
                gate.reset();
                self.cut(Reason::Utterance);
            }
        }
        Ok(())
    }

    /// Ends a segment here.
    fn cut(&mut self, reason: Reason) {
        let cut = Cut { reason, at_ms: self.taken_ms() };
        // The same again has no other answer.
        if self.cuts.back() != Some(&cut) {
            self.cuts.push_back(cut);
            self.input.end_turn();
        }
    }

    /// Takes what the engine has recognised.
    async fn recognised(&mut self, socket: &Socket, output: Option<auricle_engine::Result<LiveOutput>>) -> Step {
        match output {
            Some(Ok(LiveOutput::Event(event))) => self.take_text(socket, event).await,
            Some(Ok(LiveOutput::Settled)) => match self.cuts.pop_front() {
                Some(cut) => self.complete(socket, cut).await,
                None => Ok(()),
            },
            Some(Ok(LiveOutput::Judged(_))) => Ok(()),
            Some(Err(error)) => fail(socket, &error).await,
            None => {
                let at_ms = self.taken_ms();
                let speech_final = self.settings.endpointing && self.has_spoken;
                self.send_final(socket, at_ms, speech_final, false).await?;
                self.send_metadata(socket).await?;
                Err(End::Close(self.ending.unwrap_or(FAILED)))
            }
        }
    }

    async fn take_text(&mut self, socket: &Socket, event: LiveEvent) -> Step {
        match event {
            LiveEvent::Partial(caption) if self.settings.interim_results && !caption.text.is_empty() => {
                let at_ms = self.taken_ms().saturating_sub(self.input.waiting_ms());
                let texts = self.held.iter().chain([&caption]);
                let frame = self.results(texts, at_ms, (false, false, false));
                // The next partial replaces this one.
                let _ = socket.try_send(ServerMessage::Text(frame.to_json()));
                Ok(())
            }
            LiveEvent::Formatted(caption) if !caption.words.is_empty() => {
                let end_ms = caption.words.iter().map(|word| word.end).max();
                self.has_spoken = true;
                self.last_word_ms = self.last_word_ms.max(end_ms);
                self.held.push(caption);
                // The engine has ended a long segment by itself.
                match (self.cuts.is_empty() && self.ending.is_none(), end_ms) {
                    (true, Some(end_ms)) => self.send_final(socket, end_ms, false, false).await,
                    _ => Ok(()),
                }
            }
            // The formatted text replaces the final one within moments.
            _ => Ok(()),
        }
    }

    /// Completes a segment whose text is all there.
    async fn complete(&mut self, socket: &Socket, cut: Cut) -> Step {
        let speech_final = cut.reason == Reason::Endpoint && self.has_spoken;
        self.send_final(socket, cut.at_ms, speech_final, cut.reason == Reason::Finalize).await?;
        match (cut.reason, self.last_word_ms) {
            (Reason::Endpoint, _) => self.has_spoken = false,
            (Reason::Utterance, Some(ms)) => {
                self.last_word_ms = None;
                let frame = ServerFrame::UtteranceEnd { channel: CHANNEL, last_word_end: seconds(ms) };
                send(socket, &frame).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends the text that is held, if there is any or the client is to know of its end.
    async fn send_final(&mut self, socket: &Socket, at_ms: u64, speech_final: bool, from_finalize: bool) -> Step {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() || speech_final || from_finalize {
            let frame = self.results(held.iter(), at_ms, (true, speech_final, from_finalize));
            send(socket, &frame).await?;
            self.from_ms = self.from_ms.max(at_ms);
        }
        Ok(())
    }

    /// The results of captions: whether they are final, end speech, and were asked for.
    fn results<'a>(
        &self,
        captions: impl Iterator<Item = &'a Caption> + Clone,
        at_ms: u64,
        (is_final, speech_final, from_finalize): (bool, bool, bool),
    ) -> ServerFrame<'_> {
        let words: Vec<Word> = captions.clone().flat_map(|caption| &caption.words).cloned().collect();
        let transcript = match self.settings.punctuated {
            true => captions.map(|caption| caption.text.as_str()).collect::<Vec<_>>().join(" "),
            false => bare_text(&words),
        };
        let answer = |word: &Word| AnswerWord::new(word, self.settings.punctuated, false);
        let alternative =
            Alternative { transcript, confidence: confidence(&words), words: words.iter().map(answer).collect() };
        ServerFrame::Results {
            channel_index: CHANNEL,
            duration: seconds(at_ms.saturating_sub(self.from_ms)),
            start: seconds(self.from_ms),
            is_final,
            speech_final,
            channel: Channel { alternatives: [alternative] },
            metadata: ResultsMetadata { request_id: &self.id, model_info: &self.model, model_uuid: &self.model_uuid },
            from_finalize,
        }
    }

    async fn send_metadata(&mut self, socket: &Socket) -> Step {
        let sha256 = hex(std::mem::take(&mut self.hash));
        let info = serde_json::to_value(&self.model).unwrap_or_default();
        let frame = ServerFrame::Metadata {
            transaction_key: "deprecated",
            request_id: &self.id,
            sha256,
            created: &self.created,
            duration: seconds(self.taken_ms()),
            channels: 1,
            models: [self.model_uuid.clone()],
            model_info: Map::from_iter([(self.model_uuid.clone(), info)]),
        };
        send(socket, &frame).await
    }
}
