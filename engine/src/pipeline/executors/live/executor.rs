//! Batch executor of live streams: turns begin and end where the callers' detectors hear speech, and streams with a complete
//! chunk share a step of the encoder.

use std::time::{Duration, Instant};

use burn::tensor::{Tensor, TensorData};

use super::slot::{EncoderInput, LiveAudio, LiveRequest, LiveSlot, StepOutput, chunk_time};
use crate::decoding::Beam;
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::pipeline::executors::groups::{BatchGroup, BatchGroups};
use crate::scheduler::{BatchExecutor, SlotTable};

/// Most streams of an encoder step on the CPU.
const MAX_STREAMS: usize = 64;
/// The same on a GPU, which takes little longer for more; and most frames of all streams together, whose activations have to fit. At
/// 0.6 B parameters an H200 takes 58 ms for 480 streams, and 234 ms for 240 with a look-ahead of 13.
const MAX_STREAMS_GPU: usize = 480;
const MAX_FRAMES_GPU: usize = 240 * 14;

/// Most windows of a turn detector's step: a core takes some 25 ms for one.
const MAX_JUDGED: usize = 4;
const MAX_JUDGED_GPU: usize = 64;
/// Time that a turn detector's answer may take. A turn may be over 100 ms after its pause began to count.
const JUDGE_BUDGET: Duration = Duration::from_millis(50);

/// Most streams of a step that encodes so many frames of each.
fn most_streams(on_cpu: bool, frames: usize) -> usize {
    if on_cpu { MAX_STREAMS } else { (MAX_FRAMES_GPU / frames.max(1)).clamp(1, MAX_STREAMS_GPU) }
}

/// The live streams of a device.
#[derive(Default)]
pub struct LiveExecutor {
    slots: SlotTable<LiveSlot>,
    groups: BatchGroups,
    /// Inputs of the encoder step that runs, in the order of its slots: `undo` gives them back after a failure.
    inputs: Vec<EncoderInput>,
}

/// Next step of a slot. Slots with equal keys share a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiveBatchKey {
    /// Follows the detector's probabilities to where turns begin and end.
    FollowSpeech,
    /// Encodes and decodes chunks.
    Encode {
        /// Number of the batch group.
        group: usize,
        /// Search of the group.
        search: SearchKind,
        /// Number of chunks, a power of two.
        chunks: usize,
    },
    /// Ends a turn that is already encoded.
    EndTurn,
    /// Lets the turn detector hear whether speakers have finished.
    Judge,
}

/// Kind of search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SearchKind {
    /// The best token at every step.
    Greedy,
    /// Several hypotheses at once.
    Beam,
}

impl LiveExecutor {
    /// The least time between two chunks of a speaker who speaks now; none if all are silent.
    pub fn speaking_budget(&self) -> Option<Duration> {
        self.slots.iter().filter_map(|(_, slot)| slot.speaking_budget()).min()
    }

    fn forget_unused_groups(&mut self) {
        self.groups.keep_used(|number| self.slots.iter().any(|(_, slot)| slot.group == Some(number)));
    }

    fn encode(
        &mut self,
        group: usize,
        search: SearchKind,
        chunks: usize,
        slots: &[usize],
    ) -> Result<Vec<Option<StepOutput>>> {
        let Some(BatchGroup { model, look_ahead, .. }) = self.groups.get(group).cloned() else {
            return Err(Error::internal("a step of an unknown batch group"));
        };
        let config = &model.config().encoder;
        let rows = chunks * (look_ahead + 1) * config.subsampling_factor;
        self.inputs.clear();
        for slot in slots {
            let input = self.slots.get_mut(*slot)?.take_encoder_input(rows);
            self.inputs.push(input.ok_or_else(|| Error::internal("an encoder step without a turn"))?);
        }
        let inputs = &mut self.inputs;
        let mel: Vec<f32> = inputs.iter_mut().flat_map(|input| std::mem::take(&mut input.mel)).collect();
        let valid: Vec<_> = inputs.iter().map(|input| input.valid.clone()).collect();
        let shape = [slots.len(), rows, config.num_mel_bins];
        let features = Tensor::from_data(TensorData::new(mel, shape), model.device());
        let mut streams: Vec<_> = inputs.iter_mut().map(|input| &mut input.stream).collect();
        let encoded = model.encode(&mut streams, features, &valid)?;
        let tokens = match search {
            SearchKind::Greedy => {
                let keyterms = slots.iter().map(|slot| self.slots.find(*slot)?.request.keyterms.as_deref());
                model.search_together(&mut streams, &encoded, &keyterms.collect::<Vec<_>>())?
            }
            SearchKind::Beam => {
                let beams = slots.iter().map(|slot| self.slots.find(*slot)?.request.beam());
                let beams: Vec<Beam> =
                    beams.collect::<Option<_>>().ok_or_else(|| Error::internal("a beam search without a beam"))?;
                model.search_beams(&mut streams, &encoded, &beams)?
            }
        };
        slots
            .iter()
            .zip(std::mem::take(inputs).into_iter().zip(tokens))
            .map(|(slot, (input, tokens))| Ok(Some(self.slots.get_mut(*slot)?.encoded(input, tokens))))
            .collect()
    }

    fn judge(&mut self, slots: &[usize]) -> Result<Vec<Option<StepOutput>>> {
        let mut questions = Vec::with_capacity(slots.len());
        let mut network = None;
        for slot in slots {
            let Some(judge) = self.slots.find(*slot).and_then(|slot| slot.judge.as_ref()) else { continue };
            questions.extend(judge.next_question().map(|question| (*slot, question.window.as_slice())));
            // An engine has one.
            network = Some(judge.network.clone());
        }
        let network = network.ok_or_else(|| Error::internal("a question without a turn detector"))?;
        let (asked, windows): (Vec<usize>, Vec<&[f32]>) = questions.into_iter().unzip();
        let probabilities = network.probabilities(&windows)?;
        let mut answers = asked.iter().zip(probabilities).peekable();
        slots
            .iter()
            .map(|slot| {
                let Some((_, p)) = answers.next_if(|(asked, _)| *asked == slot) else { return Ok(None) };
                self.slots.get_mut(*slot)?.judged(p).map(Some)
            })
            .collect()
    }
}

impl BatchExecutor for LiveExecutor {
    type Request = LiveRequest;
    type Input = LiveAudio;
    type Output = StepOutput;
    type BatchKey = LiveBatchKey;

    fn open(&mut self, slot: usize, request: LiveRequest) -> Result<()> {
        let group = request.group.as_ref().map(|group| self.groups.number(group));
        let opened = LiveSlot::new(request, group).map(|opened| self.slots.insert(slot, opened));
        self.forget_unused_groups();
        opened
    }

    fn push(&mut self, slot: usize, input: LiveAudio) {
        if let Some(slot) = self.slots.find_mut(slot) {
            slot.push(input);
        }
    }

    fn finish(&mut self, slot: usize) {
        if let Some(slot) = self.slots.find_mut(slot) {
            slot.finish();
        }
    }

    fn close(&mut self, slot: usize) {
        self.slots.remove(slot);
        self.forget_unused_groups();
    }

    fn next_step(&self, slot: usize) -> Option<LiveBatchKey> {
        let slot = self.slots.find(slot)?;
        // Speech is not followed past a question: audio of any pace has the same turns.
        if slot.has_question() {
            return Some(LiveBatchKey::Judge);
        }
        if slot.has_heard() {
            return Some(LiveBatchKey::FollowSpeech);
        }
        if slot.is_turn_encoded() {
            return Some(LiveBatchKey::EndTurn);
        }
        let chunks = slot.step_chunks()?;
        let search = if slot.request.fusion.is_some() { SearchKind::Beam } else { SearchKind::Greedy };
        Some(LiveBatchKey::Encode { group: slot.group?, search, chunks })
    }

    fn waiting_since(&self, slot: usize) -> Option<Instant> {
        self.slots.find(slot)?.ready_since()
    }

    fn budget(&self, key: LiveBatchKey) -> Duration {
        match key {
            LiveBatchKey::FollowSpeech | LiveBatchKey::EndTurn => Duration::ZERO,
            LiveBatchKey::Judge => JUDGE_BUDGET,
            // The next chunk is complete after this time.
            LiveBatchKey::Encode { group, .. } => self.groups.get(group).map_or(Duration::ZERO, chunk_time),
        }
    }

    fn max_batch(&self, key: LiveBatchKey) -> usize {
        match key {
            LiveBatchKey::FollowSpeech | LiveBatchKey::EndTurn => usize::MAX,
            LiveBatchKey::Judge => {
                let network = self.slots.iter().find_map(|(_, slot)| slot.judge.as_ref());
                let on_cpu = network.is_none_or(|judge| is_cpu(judge.network.device()));
                if on_cpu { MAX_JUDGED } else { MAX_JUDGED_GPU }
            }
            LiveBatchKey::Encode { group, chunks, .. } => self.groups.get(group).map_or(MAX_STREAMS, |group| {
                most_streams(is_cpu(group.model.device()), chunks * (group.look_ahead + 1))
            }),
        }
    }

    fn step_name(&self, key: LiveBatchKey) -> &'static str {
        match key {
            LiveBatchKey::FollowSpeech => "speech",
            LiveBatchKey::Encode { .. } => "encode",
            LiveBatchKey::EndTurn => "settle",
            LiveBatchKey::Judge => "judge",
        }
    }

    fn step(&mut self, key: LiveBatchKey, slots: &[usize], _: usize) -> Result<Vec<Option<StepOutput>>> {
        let mut outputs = match key {
            LiveBatchKey::FollowSpeech => {
                slots.iter().map(|slot| self.slots.get_mut(*slot)?.follow_speech().map(Some)).collect()
            }
            LiveBatchKey::Encode { group, search, chunks } => self.encode(group, search, chunks, slots),
            LiveBatchKey::Judge => self.judge(slots),
            LiveBatchKey::EndTurn => slots
                .iter()
                .map(|slot| {
                    let slot = self.slots.get_mut(*slot)?;
                    let output = slot.output(Vec::new());
                    Ok(Some(slot.end_turn(output)))
                })
                .collect(),
        }?;
        for (slot, output) in slots.iter().zip(&mut outputs) {
            if let (Some(slot), Some(output)) = (self.slots.find_mut(*slot), output) {
                output.windows = slot.take_windows();
                slot.request.backlog.processed(output.processed_ms);
            }
        }
        Ok(outputs)
    }

    fn undo(&mut self, key: LiveBatchKey, slots: &[usize]) -> bool {
        match key {
            LiveBatchKey::Encode { .. } if self.inputs.len() == slots.len() => {
                for (slot, input) in slots.iter().zip(std::mem::take(&mut self.inputs)) {
                    if let Some(slot) = self.slots.find_mut(*slot) {
                        slot.restart(input);
                    }
                }
                true
            }
            // A question waits until it has its answer.
            LiveBatchKey::Judge => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::path::PathBuf;
    use std::sync::Arc;

    use burn::tensor::Device;

    use super::*;
    use crate::audio::AudioStream;
    use crate::models::fastconformer::FastConformer;
    use crate::models::silero::Silero;
    use crate::pipeline::executors::live::backlog::BacklogReporter;
    use crate::vad::endpointer::EndpointingRules;
    use crate::vad::stream::VadStream;

    fn request(model: &Arc<FastConformer>, has_detector: bool) -> LiveRequest {
        LiveRequest {
            group: Some(BatchGroup { model: model.clone(), look_ahead: 6, language: 0 }),
            second_pass: None,
            endpointing: EndpointingRules::default(),
            has_detector,
            turn_detector: None,
            keyterms: None,
            fusion: None,
            beam: 1,
            backlog: BacklogReporter::new(Arc::default()),
        }
    }

    /// The tokens of two streams that share their steps; the step of this number fails after its encoder.
    fn tokens_of_two(model: &Arc<FastConformer>, samples: &[f32], failing: Option<usize>) -> [Vec<u32>; 2] {
        let mut executor = LiveExecutor::default();
        let mut tokens = [Vec::new(), Vec::new()];
        for slot in 0..2 {
            executor.open(slot, request(model, false)).unwrap();
            let mut mel = model.preprocessor().stream().unwrap();
            let rows = [mel.push(samples), mel.finish()].concat();
            executor.push(slot, LiveAudio { samples: samples.to_vec(), mel: rows, ..LiveAudio::default() });
            executor.finish(slot);
        }
        let mut step = 0;
        while let Some(key) = executor.next_step(0) {
            assert_eq!(executor.next_step(1), Some(key));
            if let LiveBatchKey::Encode { group, chunks, .. } = key
                && failing == Some(step)
            {
                let beams = LiveBatchKey::Encode { group, search: SearchKind::Beam, chunks };
                assert!(executor.step(beams, &[0, 1], usize::MAX).is_err(), "there are no beams");
                assert!(executor.undo(beams, &[0, 1]));
                step += 1;
                continue;
            }
            for (tokens, output) in tokens.iter_mut().zip(executor.step(key, &[0, 1], usize::MAX).unwrap()) {
                tokens.extend(output.unwrap().tokens.iter().map(|token| token.id));
            }
            step += 1;
        }
        tokens
    }

    #[test]
    fn a_failed_step_costs_its_streams_no_more_than_context() {
        let models = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../models");
        let model = Arc::new(FastConformer::load(&models.join("starter/asr-en"), &Device::flex()).unwrap());
        let samples = AudioStream::open(models.join("samples/jfk.flac")).unwrap().read_to_end().unwrap();
        let [whole, same] = tokens_of_two(&model, &samples, None);
        assert_eq!(whole, same);
        assert!(whole.len() > 30, "{}", whole.len());
        let [resumed, other] = tokens_of_two(&model, &samples, Some(1));
        assert_eq!(resumed, other);
        let common = |pairs: &mut dyn Iterator<Item = (&u32, &u32)>| pairs.take_while(|(a, b)| a == b).count();
        let before = common(&mut whole.iter().zip(&resumed));
        let after = common(&mut whole.iter().rev().zip(resumed.iter().rev()));
        assert!(before + after + 6 >= whole.len(), "{before} and {after} of {}", whole.len());
    }

    /// Follows the speech until no probabilities wait.
    fn follow(executor: &mut LiveExecutor) {
        while executor.next_step(0) == Some(LiveBatchKey::FollowSpeech) {
            assert_eq!(executor.waiting_since(0), None, "from when it is seen");
            executor.step(LiveBatchKey::FollowSpeech, &[0], usize::MAX).unwrap();
        }
    }

    /// Streams that catch up have many chunks in a step: on a GPU there are fewer of them then, as the activations have to fit.
    #[test]
    fn a_step_on_a_gpu_has_a_bound_of_frames() {
        assert_eq!([1, 14].map(|frames| most_streams(false, frames)), [480, 240]);
        for frames in 1..=2 * MAX_FRAMES_GPU {
            let streams = most_streams(false, frames);
            assert!(streams == 1 || streams * frames <= MAX_FRAMES_GPU, "{streams} streams of {frames} frames");
            assert_eq!(most_streams(true, frames), MAX_STREAMS);
        }
    }

    /// A chunk keeps its waiting time while later speech is followed.
    #[test]
    fn new_input_does_not_reset_the_waiting_time_of_a_chunk() {
        let models = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../models");
        let model = Arc::new(FastConformer::load(&models.join("starter/asr-en"), &Device::flex()).unwrap());
        let detector = Silero::load(&models.join("starter/vad")).unwrap();
        let mut mel = model.preprocessor().stream().unwrap();
        let mut heard = VadStream::new(&detector);
        let mut executor = LiveExecutor::default();
        executor.open(0, request(&model, true)).unwrap();
        let sound = AudioStream::open(models.join("samples/jfk.flac")).unwrap().read_to_end().unwrap();
        let mut pieces = sound.chunks(1_600).map(|piece| LiveAudio {
            samples: piece.to_vec(),
            probabilities: heard.push(piece).unwrap(),
            mel: mel.push(piece),
            ..LiveAudio::default()
        });
        while executor.next_step(0).is_none_or(|key| key == LiveBatchKey::FollowSpeech) {
            executor.push(0, pieces.next().unwrap());
            follow(&mut executor);
        }
        let since = executor.waiting_since(0);
        assert!(since.is_some());
        for _ in 0..3 {
            executor.push(0, pieces.next().unwrap());
            follow(&mut executor);
            assert!(matches!(executor.next_step(0), Some(LiveBatchKey::Encode { .. })));
            assert_eq!(executor.waiting_since(0), since);
        }
        let key = executor.next_step(0).unwrap();
        executor.step(key, &[0], usize::MAX).unwrap();
        assert!(executor.waiting_since(0) > since || executor.next_step(0).is_none());
    }
}
