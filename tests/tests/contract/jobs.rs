//! The list of transcripts, repeated creation, and the queue: section 3, and what the decisions add.

use std::sync::OnceLock;

use auricle_tests::{Account, Answer, Receiver, Service, Setup, eventually};
use serde_json::{Value, json};

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().start())
}

fn receiver() -> &'static Receiver {
    static RECEIVER: OnceLock<Receiver> = OnceLock::new();
    RECEIVER.get_or_init(Receiver::new)
}

#[test]
fn the_list_is_newest_first_and_can_be_paged_and_filtered() {
    let account = service().account();
    let upload = account.upload("not audio.wav", "not audio");
    let mut ids: Vec<String> = (0..3).map(|_| account.create(&json!({"audio_url": receiver().sound()}))).collect();
    ids.push(account.create(&json!({"upload_id": upload})));
    ids.iter().for_each(|id| drop(account.finished(id)));
    ids.reverse();
    let list = |query: &str| -> Vec<String> {
        let answer = account.get(&format!("/v2/transcripts{query}")).ok();
        let items = answer["data"].as_array().unwrap_or_else(|| panic!("no data: {answer}"));
        items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(list(""), ids);
    assert_eq!(list("?limit=2"), ids[..2]);
    assert_eq!(list("?limit=2&offset=1"), ids[1..3]);
    assert_eq!(list("?offset=4"), ids[4..]);
    assert_eq!(list("?status=error"), ids[..1]);
    assert_eq!(list("?status=completed"), ids[1..]);
    assert_eq!(list("?status=queued"), [""; 0]);
    for query in ["?limit=x", "?limit=-1", "?offset=-1", "?status=finished"] {
        account.get(&format!("/v2/transcripts{query}")).error(422, "validation_error");
    }
    assert_eq!(service().account().get("/v2/transcripts").ok()["data"], json!([]), "another account sees none of them");
}

#[test]
fn an_idempotency_key_gives_the_first_job_back() {
    let (account, other) = (service().account(), service().account());
    let post = |account: &Account, key: &str, body: &Value| {
        let request = account.request(reqwest::Method::POST, "/v2/transcripts").header("idempotency-key", key);
        Answer::of(request.header("content-type", "application/json").body(body.to_string()))
    };
    let body = json!({"audio_url": receiver().sound()});
    let first = post(&account, "k1", &body).ok()["id"].clone();
    assert_eq!(post(&account, "k1", &body).ok()["id"], first);
    account.finished(first.as_str().unwrap());
    assert_eq!(post(&account, "k1", &body).ok()["id"], first, "after completion too");
    let other_way = format!("{{ \"title\": null,\n \"audio_url\" : {} }}", body["audio_url"]);
    let request = account.request(reqwest::Method::POST, "/v2/transcripts").header("idempotency-key", "k1");
    let same = Answer::of(request.header("content-type", "application/json").body(other_way));
    assert_eq!(same.ok()["id"], first, "the same request, written in another way");
    assert_ne!(post(&account, "k2", &body).ok()["id"], first, "another key");
    assert_ne!(post(&other, "k1", &body).ok()["id"], first, "another account");
    post(&account, "k1", &json!({"audio_url": receiver().sound()})).error(409, "idempotency_conflict");
    for other in [json!({"upload_id": "upload_none"}), json!({"audio_url": 5}), json!([])] {
        post(&account, "k1", &other).error(409, "idempotency_conflict");
    }
    // At the same moment: one job.
    let ids: Vec<Value> = std::thread::scope(|scope| {
        let posts: Vec<_> = (0..6).map(|_| scope.spawn(|| post(&account, "k3", &body).ok()["id"].clone())).collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(account.get("/v2/transcripts").ok()["data"].as_array().unwrap().len(), 3);
}

#[test]
fn jobs_over_the_accounts_cap_are_queued_and_start_in_order() {
    let service = Setup::local().with("parallel_jobs", 1).start();
    let (account, other) = (service.account(), service.account());
    let (gates, urls): (Vec<_>, Vec<_>) = (0..3).map(|_| receiver().held()).map(|(url, gate)| (gate, url)).unzip();
    let ids: Vec<String> = urls.iter().map(|url| account.create(&json!({"audio_url": url}))).collect();
    let status = |id: &String| account.transcript(id)["status"].clone();
    eventually("the first starts", || (status(&ids[0]) == "processing").then_some(()));
    let done = other.finished(&other.create(&json!({"audio_url": receiver().sound()})));
    assert_eq!(done["status"], "completed", "another account is not held up");
    assert_eq!((status(&ids[1]), status(&ids[2])), (json!("queued"), json!("queued")));
    gates[0].open();
    assert_eq!(account.finished(&ids[0])["status"], "completed");
    eventually("the second starts", || (status(&ids[1]) == "processing").then_some(()));
    assert_eq!(status(&ids[2]), "queued", "first in, first out");
    gates[1].open();
    gates[2].open();
    assert_eq!(account.finished(&ids[2])["status"], "completed");
}
