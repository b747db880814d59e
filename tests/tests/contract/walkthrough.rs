//! The walk-through of the service's page and the first request of the README, run as printed.

use std::process::{Command, Stdio};

use auricle_tests::{Account, Service, Setup, ended, repository, skip};

/// The first shell block of a section of a page.
fn block(page: &str, section: &str) -> String {
    let page = std::fs::read_to_string(repository().join(page)).unwrap();
    let (_, rest) = page.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("no section {section}"));
    let section = rest.split("\n## ").next().unwrap();
    let (_, rest) = section.split_once("\n```sh\n").unwrap_or_else(|| panic!("no shell block: {section}"));
    rest.split("\n```").next().unwrap().to_owned()
}

fn has_programs() -> bool {
    let missing = ["curl", "jq"]
        .into_iter()
        .find(|program| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_err());
    if let Some(program) = missing {
        skip(&format!("no {program} found (Debian: apt-get install {program})"));
    }
    missing.is_none()
}

/// What commands print, which must succeed.
fn printed(service: &Service, account: &Account, commands: &str) -> String {
    let mut shell = Command::new("bash");
    shell.args(["-euxo", "pipefail", "-c", commands]).current_dir(repository()).stdin(Stdio::null());
    shell.env("AURICLE_URL", service.api()).env("AURICLE_KEY", &account.key);
    let run = ended(shell.output().unwrap());
    assert_eq!(run.status, Some(0), "{}{}", run.stdout, run.stderr);
    run.stdout
}

/// The id of the one transcript of an account.
fn only_transcript(account: &Account) -> String {
    let list = account.get("/v2/transcripts").ok();
    assert_eq!(list["total"], 1, "{list}");
    list["data"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn the_walk_through_works_as_printed() {
    if !has_programs() {
        return;
    }
    let service = Setup::new().starter().start();
    let before = files();
    let account = service.account();
    let commands = ["Transcribe a file", "Edits"].map(|section| block("docs/service.md", section)).join("\n");
    let text = printed(&service, &account, &commands);
    assert!(text.contains("can do") && text.contains("\"warnings\""), "what the sample says: {text}");
    assert_eq!(account.usage().len(), 1, "one transcript, billed once");

    let account = service.account();
    printed(&service, &account, &block("docs/service.md", "Signed uploads"));
    let done = account.finished(&only_transcript(&account));
    assert!(done["text"].as_str().unwrap().contains("can do"), "{done}");
    assert_eq!(files(), before, "nothing leaves files behind");
}

#[test]
fn the_first_request_of_the_readme_works_as_printed() {
    if !has_programs() {
        return;
    }
    let service = Setup::new().starter().start();
    let account = service.account();
    let request = block("README.md", "The service");
    assert!(request.contains("http://127.0.0.1:8080/"), "{request}");
    printed(&service, &account, &request.replace("http://127.0.0.1:8080", &service.api()));
    let done = account.finished(&only_transcript(&account));
    assert!(done["title"] == "jfk.flac" && done["text"].as_str().unwrap().contains("can do"), "{done}");
}

fn files() -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(repository()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}
