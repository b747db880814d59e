//! Migrates the schema, also while other nodes use it.

use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{Connection as _, SqlSafeStr as _};

use super::{Dialect, Error, Result, Store};

const MIGRATIONS: [(i64, &str, &str); 13] = [
    (1, "service", include_str!("migrations/0001_service.sql")),
    (2, "live", include_str!("migrations/0002_live.sql")),
    (3, "waits", include_str!("migrations/0003_waits.sql")),
    (4, "quotas", include_str!("migrations/0004_quotas.sql")),
    (5, "queue", include_str!("migrations/0005_queue.sql")),
    (6, "credit", include_str!("migrations/0006_credit.sql")),
    (7, "deaths", include_str!("migrations/0007_deaths.sql")),
    (8, "speakers", include_str!("migrations/0008_speakers.sql")),
    (9, "analysis", include_str!("migrations/0009_analysis.sql")),
    (10, "dashboard", include_str!("migrations/0010_dashboard.sql")),
    (11, "team", include_str!("migrations/0011_team.sql")),
    (12, "mail", include_str!("migrations/0012_mail.sql")),
    (13, "webhook_attempts", include_str!("migrations/0013_webhook_attempts.sql")),
];

/// Those after it.
const LATER: [(i64, &str, &str); 14] = [
    (15, "speaker_names", include_str!("migrations/0015_speaker_names.sql")),
    (16, "waveforms", include_str!("migrations/0016_waveforms.sql")),
    (17, "nodes", include_str!("migrations/0017_nodes.sql")),
    (18, "identities", include_str!("migrations/0018_identities.sql")),
    (19, "pulls", include_str!("migrations/0019_pulls.sql")),
    (20, "speakers", include_str!("migrations/0020_speakers.sql")),
    (21, "webhook_secrets", include_str!("migrations/0021_webhook_secrets.sql")),
    (22, "operators", include_str!("migrations/0022_operators.sql")),
    (23, "warnings", include_str!("migrations/0023_warnings.sql")),
    (24, "edits", include_str!("migrations/0024_edits.sql")),
    (25, "share_links", include_str!("migrations/0025_share_links.sql")),
    (27, "library", include_str!("migrations/0027_library.sql")),
    (28, "cloned_voices", include_str!("migrations/0028_cloned_voices.sql")),
    (29, "calls", include_str!("migrations/0029_calls.sql")),
];

/// The migrations for which each database has a language of its own.
fn of_dialect(dialect: Dialect) -> [(i64, &'static str, &'static str); 2] {
    match dialect {
        Dialect::Sqlite => [
            (14, "usage_days", include_str!("migrations/0014_usage_days.sqlite.sql")),
            (26, "search", include_str!("migrations/0026_search.sqlite.sql")),
        ],
        Dialect::Postgres => [
            (14, "usage_days", include_str!("migrations/0014_usage_days.postgres.sql")),
            (26, "search", include_str!("migrations/0026_search.postgres.sql")),
        ],
    }
}

/// Attempts at a migration that is blocked by other nodes, and the delay between them.
const MAX_TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_secs(1);

/// PostgreSQL's error codes of a lock timeout and of a deadlock.
const LOCK_CONFLICTS: [&str; 2] = ["55P03", "40P01"];

/// Applies the missing migrations.
pub(super) async fn migrate(store: &Store) -> Result<()> {
    let migrations = MIGRATIONS.into_iter().chain(LATER).chain(of_dialect(store.dialect));
    let migrations = migrations.map(|(version, name, sql)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    let migrator = Migrator::with_migrations(migrations.collect());
    let mut tries = 0;
    loop {
        // A failed migration keeps its lock until its connection is closed.
        let mut connection = store.write.acquire().await?.detach();
        if store.dialect == Dialect::Postgres {
            // Queries queue up behind a statement that waits for a table lock. The timeout limits their delay.
            sqlx::query("SET lock_timeout = '3s'").execute(&mut connection).await?;
            // A migration may take longer than any other statement.
            sqlx::query("SET statement_timeout = 0").execute(&mut connection).await?;
        }
        let migrated = migrator.run_direct(None, &mut connection, false).await;
        connection.close().await?;
        match migrated {
            Ok(()) => return Ok(()),
            Err(error) if tries + 1 < MAX_TRIES && is_lock_conflict(&error) => {
                tries += 1;
                tracing::warn!(%error, tries, "the database is in use; trying again to bring its schema up to date");
                tokio::time::sleep(PAUSE).await;
            }
            Err(MigrateError::VersionMissing(version)) => return Err(newer(version)),
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_lock_conflict(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else { return false };
    let Error::Database(error) = error else { return false };
    error.code().is_some_and(|code| LOCK_CONFLICTS.contains(&code.as_ref()))
}

/// The error for a database that a newer program has migrated to this version.
fn newer(version: i64) -> Error {
    let known =
        LATER.into_iter().chain(of_dialect(Dialect::Sqlite)).map(|(version, ..)| version).max().unwrap_or_default();
    let message = format!(
        "a newer version of Auricle has changed it (schema {version}, and this program knows {known}): start that version, or this one \
         with a copy from before the upgrade"
    );
    Error::Configuration(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Durability;

    #[tokio::test]
    async fn a_database_of_a_newer_version_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let open = || async { Store::open(&Store::url_in(folder.path()), Durability::Crash).await };
        let store = open().await.unwrap();
        let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                     VALUES (999, 'later', TRUE, x'00', 0)";
        sqlx::query(later).execute(&store.write).await.unwrap();
        drop(store);
        let error = open().await.err().unwrap().to_string();
        assert!(error.contains("schema 999") && error.contains("start that version"), "{error}");
        // The folder is as it was.
        assert!(open().await.is_err());
    }
}
