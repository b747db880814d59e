//! Request bodies: JSON objects, read within limits and validated field by field.
//!
//! A missing field or malformed JSON is 400; a wrong type or a value out of range is 422. `null` counts as absent for an
//! optional field. Unknown fields are ignored; [`Fields::unknown`] names them.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Request, StatusCode};
use serde_json::{Map, Value};

use super::request_body::{BodyError, RequestBody};
use super::response::{ApiError, Result};

/// The size limit of a JSON body.
pub const MAX_JSON_BYTES: usize = 1 << 20;

/// Reads a body of at most `limit` bytes.
///
/// # Errors
/// 413 for a larger body, 408 for one that comes too slowly, 400 for one that ends early.
pub async fn read(request: Request<RequestBody>, limit: usize) -> Result<Bytes> {
    let too_large = || {
        let message = format!("The body is larger than {limit} bytes.");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
    };
    if request.body().size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let mut body = request.into_body();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match error {
            BodyError::TooSlow => {
                let message = "The body did not arrive in time; send it faster.";
                ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
            }
            BodyError::Broken(error) => ApiError::invalid(format!("The body could not be read: {error}.")),
        })?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > limit {
                return Err(too_large());
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.freeze())
}

/// The fields of a JSON object or of a form that are not read yet.
pub struct Fields {
    left: Map<String, Value>,
    /// The names that were asked for.
    known: Vec<String>,
    /// The values are those of a form: all strings, and each of another type is written as JSON.
    of_form: bool,
}

/// The most unknown fields that are named.
const MAX_UNKNOWN: usize = 10;

/// The longest part of an unknown field's name that is shown, in characters.
const MAX_UNKNOWN_CHARS: usize = 64;

/// A known name is meant where an unknown one is at least so alike, from 0 to 1.
const ALIKE: f64 = 0.65;

impl Fields {
    /// The fields of an optional body. Without a body there are none.
    ///
    /// # Errors
    /// As [`Fields::parse`].
    pub fn optional(headers: &HeaderMap, body: &[u8]) -> Result<Self> {
        let absent = body.is_empty() && !headers.contains_key(CONTENT_TYPE);
        if absent { Ok(Self::new(Map::new())) } else { Self::parse(headers, body) }
    }

    /// The fields of a required body.
    ///
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
            // The JSON is valid, but a number has no representation.
            large if large.starts_with("number out of range") => {
                ApiError::validation(format!("The body holds a number that is too large: {large}."))
            }
            other => ApiError::invalid(format!("The body is not JSON: {other}.")),
        })?;
        match value {
            Value::Object(fields) => Ok(Self::new(fields)),
            other => Err(ApiError::validation(format!("The body must be a JSON object, not {}.", type_name(&other)))),
        }
    }

    /// The fields of an object within a body. `name` is what errors call it.
    ///
    /// # Errors
    /// 422 for another type.
    pub fn of(name: &str, value: Value) -> Result<Self> {
        match value {
            Value::Object(fields) => Ok(Self::new(fields)),
            other => Err(wrong_type(name, "an object", &other)),
        }
    }

    /// The fields of a form. An empty one counts as absent, and of several with one name the last counts.
    pub fn of_form(fields: impl Iterator<Item = (String, String)>) -> Self {
        let fields = fields.map(|(name, text)| (name, if text.is_empty() { Value::Null } else { text.into() }));
        Self { of_form: true, ..Self::new(fields.collect()) }
    }

    fn new(left: Map<String, Value>) -> Self {
        Self { left, known: Vec::new(), of_form: false }
    }

    /// True if the field is there, null or not.
    pub fn has(&self, name: &str) -> bool {
        self.left.contains_key(name)
    }

    /// Removes a field. None if it is absent or null.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.known.push(name.to_owned());
        self.left.remove(name).filter(|value| !value.is_null())
    }

    /// Removes a field whose value is no string. A form has it as JSON; what is no JSON stays a string, which is then of the wrong type.
    fn take_typed(&mut self, name: &str) -> Option<Value> {
        match self.take(name)? {
            Value::String(text) if self.of_form => match serde_json::from_str(&text) {
                Ok(Value::Null) => None,
                Ok(value) => Some(value),
                Err(_) => Some(Value::String(text)),
            },
            value => Some(value),
        }
    }

    /// The first field that is left once all known ones were asked for and that asks for something.
    pub fn first_left(&self) -> Option<&str> {
        self.left.iter().find(|(_, value)| !is_off(value)).map(|(name, _)| name.as_str())
    }

    /// A sentence for each field that is left once all known ones were asked for, with the known name that it is most alike.
    pub fn unknown(&self) -> Vec<String> {
        let names = self.left.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name);
        let names: BTreeSet<&String> = names.collect();
        let mut sentences: Vec<String> = names
            .iter()
            .take(MAX_UNKNOWN)
            .map(|name| {
                let meant = self.meant(name).map(|known| format!("; did you mean `{known}`?")).unwrap_or_default();
                format!("`{}` is unknown and was ignored{meant}", shown(name))
            })
            .collect();
        match names.len() {
            0..=MAX_UNKNOWN => {}
            all => sentences.push(format!("{} more fields are unknown and were ignored", all - MAX_UNKNOWN)),
        }
        sentences
    }

    /// Checks that every field was asked for.
    ///
    /// # Errors
    /// 422 for another one.
    pub fn check_all_known(&self) -> Result<()> {
        let Some(name) = self.left.keys().min() else { return Ok(()) };
        let meant = self.meant(name).map(|known| format!("; did you mean `{known}`?")).unwrap_or_default();
        Err(ApiError::validation(format!("`{}` is unknown{meant}", shown(name))))
    }

    /// The known name that an unknown one is most alike, whatever its case and hyphens.
    fn meant(&self, name: &str) -> Option<&str> {
        if name.chars().count() > MAX_UNKNOWN_CHARS {
            return None;
        }
        let plain = |name: &str| name.to_lowercase().replace(['_', '-', ' '], "");
        let likeness = |known: &str| strsim::normalized_damerau_levenshtein(&plain(name), &plain(known));
        let (nearest, alike) =
            self.known.iter().map(|known| (known, likeness(known))).max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        (alike >= ALIKE).then_some(nearest)
    }

    /// A string field.
    ///
    /// # Errors
    /// 422 for another type or a null character.
    pub fn string(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => without_null(name, text).map(Some),
            Some(other) => Err(wrong_type(name, "a string", &other)),
        }
    }

    /// A string field with a length limit, in characters.
    ///
    /// # Errors
    /// As [`Fields::string`], and 422 for a length out of range.
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

    /// A required string field.
    ///
    /// # Errors
    /// 400 if it is absent, 422 if it is null; as [`Fields::string_of`].
    pub fn required_string(&mut self, name: &str, characters: RangeInclusive<usize>) -> Result<String> {
        match self.left.get(name) {
            None => Err(ApiError::invalid(format!("`{name}` is missing."))),
            Some(Value::Null) => Err(ApiError::validation(format!("`{name}` must be a string, not null."))),
            Some(_) => Ok(self.string_of(name, characters)?.unwrap_or_default()),
        }
    }

    /// A boolean field; false if it is absent.
    ///
    /// # Errors
    /// 422 for another type.
    pub fn flag(&mut self, name: &str) -> Result<bool> {
        self.optional_flag(name).map(Option::unwrap_or_default)
    }

    /// A boolean field whose absence is no false.
    ///
    /// # Errors
    /// As [`Fields::flag`].
    pub fn optional_flag(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take_typed(name) {
            None => Ok(None),
            Some(Value::Bool(on)) => Ok(Some(on)),
            Some(other) => Err(wrong_type(name, "true or false", &other)),
        }
    }

    /// An integer field.
    ///
    /// # Errors
    /// 422 for another type or a value out of range.
    pub fn integer(&mut self, name: &str, range: RangeInclusive<i64>) -> Result<Option<i64>> {
        let Some(value) = self.take_typed(name) else { return Ok(None) };
        // JSON counts 60.0 as an integer. Values beyond 64 bits saturate.
        let whole = match &value {
            Value::Number(number) => number
                .as_i64()
                .or_else(|| number.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64)),
            _ => return Err(wrong_type(name, "an integer", &value)),
        };
        match whole {
            Some(whole) if range.contains(&whole) => Ok(Some(whole)),
            _ if value.as_f64().is_some_and(|number| number.fract() != 0.0) => {
                Err(wrong_type(name, "an integer", &value))
            }
            _ => {
                let (from, to) = (range.start(), range.end());
                let bounds = if *to == i64::MAX { format!("at least {from}") } else { format!("{from} to {to}") };
                Err(ApiError::validation(format!("`{name}` must be {bounds}; it is {value}.")))
            }
        }
    }

    /// A number field.
    ///
    /// # Errors
    /// 422 for another type or a value out of range.
    pub fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Result<Option<f64>> {
        let Some(value) = self.take_typed(name) else { return Ok(None) };
        match value.as_f64() {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            Some(number) => {
                let message = format!("`{name}` must be {} to {}; it is {number}.", range.start(), range.end());
                Err(ApiError::validation(message))
            }
            None => Err(wrong_type(name, "a number", &value)),
        }
    }

    /// A field with a list of at most `most` values.
    ///
    /// # Errors
    /// 422 for another type or a longer list.
    pub fn values(&mut self, name: &str, most: usize) -> Result<Option<Vec<Value>>> {
        match self.take_typed(name) {
            None => Ok(None),
            Some(Value::Array(items)) if items.len() > most => {
                Err(ApiError::validation(format!("`{name}` has {} entries; it may have {most}.", items.len())))
            }
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(wrong_type(name, "an array", &other)),
        }
    }

    /// A field with a list of at most `most` strings of at most `characters` each.
    ///
    /// # Errors
    /// 422 for another type, a longer list or a longer string.
    pub fn strings(&mut self, name: &str, most: usize, characters: usize) -> Result<Option<Vec<String>>> {
        let items = match self.take_typed(name) {
            None => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(wrong_type(name, "an array of strings", &other)),
        };
        if items.len() > most {
            return Err(ApiError::validation(format!("`{name}` has {} entries; it may have {most}.", items.len())));
        }
        let strings = items.into_iter().map(|item| match item {
            Value::String(text) if text.chars().count() > characters => Err(ApiError::validation(format!(
                "An entry of `{name}` has {} characters; it may have {characters}.",
                text.chars().count()
            ))),
            Value::String(text) => without_null(name, text),
            other => Err(wrong_type(name, "an array of strings", &other)),
        });
        strings.collect::<Result<_>>().map(Some)
    }
}

/// True for a value that asks for nothing: null, false, zero or empty, also as the text of a query.
fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => {
            text.is_empty() || serde_json::from_str(text).is_ok_and(|value: Value| !value.is_string() && is_off(&value))
        }
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// The beginning of a name, on one line: characters that are not seen are escaped.
fn shown(name: &str) -> String {
    let mut shown = String::new();
    let mut length = 0;
    for character in name.chars() {
        let escaped: String = match character {
            // Letters without a shape.
            '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' => character.escape_unicode().collect(),
            _ => character.escape_debug().collect(),
        };
        length += escaped.chars().count();
        if length >= MAX_UNKNOWN_CHARS {
            shown.push('…');
            break;
        }
        shown += &escaped;
    }
    shown
}

/// Refuses null characters, which PostgreSQL cannot store in text.
fn without_null(name: &str, text: String) -> Result<String> {
    if text.contains('\0') {
        return Err(ApiError::validation(format!("`{name}` must not hold a null character.")));
    }
    Ok(text)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// 422 for a field of the wrong type.
pub fn wrong_type(name: &str, wanted: &str, found: &Value) -> ApiError {
    ApiError::validation(format!("`{name}` must be {wanted}, not {}.", type_name(found)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(body: &str) -> Result<Fields> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, "application/json; charset=utf-8".parse().unwrap())]);
        Fields::parse(&headers, body.as_bytes())
    }

    #[test]
    fn other_bodies_than_json_objects_are_refused() {
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
        assert_eq!(all.strings("l", 5, 9).unwrap_err().status, 422);
        assert!(all.strings("m", 1, 9).unwrap_err().message.contains("2 entries"));
        let mut long = fields(r#"{"k":["äö"],"l":["äöü"]}"#).unwrap();
        assert!(long.strings("k", 5, 2).is_ok());
        assert!(long.strings("l", 5, 2).unwrap_err().message.contains("3 characters"));
        assert_eq!(fields("{}").unwrap().required_string("s", 1..=2).unwrap_err().status, 400);
        assert_eq!(fields(r#"{"s":null}"#).unwrap().required_string("s", 1..=2).unwrap_err().status, 422);
        assert_eq!(fields(r#"{"s":"abc"}"#).unwrap().required_string("s", 1..=2).unwrap_err().status, 422);
    }

    #[test]
    fn a_form_has_values_of_other_types_as_json() {
        let form = |pairs: &[(&str, &str)]| {
            Fields::of_form(pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())))
        };
        let mut all =
            form(&[("s", "true"), ("f", "true"), ("i", "7"), ("l", r#"["a"]"#), ("e", ""), ("n", "null"), ("s", "12")]);
        assert_eq!(all.string("s").unwrap().as_deref(), Some("12"), "a text stays one");
        assert!(all.flag("f").unwrap() && !all.flag("n").unwrap());
        assert_eq!(all.integer("i", 0..=9).unwrap(), Some(7));
        assert_eq!(all.strings("l", 1, 1).unwrap(), Some(vec!["a".to_owned()]));
        assert_eq!(all.string("e").unwrap(), None);
        for (name, text) in [("f", "yes"), ("f", "1"), ("f", "[")] {
            assert_eq!(form(&[(name, text)]).flag("f").unwrap_err().status, 422, "{text}");
        }
        assert_eq!(form(&[("l", "a")]).strings("l", 1, 1).unwrap_err().status, 422);
    }

    #[test]
    fn unknown_fields_are_named_with_what_may_be_meant() {
        let mut few = fields(r#"{"speaker_label":1,"Title":1,"zebra":1,"none":null,"title":"x"}"#).unwrap();
        few.string("title").unwrap();
        few.flag("speaker_labels").unwrap();
        assert_eq!(
            few.unknown(),
            [
                "`Title` is unknown and was ignored; did you mean `title`?",
                "`speaker_label` is unknown and was ignored; did you mean `speaker_labels`?",
                "`zebra` is unknown and was ignored"
            ]
        );
        let many: Map<String, Value> = (0..25).map(|at| (format!("{at:02}{}", "x".repeat(100)), json!(1))).collect();
        let many = Fields::new(many).unknown();
        assert_eq!((many.len(), many[10].as_str()), (11, "15 more fields are unknown and were ignored"));
        assert_eq!(many[0], format!("`00{}…` is unknown and was ignored", "x".repeat(61)));
        assert_eq!(shown("a\n\u{202e}\u{3164}\u{200b}ü語"), "a\\n\\u{202e}\\u{3164}\\u{200b}ü語");
        assert_eq!(shown(&"\0".repeat(99)).chars().count(), 63);
    }
}
