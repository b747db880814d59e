//! Search in the titles and words of all transcripts of an account.

use std::ops::Range;

use auricle_engine::search_tokens::{TokenKind, tokens};
use sqlx::Row as _;

use super::search_index::account_token;
use super::tags;
use super::transcript_list::{ListedTranscript, has_tag, listed, listed_columns};
use super::{Dialect, Error, Result, Status, Store};
use crate::ids::{AccountId, TranscriptId};

/// A shorter word is found as a whole; of a longer one the beginning is enough.
const PREFIX_CHARS: usize = 3;

/// The words of a search that count.
const MAX_TERMS: usize = 24;

/// A word that is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    text: String,
    is_prefix: bool,
}

impl Term {
    fn matches(&self, token: &str) -> bool {
        if self.is_prefix { token.starts_with(&self.text) } else { token == self.text }
    }
}

/// The words of a search: transcripts are found that have all of them, in any order.
#[derive(Clone, Debug)]
pub struct SearchTerms(Vec<Term>);

impl SearchTerms {
    /// The words of a text. Quotes and other signs only separate words. None if there is no word.
    pub fn new(text: &str) -> Option<Self> {
        let mut terms = Vec::new();
        let mut pair_end = 0;
        let found = tokens(text);
        for (at, token) in found.iter().enumerate() {
            let next_is_pair = found.get(at + 1).is_some_and(|next| next.kind == TokenKind::Pair);
            match token.kind {
                TokenKind::Pair => pair_end = token.range.end,
                // A pair has the character already.
                TokenKind::Character if token.range.end <= pair_end || next_is_pair => continue,
                _ => {}
            }
            let is_prefix = token.kind == TokenKind::Word && token.text.chars().count() >= PREFIX_CHARS;
            let term = Term { text: token.text.clone(), is_prefix };
            if !terms.contains(&term) && terms.len() < MAX_TERMS {
                terms.push(term);
            }
        }
        (!terms.is_empty()).then_some(Self(terms))
    }

    /// The search in the language of the database. Terms have letters, digits and marks alone.
    fn expression(&self, dialect: Dialect, account: &AccountId) -> String {
        match dialect {
            Dialect::Sqlite => {
                let terms = self.0.iter().map(|Term { text, is_prefix }| match is_prefix {
                    true => format!(" AND \"{text}\"*"),
                    false => format!(" AND \"{text}\""),
                });
                format!("\"{}\"", account_token(account)) + &terms.collect::<String>()
            }
            Dialect::Postgres => {
                let terms = self.0.iter().map(|Term { text, is_prefix }| match is_prefix {
                    true => format!("'{text}':*"),
                    false => format!("'{text}'"),
                });
                terms.collect::<Vec<_>>().join(" & ")
            }
        }
    }

    /// The first sentence with all terms, else the first of those with the most. None if no sentence has one.
    fn best(&self, sentences: &str) -> Option<FoundSentence> {
        let mut best: Option<(usize, FoundSentence)> = None;
        for line in sentences.lines() {
            let Some((start, text)) = line.split_once('\t') else { continue };
            let mut seen = vec![false; self.0.len()];
            let mut marks: Vec<Range<usize>> = Vec::new();
            for token in tokens(text) {
                for (term, seen) in self.0.iter().zip(&mut seen) {
                    if !term.matches(&token.text) {
                        continue;
                    }
                    *seen = true;
                    match marks.last_mut() {
                        Some(last) if token.range.start <= last.end => last.end = last.end.max(token.range.end),
                        _ => marks.push(token.range.clone()),
                    }
                }
            }
            let count = seen.iter().filter(|seen| **seen).count();
            if count > best.as_ref().map_or(0, |(count, _)| *count) {
                let start_ms = start.parse().unwrap_or(0);
                best = Some((count, FoundSentence { start_ms, text: text.to_owned(), marks }));
            }
            if count == self.0.len() {
                break;
            }
        }
        best.map(|(_, sentence)| sentence)
    }
}

/// A page of a search, newest first.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    pub terms: SearchTerms,
    pub status: Option<Status>,
    pub language: String,
    pub tag: String,
    /// The place of the last transcript of the page before.
    pub after: Option<i64>,
    pub limit: i64,
}

/// A sentence that has what was searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSentence {
    pub start_ms: i64,
    pub text: String,
    /// The words that were searched, in bytes.
    pub marks: Vec<Range<usize>>,
}

/// A transcript that was found.
#[derive(Clone, Debug)]
pub struct FoundTranscript {
    pub listed: ListedTranscript,
    /// Its place among the account's transcripts.
    pub place: i64,
    /// None if its title has the words.
    pub sentence: Option<FoundSentence>,
}

impl Store {
    /// Transcripts of an account with all words of a search, newest first. A change is found as soon as it is indexed.
    pub async fn search_transcripts(&self, account: &AccountId, query: &SearchQuery) -> Result<Vec<FoundTranscript>> {
        macro_rules! page {
            ($from:literal, $found:literal, $place:literal) => {
                concat!(
                    "SELECT ",
                    listed_columns!(),
                    ", s.place FROM ",
                    $from,
                    " LEFT JOIN usage_events u ON u.transcript_id = t.id WHERE ",
                    $found,
                    " AND s.account_id = $3 AND t.account_id = $3 AND ($4 = '' OR t.status = $4)
                       AND ($5 = '' OR t.language_code = $5) AND ",
                    has_tag!("t.id", "$7", "$3"),
                    " ORDER BY ",
                    $place,
                    " DESC LIMIT $6"
                )
            };
        }
        let sql = match self.dialect {
            // In this order of tables the index gives its rows as they are sorted, and no more than the page needs.
            Dialect::Sqlite => page!(
                "transcript_tokens f CROSS JOIN searched_transcripts s ON s.place = f.rowid
                 CROSS JOIN transcripts t ON t.id = s.transcript_id",
                "f.transcript_tokens MATCH $1 AND f.rowid < $2",
                "f.rowid"
            ),
            Dialect::Postgres => page!(
                "searched_transcripts s JOIN transcripts t ON t.id = s.transcript_id",
                "s.tokens @@ CAST($1 AS tsquery) AND s.place < $2",
                "s.place"
            ),
        };
        let rows = sqlx::query(sql)
            .bind(query.terms.expression(self.dialect, account))
            .bind(query.after.unwrap_or(i64::MAX))
            .bind(account.as_str())
            .bind(query.status.map_or("", Status::name))
            .bind(&query.language)
            .bind(query.limit)
            .bind(tags::key(&query.tag))
            .fetch_all(&self.read)
            .await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let listed = listed(row)?;
            let sentence = self.found_sentence(&listed.id, &query.terms).await?;
            found.push(FoundTranscript { place: row.try_get("place")?, sentence, listed });
        }
        Ok(found)
    }

    async fn found_sentence(&self, id: &TranscriptId, terms: &SearchTerms) -> Result<Option<FoundSentence>> {
        let sentences: Option<String> =
            sqlx::query_scalar("SELECT sentences FROM searched_transcripts WHERE transcript_id = $1")
                .bind(id.as_str())
                .fetch_optional(&self.read)
                .await?;
        let Some(sentences) = sentences else { return Ok(None) };
        let terms = terms.clone();
        // A transcript of many hours takes some milliseconds.
        let best = tokio::task::spawn_blocking(move || terms.best(&sentences));
        best.await.map_err(|error| Error::Encode(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Durability, NewTranscript};

    fn terms(text: &str) -> Vec<String> {
        SearchTerms::new(text).map(|terms| terms.0.into_iter().map(|term| term.text).collect()).unwrap_or_default()
    }

    #[test]
    fn a_search_has_words_alone() {
        for (text, expected) in [
            ("\"Budget\" AND (plan* OR -x)", vec!["budget", "and", "plan", "or", "x"]),
            ("東京都 議 a", vec!["東京", "京都", "議", "a"]),
            ("plan PLAN plán", vec!["plan"]),
            ("\" * ^ () -", vec![]),
        ] {
            assert_eq!(terms(text), expected, "{text}");
        }
        let many: String = (0..200).map(|n| format!("w{n} ")).collect();
        assert_eq!(terms(&many).len(), MAX_TERMS);
    }

    #[test]
    fn the_sentence_with_all_words_is_chosen_and_marked() {
        let best = |search: &str| SearchTerms::new(search).unwrap().best("5\tA plan.\n70\tThe plans of a budget.\n");
        let found = best("plan budget").unwrap();
        assert_eq!((found.start_ms, &found.text[found.marks[0].clone()]), (70, "plans"));
        assert_eq!(&found.text[found.marks[1].clone()], "budget");
        assert_eq!(best("plan other").unwrap().start_ms, 5);
        assert_eq!(best("other"), None);
        let found = SearchTerms::new("東京都").unwrap().best("9\t私は東京都に。").unwrap();
        assert_eq!((found.marks.len(), &found.text[found.marks[0].clone()]), (1, "東京都"));
    }

    async fn indexed(store: &Store) {
        while store.index_transcripts(2).await.unwrap() > 0 {}
    }

    async fn found(store: &Store, account: &AccountId, search: &str) -> Vec<String> {
        let query = SearchQuery {
            terms: SearchTerms::new(search).unwrap(),
            status: None,
            language: String::new(),
            tag: String::new(),
            after: None,
            limit: 10,
        };
        let found = store.search_transcripts(account, &query).await.unwrap();
        found.into_iter().map(|one| one.listed.title.unwrap_or_default()).collect()
    }

    async fn words(store: &Store, id: &TranscriptId, text: &str) {
        let words: Vec<_> = (text.split(' ').enumerate())
            .map(|(at, text)| serde_json::json!({"text": text, "start": at, "end": at + 1, "confidence": 1.0}))
            .collect();
        sqlx::query("UPDATE transcripts SET words = $1 WHERE id = $2")
            .bind(serde_json::json!(words).to_string())
            .bind(id.as_str())
            .execute(&store.write)
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn the_index_follows_every_change_and_keeps_nothing_that_was_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap();
        let account = store.account_of("a@example.com", 100).await.unwrap().id;
        let other = store.account_of("b@example.com", 100).await.unwrap().id;
        let mut ids = Vec::new();
        for (owner, title) in [(&account, "first"), (&account, "second"), (&other, "third")] {
            // All of one millisecond.
            let new = NewTranscript { title: Some(title.into()), created_at: 5, ..NewTranscript::of_url(owner) };
            store.create_transcript(&new, None).await.unwrap();
            words(&store, &new.id, "Xylophones are loud.").await;
            ids.push(new.id);
        }
        assert!(found(&store, &account, "xylophone").await.is_empty());
        indexed(&store).await;
        assert_eq!(found(&store, &account, "xylophone").await.len(), 2);
        assert_eq!(found(&store, &other, "loud").await, ["third"]);

        words(&store, &ids[0], "Silence.").await;
        sqlx::query("UPDATE transcripts SET title = 'renamed' WHERE id = $1")
            .bind(ids[1].as_str())
            .execute(&store.write)
            .await
            .unwrap();
        indexed(&store).await;
        assert_eq!(found(&store, &account, "xylophone").await, ["renamed"]);
        assert_eq!(found(&store, &account, "silence first").await, ["first"]);
        assert!(found(&store, &account, "second").await.is_empty());

        for (owner, id) in [(&account, &ids[0]), (&account, &ids[1]), (&other, &ids[2])] {
            assert!(store.delete_transcript(owner, id).await.unwrap());
        }
        assert!(found(&store, &account, "renamed").await.is_empty());
        store.empty_log().await.unwrap();
        store.close().await;
        let file = std::fs::read(Store::file_in(folder.path())).unwrap();
        for word in ["xylophone", "Xylophone", "silence", "loud"] {
            assert!(!file.windows(word.len()).any(|part| part == word.as_bytes()), "{word} stands in the file");
        }
    }

    #[tokio::test]
    async fn transcripts_of_an_older_version_are_indexed() {
        let folder = tempfile::tempdir().unwrap();
        let open = || async { Store::open(&Store::url_in(folder.path()), Durability::Crash).await.unwrap() };
        let store = open().await;
        let account = store.account_of("a@example.com", 100).await.unwrap().id;
        // The schema of the version before.
        for sql in [
            "DROP TRIGGER transcripts_unindexed_insert",
            "DROP TRIGGER transcripts_unindexed_update",
            "DROP TABLE unindexed_transcripts",
            "DROP TABLE transcript_tokens",
            "DROP TABLE searched_transcripts",
            "DELETE FROM _sqlx_migrations WHERE version = 26",
        ] {
            sqlx::query(sql).execute(&store.write).await.unwrap();
        }
        let new = NewTranscript { title: Some("old".into()), ..NewTranscript::of_url(&account) };
        store.create_transcript(&new, None).await.unwrap();
        words(&store, &new.id, "Xylophones are loud.").await;
        store.close().await;
        let store = open().await;
        indexed(&store).await;
        assert_eq!(found(&store, &account, "xylophones").await, ["old"]);
    }
}
