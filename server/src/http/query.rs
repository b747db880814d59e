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
