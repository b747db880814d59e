//! Options that an account keeps for its uploads.

use sqlx::Row as _;

use super::{Result, Store};
use crate::ids::AccountId;

/// Presets of an account.
const MAX_PRESETS: i64 = 50;

impl Store {
    /// The presets of an account, each a name and a JSON object, in order of the alphabet.
    pub async fn presets(&self, account: &AccountId) -> Result<Vec<(String, String)>> {
        let sql = "SELECT name, options FROM upload_presets WHERE account_id = $1 ORDER BY lower(name), name";
        let rows = sqlx::query(sql).bind(account.as_str()).fetch_all(&self.read).await?;
        rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("options")?))).collect()
    }

    /// Keeps options under a name, in the place of those that it had. False if the account has no place for another name.
    pub async fn keep_preset(&self, account: &AccountId, name: &str, options: &str) -> Result<bool> {
        let kept = sqlx::query(
            "INSERT INTO upload_presets (account_id, name, options)
             SELECT id, $2, $3 FROM accounts WHERE id = $1
               AND ((SELECT COUNT(*) FROM upload_presets WHERE account_id = $1) < $4
                    OR EXISTS (SELECT 1 FROM upload_presets WHERE account_id = $1 AND name = $2))
             ON CONFLICT (account_id, name) DO UPDATE SET options = excluded.options",
        )
        .bind(account.as_str())
        .bind(name)
        .bind(options)
        .bind(MAX_PRESETS)
        .execute(&self.write)
        .await?;
        Ok(kept.rows_affected() > 0)
    }

    /// Deletes a preset. False if there is none of this name.
    pub async fn delete_preset(&self, account: &AccountId, name: &str) -> Result<bool> {
        let sql = "DELETE FROM upload_presets WHERE account_id = $1 AND name = $2";
        let deleted = sqlx::query(sql).bind(account.as_str()).bind(name).execute(&self.write).await?;
        Ok(deleted.rows_affected() > 0)
    }
}
