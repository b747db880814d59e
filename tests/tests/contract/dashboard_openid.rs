//! Sign-in by a provider of OpenID Connect, which is a process of another make.

use std::net::TcpListener;

use auricle_tests::{Account, Answer, OpenIdProvider, PASSWORD, Service, Setup, Visitor, eventually, unique};

use crate::postgres;

fn idle() -> Setup {
    Setup::local().with("role", "api")
}

/// An address that nobody has yet.
fn address() -> String {
    format!("{}@example.org", unique("person"))
}

/// The address of the provider to which the dashboard sends a visitor.
fn begun(visitor: &mut Visitor, next: &str) -> String {
    let answer = visitor.get(&format!("/login/openid?next={next}"));
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.header("location").expect("an address").to_owned()
}

/// A sign-in by the provider, as somebody of this name there.
fn sign_in(provider: &OpenIdProvider, service: &Service, visitor: &mut Visitor, name: &str) -> Answer {
    let url = begun(visitor, "%2Fkeys");
    let callback = provider.sign_in(service, &url, name);
    visitor.get(&callback)
}

/// The sign-in page with a problem, and nobody signed in.
fn refused(visitor: &mut Visitor, answer: &Answer, problem: &str) {
    assert!(answer.status == 422 && answer.text().contains(problem), "{}: {}", answer.status, answer.text());
    assert_eq!(visitor.get("/keys").header("location"), Some("/login?next=%2Fkeys"));
}

fn the_provider_makes_an_account_and_signs_in_again(setup: Setup, mut provider: OpenIdProvider) {
    let service = provider.settings(setup).start();
    provider.run(&service);
    let (email, mut visitor) = (address(), Visitor::new(&service));
    for page in ["/login", "/signup"] {
        let page = visitor.get(page).text().to_owned();
        assert!(page.contains("href=\"/login/openid?next=") && page.contains("Example &#38; Co"), "{page}");
    }
    let answer = sign_in(&provider, &service, &mut visitor, &email);
    assert_eq!(answer.header("location"), Some("/keys"), "{}", answer.text());
    assert!(visitor.get("/billing").text().contains("$10.00"));
    assert!(visitor.get("/keys").text().contains(&email));
    let key = visitor.key("made by the page");
    let account = Account { api: service.api(), key, email: email.clone() };
    assert_eq!(account.get("/v2/credits").status, 200);

    // The same person later, in another browser, in another case of the address.
    let mut again = Visitor::new(&service);
    assert_eq!(sign_in(&provider, &service, &mut again, &email).status, 303);
    assert!(again.get("/keys").text().contains("made by the page"));
    // Somebody who has signed in is not sent away.
    assert_eq!(again.get("/login/openid?next=%2Fusage").header("location"), Some("/usage"));
    // There is no password to guess.
    let mut thief = Visitor::new(&service);
    for guess in ["", " ", PASSWORD] {
        assert_eq!(thief.sign_in(&email, guess).status, 422);
    }
    // The administrator's link sets one; the provider goes on to sign the same person in.
    let link = service.password_link(&email);
    let mut with_password = Visitor::new(&service);
    with_password.get(&link);
    assert_eq!(with_password.post(&link, &[("password", PASSWORD)]).status, 303);
    assert_eq!(Visitor::new(&service).sign_in(&email, PASSWORD).status, 303);
    assert_eq!(again.get("/keys").status, 303, "a new password ends the sign-ins");
    assert_eq!(sign_in(&provider, &service, &mut again, &email).status, 303);
    assert!(again.get("/keys").text().contains("made by the page"));
}

#[test]
fn a_provider_signs_people_in() {
    let Some(provider) = OpenIdProvider::stopped() else { return };
    the_provider_makes_an_account_and_signs_in_again(idle(), provider);
}

#[test]
fn a_provider_signs_people_in_on_postgresql() {
    let (Some(provider), Some(database)) = (OpenIdProvider::stopped(), postgres()) else { return };
    the_provider_makes_an_account_and_signs_in_again(idle().with("database_url", database.database()), provider);
}

#[test]
fn a_client_secret_goes_where_the_provider_takes_it() {
    let Some(mut provider) = OpenIdProvider::stopped() else { return };
    provider.take_secret_in_form();
    let service = provider.settings(idle()).start();
    provider.run(&service);
    let mut visitor = Visitor::new(&service);
    assert_eq!(sign_in(&provider, &service, &mut visitor, &address()).status, 303);
    let service = provider.settings(idle()).with("openid_client_secret", "another").start();
    provider.run(&service);
    let mut visitor = Visitor::new(&service);
    let answer = sign_in(&provider, &service, &mut visitor, &address());
    refused(&mut visitor, &answer, "cannot be reached, or its answer is not right");
    assert!(service.log().contains("invalid_client"), "{}", service.log());
}

#[test]
fn an_account_with_a_password_is_connected_by_it() {
    let Some(mut provider) = OpenIdProvider::stopped() else { return };
    let service = provider.settings(idle()).start();
    provider.run(&service);
    let mut owner = Visitor::signed_up(&service);
    let email = owner.email.clone();
    owner.key("of the owner");

    let mut visitor = Visitor::new(&service);
    let page = sign_in(&provider, &service, &mut visitor, &email);
    assert!(page.status == 200 && page.text().contains("has an account with a password"), "{}", page.text());
    let connect = |page: &Answer| {
        let (_, rest) = page.text().split_once("name=\"connect\" value=\"").expect("the identity");
        rest.split('"').next().unwrap().to_owned()
    };
    let identity = connect(&page);
    assert_eq!(visitor.get("/keys").status, 303, "the address alone does not sign in");
    let fields = |password| [("email", email.as_str()), ("password", password), ("connect", identity.as_str())];
    let wrong = visitor.post("/login", &fields("another sentence"));
    assert_eq!((wrong.status, connect(&wrong)), (422, identity.clone()));
    assert_eq!(visitor.post("/login", &fields(PASSWORD)).header("location"), Some("/transcripts"));

    let mut later = Visitor::new(&service);
    assert_eq!(sign_in(&provider, &service, &mut later, &email).header("location"), Some("/keys"));
    assert!(later.get("/keys").text().contains("of the owner"));

    // The identity is for its own address alone: another account is not connected.
    let mut thief = Visitor::signed_up(&service);
    let own = thief.email.clone();
    thief.post("/logout", &[]);
    thief.get("/login");
    let other = provider.sign_in(&service, &begun(&mut thief, "%2F"), &format!("other.{email}"));
    let page = thief.get(&other);
    let stolen = connect(&page);
    let fields = [("email", own.as_str()), ("password", PASSWORD), ("connect", stolen.as_str())];
    assert_eq!(thief.post("/login", &fields).status, 303);
    let mut after = Visitor::new(&service);
    let page = sign_in(&provider, &service, &mut after, &format!("other.{email}"));
    assert!(page.text().contains("has an account with a password"), "{}", page.text());
}

#[test]
fn an_address_that_is_not_verified_opens_nothing() {
    let Some(mut provider) = OpenIdProvider::stopped() else { return };
    let service = provider.settings(idle()).start();
    provider.run(&service);
    let email = Visitor::signed_up(&service).email;
    for name in [format!("unverified.{email}"), format!("silent.{email}"), "nobody".into(), "no address".into()] {
        let mut visitor = Visitor::new(&service);
        let answer = sign_in(&provider, &service, &mut visitor, &name);
        refused(&mut visitor, &answer, "has not verified your email address");
    }
    // A provider that is trusted need not say it, but may deny it.
    let service = provider.settings(idle()).with("openid_trust_addresses", "true").start();
    provider.run(&service);
    let mut visitor = Visitor::new(&service);
    let answer = sign_in(&provider, &service, &mut visitor, &format!("unverified.{}", address()));
    refused(&mut visitor, &answer, "has not verified your email address");
    assert_eq!(sign_in(&provider, &service, &mut visitor, &format!("silent.{}", address())).status, 303);
}

#[test]
fn without_sign_up_only_known_addresses_come_in() {
    let Some(mut provider) = OpenIdProvider::stopped() else { return };
    let (made, operator) = (address(), address());
    let service = provider.settings(idle()).with("sign_up", "false").with("operators", format!("[\"{operator}\"]"));
    let service = service.start();
    provider.run(&service);
    let mut visitor = Visitor::new(&service);
    let answer = sign_in(&provider, &service, &mut visitor, &address());
    refused(&mut visitor, &answer, "Nobody here has your email address");
    // The administrator has made an account, whose owner has never signed in.
    service.key(&made);
    assert_eq!(sign_in(&provider, &service, &mut visitor, &made).status, 303);
    let page = visitor.get("/team").text().to_owned();
    assert!(page.contains("Owner") && page.contains(&made), "{page}");
    // The provider proves the address of an operator.
    service.key(&operator);
    let mut visitor = Visitor::new(&service);
    assert_eq!(sign_in(&provider, &service, &mut visitor, &operator).status, 303);
    assert_eq!(visitor.get("/operator").status, 200);
}

#[test]
fn people_of_the_provider_come_in_where_the_page_takes_no_sign_ups() {
    let Some(mut provider) = OpenIdProvider::stopped() else { return };
    let service = provider.settings(idle()).unset("sign_up").start();
    provider.run(&service);
    for _ in 0..2 {
        let mut visitor = Visitor::new(&service);
        assert_eq!(sign_in(&provider, &service, &mut visitor, &address()).status, 303);
        assert_eq!((visitor.get("/keys").status, visitor.get("/operator").status), (200, 404));
    }
    let mut visitor = Visitor::new(&service);
    assert_eq!(visitor.get("/signup").status, 404, "somebody is there");
    let login = visitor.get("/login").text().to_owned();
    assert!(login.contains("/login/openid") && !login.contains("href=\"/signup\""), "{login}");
}

#[test]
fn an_invitation_is_accepted_by_its_address() {
    let Some(mut provider) = OpenIdProvider::stopped() else { return };
    let service = provider.settings(idle()).with("sign_up", "false");
    let service = service.start();
    provider.run(&service);
    let owner = address();
    service.key(&owner);
    let mut owner_visitor = Visitor::new(&service);
    assert_eq!(sign_in(&provider, &service, &mut owner_visitor, &owner).status, 303);
    let email = address();
    let link = owner_visitor.invite(&email);

    let mut member = Visitor::new(&service);
    let page = member.get(&link).text().to_owned();
    let (_, next) = page.split_once("href=\"/login/openid?next=").expect("the button");
    let next = next.split('"').next().unwrap().to_owned();
    assert!(next.starts_with("%2Fjoin%2F"), "{next}");
    let accept = |visitor: &mut Visitor, name: &str| {
        let callback = provider.sign_in(&service, &begun(visitor, &next), name);
        visitor.get(&callback)
    };
    let answer = accept(&mut member, &address());
    refused(&mut member, &answer, "for another email address");
    assert_eq!(member.get(&link).status, 200, "the invitation is still open");
    assert_eq!(accept(&mut member, &email).header("location"), Some("/transcripts"));
    assert!(owner_visitor.get("/team").text().contains(&email));
    assert_eq!(member.get("/billing").status, 403, "a member does not see billing");
    assert_eq!(Visitor::new(&service).get(&link).status, 404, "an invitation works once");
    let mut later = Visitor::new(&service);
    assert_eq!(sign_in(&provider, &service, &mut later, &email).status, 303);

    // A removed member is out, and the provider does not bring them back.
    let page = owner_visitor.get("/team").text().to_owned();
    let at = page.find("/remove\"").expect("a member can be removed");
    let action = page[..at].rsplit_once("action=\"").unwrap().1.to_owned() + "/remove";
    assert_eq!(owner_visitor.post(&action, &[]).status, 303);
    assert_eq!(later.get("/keys").status, 303);
    let answer = sign_in(&provider, &service, &mut later, &email);
    refused(&mut later, &answer, "Nobody here has your email address");
}

#[test]
fn an_answer_belongs_to_the_browser_that_began() {
    let Some(mut provider) = OpenIdProvider::stopped() else { return };
    let service = provider.settings(idle()).start();
    provider.run(&service);
    let mut visitor = Visitor::new(&service);
    let callback = provider.sign_in(&service, &begun(&mut visitor, "%2F"), &address());

    // A link that signs the one who opens it in as somebody else.
    let mut victim = Visitor::new(&service);
    victim.get("/login");
    let answer = victim.get(&callback);
    refused(&mut victim, &answer, "was not begun in this browser");
    // A state of its own with the code of another.
    let own = begun(&mut victim, "%2F");
    let state = own.split_once("state=").unwrap().1.split('&').next().unwrap();
    let code = callback.split_once("code=").unwrap().1.split('&').next().unwrap();
    let answer = victim.get(&format!("/login/openid/callback?code={code}&state={state}"));
    refused(&mut victim, &answer, "its answer is not right");
    for bad in ["", "?code=x", "?state=x&code=x", "?state=%00&code=x", "?error=access_denied"] {
        let answer = victim.get(&format!("/login/openid/callback{bad}"));
        refused(&mut victim, &answer, "was not begun in this browser");
    }
    let answer = victim.get(&format!("/login/openid/callback?error=access_denied&state={state}"));
    refused(&mut victim, &answer, "has not signed you in");
    // It works for the browser that began, and once.
    assert_eq!(visitor.get(&callback).header("location"), Some("/"));
    visitor.get("/keys");
    visitor.post("/logout", &[]);
    let answer = visitor.get(&callback);
    refused(&mut visitor, &answer, "its answer is not right");
    // The page after the sign-in is one of the dashboard.
    let callback = provider.sign_in(&service, &begun(&mut visitor, "%2F%2Fevil.example"), &address());
    assert_eq!(visitor.get(&callback).header("location"), Some("/transcripts"));
}

#[test]
fn a_provider_that_is_away_or_changes_its_keys_is_got_over() {
    let Some(mut provider) = OpenIdProvider::stopped() else { return };
    let service = provider.settings(idle()).start();
    let mut visitor = Visitor::signed_up(&service);
    let email = visitor.email.clone();
    visitor.post("/logout", &[]);
    let answer = visitor.get("/login/openid");
    refused(&mut visitor, &answer, "cannot be reached");
    assert!(service.log().contains("sign-in by OpenID Connect"), "{}", service.log());
    assert_eq!(visitor.sign_in(&email, PASSWORD).status, 303, "a password needs no provider");

    provider.run(&service);
    let name = address();
    eventually("the provider is asked again", || {
        (Visitor::new(&service).get("/login/openid").status == 303).then_some(())
    });
    assert_eq!(sign_in(&provider, &service, &mut Visitor::new(&service), &name).status, 303);
    provider.run(&service);
    // The service reads the keys anew some seconds later.
    eventually("the new keys are read", || {
        (sign_in(&provider, &service, &mut Visitor::new(&service), &name).status == 303).then_some(())
    });
    // It goes away between the two halves.
    let mut visitor = Visitor::new(&service);
    let callback = provider.sign_in(&service, &begun(&mut visitor, "%2F"), &name);
    provider.stop();
    let answer = visitor.get(&callback);
    refused(&mut visitor, &answer, "cannot be reached");
}

/// People who wait for a provider that hangs wait together, and not one after another.
#[test]
fn a_provider_that_hangs_is_asked_once_for_all_who_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let service = idle().with("openid_issuer", issuer).with("openid_client_id", "auricle").start();
    let (sender, connections) = std::sync::mpsc::channel();
    std::thread::spawn(move || listener.incoming().flatten().all(|held| sender.send(held).is_ok()));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut visitor = Visitor::new(&service);
                let answer = visitor.get("/login/openid");
                refused(&mut visitor, &answer, "cannot be reached");
            });
        }
    });
    assert_eq!(connections.try_iter().count(), 1);
}

#[test]
fn without_a_provider_there_are_no_such_pages() {
    let service = idle().start();
    let mut visitor = Visitor::new(&service);
    assert!(!visitor.get("/login").text().contains("openid"));
    for path in ["/login/openid", "/login/openid/callback?state=a&code=b"] {
        let answer = visitor.get(path);
        assert!(answer.status == 404 && answer.text().contains("No provider signs people in here."), "{path}");
    }
}
