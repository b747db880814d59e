//! Metering, credit and checkout: interface sections 2.5, 2.6, 4.5 and 8.

use std::process::Command;
use std::sync::OnceLock;

use auricle_tests::{Account, Answer, Service, Setup, http, silence, speech};
use serde_json::{Value, json};

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().start())
}

/// A service on which an account has one cent to spend.
fn one_cent() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().with("free_credit_cents", 1).start())
}

fn subscribe(account: &Account) {
    let page = account.post_empty("/v2/billing/checkout").ok()["url"].as_str().unwrap().to_owned();
    let posted = Answer::of(http().post(&page));
    assert!(posted.status < 400, "{}: {:?}", posted.status, posted.body);
}

fn month() -> String {
    let output = Command::new("date").args(["-u", "+%Y%m"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The one usage event of a recording of so many seconds on a model.
fn bill(account: &Account, model: &str, seconds: f64) -> Value {
    let id = account.create(&json!({"upload_id": account.upload("a.wav", silence(seconds)), "model": model}));
    assert_eq!(account.finished(&id)["status"], "completed");
    let bills = account.bills(&id);
    assert_eq!(bills.len(), 1, "{bills:?}");
    bills[0].clone()
}

#[test]
fn a_new_account_has_ten_dollars_of_free_credit() {
    let account = service().account();
    let before = month();
    let credits = account.credits();
    let expected = json!({
        "free_credit_cents": 1000, "credit_balance_cents": 1000, "lifetime_retail_cents": 0,
        "lifetime_billable_cents": 0, "period_billable_cents": 0, "subscribed": false,
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&credits[field], value, "{field}");
    }
    // The month may change between the two requests.
    assert!([before, month()].contains(&credits["period"].as_str().unwrap().to_owned()), "{credits}");
}

#[test]
fn free_credit_is_granted_once_for_an_account() {
    let account = service().account();
    bill(&account, "svc-best", 1.0);
    let second = Account { key: service().key(&account.email), ..account.clone() };
    assert_eq!(second.credits()["credit_balance_cents"], 999);
}

#[test]
fn a_request_records_a_usage_event() {
    let account = service().account();
    let done = account.transcribe("jfk.flac", std::fs::read(speech()).unwrap());
    let events = account.usage();
    assert_eq!(events.len(), 1);
    let expected = json!({
        "sku": "svc-best", "unit_type": "audio_hour", "quantity": 11.0, "retail_cost_cents": 1,
        "credit_applied_cents": 1, "billable_cents": 0, "transcript_id": done["id"],
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&events[0][field], value, "{field}");
    }
    assert!(events[0]["id"].is_string(), "{events:?}");
    assert!(events[0]["created_at"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn cost_is_the_hourly_rate_rounded_up_to_the_next_cent() {
    let account = service().account();
    // svc-best: 25.2 cents an hour, so 1000 s are 7 cents to the dot. svc-fast: 18 cents, 200 s a cent.
    let cases = [
        ("svc-best", 0.25, 1),
        ("svc-best", 142.0, 1),
        ("svc-best", 143.0, 2),
        ("svc-best", 1000.0, 7),
        ("svc-fast", 200.0, 1),
        ("svc-fast", 200.001, 2),
    ];
    for (model, seconds, cents) in cases {
        // A millisecond is eight samples.
        let event = bill(&account, model, seconds);
        assert_eq!(event["quantity"].as_f64(), Some(seconds), "to the millisecond");
        assert_eq!(event["retail_cost_cents"], cents, "{seconds} s of {model}");
        assert_eq!(event["sku"], model);
    }
}

#[test]
fn usage_sums_to_the_durations_and_credit_to_the_costs() {
    let account = service().account();
    let done: Vec<Value> = [1.0, 2.5, 0.125, 143.0].iter().map(|s| account.transcribe("a.wav", silence(*s))).collect();
    let events = account.usage();
    let sum = |values: &[Value], field: &str| values.iter().map(|value| value[field].as_f64().unwrap()).sum::<f64>();
    assert_eq!(sum(&events, "quantity"), sum(&done, "audio_duration_sec"));
    assert_eq!(sum(&events, "retail_cost_cents"), 5.0);
    let credits = account.credits();
    assert_eq!(credits["credit_balance_cents"], 995);
    assert_eq!(credits["lifetime_retail_cents"], 5);
    assert_eq!(credits["lifetime_billable_cents"], 0);
}

#[test]
fn a_failed_transcript_is_not_billed() {
    let account = service().account();
    let id = account.create(&json!({"upload_id": account.upload("a.wav", "no sound")}));
    assert_eq!(account.finished(&id)["status"], "error");
    assert_eq!(account.usage(), [] as [Value; 0]);
    assert_eq!(account.credits()["credit_balance_cents"], 1000);
}

#[test]
fn usage_survives_the_deletion_of_its_transcript() {
    let account = service().account();
    let done = account.transcribe("a.wav", silence(1.0));
    let id = done["id"].as_str().unwrap();
    assert_eq!(account.delete(&format!("/v2/transcripts/{id}")).status, 204);
    assert_eq!(account.bills(id).len(), 1);
}

#[test]
fn usage_is_newest_first_and_paged() {
    let account = service().account();
    let skus = ["svc-best", "svc-fast", "svc-best"];
    let mut ids: Vec<Value> = skus.iter().map(|sku| bill(&account, sku, 1.0)["id"].clone()).collect();
    ids.reverse();
    let page = |query: &str| {
        let page = account.get(&format!("/v2/usage{query}")).ok();
        assert_eq!((&page["object"], &page["total"]), (&json!("list"), &json!(3)));
        page
    };
    let of = |page: &Value| page["data"].as_array().unwrap().iter().map(|e| e["id"].clone()).collect::<Vec<_>>();
    assert_eq!(of(&page("")), ids);
    let second = page("?limit=1&offset=1");
    assert_eq!(of(&second), ids[1..2]);
    assert_eq!((&second["limit"], &second["offset"]), (&json!(1), &json!(1)));
    assert_eq!(of(&page("?offset=3")), [] as [Value; 0]);
    for query in ["?limit=x", "?limit=-1", "?offset=x", "?offset=-1"] {
        account.get(&format!("/v2/usage{query}")).error(422, "validation_error");
    }
}

#[test]
fn the_summary_is_the_credit_and_a_row_a_model() {
    let account = service().account();
    bill(&account, "svc-best", 143.0);
    bill(&account, "svc-best", 1.5);
    bill(&account, "svc-fast", 1.0);
    let summary = account.get("/v2/usage/summary").ok();
    for (field, value) in account.credits().as_object().unwrap() {
        assert_eq!(&summary[field], value, "{field}");
    }
    let rows = summary["by_model"].as_array().unwrap();
    let row = |sku: &str| rows.iter().find(|row| row["sku"] == sku).unwrap_or_else(|| panic!("no {sku}: {summary}"));
    let best = json!({
        "sku": "svc-best", "unit_type": "audio_hour", "quantity": 144.5, "events": 2, "retail_cost_cents": 3,
        "credit_applied_cents": 3, "billable_cents": 0,
    });
    assert_eq!(row("svc-best"), &best);
    assert_eq!((&row("svc-fast")["events"], &row("svc-fast")["quantity"]), (&json!(1), &json!(1.0)));
}

#[test]
fn credit_is_used_first_and_its_end_blocks_the_next_job_only() {
    let account = one_cent().account();
    let event = bill(&account, "svc-best", 143.0);
    assert_eq!(event["retail_cost_cents"], 2);
    assert_eq!(event["credit_applied_cents"], 1, "what was left of the credit");
    assert_eq!(event["billable_cents"], 1, "the job finished all the same");
    let credits = account.credits();
    assert_eq!((&credits["credit_balance_cents"], &credits["lifetime_billable_cents"]), (&json!(0), &json!(1)));
    assert_eq!((&credits["period_billable_cents"], &credits["free_credit_cents"]), (&json!(1), &json!(1)));
    let upload = account.upload("a.wav", silence(1.0));
    let create = json!({"upload_id": upload});
    account.post("/v2/transcripts", &create).error(402, "v2_billing_required");
    // Existing transcripts stay readable.
    let list = account.get("/v2/transcripts").ok();
    let id = list["data"][0]["id"].as_str().unwrap();
    assert_eq!(account.transcript(id)["status"], "completed");
    account.get("/v2/usage").ok();
    assert_eq!(account.usage().len(), 1);
}

#[test]
fn an_estimate_that_does_not_fit_is_refused_up_front() {
    let account = one_cent().account();
    let create = |model: &str, seconds: u64| {
        let upload = account.upload("a.wav", "no sound, so it costs nothing");
        let body = json!({"upload_id": upload, "model": model, "estimated_duration_sec": seconds});
        account.post("/v2/transcripts", &body)
    };
    create("svc-best", 143).error(402, "v2_billing_required");
    create("svc-fast", 201).error(402, "v2_billing_required");
    for (model, seconds) in [("svc-best", 142), ("svc-fast", 200)] {
        let made = create(model, seconds).ok();
        account.finished(made["id"].as_str().unwrap());
    }
    assert_eq!(account.get("/v2/transcripts").ok()["data"].as_array().unwrap().len(), 2, "a refused one is no job");
}

#[test]
fn a_subscription_lifts_the_limit() {
    let account = one_cent().account();
    bill(&account, "svc-best", 1.0);
    account
        .post("/v2/transcripts", &json!({"upload_id": account.upload("a.wav", silence(1.0))}))
        .error(402, "v2_billing_required");
    subscribe(&account);
    assert_eq!(account.credits()["subscribed"], true);
    let event = bill(&account, "svc-best", 143.0);
    assert_eq!((&event["credit_applied_cents"], &event["billable_cents"]), (&json!(0), &json!(2)));
    assert_eq!(account.credits()["period_billable_cents"], 2);
    let body = json!({"upload_id": account.upload("a.wav", silence(1.0)), "estimated_duration_sec": 1_000_000});
    account.post("/v2/transcripts", &body).ok();
    account.post_empty("/v2/billing/checkout").error(409, "already_api_subscribed");
}

#[test]
fn a_subscriber_uses_the_credit_first() {
    let account = service().account();
    subscribe(&account);
    let event = bill(&account, "svc-best", 143.0);
    assert_eq!((&event["credit_applied_cents"], &event["billable_cents"]), (&json!(2), &json!(0)));
}

#[test]
fn checkout_is_a_page_with_a_form() {
    let account = service().account();
    let url = account.post_empty("/v2/billing/checkout").ok()["url"].as_str().unwrap().to_owned();
    assert!(url.starts_with(&service().dashboard()), "{url}");
    let page = Answer::of(http().get(&url));
    assert_eq!(page.status, 200);
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert!(page.text().contains("<form"), "{}", page.text());
    assert_eq!(account.credits()["subscribed"], false, "looking at it does nothing");
    assert!(Answer::of(http().post(&url)).status < 400);
    assert_eq!(account.credits()["subscribed"], true);
    assert_eq!(service().account().credits()["subscribed"], false, "nobody else is subscribed");
}

#[test]
fn a_checkout_page_cannot_be_guessed() {
    let url = format!("{}/billing/checkout", service().dashboard());
    for url in [format!("{url}?session=1"), format!("{url}?session="), url] {
        for request in [http().get(&url), http().post(&url)] {
            let status = Answer::of(request).status;
            assert!((400..500).contains(&status), "{url}: {status}");
        }
    }
}

#[test]
fn the_catalog_lists_the_models_with_their_rates() {
    let account = service().account();
    let models = account.get("/v2/models").ok();
    assert_eq!(models["object"], "list");
    let listed = models["data"].as_array().unwrap();
    let expected = [
        ("svc-best", "audio_hour", 0.252, true),
        ("svc-fast", "audio_hour", 0.18, false),
        ("svc-realtime-pro", "session_hour", 0.54, true),
        ("svc-realtime", "session_hour", 0.18, false),
        ("svc-agent", "session_hour", 5.40, true),
    ];
    for (id, unit, rate, default) in expected {
        let model = listed.iter().find(|model| model["id"] == id).unwrap_or_else(|| panic!("no {id}: {models}"));
        assert_eq!((&model["object"], &model["unit_type"]), (&json!("model"), &json!(unit)), "{id}");
        assert_eq!(model["rate_usd"].as_f64(), Some(rate), "{id}");
        assert_eq!(model["default"], default, "{id}");
        assert!(model["kind"].is_string() && model["languages"].is_array(), "{model}");
    }
    assert_eq!(account.get("/v2/pricing").ok(), models, "the same catalog, for billing pages");
}
