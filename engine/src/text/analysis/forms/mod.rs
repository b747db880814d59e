//! Identifiers by their form: addresses of the network, numbers with a check, secrets. They are found in the characters of
//! a text, whatever signs stand beside them, and become words of their own.

mod digits;
mod plain;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::label::Label;
use plain::Plain;

/// An identifier in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Its bytes.
    pub bytes: Range<usize>,
    /// Its kind.
    pub label: Label,
}

/// Judges an identifier by what stands before and behind it.
type Check = fn(before: &str, found: &str, after: &str) -> bool;

struct Pattern {
    label: Label,
    /// The group `value` is the identifier, or else the whole match.
    regex: Regex,
    check: Check,
}

/// Patterns in the order in which they claim their characters.
static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let table: [(Label, &str, Check); 14] = [
        (
            Label::Password,
            r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
            |_, _, _| true,
        ),
        (Label::EmailAddress, r"(?i)mailto:(?P<value>[^\s<>?]+@[^\s<>?]+\.\p{L}{2,})", |_, _, _| true),
        (Label::Url, r#"(?i)[a-z][a-z0-9+.-]{1,15}://[^\s<>"'`|\\]{4,}"#, |_, _, _| true),
        (
            Label::EmailAddress,
            r"[\p{L}\p{N}_](?:[\p{L}\p{N}._%+'-]*[\p{L}\p{N}_+-])?@(?:localhost\b|(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]*[\p{L}\p{N}])?\.)+\p{L}{2,})",
            |_, _, _| true,
        ),
        (
            Label::EmailAddress,
            r"(?i)[\p{L}\p{N}._+-]+ ?[\[({] ?at ?[\])}] ?[\p{L}\p{N}-]+(?: ?[\[({] ?dot ?[\])}] ?[\p{L}\p{N}-]+|\.[\p{L}\p{N}-]+)+",
            |_, _, _| true,
        ),
        (
            Label::Url,
            r#"(?i)(?:[a-z0-9-]+\.)+(?:com|org|net|io|me|co|dev|app|info|de|fr|uk|es|it|nl|eu|ch|at)/[^\s<>"'`|,;]+"#,
            |before, _, _| !before.ends_with(['@', '/', '.', '-']),
        ),
        (
            Label::Password,
            r"(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[oprsu]_[0-9A-Za-z_]{16,}|github_pat_[0-9A-Za-z_]{20,}|glpat-[0-9A-Za-z_-]{16,}|sk-[0-9A-Za-z_-]{16,}|[prs]k_(?:live|test)_[0-9A-Za-z_]{10,}|xox[a-z]-[0-9A-Za-z_-]{10,}|AIza[0-9A-Za-z_-]{30,}|SG\.[0-9A-Za-z_-]{16,}\.[0-9A-Za-z_-]{16,}|npm_[0-9A-Za-z_]{30,}|hf_[0-9A-Za-z_]{20,}|ya29\.[0-9A-Za-z_-]{20,}|eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]*)?)",
            |before, _, _| is_outside_word(before),
        ),
        (Label::Password, r"(?i)\b(?:bearer|basic)\s+(?P<value>[0-9a-z_+/.~-]{12,}=*)", |_, found, _| is_random(found)),
        (
            Label::Password,
            r#"(?ix)(?P<key> [a-z0-9_.-]* (?: passw(?:or)?d | passphrase | passcode | pwd | secret | token | (?:api|access|auth|account|secret|private|encryption)[_-]?key ) (?:[_-]?id)? ["']? )
               \s* (?P<sign> :=|=>|=|: ) \s* (?: "(?P<double>[^"\n]+)" | '(?P<single>[^'\n]+)' | (?P<bare>[^\s,;&"'{}<>|()\[\]]+) )"#,
            |_, _, after| !after.starts_with(['(', '[']),
        ),
        (
            Label::Password,
            r"(?i)\b(?:secret|token|key|credential|password)s?:? +(?:is +|was +)?(?P<value>[0-9a-z+/_-]{24,}=*)",
            |_, found, _| is_random(found) && found.contains(char::is_uppercase) && found.contains(char::is_lowercase),
        ),
        (Label::IpAddress, r"\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2}\b)?", |before, found, after| {
            let is_build = after.trim_start().starts_with("build ");
            is_quad(found) && !is_version(before) && !is_build && !continues(before, after)
        }),
        (Label::IpAddress, r"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}", |before, _, after| {
            is_outside_word(before) && !before.ends_with([':', '-']) && is_end(after, &[':', '-'])
        }),
        (Label::IpAddress, r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}", |before, found, after| {
            is_outside_word(before)
                && !after.starts_with(|letter: char| letter.is_alphanumeric() || letter == ':')
                && found.len() > 5
                && found.contains(|letter: char| letter.is_ascii_digit())
                && found.trim_end_matches(':').parse::<std::net::Ipv6Addr>().is_ok()
        }),
        (
            Label::BankingInformation,
            r"(?:bc1[a-z0-9]{25,60}|[13][1-9A-HJ-NP-Za-km-z]{25,34}|0x[0-9a-fA-F]{40})",
            |before, found, after| is_outside_word(before) && is_end(after, &[]) && is_random(found),
        ),
    ];
    let compiled = table
        .into_iter()
        .filter_map(|(label, pattern, check)| Some(Pattern { label, regex: Regex::new(pattern).ok()?, check }));
    compiled.collect()
});

/// The identifiers of a text, in order and without overlaps.
pub fn find(text: &str) -> Vec<Form> {
    let plain = Plain::new(text);
    // By their start: a text may be one long list of addresses.
    let mut found: BTreeMap<usize, Form> = BTreeMap::new();
    let claim = |found: &mut BTreeMap<usize, Form>, bytes: Range<usize>, label| {
        let before = found.range(..bytes.end).next_back();
        if !bytes.is_empty() && before.is_none_or(|(_, other)| other.bytes.end <= bytes.start) {
            found.insert(bytes.start, Form { bytes, label });
        }
    };
    for Pattern { label, regex, check } in PATTERNS.iter() {
        for captures in regex.captures_iter(&plain.text) {
            let Some(whole) = captures.get(0) else { continue };
            let value = match captures.name("sign") {
                Some(sign) => assigned(&captures, sign.as_str()),
                None => Some(captures.name("value").unwrap_or(whole).range()),
            };
            let Some(mut bytes) = value else { continue };
            bytes = trimmed(&plain.text, bytes, *label);
            if check(&plain.text[..bytes.start], &plain.text[bytes.clone()], &plain.text[bytes.end..]) {
                claim(&mut found, bytes, *label);
            }
        }
    }
    digits::find(&plain.text, |bytes, label| claim(&mut found, bytes, label));
    for account in accounts_on_hosts(&plain.text, found.values()) {
        claim(&mut found, account.bytes, account.label);
    }
    found.into_values().map(|form| Form { bytes: plain.original(&form.bytes), ..form }).collect()
}

/// The value of a key that names a secret. Prose after a colon is none.
fn assigned(captures: &regex::Captures<'_>, sign: &str) -> Option<Range<usize>> {
    const NO_VALUES: [&str; 14] = [
        "null",
        "none",
        "nil",
        "true",
        "false",
        "string",
        "str",
        "text",
        "required",
        "undefined",
        "optional",
        "empty",
        "yes",
        "no",
    ];
    let quoted = captures.name("double").or_else(|| captures.name("single"));
    let value = quoted.or_else(|| captures.name("bare"))?;
    let text = value.as_str().trim_end_matches(['.', '!', '?']);
    let spaced = captures.get(0)?.as_str().contains(": ");
    let is_written = sign != ":" || quoted.is_some() || !spaced || is_mixed(text);
    let is_count = text.len() < 6 && text.chars().all(|letter| letter.is_ascii_digit());
    let key = captures.name("key")?.as_str().to_lowercase();
    let is_counted = is_count && !key.contains("pass") && !key.contains("pwd");
    let is_mark = !text.contains(char::is_alphanumeric) || text.starts_with('$') || text.contains("***");
    (is_written && text.len() > 2 && !is_counted && !is_mark && !NO_VALUES.contains(&text.to_lowercase().as_str()))
        .then(|| value.range())
}

/// A match without the punctuation of the sentence, and without the letter of an escape before an address: `\nJo@example.com`.
fn trimmed(text: &str, mut bytes: Range<usize>, label: Label) -> Range<usize> {
    if label == Label::EmailAddress
        && text[..bytes.start].ends_with('\\')
        && text[bytes.clone()].starts_with(['n', 't', 'r'])
    {
        bytes.start += 1;
    }
    if label == Label::Url {
        let found = &text[bytes.clone()];
        let mut kept = found.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', ']', '}']);
        if !kept.contains('(') {
            kept = kept.trim_end_matches([')', '.', ',', ';']);
        }
        bytes.end = bytes.start + kept.len();
    }
    bytes
}

/// "root@10.1.2.3": the account before the address of a host.
fn accounts_on_hosts<'a>(text: &str, found: impl Iterator<Item = &'a Form>) -> Vec<Form> {
    let hosts = found.filter(|form| form.label == Label::IpAddress);
    let accounts = hosts.filter_map(|form| {
        let before = text[..form.bytes.start].strip_suffix('@')?;
        let name = before
            .rfind(|letter: char| !(letter.is_alphanumeric() || "._-".contains(letter)))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        (name < before.len()).then_some(Form { bytes: name..before.len(), label: Label::Username })
    });
    accounts.collect()
}

fn is_quad(found: &str) -> bool {
    let octets = found.split('/').next().unwrap_or(found);
    octets.split('.').all(|octet| octet.parse::<u8>().is_ok())
}

/// "version 1.2.3.4".
fn is_version(before: &str) -> bool {
    let word = before.trim_end().rsplit(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    matches!(
        word.to_lowercase().as_str(),
        "v" | "version"
            | "versions"
            | "ver"
            | "release"
            | "build"
            | "firmware"
            | "driver"
            | "section"
            | "chapter"
            | "clause"
    )
}

/// Digits and dots go on before or behind.
fn continues(before: &str, after: &str) -> bool {
    let number = |rest: Option<char>| rest.is_some_and(|letter| letter.is_ascii_digit());
    let mut ahead = after.chars();
    before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '.' || letter == '_')
        || match ahead.next() {
            Some('.') => number(ahead.next()),
            Some('-') => ahead.next().is_some_and(char::is_alphabetic),
            Some(letter) => letter.is_alphanumeric(),
            None => false,
        }
}

fn is_outside_word(before: &str) -> bool {
    !before.ends_with(|letter: char| letter.is_alphanumeric())
}

/// No letter, no digit and none of these marks follows.
fn is_end(after: &str, marks: &[char]) -> bool {
    !after.starts_with(|letter: char| letter.is_alphanumeric() || marks.contains(&letter))
}

fn is_mixed(text: &str) -> bool {
    text.contains(|letter: char| letter.is_ascii_digit()) && text.contains(char::is_alphabetic)
        || text.contains(|letter: char| "!@#$%^&*_+=~".contains(letter)) && text.contains(char::is_alphanumeric)
}

/// Digits and letters mixed as in a key.
fn is_random(text: &str) -> bool {
    text.contains(|letter: char| letter.is_ascii_digit()) && text.contains(|letter: char| letter.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::super::{Redaction, redact_text};
    use super::*;

    fn hidden(text: &str) -> String {
        redact_text(text, &Redaction::default()).0
    }

    #[test]
    fn every_pattern_is_a_regular_expression() {
        assert_eq!(PATTERNS.len(), 14);
        for secret in ["AKIAIOSFODNN7EXAMPLE", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "sk-proj-a1b2c3d4e5f6g7h8"] {
            assert_eq!(hidden(&format!("It uses {secret}.")), "It uses [PASSWORD].");
        }
    }

    #[test]
    fn identifiers_are_found_beside_any_sign() {
        for (text, expected) in [
            (r"E-mail:\nJo@example.com", r"E-mail:\n[EMAIL_ADDRESS]"),
            ("|10.1.2.3|", "|[IP_ADDRESS]|"),
            ("ssh root@10.1.2.3 now", "ssh [USERNAME]@[IP_ADDRESS] now"),
            ("See https://medium.com/@jo, please.", "See [URL], please."),
            ("?email=jo@example.com&token=1", "?email=[EMAIL_ADDRESS]&token=1"),
            ("10.1.2.3/24 is full", "[IP_ADDRESS] is full"),
            ("[2001:db8::1]:443", "[[IP_ADDRESS]]:443"),
            ("jo@example.com/ann@example.org", "[EMAIL_ADDRESS]/[EMAIL_ADDRESS]"),
            ("jo (at) example (dot) com", "[EMAIL_ADDRESS]"),
            ("SSN130-07-5728", "SSN[US_SOCIAL_SECURITY_NUMBER]"),
            ("Jo Smith|130-07-5728|4111111111111111", "[PERSON_NAME]|[US_SOCIAL_SECURITY_NUMBER]|[CREDIT_CARD_NUMBER]"),
            (
                r#"{"name":"Ann Smith","ssn":"130-07-5728"}"#,
                r#"{"name":"[PERSON_NAME]","ssn":"[US_SOCIAL_SECURITY_NUMBER]"}"#,
            ),
        ] {
            assert_eq!(hidden(text), expected);
        }
    }

    #[test]
    fn an_identifier_beside_other_numbers_is_found() {
        for (text, expected) in [
            ("Room 12 130-07-5728 3", "Room 12 [US_SOCIAL_SECURITY_NUMBER] 3"),
            ("page 3 415-555-2671 24/7", "page 3 [PHONE_NUMBER] 24/7"),
            ("4111 1111 1111 1111 123", "[CREDIT_CARD_NUMBER] 123"),
            ("DE89370400440532013000 500", "[BANKING_INFORMATION] 500"),
            ("4111-1111-1111-1111 12/27", "[CREDIT_CARD_NUMBER] [CREDIT_CARD_EXPIRATION]"),
            ("Jo|4111111111111111|12/27|123", "Jo|[CREDIT_CARD_NUMBER]|[CREDIT_CARD_EXPIRATION]|[CREDIT_CARD_CVV]"),
            ("4111 1111 1111 1111, 3/4 cups", "[CREDIT_CARD_NUMBER], 3/4 cups"),
            ("+14155552671 2", "[PHONE_NUMBER] 2"),
        ] {
            assert_eq!(hidden(text), expected);
        }
    }

    #[test]
    fn other_forms_of_the_same_characters_are_read_and_the_original_is_cut() {
        let text =
            "é SSN: 078‑05‑1120, ｊｏ＠ｅｘａｍｐｌｅ．ｃｏｍ, jo%40example.com, jo@\u{200b}example.com, ٤١٥-٥٥٥-٢٦٧١.";
        let (redacted, spans) = redact_text(text, &Redaction::default());
        let mails = "[EMAIL_ADDRESS], [EMAIL_ADDRESS], [EMAIL_ADDRESS]";
        assert_eq!(redacted, format!("é SSN: [US_SOCIAL_SECURITY_NUMBER], {mails}, [PHONE_NUMBER]."));
        let letters: Vec<char> = text.chars().collect();
        for span in spans {
            assert_eq!(letters[span.start_char..span.end_char].iter().collect::<String>(), span.text);
        }
    }

    #[test]
    fn secrets_are_found_by_their_key() {
        for (text, expected) in [
            ("pwd=Winter24", "pwd=[PASSWORD]"),
            ("passwd: xk9-horse", "passwd: [PASSWORD]"),
            ("key X secret wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "key X secret [PASSWORD]"),
            ("DB_PASSWORD=tiger", "DB_PASSWORD=[PASSWORD]"),
            (r#""api_key": "a8f5f167f44f""#, r#""api_key": "[PASSWORD]""#),
            (r#"{"password":"s3cr3t","port":80}"#, r#"{"password":"[PASSWORD]","port":80}"#),
        ] {
            assert_eq!(hidden(text), expected);
        }
    }

    #[test]
    fn forms_of_other_things_stay() {
        for text in [
            "The guid is 110bcd25-a55d-453a-8046-1297901ea002",
            "It uses version 1.2.3.4 of the tool, then 2.10.0.1-beta.",
            "2024-05-01 08:51:06,123 INFO 1607635102.00 -0.96",
            "max_tokens=100, token: the smallest part, password=None",
            "Install react@18.2.0 at 12:30:45 for $1,234.50.",
            "Commit 3f2a9b7c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6a is on page 3, 24/7.",
            "let token = next_token(); let secret = keys[0];",
            "std::fs::read and a::b are paths.",
        ] {
            assert_eq!(hidden(text), text);
        }
    }
}
