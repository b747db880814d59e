//! Keeps the index of transcripts in step with them. Every change of a title or of words notes its transcript in the table
//! `unindexed_transcripts`, by triggers; a background task works on that table. A deletion takes its row along.

use std::collections::BTreeSet;

use auricle_engine::Word;
use auricle_engine::search_tokens::tokens;
use auricle_engine::segments::sentences;
use sha2::{Digest as _, Sha256};
use sqlx::Row as _;

use super::{Dialect, Error, Result, Store, Tx};
use crate::ids::AccountId;

/// The tokens of a transcript that are indexed, in bytes: PostgreSQL takes 1 MB.
const MAX_TOKEN_BYTES: usize = 900_000;

/// Bits of a row's number below the time of creation.
const PLACE_BITS: u32 = 20;

/// A transcript as it is found.
struct Indexed {
    id: String,
    account: String,
    /// The change that is indexed with it.
    change: i64,
    place: i64,
    tokens: String,
    sentences: String,
}

/// The token of an account, which SQLite's index holds beside the words. No word has its first character.
pub(super) fn account_token(account: &AccountId) -> String {
    let plain = account.as_str().chars().filter(char::is_ascii_alphanumeric);
    std::iter::once('\u{e000}').chain(plain).collect()
}

/// The number of a row: rows are in the order of creation.
fn place(created_at: i64, id: &str) -> i64 {
    let hash = Sha256::digest(id.as_bytes());
    let below = hash.iter().take(3).fold(0_i64, |number, byte| number << 8 | i64::from(*byte));
    (created_at.clamp(0, i64::MAX >> (PLACE_BITS + 1)) << PLACE_BITS) | (below & ((1 << PLACE_BITS) - 1))
}

/// Sentences as they are stored, and all tokens of them and the title.
fn texts(title: &str, words: &[Word]) -> (String, BTreeSet<String>) {
    let mut lines = String::new();
    let mut found: BTreeSet<String> = tokens(title).into_iter().map(|token| token.text).collect();
    for sentence in sentences(words) {
        let text = sentence.text.replace(char::is_control, " ");
        found.extend(tokens(&text).into_iter().map(|token| token.text));
        lines += &format!("{}\t{text}\n", sentence.start);
    }
    (lines, found)
}

impl Store {
    /// Indexes up to `most` transcripts that have changed. Returns their number.
    pub async fn index_transcripts(&self, most: i64) -> Result<usize> {
        let rows = sqlx::query(
            "SELECT transcript_id, change FROM unindexed_transcripts ORDER BY change DESC, transcript_id LIMIT $1",
        )
        .bind(most)
        .fetch_all(&self.read)
        .await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let mut ready = Vec::new();
        for row in &rows {
            let (id, change) = (row.try_get("transcript_id")?, row.try_get("change")?);
            ready.extend(self.read_to_index(id, change).await?);
        }
        let mut tx = self.begin().await?;
        for indexed in &ready {
            self.write_index(&mut tx, indexed).await?;
        }
        tx.commit().await?;
        Ok(rows.len())
    }

    /// None if the transcript was deleted meanwhile.
    async fn read_to_index(&self, id: String, change: i64) -> Result<Option<Indexed>> {
        let row = sqlx::query("SELECT account_id, created_at, title, words FROM transcripts WHERE id = $1")
            .bind(&id)
            .fetch_optional(&self.read)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let account: String = row.try_get("account_id")?;
        let title: Option<String> = row.try_get("title")?;
        let words: Option<String> = row.try_get("words")?;
        let place = place(row.try_get("created_at")?, &id);
        let first = match self.dialect {
            Dialect::Sqlite => account_token(&AccountId::from(account.clone())),
            Dialect::Postgres => String::new(),
        };
        // Words of many hours take a while.
        let made = tokio::task::spawn_blocking(move || {
            let words: Vec<Word> = words.and_then(|words| serde_json::from_str(&words).ok()).unwrap_or_default();
            let (sentences, found) = texts(title.as_deref().unwrap_or_default(), &words);
            let mut tokens = first;
            for token in found {
                if tokens.len() + token.len() < MAX_TOKEN_BYTES {
                    tokens.push_str(if tokens.is_empty() { "" } else { " " });
                    tokens.push_str(&token);
                }
            }
            (tokens, sentences)
        });
        let (tokens, sentences) = made.await.map_err(|error| Error::Encode(error.into()))?;
        Ok(Some(Indexed { id, account, change, place, tokens, sentences }))
    }

    async fn write_index(&self, tx: &mut Tx, indexed: &Indexed) -> Result<()> {
        // A later change is on the list then, and is indexed by itself.
        let taken = sqlx::query("DELETE FROM unindexed_transcripts WHERE transcript_id = $1 AND change = $2")
            .bind(&indexed.id)
            .bind(indexed.change)
            .execute(&mut **tx)
            .await?;
        if taken.rows_affected() == 0 {
            return Ok(());
        }
        sqlx::query("DELETE FROM searched_transcripts WHERE transcript_id = $1")
            .bind(&indexed.id)
            .execute(&mut **tx)
            .await?;
        let insert = match self.dialect {
            Dialect::Sqlite => {
                "INSERT INTO searched_transcripts (place, transcript_id, account_id, tokens, sentences)
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT (place) DO NOTHING"
            }
            Dialect::Postgres => {
                "INSERT INTO searched_transcripts (place, transcript_id, account_id, tokens, sentences)
                 VALUES ($1, $2, $3, array_to_tsvector(string_to_array($4, ' ')), $5) ON CONFLICT (place) DO NOTHING"
            }
        };
        // The place of two transcripts of one millisecond may be equal.
        for place in indexed.place.. {
            let inserted = sqlx::query(insert)
                .bind(place)
                .bind(&indexed.id)
                .bind(&indexed.account)
                .bind(&indexed.tokens)
                .bind(&indexed.sentences)
                .execute(&mut **tx)
                .await?;
            if inserted.rows_affected() > 0 {
                break;
            }
        }
        Ok(())
    }
}
