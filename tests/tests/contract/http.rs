//! Behaviour of all endpoints: methods, media types, sizes, limits, protocols, and malformed requests.

use std::io::{Read as _, Write as _};
use std::sync::OnceLock;

use auricle_tests::{Account, Answer, Service, Setup, eventually, http, http2, silence, wire};
use reqwest::{Method, Version};
use serde_json::json;

const MIB: usize = 1 << 20;

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().start())
}

/// A transcript request of exactly so many bytes, padded with a field that is ignored.
fn body_of(account: &Account, bytes: usize) -> String {
    let upload = account.upload("a.wav", silence(0.5));
    let bare = json!({"upload_id": upload, "padding": ""}).to_string();
    json!({"upload_id": upload, "padding": "x".repeat(bytes - bare.len())}).to_string()
}

#[test]
fn another_method_is_405_with_those_that_are_allowed() {
    let account = service().account();
    let endpoints = [
        ("/v2/transcripts", "GET POST"),
        ("/v2/transcripts/tr_1", "GET PATCH DELETE"),
        ("/v2/transcripts/tr_1/srt", "GET"),
        ("/v2/transcripts/tr_1/vtt", "GET"),
        ("/v2/transcripts/tr_1/sentences", "GET"),
        ("/v2/transcripts/tr_1/paragraphs", "GET"),
        ("/v2/transcripts/tr_1/word-search", "GET"),
        ("/v2/uploads/sign", "POST"),
        ("/v2/uploads/upload_1/complete", "POST"),
        ("/v2/models", "GET"),
        ("/v2/pricing", "GET"),
        ("/v2/credits", "GET"),
        ("/v2/usage", "GET"),
        ("/v2/usage/summary", "GET"),
        ("/v2/billing/checkout", "POST"),
    ];
    for (path, served) in endpoints {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if served.split(' ').any(|served| served == method) {
                continue;
            }
            let answer = Answer::of(account.request(method.parse().unwrap(), path));
            answer.error(405, "method_not_allowed");
            let allow: Vec<&str> = answer.header("allow").expect("Allow").split(',').map(str::trim).collect();
            assert!(served.split(' ').all(|served| allow.contains(&served)), "{method} {path}: {allow:?}");
            assert!(!allow.contains(&method), "{method} {path}: {allow:?}");
        }
    }
}

#[test]
fn an_unknown_path_is_404() {
    let account = service().account();
    for path in [
        "/v2",
        "/v2/",
        "/v2/nothing",
        "/v2/models/svc-best/x",
        "/v1/nothing",
        "/v2/transcripts/tr_1/docx",
        "/v2/uploads/x",
    ] {
        account.get(path).error(404, "not_found");
    }
}

#[test]
fn unknown_paths_are_not_found() {
    let account = service().account();
    let targets: [&[u8]; 12] = [
        b"/v2/../v2/models",
        b"/v2/./models",
        b"/v2/%2e%2e/v2/models",
        b"/v2//models",
        b"//v2/models",
        b"/v2/transcripts/../../etc/passwd",
        b"/v2/transcripts/..%2f..%2fetc%2fpasswd",
        b"/v2/transcripts/%2e%2e",
        b"/v2/transcripts/%ff%fe",
        b"/v2/transcripts/%",
        b"/v2/transcripts/%zz",
        b"/v2/transcripts/tr_1%2fsrt",
    ];
    for target in targets {
        let answer = wire::get(&account.api, &account.key, target);
        let status = wire::status(&answer);
        assert!(matches!(status, Some(400 | 404)), "{}: {answer}", String::from_utf8_lossy(target));
        let body: serde_json::Value = serde_json::from_str(wire::body(&answer)).unwrap();
        assert!(body["error"]["code"].is_string(), "{answer}");
    }
    account.get("/v2/models").ok();
}

#[test]
fn bytes_that_are_not_http_are_refused_and_harm_no_other_connection() {
    let account = service().account();
    let base = &account.api;
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello over TLS\r\n\r\n".as_slice(),
        b"GET /v2/models\r\n\r\n",
        b"GET /v2/\xff\xfe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET  /v2/models  HTTP/1.1\r\n\r\n",
        b"GET /v2/models HTTP/9.9\r\n\r\n",
        b"POST /v2/transcripts HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v2/transcripts HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"POST /v2/transcripts HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nZZ\r\n",
        b"\r\n\r\n\r\n\0\0\0\0",
    ] {
        let answer = wire::exchange(base, &[bytes, b"\r\n\r\n"].concat());
        let status = wire::status(&answer);
        assert!(status.is_none_or(|status| (400..500).contains(&status)), "{answer}");
        account.get("/v2/models").ok();
    }
}

#[test]
fn a_header_without_end_is_refused() {
    let account = service().account();
    let mut request = b"GET /v2/models HTTP/1.1\r\nHost: x\r\nX-Long: ".to_vec();
    request.resize(4 * MIB, b'a');
    request.extend_from_slice(b"\r\n\r\n");
    let answer = wire::exchange(&account.api, &request);
    assert!(wire::status(&answer).is_none_or(|status| status == 431 || status == 400), "{answer}");
    account.get("/v2/models").ok();
}

#[test]
fn a_body_that_is_not_json_is_415() {
    let account = service().account();
    for path in ["/v2/transcripts", "/v2/uploads/sign"] {
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json"] {
            account.post_raw(path, kind, "{}").error(415, "unsupported_media_type");
        }
    }
    // A transcript may be created with a form, which this is not.
    let form = "multipart/form-data; boundary=x";
    account.post_raw("/v2/uploads/sign", form, "{}").error(415, "unsupported_media_type");
    account.post_raw("/v2/transcripts", form, "{}").error(400, "invalid_request");
    let body = json!({"upload_id": account.upload("a.wav", silence(0.5))}).to_string();
    account.post_raw("/v2/transcripts", "application/json; charset=utf-8", body.clone()).ok();
    account.post_raw("/v2/transcripts", "Application/JSON", body).ok();
}

#[test]
fn a_body_of_a_mebibyte_is_taken_and_one_byte_more_is_413() {
    let account = service().account();
    account.post_raw("/v2/transcripts", "application/json", body_of(&account, MIB)).ok();
    let over = body_of(&account, MIB + 1);
    account.post_raw("/v2/transcripts", "application/json", over.clone()).error(413, "payload_too_large");
    // Chunked, without a Content-Length.
    let mut chunked = head(&account, "Transfer-Encoding: chunked");
    chunked.extend_from_slice(format!("{:x}\r\n{over}\r\n0\r\n\r\n", over.len()).as_bytes());
    let answer = wire::exchange(&account.api, &chunked);
    assert_eq!(wire::status(&answer), Some(413), "{answer}");
    // Refused at once, before the body is sent.
    let answer = wire::exchange(&account.api, &head(&account, "Content-Length: 3000000000"));
    assert_eq!(wire::status(&answer), Some(413), "{answer}");
}

fn head(account: &Account, length: &str) -> Vec<u8> {
    format!(
        "POST /v2/transcripts HTTP/1.1\r\nHost: service\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\n{length}\r\n\r\n",
        account.key
    )
    .into_bytes()
}

#[test]
fn deep_nesting_is_400() {
    let account = service().account();
    let deep = "[".repeat(500_000);
    for body in [deep.clone(), format!("{{\"audio_url\":{deep}"), "{\"a\":".repeat(100_000)] {
        account.post_raw("/v2/transcripts", "application/json", body).error(400, "invalid_request");
    }
    account.get("/v2/models").ok();
}

#[test]
fn a_body_that_is_not_utf_8_is_400() {
    let account = service().account();
    let bodies: [&[u8]; 3] = [b"{\"audio_url\": \"\xff\xfe\"}", b"\xff\xfe{\0}\0", b"{\"title\": \"\\ud800\"}"];
    for body in bodies {
        account.post_raw("/v2/transcripts", "application/json", body.to_vec()).error(400, "invalid_request");
    }
}

#[test]
fn head_is_get_without_its_body() {
    let account = service().account();
    for path in ["/v2/models", "/v2/credits", "/health/live"] {
        let (get, head) = (account.get(path), Answer::of(account.request(Method::HEAD, path)));
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
    let unknown = Answer::of(account.request(Method::HEAD, "/v2/transcripts/tr_none"));
    assert_eq!((unknown.status, unknown.body.len()), (404, 0));
    assert_eq!(Answer::of(http().head(format!("{}/v2/models", account.api))).status, 401);
}

#[test]
fn every_response_has_an_id_of_its_own() {
    let account = service().account();
    let answers = [
        account.get("/v2/models"),
        account.get("/v2/models"),
        account.get("/v2/nothing"),
        account.post_raw("/v2/transcripts", "application/json", "{"),
        Answer::of(http().get(format!("{}/v2/models", account.api))),
    ];
    let ids: std::collections::HashSet<&str> =
        answers.iter().map(|answer| answer.header("x-request-id").expect("X-Request-Id")).collect();
    assert_eq!(ids.len(), answers.len());
}

#[test]
fn api_keys_are_not_for_browsers() {
    let account = service().account();
    let request = account.request(Method::GET, "/v2/models").header("origin", "https://example.org");
    let answer = Answer::of(request);
    answer.ok();
    assert_eq!(answer.header("access-control-allow-origin"), None);
    let preflight = http().request(Method::OPTIONS, format!("{}/v2/transcripts", account.api));
    let preflight = preflight.header("origin", "https://example.org").header("access-control-request-method", "POST");
    assert_eq!(Answer::of(preflight).header("access-control-allow-origin"), None);
}

#[test]
fn http_2_without_tls_is_spoken() {
    let account = service().account();
    let request = http2().get(format!("{}/v2/models", account.api)).bearer_auth(&account.key);
    let answer = Answer::of(request);
    answer.ok();
    assert_eq!(answer.version, Version::HTTP_2);
    assert_eq!(account.get("/v2/models").version, Version::HTTP_11);
}

#[test]
fn requests_in_a_row_on_one_connection_are_answered_in_order() {
    let account = service().account();
    let request = |path: &str, close: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n{close}\r\n", account.key)
    };
    let mut stream = wire::connect(&account.api);
    let all = request("/v2/credits", "") + &request("/v2/nothing", "") + &request("/v2/usage", "Connection: close\r\n");
    stream.write_all(all.as_bytes()).unwrap();
    let answer = wire::read_to_end(&mut stream);
    let at = |part: &str| answer.find(part).unwrap_or_else(|| panic!("no {part}: {answer}"));
    assert!(at("credit_balance_cents") < at("not_found") && at("not_found") < at("\"total\""), "{answer}");
}

#[test]
fn a_silent_client_blocks_no_other() {
    let account = service().account();
    let idle: Vec<_> = (0..50).map(|_| wire::connect(&account.api)).collect();
    let mut half = wire::connect(&account.api);
    half.write_all(b"POST /v2/transcripts HTTP/1.1\r\nHost: x\r\nContent-Le").unwrap();
    account.get("/v2/models").ok();
    drop(idle);
}

#[test]
fn expect_100_continue_is_answered_before_the_body() {
    let account = service().account();
    let mut stream = wire::connect(&account.api);
    let body = json!({"upload_id": "upload_none"}).to_string();
    stream.write_all(&head(&account, &format!("Expect: 100-continue\r\nContent-Length: {}", body.len()))).unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 100");
    stream.write_all(body.as_bytes()).unwrap();
    assert!(wire::read_to_end(&mut stream).contains("HTTP/1.1 404"));
}

#[test]
fn a_refused_body_is_drained_so_that_the_refusal_arrives() {
    let account = service().account();
    let (sent, signed) = (vec![b'x'; 40 * MIB], account.sign("a.wav", "audio/wav"));
    let target = signed.url().splitn(4, '/').nth(3).unwrap().to_owned();
    let post = |path: &str, key: &str| {
        format!("POST {path} HTTP/1.1\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n")
    };
    for (base, head, status) in [
        (&account.api, post("/v2/transcripts", "svc_wrong"), 401),
        (&account.api, post("/v2/nothing", &account.key), 404),
        (&account.api, post("/v2/transcripts", &account.key), 413),
        (&service().storage(), format!("PUT /{target} HTTP/1.1\r\nContent-Type: audio/mpeg\r\n"), 403),
    ] {
        let mut stream = wire::connect(base);
        let length = sent.len();
        write!(stream, "{head}Host: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n").unwrap();
        // Some clients read the response only after they have sent the whole body.
        stream.write_all(&sent).unwrap_or_else(|error| panic!("{status}: {error}"));
        assert_eq!(wire::status(&wire::read_to_end(&mut stream)), Some(status));
    }
}

#[test]
fn a_service_is_live_and_ready() {
    let get = |path: &str| Answer::of(http().get(format!("{}{path}", service().api())));
    assert_eq!(get("/health/live").status, 200);
    eventually("the service is ready", || (get("/health/ready").status == 200).then_some(()));
}

#[test]
fn metrics_are_prometheus_text() {
    service().account().get("/v2/models").ok();
    let metrics = Answer::of(http().get(format!("{}/metrics", service().api())));
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain"));
    let samples = metrics.text().lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut count = 0;
    for sample in samples {
        let (_, value) = sample.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {sample}"));
        assert!(value.parse::<f64>().is_ok(), "{sample}");
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn the_description_names_every_path() {
    let description = Answer::of(http().get(format!("{}/openapi.json", service().api()))).ok();
    assert!(description["openapi"].as_str().unwrap().starts_with("3."));
    let paths = description["paths"].as_object().unwrap();
    let served = [
        ("/v2/transcripts", "post"),
        ("/v2/transcripts", "get"),
        ("/v2/transcripts/{transcript_id}", "get"),
        ("/v2/transcripts/{transcript_id}", "delete"),
        ("/v2/transcripts/{transcript_id}/srt", "get"),
        ("/v2/transcripts/{transcript_id}/vtt", "get"),
        ("/v2/transcripts/{transcript_id}/sentences", "get"),
        ("/v2/transcripts/{transcript_id}/paragraphs", "get"),
        ("/v2/transcripts/{transcript_id}/word-search", "get"),
        ("/v2/uploads/sign", "post"),
        ("/v2/uploads/{upload_id}/complete", "post"),
        ("/v2/models", "get"),
        ("/v2/pricing", "get"),
        ("/v2/credits", "get"),
        ("/v2/usage", "get"),
        ("/v2/usage/summary", "get"),
        ("/v2/billing/checkout", "post"),
    ];
    let bare = |path: &str| -> String {
        path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part }).collect::<Vec<_>>().join("/")
    };
    for (path, method) in served {
        let found = paths.iter().any(|(own, methods)| bare(own) == bare(path) && methods.get(method).is_some());
        assert!(found, "{method} {path}");
    }
}
