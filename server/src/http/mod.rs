//! HTTP: connections, request bodies and queries, responses, rate limits. No route is known here.

pub mod body;
pub mod listener;
pub mod query;
pub mod rate_limits;
pub mod response;
