//! The words of all letters. They are plain text, so nothing in them is markup.

use url::Url;

use crate::billing::dollars;
use crate::config::url_below;
use crate::store::Letter;

/// A letter as it is sent.
pub struct Text {
    pub subject: String,
    pub body: String,
}

/// Writes a letter with links to the dashboard.
pub fn write(letter: &Letter, dashboard: &Url) -> Text {
    let link = |path: &str| url_below(dashboard, path);
    let (subject, body) = match letter {
        Letter::Invitation { owner, secret } => (
            "You are invited to a team on Auricle".to_owned(),
            format!(
                "{owner} invites you to work in one account on Auricle.\n\nOpen this link to set your password:\n\n{}\n\n\
                 It works once and ends after 7 days. If you do not know the sender, ignore this mail.\n",
                link(&format!("/join/{secret}"))
            ),
        ),
        Letter::Reset { secret } => (
            "Set another password for Auricle".to_owned(),
            format!(
                "Somebody, probably you, has asked for another password for your account on Auricle.\n\nOpen this link to set \
                 it:\n\n{}\n\nIt works once and ends after a day. If it was not you, ignore this mail; your password stays as it \
                 is.\n",
                link(&format!("/welcome/{secret}"))
            ),
        ),
        Letter::SignUp { secret } => (
            "Create your account on Auricle".to_owned(),
            format!(
                "Open this link to set a password and create your account:\n\n{}\n\nIt works once and ends after a day. If you \
                 did not ask for an account, ignore this mail.\n",
                link(&format!("/confirm/{secret}"))
            ),
        ),
        Letter::Present => (
            "You have an account on Auricle".to_owned(),
            format!(
                "Somebody, probably you, wanted to create an account for this address, which has one.\n\nSign in:\n\n{}\n\nA \
                 forgotten password:\n\n{}\n\nIf it was not you, ignore this mail.\n",
                link("/login"),
                link("/forgot")
            ),
        ),
        Letter::Budget { month, limit_cents, spent_cents } => {
            let month = format!("{}-{}", month.get(..4).unwrap_or_default(), month.get(4..).unwrap_or_default());
            (
                format!("Auricle: {} used in {month}", dollars(*spent_cents)),
                format!(
                    "The usage of your account in {month} has cost {} so far. You asked for a mail at {}.\n\nUsage:\n\n{}\n\nThe \
                     limit of this mail:\n\n{}\n",
                    dollars(*spent_cents),
                    dollars(*limit_cents),
                    link("/usage"),
                    link("/billing")
                ),
            )
        }
    };
    Text { subject, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_dashboard() {
        let at = |letter| write(&letter, &Url::parse("https://example.com/console").unwrap()).body;
        let secret = || "s3cret".to_owned();
        let owner = "a@example.com".to_owned();
        for (letter, link) in [
            (Letter::Invitation { owner, secret: secret() }, "\nhttps://example.com/console/join/s3cret\n"),
            (Letter::Reset { secret: secret() }, "\nhttps://example.com/console/welcome/s3cret\n"),
            (Letter::SignUp { secret: secret() }, "\nhttps://example.com/console/confirm/s3cret\n"),
            (Letter::Present, "\nhttps://example.com/console/forgot\n"),
        ] {
            let body = at(letter);
            assert!(body.contains(link), "{body}");
        }
    }

    #[test]
    fn a_budget_is_written_in_dollars() {
        let letter = Letter::Budget { month: "202603".into(), limit_cents: 2500, spent_cents: 2507 };
        let text = write(&letter, &Url::parse("http://a").unwrap());
        assert_eq!(text.subject, "Auricle: $25.07 used in 2026-03");
        assert!(text.body.contains("has cost $25.07 so far. You asked for a mail at $25.00."), "{}", text.body);
    }
}
