//! Batch groups: streams that can share a step.

use std::sync::Arc;

use crate::models::fastconformer::FastConformer;
use crate::scheduler::SlotTable;

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

/// The groups, one for each combination of model and settings in use.
#[derive(Default)]
pub struct BatchGroups(SlotTable<BatchGroup>);

impl BatchGroups {
    /// Number of a group, which is added if it is new.
    pub fn number(&mut self, group: &BatchGroup) -> usize {
        self.0.find_or_insert(|known| known == group, || group.clone())
    }

    /// Forgets the groups that no stream uses: their models may be unloaded.
    pub fn keep_used(&mut self, is_used: impl Fn(usize) -> bool) {
        self.0.retain(|number, _| is_used(number));
    }

    /// The group with this number.
    pub fn get(&self, number: usize) -> Option<&BatchGroup> {
        self.0.find(number)
    }
}
