//! A conversation that tests lead through its states.

#![allow(clippy::expect_used, reason = "helpers of tests, which may")]

use super::*;

/// A conversation with the means to lead it anywhere.
pub struct Scene {
    pub conversation: Conversation,
    pub now: u64,
    /// Everything that was to be done, oldest first.
    pub done: Vec<Action>,
}

impl Scene {
    pub fn new() -> Self {
        Self::with(Rules { language: Some("en".into()), ..Rules::default() })
    }

    pub fn with(rules: Rules) -> Self {
        Self { conversation: Conversation::new(rules), now: 1_000, done: Vec::new() }
    }

    pub fn happens(&mut self, event: Event) -> Vec<Action> {
        let actions = self.conversation.handle(self.now, event);
        // Samples would fill the messages of failures.
        let bare = |action: &Action| match action {
            Action::Audio { reply, text, .. } => {
                Action::Audio { reply: *reply, samples: Vec::new(), text: text.clone() }
            }
            other => other.clone(),
        };
        self.done.extend(actions.iter().map(bare));
        actions
    }

    /// Audio in real time, with the recogniser's answers as they come.
    pub fn hears(&mut self, speech: bool, ms: u64) -> Vec<Action> {
        let mut all = Vec::new();
        for _ in 0..ms / 32 {
            self.now += 32;
            all.extend(self.happens(Event::Heard { speech, ms: 32 }));
        }
        all
    }

    /// A whole turn of the caller.
    pub fn says(&mut self, text: &str) {
        self.hears(true, 640);
        self.happens(Event::Partial(text.to_lowercase()));
        self.hears(false, 224);
        self.happens(Event::Final(text.into()));
        self.happens(Event::Settled);
        self.hears(false, 1_600);
    }

    /// The id of the last thought.
    pub fn thought(&self) -> u64 {
        let mut ids = self.done.iter().filter_map(|action| match action {
            Action::Think { thought, .. } => Some(*thought),
            _ => None,
        });
        ids.next_back().expect("the language model was asked")
    }

    /// The id of the last speech.
    pub fn speech(&self) -> u64 {
        let mut ids = self.done.iter().filter_map(|action| match action {
            Action::Say { speech, .. } => Some(*speech),
            _ => None,
        });
        ids.next_back().expect("something is to be said")
    }

    /// The language model's answer, and the voice that says it, 400 ms a word.
    pub fn answers(&mut self, text: &str) {
        let thought = self.thought();
        self.happens(Event::Text { thought, text: text.into() });
        self.happens(Event::Thought { thought, calls: Vec::new() });
        self.speaks(text);
    }

    pub fn speaks(&mut self, text: &str) {
        let speech = self.speech();
        for (at, word) in text.split_whitespace().enumerate() {
            for part in 0..5 {
                let start_ms = at as u64 * 400;
                let bare = word.trim_end_matches(['.', ',', '?', '!']).to_owned();
                let word = VoiceWord { text: bare, start_ms, end_ms: start_ms + 400 };
                let words = if part == 0 { vec![word] } else { Vec::new() };
                let frame = VoiceFrame { samples: vec![0.1; 1_920], words };
                self.happens(Event::Frame { speech, frame });
            }
        }
        self.happens(Event::Said { speech });
    }

    /// Time passes with deadlines kept and a silent caller.
    pub fn waits(&mut self, ms: u64) {
        self.hears(false, ms);
        self.happens(Event::Tick);
    }

    pub fn calls(&mut self, ids: &[&str]) {
        let thought = self.thought();
        let call = |id: &&str| ToolCall { id: (*id).into(), name: "weather".into(), arguments: "{}".into() };
        self.happens(Event::Thought { thought, calls: ids.iter().map(call).collect() });
    }

    pub fn result(&mut self, id: &str, result: &str) -> Vec<Action> {
        self.happens(Event::ToolResult { call_id: id.into(), result: result.into() })
    }

    pub fn state(&self) -> State {
        self.conversation.state()
    }

    pub fn count(&self, is: impl Fn(&Action) -> bool) -> usize {
        self.done.iter().filter(|action| is(action)).count()
    }

    pub fn user_texts(&self) -> Vec<&str> {
        let texts = self.done.iter().filter_map(|action| match action {
            Action::UserFinal(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    pub fn agent_texts(&self) -> Vec<(&str, bool)> {
        let texts = self.done.iter().filter_map(|action| match action {
            Action::AgentText { text, interrupted, .. } => Some((text.as_str(), *interrupted)),
            _ => None,
        });
        texts.collect()
    }

    /// A conversation in a state.
    pub fn in_state(state: State) -> Self {
        let mut scene = Self::new();
        match state {
            State::Listening => {}
            State::Hearing => drop(scene.hears(true, 640)),
            State::Pausing => {
                scene.hears(true, 640);
                scene.happens(Event::Partial("i would like the".into()));
                scene.hears(false, 256);
            }
            State::Thinking => scene.says("Tell me a story."),
            State::Speaking => {
                scene.says("Tell me a story.");
                scene.answers("Once upon a time there was a small house.");
            }
            State::Uncertain => {
                scene.says("Tell me a story.");
                scene.answers("Once upon a time there was a small house.");
                scene.hears(true, 320);
            }
            State::Holding => {
                scene.says("Tell me a story.");
                scene.calls(&["a"]);
            }
            State::Ending => {
                scene.hears(true, 640);
                scene.happens(Event::End);
            }
        }
        assert_eq!(scene.state(), state);
        scene
    }
}
