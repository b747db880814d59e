//! The team as its owner and a member use it.

use auricle_tests::{PASSWORD, Setup, wav};

use crate::dashboard::{NO_FAULTS, holds, pictures, send, signed_up};

#[test]
fn an_owner_invites_a_member_who_joins_and_is_removed() {
    let service = Setup::local().with("role", "api").start();
    let folder = tempfile::tempdir().unwrap();
    let microphone = folder.path().join("silence.wav");
    std::fs::write(&microphone, wav(48_000, 16, &[0; 9600])).unwrap();
    let Some(mut owner) = signed_up(&service, &microphone, "owner@example.org") else { return };
    let Some(mut member) = signed_up(&service, &microphone, "other@example.org") else { return };
    let at = |path: &str| format!("{}{path}", service.dashboard());
    let text = "document.body.innerText";

    owner.go(&at("/team"));
    pictures(&mut owner, "team-alone");
    // An address that has an account, and one that is markup.
    send(&mut owner, &[("email", "other@example.org")]);
    assert!(owner.run("document.querySelector('.problem').textContent").contains("account of its own"));
    pictures(&mut owner, "team-problem");
    send(&mut owner, &[("email", "<img/src=x/onerror=window.attacked=1>@example.org")]);
    assert!(owner.run(text).contains("<img/src=x/onerror=window.attacked=1>@example.org"));
    assert_eq!(owner.run("window.attacked === undefined && !document.querySelector('main img')"), "true");
    send(&mut owner, &[("email", "member@example.org")]);
    let link = owner.run("document.querySelector('#link').textContent");
    assert!(link.starts_with(&at("/join/")), "{link}");
    assert_eq!(owner.run(NO_FAULTS), "true");
    pictures(&mut owner, "team-invited");

    member.follow("document.querySelector('form[action=\"/logout\"]').requestSubmit()");
    member.go(&link);
    assert!(member.run(text).contains("owner@example.org"));
    pictures(&mut member, "join");
    send(&mut member, &[("password", PASSWORD)]);
    assert_eq!(member.run("location.pathname"), "/transcripts");
    assert_eq!(member.run("!!document.querySelector('nav a[href=\"/billing\"]')"), "false");
    member.go(&at("/team"));
    assert_eq!(member.run("document.querySelectorAll('tbody tr').length"), "2");
    pictures(&mut member, "team-member");
    member.go(&at("/billing"));
    assert!(member.run(text).contains("owner@example.org alone may do this."));
    pictures(&mut member, "billing-member");
    member.go(&at("/keys"));
    member.run("document.querySelector('form.inline [name=name]').value = 'Laptop'; true");
    member.follow("document.querySelector('form.inline').requestSubmit()");

    owner.go(&at("/keys"));
    assert!(owner.run(text).contains("member@example.org"));
    pictures(&mut owner, "keys-team");
    owner.go(&at("/team"));
    pictures(&mut owner, "team");
    // The page asks before it removes somebody.
    let remove = "document.querySelector('form[action$=\"/remove\"]').requestSubmit()";
    owner.run(&format!("{remove}; true"));
    assert!(owner.run("document.querySelector('.question').innerText").contains("Remove this member?"));
    owner.run("document.querySelector('.question button').click(); true");
    holds(&mut owner, "no dialog", "!document.querySelector('.question')");
    assert_eq!(owner.run("document.querySelectorAll('form[action$=\"/remove\"]').length"), "1");
    owner.run(&format!("{remove}; true"));
    owner.follow("document.querySelector('.question .danger').click()");
    assert_eq!(owner.run("document.querySelectorAll('form[action$=\"/remove\"]').length"), "0");
    member.go(&at("/transcripts"));
    assert_eq!(member.run("location.pathname"), "/login");
}
