//! Live sessions over WebSockets: tokens, frames, the time that they are billed for.

pub mod frame;
pub mod realtime;
mod session;
pub mod socket;
pub mod token;
pub mod watch;
