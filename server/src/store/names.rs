//! Names of which an account has each once, whatever its case: those of known people and of voices.

use sqlx::Row as _;

use super::{Result, Store};
use crate::ids::AccountId;

/// Why a name cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRefusal {
    /// The account has the name already.
    Taken,
    /// The account has as many as it may have.
    Full,
}

/// Names that differ in case alone are one.
pub(super) fn key(name: &str) -> String {
    name.to_lowercase()
}

/// The query of [`Store::name_refusal`] for a table.
macro_rules! counts {
    ($table:literal) => {
        concat!(
            "SELECT COUNT(*) AS names, CAST(COALESCE(SUM(CASE WHEN name_key = $2 THEN 1 ELSE 0 END), 0) AS BIGINT) AS namesakes
             FROM ",
            $table,
            " WHERE account_id = $1"
        )
    };
}
pub(super) use counts;

impl Store {
    /// Why an account that may have `most` names cannot add this one; none if it can. `sql` is that of [`counts`].
    pub(super) async fn name_refusal(
        &self,
        sql: &'static str,
        account: &AccountId,
        name: &str,
        most: i64,
    ) -> Result<Option<NameRefusal>> {
        let row = sqlx::query(sql).bind(account.as_str()).bind(key(name)).fetch_one(&self.read).await?;
        let (names, namesakes): (i64, i64) = (row.try_get("names")?, row.try_get("namesakes")?);
        Ok(match (namesakes, names) {
            (1.., _) => Some(NameRefusal::Taken),
            (_, names) if names >= most => Some(NameRefusal::Full),
            _ => None,
        })
    }
}
