//! Transcripts: creation, lists, deletion. Their jobs are in `jobs`.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::job_options::JobOptions;
use super::tags;
use super::transcript_list::{has_tag, title_key};
use super::uploads::{MAX_PUT_MS, RowLock, StaleUpload, queue_deletion};
use super::{Allowance, Result, Store, Topic, Tx};
use crate::clock;
use crate::ids::{AccountId, TranscriptId, UploadId};

/// The source of the audio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Url(String),
    Upload(UploadId),
}

impl Source {
    /// The source in the columns `audio_url` and `upload_id`; none for a call, whose audio is not kept.
    pub(super) fn read(row: &AnyRow) -> Result<Option<Self>> {
        Ok(match row.try_get::<Option<String>, _>("audio_url")? {
            Some(url) => Some(Self::Url(url)),
            None => row.try_get::<Option<String>, _>("upload_id")?.map(|id| Self::Upload(id.into())),
        })
    }
}

/// The status of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Queued,
    Processing,
    Completed,
    Error,
}

impl Status {
    pub const ALL: [Self; 4] = [Self::Queued, Self::Processing, Self::Completed, Self::Error];

    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Processing => "processing",
            Self::Completed => "completed",
            Self::Error => "error",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

/// A validated request to create a transcript.
#[derive(Clone, Debug)]
pub struct NewTranscript {
    pub id: TranscriptId,
    pub account: AccountId,
    pub source: Source,
    pub model: String,
    pub title: Option<String>,
    pub language_code: Option<String>,
    pub webhook_url: Option<String>,
    /// The other options.
    pub options: JobOptions,
    /// What the client should know of the request.
    pub warnings: Vec<String>,
    /// The part of the credit that is reserved for it.
    pub reserved_cents: i64,
    pub created_at: i64,
}

#[cfg(test)]
impl NewTranscript {
    /// For tests: of an address, without options.
    pub fn of_url(account: &AccountId) -> Self {
        Self {
            id: TranscriptId::new(),
            account: account.clone(),
            source: Source::Url("http://example.com/".into()),
            model: "svc-best".into(),
            title: None,
            language_code: None,
            webhook_url: None,
            options: JobOptions::default(),
            warnings: Vec::new(),
            reserved_cents: 0,
            created_at: clock::now_ms(),
        }
    }
}

/// The result of creating a transcript.
pub enum Created {
    New(TranscriptId),
    /// The idempotency key was used for the same request before.
    Existing(TranscriptId),
    /// The idempotency key was used for another request.
    Conflict,
    /// The upload was deleted meanwhile.
    NoUpload,
    /// The credit does not cover the estimate.
    NoCredit(Allowance),
}

/// A stored transcript.
#[derive(Clone, Debug)]
pub struct Transcript {
    pub id: TranscriptId,
    pub status: Status,
    pub model: String,
    pub title: Option<String>,
    pub language_code: Option<String>,
    pub webhook_url: Option<String>,
    /// None for a call, whose audio is not kept.
    pub source: Option<Source>,
    pub options: JobOptions,
    pub text: Option<String>,
    pub words: StoredWords,
    /// Utterances, as a JSON array; none without speaker labels. They are about as long as the text.
    pub utterances: Option<String>,
    pub confidence: Option<f64>,
    /// Known from the start of the job, where the file tells, and in any case at its end.
    pub duration_ms: Option<i64>,
    pub progress_ms: i64,
    /// The analysis, as a JSON object.
    pub analysis: Option<String>,
    /// What the client should know, as a JSON array of strings; none where there is nothing.
    pub warnings: Option<String>,
    pub error: Option<String>,
    pub created_at: i64,
    pub completed_at: Option<i64>,
    /// How often it was edited.
    pub version: i64,
    pub edition: Edition,
}

/// Text, words and utterances of a transcript that may have been edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// As of its version.
    Edited,
    /// As recognised, before the first edit.
    Original,
}

/// The words of a transcript, as a JSON array.
#[derive(Clone, Debug)]
pub enum StoredWords {
    None,
    Read(String),
    /// They are many, and are read apart.
    Large,
}

/// The words of a transcript that are read in parts.
#[derive(Clone, Debug)]
pub struct LargeWords {
    id: TranscriptId,
    version: i64,
    edition: Edition,
}

impl LargeWords {
    pub fn of(transcript: &Transcript) -> Self {
        Self { id: transcript.id.clone(), version: transcript.version, edition: transcript.edition }
    }
}

/// The size of a part of the words, in characters.
const WORDS_PART: usize = 1 << 20;

/// A page of a list of transcripts.
#[derive(Clone, Copy, Debug)]
pub struct TranscriptQuery {
    pub status: Option<Status>,
    pub limit: i64,
    pub offset: i64,
}

/// The key of a transcript's redacted recording in the object store.
pub fn redacted_audio_key(account: &AccountId, transcript: &TranscriptId) -> String {
    format!("redacted/{account}/{transcript}")
}

/// Lifetime of an idempotency key.
pub(super) const IDEMPOTENCY_MS: i64 = 24 * 3_600_000;

/// The part of the audio that a job has done, where its length is known.
pub fn percent(progress_ms: i64, duration_ms: Option<i64>) -> Option<i64> {
    let duration_ms = duration_ms.filter(|ms| *ms > 0)?;
    Some((progress_ms * 100 / duration_ms).clamp(0, 100))
}

/// The query of the columns that `transcript` reads. `$which` selects the rows.
macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT id, account_id, status, model, title, language_code, webhook_url, audio_url, upload_id, options, text, confidence, duration_ms, progress_ms, ",
            "CASE WHEN octet_length(words) <= 262144 THEN words END AS words, ",
            "CASE WHEN words IS NULL THEN 0 ELSE 1 END AS has_words, ",
            "analysis, utterances, warnings, error, created_at, completed_at, version FROM transcripts ",
            $which
        )
    };
}

pub(super) use select;

pub(super) fn transcript(row: &AnyRow) -> Result<Transcript> {
    let options: String = row.try_get("options")?;
    Ok(Transcript {
        id: row.try_get::<String, _>("id")?.into(),
        status: Status::named(&row.try_get::<String, _>("status")?).unwrap_or(Status::Error),
        model: row.try_get("model")?,
        title: row.try_get("title")?,
        language_code: row.try_get("language_code")?,
        webhook_url: row.try_get("webhook_url")?,
        source: Source::read(row)?,
        options: JobOptions::read(&options).unwrap_or_default(),
        text: row.try_get("text")?,
        words: StoredWords::read(row)?,
        utterances: row.try_get("utterances")?,
        confidence: row.try_get("confidence")?,
        duration_ms: row.try_get("duration_ms")?,
        progress_ms: row.try_get("progress_ms")?,
        analysis: row.try_get("analysis")?,
        warnings: row.try_get("warnings")?,
        error: row.try_get("error")?,
        created_at: row.try_get("created_at")?,
        completed_at: row.try_get("completed_at")?,
        version: row.try_get("version")?,
        edition: Edition::Edited,
    })
}

impl StoredWords {
    /// The words in the columns `words` and `has_words`.
    pub(super) fn read(row: &AnyRow) -> Result<Self> {
        Ok(match row.try_get::<Option<String>, _>("words")? {
            Some(words) => Self::Read(words),
            None if row.try_get::<i64, _>("has_words")? == 0 => Self::None,
            None => Self::Large,
        })
    }
}

/// Warnings as they are stored.
pub(super) fn stored_warnings<'a>(warnings: impl Iterator<Item = &'a String>) -> Option<String> {
    let warnings: Vec<&String> = warnings.collect();
    (!warnings.is_empty()).then(|| serde_json::json!(warnings).to_string())
}

impl Store {
    /// Creates a transcript with its job. `idempotency` is a key and the hash of the request body: a repeated request returns
    /// the first transcript.
    pub async fn create_transcript(&self, new: &NewTranscript, idempotency: Option<(&str, &str)>) -> Result<Created> {
        let mut tx = self.begin().await?;
        if let Some((key, body_hash)) = idempotency
            && let Some(existing) = claim_idempotency_key(&mut tx, new, key, body_hash).await?
        {
            tx.commit().await?;
            return Ok(existing);
        }
        let allowance = self.locked_allowance(&mut tx, &new.account).await?;
        if !allowance.allows(new.reserved_cents) {
            return Ok(Created::NoCredit(allowance));
        }
        let (url, upload) = match &new.source {
            Source::Url(url) => (Some(url.as_str()), None),
            Source::Upload(id) if !self.lock_upload(&mut tx, id, RowLock::Share).await? => {
                return Ok(Created::NoUpload);
            }
            Source::Upload(id) => (None, Some(id.as_str())),
        };
        sqlx::query(
            "INSERT INTO transcripts (id, account_id, status, model, title, language_code, audio_url, upload_id, options,
                                      webhook_url, created_at, reserved_cents, title_key, warnings)
             VALUES ($1, $2, 'queued', $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        )
        .bind(new.id.as_str())
        .bind(new.account.as_str())
        .bind(&new.model)
        .bind(new.title.as_deref())
        .bind(new.language_code.as_deref())
        .bind(url)
        .bind(upload)
        .bind(new.options.stored())
        .bind(new.webhook_url.as_deref())
        .bind(new.created_at)
        .bind(new.reserved_cents)
        .bind(new.title.as_deref().map(title_key))
        .bind(stored_warnings(new.warnings.iter()))
        .execute(&mut *tx)
        .await?;
        self.notify(&mut tx, Topic::Jobs).await?;
        tx.commit().await?;
        Ok(Created::New(new.id.clone()))
    }

    /// The result of an earlier request with this idempotency key, if there was one.
    pub async fn find_idempotent(&self, account: &AccountId, key: &str, body_hash: &str) -> Result<Option<Created>> {
        let row = sqlx::query(
            "SELECT body_hash, transcript_id FROM idempotency_keys
             WHERE account_id = $1 AND idempotency_key = $2 AND created_at >= $3",
        )
        .bind(account.as_str())
        .bind(key)
        .bind(clock::now_ms() - IDEMPOTENCY_MS)
        .fetch_optional(&self.read)
        .await?;
        row.map(|row| earlier_request(&row, body_hash)).transpose()
    }

    /// All words of a transcript, as a JSON array. None if it was deleted meanwhile or has none.
    pub async fn words(&self, transcript: &Transcript) -> Result<Option<String>> {
        if let StoredWords::Read(words) = &transcript.words {
            return Ok(Some(words.clone()));
        }
        let sql = match transcript.edition {
            Edition::Edited => "SELECT words FROM transcripts WHERE id = $1",
            Edition::Original => "SELECT words FROM originals WHERE transcript_id = $1",
        };
        let words: Option<Option<String>> =
            sqlx::query_scalar(sql).bind(transcript.id.as_str()).fetch_optional(&self.read).await?;
        Ok(words.flatten())
    }

    /// A part of the words of a transcript, counted from 0, and whether it is the last.
    ///
    /// # Errors
    /// Also if the transcript was deleted or edited meanwhile.
    pub async fn words_part(&self, of: &LargeWords, part: i64) -> Result<(String, bool)> {
        let chars = WORDS_PART as i64;
        let sql = match of.edition {
            Edition::Edited => {
                "SELECT substr(words, CAST($2 AS INTEGER), CAST($3 AS INTEGER)) AS part FROM transcripts
                 WHERE id = $1 AND version = $4"
            }
            // They do not change.
            Edition::Original => {
                "SELECT substr(words, CAST($2 AS INTEGER), CAST($3 AS INTEGER)) AS part FROM originals
                 WHERE transcript_id = $1 AND $4 = $4"
            }
        };
        let text: String = sqlx::query_scalar(sql)
            .bind(of.id.as_str())
            .bind(part * chars + 1)
            .bind(chars)
            .bind(of.version)
            .fetch_one(&self.read)
            .await?;
        let is_last = text.chars().count() < WORDS_PART;
        Ok((text, is_last))
    }

    /// A page of an account's transcripts, newest first, and their total number; of those with a tag, unless that is empty.
    pub async fn transcripts(
        &self,
        account: &AccountId,
        query: TranscriptQuery,
        tag: &str,
    ) -> Result<(Vec<TranscriptId>, i64)> {
        let status = query.status.map_or("", Status::name);
        let ids: Vec<String> = sqlx::query_scalar(concat!(
            "SELECT id FROM transcripts WHERE account_id = $1 AND ($2 = '' OR status = $2) AND ",
            has_tag!("id", "$5", "$1"),
            " ORDER BY created_at DESC, id DESC LIMIT $3 OFFSET $4"
        ))
        .bind(account.as_str())
        .bind(status)
        .bind(query.limit)
        .bind(query.offset)
        .bind(tags::key(tag))
        .fetch_all(&self.read)
        .await?;
        let total = sqlx::query_scalar(concat!(
            "SELECT COUNT(*) FROM transcripts WHERE account_id = $1 AND ($2 = '' OR status = $2) AND ",
            has_tag!("id", "$3", "$1")
        ))
        .bind(account.as_str())
        .bind(status)
        .bind(tags::key(tag))
        .fetch_one(&self.read)
        .await?;
        Ok((ids.into_iter().map(TranscriptId::from).collect(), total))
    }

    /// Deletes a transcript, and its upload if no other transcript uses it. A running job notices with its next heartbeat.
    /// False if there is no such transcript.
    pub async fn delete_transcript(&self, account: &AccountId, id: &TranscriptId) -> Result<bool> {
        let mut tx = self.begin().await?;
        let row = sqlx::query("DELETE FROM transcripts WHERE id = $1 AND account_id = $2 RETURNING upload_id, options")
            .bind(id.as_str())
            .bind(account.as_str())
            .fetch_optional(&mut *tx)
            .await?;
        let Some(row) = row else { return Ok(false) };
        sqlx::query("DELETE FROM idempotency_keys WHERE transcript_id = $1")
            .bind(id.as_str())
            .execute(&mut *tx)
            .await?;
        // One that is still pending tells its receiver that the transcript has ended.
        sqlx::query("DELETE FROM webhooks WHERE transcript_id = $1 AND state <> 'pending'")
            .bind(id.as_str())
            .execute(&mut *tx)
            .await?;
        let options = JobOptions::read(&row.try_get::<String, _>("options")?);
        // Where options cannot be read there may be one.
        if options.map_or(true, |options| options.redact_audio.is_some()) {
            // A worker that has not noticed yet may still write it.
            let until_at = clock::now_ms() + MAX_PUT_MS;
            queue_deletion(&mut tx, &redacted_audio_key(account, id), until_at).await?;
        }
        if let Some(upload) = row.try_get::<Option<String>, _>("upload_id")?.map(UploadId::from) {
            self.delete_if_stale(&mut tx, &upload, StaleUpload::Unused).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// The number of an account's queued transcripts, counted up to `most`.
    pub async fn queued_transcripts(&self, account: &AccountId, most: i64) -> Result<i64> {
        sqlx::query_scalar(
            "SELECT COUNT(*) FROM
             (SELECT 1 AS one FROM transcripts WHERE account_id = $1 AND status = 'queued' LIMIT $2) AS queued",
        )
        .bind(account.as_str())
        .bind(most)
        .fetch_one(&self.read)
        .await
    }

    /// The numbers of queued and of processing transcripts.
    pub async fn queue_depth(&self) -> Result<(i64, i64)> {
        let row = sqlx::query(
            "SELECT (SELECT COUNT(*) FROM transcripts WHERE status = 'queued') AS queued,
                    (SELECT COUNT(*) FROM transcripts WHERE status = 'processing') AS processing",
        )
        .fetch_one(&self.read)
        .await?;
        Ok((row.try_get("queued")?, row.try_get("processing")?))
    }
}

/// Claims the idempotency key for `new`. Returns the earlier result if the key is taken.
async fn claim_idempotency_key(
    tx: &mut Tx,
    new: &NewTranscript,
    key: &str,
    body_hash: &str,
) -> Result<Option<Created>> {
    sqlx::query("DELETE FROM idempotency_keys WHERE account_id = $1 AND idempotency_key = $2 AND created_at < $3")
        .bind(new.account.as_str())
        .bind(key)
        .bind(new.created_at - IDEMPOTENCY_MS)
        .execute(&mut **tx)
        .await?;
    let taken = sqlx::query(
        "INSERT INTO idempotency_keys (account_id, idempotency_key, body_hash, transcript_id, created_at)
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (account_id, idempotency_key) DO NOTHING",
    )
    .bind(new.account.as_str())
    .bind(key)
    .bind(body_hash)
    .bind(new.id.as_str())
    .bind(new.created_at)
    .execute(&mut **tx)
    .await?;
    if taken.rows_affected() > 0 {
        return Ok(None);
    }
    let row = sqlx::query(
        "SELECT body_hash, transcript_id FROM idempotency_keys WHERE account_id = $1 AND idempotency_key = $2",
    )
    .bind(new.account.as_str())
    .bind(key)
    .fetch_one(&mut **tx)
    .await?;
    earlier_request(&row, body_hash).map(Some)
}

/// Compares the request with the earlier one of its idempotency key.
fn earlier_request(row: &AnyRow, body_hash: &str) -> Result<Created> {
    let same = row.try_get::<String, _>("body_hash")? == body_hash;
    Ok(if same { Created::Existing(row.try_get::<String, _>("transcript_id")?.into()) } else { Created::Conflict })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Durability;

    #[tokio::test]
    async fn many_words_are_read_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        let account = store.account_of("a@example.com", 100).await.unwrap().id;
        let new = NewTranscript::of_url(&account);
        store.create_transcript(&new, None).await.unwrap();
        let read = async || store.transcript(&account, &new.id).await.unwrap().unwrap();
        assert!(matches!(read().await.words, StoredWords::None));
        // An end at the border of a part, and one behind it.
        for count in [3, 2 * WORDS_PART, 2 * WORDS_PART + 1] {
            let words = "ä".repeat(count);
            sqlx::query("UPDATE transcripts SET words = $1").bind(&words).execute(&store.write).await.unwrap();
            let transcript = read().await;
            assert_eq!(store.words(&transcript).await.unwrap().as_deref(), Some(words.as_str()));
            if count == 3 {
                assert!(matches!(&transcript.words, StoredWords::Read(read) if *read == words));
                continue;
            }
            assert!(matches!(transcript.words, StoredWords::Large));
            let (mut all, mut part) = (String::new(), 0);
            loop {
                let (text, is_last) = store.words_part(&LargeWords::of(&transcript), part).await.unwrap();
                all += &text;
                part += 1;
                if is_last {
                    break;
                }
            }
            assert!(all == words && part == 3, "{count}: {part}");
        }
        let words = LargeWords::of(&*read().await);
        sqlx::query("UPDATE transcripts SET version = 1").execute(&store.write).await.unwrap();
        assert!(store.words_part(&words, 0).await.is_err(), "parts of two versions do not fit together");
        let words = LargeWords::of(&*read().await);
        assert!(store.words_part(&words, 0).await.is_ok());
        store.delete_transcript(&account, &new.id).await.unwrap();
        assert!(store.words_part(&words, 0).await.is_err());
    }
}
