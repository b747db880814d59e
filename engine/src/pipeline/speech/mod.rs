//! Speech synthesis: text in as it is written, frames of speech out.
//!
//! - [`session`]: the two halves that a caller holds, text in and frames out.
//! - `feed`: text that is pushed and not said yet, clause by clause.
//! - `framing`: samples of clauses to frames of 80 ms with their words.
//! - `pacing`: frames no more than half a second ahead of real time.

mod feed;
mod framing;
mod pacing;
pub mod session;
