//! What the language model and the voice report to a session.

use auricle_engine::converse::Event;

use crate::language::{FinishReason, Usage};

/// A report.
#[derive(Debug)]
pub enum Report {
    /// An event of the conversation.
    Event(Event),
    /// How an answer has ended. Its [`Event::Thought`] follows.
    Finished { thought: u64, reason: FinishReason, usage: Option<Usage> },
}
