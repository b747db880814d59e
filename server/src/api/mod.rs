//! The resources of `/v2`, a module each: what a request must hold, and what an answer looks like.

pub mod billing;
pub mod create;
pub mod health;
pub mod models;
pub mod transcripts;
pub mod uploads;

/// Entries of a list page: the most, and how many where none are asked for.
const MOST: i64 = 100;
const USUAL: i64 = 20;

/// `limit` and `offset` of a list.
fn page(call: &crate::http::RequestContext) -> crate::http::response::Result<(i64, i64)> {
    let limit = call.query_integer("limit", 1..=MOST)?.unwrap_or(USUAL);
    let offset = call.query_integer("offset", 0..=i64::MAX)?.unwrap_or(0);
    Ok((limit, offset))
}
