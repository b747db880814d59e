//! The scheduler's bell, under loom.

#[path = "../../../engine/src/scheduler/bell.rs"]
pub mod bell;
