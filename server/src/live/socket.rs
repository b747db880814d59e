//! A WebSocket with one task per direction. Bounded channels connect both tasks to the session, so a client that does not
//! read is neither buffered for nor read from. The peer of a call has the same channels, and one for its audio track.

use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fastwebsockets::{CloseCode, Frame, OpCode, Payload, WebSocketError, WebSocketRead, WebSocketWrite};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Capacity of each channel, in messages or parts of messages.
const CHANNEL_CAPACITY: usize = 64;
/// Longer binary messages are passed on in parts, which bounds the memory of a channel.
const PART_BYTES: usize = 16 << 10;
/// Longest wait for a client to take a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for a client to answer a close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Limits of a client's messages.
#[derive(Clone, Copy, Debug)]
pub struct MessageLimits {
    /// The largest message.
    bytes: usize,
    /// Messages, or parts of them, that wait for the session.
    waiting: usize,
}

impl MessageLimits {
    pub const SHORT: Self = Self { bytes: 1 << 20, waiting: CHANNEL_CAPACITY };
    /// For minutes of audio within JSON. Few messages wait, which bounds the memory of a connection.
    pub const LONG: Self = Self { bytes: 24 << 20, waiting: 2 };
}

/// A message from the client.
#[derive(Debug, PartialEq)]
pub enum ClientMessage {
    /// A binary message or a part of one.
    Binary(Bytes),
    Text(String),
    /// Samples of a call's track at `VOICE_RATE`, -1 to 1.
    #[cfg_attr(not(feature = "webrtc"), allow(dead_code))]
    Audio(Vec<f32>),
    Ping(Bytes),
    /// A close frame with its optional code.
    Close(Option<u16>),
    /// The connection is lost.
    Disconnected,
    /// The client violated the protocol. The connection must be closed with this code.
    ProtocolError(u16),
}

/// A message to the client.
#[derive(Debug)]
pub enum ServerMessage {
    Text(String),
    Binary(Bytes),
    Pong(Bytes),
    Close(u16, &'static str),
}

/// Audio for the track of a call.
#[derive(Debug)]
#[cfg_attr(not(feature = "webrtc"), allow(dead_code))]
pub enum Playback {
    /// Samples at `VOICE_RATE`, -1 to 1.
    Samples(Vec<f32>),
    /// Samples that are not played yet are dropped.
    Cleared,
}

/// The other side of a call's socket.
#[cfg(feature = "webrtc")]
pub struct CallEnd {
    pub incoming: mpsc::Sender<ClientMessage>,
    pub outgoing: mpsc::Receiver<ServerMessage>,
    pub track: mpsc::Receiver<Playback>,
}

/// The code and reason of a close frame.
pub type CloseFrame = (u16, &'static str);

/// The session's side of a socket.
pub struct Socket {
    incoming: mpsc::Receiver<ClientMessage>,
    outgoing: mpsc::Sender<ServerMessage>,
    /// None for a WebSocket.
    track: Option<mpsc::Sender<Playback>>,
    /// The reading task, aborted with this value.
    receiver: Option<JoinHandle<()>>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(receiver) = self.receiver.take() {
            receiver.abort();
        }
    }
}

impl Socket {
    /// Takes over a connection after its handshake.
    pub fn new<S>(socket: fastwebsockets::WebSocket<S>, limits: MessageLimits) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let raw = OnceLock::new();
        let (mut read, write) = socket.split(|stream| {
            let (read, write) = tokio::io::split(stream);
            let read = SharedReadHalf(Arc::new(Mutex::new(read)));
            let _ = raw.set(read.clone());
            (read, write)
        });
        read.set_auto_close(false);
        read.set_auto_pong(false);
        // The library's limit is exclusive.
        read.set_max_message_size(limits.bytes + 1);
        let (incoming_tx, incoming) = mpsc::channel(limits.waiting);
        let (outgoing, outgoing_rx) = mpsc::channel(CHANNEL_CAPACITY);
        let receiver = raw.into_inner().map(|raw| tokio::spawn(receive(read, raw, limits.bytes, incoming_tx)));
        tokio::spawn(send(write, outgoing_rx));
        Self { incoming, outgoing, track: None, receiver }
    }

    /// The socket of a call, and its other side.
    #[cfg(feature = "webrtc")]
    pub fn of_call() -> (Self, CallEnd) {
        let (to_session, incoming) = mpsc::channel(MessageLimits::LONG.waiting);
        let (outgoing, from_session) = mpsc::channel(CHANNEL_CAPACITY);
        let (track, playbacks) = mpsc::channel(CHANNEL_CAPACITY);
        let socket = Self { incoming, outgoing, track: Some(track), receiver: None };
        (socket, CallEnd { incoming: to_session, outgoing: from_session, track: playbacks })
    }

    /// True for a call: audio goes over its track.
    pub fn has_track(&self) -> bool {
        self.track.is_some()
    }

    /// Plays audio over the track. False without one.
    pub fn play(&self, playback: Playback) -> bool {
        // The peer takes all at once, so that there is room unless it is gone.
        self.track.as_ref().map(|track| track.try_send(playback)).is_some()
    }

    /// The next message. Dropping the future loses no message.
    pub async fn next(&mut self) -> ClientMessage {
        self.incoming.recv().await.unwrap_or(ClientMessage::Disconnected)
    }

    /// Sends a message. False if the client does not take it in time or has disconnected.
    pub async fn send(&self, message: ServerMessage) -> bool {
        matches!(tokio::time::timeout(SEND_TIMEOUT, self.outgoing.send(message)).await, Ok(Ok(())))
    }

    /// Sends a message if the channel has room, else drops it and returns false.
    pub fn try_send(&self, message: ServerMessage) -> bool {
        self.outgoing.try_send(message).is_ok()
    }

    /// Sends a close frame, and waits a short time for the client's.
    pub async fn close(mut self, code: u16, reason: &'static str) {
        if self.send(ServerMessage::Close(code, reason)).await {
            let answered =
                async { while !matches!(self.next().await, ClientMessage::Close(_) | ClientMessage::Disconnected) {} };
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, answered).await;
        }
    }
}

async fn receive<S: AsyncRead>(
    mut read: WebSocketRead<SharedReadHalf<S>>,
    raw: SharedReadHalf<S>,
    most_bytes: usize,
    to: mpsc::Sender<ClientMessage>,
) {
    let mut assembler = MessageAssembler::Idle;
    loop {
        // The library sends nothing by itself: pings and closes arrive here as frames.
        let mut no_reply = |_| async { Ok::<(), std::convert::Infallible>(()) };
        let incoming = match read.read_frame(&mut no_reply).await {
            Ok(mut frame) => match is_masked(&mut frame) {
                true => assembler.push(&frame, most_bytes),
                false => Some(ClientMessage::ProtocolError(CloseCode::Protocol.into())),
            },
            Err(error) => Some(read_error(&error)),
        };
        let Some(incoming) = incoming else { continue };
        let violated = matches!(incoming, ClientMessage::ProtocolError(_));
        let last = violated || matches!(incoming, ClientMessage::Close(_) | ClientMessage::Disconnected);
        if !pass_on(&to, incoming).await || last {
            if violated {
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, drain(raw)).await;
            }
            return;
        }
    }
}

/// Passes a message to the session. False if the session has ended.
async fn pass_on(to: &mpsc::Sender<ClientMessage>, incoming: ClientMessage) -> bool {
    let ClientMessage::Binary(mut bytes) = incoming else { return to.send(incoming).await.is_ok() };
    while !bytes.is_empty() {
        let part = bytes.split_to(bytes.len().min(PART_BYTES));
        if to.send(ClientMessage::Binary(part)).await.is_err() {
            return false;
        }
    }
    true
}

/// Reads and drops further bytes after a protocol violation. Closing a connection with unread bytes resets it, and the client
/// would not receive the close frame.
async fn drain<S: AsyncRead>(mut raw: SharedReadHalf<S>) {
    let mut unread = [0; 16 << 10];
    while raw.read(&mut unread).await.is_ok_and(|read| read > 0) {}
}

/// Tells if a frame was masked, as every frame of a client must be. The library keeps the mask after applying it.
fn is_masked(frame: &mut Frame) -> bool {
    let mut head = [0; 16];
    frame.fmt_head(&mut head);
    head[1] & 0x80 != 0
}

/// The shared read half of a connection. It is still readable after the WebSocket reader has failed.
struct SharedReadHalf<S>(Arc<Mutex<ReadHalf<S>>>);

impl<S> Clone for SharedReadHalf<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: AsyncRead> AsyncRead for SharedReadHalf<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).poll_read(context, into)
    }
}

fn read_error(error: &WebSocketError) -> ClientMessage {
    match error {
        WebSocketError::FrameTooLarge => ClientMessage::ProtocolError(CloseCode::Size.into()),
        WebSocketError::ConnectionClosed | WebSocketError::UnexpectedEOF | WebSocketError::IoError(_) => {
            ClientMessage::Disconnected
        }
        WebSocketError::InvalidUTF8 => ClientMessage::ProtocolError(CloseCode::Invalid.into()),
        _ => ClientMessage::ProtocolError(CloseCode::Protocol.into()),
    }
}

/// Parses the payload of a close frame.
fn parse_close(payload: &[u8]) -> ClientMessage {
    match payload {
        [] => ClientMessage::Close(None),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            let allowed = CloseCode::from(code).is_allowed() && std::str::from_utf8(reason).is_ok();
            if allowed {
                ClientMessage::Close(Some(code))
            } else {
                ClientMessage::ProtocolError(CloseCode::Protocol.into())
            }
        }
        [_] => ClientMessage::ProtocolError(CloseCode::Protocol.into()),
    }
}

/// Assembles messages from frames.
#[derive(Debug)]
enum MessageAssembler {
    Idle,
    /// The bytes of the message that were passed on.
    Binary(usize),
    Text(Vec<u8>),
}

impl MessageAssembler {
    /// Adds a frame. Returns the message or part that can be passed on. A message has at most `most_bytes`.
    fn push(&mut self, frame: &Frame, most_bytes: usize) -> Option<ClientMessage> {
        let protocol = Some(ClientMessage::ProtocolError(CloseCode::Protocol.into()));
        let payload: &[u8] = &frame.payload;
        match frame.opcode {
            OpCode::Ping => return Some(ClientMessage::Ping(Bytes::copy_from_slice(payload))),
            OpCode::Pong => return None,
            OpCode::Close => return Some(parse_close(payload)),
            OpCode::Binary | OpCode::Text if !matches!(self, Self::Idle) => return protocol,
            OpCode::Binary => *self = Self::Binary(0),
            OpCode::Text => *self = Self::Text(Vec::new()),
            OpCode::Continuation => {}
        }
        let length = match self {
            Self::Idle => return protocol,
            Self::Binary(length) => *length,
            Self::Text(text) => text.len(),
        };
        if length + payload.len() > most_bytes {
            return Some(ClientMessage::ProtocolError(CloseCode::Size.into()));
        }
        match self {
            // Audio is passed on before the message is complete.
            Self::Binary(length) => {
                *length += payload.len();
                if frame.fin {
                    *self = Self::Idle;
                }
                (!payload.is_empty()).then(|| ClientMessage::Binary(Bytes::copy_from_slice(payload)))
            }
            Self::Text(text) => {
                text.extend_from_slice(payload);
                if !frame.fin {
                    return None;
                }
                let text = std::mem::take(text);
                *self = Self::Idle;
                Some(match String::from_utf8(text) {
                    Ok(text) => ClientMessage::Text(text),
                    Err(_) => ClientMessage::ProtocolError(CloseCode::Invalid.into()),
                })
            }
            Self::Idle => protocol,
        }
    }
}

async fn send<S: AsyncWrite + Unpin>(mut write: WebSocketWrite<WriteHalf<S>>, mut from: mpsc::Receiver<ServerMessage>) {
    while let Some(message) = from.recv().await {
        let closes = matches!(message, ServerMessage::Close(..));
        let frame = match message {
            ServerMessage::Text(text) => Frame::text(Payload::Owned(text.into_bytes())),
            ServerMessage::Binary(bytes) => Frame::binary(Payload::Owned(bytes.into())),
            ServerMessage::Pong(payload) => Frame::pong(Payload::Owned(payload.into())),
            ServerMessage::Close(code, reason) => Frame::close(code, reason.as_bytes()),
        };
        // The timeout frees the connection of a client that does not read.
        if !matches!(tokio::time::timeout(SEND_TIMEOUT, write.write_frame(frame)).await, Ok(Ok(()))) || closes {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = MessageLimits::SHORT.bytes;

    fn frame(fin: bool, opcode: OpCode, payload: &[u8]) -> Frame<'static> {
        Frame::new(fin, opcode, None, Payload::Owned(payload.to_vec()))
    }

    #[test]
    fn binary_parts_are_passed_on_at_once_and_text_when_complete() {
        let mut message = MessageAssembler::Idle;
        assert_eq!(message.push(&frame(false, OpCode::Binary, b"ab"), MOST), Some(ClientMessage::Binary("ab".into())));
        assert_eq!(message.push(&frame(true, OpCode::Ping, b"x"), MOST), Some(ClientMessage::Ping("x".into())));
        assert_eq!(
            message.push(&frame(true, OpCode::Continuation, b"c"), MOST),
            Some(ClientMessage::Binary("c".into()))
        );
        assert_eq!(message.push(&frame(false, OpCode::Text, b"a"), MOST), None);
        assert_eq!(
            message.push(&frame(true, OpCode::Continuation, b"b"), MOST),
            Some(ClientMessage::Text("ab".into()))
        );
        assert_eq!(message.push(&frame(true, OpCode::Binary, b""), MOST), None);
    }

    #[tokio::test]
    async fn a_long_message_is_passed_on_in_parts() {
        let message: Vec<u8> = (0..PART_BYTES * 2 + 3).map(|at| at as u8).collect();
        let (to, mut from) = mpsc::channel(3);
        assert!(pass_on(&to, ClientMessage::Binary(message.clone().into())).await);
        drop(to);
        let mut parts = Vec::new();
        while let Some(ClientMessage::Binary(part)) = from.recv().await {
            parts.push(part);
        }
        assert_eq!(parts.iter().map(Bytes::len).collect::<Vec<_>>(), [PART_BYTES, PART_BYTES, 3]);
        assert_eq!(parts.concat(), message);
    }

    #[test]
    fn protocol_violations_have_their_close_codes() {
        let violation = |frames: &[Frame]| {
            let mut message = MessageAssembler::Idle;
            frames.iter().filter_map(|frame| message.push(frame, MOST)).last()
        };
        let whole = vec![0; MOST];
        for (frames, code) in [
            (vec![frame(true, OpCode::Continuation, b"a")], 1002),
            (vec![frame(false, OpCode::Binary, b"a"), frame(true, OpCode::Text, b"a")], 1002),
            (vec![frame(true, OpCode::Text, b"\xff")], 1007),
            (vec![frame(false, OpCode::Binary, &whole), frame(true, OpCode::Continuation, b"a")], 1009),
            (vec![frame(false, OpCode::Text, &whole), frame(true, OpCode::Continuation, b"a")], 1009),
        ] {
            assert_eq!(violation(&frames), Some(ClientMessage::ProtocolError(code)));
        }
        assert!(matches!(violation(&[frame(true, OpCode::Binary, &whole)]), Some(ClientMessage::Binary(_))));
    }
}
