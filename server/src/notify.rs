//! Wake-up signals between the parts of one process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::ids::TranscriptId;

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
    /// Jobs have words.
    pub drafts: Drafts,
}

/// The text so far of the jobs that requests of this process follow.
#[derive(Default)]
pub struct Drafts(Mutex<HashMap<TranscriptId, watch::Sender<String>>>);

impl Drafts {
    fn followed(&self) -> MutexGuard<'_, HashMap<TranscriptId, watch::Sender<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text of a job as it grows, until [`Drafts::forget`].
    pub fn follow(&self, id: &TranscriptId) -> watch::Receiver<String> {
        let (sender, receiver) = watch::channel(String::new());
        self.followed().insert(id.clone(), sender);
        receiver
    }

    pub fn forget(&self, id: &TranscriptId) {
        self.followed().remove(id);
    }

    /// The text of a job that a request follows, emptied for a new attempt.
    pub fn begin(&self, id: &TranscriptId) -> Option<watch::Sender<String>> {
        let sender = self.followed().get(id).cloned()?;
        sender.send_modify(String::clear);
        Some(sender)
    }
}
