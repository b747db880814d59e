//! Messages of JSON-RPC, and the versions of the protocol.
//!
//! Versions up to 2025-11-25 begin with a handshake, which needs no memory here. Since 2026-07-28 each request names its version and repeats
//! its method and its name in headers, which must agree with it.

use data_encoding::BASE64;
use hyper::header::HeaderMap;
use hyper::{StatusCode, header};
use serde_json::{Map, Value, json};

use crate::http::body::Fields;
use crate::http::response::{ApiError, Response, json as json_response};

/// The version without a handshake.
pub const STATELESS: &str = "2026-07-28";
/// The versions with one, newest first.
pub const WITH_HANDSHAKE: [&str; 2] = ["2025-11-25", "2025-06-18"];
pub const VERSIONS: [&str; 3] = [STATELESS, WITH_HANDSHAKE[0], WITH_HANDSHAKE[1]];

/// Fields of a request's `_meta`.
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The longest method that is looked up.
const MAX_METHOD_CHARS: usize = 100;

/// Codes of errors.
pub const PARSE_ERROR: i32 = -32_700;
pub const INVALID_REQUEST: i32 = -32_600;
const METHOD_NOT_FOUND: i32 = -32_601;
pub const INVALID_PARAMS: i32 = -32_602;
pub const INTERNAL_ERROR: i32 = -32_603;
const OLD_RESOURCE_NOT_FOUND: i32 = -32_002;
const HEADER_MISMATCH: i32 = -32_020;
const UNSUPPORTED_VERSION: i32 = -32_022;

/// The way in which a client and the service agree on a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Handshake,
    Stateless,
}

/// A request, or a notification, which has no id.
#[derive(Debug)]
pub struct Message {
    pub id: Option<Value>,
    pub method: String,
    pub params: Map<String, Value>,
}

/// An error in the protocol's form.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub status: StatusCode,
    pub code: i32,
    pub message: String,
    pub data: Option<Box<Value>>,
}

impl Refusal {
    /// The error of a request that cannot be read. Its status is 400.
    fn malformed(code: i32, message: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code, message: message.into(), data: None }
    }

    /// The error of a request that was read.
    pub fn of(code: i32, message: impl Into<String>) -> Self {
        Self { status: StatusCode::OK, ..Self::malformed(code, message) }
    }

    pub fn unknown_method(era: Era, method: &str) -> Self {
        let status = if era == Era::Stateless { StatusCode::NOT_FOUND } else { StatusCode::OK };
        Self { status, ..Self::of(METHOD_NOT_FOUND, format!("There is no method {method:?}.")) }
    }

    pub fn no_resource(era: Era, uri: &str) -> Self {
        let code = if era == Era::Stateless { INVALID_PARAMS } else { OLD_RESOURCE_NOT_FOUND };
        let message = "There is no such resource; resources/list names those of the account.";
        Self { data: Some(Box::new(json!({ "uri": uri }))), ..Self::of(code, message) }
    }

    fn unsupported_version(requested: &str) -> Self {
        let message = format!("The protocol's version must be one of {}.", VERSIONS.join(", "));
        let data = json!({ "supported": VERSIONS, "requested": requested });
        Self { data: Some(Box::new(data)), ..Self::malformed(UNSUPPORTED_VERSION, message) }
    }

    /// The response to a request of this id.
    pub fn response(&self, id: Option<Value>) -> Response {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = (**data).clone();
        }
        let mut body = json!({ "jsonrpc": "2.0", "error": error });
        if let Some(id) = id {
            body["id"] = id;
        }
        let mut response = json_response(&body);
        *response.status_mut() = self.status;
        response
    }
}

impl From<ApiError> for Refusal {
    /// The error of a body, with its status.
    fn from(error: ApiError) -> Self {
        Self { status: error.status, ..Self::malformed(INVALID_REQUEST, error.message) }
    }
}

/// Reads one message.
///
/// # Errors
/// 400 for what is no message and for a batch, 415 for another content type; with the id, if that can be read.
pub fn parse(headers: &HeaderMap, bytes: &[u8]) -> Result<Message, (Option<Value>, Refusal)> {
    let fields = Fields::parse(headers, bytes).map_err(|error| match error.status {
        StatusCode::BAD_REQUEST => Refusal::malformed(PARSE_ERROR, error.message),
        StatusCode::UNPROCESSABLE_ENTITY => {
            Refusal::malformed(INVALID_REQUEST, "Send one message a request, as a JSON object; batches are not taken.")
        }
        _ => error.into(),
    });
    let mut fields = fields.map_err(|refusal| (None, refusal))?;
    let has_id = fields.has("id");
    let id = fields.take("id").filter(|id| id.is_string() || id.is_i64() || id.is_u64());
    let refuse = |message: &str| Err((id.clone(), Refusal::malformed(INVALID_REQUEST, message)));
    if has_id && id.is_none() {
        return refuse("`id` must be a string or an integer.");
    }
    if fields.take("jsonrpc") != Some(json!("2.0")) {
        return refuse("`jsonrpc` must be \"2.0\".");
    }
    let method = match fields.required_string("method", 1..=MAX_METHOD_CHARS) {
        Ok(method) => method,
        Err(error) => return refuse(&error.message),
    };
    let params = match fields.take("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return refuse("`params` must be an object."),
    };
    Ok(Message { id, method, params })
}

/// Finds out how the client has agreed on a version, and checks that headers and body are of one request.
///
/// # Errors
/// 400 for an unknown version, and for headers that differ from the body.
pub fn era(headers: &HeaderMap, message: &Message) -> Result<Era, Refusal> {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let meta = message.params.get("_meta");
    let named = meta.and_then(|meta| meta.get(META_VERSION)).map(|version| version.as_str().unwrap_or_default());
    let sent = header("mcp-protocol-version");
    if named.is_none_or(|version| WITH_HANDSHAKE.contains(&version)) {
        return match sent {
            None => Ok(Era::Handshake),
            Some(version) if WITH_HANDSHAKE.contains(&version) => Ok(Era::Handshake),
            Some(STATELESS) => {
                Err(Refusal::malformed(INVALID_PARAMS, format!("`_meta` of `params` lacks `{META_VERSION}`.")))
            }
            Some(version) => Err(Refusal::unsupported_version(version)),
        };
    }
    let named = named.unwrap_or_default();
    let same = |header_name: &str, body: &str| match header(header_name) {
        Some(value) if plain(value).as_deref() == Some(body) => Ok(()),
        found => {
            let found = found.map_or_else(|| "missing".to_owned(), |value| format!("{value:?}"));
            let message = format!("The header `{header_name}` must be {body:?}, as the body has it; it is {found}.");
            Err(Refusal::malformed(HEADER_MISMATCH, message))
        }
    };
    same("MCP-Protocol-Version", named)?;
    if named != STATELESS {
        return Err(Refusal::unsupported_version(named));
    }
    if message.id.is_none() {
        return Ok(Era::Stateless);
    }
    same("Mcp-Method", &message.method)?;
    if let Some(name) = name_of(&message.method, &message.params) {
        same("Mcp-Name", name)?;
    }
    if !meta.is_some_and(|meta| meta[META_CAPABILITIES].is_object()) {
        let message = format!("`_meta` of `params` lacks `{META_CAPABILITIES}`.");
        return Err(Refusal::malformed(INVALID_PARAMS, message));
    }
    Ok(Era::Stateless)
}

/// The name that a request repeats in its headers.
fn name_of<'a>(method: &str, params: &'a Map<String, Value>) -> Option<&'a str> {
    match method {
        "tools/call" => params.get("name")?.as_str(),
        "resources/read" => params.get("uri")?.as_str(),
        _ => None,
    }
}

/// Marks of a header's value that is not plain.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// The value of a header; none if it is not well formed.
fn plain(value: &str) -> Option<String> {
    match value.strip_prefix(ENCODED.0).and_then(|rest| rest.strip_suffix(ENCODED.1)) {
        Some(encoded) => String::from_utf8(BASE64.decode(encoded.as_bytes()).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

/// The headers that repeat a message, for one that came without.
pub fn headers_of(message: &Value) -> Vec<(&'static str, String)> {
    let Some(version) = message["params"]["_meta"][META_VERSION].as_str() else { return Vec::new() };
    let method = message["method"].as_str().unwrap_or_default();
    let name = message["params"].as_object().and_then(|params| name_of(method, params));
    let encoded = |value: &str| {
        let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && value.trim() == value;
        match is_plain && !value.starts_with(ENCODED.0) {
            true => value.to_owned(),
            false => format!("{}{}{}", ENCODED.0, BASE64.encode(value.as_bytes()), ENCODED.1),
        }
    };
    let named = name.map(|name| ("mcp-name", encoded(name)));
    [("mcp-protocol-version", encoded(version)), ("mcp-method", encoded(method))].into_iter().chain(named).collect()
}

/// The origin of the page that sends a request, if one does.
pub fn origin(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        headers
    }

    fn message(body: &Value) -> Message {
        parse(&sent(&[]), body.to_string().as_bytes()).unwrap()
    }

    fn stateless(method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({ META_VERSION: STATELESS, META_CAPABILITIES: {} });
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for (body, code) in [
            ("{", PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            ("7", INVALID_REQUEST),
            ("{}", INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":3}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, INVALID_REQUEST),
        ] {
            let (id, refusal) = parse(&sent(&[]), body.as_bytes()).unwrap_err();
            assert_eq!(id.is_some(), body.contains(r#""id":1,"#), "{body}");
            assert_eq!((refusal.code, refusal.status), (code, StatusCode::BAD_REQUEST), "{body}");
        }
        assert_eq!(parse(&sent(&[]), b"\"\xff\"").unwrap_err().1.code, PARSE_ERROR);
        assert_eq!(parse(&HeaderMap::new(), b"{}").unwrap_err().1.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }

    #[test]
    fn headers_agree_with_the_body() {
        let uri = "auricle://transcripts/ä";
        let body = stateless("resources/read", json!({ "uri": uri }));
        let own: Vec<_> = headers_of(&body);
        assert_eq!(own[2].1, "=?base64?YXVyaWNsZTovL3RyYW5zY3JpcHRzL8Ok?=");
        let headers: Vec<(&'static str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(era(&sent(&headers), &message(&body)), Ok(Era::Stateless));
        for (name, value, code) in [
            ("mcp-method", "resources/list", HEADER_MISMATCH),
            ("mcp-name", "=?base64?!?=", HEADER_MISMATCH),
            ("mcp-protocol-version", "2025-11-25", HEADER_MISMATCH),
        ] {
            let mut headers = sent(&headers);
            headers.insert(name, value.parse().unwrap());
            assert_eq!(era(&headers, &message(&body)).unwrap_err().code, code, "{name}");
            headers.remove(name);
            assert_eq!(era(&headers, &message(&body)).unwrap_err().code, HEADER_MISMATCH, "{name}");
        }
    }

    #[test]
    fn an_unknown_version_is_refused_by_name() {
        let ping = message(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
        let of = |version: &str| era(&sent(&[("mcp-protocol-version", version)]), &ping);
        assert_eq!(era(&sent(&[]), &ping), Ok(Era::Handshake));
        assert_eq!((of("2025-11-25"), of("2025-06-18")), (Ok(Era::Handshake), Ok(Era::Handshake)));
        assert_eq!(of(STATELESS).unwrap_err().code, INVALID_PARAMS, "the body names no version");
        let unknown = of("2027-01-01").unwrap_err();
        assert_eq!((unknown.code, unknown.status), (UNSUPPORTED_VERSION, StatusCode::BAD_REQUEST));
        assert_eq!(unknown.data.unwrap()["supported"][0], STATELESS);
        let mut bare = stateless("tools/list", json!({}));
        bare["params"]["_meta"].as_object_mut().unwrap().remove(META_CAPABILITIES);
        let headers = sent(&[("mcp-protocol-version", STATELESS), ("mcp-method", "tools/list")]);
        assert_eq!(era(&headers, &message(&bare)).unwrap_err().code, INVALID_PARAMS);
        let newer =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "x", "params": { "_meta": { META_VERSION: "2099-01-01" } } });
        let headers = sent(&[("mcp-protocol-version", "2099-01-01")]);
        assert_eq!(era(&headers, &message(&newer)).unwrap_err().code, UNSUPPORTED_VERSION);
    }
}
