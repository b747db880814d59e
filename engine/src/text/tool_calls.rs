//! Calls of tools in the text of a language model.
//!
//! Two forms are read: [`CallForm`].

use serde_json::{Map, Value};

/// The mark before a call among other text.
pub const OPEN: &str = "<tool_call>";
/// The mark after it.
pub const CLOSE: &str = "</tool_call>";

/// The form of a call in a model's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallForm {
    /// `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, among other text.
    Marked,
    /// `{"name": ..., "parameters": {...}}`, which is the whole text.
    Bare,
}

impl CallForm {
    /// The text between the begin of a call and its tool's name.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Marked => "<tool_call>\n{\"name\": \"",
            Self::Bare => "{\"name\": \"",
        }
    }

    /// The key of the arguments.
    pub fn arguments_key(self) -> &'static str {
        match self {
            Self::Marked => "arguments",
            Self::Bare => "parameters",
        }
    }
}

/// A call as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenCall {
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// A part of a text with calls.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text that is no call.
    Text(String),
    /// A whole call.
    Call(WrittenCall),
}

/// Takes the calls out of a text that comes in pieces. What may become a call is held back until it is one or is none: then it is text.
#[derive(Debug, Default)]
pub struct ToolCallReader {
    held: String,
    /// Text or a call has come before `held`.
    has_begun: bool,
    /// Text has come since the last call.
    in_text: bool,
}

impl ToolCallReader {
    /// Adds a piece of the text.
    pub fn push(&mut self, piece: &str) -> Vec<Part> {
        self.held.push_str(piece);
        let mut parts = Vec::new();
        loop {
            if !self.has_begun && self.held.trim_start().starts_with('{') {
                return parts;
            }
            match self.held.find(OPEN) {
                Some(begin) => {
                    self.text(begin, &mut parts);
                    let Some(end) = self.held.find(CLOSE) else { return parts };
                    let written: String = self.held.drain(..end + CLOSE.len()).collect();
                    match call(&written[OPEN.len()..end], "arguments") {
                        Some(call) => parts.push(Part::Call(call)),
                        None => parts.push(Part::Text(written)),
                    }
                    (self.has_begun, self.in_text) = (true, false);
                }
                None => {
                    let kept = (0..OPEN.len()).rev().find(|&length| self.held.ends_with(&OPEN[..length])).unwrap_or(0);
                    self.text(self.held.len() - kept, &mut parts);
                    return parts;
                }
            }
        }
    }

    /// Ends the text.
    pub fn finish(self) -> Option<Part> {
        let Self { held, has_begun, in_text } = self;
        // A model may leave the last mark out.
        let inner = held.trim().strip_prefix(OPEN).map(|inner| (inner, "arguments"));
        let whole = inner.or_else(|| (!has_begun).then_some((held.as_str(), "parameters")));
        match whole.and_then(|(text, key)| call(text, key)) {
            Some(call) => Some(Part::Call(call)),
            None => (in_text || !held.trim().is_empty()).then_some(Part::Text(held)),
        }
    }

    /// Gives the first bytes on as text, without the space around calls.
    fn text(&mut self, bytes: usize, parts: &mut Vec<Part>) {
        let text: String = self.held.drain(..bytes).collect();
        let text = if self.in_text { text.as_str() } else { text.trim_start() };
        if !text.is_empty() {
            (self.has_begun, self.in_text) = (true, true);
            parts.push(Part::Text(text.to_owned()));
        }
    }
}

/// An object with a name and arguments; models write either key for these.
fn call(text: &str, key: &str) -> Option<WrittenCall> {
    let Ok(Value::Object(mut written)) = serde_json::from_str(text.trim()) else { return None };
    let Some(Value::String(name)) = written.remove("name") else { return None };
    let arguments =
        written.remove(key).or_else(|| written.remove("arguments")).or_else(|| written.remove("parameters"));
    match arguments {
        Some(Value::Object(arguments)) => Some(WrittenCall { name, arguments }),
        None if key == "arguments" => Some(WrittenCall { name, arguments: Map::new() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a text in pieces of so many characters; neighbouring texts are joined.
    fn read(text: &str, size: usize) -> (String, Vec<(String, String)>) {
        let (mut reader, mut plain, mut calls) = (ToolCallReader::default(), String::new(), Vec::new());
        let characters: Vec<char> = text.chars().collect();
        let mut parts: Vec<Part> =
            characters.chunks(size).flat_map(|piece| reader.push(&piece.iter().collect::<String>())).collect();
        parts.extend(reader.finish());
        for part in parts {
            match part {
                Part::Text(text) => plain.push_str(&text),
                Part::Call(call) => calls.push((call.name, Value::Object(call.arguments).to_string())),
            }
        }
        (plain, calls)
    }

    #[test]
    fn calls_are_told_from_text_however_it_is_cut() {
        let call = |name: &str, arguments: &str| (name.to_owned(), arguments.to_owned());
        for (text, plain, calls) in [
            ("Just text < here.", "Just text < here.", vec![]),
            (
                "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>",
                "",
                vec![call("weather", r#"{"city":"Rome"}"#)],
            ),
            (
                "Let me see.\n<tool_call>{\"name\":\"a\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"b\"}</tool_call>",
                "Let me see.\n",
                vec![call("a", "{}"), call("b", "{}")],
            ),
            ("{\"name\": \"f\", \"parameters\": {\"n\": 1}}", "", vec![call("f", r#"{"n":1}"#)]),
            ("<tool_call>{\"name\": \"cut\", \"arguments\": {}}", "", vec![call("cut", "{}")]),
            ("{\"name\": \"Ada\", \"age\": 36}", "{\"name\": \"Ada\", \"age\": 36}", vec![]),
            ("<tool_call>{oops}</tool_call>", "<tool_call>{oops}</tool_call>", vec![]),
            ("Say {\"name\": \"f\", \"parameters\": {}}", "Say {\"name\": \"f\", \"parameters\": {}}", vec![]),
            ("a <tool_ca", "a <tool_ca", vec![]),
            ("Two  words \n and more", "Two  words \n and more", vec![]),
        ] {
            for size in [1, 2, 7, 1000] {
                assert_eq!(read(text, size), (plain.to_owned(), calls.clone()), "{text} in pieces of {size}");
            }
        }
    }
}
