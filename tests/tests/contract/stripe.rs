//! Billing through Stripe, against a server that answers as Stripe's public API documents: checkout sessions, signed
//! notices, meter events.

use auricle_tests::{Account, Answer, Receiver, Reply, Service, Setup, http, silence, unique};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

const SECRET: &str = "whsec_of_the_tests";
const SESSIONS: &str = "/v1/checkout/sessions";
const METER: &str = "/v1/billing/meter_events";

/// A service with a local Stripe and without free credit.
fn start(stripe: &Receiver) -> Service {
    stripe.answers(SESSIONS, [Reply::Body(200, "application/json", r#"{"url":"https://pay.example/c/1"}"#.into())]);
    Setup::local()
        .with("free_credit_cents", 0)
        .with("billing_provider", "stripe")
        .with("stripe_api_url", stripe.url("/"))
        .with("stripe_secret_key", "sk_of_the_tests")
        .with("stripe_price_id", "price_1")
        .with("stripe_webhook_secret", SECRET)
        .start()
}

fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// Sends a webhook event with Stripe's signature.
fn notify(service: &Service, seconds: u64, secret: &str, event: &Value) -> Answer {
    let body = event.to_string();
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    let signature = mac.chain_update(format!("{seconds}.{body}")).finalize().into_bytes();
    let header = format!("t={seconds},v1={},v0=aa", HEXLOWER.encode(&signature));
    let url = format!("{}/billing/stripe", service.dashboard());
    Answer::of(http().post(url).header("Stripe-Signature", header).body(body))
}

fn subscribed(account: &Account) -> bool {
    account.credits()["subscribed"].as_bool().unwrap()
}

/// The fields of a form.
fn form(body: &Bytes) -> Vec<(String, String)> {
    let url = reqwest::Url::parse(&format!("http://a/?{}", std::str::from_utf8(body).unwrap())).unwrap();
    url.query_pairs().into_owned().collect()
}

fn field(form: &[(String, String)], name: &str) -> String {
    form.iter().find(|(key, _)| key == name).unwrap_or_else(|| panic!("{name} in {form:?}")).1.clone()
}

/// Stripe's event for a paid checkout.
fn paid(account_id: &str, subscription: &str, customer: &str) -> Value {
    let object = json!({
        "id": "cs_1", "client_reference_id": account_id, "customer": customer, "subscription": subscription,
    });
    json!({"id": unique("evt"), "type": "checkout.session.completed", "data": {"object": object}})
}

#[test]
fn a_checkout_leads_to_stripe_and_its_event_to_a_metered_subscription() {
    let stripe = Receiver::new();
    // The first meter event fails and is sent again with the same identifier.
    stripe.answers(METER, [Reply::Status(500), Reply::Body(200, "application/json", "{}".into())]);
    let service = start(&stripe);
    let account = service.account();
    let job = json!({"upload_id": account.upload("a.wav", silence(2.0))});
    account.post("/v2/transcripts", &job).error(402, "v2_billing_required");

    assert_eq!(account.post_empty("/v2/billing/checkout").ok()["url"], "https://pay.example/c/1");
    let asked = stripe.wait(SESSIONS, 1);
    assert_eq!(asked[0].headers["authorization"], "Bearer sk_of_the_tests");
    let asked = form(&asked[0].body);
    assert_eq!(field(&asked, "mode"), "subscription");
    assert_eq!(field(&asked, "line_items[0][price]"), "price_1");
    assert_eq!(field(&asked, "customer_email"), account.email);
    let id = field(&asked, "client_reference_id");

    let event = paid(&id, "sub_1", "cus_1");
    notify(&service, now_s(), SECRET, &event).ok();
    assert!(subscribed(&account));
    account.post_empty("/v2/billing/checkout").error(409, "already_api_subscribed");

    let transcript = account.create(&job);
    assert_eq!(account.finished(&transcript)["status"], "completed");
    let bill = &account.bills(&transcript)[0];
    let reports = stripe.wait(METER, 2);
    for report in &reports {
        let sent = form(&report.body);
        assert_eq!(field(&sent, "event_name"), "auricle_usage_cents");
        assert_eq!(field(&sent, "payload[stripe_customer_id]"), "cus_1");
        assert_eq!(field(&sent, "payload[value]"), bill["billable_cents"].to_string());
        assert_eq!(field(&sent, "identifier"), bill["id"].as_str().unwrap());
    }

    let object = json!({"id": "sub_1", "customer": "cus_1", "status": "canceled"});
    let ended = json!({"id": unique("evt"), "type": "customer.subscription.deleted", "data": {"object": object}});
    notify(&service, now_s(), SECRET, &ended).ok();
    assert!(!subscribed(&account));
    // A repeated event changes nothing.
    notify(&service, now_s(), SECRET, &event).ok();
    assert!(!subscribed(&account));
}

#[test]
fn usage_that_stripe_refuses_blocks_no_other_and_is_owed_after_the_subscription() {
    let stripe = Receiver::new();
    let refused = Reply::Body(400, "application/json", r#"{"error":{"message":"not now"}}"#.into());
    stripe.answers(METER, [refused, Reply::Body(200, "application/json", "{}".into())]);
    let service = start(&stripe);
    let account = service.account();
    account.post_empty("/v2/billing/checkout").ok();
    let id = field(&form(&stripe.wait(SESSIONS, 1)[0].body), "client_reference_id");
    let (hook, gate) = stripe.held();
    notify(&service, now_s(), SECRET, &paid(&id, "sub_3", "cus_3")).ok();
    let held = account.create(&json!({"audio_url": hook}));
    let first = account.create(&json!({"upload_id": account.upload("a.wav", silence(2.0))}));
    account.finished(&first);
    let second = account.create(&json!({"upload_id": account.upload("a.wav", silence(3.0))}));
    account.finished(&second);
    let object = json!({"id": "sub_3", "customer": "cus_3", "status": "canceled"});
    let ended = json!({"id": unique("evt"), "type": "customer.subscription.deleted", "data": {"object": object}});
    notify(&service, now_s(), SECRET, &ended).ok();
    gate.open();
    account.finished(&held);
    let reports: Vec<String> =
        stripe.wait(METER, 4).iter().map(|report| field(&form(&report.body), "identifier")).collect();
    let bill = |transcript: &str| account.bills(transcript)[0]["id"].as_str().unwrap().to_owned();
    let times = |transcript: &str| reports.iter().filter(|id| **id == bill(transcript)).count();
    assert_eq!((times(&first), times(&second), times(&held)), (2, 1, 1), "{reports:?}");
}

/// Stripe refuses a repeated meter event whose first response was lost. It counts as reported.
#[test]
fn usage_that_stripe_has_already_counts_as_reported() {
    let stripe = Receiver::new();
    let message =
        r#"{"error":{"type":"invalid_request_error","message":"An event already exists with identifier x."}}"#;
    let has_it = Reply::Body(400, "application/json", message.into());
    stripe.answers(METER, [Reply::Disconnect, has_it, Reply::Body(200, "application/json", "{}".into())]);
    let service = start(&stripe);
    let account = service.account();
    account.post_empty("/v2/billing/checkout").ok();
    let id = field(&form(&stripe.wait(SESSIONS, 1)[0].body), "client_reference_id");
    notify(&service, now_s(), SECRET, &paid(&id, "sub_6", "cus_6")).ok();
    account.finished(&account.create(&json!({"upload_id": account.upload("a.wav", silence(2.0))})));
    stripe.wait(METER, 2);
    // A second refusal would be retried two seconds later.
    std::thread::sleep(std::time::Duration::from_secs(4));
    account.finished(&account.create(&json!({"upload_id": account.upload("a.wav", silence(3.0))})));
    let reports = stripe.wait(METER, 3);
    let reports: Vec<String> = reports.iter().map(|report| field(&form(&report.body), "identifier")).collect();
    assert!(reports.len() == 3 && reports[0] == reports[1] && reports[1] != reports[2], "{reports:?}");
}

/// A checkout event that arrives after the end of its subscription does not start it.
#[test]
fn a_late_checkout_event_starts_no_ended_subscription() {
    let stripe = Receiver::new();
    let service = start(&stripe);
    let account = service.account();
    account.post_empty("/v2/billing/checkout").ok();
    let id = field(&form(&stripe.wait(SESSIONS, 1)[0].body), "client_reference_id");
    let now = now_s();
    let of = |kind: &str, subscription: &str, status: &str, created: u64| {
        let object = json!({"id": subscription, "customer": "cus_7", "status": status, "metadata": {"account": id}});
        let kind = format!("customer.subscription.{kind}");
        json!({"id": unique("evt"), "type": kind, "created": created, "data": {"object": object}})
    };
    let mut begun = paid(&id, "sub_7", "cus_7");
    begun["created"] = (now - 20).into();
    notify(&service, now, SECRET, &of("deleted", "sub_7", "canceled", now - 10)).ok();
    notify(&service, now, SECRET, &begun).ok();
    assert!(!subscribed(&account));
    // Events of another subscription arrive out of order with the same timestamp.
    notify(&service, now, SECRET, &of("updated", "sub_8", "active", now)).ok();
    notify(&service, now, SECRET, &of("updated", "sub_8", "incomplete", now)).ok();
    assert!(subscribed(&account));
    notify(&service, now, SECRET, &of("deleted", "sub_7", "canceled", now)).ok();
    assert!(subscribed(&account), "that one has ended already");
}

#[test]
fn an_event_older_than_the_last_one_changes_nothing() {
    let stripe = Receiver::new();
    let service = start(&stripe);
    let account = service.account();
    account.post_empty("/v2/billing/checkout").ok();
    let id = field(&form(&stripe.wait(SESSIONS, 1)[0].body), "client_reference_id");
    let created = |mut event: Value, seconds: u64| {
        event["created"] = seconds.into();
        event
    };
    let of = |kind: &str, status: &str| {
        let object = json!({"id": "sub_4", "customer": "cus_4", "status": status});
        json!({"id": unique("evt"), "type": format!("customer.subscription.{kind}"), "data": {"object": object}})
    };
    let now = now_s();
    notify(&service, now, SECRET, &created(paid(&id, "sub_4", "cus_4"), now - 30)).ok();
    notify(&service, now, SECRET, &created(of("deleted", "canceled"), now - 10)).ok();
    notify(&service, now, SECRET, &created(of("updated", "active"), now - 20)).ok();
    assert!(!subscribed(&account));
    // Of a subscription that began anew.
    notify(&service, now, SECRET, &created(paid(&id, "sub_5", "cus_4"), now)).ok();
    assert!(subscribed(&account));
    notify(&service, now, SECRET, &created(of("deleted", "canceled"), now)).ok();
    assert!(subscribed(&account), "the old one is gone, not the new one");
}

#[test]
fn an_event_without_stripes_signature_changes_nothing() {
    let stripe = Receiver::new();
    let service = start(&stripe);
    let account = service.account();
    account.post_empty("/v2/billing/checkout").ok();
    let id = field(&form(&stripe.wait(SESSIONS, 1)[0].body), "client_reference_id");
    let event = paid(&id, "sub_2", "cus_2");
    notify(&service, now_s(), "whsec_of_another", &event).error(400, "invalid_request");
    notify(&service, now_s() - 3600, SECRET, &event).error(400, "invalid_request");
    let unsigned = http().post(format!("{}/billing/stripe", service.dashboard())).body(event.to_string());
    Answer::of(unsigned).error(400, "invalid_request");
    assert!(!subscribed(&account));
}

#[test]
fn a_stripe_that_fails_makes_the_checkout_fail_and_nothing_else() {
    let stripe = Receiver::new();
    let service = start(&stripe);
    stripe.answers(SESSIONS, [Reply::Status(500)]);
    let account = service.account();
    account.post_empty("/v2/billing/checkout").error(503, "unavailable");
    stripe.stop();
    account.post_empty("/v2/billing/checkout").error(503, "unavailable");
    assert!(!subscribed(&account));
}

/// A power cut may undo the end of a job that was reported. Its second end is the same usage to Stripe.
#[test]
fn work_that_is_done_again_is_reported_as_the_same_usage() {
    let stripe = Receiver::new();
    let service = start(&stripe);
    let account = service.account();
    account.post_empty("/v2/billing/checkout").ok();
    let id = field(&form(&stripe.wait(SESSIONS, 1)[0].body), "client_reference_id");
    notify(&service, now_s(), SECRET, &paid(&id, "sub_9", "cus_9")).ok();
    let (url, gate) = stripe.held();
    let job = account.create(&json!({"audio_url": url}));
    stripe.wait(url.rsplit_once('/').map(|(_, name)| format!("/{name}")).unwrap().as_str(), 1);
    service.kill();
    let files = || {
        let files = std::fs::read_dir(service.data()).unwrap().map(|file| file.unwrap().path());
        files.filter(|file| file.file_name().unwrap().to_string_lossy().starts_with("auricle.db"))
    };
    let before: Vec<_> = files().map(|file| (std::fs::read(&file).unwrap(), file)).collect();
    gate.open();
    service.start();
    account.finished(&job);
    stripe.wait(METER, 1);
    service.kill();
    files().for_each(|file| std::fs::remove_file(file).unwrap());
    before.into_iter().for_each(|(bytes, file)| std::fs::write(file, bytes).unwrap());
    service.start();
    account.finished(&job);
    let reports = stripe.wait(METER, 2);
    let reports: Vec<String> = reports.iter().map(|report| field(&form(&report.body), "identifier")).collect();
    assert_eq!(reports[0], reports[1]);
}
