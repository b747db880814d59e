//! The agent of a session, whatever its protocol: recognition, the conversation, the language model and the voice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use auricle_engine::converse::{Action, Conversation, Event, Rules, TurnTimes};
use auricle_engine::{Engine, LiveEvent, SpeakOptions};
use data_encoding::BASE64;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedSender};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use super::audio_input::{AudioInput, CHUNK_MS, Cut, Part};
use super::llm::{MAX_TOKENS, Prompt};
use super::report::Report;
use super::settings::Settings;
use super::voice::{Speaker, Words};
use super::{llm, voice};
use crate::auth::session_token::AgentClaims;
use crate::language::{ChatRequest, LanguageModel, ToolChoice};
use crate::live::AgentState;
use crate::live::codec::Encoder;
use crate::live::socket::CloseFrame;

/// Reports that wait for the session.
const REPORTS: usize = 256;
/// Audio that is passed on between two looks at the engine's results, s.
const STRIDE_S: f64 = 0.96;

/// A session that may open.
pub struct Opening {
    pub state: Arc<AgentState>,
    pub engine: Engine,
    pub claims: AgentClaims,
    /// The runtime with sockets, for the language model.
    pub runtime: Handle,
}

impl Opening {
    /// Rules with the caller's language, where the recogniser has one alone.
    pub fn rules(&self) -> Rules {
        let choice = self.state.live.catalog.choose(super::audio_input::recognizer()).ok();
        let language = choice.and_then(|choice| match choice.languages {
            [only] => Some(only.clone()),
            _ => None,
        });
        Rules { language, ..Rules::default() }
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

pub struct Driver {
    pub opening: Opening,
    pub settings: Settings,
    pub conversation: Conversation,
    pub(super) audio: AudioInput,
    /// False if the client alone ends turns: the conversation gets neither speech nor words.
    pub detects_turns: bool,
    /// Words that belong to no item yet, where the client ends turns.
    open: Part,
    pub began: Instant,
    thoughts: HashMap<u64, Task>,
    speeches: HashMap<u64, (UnboundedSender<Words>, Task)>,
    encoder: Option<Encoder>,
    sender: Sender<Report>,
    pub(super) receiver: Receiver<Report>,
    /// Samples that wait to be passed on, the first of them passed on already.
    waiting: Vec<f32>,
    passed: usize,
    /// Samples of the client's audio by its rate, as seconds.
    pub heard_s: f64,
    /// The end of the chunk of the detector that the conversation gets, ms of the client's audio.
    pub heard_ms: u64,
    /// The last audio of the client, and the silence that stood for it since.
    pub(super) last_audio: Instant,
    pub(super) silence: Duration,
    /// The last activity of either side.
    pub(super) last_activity: Instant,
    /// How to close the socket once the conversation has ended; none while it goes on.
    pub(super) close: Option<CloseFrame>,
}

impl Driver {
    /// # Errors
    /// The code and message for the client, and the close code.
    pub async fn open(opening: Opening, settings: Settings) -> Result<Self, (&'static str, String, u16)> {
        let audio = AudioInput::open(&opening.engine, &opening.state.live, &settings).await?;
        let (sender, receiver) = mpsc::channel(REPORTS);
        let now = Instant::now();
        Ok(Self {
            conversation: Conversation::new(rules(&settings, &audio)),
            opening,
            settings,
            audio,
            detects_turns: true,
            open: Part::default(),
            began: now,
            thoughts: HashMap::new(),
            speeches: HashMap::new(),
            encoder: None,
            sender,
            receiver,
            waiting: Vec::new(),
            passed: 0,
            heard_s: 0.0,
            heard_ms: 0,
            last_audio: now,
            silence: Duration::ZERO,
            last_activity: now,
            close: None,
        })
    }

    /// Milliseconds of the conversation's clock, from 1 on.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Notes that the client does something.
    pub fn touch(&mut self) {
        self.last_activity = Instant::now();
    }

    /// True once the session ends.
    pub fn is_ending(&self) -> bool {
        self.close.is_some()
    }

    /// Changes the settings. Returns the words that the recognition before it has not given, which count as all that there are.
    ///
    /// # Errors
    /// The code and message for the client. The settings stay.
    pub async fn update(&mut self, settings: Settings) -> Result<Vec<Cut>, (&'static str, String)> {
        let mut cuts = Vec::new();
        if (settings.input, &settings.keyterms) != (self.settings.input, &self.settings.keyterms) {
            let opened = AudioInput::open(&self.opening.engine, &self.opening.state.live, &settings).await;
            let audio = opened.map_err(|(code, message, _)| (code, message))?;
            cuts = std::mem::replace(&mut self.audio, audio).cuts.into();
        }
        if settings.output != self.settings.output {
            self.encoder = None;
        }
        self.conversation.set_rules(rules(&settings, &self.audio));
        self.settings = settings;
        Ok(cuts)
    }

    /// Takes audio of the client; false if it is no base64.
    pub fn append(&mut self, base64: &str) -> bool {
        let Some(samples) = self.audio.decoder.decode(base64) else { return false };
        self.take(samples);
        true
    }

    /// Takes samples of the client's audio, at the rate of the settings.
    pub(super) fn take(&mut self, samples: Vec<f32>) {
        self.last_audio = Instant::now();
        self.last_activity = self.last_audio;
        self.silence = Duration::ZERO;
        // Nothing else is read before all of it is passed on.
        (self.waiting, self.passed) = (samples, 0);
    }

    /// True if audio waits to be passed on.
    pub(super) fn has_waiting(&self) -> bool {
        self.passed < self.waiting.len()
    }

    /// Passes more of the client's audio on; true for each chunk that is speech.
    pub(super) fn pass_on(&mut self) -> auricle_engine::Result<Vec<bool>> {
        let rate = f64::from(self.audio.rate);
        let end = (self.passed + (rate * STRIDE_S) as usize).min(self.waiting.len());
        let samples = self.waiting[self.passed..end].to_vec();
        self.passed = end;
        if end == self.waiting.len() {
            (self.waiting, self.passed) = (Vec::new(), 0);
        }
        self.heard_s += samples.len() as f64 / rate;
        self.hear(&samples)
    }

    /// Stands in for a client that sends no audio.
    pub(super) fn hear_silence(&mut self, length: Duration) -> auricle_engine::Result<Vec<bool>> {
        self.silence += length;
        let samples = (f64::from(self.audio.rate) * length.as_secs_f64()) as usize;
        self.hear(&vec![0.0; samples])
    }

    fn hear(&mut self, samples: &[f32]) -> auricle_engine::Result<Vec<bool>> {
        let chunks = self.audio.hear(samples, self.began.elapsed(), self.settings.vad_threshold)?;
        let heard_ms = (self.heard_s * 1e3) as u64;
        self.heard_ms = heard_ms.saturating_sub(u64::from(CHUNK_MS) * chunks.len() as u64);
        Ok(chunks)
    }

    /// Ends a turn here, where the client alone ends turns: its words come as those of the item.
    ///
    /// # Errors
    /// If the audio cannot be processed.
    pub fn cut_item(&mut self, item: String) -> auricle_engine::Result<()> {
        // The detector's last chunk is completed, so that no audio is left behind.
        self.hear(&vec![0.0; self.audio.rate as usize * CHUNK_MS as usize / 1000])?;
        let mut part = std::mem::take(&mut self.open);
        part.item = item;
        self.cut(Cut::Item(part));
        Ok(())
    }

    /// Drops all words before this place but those of items.
    pub fn clear(&mut self) {
        for cut in self.audio.cuts.iter_mut().filter(|cut| **cut == Cut::Turn) {
            *cut = Cut::Dropped;
        }
        self.open = Part::default();
        self.cut(Cut::Cleared);
    }

    /// True if the words of an item are awaited.
    pub fn awaits_items(&self) -> bool {
        self.audio.cuts.iter().any(|cut| matches!(cut, Cut::Item(_)))
    }

    fn cut(&mut self, cut: Cut) {
        self.audio.cuts.push_back(cut);
        self.audio.input.end_turn();
    }

    /// The conversation's event of what recognition gives; none if the words are not for it.
    pub(super) fn words(&mut self, event: LiveEvent) -> Option<Event> {
        match self.audio.cuts.front_mut() {
            Some(Cut::Item(part)) => part.take(event),
            Some(Cut::Dropped | Cut::Cleared) => {}
            None if !self.detects_turns => self.open.take(event),
            Some(Cut::Turn) | None => {
                return Some(match event {
                    LiveEvent::Partial(caption) => Event::Partial(caption.text),
                    LiveEvent::Final(caption) => Event::Final(caption.text),
                    LiveEvent::Formatted(caption) => Event::Formatted(caption.text),
                });
            }
        }
        None
    }

    /// Does what needs no client. Returns all that the protocol is to act on.
    pub(super) fn act(&mut self, action: Action) -> Option<Action> {
        match &action {
            Action::Settle => self.cut(Cut::Turn),
            Action::Judge { question, turn_ms } => {
                if self.audio.input.judge_turn(*turn_ms) {
                    self.audio.questions.push_back(*question);
                }
            }
            Action::StopThinking { thought } => self.stop_thinking(*thought),
            Action::Say { speech, text } => self.say(*speech, Words::More(text.clone())),
            Action::FinishSpeech { speech } => self.say(*speech, Words::Finished),
            Action::StopSpeech { speech } => self.end_speech(*speech),
            Action::Trace(times) => trace(times),
            Action::ReplyStarted { .. } => {
                self.encoder = None;
                return Some(action);
            }
            Action::Audio { samples, .. } => {
                self.last_activity = Instant::now();
                self.audio.echo.play(samples, self.began.elapsed());
                return Some(action);
            }
            Action::ReplyDone { interrupted, .. } => {
                if *interrupted {
                    self.audio.echo.stop();
                    self.encoder = None;
                }
                return Some(action);
            }
            Action::Ended => {
                self.thoughts.clear();
                self.speeches.clear();
                return Some(action);
            }
            _ => return Some(action),
        }
        None
    }

    /// Asks the language model for a reply of at most so many seconds of speech. Without a model the thought fails.
    pub fn think(&mut self, thought: u64, max_reply_s: u32, request: impl FnOnce(&dyn LanguageModel) -> ChatRequest) {
        let sender = self.sender.clone();
        let task = match self.opening.state.models.default_model().cloned() {
            Some(model) => {
                let request = request(&*model);
                self.opening.runtime.spawn(llm::think(model, request, max_reply_s, thought, sender))
            }
            None => tokio::spawn(async move {
                let _ = sender.send(Report::Event(Event::LlmFailed { thought, failure: llm::missing() })).await;
            }),
        };
        self.thoughts.insert(thought, task.into());
    }

    /// Asks for the next part of the conversation, as the settings have it.
    pub fn reply(&mut self, thought: u64, may_call: bool) {
        let settings = &self.settings;
        let prompt = Prompt {
            system: llm::spoken(&settings.system_prompt),
            tools: settings.tools.clone(),
            tool_choice: if may_call { ToolChoice::Auto } else { ToolChoice::None },
            max_tokens: MAX_TOKENS,
        };
        let history = self.conversation.history().iter().map(llm::message).collect();
        let account = self.opening.claims.payer.account.clone();
        let longest_s = settings.max_reply_s;
        self.think(thought, longest_s, |model| llm::request(model, prompt, history, account));
    }

    /// Cancels a thought, or forgets one that has ended.
    pub fn stop_thinking(&mut self, thought: u64) {
        self.thoughts.remove(&thought);
    }

    fn say(&mut self, speech: u64, words: Words) {
        let (Opening { engine, state, claims, .. }, sender) = (&self.opening, &self.sender);
        let Settings { voice, speed, rules, .. } = &self.settings;
        let (to, _) = self.speeches.entry(speech).or_insert_with(|| {
            let (to, from) = mpsc::unbounded_channel();
            let mut options = SpeakOptions::default().paced(true).speed(*speed);
            options.voice.clone_from(voice);
            let (clones, account) = (state.clones.clone(), claims.payer.account.clone());
            let speaker =
                Speaker { engine: engine.clone(), clones, account, options, language: rules.language.clone() };
            let said = voice::say(speaker, speech, from, sender.clone());
            (to, tokio::spawn(said).into())
        });
        let _ = to.send(words);
    }

    /// Ends a speech, or forgets one that has ended.
    pub(super) fn end_speech(&mut self, speech: u64) {
        self.speeches.remove(&speech);
    }

    /// Audio of the reply for the client, in base64; empty if there is none now.
    pub fn encode(&mut self, samples: &[f32]) -> String {
        BASE64.encode(&self.encode_bytes(samples))
    }

    /// The same as bytes.
    pub fn encode_bytes(&mut self, samples: &[f32]) -> Vec<u8> {
        let encoder = match &mut self.encoder {
            Some(encoder) => Ok(encoder),
            none => Encoder::new(self.settings.output).map(|encoder| none.insert(encoder)),
        };
        coded(encoder.and_then(|encoder| encoder.encode(samples)))
    }

    /// The rest of the reply's audio, unless it was interrupted.
    pub fn finish_audio(&mut self) -> String {
        BASE64.encode(&self.finish_audio_bytes())
    }

    /// The same as bytes.
    pub fn finish_audio_bytes(&mut self) -> Vec<u8> {
        self.encoder.take().map(|encoder| coded(encoder.finish())).unwrap_or_default()
    }
}

fn coded(audio: auricle_engine::Result<Vec<u8>>) -> Vec<u8> {
    audio.unwrap_or_else(|error| {
        tracing::error!(%error, "audio of a reply could not be coded");
        Vec::new()
    })
}

/// The rules of the settings, with the turn detector if recognition has one.
fn rules(settings: &Settings, audio: &AudioInput) -> Rules {
    Rules { turn_detector: audio.input.has_turn_detector(), ..settings.rules.clone() }
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
