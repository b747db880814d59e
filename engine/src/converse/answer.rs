//! The agent's side: language model, voice and tools.

use super::machine::Conversation;
use super::reply::{Reply, Sent, Speech};
use super::tools::Answer;
use super::turn_end::is_english;
use super::{Action, Event, Failure, Message, Role, State, ToolCall};

/// Rounds of a turn in which the language model may call tools.
const MAX_TOOL_ROUNDS: u32 = 8;
/// Silence while tools are called, after which the agent says that it takes a moment, ms.
const FILLER_MS: u64 = 2_000;
/// The same where the first word of a reply is awaited, ms.
const SLOW_REPLY_MS: u64 = 3_000;
/// Phrases that it says then, in turn.
const FILLERS: [&str; 4] = ["One moment, please.", "Let me check.", "Just a second.", "I am looking into it."];

impl Conversation {
    /// The messages so far, oldest first; of the current reply as it is planned.
    pub fn history(&self) -> Vec<Message> {
        let mut messages = self.history.clone();
        for speech in self.reply.iter().flat_map(|reply| &reply.speeches) {
            if let Some(message) = speech.entry.and_then(|entry| messages.get_mut(entry)) {
                message.content.push_str(&speech.text);
            }
        }
        messages
    }

    pub(super) fn answer(&mut self, now: u64, event: Event) {
        match event {
            Event::Greet(text) => self.greet(&text),
            Event::Text { thought, text } => self.text(now, thought, &text),
            Event::Frame { speech, frame } => {
                if let Some(reply) = &mut self.reply
                    && let Some(speech) = reply.speech(speech)
                {
                    speech.push(frame);
                    self.times.first_frame = first(self.times.first_frame, now);
                }
            }
            Event::Said { speech } => {
                if let Some(speech) = self.reply.as_mut().and_then(|reply| reply.speech(speech)) {
                    (speech.finished, speech.said) = (true, true);
                }
            }
            Event::ToolResult { call_id, result } => self.tool_result(now, &call_id, &result),
            Event::Thought { .. } | Event::LlmFailed { .. } | Event::VoiceFailed { .. } => {
                if self.reply.as_ref().is_some_and(|reply| !reply.released) {
                    self.held.push(event);
                } else {
                    self.end_part(now, event);
                }
            }
            // The machine takes all others.
            _ => {}
        }
    }

    fn end_part(&mut self, now: u64, event: Event) {
        match event {
            Event::Thought { thought, calls } if self.is_current(thought) => self.thought(now, calls),
            Event::LlmFailed { thought, failure } if self.is_current(thought) => self.llm_failed(failure),
            Event::VoiceFailed { speech, failure } => self.voice_failed(now, speech, failure),
            _ => {}
        }
    }

    fn is_current(&self, thought: u64) -> bool {
        self.reply.as_ref().is_some_and(|reply| reply.thought == Some(thought))
    }

    fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn greet(&mut self, text: &str) {
        if self.state != State::Listening || text.trim().is_empty() {
            return;
        }
        self.state = State::Thinking;
        let id = self.new_id();
        self.reply = Some(Reply::new(id, true));
        let entry = self.push_assistant();
        self.say(text, Some(entry));
        self.finish_speech();
    }

    /// Starts a reply of the language model.
    pub(super) fn begin_reply(&mut self, now: u64, released: bool) {
        let id = self.new_id();
        self.reply = Some(Reply::new(id, released));
        self.held.clear();
        if released {
            self.state = State::Thinking;
        }
        self.quiet_since = now;
        self.begin_round();
    }

    fn begin_round(&mut self) {
        self.push_keys();
        let thought = self.new_id();
        if let Some(reply) = &mut self.reply {
            reply.thought = Some(thought);
            reply.rounds += 1;
            let tools = reply.rounds <= MAX_TOOL_ROUNDS;
            self.actions.push(Action::Think { thought, tools });
        }
        self.owed = false;
    }

    /// Lets a prepared reply out: its turn is over.
    pub(super) fn release(&mut self, now: u64) {
        self.state = State::Thinking;
        if let Some(reply) = &mut self.reply {
            reply.released = true;
        }
        for event in std::mem::take(&mut self.held) {
            self.end_part(now, event);
        }
    }

    fn text(&mut self, now: u64, thought: u64, text: &str) {
        if !self.is_current(thought) {
            return;
        }
        self.times.first_text = first(self.times.first_text, now);
        let open = self.reply.as_ref().and_then(|reply| reply.speeches.last()).is_some_and(|speech| !speech.finished);
        let entry = if open { None } else { Some(self.push_assistant()) };
        self.say(text, entry);
    }

    fn push_assistant(&mut self) -> usize {
        self.history.push(Message::new(Role::Assistant, ""));
        self.history.len() - 1
    }

    pub(super) fn push_user(&mut self, text: &str) {
        match self.history.last_mut() {
            Some(last) if last.role == Role::User => super::caller::append(&mut last.content, text),
            _ => self.history.push(Message::new(Role::User, text)),
        }
    }

    /// Writes keys as the result of a tool that was not called: a language model expects each result after its call.
    fn push_keys(&mut self) {
        if self.keys.is_empty() {
            return;
        }
        let id = format!("dtmf_{}", self.new_id());
        let result = serde_json::json!({ "digits": std::mem::take(&mut self.keys) }).to_string();
        let call = ToolCall { id: id.clone(), name: "dtmf".into(), arguments: "{}".into() };
        self.history.push(Message { calls: vec![call], ..Message::new(Role::Assistant, "") });
        self.history.push(Message { call_id: Some(id), ..Message::new(Role::Tool, result) });
    }

    /// Says text in the open speech, or in a new one.
    fn say(&mut self, text: &str, entry: Option<usize>) {
        let id = self.new_id();
        let Some(reply) = &mut self.reply else { return };
        if reply.speeches.last().is_none_or(|speech| speech.finished) {
            reply.speeches.push(Speech::new(id, entry));
        }
        if let Some(speech) = reply.speeches.last_mut() {
            speech.text.push_str(text);
            self.actions.push(Action::Say { speech: speech.id, text: text.to_owned() });
        }
    }

    fn finish_speech(&mut self) {
        let open = self.reply.as_mut().and_then(|reply| reply.speeches.last_mut()).filter(|speech| !speech.finished);
        if let Some(speech) = open {
            speech.finished = true;
            self.actions.push(Action::FinishSpeech { speech: speech.id });
        }
    }

    fn thought(&mut self, now: u64, calls: Vec<ToolCall>) {
        // The text of this round, if there was any, is the last message.
        let has_text =
            self.reply.as_ref().and_then(|reply| reply.speeches.last()).is_some_and(|speech| !speech.finished);
        self.finish_speech();
        let Some(reply) = &mut self.reply else { return };
        if !calls.is_empty() && reply.rounds > MAX_TOOL_ROUNDS {
            let message = format!("The language model called tools in more than {MAX_TOOL_ROUNDS} rounds of one turn.");
            let apology = "I am sorry, I could not finish that.".into();
            return self.llm_failed(Failure { code: "too_many_tool_rounds", message, apology });
        }
        reply.thought = None;
        if calls.is_empty() {
            return;
        }
        if !has_text {
            self.push_assistant();
        }
        if let Some(message) = self.history.last_mut() {
            message.calls.clone_from(&calls);
        }
        for call in calls {
            self.tools.begin(call.clone(), now);
            self.actions.push(Action::Call(call));
        }
        self.quiet_since = now;
        if self.state != State::Uncertain {
            self.state = State::Holding;
        }
    }

    fn llm_failed(&mut self, failure: Failure) {
        self.finish_speech();
        let apology = failure.apology.clone();
        self.actions.push(Action::Error(failure));
        if let Some(reply) = &mut self.reply {
            reply.thought = None;
            reply.is_apology = true;
        }
        if !apology.is_empty() {
            self.say(&apology, None);
            self.finish_speech();
        }
    }

    fn voice_failed(&mut self, now: u64, speech: u64, failure: Failure) {
        let Some(reply) = self.reply.as_mut() else { return };
        let Some(failed) = reply.speech(speech) else { return };
        (failed.finished, failed.said) = (true, true);
        let is_apology = reply.is_apology;
        let apology = failure.apology.clone();
        self.actions.push(Action::Error(failure));
        self.close_reply(now, true);
        if self.state == State::Uncertain {
            return self.turn_after_uncertainty();
        }
        if is_apology || apology.is_empty() {
            return self.rest(now);
        }
        let id = self.new_id();
        let mut reply = Reply::new(id, true);
        reply.is_apology = true;
        self.reply = Some(reply);
        self.say(&apology, None);
        self.finish_speech();
        self.state = self.agent_state(now);
    }

    fn tool_result(&mut self, now: u64, id: &str, result: &str) {
        match self.tools.answer(id, result) {
            Answer::Awaited(call, result) => self.tool_ended(call, result),
            Answer::Late(call, result) => {
                let note = format!("[The tool {} answered late: {result}]", call.name);
                if self.tools.is_waiting() || self.reply.is_some() {
                    super::caller::append(&mut self.queued, &note);
                } else {
                    self.push_user(&note);
                }
            }
            Answer::Unknown => {
                let message = format!("No call {id:?} waits for a result: it is unknown, or it has its result.");
                self.actions.push(Action::Error(Failure::silent("unknown_call", message)));
            }
        }
        self.go_on_after_tools(now);
    }

    fn tool_ended(&mut self, call: ToolCall, result: String) {
        self.owed = true;
        self.history.push(Message { call_id: Some(call.id), ..Message::new(Role::Tool, result) });
    }

    /// Asks the language model to go on once all results are there.
    fn go_on_after_tools(&mut self, now: u64) {
        if !self.owed || self.tools.is_waiting() || !matches!(self.state, State::Holding | State::Uncertain) {
            return;
        }
        let queued = std::mem::take(&mut self.queued);
        if !queued.is_empty() {
            self.push_user(&queued);
        }
        match self.reply {
            Some(_) => {
                self.begin_round();
                if self.state != State::Uncertain {
                    self.state = self.agent_state(now);
                }
            }
            None => self.begin_reply(now, true),
        }
    }

    /// The state where the caller is silent.
    pub(super) fn agent_state(&self, now: u64) -> State {
        match &self.reply {
            _ if self.tools.is_waiting() => State::Holding,
            None => State::Listening,
            Some(reply) if reply.started && (!reply.is_played(now) || reply.thought.is_none()) => State::Speaking,
            Some(_) => State::Thinking,
        }
    }

    /// Nobody has anything to say now, but for what tools have brought.
    pub(super) fn rest(&mut self, now: u64) {
        self.state = self.agent_state(now);
        if self.owed && !self.tools.is_waiting() && self.reply.is_none() {
            self.state = State::Holding;
            self.go_on_after_tools(now);
        }
        if !self.keys.is_empty() && self.state == State::Listening && self.rules.answers {
            self.begin_reply(now, true);
        }
    }

    pub(super) fn is_playing(&self, now: u64) -> bool {
        self.reply.as_ref().is_some_and(|reply| reply.started && !reply.is_played(now))
    }

    /// The words of the agent that may come back as echo.
    pub(super) fn said(&self) -> String {
        match &self.reply {
            Some(reply) if reply.started => reply.sent_text(),
            _ => self.last_said.clone(),
        }
    }

    /// Ends the reply, if there is one: what was not played was not said.
    pub(super) fn close_reply(&mut self, now: u64, interrupted: bool) {
        let Some(reply) = self.reply.take() else { return };
        self.held.clear();
        if let Some(thought) = reply.thought {
            self.actions.push(Action::StopThinking { thought });
        }
        for speech in reply.speeches.iter().filter(|speech| !speech.said) {
            self.actions.push(Action::StopSpeech { speech: speech.id });
        }
        let late_ms = if interrupted { self.play_delay_ms } else { 0 };
        let played = reply.played_texts(now.saturating_sub(late_ms));
        let mut said = String::new();
        for (entry, text) in &played {
            super::caller::append(&mut said, text);
            if let Some(message) = entry.and_then(|entry| self.history.get_mut(entry)) {
                super::caller::append(&mut message.content, text);
            }
        }
        let mut entries: Vec<usize> = reply.speeches.iter().filter_map(|speech| speech.entry).collect();
        entries.sort_unstable_by(|a, b| b.cmp(a));
        for entry in entries {
            let is_empty = |message: &Message| message.content.is_empty() && message.calls.is_empty();
            if self.history.get(entry).is_some_and(is_empty) {
                self.history.remove(entry);
            }
        }
        if reply.started {
            if !said.is_empty() {
                self.actions.push(Action::AgentText { reply: reply.id, text: said, interrupted });
            }
            self.actions.push(Action::ReplyDone { reply: reply.id, interrupted });
            self.last_said = reply.sent_text();
            self.ended_at = Some(now);
        }
        self.actions.push(Action::ReplyClosed { reply: reply.id, interrupted });
        if !self.tools.is_waiting() && !self.queued.is_empty() && !self.owed {
            let queued = std::mem::take(&mut self.queued);
            self.push_user(&queued);
        }
    }

    /// Sends what is due, and ends what is over.
    pub(super) fn play(&mut self, now: u64) {
        let over = self.tools.expire(now);
        if !over.is_empty() {
            over.into_iter().for_each(|(call, result)| self.tool_ended(call, result));
            self.go_on_after_tools(now);
        }
        if self.filler_at().is_some_and(|at| at <= now) {
            self.fill(now);
        }
        while let Some(reply) = &mut self.reply {
            let (id, first) = (reply.id, !reply.started);
            let Some(Sent { samples, text }) = reply.next_frame(now) else { break };
            if first {
                self.actions.push(Action::ReplyStarted { reply: id });
                if self.times.turn_over > 0 {
                    self.times.first_sent = now;
                    self.actions.push(Action::Trace(std::mem::take(&mut self.times)));
                }
            }
            self.actions.push(Action::Audio { reply: id, samples, text });
            if self.state == State::Thinking {
                self.state = State::Speaking;
            }
        }
        if let Some(at) = self.reply.as_ref().and_then(|reply| reply.played_at(now)) {
            self.quiet_since = self.quiet_since.max(at);
        }
        let is_over =
            self.reply.as_ref().is_some_and(|reply| reply.released && reply.is_sent() && reply.is_played(now));
        if is_over && !self.tools.is_waiting() {
            self.close_reply(now, false);
            match self.state {
                State::Uncertain => self.turn_after_uncertainty(),
                _ => self.rest(now),
            }
        }
    }

    /// The time at which the agent says that a tool, or a reply that has no word yet, takes a moment.
    pub(super) fn filler_at(&self) -> Option<u64> {
        let reply = self.reply.as_ref();
        let silence_ms = match self.state {
            _ if !self.rules.fillers || !self.rules.language.as_deref().is_none_or(is_english) => return None,
            State::Holding if self.tools.wants_filler() && reply.is_none_or(Reply::is_sent) => FILLER_MS,
            State::Thinking if reply.is_some_and(|reply| reply.released && reply.speeches.is_empty()) => SLOW_REPLY_MS,
            _ => return None,
        };
        Some(self.quiet_since + silence_ms)
    }

    fn fill(&mut self, now: u64) {
        self.tools.filled();
        let text = FILLERS[self.fillers % FILLERS.len()];
        self.fillers += 1;
        if self.reply.is_none() {
            let id = self.new_id();
            self.reply = Some(Reply::new(id, true));
        }
        self.say(text, None);
        self.finish_speech();
        self.quiet_since = now;
    }
}

/// The first of two times; 0 is none.
fn first(known: u64, now: u64) -> u64 {
    if known == 0 { now } else { known }
}
