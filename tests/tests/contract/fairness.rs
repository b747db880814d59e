//! Accounts share the service: what one of them keeps waiting delays no other.

use std::io::Write as _;
use std::net::TcpStream;

use auricle_tests::{
    Account, Bucket, Frame, Gate, Live, Receiver, Reply, Service, Setup, eventually, noise, silence, wire,
};
use serde_json::{Value, json};

#[test]
fn a_url_that_hangs_delays_no_other_job() {
    let service = Setup::local().with("job_workers", 1).start();
    let (receiver, greedy, other) = (Receiver::new(), service.account(), service.account());
    let gate = Gate::new();
    let hanging: Vec<String> = (0..5)
        .map(|n| {
            let held = Reply::Held(silence(1.0).into(), gate.clone());
            greedy.create(&json!({"audio_url": receiver.answers(&format!("/{n}.wav"), [held])}))
        })
        .collect();
    (0..5).for_each(|n| drop(receiver.wait(&format!("/{n}.wav"), 1)));
    let uploaded = other.transcribe("a.wav", silence(1.0));
    assert_eq!(uploaded["status"], "completed");
    let fetched = other.finished(&other.create(&json!({"audio_url": receiver.sound()})));
    assert_eq!(fetched["status"], "completed");
    gate.open();
    hanging.iter().for_each(|id| assert_eq!(greedy.finished(id)["status"], "completed"));
}

#[test]
fn an_upload_that_the_object_store_is_slow_to_read_delays_no_other_job() {
    let bucket = Bucket::new();
    let service = bucket.keeps(Setup::local().with("job_workers", 1)).start();
    let (slow, other) = (service.account(), service.account());
    let upload = slow.upload("a.wav", silence(1.0));
    bucket.hold_reads(&upload);
    let waiting = slow.create(&json!({"upload_id": upload}));
    eventually("it is read", || (slow.transcript(&waiting)["status"] == "processing").then_some(()));
    assert_eq!(other.transcribe("a.wav", silence(1.0))["status"], "completed");
    assert_eq!(slow.transcript(&waiting)["status"], "processing");
    bucket.release();
    assert_eq!(slow.finished(&waiting)["status"], "completed");
}

#[test]
fn jobs_of_accounts_take_turns() {
    let service = Setup::local().with("job_workers", 1).start();
    let (receiver, greedy, other) = (Receiver::new(), service.account(), service.account());
    let file = noise(100.0);
    let upload = greedy.upload("a.wav", file.clone());
    let others = other.upload("a.wav", file);
    let url = receiver.answers("/a.wav", [Reply::audio(noise(100.0))]);
    let many: Vec<String> = (0..8).map(|_| greedy.create(&json!({"upload_id": upload}))).collect();
    let one = [json!({"upload_id": others}), json!({"audio_url": url})].map(|body| other.create(&body));
    let ended = |job: &Value| job["completed_at"].as_str().unwrap().to_owned();
    let one = one.map(|id| ended(&other.finished(&id)));
    let many: Vec<String> = many.iter().map(|id| ended(&greedy.finished(id))).collect();
    assert!(many.is_sorted(), "first in, first out within an account: {many:?}");
    assert!(one.iter().all(|one| *one < many[7]), "{one:?} of {many:?}");
}

/// A request for an answer that does not end by itself, sent on a connection of its own.
fn endless_chat(service: &Service, account: &Account) -> TcpStream {
    let body = json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 100_000, "temperature": 0 });
    let (key, body) = (&account.key, body.to_string());
    let mut connection = wire::connect(&service.api());
    let head = format!(
        "POST /v2/llm/chat-completions HTTP/1.1\r\nHost: service\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection
}

#[test]
fn answers_of_one_account_leave_places_to_others_and_end_with_their_clients() {
    let service = Setup::local().with("max_chats", 4).start();
    service.pull_chat(1 << 20, None);
    let (greedy, other) = (service.account(), service.account());
    let short = json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 2 });
    let chat = |account: &Account| account.post("/v2/llm/chat-completions", &short);
    chat(&greedy).ok();
    let mut held: Vec<TcpStream> = Vec::new();
    eventually("the account has its share", || {
        // One that comes while the short one is answered may be refused.
        held.push(endless_chat(&service, &greedy));
        (chat(&greedy).status == 503).then_some(())
    });
    chat(&greedy).error(503, "unavailable");
    (0..4).for_each(|_| drop(chat(&other).ok()));
    // None of them reads an answer: that a client has left is seen on the connection alone.
    drop(held);
    eventually("the places are free", || (chat(&greedy).status == 200).then_some(()));
}

#[test]
fn receivers_that_hang_delay_no_other_webhook() {
    let service = Setup::local().with("webhook_timeout_seconds", 600).with("parallel_jobs", 8).start();
    let (receiver, greedy, other) = (Receiver::new(), service.account(), service.account());
    let hook = receiver.answers("/hangs", [Reply::Silence]);
    let upload = greedy.upload("a.wav", silence(0.1));
    let body = json!({"upload_id": upload, "webhook_url": hook});
    let ids: Vec<String> = (0..80).map(|_| greedy.create(&body)).collect();
    ids.iter().for_each(|id| assert_eq!(greedy.finished(id)["status"], "completed"));
    let upload = other.upload("a.wav", silence(0.1));
    let id = other.create(&json!({"upload_id": upload, "webhook_url": receiver.url("/answers")}));
    assert_eq!(receiver.wait("/answers", 1)[0].json()["transcript_id"], id);
    assert!(receiver.deliveries("/hangs").len() > 16, "an account may use most of what is free");
}

#[test]
fn silent_sessions_leave_room_for_other_accounts() {
    let service = Setup::new().with("max_live_sessions", 4).start();
    let (greedy, other) = (service.account().mint(&json!({})), service.account().mint(&json!({})));
    let mut silent: Vec<Live> = Vec::new();
    let refused = loop {
        let mut live = greedy.open();
        match live.read() {
            Frame::Ready => silent.push(live),
            refused => break refused,
        }
    };
    assert_eq!(refused, Frame::Error("Realtime transcription is unavailable.".into()));
    assert_eq!(silent.len(), 3, "an account alone may use all but the last place");
    let mut live = other.open();
    live.ready();
    live.stop();
    assert_eq!(live.rest(), [Frame::Done, Frame::Closed(1000)]);
    silent[0].ping(b"not for want of me");
}
