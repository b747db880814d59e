//! The operator's page: who sees it, what it says, and pulls that it starts.

use auricle_tests::hub::{Hub, HubFaults};
use auricle_tests::{Account, Clock, PASSWORD, Service, Setup, Visitor, eventually, fixtures, silence};
use serde_json::{Value, json};

use crate::postgres;

const OPERATOR: &str = "ops@example.org";

/// The last pull of each process, as the page's script gets them.
fn pulls(operator: &mut Visitor) -> Value {
    serde_json::from_slice(&operator.get("/data/operator/pull").body).unwrap()
}

fn operated() -> Setup {
    Setup::local().with("operators", format!("[\"{OPERATOR}\"]"))
}

/// The operator, whose account the administrator has made.
fn operator(service: &Service) -> Visitor {
    service.key(OPERATOR);
    let link = service.password_link(OPERATOR);
    let mut visitor = Visitor::new(service);
    visitor.get(&link);
    assert_eq!(visitor.post(&link, &[("password", PASSWORD)]).status, 303);
    visitor.get("/keys");
    visitor
}

#[test]
fn the_page_exists_for_operators_alone() {
    let invited = "invited@example.org";
    let service = Setup::local().with("operators", format!("[\"{OPERATOR}\", \"{invited}\"]")).start();
    let mut operator = operator(&service);
    let page = operator.get("/operator");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("href=\"/operator\" aria-current=\"page\""), "{}", page.text());

    let mut stranger = Visitor::new(&service);
    let mut other = Visitor::signed_up(&service);
    // The owner of a team has the link that sets a member's password, so a member's address proves nothing.
    let link = other.invite(invited);
    let mut member = Visitor::new(&service);
    member.get(&link);
    assert_eq!(member.post(&link, &[("password", PASSWORD)]).status, 303);
    for visitor in [&mut stranger, &mut other, &mut member] {
        let (unknown, hidden) = (visitor.get("/operators"), visitor.get("/operator"));
        assert_eq!((hidden.status, hidden.text()), (404, unknown.text()));
        let start = [("model", "svc-fast")];
        assert_eq!(visitor.post("/operator", &start).status, 404);
        assert_eq!(visitor.get("/data/operator/pull").status, 404);
        assert!(!visitor.get("/keys").text().contains("/operator"));
    }
    // The token of the form is needed as everywhere.
    assert_eq!(operator.post_with("x", "/operator", &[("model", "svc-fast")]).status, 403);
}

#[test]
fn nobody_signs_up_with_an_operators_address() {
    let service = operated().start();
    let mut thief = Visitor::new(&service);
    thief.get("/signup");
    let answer = thief.post("/signup", &[("email", " OPS@example.org"), ("password", PASSWORD)]);
    assert!(answer.status == 422 && answer.text().contains("ask your administrator"), "{}", answer.text());
    assert_eq!(thief.get("/operator").status, 404);
    assert_eq!(thief.sign_in(OPERATOR, PASSWORD).status, 422);
    assert_eq!(operator(&service).get("/operator").status, 200);
}

#[test]
fn the_page_tells_what_waits_and_runs() {
    let service = operated().with("role", "api").start();
    let mut operator = operator(&service);
    let account = service.account();
    for _ in 0..3 {
        account.create(&json!({ "upload_id": account.upload("a.wav", silence(1.0)) }));
    }
    let page = operator.get("/operator").text().to_owned();
    for part in ["3 <span class=\"muted small\">waiting", "its role is api", "svc-realtime-pro", "Starter", "/metrics"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    let service = operated().start();
    let mut session = service.account().mint(&json!({})).open();
    session.ready();
    let page = self::operator(&service).get("/operator").text().to_owned();
    for part in
        ["1 <span class=\"muted small\">connected", "1 <code>svc-realtime", "of weights are loaded", "<dd>cpu</dd>"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    drop(session);
    assert!(page.contains("This one") && page.contains("Running") && page.contains(" · all · "), "{page}");
}

#[test]
fn a_pull_tells_its_progress_resumes_and_serves() {
    let hub = Hub::serve("somebody/something", &fixtures().join("whisper/multi"));
    let service = operated().environment([("HF_ENDPOINT", hub.url())]).start();
    let mut operator = operator(&service);
    let progress = |operator: &mut Visitor| -> Value { pulls(operator)[0].clone() };
    let ended = |operator: &mut Visitor| {
        eventually("the end of the pull", || {
            let state = progress(operator);
            (state["is_running"] == false).then_some(state)
        })
    };
    assert_eq!(progress(&mut operator), Value::Null);
    assert!(operator.get("/operator").text().contains("somebody/something"));

    // The hub is not asked for a model that the catalog lacks.
    for model in ["", "openai/whisper-tiny", "voice", "../x"] {
        assert_eq!(operator.post("/operator", &[("model", model)]).status, 404, "{model}");
    }
    let refused = operator.post("/operator", &[("model", "svc-fast"), ("size", "huge")]);
    assert!(refused.status == 422 && refused.text().contains("comes in one size"), "{}", refused.text());

    // The other files are 30 % of the bytes. A connection that hangs: the progress is that of the bytes, and there is one pull at a time.
    let cuts = |after: usize| std::collections::HashMap::from([("model.safetensors".to_owned(), after)]);
    hub.behave(HubFaults { cuts: cuts(500_000), slow: true, times: Some(1), ..HubFaults::default() });
    let start = [("model", "svc-fast"), ("size", "")];
    assert_eq!(operator.post("/operator", &start).header("location"), Some("/operator#pull"));
    let state = eventually("some bytes", || {
        let state = progress(&mut operator);
        state["percent"].as_u64().is_some_and(|percent| percent > 45).then_some(state)
    });
    assert!(state["is_running"] == true && state["percent"].as_u64().unwrap() < 100, "{state}");
    let again = operator.post("/operator", &start);
    assert!(again.status == 422 && again.text().contains("is being pulled already"), "{}", again.text());
    let page = operator.get("/operator").text().to_owned();
    assert!(page.contains("data-pull") && page.contains("<button disabled"), "{page}");

    // A restart in the middle: the next pull goes on from there.
    service.kill();
    service.start();
    hub.behave(HubFaults::default());
    assert_eq!(operator.post("/operator", &start).status, 303);
    let state = ended(&mut operator);
    assert!(state["has_failed"] == false && state["text"].as_str().unwrap().contains("now runs on it"), "{state}");
    assert!(hub.asked("model.safetensors")[0].from > 0, "{:?}", hub.asked("model.safetensors"));
    let page = operator.get("/operator").text().to_owned();
    assert!(page.contains("Published") && !page.contains("data-pull"), "{page}");

    // A failure is shown in the hub's words.
    hub.behave(HubFaults { status: Some(404), ..HubFaults::default() });
    assert_eq!(operator.post("/operator", &[("model", "chat")]).status, 303);
    let state = ended(&mut operator);
    assert!(state["has_failed"] == true && state["text"].as_str().unwrap().contains("has no"), "{state}");
}

#[test]
fn operators_see_that_a_stand_in_wrote_a_text_and_pull_a_better_model() {
    let hub = Hub::serve("somebody/something", &fixtures().join("whisper/multi"));
    let service = operated().environment([("HF_ENDPOINT", hub.url())]).start();
    let mut operator = operator(&service);
    let account = Account { api: service.api(), key: service.key(OPERATOR), email: OPERATOR.into() };
    let notice = "<code>svc-best</code> runs on a small starter";
    assert!(!operator.get("/transcripts").text().contains(notice), "nothing is written yet");
    let done = account.transcribe("a.wav", silence(1.0));
    let pages = ["/transcripts".to_owned(), format!("/transcripts/{}", done["id"].as_str().unwrap())];
    for path in &pages {
        let page = operator.get(path).text().to_owned();
        for part in
            [notice, "somebody/something", "name=\"model\" value=\"svc-best\"", "name=\"size\" value=\"\"", ">Pull<"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
    // It is for operators alone; the model stands in everybody's list.
    let mut other = Visitor::signed_up(&service);
    let theirs = Account { api: service.api(), key: other.key("k"), email: other.email.clone() };
    theirs.transcribe("b.wav", silence(1.0));
    let page = other.get("/transcripts").text().to_owned();
    assert!(page.contains("<code>svc-best</code>") && !page.contains(notice), "{page}");

    assert_eq!(
        operator.post("/operator", &[("model", "svc-best"), ("size", "")]).header("location"),
        Some("/operator#pull")
    );
    let state = eventually("the end of the pull", || {
        let state = pulls(&mut operator)[0].clone();
        (state["is_running"] == false).then_some(state)
    });
    assert!(state["text"].as_str().unwrap().contains("now runs on it"), "{state}");
    for path in &pages {
        assert!(!operator.get(path).text().contains("small starter"), "{path}");
    }
}

#[test]
fn the_page_lists_the_processes_of_a_shared_database() {
    let Some(postgres) = postgres() else { return };
    let setup = operated().with("database_url", postgres.database());
    let first = setup.clone().start();
    let mut operator = operator(&first);
    let nodes = |operator: &mut Visitor| operator.get("/operator").text().matches(">Running<").count();
    let api = setup.with("role", "api").start();
    eventually("two processes", || (nodes(&mut operator) == 2).then_some(()));
    let page = operator.get("/operator").text().to_owned();
    assert!(page.contains(" · all · ") && page.contains(" · api · "), "{page}");
    assert_eq!(page.matches(">This one<").count(), 1);
    api.terminate();
    api.wait();
    eventually("one process", || (nodes(&mut operator) == 1).then_some(()));
}

/// Behind a load balancer each request may come to another process.
#[test]
fn every_process_tells_the_progress_of_a_pull_and_that_one_is_silent() {
    let (Some(postgres), Some(clock)) = (postgres(), Clock::new()) else { return };
    let hub = Hub::serve("somebody/something", &fixtures().join("whisper/multi"));
    let cuts = std::collections::HashMap::from([("model.safetensors".to_owned(), 500_000)]);
    hub.behave(HubFaults { cuts, slow: true, times: Some(1), ..HubFaults::default() });
    let setup = operated().with("database_url", postgres.database());
    let puller = setup.clone().environment([("HF_ENDPOINT", hub.url())]).start();
    let other = setup.with("role", "api").environment(clock.environment()).start();
    let mut operator = operator(&puller);
    // The same browser, which the load balancer has sent to the other process.
    let mut there = Visitor::new(&other);
    there.sign_in(OPERATOR, PASSWORD);
    eventually("two processes", || {
        let page = there.get("/operator").text().to_owned();
        (page.matches(">Running<").count() == 2).then_some(())
    });
    assert_eq!(pulls(&mut there), json!([]));
    assert_eq!(operator.post("/operator", &[("model", "svc-fast"), ("size", "")]).status, 303);
    let state = eventually("the progress of the other process", || {
        let state = pulls(&mut there)[0].clone();
        state["percent"].as_u64().is_some_and(|percent| percent > 45).then_some(state)
    });
    assert!(state["is_running"] == true && state["host"].as_str().unwrap().contains(" · 127.0.0.1:"), "{state}");
    let page = there.get("/operator").text().to_owned();
    assert!(page.contains("data-pull=\"node_") && page.contains("somebody/something"), "{page}");

    // The process dies, and has not reported for a minute.
    puller.kill();
    assert_eq!(pulls(&mut there)[0]["is_running"], true, "nobody knows yet");
    clock.set("+60s");
    eventually("a silent process", || {
        let page = there.get("/operator").text().to_owned();
        let is_silent = page.contains(">Silent since <time") && page.matches(">Running<").count() == 1;
        (is_silent && page.contains("Its process does not answer")).then_some(())
    });
    let state = pulls(&mut there)[0].clone();
    assert!(state["is_running"] == false && state["has_failed"] == true, "{state}");
    // It is back, as another process, and pulls to the end.
    clock.set("+0");
    puller.start();
    hub.behave(HubFaults::default());
    assert_eq!(operator.post("/operator", &[("model", "svc-fast"), ("size", "")]).status, 303);
    eventually("the end of the other process", || {
        let pulls_there = pulls(&mut there);
        let texts = pulls_there.as_array().unwrap().iter().map(|pull| pull["text"].as_str().unwrap().to_owned());
        texts.into_iter().any(|text| text.contains("now runs on it")).then_some(())
    });
}

#[test]
fn a_process_that_was_killed_is_forgotten_by_the_next_on_its_data() {
    let service = operated().start();
    let mut operator = operator(&service);
    eventually("a process", || operator.get("/operator").text().contains(">This one<").then_some(()));
    service.kill();
    service.start();
    eventually("one process", || {
        let page = operator.get("/operator").text().to_owned();
        (page.contains(">This one<") && page.matches(" · all · ").count() == 1).then_some(())
    });
}
