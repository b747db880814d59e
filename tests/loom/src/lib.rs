//! The wake-up of the scheduler, under loom.

#[path = "../../../engine/src/scheduler/notify.rs"]
pub mod notify;
