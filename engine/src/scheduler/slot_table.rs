//! Values by slot number.

use crate::error::{Error, Result};

/// A value for each slot that is in use.
#[derive(Debug)]
pub struct SlotTable<T> {
    entries: Vec<Option<T>>,
}

impl<T> Default for SlotTable<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T> SlotTable<T> {
    /// Puts a value into a slot.
    pub fn insert(&mut self, slot: usize, value: T) {
        if self.entries.len() <= slot {
            self.entries.resize_with(slot + 1, || None);
        }
        self.entries[slot] = Some(value);
    }

    /// Takes the value of a slot out.
    pub fn remove(&mut self, slot: usize) -> Option<T> {
        self.entries.get_mut(slot).and_then(Option::take)
    }

    /// Puts a value into the first free slot, unless there is one that `is_same` tells; gives its slot.
    pub fn find_or_insert(&mut self, is_same: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> usize {
        if let Some((slot, _)) = self.iter().find(|(_, value)| is_same(value)) {
            return slot;
        }
        let slot = self.entries.iter().position(Option::is_none).unwrap_or(self.entries.len());
        self.insert(slot, make());
        slot
    }

    /// Frees the slots that `keep` does not tell.
    pub fn retain(&mut self, keep: impl Fn(usize, &T) -> bool) {
        for (slot, entry) in self.entries.iter_mut().enumerate() {
            entry.take_if(|value| !keep(slot, value));
        }
    }

    /// The slots that are in use, and their values.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.entries.iter().enumerate().filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)))
    }

    /// As [`SlotTable::iter`].
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.entries.iter_mut().enumerate().filter_map(|(slot, entry)| Some((slot, entry.as_mut()?)))
    }

    /// The value of a slot, if it is in use.
    pub fn find(&self, slot: usize) -> Option<&T> {
        self.entries.get(slot)?.as_ref()
    }

    /// The value of a slot, if it is in use.
    pub fn find_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.entries.get_mut(slot)?.as_mut()
    }

    /// The value of a slot that must be in use.
    ///
    /// # Errors
    /// [`Error::Internal`] when the slot is free.
    #[track_caller]
    pub fn get_mut(&mut self, slot: usize) -> Result<&mut T> {
        match self.entries.get_mut(slot) {
            Some(Some(value)) => Ok(value),
            _ => Err(Error::internal(format!("slot {slot} is free"))),
        }
    }

    /// The values of several slots that must be in use, in the order of `slots`, which holds no number twice.
    ///
    /// # Errors
    /// As [`SlotTable::get_mut`].
    #[track_caller]
    pub fn several_mut(&mut self, slots: &[usize]) -> Result<Vec<&mut T>> {
        let mut found: Vec<Option<&mut T>> = slots.iter().map(|_| None).collect();
        for (number, entry) in self.entries.iter_mut().enumerate() {
            if let Some(at) = slots.iter().position(|slot| *slot == number) {
                found[at] = entry.as_mut();
            }
        }
        match found.into_iter().collect() {
            Some(all) => Ok(all),
            None => Err(Error::internal(format!("one of the slots {slots:?} is free"))),
        }
    }
}
