//! The scheduler and the crew, with their own tests.

#[path = "../../../kernels/src/crew.rs"]
pub mod crew;
#[path = "../../../engine/src/error.rs"]
pub mod error;
#[path = "../../../engine/src/scheduler/mod.rs"]
pub mod scheduler;
