//! Passwords: hashed with Argon2id, a few at a time, outside the async threads.

use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use tokio::sync::Semaphore;

use super::words::EN;
use crate::http::response::{ApiError, Result};
use crate::ids::random;

/// A hash takes 19 MiB of memory, so few are made at a time.
const AT_A_TIME: usize = 4;

/// A hash with the parameters of all others that belongs to no password. An unknown user's password is compared with it, so that
/// the answer takes as long as for a known one.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The length of a password, in characters, and the most bytes.
const MIN_CHARS: usize = 10;
pub const MAX_BYTES: usize = 1024;

/// Says what is wrong with a new password.
pub fn weakness(password: &str, email: &str) -> Option<&'static str> {
    if password.chars().count() < MIN_CHARS {
        return Some(EN.password_short);
    }
    if password.len() > MAX_BYTES {
        return Some(EN.password_long);
    }
    let lower = password.to_lowercase();
    let mut distinct: Vec<char> = lower.chars().collect();
    distinct.sort_unstable();
    distinct.dedup();
    (lower == email || distinct.len() < 4).then_some(EN.password_weak)
}

/// Hashes and compares passwords.
pub struct Passwords(Arc<Semaphore>);

impl Passwords {
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let permit = self.0.clone().acquire_owned().await.map_err(|error| ApiError::internal(&error))?;
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.map_err(|error| ApiError::internal(&error))
    }

    /// The hash of a password, with a salt of its own.
    ///
    /// # Errors
    /// If it cannot be made.
    pub async fn hash(&self, password: String) -> Result<String> {
        self.run(move || {
            let hash: argon2::password_hash::Result<PasswordHash> =
                Argon2::default().hash_password_with_salt(password.as_bytes(), &random::<16>());
            hash.map(|hash| hash.to_string())
        })
        .await?
        .map_err(|error| ApiError::internal(&error))
    }

    /// Tells if a password has this hash. Without a hash it has not, which takes as long to find out.
    ///
    /// # Errors
    /// If the service stops.
    pub async fn is_right(&self, password: String, hash: Option<String>) -> Result<bool> {
        self.run(move || {
            let parsed = PasswordHash::new(hash.as_deref().unwrap_or(NOBODY));
            let matches =
                parsed.is_ok_and(|parsed| Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok());
            matches && hash.is_some()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weak_password_is_refused() {
        for weak in ["", "short", "aaaaaaaaaaaa", "somebody@example.com", &"ab1 ".repeat(300)] {
            assert!(weakness(weak, "somebody@example.com").is_some(), "{weak}");
        }
        assert!(weakness("a long sentence", "somebody@example.com").is_none());
    }

    #[tokio::test]
    async fn a_password_has_its_own_hash_alone() {
        let passwords = Passwords::new();
        let hash = passwords.hash("correct horse".into()).await.unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash, passwords.hash("correct horse".into()).await.unwrap());
        assert!(passwords.is_right("correct horse".into(), Some(hash.clone())).await.unwrap());
        assert!(!passwords.is_right("correct horsf".into(), Some(hash)).await.unwrap());
        assert!(!passwords.is_right(String::new(), None).await.unwrap());
        assert!(!passwords.is_right("x".into(), Some("no hash".into())).await.unwrap());
        // The parameters of the hash for nobody are those of a real one.
        let nobody = PasswordHash::new(NOBODY).unwrap();
        let real = PasswordHash::new(&passwords.hash("a".into()).await.unwrap()).unwrap();
        assert_eq!((nobody.params.as_str(), nobody.algorithm), (real.params.as_str(), real.algorithm));
    }
}
