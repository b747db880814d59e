//! HTTP: connections, request bodies and queries, responses, rate limits. No route is known here.

mod activity;
pub mod admission;
pub mod body;
pub mod connection;
mod control_frames;
pub mod listener;
pub mod proxies;
pub mod query;
pub mod rate_limits;
pub mod request_body;
pub mod response;
pub mod response_body;
pub mod transfer;
