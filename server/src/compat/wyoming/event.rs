//! Events on the wire: a line of JSON, then as many bytes of JSON data and of payload as it announces.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};

use crate::http::response::{ApiError, Result};
use crate::http::transfer::TransferLimits;

/// Limits of one event. Texts come as data, audio as payload.
const MAX_LINE_BYTES: usize = 64 << 10;
const MAX_DATA_BYTES: usize = 512 << 10;
const MAX_PAYLOAD_BYTES: usize = 1 << 20;

/// Room for one read.
const READ_BYTES: usize = 16 << 10;

/// An event.
#[derive(Debug, Default, PartialEq)]
pub struct Event {
    pub kind: String,
    pub data: Map<String, Value>,
    pub payload: Bytes,
}

impl Event {
    pub fn new(kind: &str, data: Value) -> Self {
        let Value::Object(data) = data else { return Self { kind: kind.into(), ..Self::default() } };
        Self { kind: kind.into(), data, payload: Bytes::new() }
    }

    pub fn error(error: &ApiError) -> Self {
        Self::new("error", json!({ "text": error.message, "code": error.code }))
    }

    /// The data as a type of this event's.
    ///
    /// # Errors
    /// For a field that is missing or of another type.
    pub fn parse<T: for<'a> Deserialize<'a>>(self) -> Result<T> {
        let wrong = |error| ApiError::invalid(format!("The data of `{}` is wrong: {error}.", self.kind));
        T::deserialize(Value::Object(self.data)).map_err(wrong)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut line = json!({ "type": self.kind, "version": env!("CARGO_PKG_VERSION") });
        let data = if self.data.is_empty() { String::new() } else { Value::from(self.data.clone()).to_string() };
        for (name, length) in [("data_length", data.len()), ("payload_length", self.payload.len())] {
            if length > 0 {
                line[name] = length.into();
            }
        }
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        bytes.extend(data.as_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

/// The line of an event.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: String,
    data: Option<Map<String, Value>>,
    data_length: Option<usize>,
    payload_length: Option<usize>,
}

/// Reads events.
pub struct EventReader<R> {
    from: R,
    buffer: BytesMut,
    /// Bytes of the buffer without an end of line.
    searched: usize,
    /// The line whose bytes are still to come.
    head: Option<Head>,
}

impl<R: AsyncRead + Unpin> EventReader<R> {
    pub fn new(from: R) -> Self {
        Self { from, buffer: BytesMut::new(), searched: 0, head: None }
    }

    /// The next event; none if the client has left. Dropping the future loses nothing.
    ///
    /// # Errors
    /// For a line that is no event, and one that is too long. The following bytes have no meaning then.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.buffered()? {
                return Ok(Some(event));
            }
            self.buffer.reserve(READ_BYTES);
            if !self.from.read_buf(&mut self.buffer).await.is_ok_and(|read| read > 0) {
                return Ok(None);
            }
        }
    }

    /// Reads and drops what the client still sends. Closing a connection with unread bytes resets it, and the client would not receive the
    /// last event.
    pub async fn discard(&mut self) {
        self.buffer.clear();
        while self.from.read_buf(&mut self.buffer).await.is_ok_and(|read| read > 0) {
            self.buffer.clear();
        }
    }

    fn buffered(&mut self) -> Result<Option<Event>> {
        if self.head.is_none() {
            let Some(line) = self.line()? else { return Ok(None) };
            self.head = Some(head(&line)?);
        }
        let lengths = |head: &Head| (head.data_length.unwrap_or(0), head.payload_length.unwrap_or(0));
        let Some(head) = self.head.take_if(|head| {
            let (data, payload) = lengths(head);
            self.buffer.len() >= data + payload
        }) else {
            return Ok(None);
        };
        let (data_bytes, payload_bytes) = lengths(&head);
        let data = self.buffer.split_to(data_bytes);
        let payload = self.buffer.split_to(payload_bytes).freeze();
        let mut event = Event { kind: head.kind, data: head.data.unwrap_or_default(), payload };
        if !data.is_empty() {
            let more: Map<String, Value> = serde_json::from_slice(&data).map_err(|error| no_event("data", &error))?;
            event.data.extend(more);
        }
        Ok(Some(event))
    }

    /// The next line, without its end.
    fn line(&mut self) -> Result<Option<BytesMut>> {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n').map(|at| self.searched + at);
        self.searched = if end.is_some() { 0 } else { self.buffer.len() };
        if end.unwrap_or(self.buffer.len()) > MAX_LINE_BYTES {
            return Err(too_long("line", MAX_LINE_BYTES));
        }
        let Some(end) = end else { return Ok(None) };
        let mut line = self.buffer.split_to(end + 1);
        line.truncate(end);
        Ok(Some(line))
    }
}

fn head(line: &[u8]) -> Result<Head> {
    let head: Head = serde_json::from_slice(line).map_err(|error| no_event("line", &error))?;
    for (name, length, most) in
        [("data", head.data_length, MAX_DATA_BYTES), ("payload", head.payload_length, MAX_PAYLOAD_BYTES)]
    {
        if length.is_some_and(|length| length > most) {
            return Err(too_long(name, most));
        }
    }
    Ok(head)
}

fn no_event(part: &str, error: &serde_json::Error) -> ApiError {
    ApiError::invalid(format!("The {part} is not that of an event, a JSON object with its `type`: {error}."))
}

fn too_long(part: &str, most: usize) -> ApiError {
    let message = format!("The {part} of an event has at most {most} bytes; send audio and text in several events.");
    ApiError::new(hyper::StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
}

/// Writes events, within the limits of a transfer.
pub struct EventWriter<W> {
    to: W,
    limits: TransferLimits,
    /// Bytes that were written, and the time in which the client took them.
    sent: u64,
    waited: Duration,
}

impl<W: AsyncWrite + Unpin> EventWriter<W> {
    pub fn new(to: W, limits: TransferLimits) -> Self {
        Self { to, limits, sent: 0, waited: Duration::ZERO }
    }

    /// Writes an event. False if the client has left or is too slow.
    pub async fn write(&mut self, event: &Event) -> bool {
        let (bytes, began) = (event.bytes(), Instant::now());
        self.sent += bytes.len() as u64;
        let left = self.limits.longest(self.sent).saturating_sub(self.waited);
        let written = timeout(left, self.to.write_all(&bytes)).await;
        self.waited += began.elapsed();
        matches!(written, Ok(Ok(())))
    }

    /// Ends the sending side.
    pub async fn shutdown(&mut self) {
        let _ = self.to.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> Vec<Result<Event>> {
        let mut reader = EventReader::new(bytes);
        let mut events = Vec::new();
        while let Some(event) = reader.next().await.transpose() {
            let is_broken = event.is_err();
            events.push(event);
            if is_broken {
                break;
            }
        }
        events
    }

    #[tokio::test]
    async fn events_survive_the_wire_in_parts_of_any_size() {
        let mut chunk = Event::new("audio-chunk", json!({ "rate": 16_000, "text": "é\n" }));
        chunk.payload = Bytes::from_static(b"{\n\0\xff");
        let sent = [Event::new("describe", Value::Null), chunk, Event::new("ping", json!({ "text": "a" }))];
        let bytes: Vec<u8> = sent.iter().flat_map(Event::bytes).collect();
        for size in [1, 7, bytes.len()] {
            let (mut to, from) = tokio::io::duplex(size);
            let bytes = bytes.clone();
            tokio::spawn(async move { to.write_all(&bytes).await });
            let mut reader = EventReader::new(from);
            for event in &sent {
                assert_eq!(reader.next().await.unwrap().as_ref(), Some(event), "parts of {size}");
            }
            assert_eq!(reader.next().await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn data_of_the_line_and_behind_it_are_one() {
        let events = read(b"{\"type\":\"a\",\"data\":{\"x\":1,\"y\":1},\"data_length\":7}\n{\"y\":2}").await;
        assert_eq!(events, [Ok(Event::new("a", json!({ "x": 1, "y": 2 })))]);
        let events = read(b"{\"type\":\"a\",\"data\":null,\"data_length\":null,\"payload_length\":0}\n").await;
        assert_eq!(events, [Ok(Event::new("a", Value::Null))]);
    }

    #[tokio::test]
    async fn what_is_no_event_is_refused_before_its_bytes_are_kept() {
        let endless = vec![b' '; MAX_LINE_BYTES + 1];
        for (bytes, code) in [
            (b"GET / HTTP/1.1\r\n".as_slice(), "invalid_request"),
            (b"[]\n", "invalid_request"),
            (b"{}\n", "invalid_request"),
            (b"\n", "invalid_request"),
            (b"{\"type\":\"a\",\"data_length\":-1}\n", "invalid_request"),
            (b"{\"type\":\"a\",\"data_length\":2}\n[]", "invalid_request"),
            (b"{\"type\":\"a\",\"data_length\":524289}\n", "payload_too_large"),
            (b"{\"type\":\"a\",\"payload_length\":18446744073709551615}\n", "payload_too_large"),
            (&endless, "payload_too_large"),
        ] {
            let events = read(bytes).await;
            let codes: Vec<_> = events.iter().map(|event| event.as_ref().map_err(|error| error.code)).collect();
            assert_eq!(codes, [Err(code)], "{}", String::from_utf8_lossy(&bytes[..bytes.len().min(80)]));
        }
    }
}
