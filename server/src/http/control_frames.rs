//! Floods of HTTP/2 frames that carry no request: SETTINGS, PING, WINDOW_UPDATE and the like. Each is cheap, and nothing in the protocol
//! bounds their number. A connection has a budget of them, which grows with time and with what passes on it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// The first bytes of a connection of HTTP/2.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The bytes of a frame's head: the length of its payload in three, the type in one, flags and stream in the others.
const HEAD_BYTES: usize = 9;

/// The frames that carry requests.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

/// The largest budget, with which a connection begins, and the frames that a second adds.
const MOST: f64 = 1000.0;
const PER_SECOND: f64 = 100.0;

/// A client may send one frame more for so many bytes that it gets: it opens its windows as it reads.
const BYTES_PER_FRAME: f64 = 64.0;

/// A socket whose client is cut off when it floods the connection.
pub struct Guarded<S> {
    socket: S,
    budget: Budget,
}

impl<S> Guarded<S> {
    pub fn new(socket: S) -> Self {
        Self { socket, budget: Budget::new(Instant::now()) }
    }
}

/// The place in what a client sends.
enum Position {
    /// So many bytes of the preface have come.
    Preface(usize),
    /// So many bytes of a frame's head have come.
    Head([u8; HEAD_BYTES], usize),
    /// So many bytes of a payload have yet to come.
    Payload(usize),
    /// The connection is not HTTP/2.
    Other,
}

struct Budget {
    position: Position,
    frames: f64,
    filled: Instant,
}

impl Budget {
    fn new(now: Instant) -> Self {
        Self { position: Position::Preface(0), frames: MOST, filled: now }
    }

    /// Counts the frames in bytes that a client has sent. False once they are too many.
    fn received(&mut self, mut bytes: &[u8], now: Instant) -> bool {
        while let Some((&byte, rest)) = bytes.split_first() {
            bytes = rest;
            match &mut self.position {
                Position::Other => return true,
                Position::Preface(at) if byte == PREFACE[*at] => {
                    *at += 1;
                    if *at == PREFACE.len() {
                        self.position = Position::Head([0; HEAD_BYTES], 0);
                    }
                }
                Position::Preface(_) => self.position = Position::Other,
                Position::Head(head, filled) => {
                    head[*filled] = byte;
                    *filled += 1;
                    if *filled == HEAD_BYTES {
                        let [long, middle, short, kind, ..] = *head;
                        self.position = Self::payload(u32::from_be_bytes([0, long, middle, short]) as usize);
                        if !self.count(kind, now) {
                            return false;
                        }
                    }
                }
                Position::Payload(left) => {
                    let (left, more) = (*left - 1, bytes.len().min(*left - 1));
                    bytes = &bytes[more..];
                    self.position = Self::payload(left - more);
                }
            }
        }
        true
    }

    fn payload(left: usize) -> Position {
        if left == 0 { Position::Head([0; HEAD_BYTES], 0) } else { Position::Payload(left) }
    }

    fn count(&mut self, kind: u8, now: Instant) -> bool {
        self.add((now - self.filled).as_secs_f64() * PER_SECOND);
        self.filled = now;
        match kind {
            DATA | HEADERS | CONTINUATION => self.add(1.0),
            _ => self.frames -= 1.0,
        }
        self.frames >= 0.0
    }

    /// Counts bytes that a client was sent.
    fn sent(&mut self, bytes: usize) {
        self.add(bytes as f64 / BYTES_PER_FRAME);
    }

    fn add(&mut self, frames: f64) {
        self.frames = (self.frames + frames).min(MOST);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = into.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(context, into);
        if !this.budget.received(&into.filled()[before..], Instant::now()) {
            metrics::counter!("auricle_connections_flooded_total").increment(1);
            return Poll::Ready(Err(io::Error::other("the client floods the connection with control frames")));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> Guarded<S> {
    fn written(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &written {
            self.budget.sent(*bytes);
        }
        written
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, parts);
        self.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let length = (payload as u32).to_be_bytes();
        let head = [length[1], length[2], length[3], kind, 0, 0, 0, 0, 1];
        [head.as_slice(), &vec![7; payload]].concat()
    }

    #[test]
    fn a_flood_ends_however_its_bytes_are_cut() {
        let flood = [PREFACE.to_vec(), frame(SETTINGS, 0), frame(DATA, 70_000), frame(PING, 8).repeat(2000)].concat();
        // The head of the ping behind the last one that is allowed.
        let end = flood.len() - frame(PING, 8).len() * 1000 + HEAD_BYTES - 1;
        let start = Instant::now();
        for size in [1, 7, 4096, flood.len()] {
            let mut budget = Budget::new(start);
            let read: usize = flood.chunks(size).take_while(|part| budget.received(part, start)).map(<[u8]>::len).sum();
            assert_eq!(read, end / size * size, "{size}");
        }
    }

    #[test]
    fn frames_that_belong_to_a_transfer_are_no_flood() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        assert!(budget.received(&[PREFACE.as_slice(), &frame(SETTINGS, 30), &frame(HEADERS, 40)].concat(), start));
        for _ in 0..100_000 {
            // A client that opens both windows for every small part.
            budget.sent(128);
            assert!(budget.received(&frame(WINDOW_UPDATE, 4).repeat(2), start));
        }
        for second in 0..1000 {
            assert!(budget.received(&frame(PING, 8).repeat(99), start + Duration::from_secs(second)), "a steady rate");
        }
        let mut other = Budget::new(start);
        assert!(other.received(b"PRI / HTTP/1.1\r\n", start) && other.received(&frame(PING, 8).repeat(5000), start));
    }
}
