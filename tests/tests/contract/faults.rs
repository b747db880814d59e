//! Crashes at any moment: each job ends once, is billed once, and its webhook arrives at least once.

use std::io::Write as _;
use std::time::Duration;

use auricle_tests::{
    Account, Answer, Bucket, Clock, Gate, Postgres, Receiver, Reply, Service, Setup, SmallDisk, eventually, http,
    noise, silence, wire,
};
use serde_json::{Value, json};

use crate::postgres;

/// Short leases and retries, so that a test can wait for them.
fn quick() -> Setup {
    Setup::local().with("job_lease_seconds", 2).with("webhook_retry_seconds", "[1, 1, 1, 1, 1, 1]")
}

/// Asserts that a job has completed once, with one bill of so many seconds.
#[track_caller]
fn assert_done_once(account: &Account, id: &str, seconds: f64) {
    let done = account.finished(id);
    assert_eq!((&done["status"], &done["error"]), (&json!("completed"), &Value::Null), "{done}");
    let bills = account.bills(id);
    assert_eq!(bills.len(), 1, "{bills:?}");
    assert_eq!(bills[0]["quantity"].as_f64(), Some(seconds));
}

#[test]
fn killed_during_a_put() {
    let service = quick().start();
    let account = service.account();
    let signed = account.sign("a.wav", "audio/wav");
    let file = silence(60.0);
    let target = signed.url().splitn(4, '/').nth(3).unwrap();
    let mut put = wire::connect(&service.storage());
    let head = format!(
        "PUT /{target} HTTP/1.1\r\nHost: x\r\nContent-Type: audio/wav\r\nContent-Length: {}\r\n\r\n",
        file.len()
    );
    put.write_all(head.as_bytes()).unwrap();
    put.write_all(&file[..file.len() / 2]).unwrap();
    service.kill();
    service.start();
    account.complete(signed.id()).error(409, "upload_incomplete");
    assert_eq!(signed.put(file).status, 200, "the same URL, as the contract says");
    account.complete(signed.id()).ok();
    assert_done_once(&account, &account.create(&json!({"upload_id": signed.id()})), 60.0);
}

#[test]
fn killed_between_put_and_complete() {
    let service = quick().start();
    let account = service.account();
    let signed = account.sign("a.wav", "audio/wav");
    assert_eq!(signed.put(silence(1.0)).status, 200);
    service.kill();
    service.start();
    assert_eq!(account.complete(signed.id()).ok()["size_bytes"], silence(1.0).len());
    assert_done_once(&account, &account.create(&json!({"upload_id": signed.id()})), 1.0);
}

#[test]
fn killed_after_complete() {
    let service = quick().start();
    let account = service.account();
    let upload = account.upload("a.wav", silence(1.0));
    service.kill();
    service.start();
    assert_done_once(&account, &account.create(&json!({"upload_id": upload})), 1.0);
}

#[test]
fn killed_while_a_job_fetches() {
    let service = quick().start();
    let (receiver, account) = (Receiver::new(), service.account());
    let held = Reply::Held(silence(2.0).into(), Gate::new());
    let url = receiver.answers("/a.wav", [held, Reply::audio(silence(2.0))]);
    let id = account.create(&json!({"audio_url": url, "webhook_url": receiver.url("/hook")}));
    receiver.wait("/a.wav", 1);
    service.kill();
    service.start();
    assert_done_once(&account, &id, 2.0);
    assert_eq!(receiver.wait("/hook", 1)[0].json()["transcript_id"], id);
}

#[test]
fn killed_right_after_jobs_are_accepted() {
    let service = quick().start();
    let (receiver, account) = (Receiver::new(), service.account());
    let ids: Vec<String> = (0..4)
        .map(|n| {
            let upload = account.upload("a.wav", noise(1.0));
            account.create(&json!({"upload_id": upload, "webhook_url": receiver.url(&format!("/{n}"))}))
        })
        .collect();
    service.kill();
    service.start();
    for (n, id) in ids.iter().enumerate() {
        assert_done_once(&account, id, 1.0);
        assert_eq!(receiver.wait(&format!("/{n}"), 1)[0].json()["transcript_id"], *id);
    }
}

#[test]
fn killed_again_and_again_under_load() {
    let service = quick().start();
    let (receiver, account) = (Receiver::new(), service.account());
    let file = noise(40.0);
    let ids: Vec<String> = (0..6)
        .map(|n| {
            let upload = account.upload("a.wav", file.clone());
            account.create(&json!({"upload_id": upload, "webhook_url": receiver.url(&format!("/{n}"))}))
        })
        .collect();
    // Twice: a job that runs during a third crash is given up as its likely cause.
    for id in &ids[..2] {
        service.kill();
        service.start();
        account.finished(id);
    }
    for (n, id) in ids.iter().enumerate() {
        assert_done_once(&account, id, 40.0);
        receiver.wait(&format!("/{n}"), 1);
    }
    assert_eq!(account.usage().len(), ids.len());
    assert_eq!(account.credits()["credit_balance_cents"], 1000 - ids.len());
}

#[test]
fn killed_between_completion_and_its_webhook() {
    let service = quick().start();
    let (receiver, account) = (Receiver::new(), service.account());
    receiver.stop();
    let upload = account.upload("a.wav", silence(1.0));
    let id = account.create(&json!({"upload_id": upload, "webhook_url": receiver.url("/hook")}));
    assert_eq!(account.finished(&id)["status"], "completed");
    service.kill();
    receiver.start();
    service.start();
    assert_eq!(receiver.wait("/hook", 1)[0].json()["transcript_id"], id);
    assert_done_once(&account, &id, 1.0);
}

#[test]
fn killed_while_a_webhook_is_answered() {
    let service = quick().start();
    let (receiver, account) = (Receiver::new(), service.account());
    receiver.answers("/hook", [Reply::Silence, Reply::Status(200)]);
    let upload = account.upload("a.wav", silence(1.0));
    let id = account.create(&json!({"upload_id": upload, "webhook_url": receiver.url("/hook")}));
    receiver.wait("/hook", 1);
    service.kill();
    service.start();
    let deliveries = receiver.wait("/hook", 2);
    assert_eq!(deliveries[0].json(), deliveries[1].json(), "at least once, with the same key");
    assert_done_once(&account, &id, 1.0);
}

#[test]
fn killed_after_a_deletion() {
    let service = quick().start();
    let account = service.account();
    let done = account.transcribe("a.wav", silence(1.0));
    let path = format!("/v2/transcripts/{}", done["id"].as_str().unwrap());
    assert_eq!(account.delete(&path).status, 204);
    service.kill();
    service.start();
    account.get(&path).error(404, "not_found");
    assert_eq!(account.usage().len(), 1);
}

/// Two nodes on one database and one bucket.
fn pair(setup: &Setup) -> (Service, Service) {
    (setup.clone().start(), setup.clone().start())
}

#[test]
fn two_nodes_are_one_service() {
    let Some(server) = postgres() else { return };
    let bucket = Bucket::new();
    let (one, two) = pair(&bucket.keeps(quick()).with("database_url", server.database()));
    let receiver = Receiver::new();
    let here = one.account();
    let there = here.at(&two.api());
    let ids: Vec<String> = (0..10)
        .map(|n| {
            let (first, second) = if n % 2 == 0 { (&here, &there) } else { (&there, &here) };
            let signed = first.sign("a.wav", "audio/wav");
            assert_eq!(signed.put(noise(1.0)).status, 200);
            second.complete(signed.id()).ok();
            first.create(&json!({"upload_id": signed.id(), "webhook_url": receiver.url(&format!("/{n}"))}))
        })
        .collect();
    for (n, id) in ids.iter().enumerate() {
        let account = if n % 2 == 0 { &there } else { &here };
        assert_done_once(account, id, 1.0);
        receiver.wait(&format!("/{n}"), 1);
    }
    assert_eq!(here.usage().len(), ids.len());
    let post = |account: &Account, body: &Value| {
        let request = account.request(reqwest::Method::POST, "/v2/transcripts").header("idempotency-key", "k");
        Answer::of(request.header("content-type", "application/json").body(body.to_string())).ok()["id"].clone()
    };
    let body = json!({"upload_id": here.upload("a.wav", silence(0.5))});
    let (a, b) = std::thread::scope(|scope| {
        let a = scope.spawn(|| post(&here, &body));
        (post(&there, &body), a.join().unwrap())
    });
    assert_eq!(a, b, "one job, whichever node is asked");
    let second = Account { key: one.key(&here.email), ..there.clone() };
    second.get("/v2/models").ok();
    assert_eq!(one.keys("revoke", [&second.key]).status, Some(0));
    second.get("/v2/models").error(401, "unauthorized");
}

#[test]
fn another_node_takes_over_from_one_that_dies() {
    let Some(server) = postgres() else { return };
    let bucket = Bucket::new();
    let setup = bucket.keeps(quick()).with("database_url", server.database());
    let one = setup.clone().start();
    let (receiver, account) = (Receiver::new(), one.account());
    let held = Reply::Held(silence(2.0).into(), Gate::new());
    let url = receiver.answers("/a.wav", [held, Reply::audio(silence(2.0))]);
    let id = account.create(&json!({"audio_url": url, "webhook_url": receiver.url("/hook")}));
    receiver.wait("/a.wav", 1);
    let two = setup.start();
    one.kill();
    assert_done_once(&account.at(&two.api()), &id, 2.0);
    receiver.wait("/hook", 1);
}

#[test]
fn a_node_that_resumes_after_its_lease_bills_nothing() {
    let Some(server) = postgres() else { return };
    let bucket = Bucket::new();
    let setup = bucket.keeps(quick()).with("database_url", server.database()).with("job_workers", 1);
    let one = setup.clone().start();
    let (receiver, gate, account) = (Receiver::new(), Gate::new(), one.account());
    let held = Reply::Held(silence(2.0).into(), gate.clone());
    let url = receiver.answers("/a.wav", [held, Reply::audio(silence(2.0))]);
    let id = account.create(&json!({"audio_url": url}));
    receiver.wait("/a.wav", 1);
    one.signal("STOP");
    let two = setup.start();
    assert_done_once(&account.at(&two.api()), &id, 2.0);
    let ended = account.at(&two.api()).transcript(&id);
    two.kill();
    gate.open();
    one.signal("CONT");
    // The first node has one worker, which finishes the old job before it takes another.
    let next = account.create(&json!({"upload_id": account.upload("b.wav", silence(1.0))}));
    assert_done_once(&account, &next, 1.0);
    assert_done_once(&account, &id, 2.0);
    assert_eq!(account.transcript(&id), ended, "what has ended stays as it is");
}

#[test]
fn roles_divide_the_work() {
    let Some(server) = postgres() else { return };
    let bucket = Bucket::new();
    let setup = bucket.keeps(quick()).with("database_url", server.database());
    let api = setup.clone().with("role", "api").start();
    let account = api.account();
    let id = account.create(&json!({"upload_id": account.upload("a.wav", silence(1.0))}));
    assert_ne!(account.transcript(&id)["status"], "completed");
    let worker = setup.with("role", "worker").prepare();
    worker.spawn();
    assert_done_once(&account, &id, 1.0);
    worker.terminate();
    assert!(worker.wait().success());
}

#[test]
fn a_bucket_outage_fails_no_job() {
    let bucket = Bucket::new();
    let service = bucket.keeps(quick()).start();
    let account = service.account();
    let (ready, late) = (account.upload("a.wav", silence(1.0)), account.sign("b.wav", "audio/wav"));
    bucket.stop();
    let put = Answer::try_of(late.request(silence(1.0)));
    assert!(put.is_none_or(|put| put.status >= 500), "nowhere to put it");
    account.get("/v2/models").ok();
    let id = account.create(&json!({"upload_id": ready}));
    eventually("the job is tried", || (account.transcript(&id)["status"] != "queued").then_some(()));
    bucket.start();
    assert_done_once(&account, &id, 1.0);
    assert_eq!(late.put(silence(1.0)).status, 200);
    account.complete(late.id()).ok();
    assert_done_once(&account, &account.create(&json!({"upload_id": late.id()})), 1.0);
}

#[test]
fn a_database_that_restarts_under_load_loses_nothing() {
    let Some(server) = Postgres::start() else { return };
    let service = quick().with("database_url", server.database()).start();
    let (receiver, account) = (Receiver::new(), service.account());
    let make = |n: usize| {
        let upload = account.upload("a.wav", noise(20.0));
        account.create(&json!({"upload_id": upload, "webhook_url": receiver.url(&format!("/{n}"))}))
    };
    let mut ids: Vec<String> = (0..6).map(make).collect();
    account.finished(&ids[0]);
    server.crash();
    let answer = Answer::of(account.request(reqwest::Method::GET, "/v2/credits"));
    assert!(answer.status >= 500, "{}", answer.status);
    assert!(answer.json()["error"]["message"].is_string());
    assert_eq!(Answer::of(http().get(format!("{}/health/live", service.api()))).status, 200);
    assert_ne!(Answer::of(http().get(format!("{}/health/ready", service.api()))).status, 200);
    server.resume();
    eventually("the service is ready again", || {
        (Answer::of(http().get(format!("{}/health/ready", service.api()))).status == 200).then_some(())
    });
    ids.push(make(6));
    for (n, id) in ids.iter().enumerate() {
        assert_done_once(&account, id, 20.0);
        receiver.wait(&format!("/{n}"), 1);
    }
    assert_eq!(account.usage().len(), ids.len());
}

/// A live session that ends while the database is away is billed once it is back, for the time that it was connected.
#[test]
fn a_session_that_ends_while_the_database_is_away_is_billed() {
    let Some(server) = Postgres::start() else { return };
    let service = quick().with("database_url", server.database()).start();
    let account = service.account();
    let mut live = account.mint(&json!({})).open();
    live.ready();
    live.last(Duration::from_millis(1500));
    server.crash();
    live.close();
    live.rest();
    let ended = live.asked().elapsed();
    std::thread::sleep(Duration::from_secs(2));
    server.resume();
    let bills = eventually("it is billed", || {
        let answer = Answer::try_of(account.request(reqwest::Method::GET, "/v2/usage"))?;
        let bills = (answer.status == 200).then(|| answer.ok()["data"].as_array().unwrap().clone())?;
        (!bills.is_empty()).then_some(bills)
    });
    assert_eq!(bills.len(), 1, "{bills:?}");
    let seconds = bills[0]["quantity"].as_f64().unwrap();
    assert!((1.5..=ended.as_secs_f64() + 1.0).contains(&seconds), "{seconds} s of {ended:?}");
}

/// Nodes notify each other of new work: a node with a long polling interval takes it at once.
#[test]
fn nodes_notify_each_other() {
    let Some(server) = postgres() else { return };
    let bucket = Bucket::new();
    let setup = bucket.keeps(Setup::local()).with("database_url", server.database());
    let api = setup.clone().with("role", "api").start();
    let worker = setup.with("role", "worker").with("poll_seconds", 86_400).with("job_lease_seconds", 86_400).start();
    let (receiver, account) = (Receiver::new(), api.account());
    for n in 0..3 {
        let hook = receiver.url(&format!("/{n}"));
        let upload = account.upload("a.wav", silence(1.0));
        let id = account.create(&json!({"upload_id": upload, "webhook_url": hook}));
        assert_done_once(&account, &id, 1.0);
        receiver.wait(&format!("/{n}"), 1);
    }
    worker.terminate();
    assert!(worker.wait().success());
}

#[test]
fn a_full_disk_fails_requests_and_loses_nothing() {
    let service = quick().prepare();
    let Some(disk) = SmallDisk::mount(&service.data(), 24) else { return };
    service.start();
    let (receiver, account) = (Receiver::new(), service.account());
    let done = account.transcribe("a.wav", silence(1.0));
    let ready = account.upload("b.wav", noise(20.0));
    let late = account.sign("c.wav", "audio/wav");
    let at_work = account.create(&json!({"upload_id": ready, "webhook_url": receiver.url("/hook")}));
    disk.fill();
    let put = Answer::try_of(late.request(noise(30.0)));
    assert!(put.is_none_or(|put| put.status >= 500), "there is no room for it");
    // Stored data can be read, and the health endpoint reports the state.
    assert_eq!(account.transcript(done["id"].as_str().unwrap()), done);
    assert_eq!(Answer::of(http().get(format!("{}/health/live", service.api()))).status, 200);
    // The database may have free pages left; it responds either way.
    let create = json!({"upload_id": ready});
    let created: Vec<Answer> = (0..20).map(|_| account.post("/v2/transcripts", &create)).collect();
    assert!(created.iter().all(|answer| [200, 500, 503].contains(&answer.status)));
    disk.free();
    assert_done_once(&account, &at_work, 20.0);
    receiver.wait("/hook", 1);
    let ids: Vec<String> = created
        .iter()
        .filter(|answer| answer.status == 200)
        .map(|answer| answer.json()["id"].as_str().unwrap().to_owned())
        .collect();
    ids.iter().for_each(|id| assert_done_once(&account, id, 20.0));
    assert_eq!(late.put(noise(3.0)).status, 200, "there is room again");
    account.complete(late.id()).ok();
    assert_done_once(&account, &account.create(&json!({"upload_id": late.id()})), 3.0);
    assert_eq!(account.usage().len(), ids.len() + 3, "what was refused is not billed");
}

#[test]
fn a_service_whose_disk_is_nearly_full_is_not_ready() {
    let service = quick().prepare();
    let Some(disk) = SmallDisk::mount(&service.data(), 128) else { return };
    service.start();
    let ready = || Answer::of(http().get(format!("{}/health/ready", service.api())));
    assert_eq!(ready().status, 200, "{}", ready().text());
    // The database has room for long.
    let ballast = service.data().join("ballast-of-the-test");
    std::fs::write(&ballast, vec![0; 80 << 20]).unwrap();
    let answer = eventually("it is not ready", || Some(ready()).filter(|answer| answer.status == 503));
    assert!(answer.json()["reason"].as_str().unwrap().contains("data folder"), "{}", answer.text());
    assert_eq!(Answer::of(http().get(format!("{}/health/live", service.api()))).status, 200);
    std::fs::remove_file(ballast).unwrap();
    eventually("it is ready again", || (ready().status == 200).then_some(()));
    drop(disk);
}

/// Leases, retries and sessions from before the clock was set back lie hours ahead.
fn set_back(clock: &Clock, service: &Service, after_death: impl Fn() -> Option<Service>) {
    let (receiver, account) = (Receiver::new(), service.account());
    let held = Reply::Held(silence(2.0).into(), Gate::new());
    let url = receiver.answers("/a.wav", [held, Reply::audio(silence(2.0))]);
    receiver.answers("/hook", [Reply::Status(500), Reply::Status(200)]);
    let at_work = account.create(&json!({"audio_url": url}));
    receiver.wait("/a.wav", 1);
    let notified = account.create(&json!({
        "upload_id": account.upload("b.wav", silence(1.0)), "webhook_url": receiver.url("/hook"),
    }));
    receiver.wait("/hook", 1);
    clock.set("-6h");
    receiver.wait("/hook", 2);
    assert_done_once(&account, &notified, 1.0);
    let url = receiver.answers("/c.wav", [Reply::audio(noise(1.5))]);
    assert_done_once(&account, &account.create(&json!({"audio_url": url})), 1.5);
    service.kill();
    let other = after_death();
    let account = other.as_ref().map_or_else(|| account.clone(), |other| account.at(&other.api()));
    assert_done_once(&account, &at_work, 2.0);
    assert_eq!(account.usage().len(), 3);
}

#[test]
fn a_clock_that_is_set_back_delays_nothing() {
    let Some(clock) = Clock::new() else { return };
    let service = quick().environment(clock.environment()).start();
    set_back(&clock, &service, || {
        service.start();
        None
    });
}

#[test]
fn a_clock_that_is_set_back_on_nodes_of_one_database_delays_nothing() {
    let (Some(clock), Some(server)) = (Clock::new(), postgres()) else { return };
    let bucket = Bucket::new();
    let setup = bucket.keeps(quick()).environment(clock.environment()).with("database_url", server.database());
    let one = setup.clone().start();
    set_back(&clock, &one, || Some(setup.clone().start()));
}
