//! Realtime sessions over WebSocket: interface section 6.2.

mod billing;
mod second_pass;
mod sessions;
mod tokens;
mod wire;
