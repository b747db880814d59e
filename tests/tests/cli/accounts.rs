//! `auricle accounts`, without a running service.

use std::path::Path;
use std::process::Stdio;

use auricle_tests::{Run, command, ended};

fn auricle(data: &Path, args: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = command();
    command.args(args).arg("--data").arg(data).envs(variables.iter().copied()).stdin(Stdio::null());
    ended(command.output().unwrap())
}

#[test]
fn the_limit_of_an_account_is_lifted_and_set_again() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| auricle(folder.path(), args, &[]);
    let none = run(&["accounts", "unlimited"]);
    assert!(none.status == Some(1) && none.stderr.contains("--data or AURICLE_DATA"), "{}", none.stderr);
    assert_eq!(run(&["keys", "create"]).status, Some(0));
    assert_eq!(run(&["keys", "create", "--account", "ada@example.org"]).status, Some(0));
    let first = run(&["accounts", "unlimited"]);
    assert_eq!((first.status, first.stdout.as_str()), (Some(0), "admin@localhost has no limit now\n"));
    let ada = run(&["accounts", "unlimited", "Ada@example.org"]);
    assert_eq!((ada.status, ada.stdout.as_str()), (Some(0), "ada@example.org has no limit now\n"));
    let off = run(&["accounts", "unlimited", "ada@example.org", "--off"]);
    assert_eq!(
        (off.status, off.stdout.as_str()),
        (Some(0), "ada@example.org has the limit of its free credit again\n")
    );
    let unknown = run(&["accounts", "unlimited", "bob@example.org"]);
    assert!(unknown.status == Some(1) && unknown.stderr.contains("there is no such account"), "{}", unknown.stderr);
    assert_eq!(run(&["accounts", "unlimited", "bob"]).status, Some(2), "no address");
    let stripe = [
        ("AURICLE_BILLING_PROVIDER", "stripe"),
        ("AURICLE_STRIPE_SECRET_KEY", "sk_test"),
        ("AURICLE_STRIPE_PRICE_ID", "price_1"),
        ("AURICLE_STRIPE_WEBHOOK_SECRET", "whsec_test"),
    ];
    let refused = auricle(folder.path(), &["accounts", "unlimited"], &stripe);
    assert!(refused.status == Some(1) && refused.stderr.contains("billing_provider"), "{}", refused.stderr);
}

#[test]
fn a_webhook_secret_is_printed_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| auricle(folder.path(), args, &[]);
    assert_eq!(run(&["keys", "create"]).status, Some(0));
    let secrets = [(); 2].map(|()| run(&["accounts", "webhook-secret"]).stdout);
    assert!(secrets.iter().all(|secret| secret.starts_with("whsec_") && secret.trim().len() == 38), "{secrets:?}");
    assert_ne!(secrets[0], secrets[1]);
    assert_eq!(run(&["accounts", "webhook-secret", "--remove"]).status, Some(0));
    let none = run(&["accounts", "webhook-secret", "--remove"]);
    assert!(none.status == Some(1) && none.stderr.contains("admin@localhost has no webhook secret"), "{}", none.stderr);
}
