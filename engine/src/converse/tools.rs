//! Calls of tools. Each ends once: by its result, or by the lack of one.

use super::ToolCall;

/// Longest wait for a result, ms.
pub const TOOL_TIMEOUT_MS: u64 = 30_000;
/// The largest result that the language model gets, bytes.
pub const MAX_RESULT_BYTES: usize = 64 << 10;

/// The calls of a conversation that have no result yet, and those whose results are too late.
#[derive(Debug, Default)]
pub struct Tools {
    pending: Vec<Pending>,
    late: Vec<ToolCall>,
}

#[derive(Debug)]
struct Pending {
    call: ToolCall,
    deadline: u64,
    /// True once the agent has said that it takes a moment.
    filled: bool,
}

/// A result, as the language model gets it.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Of a call that was awaited.
    Awaited(ToolCall, String),
    /// Of a call that was given up.
    Late(ToolCall, String),
    /// Of no call, or of one that has its result.
    Unknown,
}

impl Tools {
    /// Awaits the result of a call.
    pub fn begin(&mut self, call: ToolCall, now: u64) {
        self.pending.push(Pending { call, deadline: now + TOOL_TIMEOUT_MS, filled: false });
    }

    /// True if results are missing.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// True if the agent has not yet said of some call that it takes a moment.
    pub fn wants_filler(&self) -> bool {
        self.pending.iter().any(|pending| !pending.filled)
    }

    /// Records that the agent has said so of all calls.
    pub fn filled(&mut self) {
        self.pending.iter_mut().for_each(|pending| pending.filled = true);
    }

    /// Takes a result.
    pub fn answer(&mut self, id: &str, result: &str) -> Answer {
        if let Some(at) = self.pending.iter().position(|pending| pending.call.id == id) {
            let call = self.pending.remove(at).call;
            let result = for_model(&call, result);
            return Answer::Awaited(call, result);
        }
        if let Some(at) = self.late.iter().position(|call| call.id == id) {
            let call = self.late.remove(at);
            let result = for_model(&call, result);
            return Answer::Late(call, result);
        }
        Answer::Unknown
    }

    /// Gives up the calls whose time is over; returns them with what the language model gets.
    pub fn expire(&mut self, now: u64) -> Vec<(ToolCall, String)> {
        let (over, pending) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending| pending.deadline <= now);
        self.pending = pending;
        let over: Vec<Pending> = over;
        let given_up = over.into_iter().map(|Pending { call, .. }| {
            self.late.push(call.clone());
            let failure =
                format!("The tool {} failed: it gave no result within {} s.", call.name, TOOL_TIMEOUT_MS / 1000);
            (call, failure)
        });
        given_up.collect()
    }

    /// The next time at which a call is given up.
    pub fn deadline(&self) -> Option<u64> {
        self.pending.iter().map(|pending| pending.deadline).min()
    }
}

/// A result as the language model gets it: in one sentence where it cannot be used.
fn for_model(call: &ToolCall, result: &str) -> String {
    if result.len() > MAX_RESULT_BYTES {
        return format!("The tool {} failed: its result has more than {} KiB.", call.name, MAX_RESULT_BYTES >> 10);
    }
    if serde_json::from_str::<serde::de::IgnoredAny>(result).is_err() {
        return format!("The tool {} failed: its result is no JSON.", call.name);
    }
    result.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall { id: id.into(), name: "weather".into(), arguments: "{}".into() }
    }

    #[test]
    fn a_call_ends_once() {
        let mut tools = Tools::default();
        tools.begin(call("a"), 0);
        tools.begin(call("b"), 5_000);
        assert_eq!(tools.answer("a", "{\"sun\":1}"), Answer::Awaited(call("a"), "{\"sun\":1}".into()));
        assert_eq!(tools.answer("a", "{}"), Answer::Unknown, "twice");
        assert_eq!(tools.answer("c", "{}"), Answer::Unknown);
        assert_eq!(tools.deadline(), Some(35_000));
        assert!(tools.expire(34_999).is_empty() && tools.is_waiting());
        let over = tools.expire(35_000);
        assert!(over[0].1.contains("failed") && !tools.is_waiting());
        assert_eq!(tools.answer("b", "1"), Answer::Late(call("b"), "1".into()));
        assert_eq!(tools.answer("b", "1"), Answer::Unknown, "late, and twice");
    }

    #[test]
    fn results_that_cannot_be_used_are_told_in_a_sentence() {
        assert_eq!(for_model(&call("a"), "sunny"), "The tool weather failed: its result is no JSON.");
        let large = format!("\"{}\"", "x".repeat(MAX_RESULT_BYTES));
        assert_eq!(for_model(&call("a"), &large), "The tool weather failed: its result has more than 64 KiB.");
        assert_eq!(for_model(&call("a"), "[1]"), "[1]");
    }
}
