//! The outbox of mail. A letter is written in the transaction of its cause, and is sent at least once.

use serde::{Deserialize, Serialize};
use sqlx::Row as _;

use super::webhook_outbox::is_due;
use super::{Error, MAX_DELAY_MS, Result, Store, Tx};
use crate::clock;
use crate::ids::{AccountId, LeaseId, MailId};

/// The contents of a letter. Secrets are those of links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "letter", rename_all = "snake_case")]
pub enum Letter {
    /// An invitation to the team of an owner.
    Invitation { owner: String, secret: String },
    /// A link that sets another password.
    Reset { secret: String },
    /// A link that creates an account.
    SignUp { secret: String },
    /// Somebody has tried to create an account for an address that belongs to one.
    Present,
    /// The cost of a month, `YYYYMM`, has reached the owner's limit.
    Budget { month: String, limit_cents: i64, spent_cents: i64 },
}

/// A claimed letter.
#[derive(Clone, Debug)]
pub struct Mail {
    pub id: MailId,
    pub lease: LeaseId,
    pub recipient: String,
    pub letter: Letter,
    /// Number of this attempt, from 1.
    pub attempt: i64,
    /// Afterwards the letter is of no use.
    pub expires_at: i64,
}

impl Store {
    /// Claims a due letter. Without a recorded outcome it is due again after `hold_ms`.
    pub async fn claim_mail(&self, hold_ms: i64) -> Result<Option<Mail>> {
        let now = clock::now_ms();
        // This frequent query takes no lock.
        let due: Option<i64> =
            sqlx::query_scalar(concat!("SELECT 1 AS one FROM mails WHERE ", is_due!("$1", "$2"), " LIMIT 1"))
                .bind(now)
                .bind(MAX_DELAY_MS)
                .fetch_optional(&self.read)
                .await?;
        if due.is_none() {
            return Ok(None);
        }
        let lease = LeaseId::new();
        let row = sqlx::query(concat!(
            "UPDATE mails SET lease = $1, due_at = $2 + $3, wait_ms = $3, attempts = attempts + 1
             WHERE id = (SELECT id FROM mails WHERE ",
            is_due!("$2", "$4"),
            " ORDER BY due_at LIMIT 1) AND ",
            is_due!("$2", "$4"),
            " RETURNING id, recipient, letter, attempts, expires_at",
        ))
        .bind(lease.as_str())
        .bind(now)
        .bind(hold_ms)
        .bind(MAX_DELAY_MS)
        .fetch_optional(&self.write)
        .await?;
        row.map(|row| {
            let letter: String = row.try_get("letter")?;
            Ok(Mail {
                id: row.try_get::<String, _>("id")?.into(),
                lease,
                recipient: row.try_get("recipient")?,
                letter: serde_json::from_str(&letter).map_err(|error| Error::Decode(error.into()))?,
                attempt: row.try_get("attempts")?,
                expires_at: row.try_get("expires_at")?,
            })
        })
        .transpose()
    }

    /// Closes a letter: sent, or failed for good with an error. What it says is forgotten.
    pub async fn close_mail(&self, mail: &Mail, error: Option<&str>) -> Result<()> {
        sqlx::query(
            "UPDATE mails SET state = $1, last_error = $2, letter = '', lease = NULL WHERE id = $3 AND lease = $4",
        )
        .bind(if error.is_none() { "sent" } else { "failed" })
        .bind(error)
        .bind(mail.id.as_str())
        .bind(mail.lease.as_str())
        .execute(&self.write)
        .await?;
        Ok(())
    }

    /// Records a failed attempt. The letter is due again after `delay_ms`.
    pub async fn postpone_mail(&self, mail: &Mail, delay_ms: i64, error: &str) -> Result<()> {
        sqlx::query(
            "UPDATE mails SET due_at = $1, wait_ms = $2, last_error = $3, lease = NULL WHERE id = $4 AND lease = $5",
        )
        .bind(clock::now_ms() + delay_ms)
        .bind(delay_ms)
        .bind(error)
        .bind(mail.id.as_str())
        .bind(mail.lease.as_str())
        .execute(&self.write)
        .await?;
        Ok(())
    }
}

/// Writes a letter with this transaction.
pub(super) async fn enqueue(
    tx: &mut Tx,
    account: Option<&AccountId>,
    recipient: &str,
    letter: &Letter,
    expires_at: i64,
) -> Result<()> {
    let letter = serde_json::to_string(letter).map_err(|error| Error::Encode(error.into()))?;
    insert(tx, account, recipient, &letter, "pending", expires_at).await
}

/// Writes what a letter would have been, for an address to which none goes, so that the answer takes as long.
pub(super) async fn enqueue_nothing(tx: &mut Tx) -> Result<()> {
    insert(tx, None, "", "", "sent", clock::now_ms()).await
}

async fn insert(
    tx: &mut Tx,
    account: Option<&AccountId>,
    recipient: &str,
    letter: &str,
    state: &str,
    expires_at: i64,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO mails (id, account_id, recipient, letter, state, due_at, wait_ms, created_at, expires_at)
         VALUES ($1, $2, $3, $4, $5, $6, 0, $6, $7)",
    )
    .bind(MailId::new().as_str())
    .bind(account.map(AccountId::as_str))
    .bind(recipient)
    .bind(letter)
    .bind(state)
    .bind(clock::now_ms())
    .bind(expires_at)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
