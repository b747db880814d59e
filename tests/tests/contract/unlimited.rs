//! The limit of the free credit with the local provider: how it is named, lifted and set again.

use auricle_tests::{Account, PASSWORD, Service, Setup, Visitor, binary, command_of, eventually, silence};
use serde_json::{Value, json};

use crate::postgres;

/// Without free credit everything is refused.
fn broke() -> Setup {
    Setup::local().with("free_credit_cents", 0)
}

fn stripe() -> Setup {
    broke()
        .with("billing_provider", "stripe")
        .with("stripe_secret_key", "sk_test")
        .with("stripe_price_id", "price_1")
        .with("stripe_webhook_secret", "whsec_test")
}

/// Asserts that new work is refused. Returns the messages.
#[track_caller]
fn refused(account: &Account) -> [String; 3] {
    let job = json!({"upload_id": account.upload("a.wav", silence(1.0))});
    [
        account.post("/v2/transcripts", &job),
        account.ask_for_token(&json!({})),
        account.post("/v2/voice-agent/token", &json!({})),
    ]
    .map(|answer| answer.error(402, "v2_billing_required"))
}

/// The id of an account, as the operator's page has it.
fn id(operator: &mut Visitor, email: &str) -> String {
    let page = operator.get("/operator");
    let row = page.text().split("<tr>").find(|row| row.contains(&format!(">{email}</td>"))).expect("a row");
    row.split_once("name=\"account\" value=\"").expect("its id").1.split('"').next().unwrap().to_owned()
}

fn a_command_lifts_the_limit_and_sets_it_again(setup: Setup) {
    let service = setup.start();
    let (account, other) = (service.account(), service.account());
    for message in refused(&account) {
        assert!(message.contains("`auricle accounts unlimited EMAIL`") && message.contains("Operator"), "{message}");
        assert!(!message.contains("/v2/billing/checkout"), "{message}");
    }
    let run = service.accounts(["unlimited", &account.email]);
    assert!(run.status == Some(0) && run.stdout.contains(&account.email), "{} {}", run.stdout, run.stderr);
    assert_eq!(account.credits()["subscribed"], true);
    let done = account.transcribe("a.wav", silence(1.0));
    let bills = account.bills(done["id"].as_str().unwrap());
    assert_eq!((bills.len(), &bills[0]["billable_cents"]), (1, &json!(1)), "usage is recorded");
    account.ask_for_token(&json!({"estimated_duration_sec": 3300})).ok();
    refused(&other);
    let run = service.accounts(["unlimited", "--off", &account.email]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(account.credits()["subscribed"], false);
    refused(&account);
    assert_eq!(account.usage().len(), 1);
    let run = service.accounts(["unlimited", "nobody@example.org"]);
    assert!(run.status == Some(1) && run.stderr.contains("there is no such account"), "{}", run.stderr);
}

#[test]
fn a_command_lifts_the_limit_and_sets_it_again_on_sqlite() {
    a_command_lifts_the_limit_and_sets_it_again(broke());
}

#[test]
fn a_command_lifts_the_limit_and_sets_it_again_on_postgres() {
    let Some(server) = postgres() else { return };
    a_command_lifts_the_limit_and_sets_it_again(broke().with("database_url", server.database()));
}

#[test]
fn the_first_start_names_the_command_for_its_account() {
    let service = broke().start();
    let named = eventually("the command", || service.line("auricle accounts unlimited "));
    let key = service.line("key ").unwrap();
    let first = Account { api: service.api(), key, email: "admin@localhost".into() };
    refused(&first);
    // The command names the service's folder, so that it works in any other.
    let elsewhere = tempfile::tempdir().unwrap();
    let line = format!("'{}' accounts unlimited {named}", binary().display());
    let run = command_of("sh".as_ref()).args(["-c", &line]).current_dir(elsewhere.path()).output().unwrap();
    let stdout = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && stdout.contains("admin@localhost"), "{line}: {run:?}");
    first.transcribe("a.wav", silence(1.0));
    service.terminate();
    service.wait();
    service.start();
    eventually("the end of the output", || service.line("svc-best runs on "));
    assert_eq!(service.line("auricle accounts unlimited "), None, "a later start does not");
}

#[test]
fn limits_of_a_payment_provider_are_its_own() {
    let service = stripe().unset("sign_up").start();
    eventually("the end of the output", || service.line("svc-best runs on "));
    assert_eq!(service.line("auricle accounts unlimited "), None);
    let mut operator = Visitor::signed_up(&service);
    let account = service.account();
    for message in refused(&account) {
        assert!(message.contains("/v2/billing/checkout") && !message.contains("unlimited"), "{message}");
    }
    let run = service.accounts(["unlimited", &account.email]);
    assert!(run.status == Some(1) && run.stderr.contains("billing_provider"), "{}", run.stderr);
    let page = operator.get("/operator");
    assert!(page.status == 200 && !page.text().contains("Lift the limit"), "{}", page.text());
    assert!(!operator.get("/billing").text().contains("auricle accounts unlimited"));
    refused(&account);
}

#[test]
fn an_operator_lifts_the_limit_with_a_click() {
    let service = broke().unset("sign_up").start();
    let mut operator = Visitor::signed_up(&service);
    let billing = operator.get("/billing").text().to_owned();
    let command = |visitor: &Visitor| format!("<code>auricle accounts unlimited {}</code>", visitor.email);
    assert!(billing.contains("href=\"/operator#accounts\"") && billing.contains(&command(&operator)), "{billing}");

    // The owner of another account.
    let account = service.account();
    let mut owner = Visitor::new(&service);
    owner.email.clone_from(&account.email);
    let link = service.password_link(&account.email);
    owner.get(&link);
    assert_eq!(owner.post(&link, &[("password", PASSWORD)]).status, 303);
    let billing = owner.get("/billing").text().to_owned();
    assert!(billing.contains("An operator lifts the limit") && billing.contains(&command(&owner)), "{billing}");
    assert!(!billing.contains("/operator#accounts"), "{billing}");

    refused(&account);
    let id = id(&mut operator, &account.email);
    let set = |visitor: &mut Visitor, limit: &str| {
        let answer = visitor.post("/operator/limits", &[("account", &id), ("limit", limit)]);
        (answer.status, answer.header("location").map(str::to_owned))
    };
    assert_eq!(set(&mut owner, "none").0, 404, "the page is the operators' alone");
    assert_eq!(set(&mut Visitor::new(&service), "none").0, 404);
    assert_eq!(operator.post_with("x", "/operator/limits", &[("account", &id), ("limit", "none")]).status, 403);
    assert_eq!(operator.post("/operator/limits", &[("account", "acct_1"), ("limit", "none")]).status, 404);
    refused(&account);
    operator.get("/operator");
    let done = (303, Some("/operator#accounts".to_owned()));
    assert_eq!(set(&mut operator, "none"), done);
    assert!(operator.get("/operator").text().contains("Without a limit"));
    assert_eq!(account.transcribe("a.wav", silence(1.0))["error"], Value::Null);
    assert!(!owner.get("/billing").text().contains("auricle accounts unlimited"));
    assert_eq!(set(&mut operator, "credit"), done);
    refused(&account);
}

/// The status of the page of sign-ups, and of one.
fn sign_up(service: &Service) -> (u16, u16) {
    let mut visitor = Visitor::new(service);
    let page = visitor.get("/signup").status;
    visitor.get("/login");
    let email = visitor.email.clone();
    (page, visitor.post("/signup", &[("email", &email), ("password", PASSWORD)]).status)
}

#[test]
fn the_first_account_that_signs_up_operates_the_service_and_is_the_last() {
    let service = Setup::new().unset("sign_up").start();
    let mut stranger = Visitor::new(&service);
    assert!(stranger.get("/login").text().contains("href=\"/signup\""));
    assert!(stranger.get("/signup").text().contains("it operates the service"));
    let mut first = Visitor::signed_up(&service);
    assert_eq!(first.get("/operator").status, 200);
    assert!(first.get("/keys").text().contains("href=\"/operator\""));
    assert_eq!(sign_up(&service), (404, 404));
    assert!(!stranger.get("/login").text().contains("/signup"));
    // Who is there signs in, and who is invited comes in, as a member and no operator.
    let email = first.email.clone();
    assert_eq!(Visitor::new(&service).sign_in(&email, PASSWORD).status, 303);
    let mut member = first.member(&service);
    assert_eq!((member.get("/keys").status, member.get("/operator").status), (200, 404));
}

#[test]
fn the_account_of_the_first_start_operates_the_service() {
    let service = Setup::new().unset("sign_up").start();
    let link = service.line("sign-in ").expect("a link");
    let path = link.strip_prefix(&service.dashboard()).expect("on the dashboard").to_owned();
    let mut first = Visitor::new(&service);
    first.get(&path);
    assert_eq!(first.post(&path, &[("password", PASSWORD)]).status, 303);
    assert_eq!(first.get("/operator").status, 200);
    assert_eq!(sign_up(&service), (404, 404));
}

#[test]
fn accounts_of_the_administrator_close_the_sign_up() {
    let service = Setup::new().unset("sign_up").start();
    service.account();
    assert_eq!(sign_up(&service), (404, 404));
}

#[test]
fn an_open_sign_up_makes_no_operator() {
    let service = Setup::new().with("sign_up", true).start();
    for _ in 0..2 {
        assert_eq!(Visitor::signed_up(&service).get("/operator").status, 404);
    }
}

#[test]
fn operators_of_the_settings_are_the_only_ones() {
    let service = Setup::new().unset("sign_up").with("operators", "[\"ops@example.org\"]").start();
    assert_eq!(Visitor::signed_up(&service).get("/operator").status, 404);
    assert_eq!(sign_up(&service), (404, 404));
}

fn of_several_at_a_time_one_is_the_first(setup: Setup) {
    let service = setup.start();
    let made = std::thread::scope(|scope| {
        let visitors: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    let mut visitor = Visitor::new(&service);
                    visitor.get("/login");
                    let email = visitor.email.clone();
                    visitor.post("/signup", &[("email", &email), ("password", PASSWORD)]).status
                })
            })
            .collect();
        visitors.into_iter().map(|visitor| visitor.join().unwrap()).collect::<Vec<u16>>()
    });
    assert_eq!(made.iter().filter(|status| **status == 303).count(), 1, "{made:?}");
    assert_eq!(made.iter().filter(|status| **status == 404).count(), 5, "{made:?}");
}

#[test]
fn of_several_at_a_time_one_is_the_first_on_sqlite() {
    of_several_at_a_time_one_is_the_first(Setup::new().unset("sign_up"));
}

#[test]
fn of_several_at_a_time_one_is_the_first_on_postgres() {
    let Some(server) = postgres() else { return };
    of_several_at_a_time_one_is_the_first(Setup::new().unset("sign_up").with("database_url", server.database()));
}
