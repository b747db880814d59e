//! Identifiers: a prefix for the type, then 26 characters that sort by creation time.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use data_encoding::BASE32HEX_NOPAD;

use crate::clock;

/// `N` bytes from the system's random number generator, for identifiers and secrets.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The system's generator fails only before the kernel has booted; an id of zeros would then collide and be refused.
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::error!(%error, "the system's random number generator failed");
    }
    bytes
}

/// Milliseconds and count of the last identifier of this process, as its first 64 bits.
static LAST: AtomicU64 = AtomicU64::new(0);

/// A new identifier: 48 bits of milliseconds, 16 bits that count within a millisecond, and 64 random bits, in an alphabet
/// that keeps their order. A process makes them in ascending order, so that a list by time and identifier has a stable order.
pub fn fresh(prefix: &str) -> String {
    let mut bytes: [u8; 16] = random();
    let now = (clock::now_ms().max(0) as u64) << 16;
    let next = |last: u64| Some(now.max(last + 1));
    // The closure always gives a value.
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_default();
    bytes[..8].copy_from_slice(&now.max(last + 1).to_be_bytes());
    format!("{prefix}_{}", BASE32HEX_NOPAD.encode(&bytes).to_lowercase())
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<String> for $name {
            /// Takes an id from the store or a client. It may not exist.
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        id!($(#[$doc])* $name);

        impl $name {
            pub fn new() -> Self {
                Self(fresh($prefix))
            }
        }
    )*};
}

id!(
    /// The usage of a job or session.
    UsageId
);

impl UsageId {
    /// The usage of this job or session. Work that is done again, because a power cut has undone its record, is the same usage.
    pub fn of(work: &str) -> Self {
        Self(format!("use_{work}"))
    }
}

ids! {
    /// A paying account.
    AccountId = "acct";
    /// An API key, without its secret.
    KeyId = "key";
    /// A person who signs in to the dashboard.
    UserId = "user";
    /// A letter in the outbox.
    MailId = "mail";
    /// An invitation to an account.
    InvitationId = "inv";
    TranscriptId = "tr";
    /// A person whom transcripts may name.
    SpeakerId = "spk";
    /// A voice that was made of a recording.
    VoiceId = "voice";
    UploadId = "upload";
    /// A webhook in the outbox.
    DeliveryId = "wh";
    /// A worker's claim on a job or webhook. Writes count only while the lease is current.
    LeaseId = "lease";
    /// A live session.
    SessionId = "ses";
    /// A process of the service.
    NodeId = "node";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_creation_and_never_repeat() {
        let mut ids: Vec<String> = (0..1000).map(|_| TranscriptId::new().to_string()).collect();
        let last = TranscriptId::new();
        assert!(ids.iter().all(|id| id.len() == 29 && id.starts_with("tr_") && id[..12] <= last.as_str()[..12]));
        assert!(ids.is_sorted(), "also within a millisecond");
        ids.dedup();
        assert_eq!(ids.len(), 1000);
    }
}
