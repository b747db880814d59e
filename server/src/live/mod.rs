//! Live sessions over WebSockets: tokens, frames, the time that they are billed for.

pub mod frames;
pub mod realtime;
mod session;
pub mod socket;
