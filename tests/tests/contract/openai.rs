//! The paths below `/v1`, by hand and through the official packages of PyPI and npm, unchanged.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use auricle_engine::audio::SAMPLE_RATE;
use auricle_tests::{
    Account, Answer, Receiver, Reply, Service, Setup, block_on, ended, eventually, long_reading, pcm, readers,
    repository, silence, skip, speech, wav,
};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().starter().start())
}

/// A service whose language model is a server that says these pieces.
fn chatting() -> (Receiver, Service) {
    let receiver = Receiver::new();
    let chunk =
        |content: &str| json!({ "choices": [{ "index": 0, "delta": { "content": content }, "finish_reason": null }] });
    let events = [
        chunk("Hello"),
        chunk(" there"),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
        json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 2 } }),
    ];
    let mut text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    text.push_str("data: [DONE]\n\n");
    receiver.answers("/v1/chat/completions", [Reply::Body(200, "text/event-stream", text.into())]);
    let service =
        Setup::local().with("language_upstream", receiver.url("/v1")).with("language_model", "their-model").start();
    (receiver, service)
}

/// A form with a file in the middle of the other fields.
fn form(account: &Account, filename: &str, bytes: &[u8], fields: &[(&str, &str)]) -> Answer {
    Answer::of(form_request(account, filename, bytes, fields))
}

fn form_request(account: &Account, filename: &str, bytes: &[u8], fields: &[(&str, &str)]) -> RequestBuilder {
    let boundary = "an-uncommon-boundary";
    let field = |(name, value): &(&str, &str)| {
        format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let (before, after) = fields.split_at(fields.len() / 2);
    let mut body: Vec<u8> = before.iter().map(field).collect::<String>().into_bytes();
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{filename}\"\r\nContent-Type: application/octet-stream\r\n\r\n"
    );
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(bytes);
    body.extend_from_slice(b"\r\n");
    body.extend(after.iter().map(field).collect::<String>().into_bytes());
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let request = account.request(Method::POST, TRANSCRIPTIONS);
    request.header(CONTENT_TYPE, format!("multipart/form-data; boundary={boundary}")).body(body)
}

/// The events of a stream before `[DONE]`, which must be there.
fn events(stream: &str) -> Vec<Value> {
    let events = stream.strip_suffix("data: [DONE]\n\n").expect("[DONE]").split_terminator("\n\n");
    let data = events.filter_map(|event| event.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

/// The text of the deltas among events.
fn deltas(events: &[Value]) -> String {
    events.iter().filter_map(|event| event["delta"].as_str()).collect()
}

/// Two minutes of readings, streamed up to the first delta, with the name of the transcript.
async fn begun(account: &Account, fields: &[(&str, &str)]) -> (reqwest::Response, String, String) {
    let fields = [&[("model", "whisper-1"), ("language", "en"), ("stream", "true")], fields].concat();
    let mut response = form_request(account, "talk.wav", &long_reading(8), &fields).send().await.unwrap();
    let id = response.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    let mut text = String::new();
    while !text.contains("transcript.text.delta") {
        text += std::str::from_utf8(&response.chunk().await.unwrap().expect("a delta")).unwrap();
    }
    (response, id, text)
}

#[test]
fn words_are_streamed_while_the_file_is_computed() {
    let account = service().account();
    let (events, first, status) = block_on(async {
        let (response, id, mut text) = begun(&account, &[("response_format", "diarized_json")]).await;
        let first = text.len();
        let path = format!("/v2/transcripts/{id}");
        let status = account.request(Method::GET, &path).send().await.unwrap().text().await.unwrap();
        text += &response.text().await.unwrap();
        (events(&text), first, serde_json::from_str::<Value>(&status).unwrap())
    });
    assert_eq!((&status["status"], &status["text"]), (&json!("processing"), &Value::Null), "after {first} bytes");
    let (done, before) = events.split_last().unwrap();
    assert_eq!((&done["type"], &done["usage"]["type"]), (&json!("transcript.text.done"), &json!("duration")));
    assert_eq!(deltas(before), done["text"].as_str().unwrap());
    let early = before.iter().position(|event| event["type"] == "transcript.text.segment").unwrap();
    assert!(early > 1 && before[..early].iter().all(|event| event["type"] == "transcript.text.delta"), "{early}");
    let segments: Vec<&Value> = before.iter().filter(|event| event["type"] == "transcript.text.segment").collect();
    assert!(segments.iter().any(|one| one["speaker"] == "A") && segments.iter().any(|one| one["speaker"] == "B"));
    assert_eq!(account.usage().len(), 1);
}

#[test]
fn a_client_that_leaves_a_stream_stops_the_work() {
    let account = service().account();
    let path = block_on(async {
        let (response, id, _) = begun(&account, &[]).await;
        drop(response);
        format!("/v2/transcripts/{id}")
    });
    eventually("the transcript is deleted", || (account.get(&path).status == 404).then_some(()));
    assert_eq!(account.usage(), Vec::<Value>::new(), "an abandoned stream costs nothing");
}

#[test]
fn a_stream_of_a_broken_file_is_an_error_of_its_status() {
    let account = service().account();
    let answer = form(&account, "a.wav", b"no audio", &[("model", "whisper-1"), ("stream", "true")]);
    is(&answer, 400, "invalid_request_error", "invalid_request");
    let answer = form(&account, "a.wav", &silence(1.0), &[("model", "whisper-1"), ("stream", "true")]);
    let events = events(answer.text());
    assert_eq!((events.len(), &events[0]["text"]), (1, &json!("")), "{events:?}");
}

/// The status, type and code of an error in OpenAI's shape.
fn error(answer: &Answer) -> (u16, String, String) {
    let error = &answer.json()["error"];
    assert!(!error["message"].as_str().unwrap().is_empty() && error.as_object().unwrap().contains_key("param"));
    (answer.status, error["type"].as_str().unwrap().to_owned(), error["code"].as_str().unwrap().to_owned())
}

fn is(answer: &Answer, status: u16, kind: &str, code: &str) {
    assert_eq!(error(answer), (status, kind.to_owned(), code.to_owned()), "{}", answer.text());
}

#[test]
fn a_form_gives_a_text_and_is_billed_once() {
    let account = service().account();
    let file = std::fs::read(speech()).unwrap();
    let answer = form(&account, "jfk.flac", &file, &[("model", "svc-best"), ("response_format", "verbose_json")]);
    let body = answer.ok();
    let id = answer.header("x-transcript-id").unwrap();
    let transcript = account.transcript(id);
    assert_eq!((&body["text"], &transcript["title"]), (&transcript["text"], &json!("jfk.flac")));
    assert_eq!((&body["duration"], &body["task"]), (&transcript["audio_duration_sec"], &json!("transcribe")));
    assert!(!body["segments"].as_array().unwrap().is_empty() && body.get("words").is_none());
    assert_eq!(account.bills(id).len(), 1);
    let srt = form(&account, "jfk.flac", &file, &[("model", "svc-fast"), ("response_format", "srt")]);
    assert!(srt.text().starts_with("1\n00:00:"), "{}", srt.text());
    assert_eq!(account.usage().len(), 2);
}

#[test]
fn bad_forms_are_refused_in_their_shape() {
    let account = service().account();
    let file = silence(1.0);
    is(&form(&account, "a.wav", &file, &[("model", "gpt-9")]), 404, "invalid_request_error", "model_not_found");
    is(&form(&account, "a.wav", &file, &[]), 400, "invalid_request_error", "invalid_request");
    is(
        &form(&account, "a.txt", &file, &[("model", "whisper-1")]),
        400,
        "invalid_request_error",
        "unsupported_media_type",
    );
    is(
        &form(&account, "a.wav", b"no audio", &[("model", "whisper-1")]),
        400,
        "invalid_request_error",
        "invalid_request",
    );
    is(
        &form(&account, "a.wav", &file, &[("model", "whisper-1"), ("temperature", "9")]),
        422,
        "invalid_request_error",
        "validation_error",
    );
    is(
        &form(&account, "a.wav", &file, &[("model", "whisper-1"), ("language", "xx")]),
        400,
        "invalid_request_error",
        "unsupported_option",
    );
    let reference = ("known_speaker_references[]", "data:audio/wav;base64,UklGRg==");
    let ann = ("known_speaker_names[]", "Ann");
    for fields in [vec![ann], vec![reference], vec![ann, reference]] {
        let fields = [vec![("model", "whisper-1")], fields].concat();
        is(&form(&account, "a.wav", &file, &fields), 422, "invalid_request_error", "validation_error");
    }
    is(
        &account.post(TRANSCRIPTIONS, &json!({ "model": "whisper-1" })),
        415,
        "invalid_request_error",
        "unsupported_media_type",
    );
    is(
        &account.post_raw(
            TRANSCRIPTIONS,
            "multipart/form-data; boundary=x",
            "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--x--\r\n",
        ),
        400,
        "invalid_request_error",
        "invalid_request",
    );
    is(
        &account.post_raw(
            TRANSCRIPTIONS,
            "multipart/form-data; boundary=x",
            "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF",
        ),
        400,
        "invalid_request_error",
        "invalid_request",
    );
    assert!(account.usage().is_empty(), "nothing failed is billed");
    let anonymous = Account { key: "svc_wrong".into(), ..account.at(&service().api()) };
    is(&anonymous.get("/v1/models"), 401, "authentication_error", "unauthorized");
    is(&account.get("/v1/nothing"), 404, "invalid_request_error", "not_found");
    is(&account.delete("/v1/models"), 405, "invalid_request_error", "method_not_allowed");
}

#[test]
fn an_account_without_credit_gets_402() {
    let service = Setup::local().with("free_credit_cents", 0).start();
    let account = service.account();
    let answer = form(&account, "a.wav", &silence(1.0), &[("model", "whisper-1")]);
    is(&answer, 402, "insufficient_quota", "v2_billing_required");
}

#[test]
fn chat_without_a_model_is_503_in_its_shape() {
    let account = service().account();
    let body = json!({ "model": "gpt-9", "messages": [{ "role": "user", "content": "Hi" }] });
    is(&account.post("/v1/chat/completions", &body), 404, "invalid_request_error", "model_not_found");
    let body = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
    is(&account.post("/v1/chat/completions", &body), 503, "server_error", "model_unavailable");
}

/// Runs a script of the folder `clients` and returns what it prints, as JSON.
pub fn run(mut program: Command, script: &str, service: &Service, args: &[&str]) -> Value {
    let key = &service.account().key;
    program
        .env("OPENAI_BASE_URL", format!("{}/v1", service.api()))
        .env("OPENAI_API_KEY", key)
        .env("DEEPGRAM_URL", service.api())
        .env("DEEPGRAM_API_KEY", key);
    printed(program, script, args)
}

/// What a script of the folder `clients` prints, as JSON.
pub fn printed(mut program: Command, script: &str, args: &[&str]) -> Value {
    program.arg(repository().join("tests/clients").join(script)).args(args);
    let run = ended(program.output().unwrap());
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

/// A Python that has these packages.
pub fn python(packages: &str) -> Option<Command> {
    let folder = std::env::var_os("AURICLE_PYTHON_TOOLS").map(PathBuf::from);
    let program = folder.map(|folder| folder.join("python")).filter(|python| python.is_file());
    let found = program.filter(|program| {
        let import = format!("import {packages}");
        Command::new(program).args(["-c", &import]).output().is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        skip(&format!("the Python packages {packages} (.ci/run installs them, AURICLE_PYTHON_TOOLS=ENVIRONMENT/bin)"));
    }
    found.map(Command::new)
}

/// Node with this package.
pub fn node(package: &str) -> Option<Command> {
    let modules = std::env::var_os("AURICLE_NODE_MODULES").map(PathBuf::from);
    let has_package = modules.is_some_and(|modules| modules.join(package).is_dir());
    let has_node = Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has_package || !has_node {
        skip(&format!(
            "node and the npm package {package} (npm install {package}, AURICLE_NODE_MODULES=FOLDER/node_modules)"
        ));
        return None;
    }
    Some(Command::new("node"))
}

#[test]
fn the_python_package_transcribes() {
    let Some(python) = python("openai") else { return };
    let found = run(python, "openai_client.py", service(), &["recognise", speech().to_str().unwrap()]);
    assert_eq!((&found["models"], &found["model"]), (&json!(["svc-best", "svc-fast"]), &json!("svc-best")));
    let text = found["text"].as_str().unwrap();
    assert!(text.contains("can do"), "{found}");
    assert!(found["words"].as_array().unwrap().len() > 15, "{found}");
    assert!(found["duration"].as_f64().unwrap() > 10.0 && !found["segments"].as_array().unwrap().is_empty());
    assert_eq!(found["as_text"].as_str().unwrap().trim_end(), text);
    assert!(
        found["as_srt"].as_str().unwrap().contains("-->") && found["as_vtt"].as_str().unwrap().starts_with("WEBVTT")
    );
    let deltas: String = found["deltas"].as_array().unwrap().iter().map(|delta| delta.as_str().unwrap()).collect();
    assert_eq!((deltas.as_str(), found["done"].as_str()), (text, Some(text)));
    let speakers = found["speakers"].as_array().unwrap();
    let said: Vec<&str> = speakers.iter().map(|turn| turn[1].as_str().unwrap()).collect();
    assert!(speakers.iter().all(|turn| turn[0] == "A") && said.join(" ") == text, "{found}");
    let logprobs: Vec<f64> = found["logprobs"].as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect();
    assert!(logprobs.len() > 15 && logprobs.iter().all(|one| *one <= 0.0) && logprobs.iter().any(|one| *one < 0.0));
    // English stays English.
    assert!(found["translated"][0] == "en" && found["translated"][1].as_str().unwrap().contains("can do"), "{found}");
    assert_eq!(
        found["errors"],
        json!({
            "model": ["NotFoundError", 404, "model_not_found"],
            "format": ["UnprocessableEntityError", 422, "validation_error"],
            "missing": ["NotFoundError", 404, "model_not_found"],
            "key": ["AuthenticationError", 401, "unauthorized"],
        })
    );
}

#[test]
fn the_python_package_names_known_speakers() {
    let Some(python) = python("openai") else { return };
    let [man, woman] = readers();
    let (clip, rest) = woman.split_at(woman.len() / 2);
    let file = |name: &str, samples: Vec<f32>| {
        let path = service().data().join(name);
        std::fs::write(&path, wav(SAMPLE_RATE, 16, &pcm(samples))).unwrap();
        path
    };
    let talk = file("talk.wav", [&man[man.len() / 2..], &[0.0; 8000], rest].concat());
    let clip = file("clip.wav", clip[..clip.len().min(9 * SAMPLE_RATE as usize)].to_vec());
    let args = ["diarize", talk.to_str().unwrap(), clip.to_str().unwrap(), "Ada King"];
    let found = run(python, "openai_client.py", service(), &args);
    let segments = found["segments"].as_array().unwrap();
    let speakers: Vec<&str> = segments.iter().map(|one| one[0].as_str().unwrap()).collect();
    assert_eq!((speakers[0], speakers[speakers.len() - 1]), ("A", "Ada King"), "{found}");
    assert!(speakers.iter().all(|one| ["A", "Ada King"].contains(one)), "{found}");
    assert_eq!((&found["streamed"], &found["deltas"]), (&found["segments"], &found["text"]));
    let errors = json!({
        "names": [422, "validation_error"], "url": [422, "validation_error"], "silence": [422, "unsuitable_audio"],
        "chunks": [422, "validation_error"],
    });
    assert_eq!(found["errors"], errors);
}

#[test]
fn the_python_package_chats() {
    let Some(python) = python("openai") else { return };
    let (_receiver, service) = chatting();
    let found = run(python, "openai_client.py", &service, &["chat"]);
    let expected = json!({ "text": "Hello there", "tokens": 9, "object": "chat.completion", "streamed": "Hello there", "streamed_tokens": 9, "error": "model_not_found" });
    assert_eq!(found, expected);
}

#[test]
fn the_npm_package_transcribes() {
    let Some(node) = node("openai") else { return };
    let found = run(node, "openai_client.mjs", service(), &["recognise", speech().to_str().unwrap()]);
    let text = found["text"].as_str().unwrap();
    assert!(text.contains("can do") && found["streamed"] == text, "{found}");
    assert!(found["words"].as_array().unwrap().len() > 15 && found["as_srt"].as_str().unwrap().contains("-->"));
    assert_eq!(found["error"], json!(["UnprocessableEntityError", 422, "validation_error"]));
}

#[test]
fn the_npm_package_chats() {
    let Some(node) = node("openai") else { return };
    let (_receiver, service) = chatting();
    let found = run(node, "openai_client.mjs", &service, &["chat"]);
    assert_eq!(
        found,
        json!({ "text": "Hello there", "tokens": 9, "streamed": "Hello there", "error": "model_not_found" })
    );
}

#[test]
fn the_python_package_speaks() {
    let Some(python) = python("openai") else { return };
    let service = Setup::local().voice().start();
    let found = run(python, "openai_client.py", &service, &["speak"]);
    assert_eq!((&found["streamed"], &found["type"]), (&found["pcm"], &json!("audio/pcm")));
    // Two voices with random weights: one may be short.
    assert!(found["pcm"].as_u64() > Some(2_000) && found["wav"].as_u64() > Some(2_000), "{found}");
    assert_eq!(found["riff"], "RIFF");
    assert_eq!(
        found["errors"],
        json!({
            "voice": ["UnprocessableEntityError", 422, "validation_error"],
            "model": ["NotFoundError", 404, "model_not_found"],
            "nothing": ["UnprocessableEntityError", 422, "validation_error"],
        })
    );
}

#[test]
fn the_npm_package_speaks() {
    let Some(node) = node("openai") else { return };
    let service = Setup::local().voice().start();
    let found = run(node, "openai_client.mjs", &service, &["speak"]);
    assert!(found["pcm"].as_u64() > Some(2_000) && found["streamed"] == found["pcm"], "{found}");
    assert_eq!(found["error"], json!(["UnprocessableEntityError", 422, "validation_error"]));
}
