//! The pages that mail leads to.

use auricle_tests::{Browser, MailServer, PASSWORD, Setup, wav};

use crate::dashboard::{holds, pictures, send};

#[test]
fn letters_bring_somebody_in_and_back_in() {
    let Some(server) = MailServer::start() else { return };
    let service = Setup::local()
        .with("role", "api")
        .with("mail_host", "127.0.0.1")
        .with("mail_port", server.port())
        .with("mail_tls", "off")
        .with("mail_from", "Auricle <auricle@example.com>")
        .start();
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("silence.wav");
    std::fs::write(&microphone, wav(48_000, 16, &[0; 9600])).unwrap();
    let at = |path: &str| format!("{}{path}", service.dashboard());
    let Some(mut browser) = Browser::open(&at("/signup"), &microphone) else { return };
    holds(&mut browser, "the sign-up", "document.readyState == 'complete' && !!document.querySelector('[name=email]')");
    pictures(&mut browser, "sign-up-mail");
    let email = "a.person.with.a.long.name@example.org";
    send(&mut browser, &[("email", email)]);
    assert!(browser.run("document.body.innerText").contains(email));
    pictures(&mut browser, "sign-up-sent");
    browser.go(&at(&server.link(email, &service.dashboard())));
    pictures(&mut browser, "confirm");
    send(&mut browser, &[("password", PASSWORD)]);
    assert_eq!(browser.run("location.pathname"), "/transcripts");

    let widths = "['.side', '.who', '.email'].map(name => document.querySelector(name).getBoundingClientRect().right)";
    let inside = format!("(([side, ...rest]) => rest.every(right => right <= side))({widths})");
    assert_eq!(
        browser.run(&inside),
        "true",
        "a long address stays in the side: {}",
        browser.run(&format!("String({widths})"))
    );

    // Billing offers an alarm where mail is sent.
    browser.go(&at("/billing"));
    browser.run("document.querySelector('[name=dollars]').value = 'many'; true");
    browser.follow("document.querySelector('[name=dollars]').form.requestSubmit()");
    pictures(&mut browser, "billing-budget");
    browser.go(&at("/team"));
    send(&mut browser, &[("email", "new@example.org")]);
    pictures(&mut browser, "team-mailed");

    browser.follow("document.querySelector('form[action=\"/logout\"]').requestSubmit()");
    browser.follow("document.querySelector('a[href=\"/forgot\"]').click()");
    pictures(&mut browser, "forgot");
    send(&mut browser, &[("email", email)]);
    pictures(&mut browser, "forgot-sent");
    server.wait(email, 2);
    browser.go(&at(&server.link(email, &service.dashboard())));
    pictures(&mut browser, "reset");
    send(&mut browser, &[("password", "another sentence")]);
    assert_eq!(browser.run("location.pathname"), "/transcripts");
}
