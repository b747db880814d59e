//! The scheduler and the thread pool, with their own tests.

#[path = "../../../kernels/src/thread_pool.rs"]
pub mod thread_pool;
#[path = "../../../engine/src/error.rs"]
pub mod error;
#[path = "../../../engine/src/scheduler/mod.rs"]
pub mod scheduler;
