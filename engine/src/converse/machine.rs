//! The states, and what each event does in them: the caller's side.

use super::caller::{Caller, OVERLAP_GAP_MS};
use super::overlap::{Overlap, STOP_MS, Speech, stops, without_echo};
use super::reply::Reply;
use super::sound::Sound;
use super::tools::Tools;
use super::turn_end::{Ending, UNSURE_SILENCE_MS, ending};
use super::{Action, Event, Message, Role, Rules, State, TurnTimes};

/// Speech that begins a turn, ms.
const SPEECH_MS: u32 = 100;
/// Silence that begins a pause, ms.
const PAUSE_MS: u32 = 200;
/// Speech that goes on with a turn whose reply has not begun, ms.
const GO_ON_MS: u32 = 200;
/// Audio before a turn's first speech that the turn detector hears too, ms.
const BEFORE_TURN_MS: u64 = 500;
/// Longest wait for the final words of a turn, ms.
const WORDS_TIMEOUT_MS: u64 = 15_000;
/// Longest wait for the last words of a session, ms.
const ENDING_TIMEOUT_MS: u64 = 1_500;
/// Time after a reply in which echo of it is heard, ms.
const ECHO_TAIL_MS: u64 = 1_000;

/// A conversation between a caller and an agent.
#[derive(Debug)]
pub struct Conversation {
    pub(super) rules: Rules,
    pub(super) state: State,
    pub(super) caller: Caller,
    sound: Sound,
    pub(super) reply: Option<Reply>,
    /// Events of a reply that is not released yet.
    pub(super) held: Vec<Event>,
    /// The turn that an unreleased reply answers.
    prepared: Option<Prepared>,
    pub(super) tools: Tools,
    /// True if the language model has not been asked since a tool ended.
    pub(super) owed: bool,
    pub(super) history: Vec<Message>,
    /// Words of the caller while tools were called.
    pub(super) queued: String,
    /// Keys that the language model has not got yet.
    pub(super) keys: String,
    pub(super) last_id: u64,
    /// The text of the last reply, and its end.
    pub(super) last_said: String,
    pub(super) ended_at: Option<u64>,
    /// True if the turn began during a reply that was not interrupted.
    pub(super) straddles: bool,
    /// End of the wait for the words of a turn that is over, or of the session.
    awaited_until: Option<u64>,
    /// The agent has been silent since then, ms.
    pub(super) quiet_since: u64,
    /// Time between the moment at which audio should be played and that at which it is, ms.
    pub(super) play_delay_ms: u64,
    pub(super) fillers: usize,
    pub(super) times: TurnTimes,
    over: bool,
    pub(super) actions: Vec<Action>,
}

/// A turn that a reply is prepared for while it may still go on.
#[derive(Debug)]
struct Prepared {
    text: String,
    /// The last message before it, if the turn was appended to it.
    before: Option<String>,
}

impl Conversation {
    /// A conversation in which nobody has spoken.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: State::Listening,
            caller: Caller::default(),
            sound: Sound::default(),
            reply: None,
            held: Vec::new(),
            prepared: None,
            tools: Tools::default(),
            owed: false,
            history: Vec::new(),
            queued: String::new(),
            keys: String::new(),
            last_id: 0,
            last_said: String::new(),
            ended_at: None,
            straddles: false,
            awaited_until: None,
            quiet_since: 0,
            play_delay_ms: 0,
            fillers: 0,
            times: TurnTimes::default(),
            over: false,
            actions: Vec::new(),
        }
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Changes the rules.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Sets how late the client plays what it gets, ms. What it has not played of a reply that is stopped was not said.
    pub fn set_play_delay(&mut self, ms: u64) {
        self.play_delay_ms = ms;
    }

    /// The text of the turn for which a reply is prepared while the turn may still go on.
    pub fn prepared_text(&self) -> Option<&str> {
        self.prepared.as_ref().map(|prepared| prepared.text.as_str())
    }

    /// Audio since the caller's turn began, ms.
    pub fn turn_ms(&self) -> u64 {
        self.caller.turn_ms()
    }

    /// Takes what happened at a time, ms by any clock that does not go back. Returns what to do, in order.
    pub fn handle(&mut self, now: u64, event: Event) -> Vec<Action> {
        if !self.over {
            self.take(now, event);
            self.pass_time(now);
        }
        std::mem::take(&mut self.actions)
    }

    /// The time at which [`Event::Tick`] is due, if none other comes before.
    pub fn deadline(&self, now: u64) -> Option<u64> {
        if self.over {
            return None;
        }
        let reply = self.reply.as_ref();
        let send = reply.and_then(|reply| reply.next_send(now));
        let played = reply.and_then(|reply| reply.played_at(now));
        [send, played, self.awaited_until, self.tools.deadline(), self.filler_at()].into_iter().flatten().min()
    }

    fn take(&mut self, now: u64, event: Event) {
        if self.state == State::Ending
            && !matches!(event, Event::Partial(_) | Event::Final(_) | Event::Formatted(_) | Event::Settled)
        {
            return;
        }
        match event {
            Event::Heard { speech, ms } => self.heard(now, speech, ms),
            Event::Partial(text) => {
                self.caller.partial(text);
                self.words(now);
            }
            Event::Final(text) => {
                self.caller.finish(text);
                self.words(now);
            }
            Event::Formatted(text) => {
                self.caller.format(text);
                self.words(now);
            }
            Event::Settled => self.settled(now),
            Event::Judged { question, probability } => self.judged(now, question, probability),
            Event::Dtmf(keys) => self.press(now, &keys),
            Event::Respond if self.state == State::Listening => {
                self.times = TurnTimes::default();
                self.begin_reply(now, true);
            }
            Event::Cancel => self.cancel(now),
            Event::EndTurn if matches!(self.state, State::Hearing | State::Pausing) => self.end_turn(now),
            Event::ClearTurn => self.clear_turn(now),
            Event::End => self.end(now),
            Event::Tick => {}
            other => self.answer(now, other),
        }
    }

    /// Does all that the clock alone does.
    fn pass_time(&mut self, now: u64) {
        if self.awaited_until.is_some_and(|until| until <= now) {
            self.awaited_until = None;
            match self.state {
                State::Ending => self.finish(),
                State::Uncertain => self.leave_uncertainty(now),
                _ => self.take_words(now),
            }
        }
        if self.state != State::Ending && !self.over {
            self.play(now);
        }
    }

    fn heard(&mut self, now: u64, speech: bool, ms: u32) {
        self.caller.hear(speech, ms);
        let voiced = self.caller.voiced_ms();
        match self.state {
            State::Listening if voiced >= SPEECH_MS => self.begin_turn(now),
            State::Hearing if self.caller.quiet_ms() >= PAUSE_MS => self.pause(now),
            State::Pausing if self.caller.speaks() => self.go_on(),
            State::Pausing => self.check_turn(now),
            State::Thinking if voiced > GO_ON_MS => {
                self.awaited_until = None;
                self.close_reply(now, true);
                self.begin_turn(now);
            }
            State::Speaking if voiced >= SPEECH_MS => self.become_uncertain(),
            State::Holding if self.is_playing(now) && voiced >= SPEECH_MS => self.become_uncertain(),
            State::Holding if !self.is_playing(now) && voiced > GO_ON_MS => {
                self.close_reply(now, true);
                self.begin_turn(now);
            }
            State::Uncertain => self.judge(now),
            _ => {}
        }
    }

    /// The caller's words have changed.
    fn words(&mut self, now: u64) {
        match self.state {
            State::Hearing | State::Pausing => self.tell_words(),
            State::Uncertain => self.judge(now),
            _ => {}
        }
    }

    fn tell_words(&mut self) {
        if !self.caller.reported && self.straddles && !self.turn_text().is_empty() {
            self.tell_speech();
        }
        if self.caller.reported
            && let Some(text) = self.caller.news()
        {
            self.actions.push(Action::UserPartial(text));
        }
    }

    fn tell_speech(&mut self) {
        if !std::mem::replace(&mut self.caller.reported, true) {
            self.actions.push(Action::SpeechStarted);
        }
    }

    fn begin_turn(&mut self, now: u64) {
        self.state = State::Hearing;
        self.times = TurnTimes::default();
        self.caller.asked = false;
        self.caller.begin_turn();
        self.caller.overlaps |= self.ended_at.is_some_and(|ended| now.saturating_sub(ended) <= ECHO_TAIL_MS);
        self.tell_speech();
        self.tell_words();
    }

    fn pause(&mut self, now: u64) {
        self.state = State::Pausing;
        self.caller.asked = false;
        self.sound.forget();
        if self.sounds() != Ending::Open {
            self.ask_for_words();
        }
        self.check_turn(now);
    }

    fn ask_for_words(&mut self) {
        self.caller.asked = true;
        self.caller.mark();
        self.actions.push(Action::Settle);
    }

    /// How the turn sounds.
    fn sounds(&self) -> Ending {
        ending(&self.caller.text(), self.rules.language.as_deref())
    }

    /// Speech goes on after a pause.
    fn go_on(&mut self) {
        self.drop_prepared();
        self.caller.asked = false;
        self.state = State::Hearing;
    }

    /// Asks how the pause sounds, if the words leave it open.
    fn ask_for_sound(&mut self) {
        if self.rules.turn_detector
            && self.sounds() != Ending::Open
            && let Some(question) = self.sound.next_question(self.caller.quiet_ms())
        {
            self.actions.push(Action::Judge { question, turn_ms: self.caller.turn_ms() + BEFORE_TURN_MS });
        }
    }

    /// The turn detector has answered.
    fn judged(&mut self, now: u64, question: u64, probability: f32) {
        self.sound.answer(question, probability);
        if self.state == State::Pausing {
            self.check_turn(now);
        }
    }

    fn check_turn(&mut self, now: u64) {
        self.ask_for_sound();
        let Rules { min_silence_ms: least, max_silence_ms: most, .. } = self.rules;
        let most = most.max(least);
        let wanted = match self.sound.ending(self.sounds()) {
            Ending::Complete => least,
            Ending::Unsure => UNSURE_SILENCE_MS.clamp(least, most),
            Ending::Open => most,
        };
        if self.caller.quiet_ms() >= wanted {
            self.end_turn(now);
        }
    }

    fn end_turn(&mut self, now: u64) {
        self.times.speech_end = now.saturating_sub(self.caller.quiet_ms().into());
        self.times.turn_over = now;
        if !self.caller.asked {
            self.ask_for_words();
        }
        if std::mem::take(&mut self.caller.reported) {
            self.actions.push(Action::SpeechStopped);
        }
        self.caller.forget_speech();
        self.state = State::Thinking;
        if self.caller.is_settling() {
            self.awaited_until = Some(now + WORDS_TIMEOUT_MS);
        } else {
            self.take_words(now);
        }
    }

    /// The recogniser has given all words that it was asked for.
    fn settled(&mut self, now: u64) {
        if !self.caller.settled() {
            return;
        }
        match self.state {
            State::Pausing if self.caller.asked => self.prepare(now),
            State::Thinking if self.awaited_until.is_some() => self.take_words(now),
            State::Uncertain if self.caller.asked => self.leave_uncertainty(now),
            State::Ending => self.finish(),
            _ => {}
        }
    }

    /// The turn's words without echo; empty if it is none that is answered.
    fn turn_text(&self) -> String {
        let heard = self.caller.text();
        if !self.caller.overlaps {
            return heard;
        }
        let said = self.said();
        let text = without_echo(&heard, &said);
        let overlap = Overlap::new(&text, "");
        let asked = said.trim_end().ends_with('?');
        if self.straddles && !asked && overlap.is_backchannel(self.rules.language.as_deref()) {
            return String::new();
        }
        text
    }

    /// Lets the language model begin before the turn is over.
    fn prepare(&mut self, now: u64) {
        let text = self.turn_text();
        let is_free = self.reply.is_none() && !self.tools.is_waiting() && self.keys.is_empty();
        let may_answer = self.rules.answers && is_free;
        if text.is_empty() || self.sounds() == Ending::Open || !may_answer {
            return;
        }
        let before = self.last_user().cloned();
        self.push_user(&text);
        self.prepared = Some(Prepared { text, before });
        self.begin_reply(now, false);
    }

    /// Cancels a reply that was prepared.
    fn drop_prepared(&mut self) {
        let Some(Prepared { before, .. }) = self.prepared.take() else { return };
        self.close_reply(0, true);
        match before {
            Some(before) => {
                if let Some(last) = self.history.last_mut() {
                    last.content = before;
                }
            }
            None => {
                self.history.pop();
            }
        }
    }

    fn last_user(&self) -> Option<&String> {
        self.history.last().filter(|last| last.role == Role::User).map(|last| &last.content)
    }

    /// The turn is over and its words are final.
    fn take_words(&mut self, now: u64) {
        self.awaited_until = None;
        self.times.words = now;
        let text = self.turn_text();
        self.caller.take_turn();
        self.straddles = false;
        let prepared = self.prepared.take();
        let is_same = prepared.as_ref().is_some_and(|prepared| prepared.text == text);
        if !is_same {
            self.prepared = prepared;
            self.drop_prepared();
        }
        if text.is_empty() {
            return self.rest(now);
        }
        self.actions.push(Action::UserFinal(text.clone()));
        if is_same {
            self.release(now);
        } else if self.tools.is_waiting() {
            super::caller::append(&mut self.queued, &text);
            self.state = State::Holding;
            self.quiet_since = now;
        } else {
            self.push_user(&text);
            match self.rules.answers {
                true => self.begin_reply(now, true),
                false => self.rest(now),
            }
        }
    }

    /// Stops the reply, or the one that is prepared.
    fn cancel(&mut self, now: u64) {
        if self.prepared.is_some() {
            return self.drop_prepared();
        }
        if self.reply.is_none() {
            return;
        }
        self.close_reply(now, true);
        match self.state {
            State::Uncertain => self.turn_after_uncertainty(),
            _ => self.rest(now),
        }
    }

    /// Keys are answered at once, or with the caller's turn or the tools that are awaited.
    fn press(&mut self, now: u64, keys: &str) {
        self.keys.push_str(keys);
        self.drop_prepared();
        let may_stop = self.rules.interruptible || !self.is_playing(now);
        let awaits_words = self.state == State::Thinking && self.awaited_until.is_some();
        match self.state {
            State::Hearing | State::Pausing | State::Ending => {}
            _ if !may_stop || awaits_words || self.tools.is_waiting() => {}
            State::Uncertain => {
                self.close_reply(now, true);
                self.turn_after_uncertainty();
            }
            _ => {
                self.close_reply(now, true);
                self.rest(now);
            }
        }
    }

    /// Drops the caller's turn.
    fn clear_turn(&mut self, now: u64) {
        let is_open = matches!(self.state, State::Hearing | State::Pausing | State::Uncertain);
        if !is_open && self.awaited_until.is_none() {
            return;
        }
        self.drop_prepared();
        self.awaited_until = None;
        self.caller.take_turn();
        self.caller.forget_speech();
        (self.caller.reported, self.straddles) = (false, false);
        self.rest(now);
    }

    fn become_uncertain(&mut self) {
        self.state = State::Uncertain;
        self.caller.asked = false;
    }

    /// Tells whether the caller interrupts.
    fn judge(&mut self, now: u64) {
        let quiet = self.caller.quiet_ms();
        let said = self.said();
        let (speech_ms, text) = (self.caller.overlap_ms(), self.caller.heard());
        self.caller.may_stop |= stops(&text, &said);
        let stopped = self.caller.may_stop && speech_ms >= STOP_MS;
        let speech = Speech { ms: speech_ms, unbroken_ms: self.caller.voiced_ms(), quiet_ms: quiet };
        let interrupts = Overlap::new(&text, &said).interrupts(speech, self.rules.language.as_deref());
        if self.rules.interruptible && (interrupts || stopped) {
            return self.interrupt(now);
        }
        if self.caller.speaks() {
            self.caller.asked = false;
            self.awaited_until = None;
        }
        // A word that stops at once may still come.
        if quiet >= OVERLAP_GAP_MS && !self.caller.asked {
            self.ask_for_words();
            self.awaited_until = Some(now + WORDS_TIMEOUT_MS);
        }
    }

    /// It was no interruption, unless the last words say so.
    fn leave_uncertainty(&mut self, now: u64) {
        self.awaited_until = None;
        let said = self.said();
        // An echo that is heard as the word ("wheat" as "wait") is shorter.
        let spoke = self.caller.longest_overlap_ms() >= STOP_MS;
        if self.rules.interruptible && spoke && stops(&self.caller.heard(), &said) {
            return self.interrupt(now);
        }
        let overlap = Overlap::new(&self.caller.heard(), &said);
        let language = self.rules.language.as_deref();
        if !self.rules.interruptible && !overlap.fresh.is_empty() && !overlap.is_backchannel(language) {
            // It is answered after the reply.
            return;
        }
        self.caller.take_turn();
        self.state = self.agent_state(now);
    }

    fn interrupt(&mut self, now: u64) {
        self.awaited_until = None;
        self.close_reply(now, true);
        self.straddles = false;
        self.begin_turn(now);
        self.caller.overlaps = true;
    }

    /// The reply has ended while the overlap was uncertain.
    pub(super) fn turn_after_uncertainty(&mut self) {
        self.awaited_until = None;
        self.state = State::Hearing;
        self.straddles = true;
        self.caller.overlaps = true;
        self.tell_words();
    }

    fn end(&mut self, now: u64) {
        let hears = matches!(self.state, State::Hearing | State::Pausing) || self.awaited_until.is_some();
        let awaits = hears && self.state != State::Uncertain;
        self.drop_prepared();
        self.close_reply(now, true);
        self.state = State::Ending;
        if !awaits {
            self.caller.take_turn();
            return self.finish();
        }
        if !self.caller.asked {
            self.ask_for_words();
        }
        if self.caller.is_settling() {
            self.awaited_until = Some(now + ENDING_TIMEOUT_MS);
        } else {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if std::mem::take(&mut self.caller.reported) {
            self.actions.push(Action::SpeechStopped);
        }
        let text = self.turn_text();
        if !text.is_empty() {
            self.actions.push(Action::UserFinal(text));
        }
        self.awaited_until = None;
        self.over = true;
        self.actions.push(Action::Ended);
    }
}
