//! Calls into symphonia, which corrupt input may make panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use symphonia::core::errors::{Error as SymphoniaError, Result as SymphoniaResult};

/// The message of the error that a panic becomes.
pub(super) const PANICKED: &str = "the decoder gave up on damaged data";

/// Calls into symphonia and turns a panic into an error.
pub(super) fn guarded<T>(call: impl FnOnce() -> SymphoniaResult<T>) -> SymphoniaResult<T> {
    // Unwind safety: after a panic the reader and decoder are not used again, and the other state is plain buffers.
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(SymphoniaError::IoError(std::io::Error::other(PANICKED))))
}
