//! What the worker runs for live streams: the detector over all that came in, encoder steps over those with a chunk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use burn::tensor::{Tensor, TensorData};

use super::slot::{Heard, Input, Kind, Part, Slot};
use crate::audio::SAMPLE_RATE;
use crate::decoding::Beam;
use crate::error::{Error, Result};
use crate::models::silero::{CHUNK, Memory, Silero};
use crate::pipeline::groups::{Group, Groups};
use crate::scheduler::Machine;

/// Rows of an encoder step at most.
const MOST_ROWS: usize = 64;
/// How long a chunk of the detector's is.
const DETECTED: Duration = Duration::from_millis((CHUNK * 1000 / SAMPLE_RATE as usize) as u64);

/// The live streams of a device.
pub struct Listening {
    detector: Option<Arc<Silero>>,
    slots: Vec<Option<Slot>>,
    groups: Groups,
}

/// What a slot is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bucket {
    /// The detector.
    Detect,
    /// So many chunks through the encoder.
    Encode {
        /// Which streams can share it.
        group: usize,
        /// How they are searched.
        way: Way,
        /// A power of two.
        chunks: usize,
    },
    /// The end of a turn that nothing is left of.
    Settle,
}

/// A way to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// The best token at every step.
    Greedy,
    /// Several texts side by side.
    Beam,
}

impl Listening {
    /// No stream yet.
    pub fn new(detector: Option<Arc<Silero>>) -> Self {
        Self { detector, slots: Vec::new(), groups: Groups::default() }
    }

    fn slot(&mut self, slot: usize) -> Result<&mut Slot> {
        self.slots.get_mut(slot).and_then(Option::as_mut).ok_or(Error::Canceled)
    }

    fn detect(&mut self, slots: &[usize]) -> Result<Vec<Option<Heard>>> {
        let Some(detector) = self.detector.clone() else { return Err(Error::Canceled) };
        let (mut samples, mut memories): (Vec<Vec<f32>>, Vec<Memory>) = (Vec::new(), Vec::new());
        for slot in slots {
            let slot = self.slot(*slot)?;
            samples.push(slot.take_samples());
            memories.push(slot.memory.clone());
        }
        let rows: Vec<&[f32]> = samples.iter().map(Vec::as_slice).collect();
        let chances = detector.chances(&rows, &mut memories)?;
        slots
            .iter()
            .zip(chances.iter().zip(memories))
            .map(|(slot, (chances, memory))| {
                let slot = self.slot(*slot)?;
                slot.memory = memory;
                slot.detected(chances).map(Some)
            })
            .collect()
    }

    fn encode(&mut self, group: usize, way: Way, chunks: usize, slots: &[usize]) -> Result<Vec<Option<Heard>>> {
        let Some(Group { model, look_ahead, .. }) = self.groups.get(group).cloned() else {
            return Err(Error::Canceled);
        };
        let config = &model.config().encoder;
        let rows = chunks * (look_ahead + 1) * config.subsampling_factor;
        let mut parts: Vec<Part> = Vec::with_capacity(slots.len());
        for slot in slots {
            parts.push(self.slot(*slot)?.part(rows).ok_or(Error::Canceled)?);
        }
        let mel: Vec<f32> = parts.iter_mut().flat_map(|part| std::mem::take(&mut part.mel)).collect();
        let valid: Vec<_> = parts.iter().map(|part| part.valid.clone()).collect();
        let shape = [slots.len(), rows, config.num_mel_bins];
        let features = Tensor::from_data(TensorData::new(mel, shape), model.device());
        let mut streams: Vec<_> = parts.iter_mut().map(|part| &mut part.stream).collect();
        let encoded = model.encode(&mut streams, features, &valid)?;
        let tokens = match way {
            Way::Greedy => model.search_together(&mut streams, &encoded, &vec![None; slots.len()])?,
            Way::Beam => {
                let beams = slots.iter().map(|slot| self.slots.get(*slot)?.as_ref()?.kind.beam());
                let beams: Vec<Beam> = beams.collect::<Option<_>>().ok_or(Error::Canceled)?;
                model.search_beams(&mut streams, &encoded, &beams)?
            }
        };
        slots
            .iter()
            .zip(parts.into_iter().zip(tokens))
            .map(|(slot, (part, tokens))| Ok(Some(self.slot(*slot)?.encoded(part.stream, tokens))))
            .collect()
    }
}

impl Machine for Listening {
    type Kind = Kind;
    type Input = Input;
    type Output = Heard;
    type Bucket = Bucket;

    fn open(&mut self, slot: usize, kind: Kind) -> Result<()> {
        let group = self.groups.number(&kind.group);
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(Slot::new(kind, group)?);
        Ok(())
    }

    fn take(&mut self, slot: usize, input: Input) {
        if let Ok(slot) = self.slot(slot) {
            slot.take(input);
        }
    }

    fn finish(&mut self, slot: usize) {
        if let Ok(slot) = self.slot(slot) {
            slot.finish();
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = None;
        }
    }

    fn ready(&self, slot: usize) -> Option<Bucket> {
        let slot = self.slots.get(slot)?.as_ref()?;
        if slot.is_for_detector() {
            return Some(Bucket::Detect);
        }
        if slot.settled() {
            return Some(Bucket::Settle);
        }
        let chunks = slot.chunks()?;
        let way = if slot.kind.fusion.is_some() { Way::Beam } else { Way::Greedy };
        Some(Bucket::Encode { group: slot.group, way, chunks })
    }

    fn since(&self, slot: usize) -> Option<Instant> {
        self.slots.get(slot)?.as_ref()?.whole_since()
    }

    fn budget(&self, bucket: Bucket) -> Duration {
        match bucket {
            Bucket::Settle => Duration::ZERO,
            // The next chunk is complete by then.
            Bucket::Detect => DETECTED,
            Bucket::Encode { group, .. } => self.groups.get(group).map_or(Duration::ZERO, |group| {
                let chunk_ms = (group.look_ahead + 1) as f64 * group.model.frame_ms();
                Duration::from_millis(chunk_ms as u64)
            }),
        }
    }

    fn rows(&self, bucket: Bucket) -> usize {
        match bucket {
            Bucket::Detect | Bucket::Settle => usize::MAX,
            Bucket::Encode { .. } => MOST_ROWS,
        }
    }

    fn name(&self, bucket: Bucket) -> &'static str {
        match bucket {
            Bucket::Detect => "detect",
            Bucket::Encode { .. } => "encode",
            Bucket::Settle => "settle",
        }
    }

    fn step(&mut self, bucket: Bucket, slots: &[usize]) -> Result<Vec<Option<Heard>>> {
        match bucket {
            Bucket::Detect => self.detect(slots),
            Bucket::Encode { group, way, chunks } => self.encode(group, way, chunks, slots),
            Bucket::Settle => slots
                .iter()
                .map(|slot| {
                    let slot = self.slot(*slot)?;
                    let heard = slot.heard(Vec::new());
                    Ok(Some(slot.settle(heard)))
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use burn::tensor::Device;

    use super::*;
    use crate::audio::AudioStream;
    use crate::models::fastconformer::FastConformer;
    use crate::vad::endpointer::TurnRules;

    /// Runs the detector for as long as it is first.
    fn detect(machine: &mut Listening) {
        while machine.ready(0) == Some(Bucket::Detect) {
            assert_eq!(machine.since(0), None, "from when it is seen");
            machine.step(Bucket::Detect, &[0]).unwrap();
        }
    }

    /// A chunk that waits for the encoder is no younger for what the detector hears meanwhile.
    #[test]
    fn what_comes_in_keeps_no_chunk_from_its_turn() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
        let model = Arc::new(FastConformer::load(&models.join("starter/asr-en"), &Device::flex()).unwrap());
        let detector = Silero::load(&models.join("starter/vad"), &Device::flex()).unwrap();
        let mut mel = model.preprocessor().stream().unwrap();
        let mut machine = Listening::new(Some(Arc::new(detector)));
        let group = Group { model, look_ahead: 6, language: 0 };
        let kind = Kind { group, rules: TurnRules::default(), detected: true, fusion: None, beam: 1 };
        machine.open(0, kind).unwrap();
        let sound = AudioStream::open(&models.join("samples/jfk.flac")).unwrap().read_to_end().unwrap();
        let mut pieces = sound.chunks(1_600).map(|piece| Input { samples: piece.to_vec(), mel: mel.push(piece) });
        while machine.ready(0).is_none_or(|bucket| bucket == Bucket::Detect) {
            machine.take(0, pieces.next().unwrap());
            detect(&mut machine);
        }
        let since = machine.since(0);
        assert!(since.is_some());
        for _ in 0..3 {
            machine.take(0, pieces.next().unwrap());
            detect(&mut machine);
            assert!(matches!(machine.ready(0), Some(Bucket::Encode { .. })));
            assert_eq!(machine.since(0), since);
        }
        let bucket = machine.ready(0).unwrap();
        machine.step(bucket, &[0]).unwrap();
        assert!(machine.since(0) > since || machine.ready(0).is_none());
    }
}
