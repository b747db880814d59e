//! Wake-up signals between the parts of one process.

use tokio::sync::Notify;

/// One signal per background task that waits for work.
#[derive(Default)]
pub struct Notifiers {
    /// A job was queued or released.
    pub jobs: Notify,
    /// A webhook was queued.
    pub webhooks: Notify,
    /// A letter was queued.
    pub mails: Notify,
    /// An object was queued for deletion.
    pub deletions: Notify,
}
