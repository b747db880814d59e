//! Raw HTTP and WebSocket frames, for bytes that a client library does not send.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Opens a connection to a base address.
pub fn connect(base: &str) -> TcpStream {
    let stream = TcpStream::connect(base.trim_start_matches("http://")).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream
}

/// Sends bytes on a new connection and returns everything received until the server closes it.
pub fn exchange(base: &str, request: &[u8]) -> String {
    let mut stream = connect(base);
    // The server may respond and close before the last byte is sent.
    let _ = stream.write_all(request);
    read_to_end(&mut stream)
}

/// Everything received until the server closes the connection.
pub fn read_to_end(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("the connection stays open: {answer:?}"),
        _ => String::from_utf8_lossy(&answer).into_owned(),
    }
}

/// A GET with a key, its target as given.
pub fn get(base: &str, key: &str, target: &[u8]) -> String {
    let mut request = b"GET ".to_vec();
    request.extend_from_slice(target);
    request.extend_from_slice(b" HTTP/1.1\r\nHost: service\r\nConnection: close\r\nAuthorization: Bearer ");
    request.extend_from_slice(key.as_bytes());
    request.extend_from_slice(b"\r\n\r\n");
    exchange(base, &request)
}

/// The status of a response. None where the connection closed without one.
pub fn status(answer: &str) -> Option<u16> {
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

/// The body of a response.
pub fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// The head of a response up to its blank line. The rest stays unread.
pub fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("the head of an answer");
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("a head of text")
}

/// The first bytes of a WebSocket frame: one with the flags and the opcode, then the length that it claims, and whether its
/// payload is masked.
pub fn frame_head(first: u8, length: u64, masked: bool) -> Vec<u8> {
    let mut head = vec![first, u8::from(masked) << 7];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ ..126), _) => head[1] |= short,
        (_, Ok(medium)) => {
            head[1] |= 126;
            head.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            head[1] |= 127;
            head.extend_from_slice(&length.to_be_bytes());
        }
    }
    head
}

/// A WebSocket frame as a client sends it: a byte with the flags and the opcode, and the payload, which is masked.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x5A, 0xC3, 0x0F, 0x99];
    let mut frame = frame_head(first, payload.len() as u64, true);
    frame.extend_from_slice(&MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}
