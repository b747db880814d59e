//! The same scenario on each store: SQLite and PostgreSQL, a folder and a bucket.

use auricle_tests::{
    Account, Answer, Bucket, Gate, Receiver, Reply, Service, Setup, eventually, http, noise, silence, speech,
};
use serde_json::{Value, json};

use crate::postgres;

/// Creates every stored thing, restarts the service, and checks everything again.
fn walk(setup: Setup) {
    let receiver = Receiver::new();
    let service = setup.start();
    let account = service.account();
    let heard = account.transcribe("jfk.flac", std::fs::read(speech()).unwrap());
    assert_eq!(heard["audio_duration_sec"], 11.0);
    let id = heard["id"].as_str().unwrap();
    let silent = account.transcribe("silence.wav", silence(143.0));
    let failed = failed(&account);
    let fetched = fetched(&account, &receiver);
    let (kept, other) = (repeated(&account), service.account());
    other.get(&format!("/v2/transcripts/{id}")).error(404, "not_found");

    let deleted = format!("/v2/transcripts/{}", silent["id"].as_str().unwrap());
    assert_eq!(account.delete(&deleted).status, 204);
    account.get(&deleted).error(404, "not_found");
    let revoked = Account { key: service.key(&account.email), ..account.clone() };
    revoked.get("/v2/models").ok();
    assert_eq!(service.keys("revoke", [&revoked.key]).status, Some(0));
    revoked.get("/v2/models").error(401, "unauthorized");

    let parts = ["srt", "vtt", "sentences", "paragraphs", "word-search?words=and"];
    let paths = parts.map(|part| format!("/v2/transcripts/{id}/{part}")).into_iter();
    let paths: Vec<String> =
        paths.chain(["/v2/transcripts", "/v2/usage", "/v2/usage/summary"].map(str::to_owned)).collect();
    let read =
        || paths.iter().map(|path| account.get(path)).map(|answer| (answer.status, answer.body)).collect::<Vec<_>>();
    let before = read();
    assert!(before.iter().all(|(status, _)| *status == 200));
    service.terminate();
    assert!(service.wait().success());
    service.start();
    assert_eq!(read(), before, "a restart changes nothing");
    revoked.get("/v2/models").error(401, "unauthorized");
    account.get(&deleted).error(404, "not_found");
    for known in [&heard, &failed, &fetched, &kept] {
        assert_eq!(account.transcript(known["id"].as_str().unwrap()), *known);
    }
    assert_eq!(receiver.deliveries("/hook").len(), 1, "an accepted webhook is not sent again");
    billed(&service, &account);
}

fn failed(account: &Account) -> Value {
    let id =
        account.create(&json!({"upload_id": account.upload("text.wav", "no sound"), "title": "ünïcödé 🎙 'quoted'"}));
    let failed = account.finished(&id);
    assert_eq!((&failed["status"], &failed["title"]), (&json!("error"), &json!("ünïcödé 🎙 'quoted'")));
    failed
}

fn fetched(account: &Account, receiver: &Receiver) -> Value {
    let url = receiver.answers("/a.wav", [Reply::audio(noise(2.5))]);
    let body = json!({"audio_url": url, "webhook_url": receiver.url("/hook"), "keyterms_prompt": ["Auricle"]});
    let fetched = account.finished(&account.create(&body));
    assert_eq!((&fetched["status"], &fetched["audio_duration_sec"]), (&json!("completed"), &json!(2.5)));
    assert_eq!(receiver.wait("/hook", 1)[0].json()["transcript_id"], fetched["id"]);
    fetched
}

/// Concurrent creations with one idempotency key make one job.
fn repeated(account: &Account) -> Value {
    let body = json!({"upload_id": account.upload("a.wav", silence(1.0))}).to_string();
    let post = || {
        let request = account.request(reqwest::Method::POST, "/v2/transcripts").header("idempotency-key", "once");
        Answer::of(request.header("content-type", "application/json").body(body.clone())).ok()["id"].clone()
    };
    let ids: Vec<Value> = std::thread::scope(|scope| {
        let posts: Vec<_> = (0..4).map(|_| scope.spawn(post)).collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    account.finished(ids[0].as_str().unwrap())
}

fn billed(service: &Service, account: &Account) {
    let quantities: Vec<Option<f64>> = account.usage().iter().map(|event| event["quantity"].as_f64()).collect();
    assert_eq!(quantities, [1.0, 2.5, 143.0, 11.0].map(Some), "newest first");
    assert_eq!(account.credits()["credit_balance_cents"], 1000 - 5);
    let page = account.post_empty("/v2/billing/checkout").ok()["url"].as_str().unwrap().to_owned();
    assert!(Answer::of(http().post(page)).status < 400);
    account.post_empty("/v2/billing/checkout").error(409, "already_api_subscribed");
    service.terminate();
    assert!(service.wait().success());
    service.start();
    assert_eq!(account.credits()["subscribed"], true);
}

/// Jobs that end at the same moment do not spend the credit twice.
fn share_the_credit(setup: Setup) {
    let service = setup.with("free_credit_cents", 3).start();
    let (receiver, gate, account) = (Receiver::new(), Gate::new(), service.account());
    // Without a subscription three jobs would reserve all of it.
    let page = account.post_empty("/v2/billing/checkout").ok()["url"].as_str().unwrap().to_owned();
    assert!(Answer::of(http().post(&page)).status < 400);
    let ids: Vec<String> = (0..5)
        .map(|n| {
            let held = Reply::Held(silence(1.0).into(), gate.clone());
            account.create(&json!({"audio_url": receiver.answers(&format!("/{n}.wav"), [held])}))
        })
        .collect();
    (0..5).for_each(|n| drop(receiver.wait(&format!("/{n}.wav"), 1)));
    gate.open();
    ids.iter().for_each(|id| assert_eq!(account.finished(id)["status"], "completed"));
    let credits = account.credits();
    assert_eq!(credits["credit_balance_cents"], 0);
    assert_eq!((&credits["lifetime_retail_cents"], &credits["lifetime_billable_cents"]), (&json!(5), &json!(2)));
    let events = account.usage();
    let sum = |field: &str| events.iter().map(|event| event[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("credit_applied_cents"), sum("billable_cents")), (3, 2));
}

/// Concurrent writes of many clients all succeed.
fn write_together(setup: Setup) {
    let service = setup.start();
    let account = service.account();
    let ids: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..12)
            .map(|_| {
                let work =
                    || (0..3).map(|_| account.create(&json!({"upload_id": account.upload("a.wav", silence(0.1))})));
                scope.spawn(move || work().collect::<Vec<_>>())
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    ids.iter().for_each(|id| assert_eq!(account.finished(id)["status"], "completed"));
    assert_eq!(account.usage().len(), 36);
}

#[test]
fn concurrent_jobs_do_not_spend_credit_twice() {
    share_the_credit(Setup::local());
    if let Some(server) = postgres() {
        share_the_credit(Setup::local().with("database_url", server.database()));
    }
}

#[test]
fn concurrent_requests_all_succeed() {
    write_together(Setup::local());
    if let Some(server) = postgres() {
        write_together(Setup::local().with("database_url", server.database()));
    }
}

#[test]
fn sqlite_and_a_folder() {
    walk(Setup::local());
}

#[test]
fn postgresql_and_a_folder() {
    let Some(server) = postgres() else { return };
    walk(Setup::local().with("database_url", server.database()));
}

/// A statement of a connection keeps the types of its first parameters: a job without words must not spoil it for later ones.
#[test]
fn postgresql_stores_words_after_recordings_without_words() {
    let Some(server) = postgres() else { return };
    let service = Setup::local().with("database_url", server.database()).start();
    let account = service.account();
    let sounds = [silence(1.0), std::fs::read(speech()).unwrap()];
    for sound in sounds {
        // More than the pool has connections.
        let ids: Vec<String> =
            (0..12).map(|_| account.create(&json!({"upload_id": account.upload("a.flac", sound.clone())}))).collect();
        ids.iter().for_each(|id| assert_eq!(account.finished(id)["status"], "completed"));
    }
    assert!(!service.log().contains("recording the end of a job failed"), "{}", service.log());
}

#[test]
fn sqlite_and_a_bucket() {
    let bucket = Bucket::new();
    walk(bucket.keeps(Setup::local()));
    assert!(bucket.objects() > 0, "the recordings lie in the bucket");
}

#[test]
fn a_file_that_a_bucket_accepted_may_still_be_too_large() {
    let bucket = Bucket::new();
    let service = bucket.keeps(Setup::local()).with("max_upload_bytes", 10_000).start();
    let account = service.account();
    let signed = account.sign("a.wav", "audio/wav");
    assert_eq!(signed.put(silence(2.0)).status, 200);
    account.complete(signed.id()).error(413, "upload_too_large");
    assert_eq!(signed.put(silence(1.0)).status, 200);
    account.complete(signed.id()).ok();
}

/// Two transcripts of one upload that are deleted at the same moment leave nothing behind.
#[test]
fn concurrent_deletions_on_postgresql_leave_nothing() {
    let Some(server) = postgres() else { return };
    let bucket = Bucket::new();
    let service = bucket.keeps(Setup::local()).with("database_url", server.database()).start();
    let account = service.account();
    for _ in 0..8 {
        let upload = account.upload("a.wav", silence(0.2));
        let ids = [0; 4].map(|_| account.create(&json!({"upload_id": upload})));
        ids.iter().for_each(|id| drop(account.finished(id)));
        std::thread::scope(|scope| {
            for id in &ids {
                let (account, path) = (&account, format!("/v2/transcripts/{id}"));
                scope.spawn(move || assert_eq!(account.delete(&path).status, 204));
            }
        });
        account.complete(&upload).error(404, "not_found");
    }
    eventually("the objects are gone", || (bucket.objects() == 0).then_some(()));
}

/// A transcript created while the last transcript of its upload is deleted: the upload is either gone or kept whole.
#[test]
fn a_creation_during_a_deletion_on_postgresql_is_kept_or_refused() {
    let Some(server) = postgres() else { return };
    let service = Setup::local().with("database_url", server.database()).start();
    let account = service.account();
    for _ in 0..12 {
        let upload = account.upload("a.wav", silence(0.2));
        let first = account.create(&json!({"upload_id": upload}));
        account.finished(&first);
        let path = format!("/v2/transcripts/{first}");
        let created = std::thread::scope(|scope| {
            let created = scope.spawn(|| account.post("/v2/transcripts", &json!({"upload_id": upload})));
            assert_eq!(account.delete(&path).status, 204);
            created.join().unwrap()
        });
        if created.status != 404 {
            let done = account.finished(created.ok()["id"].as_str().unwrap());
            assert_eq!(done["status"], "completed", "{done}");
        }
    }
}

/// A migration runs beside a working node, and beside a transaction that locks a table for a while.
#[test]
fn a_table_in_use_delays_a_migration_and_blocks_no_request() {
    let Some(server) = postgres() else { return };
    let database = server.database();
    let setup = Setup::local().with("database_url", &database);
    drop(setup.clone().start());
    // The schema of the version before.
    server.sql(
        &database,
        "ALTER TABLE transcripts DROP COLUMN lease_ms; ALTER TABLE webhooks DROP COLUMN wait_ms;
         ALTER TABLE usage_events DROP COLUMN report_attempts, DROP COLUMN report_due;
         ALTER TABLE accounts DROP COLUMN subscription_at;
         ALTER TABLE orphans DROP COLUMN due_at, DROP COLUMN until_at;
         DELETE FROM _sqlx_migrations WHERE version = 3;",
    );
    std::thread::scope(|scope| {
        scope.spawn(|| server.sql(&database, "BEGIN; LOCK TABLE accounts; SELECT pg_sleep(5); COMMIT"));
        eventually("the table is kept", || {
            let sql = "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_locks WHERE relation = 'accounts'::regclass
                       AND mode = 'AccessExclusiveLock' AND granted) THEN RAISE 'not yet'; END IF; END $$";
            server.can(&database, sql).then_some(())
        });
        let service = setup.start();
        assert!(service.log().contains("trying again to bring its schema up to date"), "{}", service.log());
        service.account().get("/v2/credits").ok();
    });
}

/// A migration sums the usage that is there, and the database that of a node whose version knows no sums.
#[test]
fn usage_of_an_older_version_is_summed_on_postgresql() {
    let Some(server) = postgres() else { return };
    let database = server.database();
    let setup = Setup::local().with("database_url", &database);
    let service = setup.clone().start();
    let account = service.account();
    for name in ["a.wav", "b.wav"] {
        account.transcribe(name, silence(1.0));
    }
    let before = account.get("/v2/usage/summary").ok();
    assert_eq!(before["by_model"][0]["events"], 2);
    drop(service);
    // The schema of the version before.
    server.sql(
        &database,
        "DROP TRIGGER usage_days_sum ON usage_events; DROP FUNCTION usage_days_sum; DROP TABLE usage_days;
         CREATE INDEX usage_sums ON usage_events (account_id, created_at, sku, retail_cost_cents, billable_cents);
         DELETE FROM _sqlx_migrations WHERE version = 14;",
    );
    let service = setup.start();
    let account = account.at(&service.api());
    assert_eq!(account.get("/v2/usage/summary").ok(), before);
    for _ in 0..2 {
        server.sql(
            &database,
            "INSERT INTO usage_events (id, account_id, sku, unit_type, quantity_ms, retail_cost_cents, credit_applied_cents,
                                       billable_cents, session_id, created_at)
             SELECT 'use_older', account_id, sku, unit_type, 1500, 7, 3, 4, 'ses_older', created_at
             FROM usage_events LIMIT 1 ON CONFLICT DO NOTHING",
        );
        let after = account.get("/v2/usage/summary").ok();
        let sums = [&before, &after].map(|summary| {
            ["events", "retail_cost_cents", "billable_cents"].map(|sum| summary["by_model"][0][sum].as_i64().unwrap())
        });
        assert_eq!(sums[1], [sums[0][0] + 1, sums[0][1] + 7, sums[0][2] + 4]);
        assert_eq!(account.get("/v2/usage").ok()["total"], 3);
    }
}

#[test]
fn a_null_character_is_no_failure_on_postgresql() {
    let Some(server) = postgres() else { return };
    let service = Setup::local().with("database_url", server.database()).start();
    let account = service.account();
    let upload = account.upload("a.wav", silence(0.5));
    let answers = [
        account.get("/v2/transcripts/tr_%00"),
        account.get("/v2/transcripts?status=%00"),
        account.complete("upload_%00"),
        account.post("/v2/transcripts", &json!({"upload_id": "upload_\u{0}"})),
        account.post("/v2/transcripts", &json!({"upload_id": upload, "title": "a\u{0}b"})),
        account.post("/v2/uploads/sign", &json!({"filename": "a\u{0}.wav", "content_type": "audio/wav"})),
    ];
    for answer in answers {
        assert!(answer.status < 500, "{}: {:?}", answer.status, answer.body);
    }
}

#[test]
fn a_missing_store_is_a_clear_error() {
    let service = Setup::new().with("database_url", "postgres://nobody@127.0.0.1:9/nothing").prepare();
    service.spawn();
    assert!(!service.wait().success());
    assert!(service.lines().is_empty());
    assert!(!service.log().contains("panicked"), "{}", service.log());
}
