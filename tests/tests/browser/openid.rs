//! Sign-in by a provider of OpenID Connect, with its own pages.

use auricle_tests::{Browser, OpenIdProvider, PASSWORD, Setup, Visitor, wav};

use crate::dashboard::{NO_FAULTS, holds, pictures, send};

#[test]
fn a_provider_brings_somebody_in_and_back_in() {
    let Some(mut provider) = OpenIdProvider::stopped() else { return };
    let service = provider.settings(Setup::local().with("role", "api")).start();
    provider.run(&service);
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("silence.wav");
    std::fs::write(&microphone, wav(48_000, 16, &[0; 9600])).unwrap();
    let at = |path: &str| format!("{}{path}", service.dashboard());
    let Some(mut browser) = Browser::open(&at("/keys"), &microphone) else { return };
    let button = "document.querySelector('a[href^=\"/login/openid\"]')";
    let to_provider = |browser: &mut Browser| {
        holds(browser, "the button", &format!("document.readyState == 'complete' && !!{button}"));
        browser.run(&format!("{button}.click(); true"));
    };
    holds(&mut browser, "the sign-in", "document.readyState == 'complete' && location.pathname == '/login'");
    assert_eq!(browser.run(NO_FAULTS), "true");
    pictures(&mut browser, "sign-in-openid");
    to_provider(&mut browser);
    let submit = |browser: &mut Browser, name: &str| {
        holds(browser, "the provider's page", "!!document.querySelector('[name=login]')");
        let fill = format!("document.querySelector('[name=login]').value = {name:?}");
        browser.run(&format!("{fill}; document.querySelector('[name=password]').value = 'any'; true"));
        browser.run("document.querySelector('form').requestSubmit(); true");
        let consent = "document.querySelector('[name=prompt]')?.value == 'consent'";
        holds(browser, "the consent", consent);
        browser.run("document.querySelector('form').requestSubmit(); true");
    };
    submit(&mut browser, "person@example.org");
    holds(&mut browser, "the keys", "document.readyState == 'complete' && location.pathname == '/keys'");
    assert!(browser.run("document.body.innerText").contains("person@example.org"));

    // Signed out, and in again: the provider still knows the browser.
    browser.follow("document.querySelector('form[action=\"/logout\"]').requestSubmit()");
    to_provider(&mut browser);
    holds(&mut browser, "signed in again", "location.pathname == '/transcripts'");
    browser.follow("document.querySelector('form[action=\"/logout\"]').requestSubmit()");
    browser.go(&at("/signup"));
    pictures(&mut browser, "sign-up-openid");

    // Somebody with a password connects the account once.
    let owner = Visitor::signed_up(&service);
    browser.go(&format!("{}/session/end", provider.issuer()));
    browser.run("document.querySelector('form').requestSubmit(document.querySelector('[name=logout]')); true");
    holds(&mut browser, "the end of the session there", "!document.querySelector('[name=logout]')");
    browser.go(&at("/login"));
    to_provider(&mut browser);
    submit(&mut browser, &owner.email);
    holds(&mut browser, "the password", "!!document.querySelector('[name=connect]')");
    pictures(&mut browser, "sign-in-connect");
    send(&mut browser, &[("password", PASSWORD)]);
    assert_eq!(browser.run("location.pathname"), "/transcripts");

    // An invitation has the button, too; a provider that is away leaves the password.
    let mut owner = owner;
    let link = owner.invite("member@example.org");
    browser.follow("document.querySelector('form[action=\"/logout\"]').requestSubmit()");
    browser.go(&at(&link));
    pictures(&mut browser, "join-openid");
    provider.stop();
    let service = provider.settings(Setup::local().with("role", "api")).start();
    browser.go(&format!("{}/login", service.dashboard()));
    to_provider(&mut browser);
    holds(&mut browser, "the problem", "!!document.querySelector('.problem')");
    pictures(&mut browser, "sign-in-provider-away");
}
