//! The notice that a starter wrote a text, for operators, with the button that pulls a better checkpoint.

use auricle_engine::Engine;

use super::DashboardState;
use super::frame::Frame;
use crate::checkpoints::{Better, Machine, better};

/// A model that a starter serves, and the checkpoint to pull.
pub struct StarterNotice {
    /// The model of the text.
    pub written_by: String,
    pub better: Better,
    /// A pull of this process has not ended.
    pub is_pulling: bool,
}

impl StarterNotice {
    /// The notice for the first of some models that has a better checkpoint to pull. None for those who are no operators.
    pub fn new<'a>(state: &DashboardState, frame: &Frame, models: impl Iterator<Item = &'a str>) -> Option<Self> {
        frame.signed_in.as_ref().filter(|navigation| navigation.is_operator)?;
        let machine = Machine::with(state.engine.iter().flat_map(Engine::devices));
        let mut seen = Vec::new();
        for model in models {
            if seen.contains(&model) {
                continue;
            }
            seen.push(model);
            if let Some(better) = better(&state.catalog, model, &machine) {
                let is_pulling = state.operation.pulls.state().is_some_and(|pull| pull.is_running);
                return Some(Self { written_by: model.to_owned(), better, is_pulling });
            }
        }
        None
    }
}
