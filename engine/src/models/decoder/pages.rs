//! The memory of keys and values: pages of 32 tokens that sequences of one account share where they begin alike.
//!
//! A full page is known by its account, the page before it and its tokens, compared whole. A page that no sequence holds stays
//! known until its memory is needed; the one that was held longest ago goes first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use auricle_kernels::attention::paged::Heads;
use auricle_kernels::attention::paged::cpu::{PAGE, Page, PagePrecision, PageShape};
use burn::tensor::{DType, Device, Tensor};

use super::step_scores::StepScores;
use crate::layers::RecordedSteps;

/// The contents of a full page.
#[derive(Clone, PartialEq, Eq, Hash)]
struct PageKey {
    account: Arc<str>,
    /// Of the page before it; none for a sequence's first.
    parent: Option<Chain>,
    tokens: [u32; PAGE],
}

/// Names the beginning of a sequence up to the end of one of its pages. No other beginning ever gets the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Chain(u64);

struct Entry {
    /// Sequences that hold the page.
    holders: usize,
    known: Option<(PageKey, Chain)>,
    /// Place among the pages that nobody holds.
    released: u64,
}

/// All pages of a model.
pub struct PageArena {
    memory: PageMemory,
    capacity: usize,
    entries: Vec<Entry>,
    /// Pages that hold nothing.
    empty: Vec<usize>,
    /// Known pages that nobody holds, by the time of their release.
    idle: BTreeMap<u64, usize>,
    known: HashMap<PageKey, usize>,
    releases: u64,
    chains: u64,
}

/// The place of keys and values.
enum PageMemory {
    /// In the machine's memory, for the CPU.
    Host { shape: PageShape, precision: PagePrecision, pages: Vec<Page> },
    /// On a GPU.
    Card(CardPages),
}

/// Keys and values on a GPU: for each layer a tensor `[pages, values]`, of which nothing else holds one.
pub struct CardPages {
    layers: Vec<Option<Tensor<2>>>,
    /// Pages that the tensors have.
    room: usize,
    /// Values of a page of one layer.
    values: usize,
    dtype: DType,
    device: Device,
    /// Steps over these tensors.
    pub recordings: Option<RecordedSteps<StepScores>>,
}

impl CardPages {
    /// Pages that are allocated at first.
    const FIRST: usize = 64;

    /// Room for no pages yet, of the heads of each of `layers`. The numbers have the type of `dtype`, 32 or 16 bits.
    pub fn new(layers: usize, heads: Heads, dtype: DType, device: &Device) -> Self {
        let (layers, values) = (vec![None; layers], heads.page());
        Self { layers, room: 0, values, dtype, device: device.clone(), recordings: None }
    }

    /// Pages that there is room for. The tensors are others after a change.
    pub fn room(&self) -> usize {
        self.room
    }

    /// The pages of a layer, taken out for a change: [`CardPages::put`] gives them back.
    pub fn take(&mut self, layer: usize) -> Tensor<2> {
        let taken = self.layers[layer].take();
        taken.unwrap_or_else(|| Tensor::zeros([self.room, self.values], (&self.device, self.dtype)))
    }

    /// Gives the pages of a layer back.
    pub fn put(&mut self, layer: usize, pages: Tensor<2>) {
        self.layers[layer] = Some(pages);
    }

    /// Has room for this many pages, of at most `capacity`: twice as many as before, as a larger tensor is a copy.
    pub fn grow(&mut self, pages: usize, capacity: usize) {
        if pages <= self.room {
            return;
        }
        let room = pages.max(2 * self.room).max(Self::FIRST).min(capacity);
        // They change the tensors that were.
        self.recordings = None;
        for layer in self.layers.iter_mut().filter(|layer| layer.is_some()) {
            let more = Tensor::zeros([room - self.room, self.values], (&self.device, self.dtype));
            *layer = layer.take().map(|pages| Tensor::cat(vec![pages, more], 0));
        }
        self.room = room;
    }
}

/// The pages of one sequence, in order.
#[derive(Debug, Default)]
pub struct PageList {
    numbers: Vec<usize>,
    /// Pages at the beginning that are full and known, and the name of the last of them.
    known: usize,
    chain: Option<Chain>,
}

impl PageList {
    /// Tokens that the pages have room for.
    pub fn room(&self) -> usize {
        self.numbers.len() * PAGE
    }

    /// Numbers of the pages.
    pub fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    /// Number of pages.
    pub fn count(&self) -> usize {
        self.numbers.len()
    }
}

impl PageArena {
    /// An arena of at most `capacity` pages for the CPU. Memory is taken as it is needed.
    pub fn new(shape: PageShape, precision: PagePrecision, capacity: usize) -> Self {
        Self::of(PageMemory::Host { shape, precision, pages: Vec::new() }, capacity)
    }

    /// As [`PageArena::new`] for a GPU, with pages of the heads of each of `layers`. The numbers have the type of `dtype`, 32 or 16 bits.
    pub fn on_card(layers: usize, heads: Heads, dtype: DType, capacity: usize, device: &Device) -> Self {
        Self::of(PageMemory::Card(CardPages::new(layers, heads, dtype, device)), capacity)
    }

    fn of(memory: PageMemory, capacity: usize) -> Self {
        Self {
            memory,
            capacity,
            entries: Vec::new(),
            empty: Vec::new(),
            idle: BTreeMap::new(),
            known: HashMap::new(),
            releases: 0,
            chains: 0,
        }
    }

    /// Pages at most.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Pages that sequences can still get.
    pub fn available(&self) -> usize {
        self.capacity - self.entries.len() + self.empty.len() + self.idle.len()
    }

    /// Pages that at least one sequence holds.
    pub fn held(&self) -> usize {
        self.entries.len() - self.empty.len() - self.idle.len()
    }

    /// Gives a sequence without pages those that are known for its beginning, and returns how many of its tokens they hold: never all,
    /// as the last token has to be computed for its scores.
    pub fn share(&mut self, account: &Arc<str>, tokens: &[u32], list: &mut PageList) -> usize {
        debug_assert!(list.numbers.is_empty(), "the sequence has no pages yet");
        let (pages, _) = tokens[..tokens.len().saturating_sub(1)].as_chunks::<{ PAGE }>();
        for tokens in pages {
            let key = PageKey { account: account.clone(), parent: list.chain, tokens: *tokens };
            let Some(number) = self.known.get(&key).copied() else { break };
            self.hold(number);
            list.numbers.push(number);
            list.known += 1;
            list.chain = self.entries[number].known.as_ref().map(|(_, chain)| *chain);
        }
        list.room()
    }

    /// Extends a sequence's pages to room for this many tokens; false, and no change, if there is not enough memory.
    pub fn extend(&mut self, list: &mut PageList, tokens: usize) -> bool {
        let more = tokens.div_ceil(PAGE).saturating_sub(list.numbers.len());
        if more > self.available() {
            return false;
        }
        for _ in 0..more {
            let number = self.take();
            list.numbers.push(number);
        }
        true
    }

    /// Makes the full pages of a sequence known, of which `tokens` have been computed.
    pub fn publish(&mut self, account: &Arc<str>, tokens: &[u32], list: &mut PageList) {
        let (pages, _) = tokens.as_chunks::<{ PAGE }>();
        for (at, tokens) in pages.iter().enumerate().skip(list.known) {
            let key = PageKey { account: account.clone(), parent: list.chain, tokens: *tokens };
            let chain = match self.known.get(&key) {
                // Another sequence has computed the same.
                Some(other) => self.entries[*other].known.as_ref().map(|(_, chain)| *chain),
                None => {
                    self.chains += 1;
                    let (number, chain) = (list.numbers[at], Chain(self.chains));
                    self.known.insert(key.clone(), number);
                    self.entries[number].known = Some((key, chain));
                    Some(chain)
                }
            };
            (list.known, list.chain) = (at + 1, chain);
        }
    }

    /// Gives a sequence's pages back.
    pub fn release(&mut self, list: &mut PageList) {
        // The last first: it is the first to go when memory is needed, as the pages before it may serve others.
        for number in std::mem::take(list).numbers.into_iter().rev() {
            let entry = &mut self.entries[number];
            entry.holders -= 1;
            if entry.holders == 0 {
                if entry.known.is_some() {
                    self.releases += 1;
                    entry.released = self.releases;
                    self.idle.insert(self.releases, number);
                } else {
                    self.empty.push(number);
                }
            }
        }
    }

    /// The pages of a sequence, for reading on the CPU; none of an arena on a GPU.
    pub fn pages(&self, list: &PageList) -> Vec<&Page> {
        match &self.memory {
            PageMemory::Host { pages, .. } => list.numbers.iter().map(|number| &pages[*number]).collect(),
            PageMemory::Card(_) => Vec::new(),
        }
    }

    /// The pages on the GPU, with room for those of all sequences; none of an arena for the CPU.
    pub fn card(&mut self) -> Option<&mut CardPages> {
        match &mut self.memory {
            PageMemory::Host { .. } => None,
            PageMemory::Card(card) => {
                card.grow(self.entries.len(), self.capacity);
                Some(card)
            }
        }
    }

    /// Writes the key and the value of a sequence's token at `position`, on the CPU.
    pub fn write(&mut self, list: &PageList, position: usize, layer: usize, head: usize, key: &[f32], value: &[f32]) {
        let number = list.numbers[position / PAGE];
        let entry = &self.entries[number];
        debug_assert!(entry.holders == 1 && entry.known.is_none(), "only a page of its own is written");
        if let PageMemory::Host { pages, .. } = &mut self.memory {
            pages[number].write(layer, head, position % PAGE, key, value);
        }
    }

    fn hold(&mut self, number: usize) {
        let entry = &mut self.entries[number];
        if entry.holders == 0 {
            self.idle.remove(&entry.released);
        }
        entry.holders += 1;
    }

    /// An empty page, held once. There is one: the caller has looked.
    fn take(&mut self) -> usize {
        let number = match self.empty.pop() {
            Some(number) => number,
            None if self.entries.len() < self.capacity => {
                if let PageMemory::Host { shape, precision, pages } = &mut self.memory {
                    pages.push(Page::new(*shape, *precision));
                }
                self.entries.push(Entry { holders: 0, known: None, released: 0 });
                self.entries.len() - 1
            }
            None => {
                let (_, number) = self.idle.pop_first().unwrap_or_default();
                if let Some((key, _)) = self.entries[number].known.take() {
                    self.known.remove(&key);
                }
                number
            }
        };
        self.entries[number].holders = 1;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena(capacity: usize) -> PageArena {
        PageArena::new(PageShape { layers: 1, heads: 1, head: 2 }, PagePrecision::F32, capacity)
    }

    fn tokens(count: usize, seed: u32) -> Vec<u32> {
        (0..count as u32).map(|at| at.wrapping_mul(7) + seed).collect()
    }

    /// Computes a whole sequence.
    fn compute(arena: &mut PageArena, account: &Arc<str>, tokens: &[u32]) -> (PageList, usize) {
        let mut list = PageList::default();
        let shared = arena.share(account, tokens, &mut list);
        assert!(arena.extend(&mut list, tokens.len()));
        arena.publish(account, tokens, &mut list);
        (list, shared)
    }

    #[test]
    fn sequences_of_one_account_share_what_they_begin_with() {
        let (mut arena, one, two): (_, Arc<str>, Arc<str>) = (arena(100), "one".into(), "two".into());
        let text = tokens(100, 0);
        let (mut first, shared) = compute(&mut arena, &one, &text);
        assert_eq!((shared, arena.held()), (0, 4));
        let (mut second, shared) = compute(&mut arena, &one, &text);
        assert_eq!((shared, arena.held()), (96, 5));
        // The last token is always computed.
        let (mut exact, shared) = compute(&mut arena, &one, &text[..96]);
        assert_eq!((shared, arena.held()), (64, 6));
        let (mut others, shared) = compute(&mut arena, &two, &text);
        assert_eq!(shared, 0, "another account's");
        let mut changed = text.clone();
        changed[40] = 9999;
        let (mut third, shared) = compute(&mut arena, &one, &changed);
        assert_eq!(shared, 32);
        for list in [&mut first, &mut second, &mut exact, &mut others, &mut third] {
            arena.release(list);
        }
        assert_eq!((arena.held(), arena.available()), (0, 100));
        // Released pages are found again.
        assert_eq!(compute(&mut arena, &one, &text).1, 96);
        assert_eq!(compute(&mut arena, &two, &text).1, 96);
    }

    #[test]
    fn memory_is_bounded_and_the_longest_unused_page_goes_first() {
        let (mut arena, account): (_, Arc<str>) = (arena(4), "a".into());
        let (mut old, _) = compute(&mut arena, &account, &tokens(64, 1));
        let (mut new, _) = compute(&mut arena, &account, &tokens(64, 2));
        let mut list = PageList::default();
        assert!(!arena.extend(&mut list, 1) && list.count() == 0);
        arena.release(&mut old);
        arena.release(&mut new);
        assert!(arena.extend(&mut list, 32));
        // The end of the one that was released first is gone, its beginning is not.
        assert_eq!(compute(&mut arena, &account, &tokens(65, 1)[..64]).1, 32);
        arena.release(&mut list);
        assert!(arena.available() <= 4);
    }

    #[test]
    fn a_beginning_that_was_forgotten_never_leads_to_its_old_continuation() {
        let (mut arena, account): (_, Arc<str>) = (arena(3), "a".into());
        let text = tokens(96, 1);
        let (mut list, _) = compute(&mut arena, &account, &text);
        arena.release(&mut list);
        let mut all = PageList::default();
        assert!(arena.extend(&mut all, 96), "everything is forgotten");
        arena.release(&mut all);
        assert_eq!(compute(&mut arena, &account, &text).1, 0);
    }
}
