//! The state of utterances on a GPU: keys and values of the backbone in pages, which those of a voice share where they begin alike, and a slot
//! each of the rings of all that follows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use auricle_kernels::attention::paged::Heads;
use burn::tensor::{DType, Device, Tensor};

use crate::error::{Error, Result};
use crate::layers::RecordedSteps;
use crate::models::decoder::{CardPages, PageArena, PageList};

/// Slots that stay allocated when no utterance is left.
const SPARE: usize = 8;
/// Values of one layer's keys and values at most: a GPU limits a tensor's bytes.
const MOST_VALUES: usize = 1 << 28;
/// Shapes of recorded steps that are remembered.
const MOST_SHAPES: usize = 16;

/// A ring of each slot.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    columns: usize,
    width: usize,
}

/// The shapes of what utterances keep.
#[derive(Debug)]
pub struct Layout {
    pub backbone: Stack,
    /// Of the audio decoder, whose pages are a ring of each slot.
    pub codec: Stack,
    pub codec_pages: usize,
    pub rings: Vec<Ring>,
}

/// The layers of a transformer.
#[derive(Debug)]
pub struct Stack {
    pub layers: usize,
    pub heads: Heads,
    pub dtype: DType,
}

/// The memory of all utterances.
pub struct Streams {
    layout: Layout,
    device: Device,
    memory: Mutex<Memory>,
}

/// Samples `[rows, samples]` and logits of the end of speech `[rows, 1]`.
pub type StepOutput = [Tensor<2>; 2];

/// Tensors that steps change in place. A step ends with a read, so that all it did is done when another thread has the lock.
pub struct Memory {
    pub pages: PageArena,
    pub codec_pages: CardPages,
    /// `[slots, columns, width]` each.
    pub rings: Vec<Tensor<3>>,
    /// Steps over these tensors.
    pub recordings: RecordedSteps<StepOutput>,
    /// Room of the backbone's pages at the last step.
    recorded_room: usize,
    /// Slots that were returned.
    free: Vec<usize>,
    /// First slot that was never used.
    next: usize,
    /// Slots of the tensors.
    slots: usize,
}

/// The place of an utterance, which is given back when it is dropped.
pub struct Place {
    streams: Arc<Streams>,
    pub slot: usize,
    pages: Mutex<PageList>,
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl Ring {
    /// Of frames of so many values, `frames` a step, that are seen by so many `taps`: those of a step beside those before it that the step
    /// sees, so that it may run twice.
    pub fn new(frames: usize, taps: usize, width: usize) -> Self {
        Self { columns: frames * (1 + (taps - 1).div_ceil(frames)), width }
    }
}

impl Streams {
    pub fn new(layout: Layout, device: &Device) -> Self {
        let Stack { layers, heads, dtype } = layout.backbone;
        let pages = PageArena::on_card(layers, heads, dtype, (MOST_VALUES / heads.page()).max(1), device);
        let memory = Memory {
            pages,
            codec_pages: layout.codec.pages(device),
            rings: Vec::new(),
            recordings: RecordedSteps::new(MOST_SHAPES),
            recorded_room: 0,
            free: Vec::new(),
            next: 0,
            slots: 0,
        };
        Self { layout, device: device.clone(), memory: Mutex::new(memory) }
    }

    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for an utterance of so many `positions` that begins with these tokens, and how many of those its pages know already. Voices
    /// share pages alone: see [`Place::publish`].
    ///
    /// # Errors
    /// [`Error::Busy`] when other utterances have all memory.
    pub fn open(self: &Arc<Self>, tokens: &[u32], positions: usize) -> Result<(Place, usize)> {
        let mut memory = self.memory();
        let mut list = PageList::default();
        let known = memory.pages.share(&VOICES.into(), tokens, &mut list);
        if !memory.pages.extend(&mut list, positions) {
            memory.pages.release(&mut list);
            return Err(Error::Busy("the keys and values of other utterances take all memory".into()));
        }
        let slot = memory.free.pop().unwrap_or_else(|| {
            memory.next += 1;
            memory.next - 1
        });
        Ok((Place { streams: self.clone(), slot, pages: Mutex::new(list) }, known))
    }

    /// Makes room for the slots and pages of all utterances, before a step.
    pub fn make_room(&self, memory: &mut Memory) {
        if memory.next > memory.slots {
            let slots = memory.next.next_power_of_two();
            let zeros = |ring: &Ring, slots: usize| Tensor::zeros([slots, ring.columns, ring.width], &self.device);
            let before = std::mem::take(&mut memory.rings);
            memory.rings = match before.is_empty() {
                true => self.layout.rings.iter().map(|ring| zeros(ring, slots)).collect(),
                false => {
                    let more = self.layout.rings.iter().map(|ring| zeros(ring, slots - memory.slots));
                    before.into_iter().zip(more).map(|(ring, more)| Tensor::cat(vec![ring, more], 0)).collect()
                }
            };
            let pages = slots * self.layout.codec_pages;
            memory.codec_pages.grow(pages, pages);
            memory.slots = slots;
            memory.forget_recordings();
        }
        let room = memory.pages.card().map_or(0, |pages| pages.room());
        if room != memory.recorded_room {
            memory.recorded_room = room;
            memory.forget_recordings();
        }
    }

    /// Pages of a slot in the audio decoder.
    pub fn codec_width(&self) -> usize {
        self.layout.codec_pages
    }

    /// The numbers of a slot's pages in the audio decoder.
    pub fn codec_pages(&self, slot: usize) -> Vec<usize> {
        (slot * self.layout.codec_pages..(slot + 1) * self.layout.codec_pages).collect()
    }
}

/// The account that owns the pages of voices.
const VOICES: &str = "voices";

impl Stack {
    fn pages(&self, device: &Device) -> CardPages {
        CardPages::new(self.layers, self.heads, self.dtype, device)
    }
}

impl Memory {
    /// Recordings change the tensors that were.
    fn forget_recordings(&mut self) {
        self.recordings = RecordedSteps::new(MOST_SHAPES);
    }
}

impl Place {
    /// The numbers of its pages.
    pub fn pages(&self) -> Vec<usize> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).numbers().to_vec()
    }

    /// Makes the full pages of these tokens, the first of the utterance, known to those that begin alike. They have been computed.
    pub fn publish(&self, memory: &mut Memory, tokens: &[u32]) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        memory.pages.publish(&VOICES.into(), tokens, &mut pages);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut memory = self.streams.memory();
        memory.pages.release(self.pages.get_mut().unwrap_or_else(PoisonError::into_inner));
        memory.free.push(self.slot);
        if memory.free.len() == memory.next {
            memory.free.clear();
            memory.next = 0;
            if memory.slots > SPARE {
                memory.rings.clear();
                memory.slots = 0;
                memory.codec_pages = self.streams.layout.codec.pages(&self.streams.device);
                memory.forget_recordings();
            }
        }
    }
}
