//! How long a client may take: for the head of a request, for bodies in both directions, and between two requests.

use std::time::Duration;

/// The sending side of a connection holds about as many bytes in the kernel. A client that reads slowly lets them drain
/// before the next part of a response is asked for.
const KERNEL_BUFFER_BYTES: u64 = 1 << 20;

/// The limits.
#[derive(Clone, Copy, Debug)]
pub struct TransferLimits {
    /// From the connection to the end of the first request's head.
    pub head: Duration,
    /// Between two requests of a connection, with the head of the second.
    pub idle: Duration,
    /// The longest pause within a body. It is also the time that a body may take beyond its least rate.
    pub stall: Duration,
    /// The least rate of bodies.
    pub bytes_per_second: u64,
}

impl TransferLimits {
    /// The longest time in which a client may have transferred so many bytes alone.
    pub fn longest(&self, bytes: u64) -> Duration {
        self.stall + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second.max(1) as f64)
    }

    /// The longest pause within a response of which so many bytes were passed on.
    pub fn longest_response_pause(&self, bytes: u64) -> Duration {
        self.longest(bytes.min(KERNEL_BUFFER_BYTES))
    }

    /// The shortest of the limits.
    pub fn shortest(&self) -> Duration {
        self.head.min(self.idle).min(self.stall)
    }
}
