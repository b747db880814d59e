//! Identifiers: a prefix that says what it is, then 26 characters that sort by the time of making.

use std::fmt;

use data_encoding::BASE32HEX_NOPAD;

use crate::clock;

/// Sixteen bytes that nobody can guess, for whatever needs to be unique or secret.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The system's generator fails only before the kernel has booted; an id of zeros would then collide and be refused.
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::error!(%error, "no randomness");
    }
    bytes
}

/// A new identifier: 48 bits of milliseconds, 80 random bits, in an alphabet that keeps their order.
pub fn fresh(prefix: &str) -> String {
    let mut bytes: [u8; 16] = random();
    bytes[..6].copy_from_slice(&clock::now_ms().to_be_bytes()[2..]);
    format!("{prefix}_{}", BASE32HEX_NOPAD.encode(&bytes).to_lowercase())
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn new() -> Self {
                Self(fresh($prefix))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<String> for $name {
            /// An id that the store or a caller named; whether it exists is for the store to say.
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

ids! {
    /// Who pays.
    AccountId = "acct";
    /// An API key, without its secret.
    KeyId = "key";
    TranscriptId = "tr";
    UploadId = "upload";
    UsageId = "use";
    /// A notification to be delivered.
    DeliveryId = "wh";
    /// One holding of a job by one worker: what it writes counts only while it still holds it.
    LeaseId = "lease";
    /// A live session.
    SessionId = "ses";
    /// A process that serves.
    NodeId = "node";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_never_repeat() {
        let mut ids: Vec<String> = (0..1000).map(|_| TranscriptId::new().to_string()).collect();
        let last = TranscriptId::new();
        assert!(ids.iter().all(|id| id.len() == 29 && id.starts_with("tr_") && id[..12] <= last.as_str()[..12]));
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 1000);
    }
}
