//! People as a provider of OpenID Connect knows them.

use super::team::{account_with_address, join};
use super::users::{NO_PASSWORD, create_user, insert_owner};
use super::{Joined, Result, Store, Tx};
use crate::clock;
use crate::ids::UserId;

/// A person, as a provider has identified them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderIdentity {
    pub issuer: String,
    /// The person's id there.
    pub subject: String,
    /// The email address, if the provider has verified it.
    pub email: Option<String>,
}

/// The user of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identified {
    User(UserId),
    /// The address has a user with a password, who is not known to be the same person.
    HasPassword,
    /// The provider has verified no address.
    NoAddress,
    /// The address has no account, and the person may not make one.
    Closed,
    /// The invitation is for another address.
    OtherAddress,
    /// Of the invitation that was to be accepted.
    NotJoined(Joined),
}

impl Store {
    /// The user of an identity. A person who comes for the first time gets the user of their address if it has no password; else they
    /// accept the invitation of this hash, or own the account that was made for the address, or a new one with this free
    /// credit, if new ones may be made.
    pub async fn identify(
        &self,
        identity: &ProviderIdentity,
        invitation: Option<&str>,
        free_credit_cents: Option<i64>,
    ) -> Result<Identified> {
        let mut tx = self.begin().await?;
        let known: Option<String> =
            sqlx::query_scalar("SELECT user_id FROM identities WHERE issuer = $1 AND subject = $2")
                .bind(&identity.issuer)
                .bind(&identity.subject)
                .fetch_optional(&mut *tx)
                .await?;
        if let Some(user) = known {
            return Ok(Identified::User(user.into()));
        }
        let Some(email) = &identity.email else { return Ok(Identified::NoAddress) };
        let user = match self.first_sign_in(&mut tx, email, invitation, free_credit_cents).await? {
            Identified::User(user) => user,
            refused => return Ok(refused),
        };
        connect(&mut tx, &user, identity).await?;
        tx.commit().await?;
        Ok(Identified::User(user))
    }

    async fn first_sign_in(
        &self,
        tx: &mut Tx,
        email: &str,
        invitation: Option<&str>,
        free_credit_cents: Option<i64>,
    ) -> Result<Identified> {
        let with_address: Option<String> =
            sqlx::query_scalar("SELECT id FROM users WHERE email = $1 AND password_hash = $2")
                .bind(email)
                .bind(NO_PASSWORD)
                .fetch_optional(&mut **tx)
                .await?;
        if let Some(user) = with_address {
            return Ok(Identified::User(user.into()));
        }
        let has_user: Option<i64> = sqlx::query_scalar("SELECT 1 AS one FROM users WHERE email = $1")
            .bind(email)
            .fetch_optional(&mut **tx)
            .await?;
        if has_user.is_some() {
            return Ok(Identified::HasPassword);
        }
        if let Some(secret_hash) = invitation {
            let invited: Option<String> = sqlx::query_scalar("SELECT email FROM invitations WHERE secret_hash = $1")
                .bind(secret_hash)
                .fetch_optional(&mut **tx)
                .await?;
            if invited.is_some_and(|invited| invited != email) {
                return Ok(Identified::OtherAddress);
            }
            return Ok(match join(self.dialect, tx, secret_hash, NO_PASSWORD).await? {
                Joined::Yes(user) => Identified::User(user),
                refused => Identified::NotJoined(refused),
            });
        }
        let user = match (account_with_address(tx, email).await?, free_credit_cents) {
            (Some(account), _) => insert_owner(tx, &account, email, NO_PASSWORD).await?,
            (None, Some(cents)) => create_user(tx, email, NO_PASSWORD, cents).await?,
            (None, None) => None,
        };
        Ok(user.map_or(Identified::Closed, Identified::User))
    }

    /// Lets an identity sign in as a user.
    pub async fn connect(&self, user: &UserId, identity: &ProviderIdentity) -> Result<()> {
        let mut tx = self.begin().await?;
        connect(&mut tx, user, identity).await?;
        tx.commit().await
    }
}

async fn connect(tx: &mut Tx, user: &UserId, identity: &ProviderIdentity) -> Result<()> {
    sqlx::query(
        "INSERT INTO identities (issuer, subject, user_id, created_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (issuer, subject) DO NOTHING",
    )
    .bind(&identity.issuer)
    .bind(&identity.subject)
    .bind(user.as_str())
    .bind(clock::now_ms())
    .execute(&mut **tx)
    .await?;
    Ok(())
}
