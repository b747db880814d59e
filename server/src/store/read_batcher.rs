//! Transcripts by id, the most frequent question there is: those that are asked for at the same time are read together.
//!
//! A reading begins after the last of its questions came in, so that no answer is older than its question.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::{AnyPool, Row as _};
use tokio::sync::{mpsc, oneshot};

use super::transcripts::{Transcript, select, transcript};
use super::{Error, Result, Store};
use crate::ids::{AccountId, TranscriptId};

/// Transcripts in one reading. Each is as long as its audio, so that they are few.
const TOGETHER: usize = 8;

struct Question {
    account: AccountId,
    id: TranscriptId,
    answer: oneshot::Sender<Result<Option<Arc<Transcript>>>>,
}

/// Where questions go.
#[derive(Clone)]
pub(super) struct ReadBatcher(mpsc::Sender<Question>);

impl ReadBatcher {
    pub(super) fn new(read: AnyPool) -> Self {
        let (ask, questions) = mpsc::channel(1024);
        tokio::spawn(answer(read, questions));
        Self(ask)
    }
}

impl Store {
    /// A transcript of this account.
    pub async fn transcript(&self, account: &AccountId, id: &TranscriptId) -> Result<Option<Arc<Transcript>>> {
        let (answer, answered) = oneshot::channel();
        let question = Question { account: account.clone(), id: id.clone(), answer };
        // The reader ends with the process alone.
        self.read_batcher.0.send(question).await.map_err(|_| Error::WorkerCrashed)?;
        answered.await.unwrap_or(Err(Error::WorkerCrashed))
    }
}

async fn answer(read: AnyPool, mut questions: mpsc::Receiver<Question>) {
    let mut waiting = Vec::with_capacity(TOGETHER);
    while questions.recv_many(&mut waiting, TOGETHER).await > 0 {
        match together(&read, &waiting).await {
            Ok(found) => {
                for Question { account, id, answer } in waiting.drain(..) {
                    let own = found.get(id.as_str()).filter(|(owner, _)| owner == account.as_str());
                    // Whoever asked may have gone.
                    let _ = answer.send(Ok(own.map(|(_, transcript)| transcript.clone())));
                }
            }
            Err(error) => {
                tracing::error!(%error, questions = waiting.len(), "transcripts could not be read");
                for question in waiting.drain(..) {
                    let _ = question.answer.send(Err(Error::WorkerCrashed));
                }
            }
        }
    }
}

/// The transcripts that are asked for, with their accounts, by id.
async fn together(read: &AnyPool, questions: &[Question]) -> Result<HashMap<String, (String, Arc<Transcript>)>> {
    // Two statements, prepared once each: places that are left over repeat the last id.
    let (sql, places) = match questions.len() {
        1 => (select!("WHERE id = $1"), 1),
        _ => (select!("WHERE id IN ($1, $2, $3, $4, $5, $6, $7, $8)"), TOGETHER),
    };
    let ids = questions.iter().map(|question| question.id.as_str());
    let last = questions.last().map_or("", |question| question.id.as_str());
    let query = ids.chain(std::iter::repeat(last)).take(places).fold(sqlx::query(sql), sqlx::query::Query::bind);
    let rows = query.fetch_all(read).await?;
    rows.iter()
        .map(|row| {
            let found = transcript(row)?;
            Ok((found.id.to_string(), (row.try_get("account_id")?, Arc::new(found))))
        })
        .collect()
}
