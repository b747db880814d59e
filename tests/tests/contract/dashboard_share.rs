//! Links that show a transcript without a sign-in.

use auricle_tests::{Account, Service, Setup, Visitor};
use reqwest::Method;
use serde_json::json;

use crate::edits::{edit, two_speakers};
use crate::postgres;

/// A link shows a transcript to anybody, and every link that is none gets the same answer.
fn links_are_shown(service: &Service) {
    let mut visitor = Visitor::signed_up(service);
    let account = Account { api: service.api(), key: visitor.key("k"), email: String::new() };
    let id = two_speakers(&account)["id"].as_str().unwrap().to_owned();
    let attack = "<script>alert(1)</script>";
    edit(&account, &id, 0, json!([{ "from": 0, "to": 1, "text": attack }])).ok();
    visitor.ask(&format!("/data/transcripts/{id}/speakers"), &json!({ "speaker": "A", "name": "<b>Ada</b>" })).ok();
    let path = format!("/data/transcripts/{id}/share");
    let share = |visitor: &mut Visitor| {
        let made = visitor.ask(&path, &json!({ "days": 7 })).ok();
        let url = made["url"].as_str().unwrap().to_owned();
        url.strip_prefix(&service.dashboard()).unwrap().to_owned()
    };
    let revoke = |visitor: &mut Visitor| {
        let request = visitor.request(Method::DELETE, &path).header("x-form-token", visitor.token.clone());
        visitor.send(request)
    };
    assert_eq!(revoke(&mut visitor).status, 404, "there is none by itself");
    let link = share(&mut visitor);
    assert!(link.starts_with("/s/") && link.len() > 40, "{link}");

    // Anybody reads it, and nothing of the account is on it.
    let mut stranger = Visitor::new(service);
    let page = stranger.get(&link);
    assert_eq!((page.status, page.header("x-robots-tag")), (200, Some("noindex, nofollow")));
    assert_eq!((page.header("referrer-policy"), page.header("cache-control")), (Some("no-referrer"), Some("no-store")));
    let text = page.text();
    assert!(
        text.contains("&#60;script&#62;alert(1)") && text.contains("&#60;b&#62;Ada") && text.contains("noindex"),
        "{text}"
    );
    assert!(!text.contains("<script>alert") && !text.contains("<b>Ada"));
    for hidden in [visitor.email.as_str(), id.as_str(), "svc-best", "/audio", "/keys"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    assert_eq!(stranger.get(&format!("/transcripts/{id}")).status, 303, "it is no sign-in");
    let database = std::fs::read(service.data().join("auricle.db")).unwrap_or_default();
    let secret = link.trim_start_matches("/s/").as_bytes();
    assert!(!database.windows(secret.len()).any(|bytes| bytes == secret), "the store has its hash alone");

    // Guessed, replaced, revoked, and of a transcript that is gone: one answer.
    let guessed = stranger.get(&format!("/s/{}", "A".repeat(43)));
    assert_eq!(guessed.status, 404);
    let is_gone = |stranger: &mut Visitor, link: &str| {
        let answer = stranger.get(link);
        assert_eq!((answer.status, answer.text()), (404, guessed.text()));
    };
    let second = share(&mut visitor);
    is_gone(&mut stranger, &link);
    assert_eq!(stranger.get(&second).status, 200);
    let mut other = Visitor::signed_up(service);
    assert_eq!(revoke(&mut other).status, 404);
    assert_eq!(other.ask(&path, &json!({ "days": 7 })).status, 404);
    assert_eq!(revoke(&mut visitor).status, 204);
    is_gone(&mut stranger, &second);
    let third = share(&mut visitor);
    assert_eq!(stranger.get(&third).status, 200);
    account.delete(&format!("/v2/transcripts/{id}"));
    is_gone(&mut stranger, &third);
    visitor.ask(&path, &json!({ "days": 7 })).error(404, "not_found");
    visitor.ask(&path, &json!({ "days": 0 })).error(422, "validation_error");
    visitor.ask(&path, &json!({ "days": 366 })).error(422, "validation_error");
    visitor.ask(&path, &json!({})).error(400, "invalid_request");
    // Guesses are counted.
    let statuses: Vec<u16> = (0..60).map(|at| stranger.get(&format!("/s/guess-{at}")).status).collect();
    assert_eq!((statuses[0], statuses[59]), (404, 429));
}

#[test]
fn a_link_shows_a_transcript_until_it_is_revoked() {
    links_are_shown(&Setup::local().starter().start());
}

#[test]
fn a_link_shows_a_transcript_until_it_is_revoked_on_postgres() {
    let Some(server) = postgres() else { return };
    links_are_shown(&Setup::local().starter().with("database_url", server.database()).start());
}
