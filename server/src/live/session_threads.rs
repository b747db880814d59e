//! Threads for the CPU work of live sessions: resampling, log-mel features, and the text of results.

use std::future::Future;
use std::io;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// A runtime of its own, so that the work of sessions delays neither sockets nor HTTP requests.
pub struct SessionThreads(Option<Runtime>);

impl SessionThreads {
    /// Starts as many threads as the machine has cores.
    ///
    /// # Errors
    /// If the system gives no threads.
    pub fn start() -> io::Result<Self> {
        let threads = available_parallelism().map_or(1, usize::from);
        let runtime =
            Builder::new_multi_thread().worker_threads(threads).thread_name("session").enable_time().build()?;
        Ok(Self(Some(runtime)))
    }

    /// Runs a task on these threads. None after shutdown.
    pub fn spawn<F>(&self, task: F) -> Option<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.as_ref().map(|runtime| runtime.spawn(task))
    }
}

impl Drop for SessionThreads {
    fn drop(&mut self) {
        // Waiting for the threads would block the async thread that drops the state.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
