//! Which streams can share a step.

use std::sync::Arc;

use crate::models::fastconformer::FastConformer;

/// What streams of one step have in common.
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

/// The groups that there have been; there are as many as models and settings in use, which is few.
#[derive(Default)]
pub struct BatchGroups(Vec<BatchGroup>);

impl BatchGroups {
    /// The number of a group.
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
