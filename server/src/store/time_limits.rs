//! Time limits: a database that does not answer fails a query, instead of holding its task for good.

use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt as _, TryStreamExt as _, try_unfold};
use sqlx::any::{AnyQueryResult, AnyRow, AnyStatement, AnyTypeInfo};
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Connection as _, Either, Execute, Executor, SqlStr, Transaction};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Error, Result};

/// The longest time of a query or of a step of a transaction, the wait for a connection included.
const QUERY_LIMIT: Duration = Duration::from_secs(20);

/// The longest time of a returned connection's check. One that fails it is closed.
const RELEASE_LIMIT: Duration = Duration::from_secs(5);

type Rows<'a> = BoxStream<'a, Result<Either<AnyQueryResult, AnyRow>>>;

fn too_slow(limit: Duration) -> Error {
    let reason = format!("the database did not answer within {} s", limit.as_secs());
    Error::Io(io::Error::new(io::ErrorKind::TimedOut, reason))
}

/// Fails after `limit`.
pub(super) async fn within<T>(limit: Duration, query: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(limit, query).await.unwrap_or_else(|_| Err(too_slow(limit)))
}

/// Fails a stream that has not ended in time.
fn limit_rows(rows: Rows<'_>) -> Rows<'_> {
    let deadline = Instant::now() + QUERY_LIMIT;
    try_unfold(rows, move |mut rows| async move {
        match timeout_at(deadline, rows.try_next()).await {
            Ok(row) => Ok(row?.map(|row| (row, rows))),
            Err(_) => Err(too_slow(QUERY_LIMIT)),
        }
    })
    .boxed()
}

/// Checks a connection that is returned. After a query that was given up it may never answer again.
pub(super) async fn check_released(connection: &mut AnyConnection) -> Result<bool> {
    within(RELEASE_LIMIT, connection.ping()).await.map(|()| true)
}

/// Connections whose queries have a time limit.
#[derive(Clone, Debug)]
pub(super) struct Pool(pub AnyPool);

impl Pool {
    pub async fn begin(&self) -> Result<Tx> {
        Ok(Tx(TxConnection(within(QUERY_LIMIT, self.0.begin()).await?)))
    }

    pub async fn begin_with(&self, statement: &'static str) -> Result<Tx> {
        Ok(Tx(TxConnection(within(QUERY_LIMIT, self.0.begin_with(statement)).await?)))
    }

    pub async fn acquire(&self) -> Result<PoolConnection<Any>> {
        self.0.acquire().await
    }

    pub async fn close(&self) {
        self.0.close().await;
    }
}

impl<'p> Executor<'p> for &'_ Pool {
    type Database = Any;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> Rows<'e>
    where
        'p: 'e,
        E: 'q + Execute<'q, Any>,
    {
        limit_rows((&self.0).fetch_many(query))
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<AnyRow>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Any>,
    {
        Box::pin(within(QUERY_LIMIT, (&self.0).fetch_optional(query)))
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [AnyTypeInfo]) -> BoxFuture<'e, Result<AnyStatement>>
    where
        'p: 'e,
    {
        Box::pin(within(QUERY_LIMIT, (&self.0).prepare_with(sql, parameters)))
    }
}

/// A transaction that writes. It is rolled back if it is dropped.
pub struct Tx(TxConnection);

impl Tx {
    pub async fn commit(self) -> Result<()> {
        within(QUERY_LIMIT, self.0.0.commit()).await
    }
}

impl Deref for Tx {
    type Target = TxConnection;

    fn deref(&self) -> &TxConnection {
        &self.0
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut TxConnection {
        &mut self.0
    }
}

/// The connection of a transaction.
#[derive(Debug)]
pub struct TxConnection(Transaction<'static, Any>);

impl<'c> Executor<'c> for &'c mut TxConnection {
    type Database = Any;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> Rows<'e>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        limit_rows((&mut *self.0).fetch_many(query))
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<AnyRow>>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        Box::pin(within(QUERY_LIMIT, (&mut *self.0).fetch_optional(query)))
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [AnyTypeInfo]) -> BoxFuture<'e, Result<AnyStatement>>
    where
        'c: 'e,
    {
        Box::pin(within(QUERY_LIMIT, (&mut *self.0).prepare_with(sql, parameters)))
    }
}
