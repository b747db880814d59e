//! The service while its database is away, hangs, or takes no writes.

use std::time::Duration;

use auricle_tests::{Account, Answer, Postgres, Service, Setup, eventually, http, silence};
use reqwest::Method;

/// Far above the time limits of the service. Without these a request waits for good.
const PATIENCE: Duration = Duration::from_secs(60);

fn ready(service: &Service) -> Option<u16> {
    let request = http().get(format!("{}/health/ready", service.api())).timeout(PATIENCE);
    Answer::try_of(request).map(|answer| answer.status)
}

fn status(account: &Account, path: &str) -> Option<u16> {
    Answer::try_of(account.request(Method::GET, path).timeout(PATIENCE)).map(|answer| answer.status)
}

#[test]
fn known_keys_are_served_for_a_while_without_the_database() {
    let Some(server) = Postgres::start() else { return };
    let service = Setup::local().with("database_url", server.database()).start();
    let account = service.account();
    account.get("/v2/models").ok();
    server.crash();
    assert_eq!(status(&account, "/v2/models"), Some(200));
    let unknown = Account { key: "svc_unknown".into(), ..account.clone() };
    assert!(status(&unknown, "/v2/models").is_some_and(|status| status >= 500), "nobody knows if it is one");
    assert_eq!(ready(&service), Some(503));
    eventually("it ends", || status(&account, "/v2/models").is_some_and(|status| status >= 500).then_some(()));
    server.resume();
    eventually("the database is back", || (ready(&service) == Some(200)).then_some(()));
    account.get("/v2/models").ok();
    unknown.get("/v2/models").error(401, "unauthorized");
}

#[test]
fn a_database_that_takes_no_writes_is_not_ready() {
    let Some(server) = Postgres::start() else { return };
    let database = server.database();
    let service = Setup::local().with("database_url", &database).start();
    assert_eq!(ready(&service), Some(200));
    let set = |value: &str| {
        server.sql(&database, &format!("ALTER SYSTEM SET default_transaction_read_only = {value}"));
        server.sql(&database, "SELECT pg_reload_conf()");
    };
    set("on");
    eventually("it is not ready", || (ready(&service) == Some(503)).then_some(()));
    set("off");
    eventually("it is ready", || (ready(&service) == Some(200)).then_some(()));
}

#[test]
fn a_database_that_hangs_fails_requests_in_time() {
    let Some(server) = Postgres::start() else { return };
    let service = Setup::local().with("database_url", server.database()).start();
    let account = service.account();
    account.get("/v2/models").ok();
    server.hang(true);
    assert_eq!(ready(&service), Some(503));
    assert_eq!(status(&account, "/v2/models"), Some(200));
    assert!(status(&account, "/v2/credits").is_some_and(|status| status >= 500));
    server.hang(false);
    eventually("the database is back", || (ready(&service) == Some(200)).then_some(()));
    assert_eq!(account.transcribe("a.wav", silence(1.0))["status"], "completed");
}
