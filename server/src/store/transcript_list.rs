//! The dashboard's list of transcripts: search, filters, pages by cursor. The index `transcripts_list` holds all that is searched.

use std::fmt;
use std::ops::Range;

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{Result, Source, Status, Store, tags};
use crate::ids::{AccountId, TranscriptId, UploadId};

/// The length of the part of a title that is searched, in characters.
const TITLE_KEY_CHARS: usize = 200;

/// A title as it is searched.
pub(super) fn title_key(title: &str) -> String {
    // Lower case may have more characters.
    title.chars().take(TITLE_KEY_CHARS).flat_map(char::to_lowercase).take(TITLE_KEY_CHARS).collect()
}

/// The place of a transcript in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub created_at: i64,
    pub id: TranscriptId,
}

impl Cursor {
    /// Reads a cursor as it is written: `MILLISECONDS.ID`.
    pub fn parse(text: &str) -> Option<Self> {
        let (ms, id) = text.split_once('.')?;
        // PostgreSQL refuses a null.
        (!id.contains('\0')).then_some(Self { created_at: ms.parse().ok()?, id: TranscriptId::from(id.to_owned()) })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.created_at, self.id)
    }
}

/// The order of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Newest,
    Oldest,
    Title,
    Longest,
    Shortest,
}

impl Sort {
    const ALL: [Self; 5] = [Self::Newest, Self::Oldest, Self::Title, Self::Longest, Self::Shortest];

    pub fn name(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Oldest => "oldest",
            Self::Title => "title",
            Self::Longest => "longest",
            Self::Shortest => "shortest",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sort| sort.name() == name)
    }
}

/// A page of the list.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// A part of the title.
    pub search: String,
    pub status: Option<Status>,
    pub language: String,
    pub tag: String,
    pub sort: Sort,
    /// The last transcript of the page before.
    pub after: Option<Cursor>,
    pub limit: i64,
}

/// A transcript as the list shows it.
#[derive(Clone, Debug)]
pub struct ListedTranscript {
    pub id: TranscriptId,
    pub status: Status,
    pub model: String,
    pub title: Option<String>,
    pub language_code: Option<String>,
    pub duration_ms: Option<i64>,
    pub progress_ms: i64,
    pub error: Option<String>,
    /// Its cost; none if it was not billed.
    pub cents: Option<i64>,
    pub created_at: i64,
    pub tags: Vec<String>,
}

impl ListedTranscript {
    /// Its place in the list.
    pub fn cursor(&self) -> Cursor {
        Cursor { created_at: self.created_at, id: self.id.clone() }
    }
}

/// A page of the list by the ids at its borders, newest first.
#[derive(Clone, Debug)]
pub struct HeadQuery {
    pub status: Option<Status>,
    /// The time of creation.
    pub created: Range<i64>,
    pub before: Option<Cursor>,
    /// Without `before` the page is the one next to it.
    pub after: Option<Cursor>,
    pub limit: i64,
}

/// A transcript without its text.
#[derive(Clone, Debug)]
pub struct TranscriptHead {
    pub id: TranscriptId,
    pub status: Status,
    /// None for a call.
    pub source: Option<Source>,
    pub error: Option<String>,
    pub created_at: i64,
    pub completed_at: Option<i64>,
}

/// The source of a transcript's audio.
#[derive(Clone, Debug)]
pub struct AudioOf {
    pub url: Option<String>,
    pub upload: Option<UploadId>,
}

/// The pattern of `LIKE` for text that contains this one. Its escape character is `!`.
fn pattern(search: &str) -> String {
    let mut pattern = String::from("%");
    for character in title_key(search.trim()).chars() {
        if matches!(character, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

/// The columns that `listed` reads, of the transcript `t` and its usage `u`.
macro_rules! listed_columns {
    () => {
        "t.id, t.status, t.model, t.title, t.language_code, t.duration_ms, t.progress_ms, t.error, t.created_at,
         u.retail_cost_cents, (SELECT string_agg(g.tag, ',') FROM transcript_tags g WHERE g.transcript_id = t.id) AS tags"
    };
}

/// The condition that a transcript `$id` has a tag, the parameter `$tag`, unless that is empty. `$account` is its account.
macro_rules! has_tag {
    ($id:literal, $tag:literal, $account:literal) => {
        concat!(
            "(",
            $tag,
            " = '' OR ",
            $id,
            " IN (SELECT transcript_id FROM transcript_tags WHERE account_id = ",
            $account,
            " AND tag_key = ",
            $tag,
            "))"
        )
    };
}

pub(super) use has_tag;
pub(super) use listed_columns;

pub(super) fn listed(row: &AnyRow) -> Result<ListedTranscript> {
    Ok(ListedTranscript {
        id: row.try_get::<String, _>("id")?.into(),
        status: Status::named(&row.try_get::<String, _>("status")?).unwrap_or(Status::Error),
        model: row.try_get("model")?,
        title: row.try_get("title")?,
        language_code: row.try_get("language_code")?,
        duration_ms: row.try_get("duration_ms")?,
        progress_ms: row.try_get("progress_ms")?,
        error: row.try_get("error")?,
        cents: row.try_get("retail_cost_cents")?,
        created_at: row.try_get("created_at")?,
        tags: tags::split(row.try_get("tags")?),
    })
}

fn head(row: &AnyRow) -> Result<TranscriptHead> {
    Ok(TranscriptHead {
        id: row.try_get::<String, _>("id")?.into(),
        status: Status::named(&row.try_get::<String, _>("status")?).unwrap_or(Status::Error),
        source: Source::read(row)?,
        error: row.try_get("error")?,
        created_at: row.try_get("created_at")?,
        completed_at: row.try_get("completed_at")?,
    })
}

impl Store {
    /// A page of an account's transcripts.
    pub async fn list_transcripts(&self, account: &AccountId, query: &ListQuery) -> Result<Vec<ListedTranscript>> {
        macro_rules! page {
            ($key:literal, $beyond:literal, $order:literal) => {
                concat!(
                    "SELECT ",
                    listed_columns!(),
                    "
                     FROM (SELECT id, ",
                    $key,
                    " AS place FROM transcripts
                           WHERE account_id = $1 AND ",
                    $key,
                    " ",
                    $beyond,
                    "= $2
                             AND (",
                    $key,
                    " ",
                    $beyond,
                    " $2 OR id ",
                    $beyond,
                    " $3)
                             AND ($4 = '' OR status = $4) AND ($5 = '' OR language_code = $5)
                             AND ($6 = '%%' OR title_key LIKE $6 ESCAPE '!') AND ",
                    has_tag!("id", "$8", "$1"),
                    "
                           ORDER BY ",
                    $key,
                    " ",
                    $order,
                    ", id ",
                    $order,
                    " LIMIT $7) AS page
                     JOIN transcripts t ON t.id = page.id LEFT JOIN usage_events u ON u.transcript_id = t.id
                     ORDER BY page.place ",
                    $order,
                    ", t.id ",
                    $order
                )
            };
        }
        let sql = match query.sort {
            Sort::Newest => page!("created_at", "<", "DESC"),
            Sort::Oldest => page!("created_at", ">", "ASC"),
            Sort::Title => page!("COALESCE(title_key, '')", ">", "ASC"),
            Sort::Longest => page!("COALESCE(duration_ms, -1)", "<", "DESC"),
            Sort::Shortest => page!("COALESCE(duration_ms, -1)", ">", "ASC"),
        };
        let after = query.after.as_ref();
        let id = after.map_or("", |after| after.id.as_str());
        let sql = sqlx::query(sql).bind(account.as_str());
        let sql = match query.sort {
            Sort::Newest => sql.bind(after.map_or(i64::MAX, |after| after.created_at)),
            Sort::Oldest => sql.bind(after.map_or(-1, |after| after.created_at)),
            Sort::Longest | Sort::Shortest => {
                let before = if query.sort == Sort::Longest { i64::MAX } else { -2 };
                sql.bind(self.sort_keys(account, after).await?.map_or(before, |(_, length)| length))
            }
            Sort::Title => sql.bind(self.sort_keys(account, after).await?.map_or(String::new(), |(title, _)| title)),
        };
        let rows = sql
            .bind(id)
            .bind(query.status.map_or("", Status::name))
            .bind(&query.language)
            .bind(pattern(&query.search))
            .bind(query.limit)
            .bind(tags::key(&query.tag))
            .fetch_all(&self.read)
            .await?;
        rows.iter().map(listed).collect()
    }

    /// The title and the length of a transcript, as the list is ordered by them. None if it was deleted: then the list begins anew.
    async fn sort_keys(&self, account: &AccountId, at: Option<&Cursor>) -> Result<Option<(String, i64)>> {
        let Some(at) = at else { return Ok(None) };
        let sql = "SELECT COALESCE(title_key, '') AS title, COALESCE(duration_ms, -1) AS length FROM transcripts
                   WHERE id = $1 AND account_id = $2";
        let row = sqlx::query(sql).bind(at.id.as_str()).bind(account.as_str()).fetch_optional(&self.read).await?;
        row.map(|row| Ok((row.try_get("title")?, row.try_get("length")?))).transpose()
    }

    /// The place of a transcript in its account's list.
    pub async fn cursor(&self, account: &AccountId, id: TranscriptId) -> Result<Option<Cursor>> {
        let created_at = sqlx::query_scalar("SELECT created_at FROM transcripts WHERE id = $1 AND account_id = $2")
            .bind(id.as_str())
            .bind(account.as_str())
            .fetch_optional(&self.read)
            .await?;
        Ok(created_at.map(|created_at| Cursor { created_at, id }))
    }

    /// A page of an account's transcripts.
    pub async fn transcript_heads(&self, account: &AccountId, query: &HeadQuery) -> Result<Vec<TranscriptHead>> {
        macro_rules! page {
            ($order:literal) => {
                concat!(
                    "SELECT id, status, audio_url, upload_id, error, created_at, completed_at FROM transcripts
                     WHERE account_id = $1 AND created_at <= $2 AND (created_at < $2 OR id < $3)
                       AND created_at >= $4 AND (created_at > $4 OR id > $5) AND created_at >= $6 AND created_at < $7
                       AND ($8 = '' OR status = $8) ORDER BY created_at ",
                    $order,
                    ", id ",
                    $order,
                    " LIMIT $9"
                )
            };
        }
        let is_ascending = query.after.is_some() && query.before.is_none();
        let place = |cursor: &Option<Cursor>, none: i64| {
            cursor.as_ref().map_or((none, String::new()), |at| (at.created_at, at.id.to_string()))
        };
        let (before, after) = (place(&query.before, i64::MAX), place(&query.after, -1));
        let rows = sqlx::query(if is_ascending { page!("ASC") } else { page!("DESC") })
            .bind(account.as_str())
            .bind(before.0)
            .bind(before.1)
            .bind(after.0)
            .bind(after.1)
            .bind(query.created.start)
            .bind(query.created.end)
            .bind(query.status.map_or("", Status::name))
            .bind(query.limit)
            .fetch_all(&self.read)
            .await?;
        let mut heads = rows.iter().map(head).collect::<Result<Vec<_>>>()?;
        if is_ascending {
            heads.reverse();
        }
        Ok(heads)
    }

    /// The languages of an account's transcripts.
    pub async fn transcript_languages(&self, account: &AccountId) -> Result<Vec<String>> {
        // From each code the index leads to the next one, past all rows that have it.
        sqlx::query_scalar(
            "WITH RECURSIVE codes (code) AS (
                 SELECT head.code FROM (SELECT language_code AS code FROM transcripts
                     WHERE account_id = $1 AND language_code > '' ORDER BY language_code LIMIT 1) AS head
                 UNION ALL
                 SELECT (SELECT language_code FROM transcripts WHERE account_id = $1 AND language_code > codes.code
                         ORDER BY language_code LIMIT 1)
                 FROM codes WHERE codes.code IS NOT NULL)
             SELECT code FROM codes WHERE code IS NOT NULL LIMIT 100",
        )
        .bind(account.as_str())
        .fetch_all(&self.read)
        .await
    }

    /// A transcript of an account as the list shows it.
    pub async fn listed_transcript(&self, account: &AccountId, id: &TranscriptId) -> Result<Option<ListedTranscript>> {
        let row = sqlx::query(
            concat!("SELECT ", listed_columns!(), "
             FROM transcripts t LEFT JOIN usage_events u ON u.transcript_id = t.id WHERE t.id = $1 AND t.account_id = $2"),
        )
        .bind(id.as_str())
        .bind(account.as_str())
        .fetch_optional(&self.read)
        .await?;
        row.as_ref().map(listed).transpose()
    }

    /// The source of a transcript's audio. None if the account has no such transcript.
    pub async fn audio_of(&self, account: &AccountId, id: &TranscriptId) -> Result<Option<AudioOf>> {
        let row = sqlx::query("SELECT audio_url, upload_id FROM transcripts WHERE id = $1 AND account_id = $2")
            .bind(id.as_str())
            .bind(account.as_str())
            .fetch_optional(&self.read)
            .await?;
        row.map(|row| {
            Ok(AudioOf {
                url: row.try_get("audio_url")?,
                upload: row.try_get::<Option<String>, _>("upload_id")?.map(UploadId::from),
            })
        })
        .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        let cursor = Cursor::parse("5.tr_1").unwrap();
        assert_eq!((cursor.created_at, cursor.to_string().as_str()), (5, "5.tr_1"));
        for wrong in ["tr_1", "x.y", "5.\0", ""] {
            assert_eq!(Cursor::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_search_finds_its_characters_alone() {
        assert_eq!(pattern(" 50%_! Off "), "%50!%!_!! off%");
        assert_eq!(pattern(""), "%%");
        assert_eq!(title_key(&"İ".repeat(300)).chars().count(), TITLE_KEY_CHARS);
    }
}
