//! Recurrent layers.
//!
//! - [`lstm`]: a step
//! - [`bidirectional_lstm`]: a whole sequence in both directions

pub mod bidirectional_lstm;
pub mod lstm;
