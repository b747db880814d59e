//! JSON that models write, against what was asked for.

use serde_json::Value;

use super::json_schema::Schema;
use super::{ChatOptions, Completion, FinishReason, Format, LanguageError, ToolChoice};

/// Checks that all schemas of a request can be enforced.
///
/// # Errors
/// [`LanguageError::UnsupportedSchema`] that names the schema.
pub fn check_options(options: &ChatOptions) -> Result<(), LanguageError> {
    let refuse = |name: &str, error: String| {
        LanguageError::UnsupportedSchema(format!("The schema {name:?} cannot be enforced: {error}."))
    };
    if let Format::Schema { name, schema, .. } = &options.format {
        Schema::new(schema).map_err(|error| refuse(name, error))?;
    }
    for tool in &options.tools {
        Schema::new(&tool.parameters).map_err(|error| refuse(&tool.name, error))?;
    }
    Ok(())
}

/// Checks an answer against the requested format and tools. One that was cut short by its length is not whole JSON, and its
/// `finish_reason` says so.
///
/// # Errors
/// [`LanguageError::Upstream`] that says what is wrong.
pub fn check_answer(options: &ChatOptions, answer: &Completion) -> Result<(), LanguageError> {
    let refuse = |message: String| Err(LanguageError::Upstream(message));
    for call in &answer.tool_calls {
        let Some(tool) = options.tools.iter().find(|tool| tool.name == call.name) else {
            return refuse(format!("it called the tool {:?}, which it was not given", call.name));
        };
        let arguments: Value = match serde_json::from_str(&call.arguments) {
            Ok(arguments) => arguments,
            Err(_) => return refuse(format!("the arguments for {:?} are no JSON", call.name)),
        };
        let fits = Schema::new(&tool.parameters).and_then(|schema| schema.validate(&arguments));
        if !arguments.is_object() || fits.is_err() {
            return refuse(format!("the arguments for {:?} do not fit its parameters", call.name));
        }
    }
    match &options.tool_choice {
        ToolChoice::None if !answer.tool_calls.is_empty() => {
            return refuse("it called a tool against the choice".into());
        }
        ToolChoice::Required if answer.tool_calls.is_empty() && answer.reason != FinishReason::Length => {
            return refuse("it called no tool".into());
        }
        ToolChoice::Named(name) => {
            let is_called = answer.tool_calls.iter().all(|call| call.name == *name) && !answer.tool_calls.is_empty();
            if !is_called && answer.reason != FinishReason::Length {
                return refuse(format!("it did not call {name:?} alone"));
            }
        }
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Required => {}
    }
    if !answer.tool_calls.is_empty() || answer.reason == FinishReason::Length {
        return Ok(());
    }
    match &options.format {
        Format::Text => Ok(()),
        Format::Json => match serde_json::from_str::<Value>(&answer.text) {
            Ok(value) if value.is_object() => Ok(()),
            _ => refuse("it was asked for a JSON object and wrote something else".into()),
        },
        Format::Schema { name, schema, .. } => {
            let Ok(value) = serde_json::from_str::<Value>(&answer.text) else {
                return refuse("it was asked for JSON and wrote something else".into());
            };
            Schema::new(schema)
                .and_then(|schema| schema.validate(&value))
                .or_else(|error| refuse(format!("its JSON does not fit the schema {name:?}: {error}")))
        }
    }
}
