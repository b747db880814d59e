//! State of streams on a GPU between chunks: one tensor for each kind of state, with a slot for each stream.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use auricle_kernels::attention::relative::KeyValueRing;
use auricle_kernels::cache::ring::{self, StepFrames};
use auricle_kernels::cache::state::{self, BatchSlots};
use burn::tensor::{DType, Device, Int, Tensor};

use super::super::context::Context;
use crate::layers::RecordedSteps;

/// Slots that stay allocated when no stream is left.
const SPARE: usize = 8;

/// The slots of all streams with one look-ahead.
#[derive(Debug)]
pub struct Arena {
    pub context: Context,
    layout: SlotLayout,
    device: Device,
    allocator: Mutex<SlotAllocator>,
    memory: Mutex<ArenaTensors>,
}

/// Shapes of the state of one stream, `[outer, columns, inner]` each.
#[derive(Clone, Debug)]
pub struct SlotLayout {
    /// The last input frame of each stage of the subsampling.
    pub subsampling: Vec<[usize; 3]>,
    /// Keys of a block's attention; the values have the same shape.
    pub attention: [usize; 3],
    /// The last inputs of a block's depthwise convolution.
    pub convolution: [usize; 3],
    pub blocks: usize,
    /// Type of the blocks' state.
    pub dtype: DType,
}

#[derive(Debug, Default)]
struct SlotAllocator {
    /// Slots that were returned.
    free: Vec<usize>,
    /// First slot that was never used.
    next: usize,
}

/// State of all streams.
#[derive(Debug, Default)]
pub struct ArenaTensors {
    slots: usize,
    pub subsampling: Vec<StateTensor>,
    pub blocks: Vec<BlockTensors>,
    /// Steps over these tensors.
    pub recordings: Option<RecordedSteps<Tensor<3>>>,
    /// Thread of the last change, and a tensor that it created then.
    last: Option<(ThreadId, Tensor<1, Int>)>,
}

#[derive(Debug)]
pub struct BlockTensors {
    /// A ring each.
    keys: StateTensor,
    values: StateTensor,
    convolution: StateTensor,
}

/// One kind of state for all streams: `[slots, outer, columns, inner]`; none if it is empty.
#[derive(Debug)]
pub struct StateTensor(Option<Tensor<4>>);

/// A batch of streams of one arena.
#[derive(Debug)]
pub struct State {
    pub arena: Arc<Arena>,
    pub rows: Vec<StreamSlot>,
}

/// A stream.
#[derive(Debug)]
pub struct StreamSlot {
    slot: usize,
    /// True after the first chunk.
    pub begun: bool,
    /// Frames that the stream has had.
    pub written: usize,
}

impl Arena {
    pub fn new(context: Context, layout: SlotLayout, device: &Device) -> Self {
        let (allocator, memory) = (Mutex::default(), Mutex::default());
        Self { context, layout, device: device.clone(), allocator, memory }
    }

    /// Allocates slots for new streams.
    pub fn open(self: &Arc<Self>, count: usize) -> State {
        let mut allocator = self.allocator.lock().unwrap_or_else(PoisonError::into_inner);
        let mut take = || {
            allocator.free.pop().unwrap_or_else(|| {
                allocator.next += 1;
                allocator.next - 1
            })
        };
        let rows: Vec<StreamSlot> = (0..count).map(|_| StreamSlot { slot: take(), begun: false, written: 0 }).collect();
        let needed = allocator.next;
        drop(allocator);
        let mut memory = self.memory();
        if needed > memory.slots {
            memory.grow(needed.next_power_of_two(), &self.layout, &self.device);
        }
        State { arena: self.clone(), rows }
    }

    pub fn memory(&self) -> MutexGuard<'_, ArenaTensors> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of one slot.
    fn bytes(&self) -> usize {
        let values = |shape: &[usize; 3]| shape.iter().product::<usize>();
        let block = 2 * values(&self.layout.attention) + values(&self.layout.convolution);
        let blocks = self.layout.blocks * block * self.layout.dtype.size();
        self.layout.subsampling.iter().map(values).sum::<usize>() * size_of::<f32>() + blocks
    }
}

impl State {
    /// The slot of each row of these states, and whether it has state.
    pub fn slots(states: &[&mut Self]) -> Vec<(usize, bool)> {
        states.iter().flat_map(|state| &state.rows).map(|row| (row.slot, row.begun)).collect()
    }

    /// Slot and frames so far of each row of these states.
    pub fn written(states: &[&mut Self]) -> Vec<(usize, usize)> {
        states.iter().flat_map(|state| &state.rows).map(|row| (row.slot, row.written)).collect()
    }

    pub fn bytes(&self) -> usize {
        self.rows.len() * self.arena.bytes()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let mut allocator = self.arena.allocator.lock().unwrap_or_else(PoisonError::into_inner);
        allocator.free.extend(self.rows.iter().map(|row| row.slot));
        if allocator.free.len() == allocator.next {
            *allocator = SlotAllocator::default();
            let mut memory = self.arena.memory();
            if memory.slots > SPARE {
                *memory = ArenaTensors::default();
            }
        }
    }
}

impl ArenaTensors {
    /// Orders changes between threads; called before each change, with a tensor that the same thread has just created.
    ///
    /// A device runs the operations of one thread in order. The operations of two threads are ordered only if one reads
    /// a result of the other, and slots change in place.
    pub fn begin(&mut self, made: &Tensor<1, Int>) {
        let here = thread::current().id();
        if let Some((_, made)) = self.last.take().filter(|(thread, _)| *thread != here) {
            // The read waits for all earlier operations of the other thread. A device failure is reported at its next
            // use.
            drop(made.try_into_data());
        }
        self.last = Some((here, made.clone()));
    }

    /// True if this thread made the last change.
    pub fn is_here(&self) -> bool {
        self.last.as_ref().is_some_and(|(thread, _)| *thread == thread::current().id())
    }

    /// A slot that no stream has, for rows that fill up a step.
    pub fn spare(&self) -> usize {
        self.slots
    }

    fn grow(&mut self, slots: usize, layout: &SlotLayout, device: &Device) {
        self.begin(&Tensor::from_data([0], device));
        // They change the tensors that were.
        self.recordings = None;
        // Behind the slots is the spare one.
        let more = slots - self.slots + usize::from(self.slots == 0);
        let zeros = |[outer, columns, inner]: [usize; 3], dtype| {
            let shape = [more, outer, columns, inner];
            StateTensor((columns > 0).then(|| Tensor::<4>::zeros(shape, (device, dtype))))
        };
        if self.slots == 0 {
            self.subsampling = layout.subsampling.iter().map(|shape| zeros(*shape, DType::F32)).collect();
            let block = || BlockTensors {
                keys: zeros(layout.attention, layout.dtype),
                values: zeros(layout.attention, layout.dtype),
                convolution: zeros(layout.convolution, layout.dtype),
            };
            self.blocks = (0..layout.blocks).map(|_| block()).collect();
        } else {
            let blocks = self.blocks.iter_mut();
            let kept = blocks.flat_map(|block| [&mut block.keys, &mut block.values, &mut block.convolution]);
            for StateTensor(kept) in kept.chain(&mut self.subsampling) {
                *kept = kept.take().map(|kept| {
                    let [_, outer, columns, inner] = kept.dims();
                    let dtype = kept.dtype();
                    Tensor::cat(vec![kept, Tensor::zeros([more, outer, columns, inner], (device, dtype))], 0)
                });
            }
        }
        self.slots = slots;
    }
}

impl BlockTensors {
    /// The keys and values of earlier frames; none without left context.
    pub fn ring(&self) -> Option<KeyValueRing> {
        Some(KeyValueRing { keys: self.keys.0.clone()?, values: self.values.0.clone()? })
    }

    /// The inputs of the convolution at earlier frames; none if it sees none.
    pub fn convolved(&self) -> Option<Tensor<4>> {
        self.convolution.0.clone()
    }

    /// Writes the inputs of the convolution at a step's frames to its ring.
    pub fn store_convolved(&mut self, ring: Tensor<4>, frames: &StepFrames, new: Tensor<4>) {
        self.convolution = StateTensor(Some(ring::store(ring, frames, new)));
    }

    /// Writes the keys and values of a step's frames to the ring.
    pub fn store(&mut self, ring: KeyValueRing, frames: &StepFrames, new: [Tensor<4>; 2]) {
        let [keys, values] = ring::store_both([ring.keys, ring.values], frames, new);
        (self.keys, self.values) = (StateTensor(Some(keys)), StateTensor(Some(values)));
    }
}

impl StateTensor {
    /// Concatenates the rows' state with `new` `[rows, outer, more, inner]`, and keeps the last columns as the next
    /// state.
    pub fn follow(&mut self, slots: &BatchSlots, new: Tensor<4>) -> Tensor<4> {
        let Some(kept) = &self.0 else { return new };
        let window = state::prepend(kept, slots, new);
        self.0 = Some(state::store(kept.clone(), slots, &window));
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_given_out_once_and_again_when_they_are_given_back() {
        let device = Device::flex();
        let layout = SlotLayout {
            subsampling: vec![[1, 1, 4]],
            attention: [2, 3, 2],
            convolution: [1, 2, 4],
            blocks: 2,
            dtype: DType::F32,
        };
        let context = Context::Chunked { left: 3, look_ahead: 0 };
        let arena = Arc::new(Arena::new(context, layout, &device));
        let slots = |state: &State| state.rows.iter().map(|row| row.slot).collect::<Vec<_>>();
        let (one, two) = (arena.open(1), arena.open(2));
        assert_eq!((slots(&one), slots(&two)), (vec![0], vec![1, 2]));
        assert_eq!(arena.memory().slots, 4);
        assert_eq!(two.bytes(), 2 * 4 * (4 + 2 * (2 * 12 + 8)));
        drop(one);
        let three = arena.open(2);
        assert_eq!(slots(&three), [0, 3]);
        assert_eq!(arena.memory().slots, 4);
        let many = arena.open(16);
        assert_eq!(arena.memory().slots, 32);
        drop((two, many, three));
        assert_eq!(arena.memory().slots, 0);
        assert_eq!(slots(&arena.open(1)), [0]);
    }

    /// A stream's state is unaffected by other streams, by growth, and by its slot's previous owner.
    #[test]
    fn a_stream_keeps_its_own_columns() {
        let device = Device::flex();
        let layout = SlotLayout {
            subsampling: vec![],
            attention: [1, 2, 1],
            convolution: [1, 2, 1],
            blocks: 1,
            dtype: DType::F32,
        };
        let context = Context::Chunked { left: 2, look_ahead: 0 };
        let arena = Arc::new(Arena::new(context, layout, &device));
        let step = |states: &mut [&mut State], new: &[f32]| -> Vec<Vec<f32>> {
            let slots = BatchSlots::new(State::slots(states), &device);
            let new = Tensor::<1>::from_floats(new, &device).reshape([new.len(), 1, 1, 1]);
            let mut memory = arena.memory();
            memory.begin(slots.indices());
            let window = memory.blocks[0].keys.follow(&slots, new);
            states.iter_mut().flat_map(|state| &mut state.rows).for_each(|row| row.begun = true);
            let values = window.into_data().try_to_vec::<f32>().unwrap();
            values.chunks(3).map(<[f32]>::to_vec).collect()
        };
        let (mut one, mut two) = (arena.open(1), arena.open(1));
        assert_eq!(step(&mut [&mut one, &mut two], &[1.0, 2.0]), [[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]]);
        assert_eq!(step(&mut [&mut two], &[3.0]), [[0.0, 2.0, 3.0]]);
        let mut more = arena.open(5);
        assert_eq!(step(&mut [&mut two, &mut one], &[4.0, 5.0]), [[2.0, 3.0, 4.0], [0.0, 1.0, 5.0]]);
        assert_eq!(step(&mut [&mut more], &[6.0; 5]), vec![[0.0, 0.0, 6.0]; 5]);
        drop(one);
        let mut again = arena.open(1);
        assert_eq!(step(&mut [&mut again, &mut two], &[7.0, 8.0]), [[0.0, 0.0, 7.0], [3.0, 4.0, 8.0]]);
    }
}
