//! The resources of `/v2`, one module each: request validation and response bodies.

pub mod billing;
pub mod create;
pub mod health;
pub mod models;
pub mod transcripts;
pub mod uploads;
