//! Connections that send nothing, too slowly, or do not read: each is closed, and no other client waits for it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use auricle_tests::{Answer, Service, Setup, block_on, eventually, http, silence, wire};
use reqwest::Method;
use serde_json::json;
use tokio::net::TcpSocket;

/// Limits that a test can wait for.
fn impatient() -> Setup {
    Setup::local().with("head_timeout_seconds", 1).with("idle_timeout_seconds", 2).with("stall_timeout_seconds", 1)
}

/// The status of a GET, or none without an answer in time.
fn get(url: &str) -> Option<u16> {
    Answer::try_of(http().get(url).timeout(Duration::from_secs(20))).map(|answer| answer.status)
}

/// True once the server has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let closed = match stream.read(&mut [0; 1024]) {
        Ok(read) => read == 0,
        Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
    };
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    closed
}

#[test]
fn a_connection_without_a_request_is_closed_on_every_listener() {
    let service = impatient().start();
    let http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for base in [service.api(), service.storage(), service.dashboard()] {
        let starts: [&[u8]; 5] = [b"", b"G", b"GET /v2/models HTTP/1.1\r\nHost: x\r\n", &http2[..10], http2];
        let mut streams: Vec<TcpStream> = starts
            .iter()
            .map(|start| {
                let mut stream = wire::connect(&base);
                stream.write_all(start).unwrap();
                stream
            })
            .collect();
        for stream in &mut streams {
            wire::read_to_end(stream);
        }
    }
}

#[test]
fn an_idle_connection_is_closed_after_its_last_request() {
    let service = impatient().start();
    let mut stream = wire::connect(&service.api());
    for _ in 0..3 {
        stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(wire::read_head(&mut stream).starts_with("HTTP/1.1 200"));
        // The answer's body.
        stream.read_exact(&mut [0; 15]).unwrap();
        std::thread::sleep(Duration::from_millis(1200));
    }
    assert_eq!(wire::read_to_end(&mut stream), "");
}

#[test]
fn silent_clients_of_one_listener_stop_no_other() {
    let service = Setup::local().with("max_connections", 4).with("health_listen", "127.0.0.1:0").start();
    let health = service.line("health ").expect("its own address");
    let silent: Vec<TcpStream> = (0..8).map(|_| wire::connect(&service.api())).collect();
    for url in [
        format!("{health}/health/live"),
        format!("{}/billing/checkout", service.dashboard()),
        format!("{}/uploads/u", service.storage()),
    ] {
        assert!(get(&url).is_some(), "{url}");
    }
    drop(silent);
}

#[test]
fn an_address_has_its_share_of_connections_and_sessions() {
    let service = Setup::local().with("max_connections_per_address", 2).start();
    let token = service.account().mint(&json!({}));
    let mut session = token.open();
    session.ready();
    let silent = wire::connect(&service.api());
    let refused = || is_closed(&mut wire::connect(&service.api()));
    eventually("a third connection is refused", || refused().then_some(()));
    drop(silent);
    let live = format!("{}/health/live", service.api());
    eventually("there is a place again", || (get(&live) == Some(200)).then_some(()));
    drop(session);
    eventually("and that of the session", || {
        let pair = [wire::connect(&service.api()), wire::connect(&service.api())];
        let mut pair = pair.into_iter();
        pair.all(|mut stream| !is_closed(&mut stream)).then_some(())
    });
}

/// A connection to the API from an address of this machine.
fn connect_from(service: &Service, last: u8) -> TcpStream {
    let to: SocketAddr = service.api().trim_start_matches("http://").parse().unwrap();
    let stream = block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Asks on an open connection. The status, or none where it is closed.
fn ask(stream: &mut TcpStream) -> Option<u16> {
    stream.write_all(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
    // The head and the body: one at a time, so that the next answer is read from its beginning.
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let mut byte = [0];
        (stream.read(&mut byte).ok()? > 0).then_some(())?;
        answer.push(byte[0]);
    }
    wire::status(&String::from_utf8_lossy(&answer))
}

#[test]
fn silent_connections_of_some_addresses_leave_places_for_others() {
    let service = Setup::local().with("max_connections", 16).with("head_timeout_seconds", 300).start();
    let mut asked = connect_from(&service, 2);
    assert_eq!(ask(&mut asked), Some(200));
    let mut silent: Vec<TcpStream> = (0..13).map(|_| connect_from(&service, 2)).collect();
    // Two places are left, which are for others.
    let refused = || is_closed(&mut connect_from(&service, 2));
    eventually("another connection of the address is refused", || refused().then_some(()));
    let mut others: Vec<TcpStream> = (3..5).map(|last| connect_from(&service, last)).collect();
    for other in &mut others {
        assert_eq!(ask(other), Some(200));
    }
    assert!(!silent.iter_mut().any(is_closed), "there was room for all");
    // No place is left: silent connections go, the oldest first.
    for (gone, last) in (5..8).enumerate() {
        let mut newcomer = connect_from(&service, last);
        assert_eq!(ask(&mut newcomer), Some(200));
        assert_eq!(wire::read_to_end(&mut silent[gone]), "");
        assert!(!silent[gone + 1..].iter_mut().any(is_closed));
        others.push(newcomer);
    }
    assert_eq!(ask(&mut asked), Some(200), "a connection with a request keeps its place");
    for other in &mut others {
        assert_eq!(ask(other), Some(200));
    }
}

#[test]
fn a_body_that_comes_too_slowly_is_408_and_the_connection_ends() {
    let service = impatient().with("min_bytes_per_second", 1000).start();
    let account = service.account();
    let mut stream = wire::connect(&account.api);
    let head = format!(
        "POST /v2/transcripts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: 4000\r\n\r\n",
        account.key
    );
    stream.write_all(head.as_bytes()).unwrap();
    // Never a pause that is long, but 400 bytes a second.
    for _ in 0..40 {
        if stream.write_all(&[b' '; 100]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    let answer = wire::read_to_end(&mut stream);
    assert_eq!(wire::status(&answer), Some(408), "{answer}");
    assert!(answer.to_lowercase().contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(answer.contains("request_timeout"), "{answer}");
}

#[test]
fn an_upload_that_comes_too_slowly_is_broken_off() {
    let service = impatient().with("min_bytes_per_second", 1000).start();
    let account = service.account();
    let signed = account.sign("a.wav", "audio/wav");
    let target = signed.url().splitn(4, '/').nth(3).unwrap();
    let mut stream = wire::connect(&service.storage());
    let head = format!("PUT /{target} HTTP/1.1\r\nHost: x\r\nContent-Type: audio/wav\r\nContent-Length: 4000\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..40 {
        if stream.write_all(&[0; 100]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    let answer = wire::read_to_end(&mut stream);
    assert_eq!(wire::status(&answer), Some(400), "{answer}");
    account.complete(signed.id()).error(409, "upload_incomplete");
    assert_eq!(signed.put(silence(1.0)).status, 200);
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let service = impatient().with("min_bytes_per_second", 10_000_000).start();
    let mut stream = wire::connect(&service.api());
    const REQUESTS: usize = 2000;
    // Far more than the system buffers.
    let requests = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(REQUESTS);
    let _ = stream.write_all(&requests);
    let gone = || (service.metric("auricle_connections_expired_total") == 1.0).then_some(());
    eventually("the connection is closed", gone);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answered = String::from_utf8_lossy(&answer).matches("HTTP/1.1 200").count();
    assert!(answered < REQUESTS, "{answered}");
}

#[test]
fn a_client_that_opens_no_window_for_its_responses_is_disconnected() {
    let service = impatient().with("min_bytes_per_second", 10_000_000).start();
    let mut stream = wire::connect(&service.api());
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    // GET /openapi.json on several streams: more than the first window of the connection, which is never opened further.
    let head = b"\x82\x86\x44\x0d/openapi.json\x41\x01x";
    for id in (1..40_u8).step_by(2) {
        stream.write_all(&[0, 0, head.len() as u8, 1, 5, 0, 0, 0, id]).unwrap();
        stream.write_all(head).unwrap();
    }
    // Nothing answers the service's frames; it closes.
    let answer = wire::read_to_end(&mut stream);
    assert!(answer.contains("openapi"), "{} bytes", answer.len());
}

#[test]
fn a_flood_of_control_frames_ends_the_connection() {
    let service = Setup::local().with("head_timeout_seconds", 300).start();
    let frame =
        |kind: u8, payload: &[u8]| [[0, 0, payload.len() as u8, kind, 0, 0, 0, 0, 0].as_slice(), payload].concat();
    // SETTINGS, PING, WINDOW_UPDATE of the connection.
    for flood in [frame(4, &[]), frame(6, &[7; 8]), frame(8, &[0, 0, 0, 1])] {
        let mut stream = wire::connect(&service.api());
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        // The service may close before the last byte is sent.
        let _ = stream.write_all(&flood.repeat(20_000));
        wire::read_to_end(&mut stream);
    }
    assert!(service.metric("auricle_connections_flooded_total") >= 3.0);
}

#[test]
fn a_request_without_a_host_is_400() {
    let service = Setup::local().start();
    let status = |head: &str| wire::status(&wire::exchange(&service.api(), head.as_bytes()));
    let close = "Connection: close\r\n\r\n";
    assert_eq!(status(&format!("GET /health/live HTTP/1.1\r\nHost: x\r\n{close}")), Some(200));
    assert_eq!(status(&format!("GET /health/live HTTP/1.1\r\n{close}")), Some(400));
    assert_eq!(status(&format!("GET /health/live HTTP/1.1\r\nHost: x\r\nHost: y\r\n{close}")), Some(400));
    // HTTP/1.0 knows no such header.
    let answer = wire::exchange(&service.api(), b"GET /health/live HTTP/1.0\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
}

#[test]
fn a_connection_with_an_unread_body_says_that_it_closes() {
    let service = Setup::local().start();
    let account = service.account();
    let post = |length: usize| {
        format!(
            "POST /v2/nothing HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: {length}\r\n\r\n",
            account.key
        )
    };
    let closes = |head: &str| head.to_lowercase().contains("\r\nconnection: close\r\n");
    let mut stream = wire::connect(&service.api());
    stream.write_all(post(200_000).as_bytes()).unwrap();
    let head = wire::read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 404") && closes(&head), "{head}");
    // A small body is read, and the connection is used again.
    let mut stream = wire::connect(&service.api());
    for _ in 0..3 {
        stream.write_all(post(20).as_bytes()).unwrap();
        stream.write_all(&[b'x'; 20]).unwrap();
        let head = wire::read_head(&mut stream);
        assert!(head.starts_with("HTTP/1.1 404") && !closes(&head), "{head}");
        let length =
            head.to_lowercase().split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap().parse();
        stream.read_exact(&mut vec![0; length.unwrap()]).unwrap();
    }
}

/// Opens connections until the service has as many as it takes, and checks that another listener answers.
fn flood(service: &Service, connections: usize) {
    let silent: Vec<TcpStream> = (0..connections).map(|_| wire::connect(&service.api())).collect();
    let url = format!("{}/uploads/u", service.storage());
    assert!(get(&url).is_some(), "another listener answers: {}", service.log());
    let account_works = || get(&format!("{}/billing/checkout", service.dashboard()));
    assert!(account_works().is_some());
    drop(silent);
    eventually("the listener answers again", || get(&format!("{}/health/live", service.api())));
}

#[test]
fn the_limit_of_open_files_is_raised() {
    let service = Setup::local().open_files("-Sn 64").start();
    flood(&service, 300);
    assert!(!service.log().contains("open files"), "{}", service.log());
}

#[test]
fn a_low_limit_of_open_files_leaves_room_for_other_listeners() {
    let service = Setup::local().open_files("-n 400").start();
    assert!(service.log().contains("max_connections"), "{}", service.log());
    flood(&service, 500);
}

#[test]
fn a_start_with_too_few_open_files_is_refused() {
    let service = Setup::local().open_files("-n 120").prepare();
    service.spawn();
    assert!(!service.wait().success());
    let log = service.log();
    assert!(log.contains("open files") && log.contains("ulimit -n"), "{log}");
}

#[test]
fn health_and_metrics_have_an_address_of_their_own_if_one_is_set() {
    let service = Setup::local().with("health_listen", "127.0.0.1:0").start();
    let (health, api) = (service.line("health ").expect("its own address"), service.api());
    for path in ["/health/live", "/health/ready", "/metrics"] {
        assert_eq!(get(&format!("{health}{path}")), Some(200), "{path}");
        assert_eq!(get(&format!("{api}{path}")), Some(404), "{path}");
    }
    assert_eq!(get(&format!("{health}/v2/models")), Some(404));
    service.account().get("/v2/models").ok();
    assert_eq!(Answer::of(service.account().request(Method::GET, "/openapi.json")).status, 200);
}
