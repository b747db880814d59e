//! A spoken conversation between a caller and an agent: who speaks, when a turn is over, interruptions, tools.
//!
//! [`Conversation`] is a state machine without a clock, threads or sockets: it takes [`Event`]s with the time at which they happen and
//! returns [`Action`]s. Its driver runs recognition, a language model and speech synthesis (the voice), and calls it again at
//! [`Conversation::deadline`]. The caller's silence is counted in audio, what the agent does in the driver's time.
//!
//! - `machine`: the states and what each event does in them; `answer` is its part for the language model, voice and tools.
//! - `caller`: speech and silence of the caller, and the words of the current turn.
//! - `reply`: what the agent says: pieces of speech, pacing, and what of it was played.
//! - `tools`: calls that wait for their results.
//! - `overlap`: backchannels, words that stop at once, and echo of the agent's own words.
//! - `turn_end`: whether a text sounds finished.
//! - `sound`: what a turn detector says of a pause.

mod answer;
mod caller;
mod machine;
#[cfg(test)]
mod machine_tests;
mod overlap;
#[cfg(test)]
mod property_tests;
mod reply;
#[cfg(test)]
mod scene;
mod sound;
mod tools;
mod turn_end;

pub use machine::Conversation;
pub use overlap::EXPECTED_WORDS;
pub use reply::{VOICE_RATE, VoiceFrame, VoiceWord};

/// The state of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nobody speaks.
    Listening,
    /// The caller speaks.
    Hearing,
    /// The caller is silent for a moment, and may go on.
    Pausing,
    /// The language model prepares a reply.
    Thinking,
    /// The agent speaks.
    Speaking,
    /// Both speak, and it is not clear whether the caller interrupts. The voice goes on.
    Uncertain,
    /// Results of tools are missing.
    Holding,
    /// The session ends: last words are awaited.
    Ending,
}

/// Rules of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Silence that ends a turn which sounds finished, and the least for every turn, ms.
    pub min_silence_ms: u32,
    /// Silence that ends a turn which sounds unfinished, ms.
    pub max_silence_ms: u32,
    /// True if the caller's speech may stop a reply.
    pub interruptible: bool,
    /// True if the end of a turn begins a reply. Otherwise [`Event::Respond`] alone does.
    pub answers: bool,
    /// True if the agent fills a long silence with a phrase of its own.
    pub fillers: bool,
    /// True if the driver has a turn detector, which [`Action::Judge`] asks.
    pub turn_detector: bool,
    /// The caller's language, if it is known. Its word lists tell finished turns and backchannels.
    pub language: Option<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            min_silence_ms: 300,
            max_silence_ms: 1_500,
            interruptible: true,
            answers: true,
            fillers: true,
            turn_detector: false,
            language: None,
        }
    }
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Its id, unique in the conversation.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// A JSON object, as text.
    pub arguments: String,
}

/// The sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The caller.
    User,
    /// The agent.
    Assistant,
    /// The result of a tool.
    Tool,
}

/// A message of the history that the language model is asked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its sender.
    pub role: Role,
    /// The text; of a reply only the part that was played.
    pub content: String,
    /// Calls of an assistant's message.
    pub calls: Vec<ToolCall>,
    /// The call that a tool's message answers.
    pub call_id: Option<String>,
}

impl Message {
    fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), calls: Vec::new(), call_id: None }
    }
}

/// A failure that the client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A word for programs.
    pub code: &'static str,
    /// The cause and the remedy.
    pub message: String,
    /// The agent's words about it; empty for none.
    pub apology: String,
}

impl Failure {
    /// A failure without an apology.
    pub fn silent(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), apology: String::new() }
    }
}

/// An event of a conversation. Ids of thoughts and speeches are those of the actions; events of canceled ones are ignored.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The agent begins the conversation with these words.
    Greet(String),
    /// A piece of the caller's audio: speech or not, and its length in ms.
    Heard {
        /// True for speech.
        speech: bool,
        /// Length, ms.
        ms: u32,
    },
    /// The words since the last final, which may still change.
    Partial(String),
    /// Words that do not change any more, as they are heard.
    Final(String),
    /// The text of the last final as it is written: formatted, or of a second pass.
    Formatted(String),
    /// The answer to [`Action::Settle`]: all words of the audio before it have come.
    Settled,
    /// The answer to [`Action::Judge`].
    Judged {
        /// The question.
        question: u64,
        /// The probability that the caller has finished, 0 to 1.
        probability: f32,
    },
    /// Text of a thought.
    Text {
        /// The thought.
        thought: u64,
        /// The text.
        text: String,
    },
    /// The end of a thought, with the tools that it calls.
    Thought {
        /// The thought.
        thought: u64,
        /// Calls of tools.
        calls: Vec<ToolCall>,
    },
    /// The language model failed.
    LlmFailed {
        /// The thought.
        thought: u64,
        /// The failure.
        failure: Failure,
    },
    /// A frame of speech.
    Frame {
        /// The speech.
        speech: u64,
        /// The frame.
        frame: VoiceFrame,
    },
    /// All frames of a speech have come.
    Said {
        /// The speech.
        speech: u64,
    },
    /// The voice failed.
    VoiceFailed {
        /// The speech.
        speech: u64,
        /// The failure.
        failure: Failure,
    },
    /// The result of a tool, as JSON text.
    ToolResult {
        /// The call.
        call_id: String,
        /// JSON.
        result: String,
    },
    /// The caller has pressed these keys of a telephone. They stop a reply as speech does, unless [`Rules::interruptible`] is false, and the
    /// language model gets them as the result of a tool `dtmf`.
    Dtmf(String),
    /// The agent replies to the conversation so far. Ignored unless the state is [`State::Listening`].
    Respond,
    /// The reply ends here, or the one that is prepared.
    Cancel,
    /// The caller's turn is over now. Ignored unless the caller speaks or pauses.
    EndTurn,
    /// The caller's turn is dropped. The driver withholds its words.
    ClearTurn,
    /// A deadline has passed.
    Tick,
    /// The session ends.
    End,
}

/// A task for the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Tell that the caller started speaking.
    SpeechStarted,
    /// Tell that the caller stopped speaking.
    SpeechStopped,
    /// Tell the caller's words so far.
    UserPartial(String),
    /// Tell the caller's final words.
    UserFinal(String),
    /// Let the recogniser finish the words so far, then send [`Event::Settled`].
    Settle,
    /// Ask the turn detector whether the caller has finished, then send [`Event::Judged`].
    Judge {
        /// The id of the question.
        question: u64,
        /// Audio before now that is of the turn, ms.
        turn_ms: u64,
    },
    /// Ask the language model to go on with [`Conversation::history`].
    Think {
        /// The id of the thought.
        thought: u64,
        /// True if it may call tools.
        tools: bool,
    },
    /// Cancel a thought.
    StopThinking {
        /// The thought.
        thought: u64,
    },
    /// Say more text.
    Say {
        /// The id of the speech. Its first text opens it.
        speech: u64,
        /// The text.
        text: String,
    },
    /// No more text of a speech comes.
    FinishSpeech {
        /// The speech.
        speech: u64,
    },
    /// Cancel a speech.
    StopSpeech {
        /// The speech.
        speech: u64,
    },
    /// Tell that a reply starts.
    ReplyStarted {
        /// The reply.
        reply: u64,
    },
    /// Send audio of a reply, now.
    Audio {
        /// The reply.
        reply: u64,
        /// Mono, at [`VOICE_RATE`].
        samples: Vec<f32>,
        /// The text that this audio adds to what was sent, as it is written.
        text: String,
    },
    /// Tell what of a reply was said.
    AgentText {
        /// The reply.
        reply: u64,
        /// The text.
        text: String,
        /// True if the reply was stopped.
        interrupted: bool,
    },
    /// Tell that a reply is over. No audio of it follows.
    ReplyDone {
        /// The reply.
        reply: u64,
        /// True if it was stopped.
        interrupted: bool,
    },
    /// No reply is under way any more, whether it has started or not. It comes once for each, after [`Action::ReplyDone`].
    ReplyClosed {
        /// The reply.
        reply: u64,
        /// True if it was stopped.
        interrupted: bool,
    },
    /// Tell a call of a tool.
    Call(ToolCall),
    /// Tell a failure.
    Error(Failure),
    /// Record the times of a turn.
    Trace(TurnTimes),
    /// The conversation is over.
    Ended,
}

/// The times of a turn, ms by the driver's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnTimes {
    /// The last speech of the caller.
    pub speech_end: u64,
    /// The turn was over.
    pub turn_over: u64,
    /// The words were final.
    pub words: u64,
    /// The first text of the language model.
    pub first_text: u64,
    /// The first frame of the voice.
    pub first_frame: u64,
    /// The first frame was sent.
    pub first_sent: u64,
}
