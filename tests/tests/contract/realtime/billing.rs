//! Metering of realtime sessions, interface section 2.6: the time of each connection is billed once, however it ends.

use std::sync::OnceLock;
use std::time::Duration;

use auricle_tests::{Account, Clock, Frame, Live, Service, Setup, Token, eventually, silence};
use serde_json::{Value, json};

use crate::postgres;

/// The clock of the service and that of the tests need not agree to the millisecond.
const SLACK_S: f64 = 0.05;
/// Time that a crash may leave unbilled: since the last heartbeat of a session.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Short leases, so that a test can wait for them.
fn quick() -> Setup {
    Setup::new().with("job_lease_seconds", 2)
}

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::new().start())
}

/// A session that is ready.
fn open(token: &Token) -> Live {
    let mut live = token.open();
    live.ready();
    live
}

/// Waits for this many usage events of an account, and asserts that there are never more.
#[track_caller]
fn billed(account: &Account, count: usize) -> Vec<Value> {
    eventually("the sessions are billed", || {
        let events = account.usage();
        assert!(events.len() <= count, "more than {count}: {events:?}");
        (events.len() == count).then_some(events)
    })
}

/// Asserts the bill of one session that was open for a time between these two.
#[track_caller]
fn assert_bill(event: &Value, model: &str, at_least: Duration, at_most: Duration) {
    assert_eq!((&event["sku"], &event["unit_type"]), (&json!(model), &json!("session_hour")), "{event}");
    let seconds = event["quantity"].as_f64().unwrap();
    let span = at_least.as_secs_f64() - SLACK_S..=at_most.as_secs_f64() + SLACK_S;
    assert!(span.contains(&seconds), "{seconds} s, not {span:?}");
    let cents_an_hour = if model == "svc-realtime" { 18.0 } else { 54.0 };
    let cents = (seconds * cents_an_hour / 3600.0).ceil().max(1.0);
    assert_eq!(event["retail_cost_cents"].as_f64(), Some(cents), "rounded up to the next cent: {event}");
    assert_eq!((&event["credit_applied_cents"], &event["billable_cents"]), (&event["retail_cost_cents"], &json!(0)));
    assert!(event["session_id"].as_str().is_some_and(|id| !id.is_empty()), "{event}");
    assert!(event["created_at"].as_str().unwrap().ends_with('Z'), "{event}");
}

/// A whole session to its end. Earlier messages of the account have arrived by then.
fn one_more(token: &Token) {
    let mut live = open(token);
    live.stop();
    assert_eq!(live.rest(), [Frame::Done, Frame::Closed(1000)]);
}

#[test]
fn a_session_is_billed_for_its_connection_and_not_for_its_audio() {
    for model in ["svc-realtime-pro", "svc-realtime"] {
        let account = service().account();
        let mut live = open(&account.mint(&json!({"model": model, "estimated_duration_sec": 3300})));
        let asked = live.asked();
        live.last(Duration::from_millis(1200));
        // More audio than the session's time.
        live.send(&[0; 10 * 32000], 3200);
        live.stop();
        let at_least = live.at_least();
        assert!(live.rest().ends_with(&[Frame::Done, Frame::Closed(1000)]));
        let at_most = asked.elapsed();
        let events = billed(&account, 1);
        assert_bill(&events[0], model, at_least, at_most);
        assert_eq!(account.credits()["credit_balance_cents"], 999);
        let rows = account.get("/v2/usage/summary").ok()["by_model"].clone();
        let row = rows.as_array().unwrap().iter().find(|row| row["sku"] == model).unwrap();
        assert_eq!((&row["events"], &row["quantity"]), (&json!(1), &events[0]["quantity"]));
    }
}

#[test]
fn a_client_that_closes_is_billed_once() {
    let account = service().account();
    let mut live = open(&account.mint(&json!({})));
    let asked = live.asked();
    live.last(Duration::from_millis(500));
    let at_least = live.at_least();
    live.close();
    assert_eq!(live.rest(), [Frame::Closed(1000)]);
    let at_most = asked.elapsed();
    assert_bill(&billed(&account, 1)[0], "svc-realtime-pro", at_least, at_most);
}

#[test]
fn a_client_that_vanishes_is_billed_once() {
    let account = service().account();
    let token = account.mint(&json!({}));
    let mut live = open(&token);
    let asked = live.asked();
    live.last(Duration::from_millis(500));
    live.send(&[0; 32000], 3200);
    let at_least = live.at_least();
    drop(live);
    let events = billed(&account, 1);
    assert_bill(&events[0], "svc-realtime-pro", at_least, asked.elapsed());
    one_more(&token);
    let both = billed(&account, 2);
    assert_ne!(both[0]["session_id"], both[1]["session_id"]);
    assert_eq!(both[1], events[0], "newest first");
}

#[test]
fn a_silent_unresponsive_client_is_billed_once() {
    const IDLE: u64 = 1;
    let service = Setup::new().with("live_idle_seconds", IDLE).start();
    let account = service.account();
    // The connection stays open, as after a lost network: the client answers no close frame.
    let live = silent(&service, &account);
    let events = billed(&account, 1);
    assert_bill(&events[0], "svc-realtime-pro", Duration::from_secs(IDLE), live.asked().elapsed());
}

/// A connection whose client never responds and never closes.
fn silent(service: &Service, account: &Account) -> Live {
    let sockets = || {
        let files = std::fs::read_dir(format!("/proc/{}/fd", service.process_id())).into_iter().flatten();
        let names = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        names.filter(|name| name.to_string_lossy().starts_with("socket:")).count()
    };
    // Nobody has connected yet.
    let before = sockets();
    let live = open(&account.mint(&json!({})));
    if before > 0 {
        assert!(sockets() > before);
        eventually("the service lets go of the connection", || (sockets() <= before).then_some(()));
    }
    live
}

#[test]
fn sessions_on_one_token_are_each_billed() {
    let account = service().account();
    let token = account.mint(&json!({}));
    let mut both = [open(&token), open(&token)];
    both.iter_mut().for_each(Live::stop);
    both.iter_mut().for_each(|live| assert!(live.rest().ends_with(&[Frame::Closed(1000)])));
    let events = billed(&account, 2);
    assert_ne!(events[0]["session_id"], events[1]["session_id"]);
}

#[test]
fn a_refused_connection_is_not_billed() {
    let service = Setup::new().with("max_live_sessions", 1).start();
    let account = service.account();
    let token = account.mint(&json!({}));
    let refused = |other: &[(&str, &str)], code: u16| {
        assert_eq!(token.open_with(other).rest().last(), Some(&Frame::Closed(code)), "{other:?}");
    };
    refused(&[("token", "x")], 4401);
    refused(&[("model", "svc-best")], 4400);
    refused(&[("sample_rate", "8000")], 4400);
    refused(&[("language_code", "xx")], 1000);
    let mut live = open(&token);
    refused(&[], 1013);
    live.stop();
    assert_eq!(live.rest(), [Frame::Done, Frame::Closed(1000)]);
    billed(&account, 1);
}

#[test]
fn a_session_may_outgrow_the_credit() {
    let service = Setup::new().with("free_credit_cents", 1).with("live_idle_seconds", 120).start();
    let account = service.account();
    // A cent pays for 66.7 s.
    let mut live = open(&account.mint(&json!({})));
    live.last(Duration::from_millis(66_700));
    live.stop();
    assert!(live.rest().ends_with(&[Frame::Closed(1000)]));
    let events = billed(&account, 1);
    let of = |field: &str| events[0][field].as_u64().unwrap();
    assert_eq!((of("retail_cost_cents"), of("credit_applied_cents"), of("billable_cents")), (2, 1, 1));
    account.ask_for_token(&json!({})).error(402, "v2_billing_required");
}

#[test]
fn five_hundred_sessions_dropped_at_once_are_each_billed() {
    const MANY: usize = 500;
    let service = Setup::new().with("max_live_sessions", MANY + MANY / 8 + 8).start();
    let account = service.account();
    let token = account.mint(&json!({}));
    let mut sessions: Vec<Live> = std::thread::scope(|scope| {
        let opening: Vec<_> = (0..MANY).map(|_| scope.spawn(|| token.open())).collect();
        opening.into_iter().map(|session| session.join().unwrap()).collect()
    });
    // Some while audio is sent, some before the first frame is read.
    for live in &mut sessions[..MANY / 2] {
        live.ready();
        live.send(&[0; 32000], 3200);
    }
    drop(sessions);
    // Pages of events would shift while events are added.
    eventually("the sessions are paid for", || {
        (account.credits()["credit_balance_cents"] == 1000 - MANY).then_some(())
    });
    let events = billed(&account, MANY);
    let mut ids: Vec<&str> = events.iter().map(|event| event["session_id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), MANY, "each of them once");
    assert_eq!(account.credits()["credit_balance_cents"], 1000 - MANY);
    one_more(&token);
    billed(&account, MANY + 1);
    let done = account.transcribe("a.wav", silence(1.0));
    assert_eq!(done["status"], "completed", "the service goes on as it did");
}

#[test]
fn a_stopping_service_bills_its_sessions() {
    let service = quick().start();
    let account = service.account();
    let token = account.mint(&json!({}));
    let mut live = open(&token);
    let asked = live.asked();
    live.last(Duration::from_millis(500));
    let at_least = live.at_least();
    service.terminate();
    assert_eq!(live.rest().last(), Some(&Frame::Closed(1001)));
    let at_most = asked.elapsed();
    assert!(service.wait().success());
    service.start();
    assert_bill(&billed(&account, 1)[0], "svc-realtime-pro", at_least, at_most);
    one_more(&token);
    billed(&account, 2);
}

#[test]
fn a_killed_service_bills_its_sessions_when_it_is_back() {
    let service = quick().start();
    let account = service.account();
    let token = account.mint(&json!({}));
    let mut live = open(&token);
    // Longer than the heartbeat interval, so that at least one heartbeat was written.
    live.last(HEARTBEAT + Duration::from_secs(3));
    let at_least = live.at_least();
    service.kill();
    let at_most = live.asked().elapsed();
    service.start();
    let events = billed(&account, 1);
    assert_bill(&events[0], "svc-realtime-pro", at_least - HEARTBEAT, at_most);
    // Neither billed twice nor billed for later time.
    service.kill();
    service.start();
    one_more(&token);
    assert_eq!(billed(&account, 2)[1], events[0]);
    service.kill();
    service.start();
    assert_eq!(billed(&account, 2)[1], events[0]);
}

#[test]
fn killed_as_sessions_begin() {
    let service = quick().start();
    let account = service.account();
    let token = account.mint(&json!({}));
    let sessions = [open(&token), open(&token), open(&token)];
    service.kill();
    let at_most = sessions[0].asked().elapsed();
    service.start();
    for event in billed(&account, 3) {
        assert_bill(&event, "svc-realtime-pro", Duration::ZERO, at_most);
    }
    assert_eq!(account.credits()["credit_balance_cents"], 1000 - 3);
}

#[test]
fn another_node_bills_for_one_that_dies() {
    let Some(server) = postgres() else { return };
    let setup = quick().with("database_url", server.database());
    let (one, two) = (setup.clone().start(), setup.start());
    let here = one.account();
    let there = here.at(&two.api());
    let token = here.mint(&json!({}));
    let mut live = open(&token);
    // A session on the other node goes on, and must not count as crashed.
    let mut other = open(&token.at(&two.api()));
    live.last(HEARTBEAT + Duration::from_secs(3));
    let at_least = live.at_least();
    one.kill();
    let at_most = live.asked().elapsed();
    assert_bill(&billed(&there, 1)[0], "svc-realtime-pro", at_least - HEARTBEAT, at_most);
    other.stop();
    assert_eq!(other.rest(), [Frame::Done, Frame::Closed(1000)]);
    billed(&there, 2);
    one.start();
    one_more(&token);
    billed(&there, 3);
}

#[test]
fn a_node_that_resumes_after_its_lease_bills_nothing() {
    let Some(server) = postgres() else { return };
    let setup = quick().with("database_url", server.database());
    let (one, two) = (setup.clone().start(), setup.start());
    let here = one.account();
    let there = here.at(&two.api());
    let token = here.mint(&json!({}));
    let live = open(&token);
    one.signal("STOP");
    let events = billed(&there, 1);
    one.signal("CONT");
    drop(live);
    // The first node is at work again, and has seen that its client is gone.
    one_more(&token);
    assert_eq!(billed(&there, 2)[1], events[0], "what was billed stays as it is");
}

/// The connection is billed by the time that passed, whatever was done to the clock.
#[test]
fn a_clock_that_is_set_forward_costs_nothing() {
    let Some(clock) = Clock::new() else { return };
    let service = quick().environment(clock.environment()).start();
    let account = service.account();
    let token = account.mint(&json!({}));
    let mut live = open(&token);
    live.last(Duration::from_secs(2));
    clock.set("+2h");
    // Heartbeats are written at the new time.
    live.last(HEARTBEAT);
    service.kill();
    let at_most = live.asked().elapsed();
    service.start();
    assert_bill(&billed(&account, 1)[0], "svc-realtime-pro", Duration::ZERO, at_most);
}

/// A session costs no more than its longest time, even if its end takes longer.
#[test]
fn a_session_is_billed_up_to_its_longest_time() {
    let service = Setup::new().with("live_session_seconds", 1).start();
    let account = service.account();
    let mut live = open(&account.mint(&json!({})));
    live.send(&[0; 20 * 32000], 3200);
    assert!(live.rest().ends_with(&[Frame::Done, Frame::Closed(1000)]));
    let seconds = billed(&account, 1)[0]["quantity"].as_f64().unwrap();
    assert!(seconds <= 1.0, "{seconds} s");
}
