//! The dashboard over HTTP: getting in, keys, lists, and what an attacker tries.

use std::sync::OnceLock;

use auricle_tests::{Answer, PASSWORD, Service, Setup, Visitor, eventually, http, silence, wav};
use reqwest::Method;
use serde_json::json;

use crate::postgres;

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().start())
}

/// A service that transcribes nothing, so that transcripts stay in the queue.
fn idle() -> Setup {
    Setup::local().with("role", "api")
}

/// Every page and form for people who have signed in. `{}` is a transcript, `{key}` a key.
const PAGES: [&str; 15] = [
    "/",
    "/keys",
    "/transcripts",
    "/transcripts/new",
    "/transcripts/{}",
    "/transcripts/{}/audio",
    "/transcripts/{}/download/txt",
    "/usage",
    "/usage.csv",
    "/billing",
    "/team",
    "/playground",
    "/playground/live",
    "/playground/agent",
    "/transcripts/{}/download/json",
];
const FORMS: [&str; 11] = [
    "/logout",
    "/logout-everywhere",
    "/keys",
    "/keys/{key}/revoke",
    "/transcripts/{}/delete",
    "/team/invitations",
    "/billing/budget",
    "/team/invitations/inv_1/withdraw",
    "/team/user_1/remove",
    "/webhooks/secret",
    "/webhooks/secret/remove",
];
const SCRIPTS: [&str; 8] = [
    "/data/transcripts",
    "/data/uploads/sign",
    "/data/uploads/upload_1/complete",
    "/data/speech-understanding",
    "/data/transcripts/tr_1/speakers",
    "/data/realtime/token",
    "/data/voice-agent/token",
    "/data/billing/checkout",
];

fn api(service: &Service, key: &str) -> auricle_tests::Account {
    auricle_tests::Account { api: service.api(), key: key.to_owned(), email: String::new() }
}

fn keys_of(page: &Answer) -> Vec<String> {
    let parts = page.text().split("action=\"/keys/").skip(1);
    parts.map(|part| part.split('/').next().unwrap().to_owned()).collect()
}

#[test]
fn the_first_link_sets_the_password_once() {
    let service = Setup::new().start();
    let link = service.line("sign-in ").expect("a link");
    let path = link.strip_prefix(&service.dashboard()).expect("on the dashboard").to_owned();
    let mut visitor = Visitor::new(&service);
    let page = visitor.get(&path);
    assert!(page.text().contains("admin@localhost"), "{}", page.text());
    assert_eq!(visitor.post(&path, &[("password", "short")]).status, 422);
    let set = visitor.post(&path, &[("password", PASSWORD)]);
    assert_eq!((set.status, set.header("location")), (303, Some("/transcripts")));
    assert_eq!(visitor.get("/transcripts").status, 200);
    assert_eq!(Visitor::new(&service).get(&path).status, 404, "a link works once");
    let mut again = Visitor::new(&service);
    assert_eq!(again.sign_in("Admin@Localhost ", PASSWORD).status, 303);
    // A link from the command line sets another password and ends the sign-ins.
    let link = service.password_link("admin@localhost");
    let mut reset = Visitor::new(&service);
    reset.get(&link);
    assert_eq!(reset.post(&link, &[("password", "another sentence")]).status, 303);
    assert_eq!(visitor.get("/transcripts").status, 303, "the old sign-in has ended");
    assert_eq!(again.sign_in("admin@localhost", PASSWORD).status, 422);
    assert_eq!(again.sign_in("admin@localhost", "another sentence").status, 303);
    service.terminate();
    service.wait();
    service.start();
    assert_eq!(service.line("sign-in "), None, "somebody can sign in");
}

#[test]
fn nobody_gets_in_without_signing_in() {
    let mut stranger = Visitor::new(service());
    for path in PAGES {
        let answer = stranger.get(&path.replace("{}", "tr_1"));
        assert_eq!(answer.status, 303, "{path}");
        assert!(answer.header("location").unwrap().starts_with("/login"), "{path}");
    }
    for path in FORMS {
        let path = path.replace("{}", "tr_1").replace("{key}", "key_1");
        assert_eq!(stranger.post(&path, &[]).header("location"), Some("/login"), "{path}");
    }
    for path in SCRIPTS {
        stranger.ask(path, &json!({})).error(401, "unauthorized");
    }
    for cookie in ["", "x", "auricle", &"a".repeat(5000)] {
        let mut forger = Visitor::new(service());
        forger.set_cookie("auricle_session", cookie);
        assert_eq!(forger.get("/keys").status, 303, "{cookie:.20}");
    }
    // The cookie of a sign-in opens no path of the API.
    let visitor = Visitor::signed_up(service());
    let cookie = format!("auricle_session={}", visitor.cookie("auricle_session").unwrap());
    let answer = Answer::of(http().get(format!("{}/v2/models", service().api())).header("cookie", cookie));
    answer.error(401, "unauthorized");
}

#[test]
fn a_wrong_password_and_an_unknown_address_get_one_answer() {
    let known = Visitor::signed_up(service());
    let mut visitor = Visitor::new(service());
    let wrong = visitor.sign_in(&known.email, "not the password");
    let token = visitor.token.clone();
    let unknown = visitor.sign_in("nobody@example.org", "not the password");
    assert_eq!((wrong.status, unknown.status), (422, 422));
    let plain = |answer: &Answer, email: &str| answer.text().replace(email, "").replace(&token, "");
    assert_eq!(plain(&wrong, &known.email), plain(&unknown, "nobody@example.org"));
    assert_eq!(visitor.sign_in(&known.email, PASSWORD).status, 303);
}

#[test]
fn guesses_are_limited_for_known_and_unknown_addresses_alike() {
    let service = Setup::new().start();
    let known = Visitor::signed_up(&service);
    for email in [known.email.as_str(), "nobody@example.org"] {
        let mut visitor = Visitor::new(&service);
        for _ in 0..10 {
            assert_eq!(visitor.sign_in(email, "not the password").status, 422);
        }
        let refused = visitor.sign_in(email, PASSWORD);
        assert_eq!(refused.status, 429, "{email}");
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=901).contains(&wait), "{wait}");
    }
    let mut other = Visitor::signed_up(&service);
    assert_eq!(other.get("/keys").status, 200, "others are not affected");
}

#[test]
fn a_sign_in_has_a_cookie_of_its_own_and_ends() {
    let known = Visitor::signed_up(service());
    let cookie = |visitor: &Visitor| visitor.cookie("auricle_session").map(str::to_owned);
    // A cookie from before does not count as the sign-in.
    let mut visitor = Visitor::new(service());
    visitor.set_cookie("auricle_session", "chosen-by-somebody-else");
    let answer = visitor.sign_in(&known.email, PASSWORD);
    let set = answer.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age="] {
        assert!(set.contains(part), "{set}");
    }
    let first = cookie(&visitor).unwrap();
    assert_ne!(first, "chosen-by-somebody-else");
    assert!(first.len() >= 43, "{first}");
    let mut second = Visitor::new(service());
    second.sign_in(&known.email, PASSWORD);
    assert_ne!(cookie(&second).unwrap(), first);
    // Signing out ends this sign-in alone, also for somebody who kept the cookie.
    let mut kept = visitor.clone();
    visitor.get("/keys");
    assert_eq!(visitor.post("/logout", &[]).header("location"), Some("/login"));
    assert_eq!(cookie(&visitor), None);
    assert_eq!(kept.get("/keys").status, 303);
    assert_eq!(second.get("/keys").status, 200);
    // Signing out everywhere ends all.
    let mut third = Visitor::new(service());
    third.sign_in(&known.email, PASSWORD);
    third.get("/keys");
    third.post("/logout-everywhere", &[]);
    assert_eq!((second.get("/keys").status, known.clone().get("/keys").status), (303, 303));
}

#[test]
fn a_form_without_its_token_or_from_elsewhere_changes_nothing() {
    let mut visitor = Visitor::signed_up(service());
    let secret = visitor.key("mine");
    let key = keys_of(&visitor.get("/keys"))[0].clone();
    let id =
        api(service(), &secret).create(&json!({"upload_id": api(service(), &secret).upload("a.wav", silence(1.0))}));
    let other = Visitor::signed_up(service());
    let foreign = other.token.clone();
    for path in FORMS {
        let path = path.replace("{}", &id).replace("{key}", &key);
        for token in ["", "x", &foreign] {
            assert_eq!(visitor.post_with(token, &path, &[("name", "x")]).status, 403, "{path} {token}");
        }
        for origin in ["https://evil.example", "null"] {
            let body = format!("form_token={}&name=x", visitor.token);
            let request = visitor.request(Method::POST, &path).header("origin", origin);
            let request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
            assert_eq!(Answer::of(request).status, 403, "{path} {origin}");
        }
    }
    for path in ["/login", "/signup"] {
        let email = visitor.email.clone();
        let mut stranger = Visitor::new(service());
        stranger.get(path);
        let forged = stranger.post_with(&foreign, path, &[("email", &email), ("password", PASSWORD)]);
        assert_eq!(forged.status, 403, "{path}");
    }
    for path in SCRIPTS {
        let request = visitor.request(Method::POST, path).header("content-type", "application/json");
        Answer::of(request.body("{}")).error(403, "form_expired");
    }
    assert_eq!(keys_of(&visitor.get("/keys")), [key], "no key was created or revoked");
    assert_eq!(visitor.get(&format!("/transcripts/{id}")).status, 200);
}

#[test]
fn a_sign_in_leads_to_the_dashboard_alone() {
    let known = Visitor::signed_up(service());
    for (next, leads) in [
        ("/keys", "/keys"),
        ("/transcripts?q=a", "/transcripts?q=a"),
        ("//evil.example", "/transcripts"),
        ("/\\evil.example", "/transcripts"),
        ("https://evil.example/", "/transcripts"),
        ("/a\r\nset-cookie: a=b", "/transcripts"),
    ] {
        let mut visitor = Visitor::new(service());
        visitor.get("/login");
        let answer = visitor.post("/login", &[("email", &known.email), ("password", PASSWORD), ("next", next)]);
        assert_eq!((answer.status, answer.header("location")), (303, Some(leads)), "{next:?}");
    }
    let mut known = known;
    let signed_in = known.get("/login?next=%2F%2Fevil.example");
    assert_eq!(signed_in.header("location"), Some("/transcripts"));
}

#[test]
fn what_belongs_to_another_account_is_not_found() {
    let service = service();
    let mut owner = Visitor::signed_up(service);
    let secret = owner.key("mine");
    let account = api(service, &secret);
    let upload = account.upload("a.wav", silence(1.0));
    let id = account.create(&json!({"upload_id": upload}));
    let key = keys_of(&owner.get("/keys"))[0].clone();
    account.finished(&id);
    let mut other = Visitor::signed_up(service);
    for path in PAGES.into_iter().filter(|path| path.contains("{}")) {
        assert_eq!(other.get(&path.replace("{}", &id)).status, 404, "{path}");
    }
    assert_eq!(other.get(&format!("/data/transcripts/{id}/progress")).status, 404);
    assert_eq!(other.get(&format!("/data/transcripts/{id}/paragraphs")).status, 404);
    assert_eq!(other.post(&format!("/transcripts/{id}/delete"), &[]).status, 404);
    assert_eq!(other.post(&format!("/keys/{key}/revoke"), &[]).status, 404);
    assert_eq!(other.ask(&format!("/data/uploads/{upload}/complete"), &json!({})).status, 404);
    assert_eq!(other.ask("/data/transcripts", &json!({"upload_id": upload})).status, 404);
    let question = json!({"transcript_id": id, "prompt": "What?"});
    assert_eq!(other.ask("/data/speech-understanding", &question).status, 404);
    assert!(!other.get("/transcripts").text().contains(&id));
    assert_eq!(owner.get(&format!("/transcripts/{id}/audio")).status, 200);
    account.get("/v2/models").ok();
}

#[test]
fn the_progress_of_the_rows_of_a_list_comes_at_once() {
    let service = service();
    let mut owner = Visitor::signed_up(service);
    let account = api(service, &owner.key("mine"));
    let create = |name: &str| account.create(&json!({"upload_id": account.upload(name, silence(1.0))}));
    let (first, second) = (create("a.wav"), create("b.wav"));
    for id in [&first, &second] {
        account.finished(id);
    }
    let mut other = Visitor::signed_up(service);
    let path = format!("/data/transcripts/progress?ids={first},tr_none,{second},,%00");
    let rows = owner.get(&path).json();
    let shown: Vec<_> =
        rows.as_array().unwrap().iter().map(|row| (&row["id"], &row["status_name"], &row["length"])).collect();
    let is = |id: &str| (json!(id), json!("Completed"), json!("0:01"));
    let (first, second) = (is(&first), is(&second));
    assert_eq!(shown, [&first, &second].map(|(id, status, length)| (id, status, length)));
    assert_eq!(other.get(&path).json(), json!([]), "another account's are not found");
    assert_eq!(owner.get("/data/transcripts/progress").json(), json!([]));
    assert_eq!(Visitor::new(service).get(&path).status, 401);
}

#[test]
fn text_of_users_is_never_markup() {
    let service = Setup::local().with("role", "api").start();
    let mut visitor = Visitor::signed_up(&service);
    let attack = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}.mp3";
    visitor.get("/keys");
    let page = visitor.post("/keys", &[("name", attack)]);
    let bad = |page: &Answer| page.text().contains("<script>alert") || page.text().contains("<img src=x");
    assert!(page.text().contains("&#60;script&#62;alert(1)") && !bad(&page), "{}", page.text());
    assert!(!bad(&visitor.get("/keys")));
    let key = visitor.key("k");
    let account = api(&service, &key);
    let id = account.create(&json!({"upload_id": account.upload(attack, silence(1.0))}));
    let titled = account.create(&json!({"upload_id": account.upload("a.wav", silence(1.0)), "title": attack}));
    for path in ["/transcripts".into(), format!("/transcripts/{id}"), format!("/transcripts/{titled}"), "/usage".into()]
    {
        let page = visitor.get(&path);
        assert!(page.status == 200 && !bad(&page), "{path}");
    }
    let encoded = "%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    for path in
        ["/transcripts?q=", "/transcripts?status=", "/transcripts?language=", "/transcripts?after=", "/nothing/"]
    {
        assert!(!bad(&visitor.get(&format!("{path}{encoded}"))), "{path}");
    }
    let mut stranger = Visitor::new(&service);
    assert!(!bad(&stranger.get(&format!("/login?next={encoded}"))));
    assert!(!bad(&stranger.sign_in("\"><script>alert(1)</script>@x", "a")));
    // A script that came in anyway would not run.
    for path in ["/login", "/nothing", "/assets/none", "/billing/checkout"] {
        let answer = stranger.get(path);
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.contains("script-src 'self'; style-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("base-uri 'none'"), "{policy}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
    }
}

#[test]
fn a_very_long_text_is_refused() {
    let mut visitor = Visitor::signed_up(service());
    let long = "a".repeat(10 << 20);
    assert_eq!(visitor.post("/keys", &[("name", &long)]).status, 413);
    assert_eq!(visitor.ask("/data/transcripts", &json!({"audio_url": "http://a.example/", "title": long})).status, 413);
    let long = "a".repeat(501);
    visitor
        .ask("/data/transcripts", &json!({"audio_url": "http://a.example/", "title": long}))
        .error(422, "validation_error");
    assert_eq!(visitor.get(&format!("/transcripts?q={}", "a".repeat(20_000))).status, 200);
    assert!(visitor.post("/keys", &[("name", &"a".repeat(101))]).text().contains("100 characters"));
}

#[test]
fn names_and_addresses_have_no_hidden_characters() {
    let mut visitor = Visitor::signed_up(service());
    for hidden in ['\u{202e}', '\u{2068}', '\u{61c}', '\u{200b}', '\u{200d}', '\u{ad}', '\u{1b}'] {
        let page = visitor.post("/keys", &[("name", &format!("pay{hidden}roll"))]);
        assert!(page.text().contains("readers do not see"), "{hidden:?}");
        assert!(keys_of(&visitor.get("/keys")).is_empty(), "{hidden:?}");
        let page = visitor.post("/team/invitations", &[("email", &format!("ad{hidden}a@example.org"))]);
        assert!(page.text().contains("not an email address"), "{hidden:?}");
        let mut stranger = Visitor::new(service());
        stranger.get("/signup");
        let email = format!("{hidden}{}", stranger.email);
        let page = stranger.post("/signup", &[("email", &email), ("password", PASSWORD)]);
        assert!(page.status == 422 && page.text().contains("not an email address"), "{hidden:?}");
    }
}

#[test]
fn a_key_of_the_page_works_until_it_is_revoked_there() {
    let mut visitor = Visitor::signed_up(service());
    let secret = visitor.key("Production");
    let page = visitor.get("/keys");
    assert!(!page.text().contains(&secret), "a secret is shown once");
    assert!(page.text().contains("Production") && page.text().contains("Never"), "{}", page.text());
    let account = api(service(), &secret);
    account.get("/v2/models").ok();
    auricle_tests::eventually("the use is shown", || visitor.get("/keys").text().contains("data-ago").then_some(()));
    let key = keys_of(&page)[0].clone();
    assert_eq!(visitor.post(&format!("/keys/{key}/revoke"), &[]).status, 303);
    account.get("/v2/models").error(401, "unauthorized");
    assert_eq!(visitor.post(&format!("/keys/{key}/revoke"), &[]).status, 404);
    // The key of the sign-in is not listed and cannot be revoked alone.
    assert!(keys_of(&visitor.get("/keys")).is_empty());
    assert!(!service().keys("list", ["--account", &visitor.email]).stdout.contains("dashboard"));
}

/// Creates transcripts and reads the list page by page.
fn list_is_searched_and_paged(service: &Service) {
    let mut visitor = Visitor::signed_up(service);
    assert!(visitor.get("/transcripts").text().contains("Nothing transcribed yet"));
    let account = api(service, &visitor.key("k"));
    let upload = account.upload("a.wav", silence(1.0));
    let mut ids: Vec<String> = (0..105)
        .map(|at| {
            let language = if at % 2 == 0 { json!("en") } else { json!(null) };
            account.create(
                &json!({"upload_id": upload, "title": format!("Talk {at:03} 100% ÄÖ"), "language_code": language}),
            )
        })
        .collect();
    ids.reverse();
    let ids_of = |page: &Answer| -> Vec<String> {
        let rows = page.text().split("class=\"title\"><a href=\"/transcripts/").skip(1);
        rows.map(|row| row.split('"').next().unwrap().to_owned()).collect()
    };
    let (mut path, mut seen, mut pages) = ("/transcripts".to_owned(), Vec::new(), 0);
    loop {
        let page = visitor.get(&path);
        seen.extend(ids_of(&page));
        pages += 1;
        let next = page
            .text()
            .split("rel=\"next\" href=\"")
            .nth(1)
            .map(|rest| rest.split('"').next().unwrap().replace("&#38;", "&"));
        match next {
            Some(next) => path = next,
            None => break,
        }
    }
    assert_eq!((seen, pages), (ids.clone(), 3));
    eventually("the index", || {
        let all = ["100", "099", "050", "007", "002", "001", "000"];
        let found = |at: &&str| !ids_of(&visitor.get(&format!("/transcripts?q=talk%20{at}"))).is_empty();
        all.iter().all(found).then_some(())
    });
    for (query, count) in [
        ("?q=talk%20007", 1),
        ("?q=100%25%20%C3%A4%C3%B6", 50),
        ("?q=100_", 50),
        ("?q=0%25a", 0),
        ("?q=%22talk%22%20(*", 50),
        ("?q=%22%20*", 0),
        ("?status=queued", 50),
        ("?status=completed", 0),
        ("?status=nonsense", 50),
        ("?language=en&q=talk%20001", 0),
        ("?language=en&q=talk%20002", 1),
        ("?language=xx", 0),
        ("?after=nonsense", 50),
    ] {
        assert_eq!(ids_of(&visitor.get(&format!("/transcripts{query}"))).len(), count, "{query}");
    }
    let page = visitor.get("/transcripts");
    assert_eq!(page.text().matches("<option value=\"en\"").count(), 1, "the languages that there are");
    assert_eq!(visitor.post(&format!("/transcripts/{}/delete", ids[0]), &[]).status, 303);
    assert_eq!(ids_of(&visitor.get("/transcripts"))[0], ids[1]);
    let page = visitor.get(&format!("/transcripts/{}", ids[1]));
    assert!(page.text().contains("data-progress"), "{}", page.text());
    assert_eq!(visitor.get("/usage").status, 200);
    assert_eq!(visitor.get("/billing").status, 200);
}

#[test]
fn the_list_is_searched_and_paged() {
    list_is_searched_and_paged(&idle().start());
}

#[test]
fn the_list_is_searched_and_paged_on_postgres() {
    let Some(server) = postgres() else { return };
    list_is_searched_and_paged(&idle().with("database_url", server.database()).start());
}

#[test]
fn the_recording_is_sent_in_parts_and_never_as_a_page() {
    let mut visitor = Visitor::signed_up(service());
    let account = api(service(), &visitor.key("k"));
    let bytes = wav(16_000, 16, &vec![0; 64_000]);
    let id = account.create(&json!({"upload_id": account.upload("a.wav", bytes.clone())}));
    let path = format!("/transcripts/{id}/audio");
    let whole = visitor.get(&path);
    assert_eq!((whole.status, whole.header("content-type"), &whole.body[..]), (200, Some("audio/wav"), &bytes[..]));
    let request = visitor.request(Method::GET, &path).header("range", "bytes=100-199");
    let part = Answer::of(request);
    assert_eq!((part.status, &part.body[..]), (206, &bytes[100..200]));
    assert_eq!(part.header("content-range"), Some(format!("bytes 100-199/{}", bytes.len()).as_str()));
    let behind = visitor.request(Method::GET, &path).header("range", format!("bytes={}-", bytes.len()));
    assert_eq!(Answer::of(behind).status, 416);
    // A file that claims to be a page.
    let signed = account.sign("page.mp3", "text/html");
    assert_eq!(signed.put("<script>alert(1)</script>").status, 200);
    account.complete(signed.id()).ok();
    let id = account.create(&json!({"upload_id": signed.id()}));
    let page = visitor.get(&format!("/transcripts/{id}/audio"));
    assert_eq!(page.header("content-type"), Some("audio/mpeg"));
    assert!(page.header("content-security-policy").unwrap().contains("sandbox"));
}

#[test]
fn results_are_downloaded_and_usage_is_shown() {
    let service = Setup::local().starter().start();
    let mut visitor = Visitor::signed_up(&service);
    let account = api(&service, &visitor.key("k"));
    let recording = std::fs::read(auricle_tests::speech()).unwrap();
    let id = account.create(&json!({"upload_id": account.upload("My \"talk\".flac", recording)}));
    let done = account.finished(&id);
    let text = done["text"].as_str().unwrap();
    let page = visitor.get(&format!("/transcripts/{id}"));
    assert!(page.text().contains("data-reader"), "{}", page.text());
    for (format, kind, holds) in [
        ("txt", "text/plain", text),
        ("srt", "application/x-subrip", " --> "),
        ("vtt", "text/vtt", "WEBVTT"),
        ("json", "application/json", "\"words\":"),
    ] {
        let file = visitor.get(&format!("/transcripts/{id}/download/{format}"));
        assert_eq!(file.status, 200, "{format}");
        assert!(file.header("content-type").unwrap().starts_with(kind) && file.text().contains(holds), "{format}");
        let name = file.header("content-disposition").unwrap();
        assert!(name.contains(&format!("filename=\"My _talk_.{format}\"")), "{name}");
    }
    assert_eq!(visitor.get(&format!("/transcripts/{id}/download/exe")).status, 404);
    let answer = visitor.ask("/data/speech-understanding", &json!({"transcript_id": id, "prompt": "What was said?"}));
    assert_eq!(answer.ok()["transcript_id"], id.as_str());
    let usage = visitor.get("/usage");
    assert!(usage.text().contains("<rect class=\"bar") && usage.text().contains(&id), "{}", usage.text());
    let csv = visitor.get("/usage.csv");
    let lines: Vec<&str> = csv.text().lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].ends_with(&id) && lines[1].contains(",svc-best,audio_hour,"), "{lines:?}");
    assert!(visitor.get("/billing").text().contains("$10.00"));
    let checkout = visitor.ask("/data/billing/checkout", &json!({})).ok()["url"].as_str().unwrap().to_owned();
    assert_eq!(Answer::of(http().post(&checkout)).status, 200);
    assert!(visitor.get("/billing").text().contains("Usage beyond the free credit is billed."));
    visitor.ask("/data/billing/checkout", &json!({})).error(409, "already_api_subscribed");
}

#[test]
fn a_sign_up_takes_no_account_over_and_can_be_switched_off() {
    let account = service().account();
    let mut visitor = Visitor::new(service());
    visitor.get("/signup");
    let taken = visitor.post("/signup", &[("email", &account.email), ("password", PASSWORD)]);
    assert_eq!(taken.status, 422);
    assert_eq!(visitor.sign_in(&account.email, PASSWORD).status, 422);
    visitor.get("/signup");
    for (email, password) in [("nobody", PASSWORD), ("new@example.org", "short"), ("new@example.org", "aaaaaaaaaaaa")] {
        assert_eq!(visitor.post("/signup", &[("email", email), ("password", password)]).status, 422, "{email}");
    }
    let closed = Setup::new().with("sign_up", false).start();
    let mut visitor = Visitor::new(&closed);
    assert_eq!(visitor.get("/signup").status, 404);
    let login = visitor.get("/login");
    assert!(!login.text().contains("/signup"));
    assert_eq!(visitor.post("/signup", &[("email", "a@b"), ("password", PASSWORD)]).status, 404);
}

#[test]
fn a_live_session_of_the_page_ends_with_the_sign_in() {
    let service = Setup::local().starter().start();
    let mut visitor = Visitor::signed_up(&service);
    let minted = visitor.ask("/data/realtime/token", &json!({"model": "svc-realtime"})).ok();
    let token = auricle_tests::Token::of(&minted);
    let mut live = token.open();
    live.ready();
    visitor.get("/keys");
    visitor.post("/logout", &[]);
    let rest = live.rest();
    let end = format!("{rest:?}");
    assert!(end.contains("4401"), "{end}");
}

#[test]
fn style_and_script_are_kept_for_good() {
    let page = Visitor::new(service()).get("/login");
    let assets: Vec<&str> =
        page.text().split("\"/assets/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(assets.len(), 3, "{assets:?}");
    for asset in assets {
        let url = format!("{}/assets/{asset}", service().dashboard());
        let plain = Answer::of(http().get(&url));
        assert_eq!((plain.status, plain.header("content-encoding")), (200, None), "{asset}");
        assert!(plain.header("cache-control").unwrap().contains("immutable"));
        let packed = Answer::of(http().get(&url).header("accept-encoding", "br, gzip"));
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{asset}");
        assert!(packed.body.len() < plain.body.len() || plain.body.len() < 300, "{asset}");
        assert_eq!(Answer::of(http().get(url.replace('-', "-0"))).status, 404);
    }
    assert_eq!(page.header("cache-control"), Some("no-store"));
}
