//! Attention, by what the queries see. Queries, keys and values have `heads` heads of `head` values each.
//!
//! - [`full`]: all queries of a row see all of its keys
//! - [`relative`]: queries see windows of the frames of their stream, with scores by distance
//! - [`single_query`]: one query of each row sees a range of cached keys
//! - [`paged`]: tokens see the tokens before them, in pages
//! - [`int8`]: as `full`, in 8 bits on the CPU

pub mod full;
pub mod int8;
pub mod paged;
pub mod relative;
pub mod single_query;
