//! Batch groups: streams that can share a step.

use std::sync::Arc;

use crate::models::fastconformer::FastConformer;

/// Settings that streams of one step have in common.
#[derive(Clone)]
pub struct BatchGroup {
    pub model: Arc<FastConformer>,
    /// In encoder frames.
    pub look_ahead: usize,
    /// Slot of the language prompt.
    pub language: usize,
}

impl PartialEq for BatchGroup {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.model, &other.model) && (self.look_ahead, self.language) == (other.look_ahead, other.language)
    }
}

/// All groups so far, one for each combination of model and settings in use.
#[derive(Default)]
pub struct BatchGroups(Vec<BatchGroup>);

impl BatchGroups {
    /// Number of a group, which is added if it is new.
    pub fn number(&mut self, group: &BatchGroup) -> usize {
        self.0.iter().position(|known| known == group).unwrap_or_else(|| {
            self.0.push(group.clone());
            self.0.len() - 1
        })
    }

    /// The group with this number.
    pub fn get(&self, number: usize) -> Option<&BatchGroup> {
        self.0.get(number)
    }
}
