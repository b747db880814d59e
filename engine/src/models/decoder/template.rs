//! Chat templates: messages to the text that a model reads, as `transformers` fills the same template in.

use std::collections::BTreeMap;

use chrono::NaiveDateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error as TemplateError, ErrorKind, context};
use serde::Serialize;
use serde_json::Value as Json;

use crate::error::{Error, Result};

/// Steps that a template may take: many times those of the longest conversation. A template that never ends is an error.
const FUEL: u64 = 50_000_000;

/// A checkpoint's chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// Texts that templates name: `bos_token`, `eos_token`.
    marks: BTreeMap<&'static str, String>,
}

/// A message as templates see it.
#[derive(Clone, Debug, Serialize)]
pub struct TemplateMessage<'a> {
    /// `system`, `user` or `assistant`.
    pub role: &'a str,
    /// The text.
    pub content: String,
}

impl ChatTemplate {
    /// Parses a template. `marks` are the texts of `bos_token` and `eos_token`.
    ///
    /// # Errors
    /// A message with the line of a fault.
    pub fn new(source: String, marks: BTreeMap<&'static str, String>) -> std::result::Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| error.to_string())?);
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", to_json);
        environment.add_function("raise_exception", |message: String| -> std::result::Result<String, TemplateError> {
            Err(TemplateError::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_template_owned("chat", source).map_err(|error| format!("chat template: {error}"))?;
        Ok(Self { environment, marks })
    }

    /// Fills the template in, up to where the answer begins. `now` is the time that the template may write.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] with the template's own message where it refuses the conversation.
    pub fn render(&self, messages: &[TemplateMessage], thinking: bool, now: NaiveDateTime) -> Result<String> {
        let refused = |error: TemplateError| {
            let reason = error.detail().map_or_else(|| error.to_string(), str::to_owned);
            Error::InvalidOption(format!("the model's chat template refuses the conversation: {reason}"))
        };
        let time = move |format: String| -> std::result::Result<String, TemplateError> {
            use std::fmt::Write as _;
            let mut text = String::new();
            write!(text, "{}", now.format(&format))
                .map_err(|_| TemplateError::new(ErrorKind::InvalidOperation, format!("time format {format:?}")))?;
            Ok(text)
        };
        let values = context! {
            messages => Value::from(Serde(messages)),
            tools => Value::from(()),
            documents => Value::from(()),
            add_generation_prompt => true,
            enable_thinking => thinking,
            strftime_now => Value::from_function(time),
            ..Value::from(Serde(&self.marks))
        };
        self.environment.get_template("chat").and_then(|template| template.render(values)).map_err(refused)
    }
}

/// JSON as Python's `json.dumps` writes it, without its escapes of other scripts. The keys of an object come in alphabetical order:
/// what templates write so far has none of its own.
fn to_json(Serde(value): Serde<Json>, options: Kwargs) -> std::result::Result<Value, TemplateError> {
    let indent: Option<usize> = options.get("indent")?;
    // Other options change nothing for plain values.
    let _: Option<Value> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let mut text = String::new();
    write_json(&value, indent, 0, &mut text);
    Ok(Value::from_safe_string(text))
}

fn write_json(value: &Json, indent: Option<usize>, depth: usize, text: &mut String) {
    let line = |depth: usize, text: &mut String| {
        if let Some(indent) = indent {
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', indent * depth));
        }
    };
    let separator = if indent.is_some() { "," } else { ", " };
    match value {
        Json::Array(items) if !items.is_empty() => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                text.push_str(if at > 0 { separator } else { "" });
                line(depth + 1, text);
                write_json(item, indent, depth + 1, text);
            }
            line(depth, text);
            text.push(']');
        }
        Json::Object(items) if !items.is_empty() => {
            text.push('{');
            for (at, (key, item)) in items.iter().enumerate() {
                text.push_str(if at > 0 { separator } else { "" });
                line(depth + 1, text);
                text.push_str(&Json::from(key.as_str()).to_string());
                text.push_str(": ");
                write_json(item, indent, depth + 1, text);
            }
            line(depth, text);
            text.push('}');
        }
        plain => text.push_str(&plain.to_string()),
    }
}
