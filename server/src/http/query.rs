//! Query parameters.

use std::ops::RangeInclusive;

use hyper::Uri;

use super::response::{ApiError, Result};

/// The last value of a parameter that is not empty.
pub fn value(uri: &Uri, name: &str) -> Option<String> {
    url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
        .filter(|(key, value)| key == name && !value.is_empty())
        .last()
        .map(|(_, value)| value.into_owned())
}

/// An integer parameter.
///
/// # Errors
/// 422 for a value that is not an integer or is out of range.
pub fn integer(uri: &Uri, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>> {
    let Some(text) = value(uri, name) else { return Ok(None) };
    match text.parse::<i64>() {
        Ok(value) if range.contains(&value) => Ok(Some(value)),
        _ => Err(ApiError::validation(format!(
            "`{name}` must be an integer, {} to {}; it is {text:?}.",
            range.start(),
            range.end()
        ))),
    }
}

/// A flag.
///
/// # Errors
/// 422 for a value that is neither true nor false.
pub fn flag(uri: &Uri, name: &str) -> Result<Option<bool>> {
    let Some(text) = value(uri, name) else { return Ok(None) };
    match truth(&text) {
        Some(flag) => Ok(Some(flag)),
        None => Err(ApiError::validation(format!("`{name}` must be true or false; it is {text:?}."))),
    }
}

/// True or false, as programs write them: Python says `True`.
pub fn truth(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}
