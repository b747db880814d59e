//! Addresses of the web and of e-mail, names of accounts, hashtags and files.

use super::words::camel;
use super::{Rule, group, initialism, numbers};
use crate::text::speech::lexicon::Lexicon;

pub const RULES: &[Rule] = &[
    Rule(r"(?i)(?:https?://|ftp://)([^\s<>\x22]*[a-z0-9/_=#&-])", |found, _| Some(address(group(found, 1)))),
    Rule(r"(?i)(www\.[^\s<>\x22]*[a-z0-9/_=#&-])", |found, _| Some(address(group(found, 1)))),
    Rule(r"(?i)(?:mailto:)?([a-z0-9._%+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+)", |found, _| Some(address(group(found, 1)))),
    Rule(
        r"(?i)((?:[a-z0-9-]+\.)+(?:com|org|net|edu|gov|mil|io|ai|dev|app|co|uk|de|fr|eu|info|biz|tv|ca|au|xyz|fm|gg)\b(?:/[^\s<>\x22]*[a-z0-9/_=#&-])?)",
        |found, _| Some(address(group(found, 1))),
    ),
    Rule(
        r"([A-Za-z0-9_-]+\.(?:pdf|html?|js|py|rs|txt|csv|json|xml|exe|zip|docx?|xlsx?|pptx?|jpe?g|png|gif|svg|mp3|mp4|wav|md|toml|ya?ml|sh|css|ts|cpp|java|rb|go|php|log|[ch]))\b",
        |found, _| Some(address(group(found, 1))),
    ),
    // "C:\\Users\\me", "/usr/local/bin"
    Rule(r"[A-Za-z]:\\[^\s<>\x22]*[A-Za-z0-9_]", |found, _| Some(address(group(found, 0)))),
    Rule(r"~?(?:/[A-Za-z0-9_.-]+)+/[A-Za-z0-9_.-]*[A-Za-z0-9_]", |found, place| {
        let opens = place.before().is_empty() || place.before().ends_with([' ', '(', '"', '\'']);
        opens.then(|| address(group(found, 0)))
    }),
    Rule(r"@([A-Za-z0-9_]+)", |found, place| {
        (!place.before().ends_with(|before: char| before.is_ascii_alphanumeric()))
            .then(|| format!("at {}", name(group(found, 1))))
    }),
    Rule(r"#([A-Za-z][A-Za-z0-9_]*)", |found, _| Some(format!("hashtag {}", name(group(found, 1))))),
];

/// A name of an account or a hashtag: words that capitals, digits or underscores separate.
fn name(text: &str) -> String {
    let parts = runs(text).into_iter().map(|part| match part.as_bytes().first() {
        Some(b'0'..=b'9') => numbers::code_number(part),
        Some(b'_') => String::new(),
        _ => camel(part),
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// An address, part by part.
fn address(text: &str) -> String {
    let text = text.trim_end_matches('/');
    let parts = runs(text).into_iter().map(|part| match part {
        "." => "dot".into(),
        "/" => "slash".into(),
        "-" => "dash".into(),
        "_" => "underscore".into(),
        "@" => "at".into(),
        ":" => "colon".into(),
        "?" => "question mark".into(),
        "=" => "equals".into(),
        "&" => "and".into(),
        "#" => "hash".into(),
        "%" => "percent".into(),
        "+" => "plus".into(),
        "~" => "tilde".into(),
        "\\" => "backslash".into(),
        part if part.as_bytes()[0].is_ascii_digit() => numbers::code_number(part),
        part if part.as_bytes()[0].is_ascii_alphabetic() => label(part),
        _ => String::new(),
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// Letters of an address: a word, or the names of letters.
fn label(part: &str) -> String {
    let lower = part.to_ascii_lowercase();
    let spelled = ["io", "ai", "uk", "eu", "tv", "edu", "fm", "gg", "us", "js", "py", "rs", "md", "id", "html", "htm"];
    if spelled.contains(&lower.as_str()) {
        return initialism(&lower);
    }
    let parts = camel(part);
    if parts.contains(' ') && !parts.split(' ').all(|word| word.len() == 1) {
        return parts;
    }
    let has_vowel = lower.contains(['a', 'e', 'i', 'o', 'u', 'y']);
    let known = lower.len() > 1 && Lexicon::cmudict().entry(&lower).is_some();
    let said = known && (has_vowel || lower.len() > 3) || lower.len() > 3 && has_vowel || lower == "a";
    if said { lower } else { initialism(&lower) }
}

/// Runs of letters, runs of digits, and single other characters.
fn runs(text: &str) -> Vec<&str> {
    let class = |letter: char| match letter {
        letter if letter.is_ascii_alphabetic() => 1,
        letter if letter.is_ascii_digit() => 2,
        _ => 0,
    };
    let mut found = Vec::new();
    let mut start = 0;
    for (at, letter) in text.char_indices() {
        let before = text[..at].chars().next_back();
        if at > start && (class(letter) == 0 || before.map(class) != Some(class(letter))) {
            found.push(&text[start..at]);
            start = at;
        }
    }
    if start < text.len() {
        found.push(&text[start..]);
    }
    found
}
