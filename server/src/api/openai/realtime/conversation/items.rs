//! The items of a conversation: what the caller, the agent and tools have said, in order.

use serde_json::Value;

use super::super::frames::Fault;
use super::item::{Content, Item, Source, Status};
use crate::language::{Message, Role, ToolCall};

/// The most items of a conversation, and the most bytes of their texts.
const MAX_ITEMS: usize = 5_000;
const MAX_BYTES: usize = 4 << 20;

/// The text that the language model gets for a turn without words.
const SILENCE: &str = "(The caller says nothing.)";

/// The items of a conversation.
#[derive(Debug, Default)]
pub struct Items {
    all: Vec<Item>,
}

impl Items {
    /// Adds an item at the end; returns the id of the one before.
    pub fn push(&mut self, item: Item) -> Option<String> {
        let before = self.all.last().map(|item| item.id.clone());
        self.all.push(item);
        before
    }

    /// Adds an item of the client's behind another one, at the beginning for `root`, or at the end. Returns the id of the one before, and the
    /// item.
    ///
    /// # Errors
    /// For an item that is wrong, and for a conversation that is full.
    pub fn create(&mut self, after: Option<&str>, item: Value) -> Result<(Option<String>, &Item), Fault> {
        let item = Item::read(item).map_err(|error| Fault::invalid("invalid_value", error.message).about("item"))?;
        let bytes: usize = self.all.iter().map(Item::bytes).sum();
        if self.all.len() >= MAX_ITEMS || bytes + item.bytes() > MAX_BYTES {
            let message = format!(
                "The conversation is full: it has at most {MAX_ITEMS} items and {} MiB of text. Delete items.",
                MAX_BYTES >> 20
            );
            return Err(Fault::invalid("conversation_full", message).about("item"));
        }
        if self.get(&item.id).is_some() {
            let message = format!("The conversation has an item {:?} already.", item.id);
            return Err(Fault::invalid("item_create_duplicate_item_id", message).about("item"));
        }
        if let Content::Output { call_id, .. } = &item.content {
            self.check_call(call_id)?;
        }
        let at = match after {
            None => self.all.len(),
            Some("root") => 0,
            Some(id) => match self.position(id) {
                Some(at) => at + 1,
                None => return Err(unknown("item_not_found", id, "previous_item_id")),
            },
        };
        let before = at.checked_sub(1).map(|at| self.all[at].id.clone());
        self.all.insert(at, item);
        Ok((before, &self.all[at]))
    }

    fn check_call(&self, id: &str) -> Result<(), Fault> {
        let is_call = |item: &&Item| matches!(&item.content, Content::Call(call) if call.id == id);
        if !self.all.iter().any(|item| is_call(&item)) {
            let message = format!("The conversation has no function call with the `call_id` {id:?}.");
            return Err(Fault::invalid("unknown_call", message).about("item"));
        }
        if self.output(id).is_some() {
            let message = format!("The function call {id:?} has its output.");
            return Err(Fault::invalid("unknown_call", message).about("item"));
        }
        Ok(())
    }

    fn position(&self, id: &str) -> Option<usize> {
        // Most look for one of the last.
        self.all.iter().rposition(|item| item.id == id)
    }

    pub fn get(&self, id: &str) -> Option<&Item> {
        self.position(id).map(|at| &self.all[at])
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut Item> {
        self.position(id).map(|at| &mut self.all[at])
    }

    /// The item that a client names.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(&self, id: &str) -> Result<&Item, Fault> {
        self.get(id).ok_or_else(|| unknown("item_retrieve_invalid_item_id", id, "item_id"))
    }

    /// Deletes an item.
    ///
    /// # Errors
    /// If there is none, or if it is being written.
    pub fn delete(&mut self, id: &str) -> Result<(), Fault> {
        let at = self.position(id).ok_or_else(|| unknown("item_delete_invalid_item_id", id, "item_id"))?;
        if self.all[at].status == Status::InProgress {
            return Err(in_progress(id));
        }
        self.all.remove(at);
        Ok(())
    }

    /// Cuts a spoken reply to what was played.
    ///
    /// # Errors
    /// For another item, and for a place that it does not have.
    pub fn truncate(&mut self, id: &str, content_index: u64, audio_end_ms: u64) -> Result<(), Fault> {
        let item = self.get_mut(id).ok_or_else(|| unknown("item_truncate_invalid_item_id", id, "item_id"))?;
        let Content::Message(Source::AgentAudio, texts) = &mut item.content else {
            let message = format!("{id:?} is no spoken reply: only these are truncated.");
            return Err(Fault::invalid("invalid_value", message).about("item_id"));
        };
        if item.status == Status::InProgress {
            return Err(in_progress(id));
        }
        let Some(text) = texts.first_mut().filter(|_| content_index == 0) else {
            let message = format!("{id:?} has one part: `content_index` must be 0.");
            return Err(Fault::invalid("invalid_value", message).about("content_index"));
        };
        if audio_end_ms > item.timeline.audio_ms {
            let message =
                format!("{id:?} has {} ms of audio: it cannot end at {audio_end_ms} ms.", item.timeline.audio_ms);
            return Err(Fault::invalid("invalid_value", message).about("audio_end_ms"));
        }
        let bytes = item.timeline.bytes_at(audio_end_ms).min(text.len());
        text.truncate(text.floor_char_boundary(bytes));
        item.timeline.audio_ms = audio_end_ms;
        Ok(())
    }

    fn output(&self, call: &str) -> Option<&str> {
        self.all.iter().find_map(|item| match &item.content {
            Content::Output { call_id, output } if call_id == call => Some(output.as_str()),
            _ => None,
        })
    }

    /// The conversation as the language model gets it: each call with its output behind it, whatever came between.
    pub fn messages(&self) -> Vec<Message> {
        let mut messages: Vec<Message> = Vec::new();
        let mut items = self.all.iter().peekable();
        while let Some(item) = items.next() {
            match &item.content {
                Content::Message(source, texts) => {
                    let text = texts.join("\n");
                    let text = if *source == Source::UserAudio && text.is_empty() { SILENCE.into() } else { text };
                    append(&mut messages, source.role(), &text);
                }
                Content::Call(call) => {
                    let mut calls = vec![call.clone()];
                    while let Some(Content::Call(call)) = items.peek().map(|item| &item.content) {
                        calls.push(call.clone());
                        items.next();
                    }
                    self.append_calls(&mut messages, calls);
                }
                // It stands behind its call.
                Content::Output { .. } => {}
            }
        }
        messages
    }

    fn append_calls(&self, messages: &mut Vec<Message>, calls: Vec<ToolCall>) {
        match messages.last_mut() {
            Some(last) if last.role == Role::Assistant && last.tool_calls.is_empty() => last.tool_calls = calls.clone(),
            _ => messages.push(Message { tool_calls: calls.clone(), ..Message::new(Role::Assistant, "") }),
        }
        for call in calls {
            let output = match self.output(&call.id) {
                Some(output) => output.to_owned(),
                None => format!("The tool {} has given no result yet.", call.name),
            };
            messages.push(Message { tool_call_id: Some(call.id), ..Message::new(Role::Tool, output) });
        }
    }

    /// The messages of the `input` of a response: items, and references to those of this conversation.
    ///
    /// # Errors
    /// For an item that is wrong, and a reference to none.
    pub fn of_input(&self, values: Vec<Value>) -> Result<Vec<Message>, Fault> {
        let mut items = Items::default();
        for value in values {
            if value["type"] == "item_reference" {
                let item = self.named(value["id"].as_str().unwrap_or_default())?.clone();
                items.all.push(item);
            } else {
                items.create(None, value)?;
            }
        }
        Ok(items.messages())
    }
}

/// Adds a text. Chat templates want the roles to alternate.
pub fn append(messages: &mut Vec<Message>, role: Role, text: &str) {
    match messages.last_mut() {
        _ if text.is_empty() => {}
        Some(last) if last.role == role && last.tool_calls.is_empty() && role != Role::Tool => {
            last.content.push('\n');
            last.content.push_str(text);
        }
        _ => messages.push(Message::new(role, text)),
    }
}

fn unknown(code: &'static str, id: &str, param: &'static str) -> Fault {
    Fault::invalid(code, format!("The conversation has no item {id:?}.")).about(param)
}

fn in_progress(id: &str) -> Fault {
    let message = format!("{id:?} is being written: cancel its response first.");
    Fault::invalid("item_in_progress", message).about("item_id")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::item::MAX_TEXT;
    use super::*;

    fn user(id: &str, text: &str) -> Value {
        json!({ "id": id, "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })
    }

    fn call(id: &str) -> Value {
        json!({ "type": "function_call", "call_id": id, "name": "weather", "arguments": "{}" })
    }

    fn output(call: &str) -> Value {
        json!({ "type": "function_call_output", "call_id": call, "output": "sunny" })
    }

    fn code(fault: Fault) -> String {
        serde_json::to_value(fault).unwrap()["code"].as_str().unwrap().to_owned()
    }

    #[test]
    fn items_stand_where_they_are_put() {
        let mut items = Items::default();
        assert_eq!(items.create(None, user("b", "B")).unwrap().0, None);
        assert_eq!(items.create(Some("root"), user("a", "A")).unwrap().0, None);
        assert_eq!(items.create(Some("b"), user("d", "D")).unwrap().0.as_deref(), Some("b"));
        assert_eq!(items.create(Some("b"), user("c", "C")).unwrap().0.as_deref(), Some("b"));
        assert_eq!(items.messages(), [Message::new(Role::User, "A\nB\nC\nD")]);
        items.delete("b").unwrap();
        assert_eq!(items.messages(), [Message::new(Role::User, "A\nC\nD")]);
        for (after, item, expected) in [
            (None, user("a", "A"), "item_create_duplicate_item_id"),
            (Some("z"), user("e", "E"), "item_not_found"),
            (None, output("z"), "unknown_call"),
            (
                None,
                json!({ "type": "message", "role": "user", "content": [{ "type": "input_image" }] }),
                "invalid_value",
            ),
            (None, json!({ "type": "mcp_call" }), "invalid_value"),
            (None, json!({ "type": "function_call", "name": "f", "arguments": "no" }), "invalid_value"),
            (None, json!([]), "invalid_value"),
        ] {
            assert_eq!(code(items.create(after, item).unwrap_err()), expected);
        }
    }

    #[test]
    fn the_model_gets_every_call_with_its_output() {
        let mut items = Items::default();
        items.create(None, user("a", "Weather?")).unwrap();
        items.create(None, call("1")).unwrap();
        items.create(None, call("2")).unwrap();
        items.create(None, user("b", "Hello?")).unwrap();
        items.create(None, output("1")).unwrap();
        let messages = items.messages();
        let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Tool, Role::User]);
        assert_eq!((messages[1].tool_calls.len(), messages[2].content.as_str()), (2, "sunny"));
        assert!(messages[3].content.contains("no result yet"), "{}", messages[3].content);
        assert_eq!(code(items.create(None, output("1")).unwrap_err()), "unknown_call", "twice");
    }

    #[test]
    fn a_reply_is_cut_at_the_word_that_was_played() {
        let mut items = Items::default();
        let mut item = Item::message(Status::Completed, Source::AgentAudio, "One, two; three.");
        for bytes in [3, 3, 8, 15] {
            item.timeline.push(80, bytes);
        }
        let id = item.id.clone();
        items.push(item);
        assert_eq!(code(items.truncate(&id, 0, 321).unwrap_err()), "invalid_value", "past its end");
        assert_eq!(code(items.truncate(&id, 1, 0).unwrap_err()), "invalid_value");
        assert_eq!(code(items.truncate("z", 0, 0).unwrap_err()), "item_truncate_invalid_item_id");
        items.truncate(&id, 0, 200).unwrap();
        assert_eq!(items.messages(), [Message::new(Role::Assistant, "One, two")]);
        assert_eq!(code(items.truncate(&id, 0, 201).unwrap_err()), "invalid_value", "it is shorter now");
        items.truncate(&id, 0, 0).unwrap();
        assert_eq!(items.messages(), []);
    }

    #[test]
    fn a_conversation_is_bounded() {
        let mut items = Items::default();
        for number in 0..MAX_ITEMS {
            items.create(None, user(&format!("i{number}"), "x")).unwrap();
        }
        assert_eq!(code(items.create(None, user("last", "x")).unwrap_err()), "conversation_full");
        items.delete("i0").unwrap();
        items.create(None, user("last", "x")).unwrap();
        let long = "x".repeat(MAX_TEXT);
        let mut items = Items::default();
        for number in 0..4 {
            items.create(None, user(&format!("i{number}"), &long)).unwrap();
        }
        assert_eq!(code(items.create(None, user("last", "x")).unwrap_err()), "conversation_full");
    }
}
