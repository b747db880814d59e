//! The walk-through of the service's page, run as printed.

use std::process::{Command, Stdio};

use auricle_tests::{Setup, ended, repository, skip};

/// The first shell block of a section.
fn block(section: &str) -> String {
    let page = std::fs::read_to_string(repository().join("docs/service.md")).unwrap();
    let (_, rest) = page.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("no section {section}"));
    let section = rest.split("\n## ").next().unwrap();
    let (_, rest) = section.split_once("\n```sh\n").unwrap_or_else(|| panic!("no shell block: {section}"));
    rest.split("\n```").next().unwrap().to_owned()
}

#[test]
fn the_walk_through_works_as_printed() {
    for program in ["curl", "jq"] {
        if Command::new(program).arg("--version").stdout(Stdio::null()).status().is_err() {
            return skip(&format!("no {program} found (Debian: apt-get install {program})"));
        }
    }
    let service = Setup::new().starter().start();
    let account = service.account();
    let before = files();
    let mut shell = Command::new("bash");
    shell.args(["-euxo", "pipefail", "-c", &block("Transcribe a file")]).current_dir(repository()).stdin(Stdio::null());
    shell.env("AURICLE_URL", service.api()).env("AURICLE_KEY", &account.key);
    let run = ended(shell.output().unwrap());
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("can do"), "what the sample says: {}", run.stdout);
    assert_eq!(account.usage().len(), 1, "one transcript, billed once");
    assert_eq!(files(), before, "it leaves no files behind");
}

fn files() -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(repository()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}
