//! Metering of voice agents: the time of each connection, once, at 5.40 dollars an hour.

use std::time::Duration;

use auricle_tests::{Account, Call, Said, Setup, eventually};
use serde_json::{Value, json};

use super::talking;

#[track_caller]
fn billed(account: &Account, count: usize) -> Vec<Value> {
    eventually("the sessions are billed", || {
        let events = account.usage();
        assert!(events.len() <= count, "more than {count}: {events:?}");
        (events.len() == count).then_some(events)
    })
}

#[track_caller]
fn assert_bill(event: &Value, session: &str, at_most: Duration) {
    assert_eq!((&event["sku"], &event["unit_type"]), (&json!("svc-agent"), &json!("session_hour")), "{event}");
    assert_eq!(event["session_id"], session, "{event}");
    let seconds = event["quantity"].as_f64().unwrap();
    assert!(seconds > 0.0 && seconds <= at_most.as_secs_f64() + 0.05, "{seconds} s of {at_most:?}");
    let cents = (seconds * 540.0 / 3600.0).ceil().max(1.0);
    assert_eq!(event["retail_cost_cents"].as_f64(), Some(cents), "{event}");
}

#[test]
fn a_session_is_billed_once_however_it_ends() {
    let account = talking().account();
    let id = |call: &Call| call.frames[0]["session_id"].as_str().unwrap().to_owned();
    let mut call = account.call(&json!({}));
    call.end();
    assert_bill(&billed(&account, 1)[0], &id(&call), call.asked.elapsed());
    let mut call = account.call(&json!({}));
    call.close();
    call.rest();
    assert_bill(&billed(&account, 2)[0], &id(&call), call.asked.elapsed());
    let call = account.call(&json!({ "greeting": "Good morning." }));
    let (session, asked) = (id(&call), call.asked);
    drop(call);
    assert_bill(&billed(&account, 3)[0], &session, asked.elapsed());
}

#[test]
fn a_revoked_key_ends_its_sessions_and_opens_none() {
    let service = Setup::local().talking().start();
    let account = service.account();
    let url = account.agent_url(&json!({}));
    let mut call = account.call(&json!({}));
    assert_eq!(service.keys("revoke", [&account.key]).status, Some(0));
    let error = call.until("session.error");
    assert_eq!(error["code"], "unauthorized");
    assert_eq!(call.read(), Said::Closed(4401));
    let mut late = Call::open(&url);
    assert_eq!(late.rest(), 4401);
}
