//! The grammar that a text of a language model keeps to: all of it, or the calls of tools in it.

use serde_json::json;

use crate::chat::{ChatFormat, ChatOptions, ChatToolChoice};
use crate::decoding::grammar::{Function, Grammar};
use crate::error::{Error, Result};
use crate::models::decoder::ChatModel;
use crate::text::tool_calls::{CallForm, OPEN};

/// Holds a text to its grammar.
pub struct Constraint {
    /// The grammar at work.
    grammar: Option<Grammar>,
    /// The grammar of calls, in a text that may have some among other text.
    calls: Option<Grammar>,
    /// The last bytes of the text outside calls: an opening mark may have begun.
    tail: Vec<u8>,
}

impl Constraint {
    /// The constraint of an answer that begins with `beginning`; none if its text is free.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a schema that cannot be enforced.
    pub fn new(model: &ChatModel, options: &ChatOptions, beginning: &str) -> Result<Option<Self>> {
        let schema = match &options.format {
            ChatFormat::Text => None,
            ChatFormat::Json => Some(json!({ "type": "object" })),
            ChatFormat::Schema(schema) => Some(schema.clone()),
        };
        let name = match &options.tool_choice {
            ChatToolChoice::Named(name) => Some(name),
            ChatToolChoice::Auto | ChatToolChoice::Any => None,
        };
        let tools = options.tools.iter().filter(|tool| name.is_none_or(|name| tool.name == *name));
        let functions: Vec<Function> =
            tools.map(|tool| Function { name: &tool.name, parameters: &tool.parameters }).collect();
        let form = if functions.is_empty() { None } else { model.template()?.call_form() };
        let whole = |grammar| Some(Self { grammar: Some(grammar), calls: None, tail: Vec::new() });
        let Some(form) = form else {
            return Ok(schema.map(|schema| model.grammars()?.json(&schema)).transpose()?.and_then(whole));
        };
        match (schema, form) {
            _ if !beginning.is_empty() => {
                let calls = model.grammars()?.call(&functions, form)?;
                let mut grammar = calls.clone();
                let begun = beginning.strip_prefix(OPEN).unwrap_or(beginning);
                if !grammar.accept_text(begun.as_bytes()) {
                    return Err(Error::internal(format!("a call cannot begin with {begun:?}")));
                }
                let calls = (form == CallForm::Marked).then_some(calls);
                Ok(Some(Self { grammar: Some(grammar), calls, tail: Vec::new() }))
            }
            (Some(schema), form) => Ok(whole(model.grammars()?.json_or_calls(&schema, &functions, form)?)),
            (None, CallForm::Marked) => {
                let calls = model.grammars()?.call(&functions, form)?;
                Ok(Some(Self { grammar: None, calls: Some(calls), tail: Vec::new() }))
            }
            // Such a text is a call only if its first letter begins one.
            (None, CallForm::Bare) => Ok(None),
        }
    }

    /// Forbids the tokens that cannot come next, but for `also`.
    ///
    /// # Errors
    /// [`Error::Internal`] for a grammar beyond its limits.
    pub fn restrict(&mut self, scores: &mut [f32], also: Option<u32>) -> Result<()> {
        match &mut self.grammar {
            Some(grammar) => grammar.restrict(scores, also),
            None => Ok(()),
        }
    }

    /// Goes on with the next token of the text and its bytes. True when the text is complete.
    ///
    /// # Errors
    /// [`Error::Internal`] for a token that was forbidden.
    pub fn accept(&mut self, token: u32, bytes: &[u8]) -> Result<bool> {
        if let Some(grammar) = &mut self.grammar {
            grammar.accept(token)?;
            if !grammar.is_complete() {
                return Ok(false);
            }
            self.grammar = None;
            return Ok(self.calls.is_none());
        }
        if let Some(calls) = &self.calls {
            self.tail.extend_from_slice(bytes);
            let mark = OPEN.as_bytes();
            match self.tail.windows(mark.len()).position(|part| part == mark) {
                Some(at) => {
                    let mut grammar = calls.clone();
                    // A token may hold the mark's end and what follows.
                    let begins = grammar.accept_text(&self.tail[at + mark.len()..]);
                    self.grammar = begins.then_some(grammar);
                    self.tail.clear();
                }
                None => {
                    let kept = self.tail.len().min(mark.len() - 1);
                    self.tail.drain(..self.tail.len() - kept);
                }
            }
        }
        Ok(false)
    }
}
