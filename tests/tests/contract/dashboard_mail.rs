//! Mail of the dashboard through a real SMTP server: sign-up, reset, invitations, the budget alarm, faults.

use std::process::Command;

use auricle_tests::{Account, MailServer, PASSWORD, Service, Setup, Visitor, eventually, silence};
use serde_json::json;

use crate::postgres;

/// A service that sends mail to this server, with short delays.
fn mailing(server: &MailServer) -> Setup {
    Setup::local()
        .with("mail_host", "127.0.0.1")
        .with("mail_port", server.port())
        .with("mail_tls", "off")
        .with("mail_from", "Auricle <auricle@example.com>")
        .with("mail_retry_seconds", "[1, 1, 1, 1]")
}

fn idle(server: &MailServer) -> Setup {
    mailing(server).with("role", "api")
}

/// Creates an account with the link of a letter.
fn signed_up(service: &Service, server: &MailServer, email: &str) -> Visitor {
    let mut visitor = Visitor::new(service);
    visitor.email = email.to_owned();
    visitor.get("/signup");
    assert_eq!(visitor.post("/signup", &[("email", email)]).status, 200);
    let link = server.link(email, &service.dashboard());
    visitor.get(&link);
    assert_eq!(visitor.post(&link, &[("password", PASSWORD)]).status, 303);
    visitor.get("/keys");
    visitor
}

#[test]
fn the_first_letter_that_is_used_makes_the_operator() {
    let Some(server) = MailServer::start() else { return };
    let service = idle(&server).unset("sign_up").start();
    let mut links = ["one@example.org", "two@example.org"].map(|email| {
        let mut visitor = Visitor::new(&service);
        visitor.get("/signup");
        assert_eq!(visitor.post("/signup", &[("email", email)]).status, 200);
        let link = server.link(email, &service.dashboard());
        assert_eq!(visitor.get(&link).status, 200);
        (visitor, link)
    });
    let mut confirm = |at: usize| {
        let (visitor, link) = &mut links[at];
        let status = visitor.post(link, &[("password", PASSWORD)]).status;
        (status, visitor.get("/operator").status)
    };
    assert_eq!(confirm(1), (303, 200));
    assert_eq!(confirm(0), (404, 404));
}

/// Sign-up, reset and invitations by mail.
fn letters_bring_people_in(setup: Setup, server: &MailServer) {
    let service = setup.start();
    let email = "new@example.org";
    let mut visitor = Visitor::new(&service);
    let page = visitor.get("/signup");
    assert!(!page.text().contains("type=\"password\""), "{}", page.text());
    let sent = visitor.post("/signup", &[("email", "New@Example.org")]);
    assert!(sent.status == 200 && sent.text().contains("new@example.org"), "{}", sent.text());
    let letter = server.wait(email, 1).remove(0);
    assert_eq!(letter["subject"], "Create your account on Auricle");
    assert_eq!(letter["from"], "Auricle <auricle@example.com>");
    assert_eq!((&letter["type"], &letter["automatic"]), (&json!("text/plain"), &json!("auto-generated")));
    assert_eq!(visitor.sign_in(email, PASSWORD).status, 422, "there is no account before the link is used");
    let link = server.link(email, &service.dashboard());
    // A program that follows links in mail creates nothing.
    assert_eq!(visitor.get(&link).status, 200);
    assert_eq!(visitor.post(&link, &[("password", "short")]).status, 422);
    assert_eq!(visitor.post(&link, &[("password", PASSWORD)]).header("location"), Some("/transcripts"));
    assert_eq!(visitor.get(&link).status, 404, "a link works once");
    assert!(visitor.get("/billing").text().contains("$10.00"));

    // The page says the same for an address with an account; its owner gets a letter.
    let mut other = Visitor::new(&service);
    other.get("/signup");
    let again = other.post("/signup", &[("email", email)]);
    let plain = |page: &auricle_tests::Answer, token: &str| page.text().replace(token, "");
    assert_eq!(plain(&again, &other.token), plain(&sent, &visitor_token(&sent)));
    assert_eq!(server.wait(email, 2)[1]["subject"], "You have an account on Auricle");

    // A forgotten password. The answer is the same for an unknown address, which gets no letter.
    let mut forgetful = Visitor::new(&service);
    assert!(forgetful.get("/login").text().contains("href=\"/forgot\""));
    forgetful.get("/forgot");
    let known = forgetful.post("/forgot", &[("email", email)]);
    let unknown = forgetful.post("/forgot", &[("email", "nobody@example.org")]);
    assert_eq!((known.status, unknown.status), (200, 200));
    assert_eq!(known.text().replace(email, ""), unknown.text().replace("nobody@example.org", ""));
    let letter = server.wait(email, 3).remove(2);
    assert_eq!(letter["subject"], "Set another password for Auricle");
    let link = server.link(email, &service.dashboard());
    forgetful.get(&link);
    assert_eq!(forgetful.post(&link, &[("password", "another sentence")]).status, 303);
    assert_eq!(visitor.get("/keys").status, 303, "the old sign-ins have ended");
    assert_eq!(forgetful.get("/keys").status, 200);

    // An invitation goes by mail, and its link is on the page, too.
    let shown = forgetful.invite("member@example.org");
    let mailed = server.link("member@example.org", &service.dashboard());
    assert_eq!(shown, mailed);
    let letter = server.letters("member@example.org").remove(0);
    assert!(letter["body"].as_str().unwrap().starts_with("new@example.org invites you"), "{letter}");
    let mut member = Visitor::new(&service);
    member.get(&mailed);
    assert_eq!(member.post(&mailed, &[("password", PASSWORD)]).status, 303);
    // A member's reset leads to the same account.
    member.get("/keys");
    member.post("/logout", &[]);
    member.get("/forgot");
    member.post("/forgot", &[("email", "member@example.org")]);
    server.wait("member@example.org", 2);
    let link = server.link("member@example.org", &service.dashboard());
    member.get(&link);
    assert_eq!(member.post(&link, &[("password", PASSWORD)]).status, 303);
    assert_eq!(member.get("/billing").status, 403);
    assert!(server.letters("nobody@example.org").is_empty());
    assert!(server.letters("").is_empty());
}

fn visitor_token(page: &auricle_tests::Answer) -> String {
    let (_, after) = page.text().split_once("<meta name=\"form-token\" content=\"").unwrap();
    after.split('"').next().unwrap().to_owned()
}

#[test]
fn letters_bring_people_in_on_sqlite() {
    let Some(server) = MailServer::start() else { return };
    letters_bring_people_in(idle(&server), &server);
}

#[test]
fn letters_bring_people_in_on_postgres() {
    let (Some(server), Some(database)) = (MailServer::start(), postgres()) else { return };
    letters_bring_people_in(idle(&server).with("database_url", database.database()), &server);
}

#[test]
fn a_letter_survives_the_service_and_the_mail_server() {
    let Some(mut server) = MailServer::stopped() else { return };
    let service = idle(&server).start();
    let link = service.line("sign-in ").expect("a link").strip_prefix(&service.dashboard()).unwrap().to_owned();
    let mut owner = Visitor::new(&service);
    owner.get(&link);
    owner.post(&link, &[("password", PASSWORD)]);
    owner.get("/team");
    let shown = owner.invite("patient@example.org");
    service.kill();
    service.start();
    eventually("an attempt fails", || service.log().contains("a letter was not sent").then_some(()));
    service.kill();
    server.run();
    service.start();
    assert_eq!(server.link("patient@example.org", &service.dashboard()), shown);
    assert_eq!(server.letters("patient@example.org").len(), 1);
}

#[test]
fn a_refused_letter_is_not_repeated_and_a_delayed_one_is() {
    let Some(server) = MailServer::start() else { return };
    let service = idle(&server).start();
    let mut owner = signed_up(&service, &server, "owner@example.org");
    owner.invite("refused@example.org");
    owner.invite("later@example.org");
    // An address that is none for mail.
    owner.invite("\"@x");
    let letter = server.wait("later@example.org", 1).remove(0);
    assert!(letter["id"].as_str().unwrap().ends_with("@example.com>"), "{letter}");
    eventually("both are given up", || {
        (service.log().matches("a letter was refused for good").count() == 2).then_some(())
    });
    assert!(server.letters("refused@example.org").is_empty());
    let log = service.log();
    assert!(!log.contains("refused@example.org") && !log.contains("/join/"), "no address and no link is logged: {log}");
}

#[test]
fn mail_goes_encrypted_and_with_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let Some(server) = MailServer::start_with_tls(&certificate, &key) else { return };
    let setup = |password: &str| {
        idle(&server)
            .with("mail_host", "localhost")
            .with("mail_tls", "starttls")
            .with("mail_user", "auricle")
            .with("mail_password", password)
    };
    let trusts = || [("SSL_CERT_FILE", certificate.to_str().unwrap().to_owned())];
    let ask = |service: &Service, email: &str| {
        let mut visitor = Visitor::new(service);
        visitor.get("/signup");
        assert_eq!(visitor.post("/signup", &[("email", email)]).status, 200);
    };
    let service = setup(MailServer::PASSWORD).environment(trusts()).start();
    ask(&service, "safe@example.org");
    let letter = server.wait("safe@example.org", 1).remove(0);
    assert_eq!((&letter["tls"], &letter["authenticated"]), (&json!(true), &json!(true)));
    // A server that cannot prove who it is gets neither password nor letter.
    let distrustful = setup(MailServer::PASSWORD).start();
    ask(&distrustful, "unproven@example.org");
    // A wrong password is a fault of the settings: the letter is kept.
    let wrong = setup("another password").environment(trusts()).start();
    ask(&wrong, "wrong@example.org");
    for service in [&distrustful, &wrong] {
        eventually("attempts fail", || {
            (service.log().matches("a letter was not sent; trying again").count() > 1).then_some(())
        });
        assert!(!service.log().contains("refused for good"), "{}", service.log());
        assert!(!service.log().contains("password\""), "{}", service.log());
    }
    assert!(server.letters("unproven@example.org").is_empty() && server.letters("wrong@example.org").is_empty());
}

/// Three transcripts of a cent each against a limit of two cents.
fn an_alarm_comes_once(setup: Setup, server: &MailServer) {
    let service = setup.start();
    let mut owner = signed_up(&service, server, "spender@example.org");
    let key = owner.key("k");
    let account = Account { api: service.api(), key, email: owner.email.clone() };
    owner.get("/billing");
    for bad in ["-1", "many", "0.001", "99999999999", "1e3"] {
        let page = owner.post("/billing/budget", &[("dollars", bad)]);
        assert!(page.status == 422 && page.text().contains("id=\"budget-problem\""), "{bad}: {}", page.text());
    }
    assert_eq!(owner.post("/billing/budget", &[("dollars", "0.02")]).status, 303);
    assert!(owner.get("/billing").text().contains("value=\"0.02\""));
    account.transcribe("a.wav", silence(1.0));
    account.transcribe("b.wav", silence(1.0));
    let letter = server.wait("spender@example.org", 2).remove(1);
    assert!(letter["subject"].as_str().unwrap().starts_with("Auricle: $0.02 used in 20"), "{letter}");
    account.transcribe("c.wav", silence(1.0));
    // A limit that is set anew is for a mail of its own.
    owner.get("/billing");
    assert_eq!(owner.post("/billing/budget", &[("dollars", "0.03")]).status, 303);
    account.transcribe("d.wav", silence(1.0));
    let letters = server.wait("spender@example.org", 3);
    assert_eq!(letters.len(), 3, "{letters:?}");
    assert!(letters[2]["subject"].as_str().unwrap().starts_with("Auricle: $0.04 used in 20"), "{letters:?}");
    assert_eq!(owner.post("/billing/budget", &[("dollars", "")]).status, 303);
    assert!(!owner.get("/billing").text().contains("value=\"0.03\""));
    // The alarm is the owner's.
    let mut member = owner.member(&service);
    assert_eq!(member.post("/billing/budget", &[("dollars", "1")]).status, 403);
}

#[test]
fn a_budget_alarm_comes_once() {
    let Some(server) = MailServer::start() else { return };
    an_alarm_comes_once(mailing(&server), &server);
}

#[test]
fn a_budget_alarm_comes_once_on_postgres() {
    let (Some(server), Some(database)) = (MailServer::start(), postgres()) else { return };
    an_alarm_comes_once(mailing(&server).with("database_url", database.database()), &server);
}

#[test]
fn letters_to_one_address_are_limited_whether_it_is_known_or_not() {
    let Some(server) = MailServer::start() else { return };
    let service = idle(&server).start();
    signed_up(&service, &server, "known@example.org");
    for (email, free) in [("known@example.org", 4), ("nobody@example.org", 5)] {
        let mut visitor = Visitor::new(&service);
        visitor.get("/forgot");
        for _ in 0..free {
            assert_eq!(visitor.post("/forgot", &[("email", email)]).status, 200, "{email}");
        }
        let refused = visitor.post("/forgot", &[("email", email)]);
        assert!(refused.status == 429 && refused.header("retry-after").is_some(), "{email}");
    }
    // A forged form sends nothing.
    let mut visitor = Visitor::new(&service);
    let foreign = Visitor::new(&service).get("/forgot");
    for path in ["/forgot", "/signup"] {
        visitor.get(path);
        for token in ["", "x", &visitor_token(&foreign)] {
            assert_eq!(visitor.post_with(token, path, &[("email", "forged@example.org")]).status, 403, "{path}");
        }
    }
    assert_eq!(visitor.post("/forgot", &[("email", "no address")]).status, 422);
    server.wait("known@example.org", 5);
    assert!(server.letters("forged@example.org").is_empty());
}

#[test]
fn addresses_are_never_markup_and_never_headers() {
    let Some(server) = MailServer::start() else { return };
    let service = idle(&server).start();
    let mut visitor = Visitor::new(&service);
    for path in ["/signup", "/forgot"] {
        visitor.get(path);
        for email in ["<script>alert(1)</script>@x.org", "\"><img/src=x/onerror=alert(1)>@x.org"] {
            let page = visitor.post(path, &[("email", email)]);
            assert!(page.status == 200 && page.text().contains("&#60;"), "{}", page.text());
            assert!(!page.text().contains("<script>alert") && !page.text().contains("<img/src"), "{}", page.text());
        }
        let page = visitor.post(path, &[("email", "a@x.org\r\nBcc: victim@example.org")]);
        assert_eq!(page.status, 422);
    }
    assert!(server.letters("victim@example.org").is_empty());
}

#[test]
fn without_a_mail_server_an_administrator_makes_the_link() {
    let service = Setup::local().with("role", "api").start();
    let mut visitor = Visitor::signed_up(&service);
    let login = Visitor::new(&service).get("/login");
    assert!(login.text().contains("auricle accounts link") && !login.text().contains("/forgot"));
    assert_eq!(Visitor::new(&service).get("/forgot").status, 404);
    assert!(visitor.get("/billing").text().contains("mail_host"));
    assert_eq!(visitor.post("/billing/budget", &[("dollars", "1")]).status, 404);
    let link = service.password_link(&visitor.email.clone());
    assert_eq!(Visitor::new(&service).get(&link).status, 200);
}
