//! Pulls of checkpoints that the operator starts: one at a time, with their progress.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::words::EN;
use crate::checkpoints::{PullError, PullTarget, Pulled, Source, Step, decimal_bytes, pull};
use crate::ids::NodeId;
use crate::store::Store;

/// Interval at which the progress is stored for the other processes.
const TELL: Duration = Duration::from_secs(1);

/// The pulls of this process.
pub struct Pulls {
    store: Store,
    node: NodeId,
    models: PathBuf,
    source: Source,
    last: Arc<Mutex<Option<PullState>>>,
}

/// The last pull.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PullState {
    pub repository: String,
    pub is_running: bool,
    pub has_failed: bool,
    /// None as long as the hub has not sent the size.
    pub percent: Option<u64>,
    /// Its progress or its outcome, in words.
    pub text: String,
}

impl Pulls {
    /// Pulls of a process into its models folder.
    pub fn new(store: Store, node: NodeId, models: PathBuf, source: Source) -> Self {
        Self { store, node, models, source, last: Arc::default() }
    }

    /// The pull that runs, else the last one.
    pub fn state(&self) -> Option<PullState> {
        locked(&self.last).clone()
    }

    /// Starts a pull of a model of the catalog.
    ///
    /// # Errors
    /// [`PullError::Running`] while another one runs, and what [`PullTarget::find`] reports.
    pub fn start(&self, model: &str, size: Option<&str>) -> Result<(), PullError> {
        let target = PullTarget::find(&self.models, model, size)?;
        {
            let mut last = locked(&self.last);
            if let Some(running) = last.as_ref().filter(|state| state.is_running) {
                return Err(PullError::Running(running.repository.clone()));
            }
            *last = Some(PullState {
                repository: target.repository.clone(),
                is_running: true,
                has_failed: false,
                percent: None,
                text: EN.pull_begins.into(),
            });
        }
        let (models, source, last) = (self.models.clone(), self.source.clone(), self.last.clone());
        let progress = last.clone();
        let mut pulling = tokio::spawn(async move {
            let mut total = 0;
            let mut report = |step: Step<'_>| {
                let mut state = locked(&progress);
                let Some(state) = state.as_mut() else { return };
                match step {
                    Step::Listed { bytes, .. } => total = bytes,
                    Step::Bytes(bytes) => {
                        state.percent = (bytes * 100).checked_div(total);
                        state.text = format!("{} {} {}", decimal_bytes(bytes), EN.pull_of, decimal_bytes(total));
                    }
                    Step::File(_) => {}
                    Step::Checking => EN.pull_checks.clone_into(&mut state.text),
                }
            };
            pull(&models, &target, &source, false, &mut report).await
        });
        let (store, node) = (self.store.clone(), self.node.clone());
        tokio::spawn(async move {
            let mut tell = tokio::time::interval(TELL);
            let end = loop {
                tokio::select! {
                    end = &mut pulling => break end,
                    _ = tell.tick() => note(&store, &node, &last).await,
                }
            };
            if let Some(state) = locked(&last).as_mut() {
                state.is_running = false;
                let (has_failed, text) = match end {
                    Ok(Ok(Pulled::New { effect, .. })) => (false, effect),
                    Ok(Ok(Pulled::Present { .. })) => (false, EN.pull_present.into()),
                    Ok(Err(error)) => (true, error.to_string()),
                    Err(panic) => (true, panic.to_string()),
                };
                if has_failed {
                    tracing::warn!(repository = state.repository, error = text, "a pull failed");
                }
                (state.has_failed, state.text) = (has_failed, text);
            }
            note(&store, &node, &last).await;
        });
        Ok(())
    }
}

/// Tells the other processes.
async fn note(store: &Store, node: &NodeId, last: &Mutex<Option<PullState>>) {
    let state = locked(last).clone();
    let Some(text) = state.and_then(|state| serde_json::to_string(&state).ok()) else { return };
    if let Err(error) = store.note_pull(node, &text).await {
        tracing::warn!(%error, "recording the progress of a pull failed");
    }
}

fn locked(state: &Mutex<Option<PullState>>) -> MutexGuard<'_, Option<PullState>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
