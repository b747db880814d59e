//! A WebSocket in two halves, each with a task: what comes in goes to one bounded channel, what goes out comes from another.
//! Whoever does not read is not written for, and is not read from.

use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fastwebsockets::{CloseCode, Frame, OpCode, Payload, WebSocketError, WebSocketRead, WebSocketWrite};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The largest message.
const MESSAGE_BYTES: usize = 1 << 20;
/// Messages that wait on either side, or parts of them.
const WAITING: usize = 64;
/// A longer binary message is passed on in parts, so that what waits is little.
const PART_BYTES: usize = 16 << 10;
/// A client that takes nothing for so long is gone.
const STALLED: Duration = Duration::from_secs(30);
/// How long a client may take to answer a close.
const CLOSING: Duration = Duration::from_secs(2);

/// What a client sends.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Bytes of a binary message, or of a part of one.
    Binary(Bytes),
    Text(String),
    Ping(Bytes),
    /// It closes the connection, with a code or without.
    Close(Option<u16>),
    /// It is gone.
    Gone,
    /// It broke the protocol: the connection is to be closed with this code.
    Broken(u16),
}

/// What a client is sent.
#[derive(Debug)]
pub enum Outgoing {
    Text(String),
    Pong(Bytes),
    Close(u16, &'static str),
}

/// The session's end of a socket.
pub struct Socket {
    incoming: mpsc::Receiver<Incoming>,
    outgoing: mpsc::Sender<Outgoing>,
    /// Reads; with nobody to read for it ends, whatever the client does.
    receiving: Option<JoinHandle<()>>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(receiving) = self.receiving.take() {
            receiving.abort();
        }
    }
}

impl Socket {
    /// Takes over a connection whose handshake is done.
    pub fn new<S>(socket: fastwebsockets::WebSocket<S>) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let raw = OnceLock::new();
        let (mut read, write) = socket.split(|stream| {
            let (read, write) = tokio::io::split(stream);
            let read = Reading(Arc::new(Mutex::new(read)));
            let _ = raw.set(read.clone());
            (read, write)
        });
        read.set_auto_close(false);
        read.set_auto_pong(false);
        // The library's limit is the first length that is too much.
        read.set_max_message_size(MESSAGE_BYTES + 1);
        let (incoming_tx, incoming) = mpsc::channel(WAITING);
        let (outgoing, outgoing_rx) = mpsc::channel(WAITING);
        let receiving = raw.into_inner().map(|raw| tokio::spawn(receive(read, raw, incoming_tx)));
        tokio::spawn(send(write, outgoing_rx));
        Self { incoming, outgoing, receiving }
    }

    /// The next message. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Incoming {
        self.incoming.recv().await.unwrap_or(Incoming::Gone)
    }

    /// Sends a message; false if the client does not take it, or is gone.
    pub async fn send(&self, message: Outgoing) -> bool {
        matches!(tokio::time::timeout(STALLED, self.outgoing.send(message)).await, Ok(Ok(())))
    }

    /// Sends a message that the next one of its kind replaces: left out if the client is behind.
    pub fn offer(&self, message: Outgoing) {
        let _ = self.outgoing.try_send(message);
    }

    /// Closes the connection, and gives the client a moment to agree.
    pub async fn close(mut self, code: u16, reason: &'static str) {
        if self.send(Outgoing::Close(code, reason)).await {
            let agreed = async { while !matches!(self.next().await, Incoming::Close(_) | Incoming::Gone) {} };
            let _ = tokio::time::timeout(CLOSING, agreed).await;
        }
    }
}

async fn receive<S: AsyncRead>(mut read: WebSocketRead<Reading<S>>, raw: Reading<S>, to: mpsc::Sender<Incoming>) {
    let mut message = Message::None;
    loop {
        // Nothing is owed to the client: pings and closes come through as frames.
        let mut owed = |_| async { Ok::<(), std::convert::Infallible>(()) };
        let incoming = match read.read_frame(&mut owed).await {
            Ok(mut frame) => match is_masked(&mut frame) {
                true => message.take(&frame),
                false => Some(Incoming::Broken(CloseCode::Protocol.into())),
            },
            Err(error) => Some(failed(&error)),
        };
        let Some(incoming) = incoming else { continue };
        let broken = matches!(incoming, Incoming::Broken(_));
        let last = broken || matches!(incoming, Incoming::Close(_) | Incoming::Gone);
        if !pass_on(&to, incoming).await || last {
            if broken {
                let _ = tokio::time::timeout(CLOSING, drain(raw)).await;
            }
            return;
        }
    }
}

/// False if nobody takes it any more.
async fn pass_on(to: &mpsc::Sender<Incoming>, incoming: Incoming) -> bool {
    let Incoming::Binary(mut bytes) = incoming else { return to.send(incoming).await.is_ok() };
    while !bytes.is_empty() {
        let part = bytes.split_to(bytes.len().min(PART_BYTES));
        if to.send(Incoming::Binary(part)).await.is_err() {
            return false;
        }
    }
    true
}

/// Takes what a client still sends after it broke the protocol: a connection that is dropped with something unread is reset,
/// and the client would never see why.
async fn drain<S: AsyncRead>(mut raw: Reading<S>) {
    let mut unread = [0; 16 << 10];
    while raw.read(&mut unread).await.is_ok_and(|read| read > 0) {}
}

/// Whether a frame came masked, as all of a client's must. The library undoes the mask and keeps it, for the header alone.
fn is_masked(frame: &mut Frame) -> bool {
    let mut head = [0; 16];
    frame.fmt_head(&mut head);
    head[1] & 0x80 != 0
}

/// The reading half of a connection, which can still be read once the frames on it make no sense any more.
struct Reading<S>(Arc<Mutex<ReadHalf<S>>>);

impl<S> Clone for Reading<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: AsyncRead> AsyncRead for Reading<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).poll_read(context, into)
    }
}

fn failed(error: &WebSocketError) -> Incoming {
    match error {
        WebSocketError::FrameTooLarge => Incoming::Broken(CloseCode::Size.into()),
        WebSocketError::ConnectionClosed | WebSocketError::UnexpectedEOF | WebSocketError::IoError(_) => Incoming::Gone,
        WebSocketError::InvalidUTF8 => Incoming::Broken(CloseCode::Invalid.into()),
        _ => Incoming::Broken(CloseCode::Protocol.into()),
    }
}

/// What a close frame says.
fn closed(payload: &[u8]) -> Incoming {
    match payload {
        [] => Incoming::Close(None),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            let allowed = CloseCode::from(code).is_allowed() && std::str::from_utf8(reason).is_ok();
            if allowed { Incoming::Close(Some(code)) } else { Incoming::Broken(CloseCode::Protocol.into()) }
        }
        [_] => Incoming::Broken(CloseCode::Protocol.into()),
    }
}

/// The message that frames are part of.
#[derive(Debug)]
enum Message {
    None,
    /// Of which so many bytes went on already.
    Binary(usize),
    Text(Vec<u8>),
}

impl Message {
    /// Takes a frame in; what there is to pass on.
    fn take(&mut self, frame: &Frame) -> Option<Incoming> {
        let protocol = Some(Incoming::Broken(CloseCode::Protocol.into()));
        let payload: &[u8] = &frame.payload;
        match frame.opcode {
            OpCode::Ping => return Some(Incoming::Ping(Bytes::copy_from_slice(payload))),
            OpCode::Pong => return None,
            OpCode::Close => return Some(closed(payload)),
            OpCode::Binary | OpCode::Text if !matches!(self, Self::None) => return protocol,
            OpCode::Binary => *self = Self::Binary(0),
            OpCode::Text => *self = Self::Text(Vec::new()),
            OpCode::Continuation => {}
        }
        let length = match self {
            Self::None => return protocol,
            Self::Binary(length) => *length,
            Self::Text(text) => text.len(),
        };
        if length + payload.len() > MESSAGE_BYTES {
            return Some(Incoming::Broken(CloseCode::Size.into()));
        }
        match self {
            // Audio is of use as it comes.
            Self::Binary(length) => {
                *length += payload.len();
                if frame.fin {
                    *self = Self::None;
                }
                (!payload.is_empty()).then(|| Incoming::Binary(Bytes::copy_from_slice(payload)))
            }
            Self::Text(text) => {
                text.extend_from_slice(payload);
                if !frame.fin {
                    return None;
                }
                let text = std::mem::take(text);
                *self = Self::None;
                Some(match String::from_utf8(text) {
                    Ok(text) => Incoming::Text(text),
                    Err(_) => Incoming::Broken(CloseCode::Invalid.into()),
                })
            }
            Self::None => protocol,
        }
    }
}

async fn send<S: AsyncWrite + Unpin>(mut write: WebSocketWrite<WriteHalf<S>>, mut from: mpsc::Receiver<Outgoing>) {
    while let Some(message) = from.recv().await {
        let closes = matches!(message, Outgoing::Close(..));
        let frame = match message {
            Outgoing::Text(text) => Frame::text(Payload::Owned(text.into_bytes())),
            Outgoing::Pong(payload) => Frame::pong(Payload::Owned(payload.into())),
            Outgoing::Close(code, reason) => Frame::close(code, reason.as_bytes()),
        };
        // A client that reads nothing would hold this connection for as long as it likes.
        if !matches!(tokio::time::timeout(STALLED, write.write_frame(frame)).await, Ok(Ok(()))) || closes {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(fin: bool, opcode: OpCode, payload: &[u8]) -> Frame<'static> {
        Frame::new(fin, opcode, None, Payload::Owned(payload.to_vec()))
    }

    #[test]
    fn binary_parts_go_on_as_they_come_and_text_when_it_is_whole() {
        let mut message = Message::None;
        assert_eq!(message.take(&frame(false, OpCode::Binary, b"ab")), Some(Incoming::Binary("ab".into())));
        assert_eq!(message.take(&frame(true, OpCode::Ping, b"x")), Some(Incoming::Ping("x".into())));
        assert_eq!(message.take(&frame(true, OpCode::Continuation, b"c")), Some(Incoming::Binary("c".into())));
        assert_eq!(message.take(&frame(false, OpCode::Text, b"a")), None);
        assert_eq!(message.take(&frame(true, OpCode::Continuation, b"b")), Some(Incoming::Text("ab".into())));
        assert_eq!(message.take(&frame(true, OpCode::Binary, b"")), None);
    }

    #[tokio::test]
    async fn a_long_message_is_passed_on_in_parts() {
        let message: Vec<u8> = (0..PART_BYTES * 2 + 3).map(|at| at as u8).collect();
        let (to, mut from) = mpsc::channel(3);
        assert!(pass_on(&to, Incoming::Binary(message.clone().into())).await);
        drop(to);
        let mut parts = Vec::new();
        while let Some(Incoming::Binary(part)) = from.recv().await {
            parts.push(part);
        }
        assert_eq!(parts.iter().map(Bytes::len).collect::<Vec<_>>(), [PART_BYTES, PART_BYTES, 3]);
        assert_eq!(parts.concat(), message);
    }

    #[test]
    fn what_breaks_the_protocol_is_told_by_its_code() {
        let broken = |frames: &[Frame]| {
            let mut message = Message::None;
            frames.iter().filter_map(|frame| message.take(frame)).last()
        };
        let whole = vec![0; MESSAGE_BYTES];
        for (frames, code) in [
            (vec![frame(true, OpCode::Continuation, b"a")], 1002),
            (vec![frame(false, OpCode::Binary, b"a"), frame(true, OpCode::Text, b"a")], 1002),
            (vec![frame(true, OpCode::Text, b"\xff")], 1007),
            (vec![frame(false, OpCode::Binary, &whole), frame(true, OpCode::Continuation, b"a")], 1009),
            (vec![frame(false, OpCode::Text, &whole), frame(true, OpCode::Continuation, b"a")], 1009),
        ] {
            assert_eq!(broken(&frames), Some(Incoming::Broken(code)));
        }
        assert!(matches!(broken(&[frame(true, OpCode::Binary, &whole)]), Some(Incoming::Binary(_))));
    }
}
