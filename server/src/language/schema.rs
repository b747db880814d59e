//! JSON that models write, against what was asked for.
//!
//! Schemas are compiled on a few threads of their own: they come from strangers, and the async threads serve every client.

use serde_json::Value;
use tokio::sync::Semaphore;

use super::json_schema::{Budget, Schema};
use super::{ChatOptions, Completion, FinishReason, Format, LanguageError, ToolChoice};

/// Requests and answers that are checked at a time.
static PLACES: Semaphore = Semaphore::const_new(2);

/// Does a check outside the async threads. One whose client leaves before it begins is not done.
async fn run<T: Send + 'static>(check: impl FnOnce() -> T + Send + 'static) -> Result<T, LanguageError> {
    let failed =
        |error: &dyn std::fmt::Display| LanguageError::Local(format!("a schema could not be checked: {error}"));
    let place = PLACES.acquire().await.map_err(|error| failed(&error))?;
    let checked = tokio::task::spawn_blocking(move || {
        let _place = place;
        check()
    });
    checked.await.map_err(|error| failed(&error))
}

/// Checks that all schemas of a request can be enforced.
///
/// # Errors
/// [`LanguageError::UnsupportedSchema`] that names the schema.
pub async fn check_options(options: &ChatOptions) -> Result<(), LanguageError> {
    let mut schemas: Vec<(String, Value)> = Vec::new();
    let mut budget = Budget::default();
    let refuse = |name: &str, error: String| {
        LanguageError::UnsupportedSchema(format!("The schema {name:?} cannot be enforced: {error}."))
    };
    let format = match &options.format {
        Format::Schema { name, schema, .. } => Some((name, schema)),
        Format::Text | Format::Json => None,
    };
    for (name, schema) in format.into_iter().chain(options.tools.iter().map(|tool| (&tool.name, &tool.parameters))) {
        // What is copied is within its budget.
        budget.take(schema).map_err(|error| refuse(name, error))?;
        schemas.push((name.clone(), schema.clone()));
    }
    if schemas.is_empty() {
        return Ok(());
    }
    run(move || {
        schemas.iter().try_for_each(|(name, schema)| {
            Schema::new(schema, &mut budget).map(|_| ()).map_err(|error| refuse(name, error))
        })
    })
    .await?
}

/// Checks an answer against the requested format and tools. One that was cut short by its length is not whole JSON, and its
/// `finish_reason` says so.
///
/// # Errors
/// [`LanguageError::Upstream`] that says what is wrong.
pub async fn check_answer(options: &ChatOptions, answer: &Completion) -> Result<(), LanguageError> {
    if answer.tool_calls.is_empty() && !matches!(options.format, Format::Schema { .. }) {
        return check(options, answer);
    }
    let (options, answer) = (options.clone(), answer.clone());
    run(move || check(&options, &answer)).await?
}

fn check(options: &ChatOptions, answer: &Completion) -> Result<(), LanguageError> {
    let refuse = |message: String| Err(LanguageError::Upstream(message));
    for call in &answer.tool_calls {
        let Some(tool) = options.tools.iter().find(|tool| tool.name == call.name) else {
            return refuse(format!("it called the tool {:?}, which it was not given", call.name));
        };
        let arguments: Value = match serde_json::from_str(&call.arguments) {
            Ok(arguments) => arguments,
            Err(_) => return refuse(format!("the arguments for {:?} are no JSON", call.name)),
        };
        if !arguments.is_object() || validate(&tool.parameters, &arguments).is_err() {
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
            validate(schema, &value)
                .or_else(|error| refuse(format!("its JSON does not fit the schema {name:?}: {error}")))
        }
    }
}

/// Validates a value against a schema that [`check_options`] has accepted.
fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    Schema::new(schema, &mut Budget::default())?.validate(value)
}
