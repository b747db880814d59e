//! Chat templates: messages to the text that a model reads, as `transformers` fills the same template in.

use std::collections::BTreeMap;
use std::io::{self, Write};

use chrono::NaiveDateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value};
use minijinja::{Environment, Error as TemplateError, ErrorKind, context};
use serde::Serialize;
use serde_json::Value as Json;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use crate::error::{Error, Result};
use crate::text::tool_calls::{self, CallForm};

/// Steps that a template may take: many times those of the longest conversation. A template that never ends is an error.
const FUEL: u64 = 50_000_000;

/// A checkpoint's chat template.
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// Texts that templates name: `bos_token`, `eos_token`.
    marks: BTreeMap<&'static str, String>,
    /// It writes the tools that it is given.
    takes_tools: bool,
    /// The form of calls, if it is known.
    call_form: Option<CallForm>,
}

/// A message as templates see it.
#[derive(Clone, Debug, Serialize)]
pub struct TemplateMessage<'a> {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: &'a str,
    /// The text.
    pub content: String,
    /// Calls of an assistant's message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<TemplateCall>,
}

/// A call or a tool as templates see it.
#[derive(Clone, Debug, Serialize)]
pub struct TemplateCall {
    /// `function`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The function.
    pub function: TemplateFunction,
}

/// The function of a call or of a tool. Templates write its fields in this order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TemplateFunction {
    /// The name.
    pub name: String,
    /// The use of a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of a tool's arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Json>,
    /// The arguments of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Json>,
}

impl TemplateCall {
    /// A call.
    pub fn call(name: impl Into<String>, arguments: Json) -> Self {
        let function =
            TemplateFunction { name: name.into(), arguments: Some(arguments), ..TemplateFunction::default() };
        Self { kind: "function", function }
    }

    /// A tool.
    pub fn tool(name: impl Into<String>, description: impl Into<String>, parameters: Json) -> Self {
        let function = TemplateFunction {
            name: name.into(),
            description: Some(description.into()),
            parameters: Some(parameters),
            arguments: None,
        };
        Self { kind: "function", function }
    }
}

impl<'a> TemplateMessage<'a> {
    /// A message without calls.
    pub fn new(role: &'a str, content: impl Into<String>) -> Self {
        Self { role, content: content.into(), tool_calls: Vec::new() }
    }
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
        let takes_tools = source.contains("tools");
        let forms = [(tool_calls::OPEN, CallForm::Marked), ("\"parameters\": ", CallForm::Bare)];
        let call_form = forms.iter().find(|(mark, _)| takes_tools && source.contains(mark)).map(|(_, form)| *form);
        environment.add_template_owned("chat", source).map_err(|error| format!("chat template: {error}"))?;
        Ok(Self { environment, marks, takes_tools, call_form })
    }

    /// True if it has a place for tools.
    pub fn takes_tools(&self) -> bool {
        self.takes_tools
    }

    /// The form of calls; none if it is not known.
    pub fn call_form(&self) -> Option<CallForm> {
        self.call_form
    }

    /// Fills the template in, up to where the answer begins. `now` is the time that the template may write.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] with the template's own message where it refuses the conversation.
    pub fn render(
        &self,
        messages: &[TemplateMessage],
        tools: &[TemplateCall],
        thinking: bool,
        now: NaiveDateTime,
    ) -> Result<String> {
        let refused = |error: TemplateError| {
            let reason = error.detail().map_or_else(|| error.to_string(), str::to_owned);
            Error::InvalidOption(format!("the model's chat template refuses the conversation: {reason}"))
        };
        let time = move |format: String| -> std::result::Result<String, TemplateError> {
            let mut text = String::new();
            std::fmt::Write::write_fmt(&mut text, format_args!("{}", now.format(&format)))
                .map_err(|_| TemplateError::new(ErrorKind::InvalidOperation, format!("time format {format:?}")))?;
            Ok(text)
        };
        let values = context! {
            messages => Value::from(Serde(messages)),
            tools => if tools.is_empty() { Value::from(()) } else { Value::from(Serde(tools)) },
            documents => Value::from(()),
            add_generation_prompt => true,
            enable_thinking => thinking,
            strftime_now => Value::from_function(time),
            ..Value::from(Serde(&self.marks))
        };
        self.environment.get_template("chat").and_then(|template| template.render(values)).map_err(refused)
    }
}

/// JSON as Python's `json.dumps` writes it, without its escapes of other scripts.
fn to_json(value: Value, options: Kwargs) -> std::result::Result<Value, TemplateError> {
    let indent: Option<usize> = options.get("indent")?;
    // Other options change nothing for plain values.
    let _: Option<Value> = options.get("ensure_ascii")?;
    options.assert_all_used()?;
    let mut bytes = Vec::new();
    let spaces = indent.map(|indent| vec![b' '; indent]);
    let written = match &spaces {
        Some(spaces) => {
            value.serialize(&mut Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(spaces)))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut bytes, SpacedFormatter)),
    };
    let failed = |error: String| TemplateError::new(ErrorKind::BadSerialization, error);
    written.map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map(Value::from_safe_string).map_err(|error| failed(error.to_string()))
}

/// One line, with a space after commas and colons.
struct SpacedFormatter;

impl Formatter for SpacedFormatter {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
