//! Request bodies: JSON objects, read within limits, their fields taken out one by one.
//!
//! What is missing or no JSON is 400; what has the wrong type, or a value out of its range, is 422. `null` counts as
//! absent for an optional field. Fields that nobody asks for are ignored.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, EXPECT};
use hyper::{HeaderMap, Request, StatusCode};
use serde_json::{Map, Value};

use super::response::{ApiError, Result};

/// A client that sends nothing for so long is gone.
pub const STALL: Duration = Duration::from_secs(30);

/// The most that a JSON body may have.
pub const JSON_BYTES: usize = 1 << 20;

/// What is read of a body that nobody wants: many clients hear nothing before they have sent all of theirs, and take a
/// connection that is closed meanwhile for a failure.
const SKIPPED_BYTES: usize = 64 << 20;

/// How long that may take.
const SKIPPED_TIME: Duration = Duration::from_secs(30);

/// Reads on over the body of a request that is refused, within bounds, while it is answered; not that of a client that
/// waits to be asked for it, nor one that says itself that it is larger.
pub fn skip(request: Request<Incoming>) {
    if !request.headers().contains_key(EXPECT) {
        skip_body(request.into_body());
    }
}

fn skip_body(mut body: Incoming) {
    if body.is_end_stream() || body.size_hint().lower() > SKIPPED_BYTES as u64 {
        return;
    }
    let all = async move {
        let mut skipped = 0;
        while skipped < SKIPPED_BYTES
            && let Some(Ok(frame)) = body.frame().await
        {
            skipped += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    tokio::spawn(tokio::time::timeout(SKIPPED_TIME, all));
}

/// The body, if it is at most `limit` bytes.
pub async fn read(request: Request<Incoming>, limit: usize) -> Result<Bytes> {
    let too_large = || {
        let message = format!("The body is larger than {limit} bytes.");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
    };
    if request.body().size_hint().lower() > limit as u64 {
        skip(request);
        return Err(too_large());
    }
    let mut body = request.into_body();
    let mut bytes = BytesMut::new();
    loop {
        let frame = tokio::time::timeout(STALL, body.frame()).await.map_err(|_| {
            ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "The body did not arrive in time.")
        })?;
        match frame {
            None => return Ok(bytes.freeze()),
            Some(Err(error)) => return Err(ApiError::invalid(format!("The body could not be read: {error}."))),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    if bytes.len() + data.len() > limit {
                        skip_body(body);
                        return Err(too_large());
                    }
                    bytes.extend_from_slice(&data);
                }
            }
        }
    }
}

/// A JSON object whose fields are being taken out.
pub struct Fields(Map<String, Value>);

impl Fields {
    /// The fields of a body that may be left out altogether, its type with it.
    ///
    /// # Errors
    /// As [`Fields::parse`].
    pub fn optional(headers: &HeaderMap, body: &[u8]) -> Result<Self> {
        let absent = body.is_empty() && !headers.contains_key(CONTENT_TYPE);
        if absent { Ok(Self(Map::new())) } else { Self::parse(headers, body) }
    }

    /// # Errors
    /// 415 for another content type, 400 for what is not JSON, 422 for JSON that is not an object.
    pub fn parse(headers: &HeaderMap, body: &[u8]) -> Result<Self> {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if essence != "application/json" && !(essence.starts_with("application/") && essence.ends_with("+json")) {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "Send the body as JSON, with Content-Type: application/json.",
            ));
        }
        let value: Value = serde_json::from_slice(body).map_err(|error| match error.to_string() {
            // JSON all the same, but no number that there is.
            large if large.starts_with("number out of range") => {
                ApiError::validation(format!("The body holds a number that is too large: {large}."))
            }
            other => ApiError::invalid(format!("The body is not JSON: {other}.")),
        })?;
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            other => Err(ApiError::validation(format!("The body must be a JSON object, not {}.", kind(&other)))),
        }
    }

    /// The field's value, unless it is absent or null.
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    pub fn string(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => storable(name, text).map(Some),
            Some(other) => Err(wrong(name, "a string", &other)),
        }
    }

    /// A string of so many characters.
    pub fn string_of(&mut self, name: &str, characters: RangeInclusive<usize>) -> Result<Option<String>> {
        let text = self.string(name)?;
        match &text {
            Some(text) if !characters.contains(&text.chars().count()) => Err(ApiError::validation(format!(
                "`{name}` must have {} to {} characters; it has {}.",
                characters.start(),
                characters.end(),
                text.chars().count()
            ))),
            _ => Ok(text),
        }
    }

    /// A string that must be there: absent is 400, null is 422.
    pub fn required_string(&mut self, name: &str, characters: RangeInclusive<usize>) -> Result<String> {
        match self.0.get(name) {
            None => Err(ApiError::invalid(format!("`{name}` is missing."))),
            Some(Value::Null) => Err(ApiError::validation(format!("`{name}` must be a string, not null."))),
            Some(_) => Ok(self.string_of(name, characters)?.unwrap_or_default()),
        }
    }

    /// A flag; false if it is absent.
    pub fn flag(&mut self, name: &str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(on),
            Some(other) => Err(wrong(name, "true or false", &other)),
        }
    }

    pub fn integer(&mut self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        // 60.0 is an integer in JSON; one beyond 64 bits is as large as can be.
        let whole = match &value {
            Value::Number(number) => number
                .as_i64()
                .or_else(|| number.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64)),
            _ => return Err(wrong(name, "an integer", &value)),
        };
        match whole {
            Some(whole) if range.contains(&whole) => Ok(Some(whole)),
            _ if value.as_f64().is_some_and(|number| number.fract() != 0.0) => Err(wrong(name, "an integer", &value)),
            _ => {
                let (from, to) = (range.start(), range.end());
                let bounds = if *to == i64::MAX { format!("at least {from}") } else { format!("{from} to {to}") };
                Err(ApiError::validation(format!("`{name}` must be {bounds}; it is {value}.")))
            }
        }
    }

    /// A list of so many strings at most.
    pub fn strings(&mut self, name: &str, most: usize) -> Result<Option<Vec<String>>> {
        let items = match self.take(name) {
            None => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(wrong(name, "an array of strings", &other)),
        };
        if items.len() > most {
            return Err(ApiError::validation(format!("`{name}` has {} entries; it may have {most}.", items.len())));
        }
        let strings = items.into_iter().map(|item| match item {
            Value::String(text) => storable(name, text),
            other => Err(wrong(name, "an array of strings", &other)),
        });
        strings.collect::<Result<_>>().map(Some)
    }
}

/// PostgreSQL has no text with a null character in it, and no name or term needs one.
fn storable(name: &str, text: String) -> Result<String> {
    if text.contains('\0') {
        return Err(ApiError::validation(format!("`{name}` must not hold a null character.")));
    }
    Ok(text)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn wrong(name: &str, wanted: &str, found: &Value) -> ApiError {
    ApiError::validation(format!("`{name}` must be {wanted}, not {}.", kind(found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(body: &str) -> Result<Fields> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, "application/json; charset=utf-8".parse().unwrap())]);
        Fields::parse(&headers, body.as_bytes())
    }

    #[test]
    fn bodies_that_are_no_json_object() {
        assert_eq!(Fields::parse(&HeaderMap::new(), b"{}").err().unwrap().status, 415);
        let deep = "[".repeat(100_000);
        for body in ["", "{", "nil", "{\"a\":1}x", "{\"a\":\u{1}}", &deep] {
            assert_eq!(fields(body).err().unwrap().code, "invalid_request", "{body:.20}");
        }
        for body in ["[]", "{\"a\":1e999}"] {
            assert_eq!(fields(body).err().unwrap().code, "validation_error", "{body}");
        }
        assert!(Fields::optional(&HeaderMap::new(), b"").unwrap().string("a").unwrap().is_none());
        assert_eq!(Fields::optional(&HeaderMap::new(), b"{}").err().unwrap().status, 415);
    }

    #[test]
    fn fields_have_their_types_and_ranges() {
        let mut all =
            fields(r#"{"s":"x","n":null,"f":1,"i":60.0,"j":1.5,"big":1e300,"l":["a",1],"m":["a","b"]}"#).unwrap();
        assert_eq!(all.string("s").unwrap().as_deref(), Some("x"));
        assert_eq!(all.string("n").unwrap(), None);
        assert_eq!(all.flag("f").unwrap_err().status, 422);
        assert_eq!(all.integer("i", 0..=60).unwrap(), Some(60));
        assert!(all.integer("j", 0..=60).unwrap_err().message.contains("integer"));
        assert!(all.integer("big", 0..=60).unwrap_err().message.contains("0 to 60"));
        assert_eq!(all.strings("l", 5).unwrap_err().status, 422);
        assert!(all.strings("m", 1).unwrap_err().message.contains("2 entries"));
        assert_eq!(fields("{}").unwrap().required_string("s", 1..=2).unwrap_err().status, 400);
        assert_eq!(fields(r#"{"s":null}"#).unwrap().required_string("s", 1..=2).unwrap_err().status, 422);
        assert_eq!(fields(r#"{"s":"abc"}"#).unwrap().required_string("s", 1..=2).unwrap_err().status, 422);
    }
}
