//! Brings the schema up to date, under the eyes of nodes that work with it.

use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{Connection as _, SqlSafeStr as _};

use super::{Dialect, Error, Result, Store};

const MIGRATIONS: [(i64, &str, &str); 3] = [
    (1, "service", include_str!("migrations/0001_service.sql")),
    (2, "live", include_str!("migrations/0002_live.sql")),
    (3, "waits", include_str!("migrations/0003_waits.sql")),
];

/// How often a migration is tried that others stand in the way of, and how long after another.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_secs(1);

/// What PostgreSQL says when it waited too long for a table, or would wait for ever.
const IN_THE_WAY: [&str; 2] = ["55P03", "40P01"];

/// Applies what this database has not had yet.
pub(super) async fn migrate(store: &Store) -> Result<()> {
    let migrations = MIGRATIONS.map(|(version, name, sql)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    let migrator = Migrator::with_migrations(migrations.to_vec());
    let mut tries = 0;
    loop {
        // A migration that fails keeps its lock until its connection is closed.
        let mut connection = store.write.acquire().await?.detach();
        if store.dialect == Dialect::Postgres {
            // Whoever comes after a statement that waits for a whole table waits, too: not for long.
            sqlx::query("SET lock_timeout = '3s'").execute(&mut connection).await?;
        }
        let migrated = migrator.run_direct(None, &mut connection, false).await;
        connection.close().await?;
        match migrated {
            Ok(()) => return Ok(()),
            Err(error) if tries + 1 < TRIES && is_in_the_way(&error) => {
                tries += 1;
                tracing::warn!(%error, tries, "the database is in use; trying again to bring its schema up to date");
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_in_the_way(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else { return false };
    let Error::Database(error) = error else { return false };
    error.code().is_some_and(|code| IN_THE_WAY.contains(&code.as_ref()))
}
