//! Accounts and their credit.

use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::usage_days::DAY_MS;
use super::{Dialect, Result, Store, Topic, Tx, flag, key_cache};
use crate::clock;
use crate::ids::{AccountId, KeyId};
use crate::visible;

/// A paying account.
#[derive(Clone, Debug)]
pub struct Account {
    pub id: AccountId,
    pub email: String,
    /// True while a metered subscription is active.
    pub subscribed: bool,
    /// The payment provider's customer id.
    pub customer: Option<String>,
    /// The API key that named the account, if one did.
    pub key: Option<KeyId>,
    /// False if a member or the key of one named the account. Billing and the team are the owner's alone.
    pub by_owner: bool,
    /// The account is the first one, or the first that has signed up.
    pub is_first: bool,
}

/// An email address in the form in which accounts and users have it. It is checked loosely: it is a name, and it is quoted
/// wherever it is shown.
pub fn email_address(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    let (name, host) = text.split_once('@')?;
    let plain = !text.contains(char::is_whitespace) && visible::check(&text).is_ok();
    (!name.is_empty() && !host.is_empty() && plain && text.len() <= 254).then_some(text)
}

/// The credit and the spending of an account, in cents.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    pub granted: i64,
    pub balance: i64,
    pub lifetime_retail: i64,
    pub lifetime_billable: i64,
    pub period_billable: i64,
    pub subscribed: bool,
}

/// The remaining spending limit of an account.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    pub balance: i64,
    /// The part of the balance that work in progress has reserved. It may exceed the balance. Not counted with a subscription.
    pub reserved: i64,
    pub subscribed: bool,
}

impl Allowance {
    /// Credit that is not reserved.
    pub fn left(&self) -> i64 {
        (self.balance - self.reserved).max(0)
    }

    /// Tells if work of this cost may begin. All work costs at least a cent.
    pub fn allows(&self, cents: i64) -> bool {
        self.subscribed || cents.max(1) <= self.left()
    }
}

/// The allowance of account `$1`.
const ALLOWANCE: &str = "SELECT a.credit_balance_cents, a.subscribed,
    CASE WHEN a.subscribed = 1 THEN 0 ELSE CAST(
        COALESCE((SELECT SUM(t.reserved_cents) FROM transcripts t
                  WHERE t.account_id = a.id AND t.status IN ('queued', 'processing')), 0)
      + COALESCE((SELECT SUM(l.reserved_cents) FROM live_sessions l WHERE l.account_id = a.id), 0) AS BIGINT) END AS reserved
 FROM accounts a WHERE a.id = $1";

fn allowance(row: &AnyRow) -> Result<Allowance> {
    Ok(Allowance {
        balance: row.try_get("credit_balance_cents")?,
        reserved: row.try_get("reserved")?,
        subscribed: row.try_get::<i64, _>("subscribed")? != 0,
    })
}

/// The account of address `$1`: its own, or that of a team.
const OF_ADDRESS: &str = "SELECT id AS account_id, email, subscribed, customer, operator FROM accounts
 WHERE email = $1 OR id = (SELECT account_id FROM users WHERE email = $1)";

pub(super) fn account(row: &AnyRow) -> Result<Account> {
    Ok(Account {
        id: row.try_get::<String, _>("account_id")?.into(),
        email: row.try_get("email")?,
        subscribed: row.try_get::<i64, _>("subscribed")? != 0,
        customer: row.try_get("customer")?,
        key: None,
        by_owner: true,
        is_first: row.try_get::<i64, _>("operator")? != 0,
    })
}

impl Store {
    /// The account to which an email address belongs. Creates it with its free credit if there is none. The first account of all
    /// operates the service.
    pub async fn account_of(&self, email: &str, free_credit_cents: i64) -> Result<Account> {
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO accounts (id, email, created_at, free_credit_cents, credit_balance_cents, operator)
             SELECT $1, $2, $3, $4, $4, CASE WHEN EXISTS (SELECT 1 FROM accounts) THEN 0 ELSE 1 END
             WHERE NOT EXISTS (SELECT 1 FROM users WHERE email = $2)
             ON CONFLICT (email) DO NOTHING",
        )
        .bind(AccountId::new().as_str())
        .bind(email)
        .bind(clock::now_ms())
        .bind(free_credit_cents)
        .execute(&mut *tx)
        .await?;
        let row = sqlx::query(OF_ADDRESS).bind(email).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        account(&row)
    }

    /// The account to which an email address belongs, if there is one.
    pub async fn account_named(&self, email: &str) -> Result<Option<Account>> {
        let row = sqlx::query(OF_ADDRESS).bind(email).fetch_optional(&self.read).await?;
        row.as_ref().map(account).transpose()
    }

    /// The oldest account.
    pub async fn first_account(&self) -> Result<Option<Account>> {
        let row = sqlx::query(
            "SELECT id AS account_id, email, subscribed, customer, operator FROM accounts ORDER BY created_at, id LIMIT 1",
        )
        .fetch_optional(&self.read)
        .await?;
        row.as_ref().map(account).transpose()
    }

    /// The remaining spending limit.
    pub async fn allowance(&self, account: &AccountId) -> Result<Allowance> {
        allowance(&sqlx::query(ALLOWANCE).bind(account.as_str()).fetch_one(&self.read).await?)
    }

    /// The remaining spending limit, which stays as it is to the end of the transaction.
    pub(super) async fn locked_allowance(&self, tx: &mut Tx, account: &AccountId) -> Result<Allowance> {
        if self.dialect == Dialect::Postgres {
            sqlx::query("SELECT id FROM accounts WHERE id = $1 FOR UPDATE")
                .bind(account.as_str())
                .execute(&mut **tx)
                .await?;
        }
        allowance(&sqlx::query(ALLOWANCE).bind(account.as_str()).fetch_one(&mut **tx).await?)
    }

    /// The credit and the sums of an account's usage.
    pub async fn credit(&self, account: &AccountId) -> Result<Credit> {
        let row = sqlx::query(
            "SELECT a.free_credit_cents, a.credit_balance_cents, a.subscribed,
                    CAST(COALESCE(SUM(u.retail_cost_cents), 0) AS BIGINT) AS retail,
                    CAST(COALESCE(SUM(u.billable_cents), 0) AS BIGINT) AS billable,
                    CAST(COALESCE(SUM(CASE WHEN u.day >= $2 THEN u.billable_cents ELSE 0 END), 0) AS BIGINT)
                        AS period_billable
             FROM accounts a LEFT JOIN usage_days u ON u.account_id = a.id
             WHERE a.id = $1 GROUP BY a.id, a.free_credit_cents, a.credit_balance_cents, a.subscribed",
        )
        .bind(account.as_str())
        .bind(clock::period(clock::now_ms()).start_ms / DAY_MS)
        .fetch_one(&self.read)
        .await?;
        Ok(Credit {
            granted: row.try_get("free_credit_cents")?,
            balance: row.try_get("credit_balance_cents")?,
            lifetime_retail: row.try_get("retail")?,
            lifetime_billable: row.try_get("billable")?,
            period_billable: row.try_get("period_billable")?,
            subscribed: row.try_get::<i64, _>("subscribed")? != 0,
        })
    }

    /// Sets the state of an account's subscription, once per event of the payment provider. False if this or a newer event
    /// was applied before, or the account is unknown.
    pub async fn set_subscription(
        &self,
        event: PaymentEvent<'_>,
        subscriber: Subscriber<'_>,
        active: bool,
        customer: Option<&str>,
        subscription: Option<&str>,
    ) -> Result<bool> {
        let mut tx = self.begin().await?;
        let fresh =
            sqlx::query("INSERT INTO payment_notices (id, created_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING")
                .bind(event.id)
                .bind(clock::now_ms())
                .execute(&mut *tx)
                .await?;
        if fresh.rows_affected() == 0 {
            return Ok(false);
        }
        let (name, owner) = match subscriber {
            Subscriber::Account(name) => ("", name),
            Subscriber::Subscription { subscription, account } => (subscription, account),
        };
        // An event of a subscription may arrive before that of its checkout, and then names the account alone. It is not
        // applied to an account with another active subscription.
        let sql = "UPDATE accounts SET subscribed = $1, customer = COALESCE($2, customer),
                       subscription = COALESCE($3, subscription), subscription_at = $4
                   WHERE subscription_at <= $4 AND (subscription = $5 OR (id = $6 AND (subscribed = 0 OR $5 = '')))";
        let changed = sqlx::query(sql)
            .bind(flag(active))
            .bind(customer)
            .bind(subscription)
            .bind(event.created_at)
            .bind(name)
            .bind(owner)
            .execute(&mut *tx)
            .await?;
        key_cache::invalidate(&mut tx).await?;
        tx.commit().await?;
        Ok(changed.rows_affected() > 0)
    }

    /// Lifts the limit of an account's credit, or sets it again: without a limit it is as subscribed. False if there is no such account.
    pub async fn set_unlimited(&self, account: &AccountId, unlimited: bool) -> Result<bool> {
        let mut tx = self.begin().await?;
        let done = sqlx::query("UPDATE accounts SET subscribed = $1 WHERE id = $2")
            .bind(flag(unlimited))
            .bind(account.as_str())
            .execute(&mut *tx)
            .await?;
        key_cache::invalidate(&mut tx).await?;
        // More jobs of the account may run at a time.
        self.notify(&mut tx, Topic::Jobs).await?;
        tx.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    /// Accounts for the operator: those with a limit first, the least credit first.
    pub async fn accounts_by_credit(&self, limit: i64) -> Result<Vec<AccountCredit>> {
        let rows = sqlx::query(
            "SELECT id, email, credit_balance_cents, subscribed FROM accounts
             ORDER BY subscribed, credit_balance_cents, created_at, id LIMIT $1",
        )
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(AccountCredit {
                    id: row.try_get::<String, _>("id")?.into(),
                    email: row.try_get("email")?,
                    balance: row.try_get("credit_balance_cents")?,
                    subscribed: row.try_get::<i64, _>("subscribed")? != 0,
                })
            })
            .collect()
    }
}

/// An account as the operator sees it.
#[derive(Clone, Debug)]
pub struct AccountCredit {
    pub id: AccountId,
    pub email: String,
    /// The credit that is left, in cents.
    pub balance: i64,
    pub subscribed: bool,
}

/// An event of the payment provider.
#[derive(Clone, Copy, Debug)]
pub struct PaymentEvent<'a> {
    pub id: &'a str,
    /// By the provider's clock, ms since 1970. Events may arrive in another order.
    pub created_at: i64,
}

/// The account of a payment event.
#[derive(Clone, Copy, Debug)]
pub enum Subscriber<'a> {
    Account(&'a str),
    Subscription {
        /// The provider's subscription id.
        subscription: &'a str,
        /// The account of the subscription; empty if the event names none.
        account: &'a str,
    },
}
