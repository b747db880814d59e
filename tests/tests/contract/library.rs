//! The library: tags, orders, and what is done with many transcripts at once, on SQLite and PostgreSQL.

use auricle_tests::{Account, Answer, Service, Setup, Visitor, eventually, noise, silence};
use reqwest::Method;
use serde_json::{Value, json};

use crate::postgres;

fn set(account: &Account, id: &str, tags: &Value) -> Answer {
    let request = account.request(Method::PUT, &format!("/v2/transcripts/{id}/tags"));
    Answer::of(request.header("content-type", "application/json").body(json!({ "tags": tags }).to_string()))
}

fn transcripts_have_tags(setup: Setup) {
    let service = setup.with("role", "api").start();
    let (account, other) = (service.account(), service.account());
    let upload = account.upload("a.wav", silence(0.1));
    let ids: Vec<String> =
        (0..3).map(|at| account.create(&json!({"upload_id": upload, "title": format!("t{at}")}))).collect();
    assert_eq!(account.get(&format!("/v2/transcripts/{}/tags", ids[0])).ok()["tags"], json!([]));
    let kept = set(&account, &ids[0], &json!(["Zebra", " two  words ", "ZEBRA", "<b>ä</b>"])).ok();
    assert_eq!(kept["tags"], json!(["<b>ä</b>", "two words", "Zebra"]));
    set(&account, &ids[1], &json!(["zebra"])).ok();
    assert_eq!(set(&account, &ids[1], &json!(["zebra"])).ok()["tags"], json!(["zebra"]));
    let tags = account.get("/v2/tags").ok()["data"].clone();
    let counts: Vec<(String, u64)> = (tags.as_array().unwrap().iter())
        .map(|one| (one["tag"].as_str().unwrap().to_lowercase(), one["transcripts"].as_u64().unwrap()))
        .collect();
    assert_eq!(counts[1..], [("two words".to_owned(), 1), ("zebra".to_owned(), 2)]);
    let listed = account.get("/v2/transcripts?tag=ZEBRA").ok();
    assert_eq!((&listed["total"], &listed["data"][0]["id"]), (&json!(2), &json!(ids[1])));
    assert_eq!(account.get("/v2/transcripts?tag=none").ok()["total"], 0);
    let found = |query: &str| account.get(&format!("/v2/transcripts/search?query={query}")).ok()["data"].clone();
    eventually("the index", || (found("t0").as_array().unwrap().len() == 1).then_some(()));
    assert_eq!(found("t0")[0]["tags"], kept["tags"]);
    assert_eq!(found("t0&tag=zebra")[0]["id"], json!(ids[0]));
    assert_eq!(found("t2&tag=zebra"), json!([]));

    // Bounds.
    let many: Vec<String> = (0..21).map(|at| format!("tag {at}")).collect();
    for wrong in [
        json!(many),
        json!(["a".repeat(41)]),
        json!([""]),
        json!([" "]),
        json!(["a,b"]),
        json!(["a\u{202e}b"]),
        json!([1]),
        json!("a"),
    ] {
        set(&account, &ids[2], &wrong).error(422, "validation_error");
    }
    set(&account, &ids[2], &json!(null)).error(400, "invalid_request");
    set(&account, &ids[2], &json!(many[..20])).ok();

    // Another account sees and changes none of it.
    set(&other, &ids[0], &json!(["mine"])).error(404, "not_found");
    other.get(&format!("/v2/transcripts/{}/tags", ids[0])).error(404, "not_found");
    assert_eq!(other.get("/v2/tags").ok()["data"], json!([]));
    assert_eq!(account.get(&format!("/v2/transcripts/{}/tags", ids[0])).ok()["tags"], kept["tags"]);
    for id in &ids {
        assert_eq!(account.delete(&format!("/v2/transcripts/{id}")).status, 204);
    }
    assert_eq!(account.get("/v2/tags").ok()["data"], json!([]), "tags go with their transcripts");
}

#[test]
fn transcripts_have_tags_of_their_account() {
    transcripts_have_tags(Setup::local());
}

#[test]
fn transcripts_have_tags_of_their_account_on_postgres() {
    let Some(server) = postgres() else { return };
    transcripts_have_tags(Setup::local().with("database_url", server.database()));
}

const CHANGE: &str = "/data/transcripts/change";

fn account_of(service: &Service, visitor: &mut Visitor) -> Account {
    Account { api: service.api(), key: visitor.key("k"), email: visitor.email.clone() }
}

fn titles(visitor: &mut Visitor, path: &str) -> Vec<String> {
    let page = visitor.get(path);
    let rows = page.text().split("class=\"title\"><a href=\"/transcripts/").skip(1);
    rows.map(|row| row.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned()).collect()
}

fn many_are_ordered_and_changed_at_once(setup: Setup) {
    let service = setup.start();
    let (mut visitor, mut stranger) = (Visitor::signed_up(&service), Visitor::signed_up(&service));
    let account = account_of(&service, &mut visitor);
    let lengths = [("beta", 0.5), ("Alpha", 1.5), ("gamma", 1.0)];
    let ids: Vec<String> = (lengths.iter())
        .map(|(title, seconds)| {
            let upload = account.upload("a.wav", noise(*seconds));
            account.create(&json!({"upload_id": upload, "title": title}))
        })
        .collect();
    ids.iter().for_each(|id| drop(account.finished(id)));
    for (sort, expected) in [
        ("newest", ["gamma", "Alpha", "beta"]),
        ("oldest", ["beta", "Alpha", "gamma"]),
        ("title", ["Alpha", "beta", "gamma"]),
        ("longest", ["Alpha", "gamma", "beta"]),
        ("shortest", ["beta", "gamma", "Alpha"]),
        ("nonsense", ["gamma", "Alpha", "beta"]),
    ] {
        assert_eq!(titles(&mut visitor, &format!("/transcripts?sort={sort}")), expected, "{sort}");
    }
    // More than one page, in every order.
    let upload = account.upload("a.wav", silence(0.1));
    let many: Vec<String> =
        (0..120).map(|at| account.create(&json!({"upload_id": upload, "title": format!("many {at:03}")}))).collect();
    many.iter().for_each(|id| drop(account.finished(id)));
    for sort in ["newest", "oldest", "title", "longest", "shortest"] {
        let (mut path, mut seen) = (format!("/transcripts?sort={sort}"), Vec::new());
        loop {
            seen.extend(titles(&mut visitor, &path));
            let page = visitor.get(&path);
            let next =
                page.text().split("rel=\"next\" href=\"").nth(1).map(|rest| rest.split('"').next().unwrap().to_owned());
            match next {
                Some(next) => path = next.replace("&#38;", "&"),
                None => break,
            }
        }
        let count = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!((count, seen.len()), (123, 123), "{sort}");
    }

    // Chosen ones, and then all that match, a part with each request.
    let tagged = visitor.ask(CHANGE, &json!({"action": "add_tag", "tag": "Some <i>tag</i>", "ids": ids})).ok();
    assert_eq!(tagged, json!({"changed": 3, "after": null}));
    assert_eq!(titles(&mut visitor, "/transcripts?tag=some%20%3Ci%3Etag%3C%2Fi%3E").len(), 3);
    assert!(!visitor.get("/transcripts").text().contains("<i>tag"));
    assert_eq!(
        visitor.ask(CHANGE, &json!({"action": "remove_tag", "tag": "some <I>TAG</I>", "ids": [ids[0]]})).ok()["changed"],
        1
    );
    eventually("the index", || {
        let found = account.get("/v2/transcripts/search?query=many&limit=100").ok();
        (found["data"].as_array().unwrap().len() == 100 && !found["next"].is_null()).then_some(())
    });
    let all = |visitor: &mut Visitor, action: &str| {
        let (mut after, mut changed, mut requests) = (json!(""), 0, 0);
        while !after.is_null() {
            let body = json!({"action": action, "tag": "t", "filter": {"q": "\"many\""}, "after": after});
            let answer = visitor.ask(CHANGE, &body).ok();
            changed += answer["changed"].as_u64().unwrap();
            after = answer["after"].clone();
            requests += 1;
        }
        (changed, requests)
    };
    eventually("all are indexed", || (all(&mut visitor, "add_tag") == (0, 2)).then_some(()));
    // Another account changes nothing of it.
    assert_eq!(stranger.ask(CHANGE, &json!({"action": "delete", "ids": ids})).ok()["changed"], 0);
    assert_eq!(all(&mut stranger, "delete"), (0, 1));
    assert_eq!(all(&mut visitor, "delete"), (120, 2));
    assert_eq!(titles(&mut visitor, "/transcripts"), ["gamma", "Alpha", "beta"]);
    for wrong in [
        json!({"action": "burn", "ids": ids}),
        json!({"action": "add_tag", "tag": "a,b", "ids": ids}),
        json!({"action": "delete", "ids": vec!["x"; 101]}),
        json!({"action": "delete", "filter": "all"}),
    ] {
        visitor.ask(CHANGE, &wrong).error(422, "validation_error");
    }
    assert_eq!(titles(&mut visitor, "/transcripts").len(), 3);
}

#[test]
fn many_transcripts_are_ordered_and_changed_at_once() {
    many_are_ordered_and_changed_at_once(Setup::local());
}

#[test]
fn many_transcripts_are_ordered_and_changed_at_once_on_postgres() {
    let Some(server) = postgres() else { return };
    many_are_ordered_and_changed_at_once(Setup::local().with("database_url", server.database()));
}

#[test]
fn an_export_has_a_file_for_each_transcript_with_text() {
    let service = Setup::local().starter().start();
    let (mut visitor, mut stranger) = (Visitor::signed_up(&service), Visitor::signed_up(&service));
    let account = account_of(&service, &mut visitor);
    let heard = account.create(&json!({"upload_id": account.upload("a.flac", std::fs::read(auricle_tests::speech()).unwrap()), "title": "../../evil\\\u{e9}"}));
    let silent = account.create(&json!({"upload_id": account.upload("a.wav", silence(0.5)), "title": "silent"}));
    [&heard, &silent].into_iter().for_each(|id| drop(account.finished(id)));
    let read = |visitor: &mut Visitor, path: &str| {
        let answer = visitor.get(path);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/zip")), "{path}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.zip");
        std::fs::write(&file, &answer.body).unwrap();
        let list = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None
for n in z.namelist(): print(n, z.read(n)[:40])";
        let listed = std::process::Command::new("python3").args(["-c", list]).arg(&file).output().unwrap();
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        String::from_utf8(listed.stdout).unwrap()
    };
    for (format, beginning) in [("txt", "And so"), ("srt", "1\\n00:00"), ("vtt", "WEBVTT"), ("docx", "PK")] {
        let listed = read(&mut visitor, &format!("/transcripts/export?format={format}"));
        assert!(
            listed.starts_with(&format!("_.._evil_é {heard}.{format} b")) && listed.contains(beginning),
            "{listed}"
        );
        assert_eq!(listed.lines().count(), 1, "one without text has no file: {listed}");
    }
    assert_eq!(read(&mut visitor, &format!("/transcripts/export?ids={heard},{silent},nothing")).lines().count(), 1);
    assert_eq!(read(&mut visitor, "/transcripts/export?q=xyzzy"), "");
    assert_eq!(read(&mut visitor, "/transcripts/export?q=%22%20*"), "");
    assert_eq!(read(&mut stranger, &format!("/transcripts/export?ids={heard}")), "");
    assert_eq!(visitor.get("/transcripts/export?format=exe").status, 404);
}

#[test]
fn presets_are_kept_for_the_account() {
    let service = Setup::local().with("role", "api").start();
    let (mut visitor, mut stranger) = (Visitor::signed_up(&service), Visitor::signed_up(&service));
    let keep = |visitor: &mut Visitor, name: &str, options: Value| {
        visitor.ask("/data/presets", &json!({"name": name, "options": options}))
    };
    let kept =
        keep(&mut visitor, "  <b>Board</b>  talks ", json!({"model": "svc-fast", "keyterms_prompt": ["</script>\""]}))
            .ok();
    assert_eq!(kept["name"], "<b>Board</b> talks");
    keep(&mut visitor, "<b>Board</b> talks", json!({"model": "svc-best"})).ok();
    for path in ["/transcripts", "/transcripts/new", "/playground"] {
        let page = visitor.get(path);
        assert_eq!(page.text().matches("Board").count(), 3, "in the data, and as value and name of a choice");
        assert!(page.text().contains("svc-best") && !page.text().contains("<b>Board"), "{path}");
        assert!(!stranger.get(path).text().contains("Board"), "{path}");
    }
    let long = "a".repeat(41);
    for (name, options) in [
        (long.as_str(), json!({})),
        (" ", json!({})),
        ("a\u{202e}b", json!({})),
        ("a", json!([])),
        ("a", json!({"x": "a".repeat(17 << 10)})),
    ] {
        keep(&mut visitor, name, options).error(422, "validation_error");
    }
    for at in 1..50 {
        keep(&mut visitor, &format!("p{at}"), json!({})).ok();
    }
    keep(&mut visitor, "one more", json!({})).error(422, "validation_error");
    keep(&mut visitor, "p1", json!({"model": "x"})).ok();
    let gone = json!({"name": "<b>Board</b> talks"});
    stranger.ask("/data/presets/delete", &gone).error(404, "not_found");
    visitor.ask("/data/presets/delete", &gone).ok();
    visitor.ask("/data/presets/delete", &gone).error(404, "not_found");
    assert!(!visitor.get("/transcripts/new").text().contains("Board"));
}
