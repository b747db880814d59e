//! The OpenAPI document, checked by independent programs: it is valid, and the service conforms to it.

use std::path::PathBuf;
use std::process::Command;

use auricle_tests::{Answer, Setup, http, silence, skip};

/// A program of a Python environment that AURICLE_PYTHON_TOOLS names, else of PATH.
fn tool(name: &str) -> Option<PathBuf> {
    let named = std::env::var_os("AURICLE_PYTHON_TOOLS").map(|folder| PathBuf::from(folder).join(name));
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let found = named.into_iter().chain(std::env::split_paths(&on_path).map(|folder| folder.join(name)));
    let found = found.into_iter().find(|program| program.is_file());
    if found.is_none() {
        skip(&format!(
            "{name} (pip install schemathesis openapi-spec-validator, AURICLE_PYTHON_TOOLS=ENVIRONMENT/bin)"
        ));
    }
    found
}

#[test]
fn the_document_is_valid_openapi() {
    let Some(validator) = tool("openapi-spec-validator") else { return };
    let service = Setup::new().start();
    let document = Answer::of(http().get(format!("{}/openapi.json", service.api())));
    assert!(document.json()["openapi"].as_str().unwrap().starts_with("3.1"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, &document.body).unwrap();
    let judged = Command::new(validator).arg(&file).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&judged.stdout), String::from_utf8_lossy(&judged.stderr));
    assert!(judged.status.success(), "{said}");
}

#[test]
fn the_service_conforms_to_its_document() {
    let Some(schemathesis) = tool("st") else { return };
    let service = Setup::local().voice().with("request_limit", 1_000_000).start();
    let account = service.account();
    // A transcript for the examples to find.
    account.transcribe("a.wav", silence(1.0));
    let run = Command::new(schemathesis)
        .args(["run", &format!("{}/openapi.json", service.api())])
        .args(["-H", &format!("Authorization: Bearer {}", account.key)])
        .args([
            "--seed",
            "1",
            "--max-examples",
            "15",
            "--generation-database",
            "none",
            "--phases",
            "examples,coverage,fuzzing",
        ])
        // WebSockets: without one the answer is 426 whatever the query says.
        .args(["--exclude-path", "/v2/realtime/ws", "--exclude-path", "/v2/voice-agent/ws"])
        // Another test covers unknown keys; a positive example may name an upload that does not exist.
        .args(["--exclude-checks", "ignored_auth,positive_data_acceptance"])
        .current_dir(service.data())
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{said}");
}
