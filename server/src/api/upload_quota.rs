//! The quota of uploads: bytes of an account that no transcript uses. Uploads under way count with the bytes that they
//! may bring.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::StatusCode;

use crate::http::response::{ApiError, Result};
use crate::ids::AccountId;
use crate::store::{Store, Upload};

/// Uploads of an account that were signed and not completed.
const MAX_PENDING: i64 = 10_000;

/// The quota of every account.
pub struct UploadQuota {
    store: Store,
    max_bytes: u64,
    reserved: Arc<Mutex<Reserved>>,
}

/// The reservations of this process.
#[derive(Default)]
struct Reserved {
    next_id: u64,
    by_id: HashMap<u64, (AccountId, u64)>,
}

/// Bytes that an upload may bring, reserved while the value lives.
pub struct Reservation {
    id: u64,
    pub bytes: u64,
    reserved: Arc<Mutex<Reserved>>,
}

fn lock(reserved: &Mutex<Reserved>) -> MutexGuard<'_, Reserved> {
    reserved.lock().unwrap_or_else(PoisonError::into_inner)
}

impl UploadQuota {
    pub fn new(store: Store, max_bytes: u64) -> Self {
        Self { store, max_bytes, reserved: Arc::default() }
    }

    /// The error for an upload beyond the quota.
    pub fn exceeded(&self) -> ApiError {
        let message = format!(
            "The account has {} bytes of uploads without a transcript, or would have with this one. Create their transcripts, or \
             delete transcripts that failed.",
            self.max_bytes
        );
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", message)
    }

    /// Checks that an account may sign another upload of so many bytes.
    ///
    /// # Errors
    /// 429 beyond the quota.
    pub async fn check_signing(&self, upload: &Upload) -> Result<()> {
        if self.store.pending_uploads(&upload.account, MAX_PENDING).await? >= MAX_PENDING {
            let message =
                format!("The account has {MAX_PENDING} uploads that are not complete. Complete them, or wait a day.");
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, "quota_exceeded", message));
        }
        self.reserve(upload, Some(upload.declared_bytes.unwrap_or(0).max(0) as u64), 0).await.map(drop)
    }

    /// Reserves the bytes of an upload: `wanted`, or if that is unknown as many as there may be, up to `most`.
    ///
    /// # Errors
    /// 429 beyond the quota.
    pub async fn reserve(&self, upload: &Upload, wanted: Option<u64>, most: u64) -> Result<Reservation> {
        let bytes = wanted.unwrap_or(most);
        // The reservation comes before the query: an upload that ends meanwhile is counted twice rather than not at all.
        let (id, others) = {
            let mut reserved = lock(&self.reserved);
            let of_account = reserved.by_id.values().filter(|(account, _)| *account == upload.account);
            let others = of_account.map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
            let id = reserved.next_id;
            reserved.next_id += 1;
            reserved.by_id.insert(id, (upload.account.clone(), bytes));
            (id, others)
        };
        let mut reservation = Reservation { id, bytes, reserved: self.reserved.clone() };
        let stored = self.store.unused_upload_bytes(&upload.account, &upload.id).await?;
        let left = self.max_bytes.saturating_sub(others.saturating_add(stored.max(0) as u64));
        if wanted.is_none() && left > 0 {
            reservation.shrink(left);
        }
        if reservation.bytes > left { Err(self.exceeded()) } else { Ok(reservation) }
    }
}

impl Reservation {
    fn shrink(&mut self, most: u64) {
        self.bytes = self.bytes.min(most);
        if let Some((_, bytes)) = lock(&self.reserved).by_id.get_mut(&self.id) {
            *bytes = self.bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        lock(&self.reserved).by_id.remove(&self.id);
    }
}
