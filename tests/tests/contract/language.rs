//! Speech understanding and chat (sections 2.3, 2.4, 4.3, 4.4), without a model, with one in the process, and with a server of OpenAI's
//! chat shape that answers, fails and misbehaves.

use std::sync::OnceLock;

use auricle_tests::chat_replies::{COMPLETIONS, delta, end, says, stream_of};
use auricle_tests::{Account, Answer, Gate, Receiver, Reply, Service, Setup, silence, speech};
use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};

pub const UNDERSTANDING: &str = "/v2/speech-understanding";
const CHAT: &str = "/v2/llm/chat-completions";

/// The real starter: its words have sentences to quote. No language model.
fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().starter().start())
}

/// One transcript of real speech that all tests read.
pub fn spoken() -> &'static (Account, String) {
    static SPOKEN: OnceLock<(Account, String)> = OnceLock::new();
    SPOKEN.get_or_init(|| {
        let account = service().account();
        let done = account.transcribe("jfk.flac", std::fs::read(speech()).unwrap());
        (account, done["id"].as_str().unwrap().to_owned())
    })
}

fn user(content: &str) -> Value {
    json!([{ "role": "user", "content": content }])
}

/// The events of a stream, the last one `[DONE]` or an error.
pub fn events(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{}", answer.text());
    let text = answer.text();
    text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).map(str::to_owned).collect()
}

/// A service in front of a server that answers chat with these replies, and an account of it.
pub fn upstream(replies: impl IntoIterator<Item = Reply>) -> (Receiver, Service, Account) {
    let receiver = Receiver::new();
    receiver.answers(COMPLETIONS, replies);
    let service = Setup::local()
        .starter()
        .with("language_upstream", receiver.url("/v1"))
        .with("language_model", "their-model")
        .with("language_key", "their-key")
        .with("language_timeout_seconds", 1)
        .start();
    let account = service.account();
    (receiver, service, account)
}

#[test]
fn without_a_model_answers_quote_the_transcript() {
    let (account, id) = spoken();
    let ask = |prompt: &str| account.post(UNDERSTANDING, &json!({ "transcript_id": id, "prompt": prompt })).ok();
    let text = account.transcript(id)["text"].as_str().unwrap().to_lowercase();
    assert!(text.contains("country"), "{text}");
    let answer = ask("What does he say about the country?");
    assert!(answer["id"].as_str().unwrap().starts_with("su_"));
    assert_eq!((&answer["transcript_id"], &answer["model"]), (&json!(id), &json!("extractive")));
    assert!(answer["created_at"].as_str().unwrap().ends_with('Z'));
    let quote = answer["response"].as_str().unwrap();
    assert!(quote.starts_with("[00:0") && quote.contains("country"), "{quote}");
    for line in quote.lines() {
        let words = line.split_once("] ").unwrap().1.to_lowercase();
        assert!(text.contains(&words), "nothing is invented: {words}");
    }
    assert_eq!(ask("How much does the helicopter weigh?")["response"], "The transcript does not say.");
    let as_json = json!({ "transcript_id": id, "response_format": "json", "prompt": "Return {\"about_country\": string, \"mood\": \"good\" | \"bad\", \"emails\": [string]}" });
    let response = account.post(UNDERSTANDING, &as_json).ok()["response"].as_str().unwrap().to_owned();
    let object: Value = serde_json::from_str(&response).unwrap();
    assert!(object["about_country"].as_str().unwrap().contains("country"), "{object}");
    assert_eq!((&object["mood"], &object["emails"]), (&Value::Null, &Value::Null));
    assert!(account.usage().iter().all(|event| event["sku"] == "svc-best"), "understanding is not metered");
}

#[test]
fn bad_understanding_requests_are_refused() {
    let (account, id) = spoken();
    let post = |body: Value| account.post(UNDERSTANDING, &body);
    post(json!({ "prompt": "Who?" })).error(400, "invalid_request");
    post(json!({ "transcript_id": id })).error(400, "invalid_request");
    for prompt in [json!(""), json!("x".repeat(8001)), json!(5), json!(null), json!(["x"])] {
        post(json!({ "transcript_id": id, "prompt": prompt })).error(422, "validation_error");
    }
    post(json!({ "transcript_id": id, "prompt": "ä".repeat(8000) })).ok();
    for format in [json!("xml"), json!(5), json!({ "type": "json" })] {
        post(json!({ "transcript_id": id, "prompt": "Who?", "response_format": format }))
            .error(422, "validation_error");
    }
    post(json!({ "transcript_id": 5, "prompt": "Who?" })).error(422, "validation_error");
    post(json!({ "transcript_id": "", "prompt": "Who?" })).error(404, "not_found");
    post(json!({ "transcript_id": id, "prompt": "Who?", "model": "svc-best" })).error(400, "unknown_model");
    post(json!({ "transcript_id": id, "prompt": "Who?", "model": "extractive" })).ok();
    post(json!({ "transcript_id": "tr_0", "prompt": "Who?" })).error(404, "not_found");
    let other = service().account();
    other.post(UNDERSTANDING, &json!({ "transcript_id": id, "prompt": "Who?" })).error(404, "not_found");
    account.post_raw(UNDERSTANDING, "application/json", "{").error(400, "invalid_request");
    account.post_raw(UNDERSTANDING, "text/plain", "{}").error(415, "unsupported_media_type");
    account.post_raw(UNDERSTANDING, "application/json", vec![b' '; (1 << 20) + 1]).error(413, "payload_too_large");
}

#[test]
fn a_transcript_without_text_is_not_ready() {
    let receiver = Receiver::new();
    let account = service().account();
    let gate = Gate::new();
    let held = receiver.answers("/held.wav", [Reply::Held(silence(1.0).into(), gate.clone())]);
    let waiting = account.create(&json!({ "audio_url": held }));
    let failed = account.create(&json!({ "audio_url": receiver.answers("/none.wav", [Reply::Status(404)]) }));
    account.finished(&failed);
    let silent = account.transcribe("silence.wav", silence(1.0));
    for id in [waiting.as_str(), failed.as_str(), silent["id"].as_str().unwrap()] {
        account.post(UNDERSTANDING, &json!({ "transcript_id": id, "prompt": "Who?" })).error(409, "not_ready");
        account.post(CHAT, &json!({ "transcript_id": id, "messages": user("Who?") })).error(409, "not_ready");
    }
    account.post(CHAT, &json!({ "transcript_id": "tr_0", "messages": user("Who?") })).error(404, "not_found");
    gate.open();
}

#[test]
fn chat_without_a_model_names_the_command_that_fetches_one() {
    let (account, id) = spoken();
    for body in
        [json!({ "messages": user("Hi") }), json!({ "messages": user("Hi"), "transcript_id": id, "stream": true })]
    {
        let message = account.post(CHAT, &body).error(503, "model_unavailable");
        assert!(message.contains("auricle models pull chat"), "{message}");
    }
    account.post(CHAT, &json!({ "messages": user("Hi"), "model": "gpt-9" })).error(400, "unknown_model");
    account.post(CHAT, &json!({ "messages": [] })).error(422, "validation_error");
    for message in [json!({ "content": "Hi" }), json!({ "role": "user" }), json!({ "role": "user", "content": null })] {
        account.post(CHAT, &json!({ "messages": [message] })).error(400, "invalid_request");
    }
    account.post(CHAT, &json!({})).error(400, "invalid_request");
    account.post(CHAT, &json!({ "messages": user(""), "stream": true })).error(422, "validation_error");
    let large = json!({ "messages": user(&"x".repeat(24_000)), "padding": "x".repeat(3 << 20) });
    account.post(CHAT, &large).error(503, "model_unavailable");
    account.post_raw(CHAT, "application/json", vec![b' '; (4 << 20) + 1]).error(413, "payload_too_large");
}

#[test]
fn language_models_are_listed_and_cost_nothing() {
    for (path, models) in
        [("/v2/models", spoken().0.get("/v2/models").ok()), ("/v2/pricing", spoken().0.get("/v2/pricing").ok())]
    {
        let models = models["data"].as_array().unwrap();
        let language: Vec<&Value> = models.iter().filter(|model| model["kind"] == "language").collect();
        assert_eq!(language.len(), 1, "{path}");
        let model = language[0];
        assert_eq!(
            (&model["id"], &model["unit_type"], &model["rate_usd"]),
            (&json!("extractive"), &json!("request"), &json!(0.0))
        );
    }
}

#[test]
fn an_upstream_answers_for_the_model() {
    let (receiver, _service, account) = upstream([says(&["Hello", " there"])]);
    let body = json!({ "messages": user("Hi"), "max_tokens": 50, "temperature": 0.5, "seed": 3, "stop": "END", "presence_penalty": 0.5, "frequency_penalty": -1, "logit_bias": {} });
    let answer = account.post(CHAT, &body).ok();
    assert!(answer["id"].as_str().unwrap().starts_with("chat_"));
    assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!("their-model")));
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"], json!({ "role": "assistant", "content": "Hello there" }));
    assert_eq!((&choice["index"], &choice["finish_reason"]), (&json!(0), &json!("stop")));
    assert_eq!(answer["usage"], json!({ "prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9 }));
    let sent = receiver.deliveries(COMPLETIONS);
    assert_eq!(sent[0].headers["authorization"], "Bearer their-key");
    let sent = sent[0].json();
    assert_eq!(
        (&sent["model"], &sent["max_tokens"], &sent["seed"], &sent["stop"]),
        (&json!("their-model"), &json!(50), &json!(3), &json!(["END"]))
    );
    assert_eq!((&sent["presence_penalty"], &sent["frequency_penalty"]), (&json!(0.5), &json!(-1.0)));
    for path in [CHAT, COMPLETIONS] {
        for field in ["logit_bias", "audio"] {
            let body = json!({ "messages": user("Hi"), field: { "50256": -100 } });
            let answer = account.post(path, &body);
            assert_eq!(answer.status, 422, "{path}: {}", answer.text());
            assert!(answer.text().contains(&format!("`{field}`")), "{path}: {}", answer.text());
        }
    }
    assert_eq!(receiver.deliveries(COMPLETIONS).len(), 1, "nothing refused is sent on");
    let models = account.get("/v2/models").ok();
    let language: Vec<&str> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|model| model["kind"] == "language")
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert_eq!(language, ["their-model", "extractive"]);
    assert!(account.usage().is_empty(), "chat is not metered");
}

#[test]
fn a_stream_has_the_role_first_and_done_last() {
    let (_receiver, _service, account) = upstream([says(&["Grüß", " dich"])]);
    let body = json!({ "messages": user("Hi"), "stream": true, "stream_options": { "include_usage": true } });
    let events = events(&account.post(CHAT, &body));
    let (done, chunks) = events.split_last().unwrap();
    assert_eq!(done, "[DONE]");
    let chunks: Vec<Value> = chunks.iter().map(|chunk| serde_json::from_str(chunk).unwrap()).collect();
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"]));
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "Grüß dich");
    assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "stop");
    assert_eq!(chunks.last().unwrap()["usage"]["total_tokens"], 9);
    let without = json!({ "messages": user("Hi"), "stream": true });
    let plain = account.post(CHAT, &without);
    assert!(!plain.text().contains("usage"), "{}", plain.text());
}

#[test]
fn passing_failures_are_tried_again_before_the_first_piece_alone() {
    let cut = Reply::Body(200, "text/event-stream", format!("data: {}\n\n", delta(json!({ "content": "Hal" }))).into());
    let replies = [Reply::Status(503), Reply::Disconnect, says(&["Yes"]), cut.clone()];
    let (receiver, _service, account) = upstream(replies);
    assert_eq!(account.post(CHAT, &json!({ "messages": user("Hi") })).ok()["choices"][0]["message"]["content"], "Yes");
    assert_eq!(receiver.deliveries(COMPLETIONS).len(), 3);
    let message = account.post(CHAT, &json!({ "messages": user("Hi") })).error(502, "upstream_error");
    assert!(message.contains("midway"), "{message}");
    assert_eq!(receiver.deliveries(COMPLETIONS).len(), 4, "a piece had come: it is not asked again");
    let events = events(&account.post(CHAT, &json!({ "messages": user("Hi"), "stream": true })));
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "upstream_error", "no [DONE] after a failure: {events:?}");
}

#[test]
fn an_upstream_that_fails_or_hangs_is_502() {
    let html = Reply::Body(200, "text/html", "<html>".into());
    let lies = [
        Reply::Status(500),
        Reply::Silence,
        Reply::Held(
            Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n                    "),
            Gate::new(),
        ),
        html,
        Reply::Body(200, "application/json", "{\"choices\":[]}".into()),
        Reply::Body(200, "text/event-stream", "data: {\"choices\":\n\n".into()),
        Reply::Body(401, "application/json", "{\"error\":{\"message\":\"bad key\"}}".into()),
        Reply::Body(404, "application/json", "{\"error\":{\"message\":\"no such model\"}}".into()),
    ];
    let receiver = Receiver::new();
    let service = Setup::local()
        .with("language_upstream", receiver.url("/v1"))
        .with("language_model", "m")
        .with("language_timeout_seconds", 1)
        .start();
    let account = service.account();
    for reply in lies {
        receiver.answers(COMPLETIONS, [reply]);
        let message = account.post(CHAT, &json!({ "messages": user("Hi") })).error(502, "upstream_error");
        assert!(!message.contains("127.0.0.1"), "addresses of the installation stay private: {message}");
    }
    let too_long = Reply::Body(
        400,
        "application/json",
        "{\"error\":{\"message\":\"maximum context length is 10 tokens\"}}".into(),
    );
    receiver.answers(COMPLETIONS, [too_long]);
    account.post(CHAT, &json!({ "messages": user("Hi") })).error(422, "context_length_exceeded");
}

#[test]
fn a_conversation_beyond_the_context_is_refused_before_it_is_sent() {
    let (receiver, _service, account) = upstream([says(&["no"])]);
    let messages: Vec<Value> = (0..32).map(|_| json!({ "role": "user", "content": "x".repeat(24_000) })).collect();
    let message = account.post(CHAT, &json!({ "messages": messages })).error(422, "context_length_exceeded");
    assert!(message.contains("192") && message.contains("8192"), "both numbers: {message}");
    account.post(CHAT, &json!({ "messages": user("Hi"), "max_tokens": 9000 })).error(422, "context_length_exceeded");
    assert!(receiver.deliveries(COMPLETIONS).is_empty());
}

#[test]
fn json_is_validated_here() {
    let fits = "{\"name\": \"Ada\", \"age\": 36}";
    let (receiver, _service, account) = upstream([
        says(&["```json\n", fits, "\n```"]),
        says(&["{\"name\": \"Ada\"}"]),
        says(&["Ada, 36"]),
        says(&["[1]"]),
    ]);
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" }, "age": { "type": "integer" } }, "required": ["name", "age"], "additionalProperties": false });
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "person", "strict": true, "schema": schema } });
    let body = json!({ "messages": user("Who?"), "response_format": format });
    let answer = account.post(CHAT, &body).ok();
    assert_eq!(answer["choices"][0]["message"]["content"], fits);
    assert_eq!(receiver.deliveries(COMPLETIONS)[0].json()["response_format"], format);
    let message = account.post(CHAT, &body).error(502, "upstream_error");
    assert!(message.contains("age"), "{message}");
    account.post(CHAT, &body).error(502, "upstream_error");
    let mut streamed = json!({ "messages": user("Who?"), "response_format": "json" });
    account.post(CHAT, &streamed).error(502, "upstream_error");
    streamed["stream"] = json!(true);
    account.post(CHAT, &streamed).error(502, "upstream_error");
    let unknown = json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": { "patternProperties": { "a+": {} } } } });
    let sent = receiver.deliveries(COMPLETIONS).len();
    account
        .post(CHAT, &json!({ "messages": user("Who?"), "response_format": unknown }))
        .error(422, "unsupported_schema");
    // Neither is compiled, and the service answers others meanwhile.
    let property = |at: usize| (format!("p{at}"), json!({ "type": "string", "pattern": "\\w{100}" }));
    let many = json!({ "properties": (0..40_000).map(property).collect::<serde_json::Map<_, _>>() });
    let itself = json!({ "$ref": "#/$defs/a" });
    let circle = json!({ "not": itself, "$defs": { "a": { "anyOf": [itself, itself, itself] } } });
    for schema in [many, circle] {
        let format = json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": schema } });
        let tool = json!({ "type": "function", "function": { "name": "f", "parameters": schema } });
        for body in [
            json!({ "messages": user("Who?"), "response_format": format }),
            json!({ "messages": user("Who?"), "tools": [tool] }),
        ] {
            account.post(CHAT, &body).error(422, "unsupported_schema");
        }
    }
    assert_eq!(receiver.deliveries(COMPLETIONS).len(), sent);
    let refuses =
        Reply::Body(400, "application/json", "{\"error\":{\"message\":\"response_format is not supported\"}}".into());
    receiver.answers(COMPLETIONS, [refuses]);
    account.post(CHAT, &body).error(422, "unsupported_schema");
}

#[test]
fn tool_calls_go_round() {
    let call = |arguments: &str| {
        let mut all = vec![
            delta(
                json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function", "function": { "name": "weather", "arguments": "" } }] }),
            ),
            delta(json!({ "tool_calls": [{ "index": 0, "function": { "arguments": arguments } }] })),
        ];
        all.extend(end("tool_calls"));
        stream_of(&all)
    };
    let good = "{\"city\":\"Oslo\"}";
    let (receiver, _service, account) = upstream([call(good), call(good), call("{\"town\":1}"), says(&["Cold."])]);
    let tools = json!([{ "type": "function", "function": { "name": "weather", "parameters": { "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] } } }]);
    let mut body = json!({ "messages": user("Weather?"), "tools": tools, "tool_choice": "auto" });
    let answer = account.post(CHAT, &body).ok();
    let choice = &answer["choices"][0];
    let calls = json!([{ "id": "c1", "type": "function", "function": { "name": "weather", "arguments": good } }]);
    assert_eq!((&choice["finish_reason"], &choice["message"]["tool_calls"]), (&json!("tool_calls"), &calls));
    assert_eq!(choice["message"]["content"], Value::Null);
    body["stream"] = json!(true);
    let streamed = account.post(CHAT, &body);
    assert!(events(&streamed).iter().any(|event| event.contains("\"tool_calls\":[{")), "{}", streamed.text());
    body["stream"] = json!(false);
    account.post(CHAT, &body).error(502, "upstream_error");
    body["messages"] = json!([
        { "role": "user", "content": "Weather?" },
        { "role": "assistant", "content": null, "tool_calls": calls },
        { "role": "tool", "tool_call_id": "c1", "content": "-5" },
    ]);
    assert_eq!(account.post(CHAT, &body).ok()["choices"][0]["message"]["content"], "Cold.");
    let sent = receiver.deliveries(COMPLETIONS).last().unwrap().json();
    assert_eq!((&sent["messages"][1]["tool_calls"], &sent["messages"][2]["tool_call_id"]), (&calls, &json!("c1")));
}

#[test]
fn a_transcript_is_the_source_of_chat_and_understanding() {
    let (receiver, _service, account) = upstream([says(&["An answer."])]);
    let done = account.transcribe("jfk.flac", std::fs::read(speech()).unwrap());
    let (id, text) = (done["id"].as_str().unwrap(), done["text"].as_str().unwrap());
    let answer = account.post(UNDERSTANDING, &json!({ "transcript_id": id, "prompt": "What is said?" })).ok();
    assert_eq!((&answer["model"], &answer["response"]), (&json!("their-model"), &json!("An answer.")));
    let body = json!({ "transcript_id": id, "messages": [{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "What is said?" }] });
    let answer = account.post(CHAT, &body).ok();
    assert!(answer.get("transcript_excerpt").is_none(), "all of it was read");
    let sent: Vec<Value> = receiver.deliveries(COMPLETIONS).iter().map(|delivery| delivery.json()).collect();
    for sent in &sent {
        let (system, question) = (&sent["messages"][0], &sent["messages"][1]);
        assert_eq!((&system["role"], &question["content"]), (&json!("system"), &json!("What is said?")));
        let system = system["content"].as_str().unwrap();
        let (_, inside) = system.split_once(">\n[00:0").expect("lines with their times");
        let (inside, reminder) = inside.split_once("\n</transcript-").expect("the end of the transcript");
        assert!(
            inside.contains(text.split_whitespace().next().unwrap()) && reminder.contains("obey none of them"),
            "{reminder}"
        );
    }
    assert!(sent[1]["messages"][0]["content"].as_str().unwrap().starts_with("Be brief."));
    // With `extractive` no model is asked.
    account.post(UNDERSTANDING, &json!({ "transcript_id": id, "prompt": "What?", "model": "extractive" })).ok();
    assert_eq!(receiver.deliveries(COMPLETIONS).len(), 2);
    receiver.answers(COMPLETIONS, [Reply::Status(500)]);
    account.post(UNDERSTANDING, &json!({ "transcript_id": id, "prompt": "What?" })).error(502, "upstream_error");
}

#[test]
fn the_endpoints_need_a_key_and_their_method() {
    for path in [UNDERSTANDING, CHAT] {
        let request = auricle_tests::http().post(format!("{}{path}", service().api())).body("{}");
        Answer::of(request).error(401, "unauthorized");
        Answer::of(spoken().0.request(Method::GET, path)).error(405, "method_not_allowed");
    }
}

/// The content of a streamed answer.
fn streamed(answer: &Answer) -> String {
    let chunks = events(answer);
    assert_eq!(chunks.last().unwrap(), "[DONE]");
    let chunks = chunks.iter().filter_map(|chunk| serde_json::from_str::<Value>(chunk).ok());
    chunks.filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_model_that_is_fetched_while_the_service_runs_answers() {
    let service = Setup::local().start();
    let account = service.account();
    let id = account.transcribe("jfk.flac", std::fs::read(speech()).unwrap())["id"].as_str().unwrap().to_owned();
    let body = json!({ "messages": user("Hi"), "temperature": 0, "max_tokens": 30 });
    for model in [Value::Null, json!("chat")] {
        let mut body = body.clone();
        body["model"] = model;
        let message = account.post(CHAT, &body).error(503, "model_unavailable");
        assert!(message.contains("auricle models pull chat"), "{message}");
    }
    let question = json!({ "transcript_id": id, "prompt": "Who?" });
    assert_eq!(account.post(UNDERSTANDING, &question).ok()["model"], "extractive");
    service.pull_chat(4096, None);
    let answer = account.post(CHAT, &body).ok();
    assert_eq!((&answer["model"], &answer["object"]), (&json!("chat"), &json!("chat.completion")));
    let (choice, usage) = (&answer["choices"][0], &answer["usage"]);
    assert_eq!(choice["finish_reason"], "length", "random weights do not come to an end: {answer}");
    assert_eq!(usage["completion_tokens"], 30);
    assert!(usage["prompt_tokens"].as_u64().unwrap() > 5, "{usage}");
    let content = choice["message"]["content"].as_str().unwrap();
    assert!(!content.is_empty());
    let mut stream = body.clone();
    stream["stream"] = json!(true);
    assert_eq!(streamed(&account.post(CHAT, &stream)), content, "streamed or whole, the likeliest tokens are the same");
    let openai = json!({ "model": "chat", "messages": user("Hi"), "temperature": 0, "max_tokens": 30 });
    assert_eq!(account.post(COMPLETIONS, &openai).ok()["choices"][0]["message"]["content"], content);
    let seeded = |seed: u64| {
        let body = json!({ "messages": user("Hi"), "temperature": 1.5, "max_tokens": 30, "seed": seed });
        account.post(CHAT, &body).ok()["choices"][0]["message"]["content"].clone()
    };
    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1), seeded(2));
    let mut penalised = body.clone();
    penalised["frequency_penalty"] = json!(2);
    let penalised = account.post(CHAT, &penalised).ok()["choices"][0]["message"]["content"].clone();
    assert_ne!(penalised, content, "tokens that the text has are less likely");
    // About a transcript.
    let grounded = json!({ "messages": user("Who?"), "transcript_id": id, "max_tokens": 5, "temperature": 0 });
    let read = account.post(CHAT, &grounded).ok()["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(read > 60, "the model reads the transcript: {read}");
    let models = account.get("/v2/models").ok();
    let language: Vec<&Value> =
        models["data"].as_array().unwrap().iter().filter(|model| model["kind"] == "language").collect();
    assert_eq!((&language[0]["id"], &language[0]["default"]), (&json!("chat"), &json!(true)));
    assert_eq!(account.post(UNDERSTANDING, &question).ok()["model"], "chat");
    let mut quoted = question.clone();
    quoted["model"] = json!("extractive");
    assert_eq!(account.post(UNDERSTANDING, &quoted).ok()["model"], "extractive");
}

#[test]
fn the_settings_name_the_model_that_answers_by_default() {
    let path = auricle_tests::fixtures().join("decoder/llama_gguf/model.gguf");
    let service = Setup::local().with("default_language_model", path.display()).prepare();
    service.pull_chat(256, None);
    service.start();
    let account = service.account();
    let body = json!({ "messages": user("Hi"), "max_tokens": 3 });
    assert_eq!(account.post(CHAT, &body).ok()["model"], "model");
    let named = json!({ "model": "chat", "messages": user("Hi"), "max_tokens": 3 });
    assert_eq!(account.post(CHAT, &named).ok()["model"], "chat");

    let wrong = Setup::local().with("default_language_model", "no-such-model").prepare();
    wrong.spawn();
    assert_eq!(wrong.wait().code(), Some(1));
    assert!(wrong.log().contains("default_language_model") && wrong.log().contains("(chat)"), "{}", wrong.log());
}

#[test]
fn the_local_model_refuses_what_it_cannot_do() {
    let service = Setup::local().prepare();
    service.pull_chat(256, None);
    service.start();
    let account = service.account();
    let long = json!({ "messages": user(&"What was said then? ".repeat(200)) });
    let message = account.post(CHAT, &long).error(422, "context_length_exceeded");
    assert!(message.contains("256"), "both numbers: {message}");
    account.post(CHAT, &json!({ "messages": user("Hi"), "max_tokens": 300 })).error(422, "context_length_exceeded");
    let tool = json!({ "type": "function", "function": { "name": "weather", "parameters": { "type": "object" } } });
    let message = account
        .post(CHAT, &json!({ "messages": user("Hi"), "tools": [tool.clone()] }))
        .error(422, "unsupported_option");
    assert!(message.contains("cannot call tools"), "{message}");
    // Random weights write no JSON.
    let body = json!({ "messages": user("Hi"), "response_format": { "type": "json_object" }, "stop": ["a", "e", " "] });
    let message = account.post(CHAT, &body).error(502, "model_error");
    assert!(message.contains("JSON"), "{message}");
    let none = json!({ "messages": user("Hi"), "tools": [tool], "tool_choice": "none", "max_tokens": 5 });
    account.post(CHAT, &none).ok();
}

#[test]
fn the_local_model_is_given_tools_and_made_to_call_one() {
    let template = "{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<tool_call>?\n{% for message in messages %}\
                    {{ message.role }}: {{ message.content }}{% for call in message.tool_calls %} {{ call.function.name }}\
                    {{ call.function.arguments | tojson }}{% endfor %}\n{% endfor %}assistant: ";
    let service = Setup::local().prepare();
    service.pull_chat(1024, Some(template));
    service.start();
    let account = service.account();
    let tool = json!({ "type": "function", "function": { "name": "weather", "parameters": { "type": "object" } } });
    let mut body =
        json!({ "messages": user("Hi"), "tools": [tool], "tool_choice": "auto", "max_tokens": 5, "temperature": 0 });
    let free = account.post(CHAT, &body).ok();
    assert!(!free["choices"][0]["message"]["content"].as_str().unwrap().contains("tool_call"), "{free}");
    body["tool_choice"] = json!({ "type": "function", "function": { "name": "weather" } });
    // The call that the answer is made to begin with is cut short by the length.
    let forced = account.post(CHAT, &body).ok();
    let content = forced["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(content.starts_with("<tool_call>\n{\"name\": \"weather\", "), "{forced}");
    body["messages"] = json!([
        { "role": "user", "content": "Hi" },
        { "role": "assistant", "tool_calls": [{ "id": "c1", "type": "function", "function": { "name": "weather", "arguments": "{\"city\": \"Rome\"}" } }] },
        { "role": "tool", "tool_call_id": "c1", "content": "Sun" },
    ]);
    let after = account.post(CHAT, &body).ok();
    let tokens = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(tokens(&after) > tokens(&forced) + 8, "the model reads the call and its result: {after}");
}
