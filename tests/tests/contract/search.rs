//! Search in the titles and words of all transcripts, on SQLite and PostgreSQL.

use auricle_tests::{Account, Answer, Setup, eventually, silence, speech};
use reqwest::{Method, Url};
use serde_json::{Value, json};

use crate::edits::edit;
use crate::postgres;

fn answer(account: &Account, parameters: &[(&str, &str)]) -> Answer {
    let url = Url::parse_with_params("http://x/v2/transcripts/search", parameters).unwrap();
    let path = format!("/v2/transcripts/search?{}", url.query().unwrap());
    Answer::of(account.request(Method::GET, &path))
}

fn found(account: &Account, query: &str) -> Vec<Value> {
    answer(account, &[("query", query)]).ok()["data"].as_array().unwrap().clone()
}

/// The index follows within a moment.
fn eventually_found(account: &Account, query: &str) -> Value {
    eventually("the index", || found(account, query).into_iter().next())
}

fn transcripts_are_found(setup: Setup) {
    let service = setup.start();
    let (account, other) = (service.account(), service.account());
    let heard = account.transcribe("jfk.flac", std::fs::read(speech()).unwrap());
    let id = heard["id"].as_str().unwrap();
    let hit = eventually_found(&account, "COUNTRY");
    assert_eq!(
        (&hit["id"], &hit["status"], &hit["audio_duration_sec"]),
        (&heard["id"], &json!("completed"), &json!(11.0))
    );
    let sentences = account.get(&format!("/v2/transcripts/{id}/sentences")).ok()["sentences"].clone();
    let sentence = &hit["sentence"];
    let same = sentences.as_array().unwrap().iter().find(|one| one["text"] == sentence["text"]).unwrap();
    assert_eq!(sentence["start"], same["start"]);
    let text: Vec<char> = sentence["text"].as_str().unwrap().chars().collect();
    let matches = sentence["matches"].as_array().unwrap();
    assert!(!matches.is_empty());
    for part in matches {
        let [start, end] = [0, 1].map(|at| part[at].as_u64().unwrap() as usize);
        assert_eq!(text[start..end].iter().collect::<String>().to_lowercase(), "country");
    }

    // All words, in any order; the beginning of a longer one is enough. Quotes and signs only separate words.
    for query in ["country ask", "\"ask country\"", "count", "(country*", "-country:", "'country';--", "^country~ + \\"]
    {
        assert_eq!(found(&account, query).len(), 1, "{query}");
    }
    for query in ["country xyzzy", "country NEAR xyzzy", "xyzzy OR country", "country' OR 1=1 --", "ountry", "%", "co"]
    {
        let answer = answer(&account, &[("query", query)]);
        if query == "%" {
            answer.error(422, "validation_error");
        } else {
            assert_eq!(answer.ok()["data"], json!([]), "{query}");
        }
    }
    let long = "a".repeat(201);
    for (name, value) in
        [("query", "\"\" * —"), ("query", ""), ("query", &long), ("limit", "0"), ("after", "x"), ("status", "x")]
    {
        let parameters: &[(&str, &str)] =
            if name == "query" { &[(name, value)] } else { &[("query", "a"), (name, value)] };
        answer(&account, parameters).error(422, "validation_error");
    }
    assert_eq!(found(&account, &"word ".repeat(40)).len(), 0);
    assert!(found(&other, "country").is_empty(), "another account finds nothing");

    // A title is found before there are words, in any case and without its accents.
    let upload = account.upload("a.wav", silence(0.1));
    for title in ["Zürich <b>Réunion</b> 1", "zürich réunion 2", "東京都の会議 3 ZURICH"] {
        account.create(&json!({"upload_id": upload, "title": title}));
    }
    eventually("all titles", || (found(&account, "zurich").len() == 3).then_some(()));
    assert_eq!(found(&account, "RÉUNION zürich").len(), 2);
    for query in ["東京", "京都", "会議 zurich", "議"] {
        assert_eq!(found(&account, query).len(), 1, "{query}");
    }
    assert!(found(&account, "東会").is_empty());
    let page = answer(&account, &[("query", "zurich"), ("limit", "2")]).ok();
    let titles = |page: &Value| -> Vec<String> {
        page["data"].as_array().unwrap().iter().map(|one| one["title"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(titles(&page), ["東京都の会議 3 ZURICH", "zürich réunion 2"]);
    let next = page["next"].as_str().unwrap();
    let page = answer(&account, &[("query", "zurich"), ("limit", "2"), ("after", next)]).ok();
    assert_eq!((titles(&page), &page["next"]), (vec!["Zürich <b>Réunion</b> 1".to_owned()], &json!(null)));
    assert_eq!(page["data"][0]["sentence"], json!(null));

    edit(&account, id, 0, json!([{ "from": 0, "to": 1, "text": "Zanzibar" }])).ok();
    assert_eq!(eventually_found(&account, "zanzibar")["id"], heard["id"], "a corrected word is found");

    assert_eq!(account.delete(&format!("/v2/transcripts/{id}")).status, 204);
    assert!(found(&account, "country").is_empty(), "what is deleted is found no more");
}

#[test]
fn transcripts_are_found_by_what_was_said() {
    transcripts_are_found(Setup::local().starter());
}

#[test]
fn transcripts_are_found_by_what_was_said_on_postgres() {
    let Some(server) = postgres() else { return };
    transcripts_are_found(Setup::local().starter().with("database_url", server.database()));
}
