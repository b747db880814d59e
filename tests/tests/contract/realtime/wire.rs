//! The realtime endpoint as a WebSocket: the handshake, frames of every length, and bytes that no client would send.

use std::sync::OnceLock;

use auricle_tests::{Answer, Frame, Live, Service, Setup, http, spoken, text_of, turns, wire};
use reqwest::Method;
use serde_json::json;
use tungstenite::{Bytes, Message};

const MIB: usize = 1 << 20;
/// 100 ms at 16 kHz.
const CHUNK: usize = 3200;
/// The first byte of a frame: the last or only one of a message, or not, of a kind.
const BINARY: u8 = 0x82;
const BINARY_BEGINS: u8 = 0x02;
const CONTINUES: u8 = 0x00;
const ENDS: u8 = 0x80;

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::new().start())
}

/// A session that is ready.
fn open(service: &Service) -> Live {
    let mut live = service.account().mint(&json!({})).open();
    live.ready();
    live
}

/// Asserts that the service still holds sessions.
#[track_caller]
fn assert_healthy() {
    let mut live = open(service());
    live.stop();
    assert_eq!(live.rest(), [Frame::Done, Frame::Closed(1000)]);
}

/// The code that a session is closed with.
#[track_caller]
fn closed(live: &mut Live) -> u16 {
    match live.rest().last() {
        Some(Frame::Closed(code)) => *code,
        other => panic!("no end: {other:?}"),
    }
}

#[test]
fn without_an_upgrade_it_is_426() {
    let account = service().account();
    let token = account.mint(&json!({}));
    let path = format!("/v2/realtime/ws?token={}", token.secret());
    let plain = Answer::of(http().get(format!("{}{path}", service().api())));
    let with_key = Answer::of(account.request(Method::GET, "/v2/realtime/ws"));
    for answer in [plain, with_key] {
        assert_eq!(answer.status, 426, "{:?}", answer.body);
        assert!(answer.header("upgrade").unwrap().eq_ignore_ascii_case("websocket"));
        assert!(answer.json()["error"]["message"].is_string());
    }
}

/// The head of the answer to a handshake with these lines.
fn shaken(method: &str, lines: &[&str]) -> String {
    let token = service().account().mint(&json!({}));
    let mut stream = wire::connect(&service().api());
    let target = format!("/v2/realtime/ws?token={}", token.secret());
    let lines = lines.join("\r\n");
    let request = format!("{method} {target} HTTP/1.1\r\nHost: service\r\nContent-Length: 0\r\n{lines}\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    wire::read_head(&mut stream)
}

#[test]
fn the_handshake_is_the_standards() {
    let (up, over) = ("Connection: keep-alive, Upgrade", "Upgrade: WebSocket");
    let (version, key) = ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==");
    // The key and the answer of RFC 6455, section 1.3; a page of any origin may hold a token.
    let head = shaken("GET", &[up, over, version, key, "Origin: https://example.org"]);
    assert_eq!(wire::status(&head), Some(101), "{head}");
    let accept = "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=";
    assert!(head.to_lowercase().contains(accept), "{head}");
    for (method, lines) in [
        ("GET", vec![up, over, version]),
        ("GET", vec![up, over, key]),
        ("GET", vec![up, over, key, "Sec-WebSocket-Version: 8"]),
        ("GET", vec![up, "Upgrade: h2c", version, key]),
        ("POST", vec![up, over, version, key]),
    ] {
        let head = shaken(method, &lines);
        let status = wire::status(&head);
        assert!(status.is_some_and(|status| (400..500).contains(&status)), "{method} {lines:?}: {head}");
    }
    assert_healthy();
}

#[test]
fn a_ping_is_answered_with_its_payload() {
    let mut live = open(service());
    for payload in [&b""[..], b"there?", &[0xFF; 125]] {
        live.ping(payload);
    }
    // An unsolicited pong has no effect.
    assert!(live.try_send(Message::Pong(Bytes::from_static(b"here"))));
    live.ping(b"still?");
}

#[test]
fn frames_of_any_length_carry_the_same_audio() {
    // A service of its own, so that no other session runs beside it. A second pass may be late. The longest accepted message: 32.8 s.
    let service = Setup::new().starter().with("live_second_pass", "off").start();
    let mut pcm = spoken(16000);
    pcm.resize(MIB, 0);
    let heard = |send: &dyn Fn(&mut Live)| {
        let mut live = open(&service);
        send(&mut live);
        live.stop();
        let frames: Vec<Frame> = live.rest().into_iter().filter(|frame| !matches!(frame, Frame::Pong(_))).collect();
        assert!(frames.ends_with(&[Frame::Done, Frame::Closed(1000)]), "{frames:?}");
        text_of(&turns(&frames, pcm.len() as u64 / 32))
    };
    let usual = heard(&|live| live.send(&pcm, CHUNK));
    assert_ne!(usual, "");
    assert_eq!(heard(&|live| live.send(&pcm, MIB)), usual, "the longest message");
    assert_eq!(heard(&|live| live.send(&pcm, 333)), usual, "odd lengths");
    let bytewise = heard(&|live| {
        live.send(&pcm[..32_001], 1);
        live.send(&pcm[32_001..], 4801);
    });
    assert_eq!(bytewise, usual, "single bytes, then odd lengths");
    let with_empty = heard(&|live| {
        for part in pcm.chunks(CHUNK - 1) {
            live.send(part, CHUNK);
            assert!(live.try_send(Message::Binary(Bytes::new())));
        }
    });
    assert_eq!(with_empty, usual, "empty frames are ignored");
    let fragmented = heard(&|live| {
        for message in pcm.chunks(10 * CHUNK) {
            let parts: Vec<&[u8]> = message.chunks(4099).collect();
            let (last, first) = parts.split_last().unwrap();
            for (at, part) in first.iter().enumerate() {
                live.write_bytes(&wire::frame(if at == 0 { BINARY_BEGINS } else { CONTINUES }, part));
                live.write_bytes(&wire::frame(0x89, b"in the middle"));
            }
            live.write_bytes(&wire::frame(ENDS, last));
        }
    });
    assert_eq!(fragmented, usual, "a fragmented message is one chunk");
}

#[test]
fn a_message_of_a_mebibyte_is_taken_and_one_byte_more_is_1009() {
    let mut live = open(service());
    live.send(&vec![0; MIB], MIB);
    live.stop();
    assert_eq!(closed(&mut live), 1000);

    // The response may come before the last byte is sent.
    let mut live = open(service());
    live.try_send(Message::Binary(vec![0; MIB + 1].into()));
    assert_eq!(closed(&mut live), 1009);

    let mut live = open(service());
    let half = vec![0; MIB / 2 + 1];
    live.write_bytes(&wire::frame(BINARY_BEGINS, &half));
    live.write_bytes(&wire::frame(ENDS, &half));
    assert_eq!(closed(&mut live), 1009, "in fragments");

    // The claimed length is enough to refuse a frame: the service does not wait for a terabyte or allocate it.
    let mut live = open(service());
    live.write_bytes(&[wire::frame_head(BINARY, 1 << 40, true), vec![0; 4]].concat());
    assert_eq!(closed(&mut live), 1009, "claimed");
    assert_healthy();
}

#[test]
fn frames_against_the_protocol_end_the_session() {
    let unmasked = [wire::frame_head(BINARY, 4, false), vec![0; 4]].concat();
    let two_begun = [wire::frame(BINARY_BEGINS, &[0; 4]), wire::frame(BINARY, &[0; 4])].concat();
    let cases = [
        ("unmasked", unmasked, 1002),
        ("a reserved opcode", wire::frame(0x83, &[0; 4]), 1002),
        ("a reserved control opcode", wire::frame(0x8B, &[0; 4]), 1002),
        ("a reserved bit", wire::frame(BINARY | 0x40, &[0; 4]), 1002),
        ("the continuation of nothing", wire::frame(ENDS, &[0; 4]), 1002),
        ("a message within a message", two_begun, 1002),
        ("a ping in fragments", wire::frame(0x09, b"there?"), 1002),
        ("a ping of 126 bytes", wire::frame(0x89, &[0; 126]), 1002),
        ("half a close code", wire::frame(0x88, &[3]), 1002),
        ("a close code that no frame may have", wire::frame(0x88, &1005_u16.to_be_bytes()), 1002),
        ("text that is not UTF-8", wire::frame(0x81, &[0xFF, 0xFE]), 1007),
    ];
    for (what, bytes, code) in cases {
        let mut live = open(service());
        assert!(live.write_bytes(&bytes));
        assert_eq!(closed(&mut live), code, "{what}");
    }
    assert_healthy();
}

#[test]
fn random_bytes_in_place_of_frames_harm_no_other_session() {
    let mut other = open(service());
    let mut state = 1_u64;
    for _ in 0..20 {
        let mut live = open(service());
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        let noise: Vec<u8> = noise.take(4096).collect();
        live.write_bytes(&noise);
    }
    // An incomplete frame header does not block the session either.
    open(service()).write_bytes(&wire::frame_head(BINARY, 1000, true));
    other.ping(b"still there");
    other.stop();
    assert_eq!(other.rest(), [Frame::Done, Frame::Closed(1000)]);
    assert_healthy();
}

#[test]
fn a_close_frame_is_answered() {
    let mut live = open(service());
    live.close();
    assert_eq!(live.read(), Frame::Closed(1000));
    // Without a code, too.
    let mut live = open(service());
    assert!(live.write_bytes(&wire::frame(0x88, &[])));
    assert!(matches!(live.read(), Frame::Closed(1000 | 1005)));
}
