//! Comments and documents use technical terms in place of vague words.

use std::fs;
use std::path::Path;

use auricle_tests::repository;

/// Each has a plain term: reported, counts as, everyone who, the rest.
const VAGUE: [&str; 4] = ["told", "taken for", "whoever", "what is left"];
const FOLDERS: [&str; 8] = ["benches", "docs", "engine", "kernels", "models/recipes", "packaging", "server", "tests"];

/// The prose of a line, lower case: its comment, or all of a document's but quotations.
fn prose<'a>(extension: &str, line: &'a str) -> Option<&'a str> {
    match extension {
        "rs" => line
            .split_once("// ")
            .or_else(|| line.split_once("//! "))
            .or_else(|| line.split_once("/// "))
            .map(|(_, text)| text),
        "sh" | "py" => line.split_once("# ").map(|(_, text)| text),
        "md" => Some(line),
        _ => None,
    }
}

/// The vague words of a text outside quotations and code.
fn vague(text: &str) -> Vec<&'static str> {
    let outside = |text: &str, mark| text.split(mark).step_by(2).collect::<Vec<_>>().join(" ");
    let outside = outside(&outside(text, '"'), '`').to_lowercase();
    let words: Vec<&str> = outside.split(|c: char| !c.is_alphanumeric()).collect();
    VAGUE
        .into_iter()
        .filter(|vague| words.windows(vague.split(' ').count()).any(|words| words.join(" ") == **vague))
        .collect()
}

fn search(folder: &Path, found: &mut Vec<String>) -> usize {
    let mut read = 0;
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if entry.is_dir() {
            read += if name == "target" || name.starts_with('.') { 0 } else { search(&entry, found) };
            continue;
        }
        let extension = entry.extension().unwrap_or_default().to_string_lossy().into_owned();
        // Figures of the past keep their words.
        if name == "RESULTS.md" || !["rs", "sh", "py", "md"].contains(&extension.as_str()) {
            continue;
        }
        read += 1;
        for (number, line) in fs::read_to_string(&entry).unwrap().lines().enumerate() {
            for word in prose(&extension, line).into_iter().flat_map(vague) {
                found.push(format!("{}:{}: \"{word}\"", entry.display(), number + 1));
            }
        }
    }
    read
}

#[test]
fn comments_and_documents_use_technical_terms() {
    let mut found = Vec::new();
    let read: usize = FOLDERS.iter().map(|folder| search(&repository().join(folder), &mut found)).sum();
    assert!(read > 1_000, "only {read} files were read");
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn words_of_code_and_quotations_are_no_prose() {
    assert_eq!(prose("rs", concat!("let told = 1; /", "/ Whoever asks.")).map(vague), Some(vec!["whoever"]));
    assert_eq!(prose("rs", "let told = 1;"), None);
    assert_eq!(vague("The client is told, and WHAT IS LEFT is sent."), ["told", "what is left"]);
    assert!(vague("It says \"told\" or `told` where a teller or an untold sum is.").is_empty());
}
