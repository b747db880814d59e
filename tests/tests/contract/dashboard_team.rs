//! The team over HTTP: five seats, invitations, roles, the end of a membership, and what an attacker tries.

use std::sync::OnceLock;

use auricle_tests::{Account, Answer, PASSWORD, Service, Setup, Visitor, eventually, http, silence};
use reqwest::Method;
use serde_json::json;

use crate::postgres;

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| Setup::local().with("role", "api").start())
}

fn api(service: &Service, key: &str) -> Account {
    Account { api: service.api(), key: key.to_owned(), email: String::new() }
}

/// The ids in the addresses of forms that begin and end so.
fn ids(page: &Answer, before: &str, after: &str) -> Vec<String> {
    let before = format!("action=\"{before}");
    let parts = page.text().split(&before).skip(1);
    let ids = parts.filter_map(|part| part.split_once('"').unwrap().0.strip_suffix(after));
    ids.map(str::to_owned).collect()
}

fn invitations(page: &Answer) -> Vec<String> {
    ids(page, "/team/invitations/", "/withdraw")
}

/// The people that the reader may remove.
fn removable(page: &Answer) -> Vec<String> {
    ids(page, "/team/", "/remove")
}

/// A member works in the account, and is out on the next request once removed.
fn a_member_comes_and_goes(setup: Setup) {
    let service = setup.start();
    let mut owner = Visitor::signed_up(&service);
    let owners_key = owner.key("of the owner");
    let mut member = Visitor::new(&service);
    let email = member.email.clone();
    let link = owner.invite(&email);
    let page = member.get(&link);
    assert!(page.status == 200 && page.text().contains(&owner.email) && page.text().contains(&email));
    assert_eq!(member.post(&link, &[("password", "short")]).status, 422);
    assert_eq!(member.post(&link, &[("password", PASSWORD)]).header("location"), Some("/transcripts"));
    assert_eq!(Visitor::new(&service).get(&link).status, 404, "a link works once");
    assert!(invitations(&owner.get("/team")).is_empty());

    // Both see one account.
    let secret = member.key("of the member");
    let account = api(&service, &secret);
    let id = account.create(&json!({"upload_id": account.upload("a.wav", silence(1.0))}));
    assert_eq!(owner.get(&format!("/transcripts/{id}")).status, 200);
    assert_eq!(api(&service, &owners_key).get(&format!("/v2/transcripts/{id}")).status, 200);
    let keys = owner.get("/keys");
    assert!(keys.text().contains("of the member") && keys.text().contains(&email), "{}", keys.text());

    // Billing and the team are the owner's.
    let page = member.get("/billing");
    assert!(page.status == 403 && page.text().contains(&owner.email), "{}", page.text());
    assert!(!member.get("/usage").text().contains("href=\"/billing\""));
    member.ask("/data/billing/checkout", &json!({})).error(403, "owner_only");
    account.post_empty("/v2/billing/checkout").error(403, "owner_only");
    api(&service, &owners_key).post_empty("/v2/billing/checkout").ok();
    assert_eq!(member.post("/team/invitations", &[("email", "more@example.org")]).status, 403);
    let waiting = owner.invite("waiting@example.org");
    let open = invitations(&owner.get("/team"));
    assert_eq!(open.len(), 1);
    assert_eq!(member.post(&format!("/team/invitations/{}/withdraw", open[0]), &[]).status, 403);
    let team = member.get("/team");
    assert!(invitations(&team).is_empty() && !team.text().contains("waiting@example.org"));
    assert_eq!(removable(&team).len(), 1, "a member may leave and remove nobody");
    // Keys of others are not a member's.
    let key = service.keys("list", ["--account", &owner.email]).stdout;
    let key =
        key.lines().find(|line| line.contains("of the owner")).unwrap().split_whitespace().next().unwrap().to_owned();
    assert!(!member.get("/keys").text().contains(&format!("/keys/{key}/revoke")));
    assert_eq!(member.post(&format!("/keys/{key}/revoke"), &[]).status, 404);
    assert_eq!(api(&service, &owners_key).get("/v2/models").status, 200);

    // The end: page, script, key, link, password.
    let reset = service.password_link(&email);
    let mut elsewhere = Visitor::new(&service);
    assert_eq!(elsewhere.sign_in(&email, PASSWORD).status, 303);
    let person = removable(&owner.get("/team"))[0].clone();
    assert_eq!(owner.post(&format!("/team/{person}/remove"), &[]).header("location"), Some("/team"));
    account.get("/v2/models").error(401, "unauthorized");
    assert_eq!(member.get("/transcripts").status, 303);
    member.ask("/data/transcripts", &json!({})).error(401, "unauthorized");
    assert_eq!(elsewhere.get("/keys").status, 303);
    assert_eq!(elsewhere.sign_in(&email, PASSWORD).status, 422);
    assert_eq!(elsewhere.get(&reset).status, 404);
    assert_eq!(owner.post(&format!("/team/{person}/remove"), &[]).status, 404);
    assert_eq!(owner.get(&format!("/transcripts/{id}")).status, 200, "what the member made stays");
    assert_eq!(api(&service, &owners_key).get("/v2/models").status, 200);

    // The address is free again, and the invitation that waited still works after a restart.
    let mut again = Visitor::new(&service);
    again.get("/signup");
    assert_eq!(again.post("/signup", &[("email", &email), ("password", PASSWORD)]).status, 303);
    assert_eq!(again.get(&format!("/transcripts/{id}")).status, 404);
    service.kill();
    service.start();
    let mut late = Visitor::new(&service);
    assert_eq!(late.get(&waiting).status, 200);
    assert_eq!(late.post(&waiting, &[("password", PASSWORD)]).status, 303);
    // A member may leave.
    let own = removable(&late.get("/team"))[0].clone();
    assert_eq!(late.post(&format!("/team/{own}/remove"), &[]).header("location"), Some("/login"));
    assert_eq!(late.get("/team").status, 303);
}

#[test]
fn a_member_comes_and_goes_on_sqlite() {
    a_member_comes_and_goes(Setup::local().with("role", "api"));
}

#[test]
fn a_member_comes_and_goes_on_postgres() {
    let Some(server) = postgres() else { return };
    a_member_comes_and_goes(Setup::local().with("role", "api").with("database_url", server.database()));
}

/// Invitations reserve no seat: of six that are accepted at the same time four find one.
fn five_seats(setup: Setup) {
    let service = setup.start();
    let mut owner = Visitor::signed_up(&service);
    let links: Vec<String> = (0..6).map(|at| owner.invite(&format!("seat{at}@example.org"))).collect();
    let accept = |link: &str| {
        let mut member = Visitor::new(&service);
        member.get(link);
        member.post(link, &[("password", PASSWORD)])
    };
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let accepts: Vec<_> = links.iter().map(|link| scope.spawn(|| accept(link))).collect();
        accepts.into_iter().map(|accept| accept.join().unwrap()).collect()
    });
    let full: Vec<usize> = (0..6).filter(|at| answers[*at].status == 422).collect();
    assert_eq!(answers.iter().filter(|answer| answer.status == 303).count(), 4);
    assert!(full.len() == 2 && answers[full[0]].text().contains("All seats of this team are taken"));
    let page = owner.get("/team");
    assert!(page.text().contains("5 of 5"), "{}", page.text());
    assert_eq!(invitations(&page).len(), 2, "these stay open");
    owner.post(&format!("/team/{}/remove", removable(&page)[0]), &[]);
    assert_eq!(accept(&links[full[0]]).status, 303, "the seat is free again");
    assert_eq!(accept(&links[full[1]]).status, 422);
}

#[test]
fn a_team_has_five_seats() {
    five_seats(Setup::local().with("role", "api"));
}

#[test]
fn a_team_has_five_seats_on_postgres() {
    let Some(server) = postgres() else { return };
    five_seats(Setup::local().with("role", "api").with("database_url", server.database()));
}

#[test]
fn an_address_belongs_to_one_account() {
    let (mut owner, mut other) = (Visitor::signed_up(service()), Visitor::signed_up(service()));
    let refused = |page: Answer, why: &str| {
        assert!(
            page.status == 200 && page.text().contains(why) && !page.text().contains("id=\"link\""),
            "{}",
            page.text()
        );
    };
    owner.get("/team");
    let (own, others) = (owner.email.clone(), other.email.clone());
    refused(owner.post("/team/invitations", &[("email", &own)]), "in the team already");
    refused(owner.post("/team/invitations", &[("email", &others.to_uppercase())]), "an account of its own");
    refused(owner.post("/team/invitations", &[("email", "nobody")]), "not an email address");
    // Two teams invite one address; the first that it accepts is its own.
    let mut member = Visitor::new(service());
    let email = member.email.clone();
    let (first, second) = (owner.invite(&email), other.invite(&email));
    member.get(&first);
    assert_eq!(member.post(&first, &[("password", PASSWORD)]).status, 303);
    let mut again = Visitor::new(service());
    again.get(&second);
    let taken = again.post(&second, &[("password", "another sentence")]);
    assert!(taken.status == 422 && taken.text().contains("an account of its own by now"), "{}", taken.text());
    again.get("/signup");
    assert_eq!(again.post("/signup", &[("email", &email), ("password", PASSWORD)]).status, 422);
    // The command line makes a key and a link of the team's account for a member, and no other account.
    let key = service().key(&email);
    assert_eq!(api(service(), &key).post_empty("/v2/transcripts").status, 415);
    assert!(owner.get("/keys").text().contains("The administrator"));
    let link = service().password_link(&email);
    again.get(&link);
    assert_eq!(again.post(&link, &[("password", "another sentence")]).status, 303);
    assert_eq!(again.get("/billing").status, 403, "a member still");
    assert_eq!(member.get("/team").status, 303, "a new password ends the sign-ins");
}

#[test]
fn an_invitation_ends() {
    let mut owner = Visitor::signed_up(service());
    let withdrawn = owner.invite("withdrawn@example.org");
    let id = invitations(&owner.get("/team"))[0].clone();
    let mut other = Visitor::signed_up(service());
    assert_eq!(other.post(&format!("/team/invitations/{id}/withdraw"), &[]).status, 404);
    assert_eq!(owner.post(&format!("/team/invitations/{id}/withdraw"), &[]).status, 303);
    assert_eq!(Visitor::new(service()).get(&withdrawn).status, 404);
    assert_eq!(owner.post(&format!("/team/invitations/{id}/withdraw"), &[]).status, 404);
    // Another invitation of an address replaces the first.
    let (first, second) = (owner.invite("twice@example.org"), owner.invite("Twice@example.org"));
    let mut invited = Visitor::new(service());
    assert_eq!((invited.get(&first).status, invited.get(&second).status), (404, 200));
    assert_eq!(invitations(&owner.get("/team")).len(), 1);
    for at in 0..19 {
        owner.invite(&format!("many{at}@example.org"));
    }
    let page = owner.post("/team/invitations", &[("email", "more@example.org")]);
    assert!(page.text().contains("20 invitations are open"), "{}", page.text());
}

#[test]
fn an_invitation_ends_after_seven_days() {
    let Some(server) = postgres() else { return };
    let url = server.database();
    let service = Setup::local().with("role", "api").with("database_url", &url).start();
    let mut owner = Visitor::signed_up(&service);
    let link = owner.invite("late@example.org");
    let pass = |ms: i64| server.sql(&url, &format!("UPDATE invitations SET expires_at = expires_at - {ms}"));
    let mut invited = Visitor::new(&service);
    pass(7 * 24 * 3_600_000 - 60_000);
    assert_eq!(invited.get(&link).status, 200);
    pass(60_000);
    assert_eq!(invited.post(&link, &[("password", PASSWORD)]).status, 404);
    assert_eq!(invited.get(&link).status, 404);
    assert!(invitations(&owner.get("/team")).is_empty());
}

#[test]
fn the_team_of_another_account_is_not_found() {
    let mut owner = Visitor::signed_up(service());
    let mut member = owner.member(service());
    owner.invite("open@example.org");
    let page = owner.get("/team");
    let (person, invitation) = (removable(&page)[0].clone(), invitations(&page)[0].clone());
    let mut other = Visitor::signed_up(service());
    let mut foreign = other.member(service());
    for visitor in [&mut other, &mut foreign] {
        let status = visitor.post(&format!("/team/{person}/remove"), &[]).status;
        assert!([403, 404].contains(&status), "{status}");
        let status = visitor.post(&format!("/team/invitations/{invitation}/withdraw"), &[]).status;
        assert!([403, 404].contains(&status), "{status}");
    }
    // The owner stays for every one who asks.
    let own = member.get("/team");
    let owner_id = service().keys("list", ["--account", &owner.email]);
    assert_eq!(owner_id.status, Some(0));
    assert!(own.text().contains(&owner.email));
    for path in ["/team/user_1/remove", "/team/invitations/inv_1/withdraw"] {
        assert_eq!(owner.post(path, &[]).status, 404, "{path}");
    }
    assert_eq!(removable(&owner.get("/team")), [person]);
    assert_eq!(member.get("/transcripts").status, 200);
}

#[test]
fn a_forged_form_changes_nothing_in_a_team() {
    let mut owner = Visitor::signed_up(service());
    owner.member(service());
    let link = owner.invite("open@example.org");
    let page = owner.get("/team");
    let foreign = Visitor::signed_up(service()).token;
    let paths = [
        "/team/invitations".to_owned(),
        format!("/team/{}/remove", removable(&page)[0]),
        format!("/team/invitations/{}/withdraw", invitations(&page)[0]),
    ];
    for path in &paths {
        for token in ["", "x", &foreign] {
            assert_eq!(owner.post_with(token, path, &[("email", "forged@example.org")]).status, 403, "{path} {token}");
        }
        let request = owner.request(Method::POST, path).header("origin", "https://evil.example");
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let body = format!("form_token={}&email=forged%40example.org", owner.token);
        assert_eq!(Answer::of(request.body(body)).status, 403, "{path}");
    }
    let mut invited = Visitor::new(service());
    invited.get(&link);
    for token in ["", &foreign] {
        assert_eq!(invited.post_with(token, &link, &[("password", PASSWORD)]).status, 403);
    }
    let page = owner.get("/team");
    assert_eq!((removable(&page).len(), invitations(&page).len()), (1, 1));
}

#[test]
fn an_invited_address_is_never_markup() {
    let mut owner = Visitor::signed_up(service());
    let bad = |page: &Answer| page.text().contains("<script>") || page.text().contains("<img");
    for email in ["\"><script>alert(1)</script>@example.org", "<img/src=x/onerror=alert(1)>@x.example", "'\"{{7*7}}@x"]
    {
        let link = owner.invite(email);
        let page = owner.get("/team");
        assert!(page.text().contains("@") && !bad(&page), "{}", page.text());
        let mut invited = Visitor::new(service());
        assert!(!bad(&invited.get(&link)));
        assert!(!bad(&invited.post(&link, &[("password", "short")])));
        assert_eq!(invited.post(&link, &[("password", PASSWORD)]).status, 303);
        assert!(!bad(&invited.get("/team")) && !bad(&owner.get("/team")));
        let key = invited.key("k");
        assert!(!bad(&owner.get("/keys")) && !key.is_empty());
    }
    assert!(owner.get("/team").text().contains("{{7*7}}@x"));
    let long = format!("{}@example.org", "a".repeat(300));
    assert!(owner.post("/team/invitations", &[("email", &long)]).text().contains("not an email address"));
}

#[test]
fn links_cannot_be_guessed_at_will() {
    let service = Setup::local().with("role", "api").start();
    let mut owner = Visitor::signed_up(&service);
    let link = owner.invite("invited@example.org");
    let mut invited = Visitor::new(&service);
    // The right link costs nothing.
    (0..60).for_each(|_| assert_eq!(invited.get(&link).status, 200));
    let statuses: Vec<u16> = (0..51)
        .map(|at| {
            let kind = if at % 2 == 0 { "join" } else { "welcome" };
            invited.get(&format!("/{kind}/{at}")).status
        })
        .collect();
    assert_eq!(statuses.iter().filter(|status| **status == 404).count(), 50, "{statuses:?}");
    assert_eq!(statuses[50], 429);
    let refused = invited.get(&link);
    assert!(refused.status == 429 && refused.header("retry-after").is_some(), "then all are refused for a while");
    assert_eq!(owner.get("/team").status, 200);
}

#[test]
fn a_live_session_of_a_member_ends_with_the_membership() {
    let service = Setup::local().starter().start();
    let mut owner = Visitor::signed_up(&service);
    let mut member = owner.member(&service);
    let by_page = member.ask("/data/realtime/token", &json!({"model": "svc-realtime"})).ok();
    let key = api(&service, &member.key("k"));
    let by_key = key.mint(&json!({"model": "svc-realtime"}));
    let mut sessions = [auricle_tests::Token::of(&by_page), by_key].map(|token| token.open());
    sessions.iter_mut().for_each(|live| live.ready());
    let person = removable(&owner.get("/team"))[0].clone();
    owner.post(&format!("/team/{person}/remove"), &[]);
    for live in &mut sessions {
        let end = format!("{:?}", live.rest());
        assert!(end.contains("4401"), "{end}");
    }
    let answer = eventually("the key is refused", || {
        Answer::try_of(http().get(format!("{}/v2/models", service.api())).bearer_auth(&key.key))
    });
    answer.error(401, "unauthorized");
}
