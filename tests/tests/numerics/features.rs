//! The log-mel front ends against the feature extractors of transformers (`tests/oracles/features.py`), on the CPU and,
//! where a Vulkan driver is installed, on wgpu.

use std::error::Error;

use auricle_kernels::spectral::logmel::{
    LogMel, LogMelBlock, LogMelByMatmul, LogMelConfig, LogMelError, LogMelStream, TablePrecision, logmel_cpu,
};
use auricle_tests::devices;
use burn::tensor::{Device, Tensor, TensorData};
use safetensors::SafeTensors;

type Outcome = Result<(), Box<dyn Error>>;

/// How far a value may be from the extractor's: two in a thousand may be further, none further than `LARGEST`.
///
/// In bands far below a frame's loudest one, f32 is the limit: the extractor is up to 2.5e-4 from the exact
/// value, and the kernels about as far.
const CLOSE: f32 = 1e-4;
const LARGEST: f32 = 5e-4;
const MEAN: f32 = 1e-5;

/// `ln(2^-24)`, what a band without any power becomes.
const SILENCE: f32 = -16.635_532;

#[test]
fn frames_are_those_of_the_extractors() -> Outcome {
    let audio = Fixture::read("audio", "audio")?.values;
    on_every_device(|device| {
        for mels in [80, 128] {
            for (family, config) in
                [("parakeet", LogMelConfig::parakeet(mels)), ("nemotron", LogMelConfig::nemotron(mels))]
            {
                let wanted = Fixture::read(&format!("{family}{mels}"), "features")?;
                let got = LogMel::new(config, device)?.forward(row(&audio, device), &[audio.len()])?;
                assert_eq!(got.mels.dims(), [1, 131, mels]);
                assert_eq!(got.frames, [130]);
                close(&values(got.mels), &wanted.values, &format!("{family}{mels}"));
            }
        }
        Ok(())
    })
}

#[test]
fn whisper_frames_are_those_of_the_extractor() -> Outcome {
    let audio = Fixture::read("audio", "audio")?.values;
    let mut half_minute = audio.clone();
    half_minute.resize(480_000, 0.0);
    on_every_device(|device| {
        for mels in [80, 128] {
            let name = format!("whisper{mels}");
            let front_end = LogMel::new(LogMelConfig::whisper(mels), device)?;

            let got = front_end.forward(row(&half_minute, device), &[audio.len()])?;
            assert_eq!(got.mels.dims(), [1, 3000, mels]);
            assert_eq!(got.frames, [131]);
            let got = values(got.mels);
            let wanted = Fixture::read(&name, "features")?.frame_major();
            close(&got[..wanted.len()], &wanted, &name);
            let silence = wanted[wanted.len() - 1];
            assert!(got[wanted.len()..].iter().all(|mel| (mel - silence).abs() < 1e-5), "{name}: the padding's frames");

            let got = front_end.forward(row(&audio, device), &[audio.len()])?;
            close(&values(got.mels), &Fixture::read(&name, "features_unpadded")?.frame_major(), &name);
        }
        Ok(())
    })
}

#[test]
fn a_ragged_batch_is_that_of_the_extractor() -> Outcome {
    let audio = Fixture::read("audio", "audio")?.values;
    let lengths = [audio.len(), 13_333];
    // Samples beyond a row's length must not be read.
    let mut samples = [audio.as_slice(), &audio].concat();
    samples[audio.len() + lengths[1]..].fill(1e6);
    on_every_device(|device| {
        let wanted = Fixture::read("parakeet80", "batch_features")?;
        let batch = Tensor::from_data(TensorData::new(samples.clone(), [2, audio.len()]), device);
        let got = LogMel::new(LogMelConfig::parakeet(80), device)?.forward(batch, &lengths)?;
        assert_eq!(got.frames, [130, 83]);
        let got = values(got.mels);
        close(&got, &wanted.values, "parakeet80, two rows");
        assert!(got[(131 + 83) * 80..].iter().all(|&mel| mel == 0.0), "masked frames");
        Ok(())
    })
}

#[test]
fn tables_rounded_to_bfloat16_are_those_of_the_extractor() -> Outcome {
    let audio = Fixture::read("audio", "audio")?.values;
    let wanted = Fixture::read("nemotron128", "features_bf16_filters")?;
    on_every_device(|device| {
        let config = LogMelConfig { tables: TablePrecision::Bf16, ..LogMelConfig::nemotron(128) };
        let got = LogMel::new(config, device)?.forward(row(&audio, device), &[audio.len()])?;
        close(&values(got.mels), &wanted.values, "nemotron128 in bfloat16");
        Ok(())
    })
}

#[test]
fn kernels_equal_burns_operations() -> Outcome {
    let audio = Fixture::read("audio", "audio")?.values;
    let device = Device::flex();
    for config in [LogMelConfig::parakeet(80), LogMelConfig::nemotron(128), LogMelConfig::whisper(80)] {
        let front_end = LogMel::new(config, &device)?;
        let batch = Tensor::from_data(TensorData::new(audio.clone(), [2, audio.len() / 2]), &device);
        let lengths = [audio.len() / 2, 5_000];
        let wanted = LogMelByMatmul::new(&front_end, &device).forward(batch.clone(), &lengths)?;
        let got = front_end.forward(batch, &lengths)?;
        assert_eq!(got.frames, wanted.frames);
        // A matrix product sums 400 terms one after the other: less exact than a fast transform.
        let worst = largest_difference(&values(got.mels), &values(wanted.mels));
        assert!(worst < 2e-3, "{:?}: {worst:e}", front_end.config());
    }
    Ok(())
}

#[test]
fn a_stream_is_bit_equal_to_the_whole_for_any_pushes() -> Outcome {
    let front_end = LogMel::new(LogMelConfig::nemotron(80), &Device::flex())?;
    let mut numbers = Numbers(7);
    for (round, length) in [0, 1, 159, 160, 161, 200, 361, 5_000, 20_900, 70_001].into_iter().enumerate() {
        let audio: Vec<f32> = (0..length).map(|_| numbers.sample()).collect();
        let whole = logmel_cpu(&front_end, &audio);
        let mut stream = LogMelStream::new(&front_end)?;
        // The second turn proves that a finished stream starts anew.
        for _ in 0..2 {
            let mut streamed = Vec::new();
            let mut rest = audio.as_slice();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(numbers.below(1 << (round + 2)).min(rest.len()));
                streamed.extend(stream.push(now));
                rest = later;
            }
            streamed.extend(stream.finish());
            assert_eq!(streamed.len(), length / 160 * 80);
            assert!(bits(&streamed).eq(bits(&whole[..streamed.len()])), "{length} samples");
        }
    }
    Ok(())
}

#[test]
fn a_frame_is_given_half_a_window_after_its_centre() -> Outcome {
    let front_end = LogMel::new(LogMelConfig::nemotron(80), &Device::flex())?;
    let mut stream = LogMelStream::new(&front_end)?;
    assert!(stream.push(&[0.1; 199]).is_empty());
    assert_eq!(stream.push(&[0.1; 1]).len(), 80);
    assert!(stream.push(&[0.1; 159]).is_empty());
    assert_eq!(stream.push(&[0.1; 1]).len(), 80);
    Ok(())
}

#[test]
fn blocks_of_many_streams_are_bit_equal_to_the_whole() -> Outcome {
    on_every_device(|device| {
        let front_end = LogMel::new(LogMelConfig::nemotron(80), device)?;
        let mut numbers = Numbers(11);
        let lengths = [8_000, 7_777, 3_001, 150];
        let audio: Vec<Vec<f32>> =
            lengths.iter().map(|&length| (0..length).map(|_| numbers.sample()).collect()).collect();
        let mut streams = vec![LogMelStream::new(&front_end)?; lengths.len()];
        let mut streamed = vec![Vec::new(); lengths.len()];
        let mut given = vec![0; lengths.len()];
        loop {
            let blocks: Vec<LogMelBlock> = (0..lengths.len())
                .map(|slot| {
                    let end = (given[slot] + numbers.below(1_500)).min(lengths[slot]);
                    let block = match given[slot] {
                        at if at == lengths[slot] => streams[slot].finish_block(),
                        at => streams[slot].push_block(&audio[slot][at..end]),
                    };
                    given[slot] = end;
                    block
                })
                .collect();
            let features = front_end.forward_blocks(&blocks);
            let [_, most, mels] = features.mels.dims();
            let frames = values(features.mels);
            for (slot, &count) in features.frames.iter().enumerate() {
                let row = &frames[slot * most * mels..(slot + 1) * most * mels];
                streamed[slot].extend_from_slice(&row[..count * mels]);
                assert!(row[count * mels..].iter().all(|&mel| mel == 0.0));
            }
            if given == lengths && blocks.iter().all(|block| block.frames == 0) {
                break;
            }
        }
        for (slot, audio) in audio.iter().enumerate() {
            let whole = values(front_end.forward(row(audio, device), &[audio.len()])?.mels);
            assert_eq!(streamed[slot].len(), audio.len() / 160 * 80);
            assert!(bits(&streamed[slot]).eq(bits(&whole[..streamed[slot].len()])), "slot {slot}");
        }
        Ok(())
    })
}

#[test]
fn silence_is_the_logarithms_guard() -> Outcome {
    on_every_device(|device| {
        let silence = vec![0.0; 4_800];
        let of = |config| -> Result<Vec<f32>, Box<dyn Error>> {
            Ok(values(LogMel::new(config, device)?.forward(row(&silence, device), &[4_800])?.mels))
        };
        let nemotron = of(LogMelConfig::nemotron(80))?;
        assert!(nemotron[..30 * 80].iter().all(|mel| (mel - SILENCE).abs() < 1e-5));
        assert!(nemotron[30 * 80..].iter().all(|&mel| mel == 0.0));
        assert!(of(LogMelConfig::whisper(80))?.iter().all(|mel| (mel + 1.5).abs() < 1e-5));
        // All bands are constant, so they are rounding alone over the deviation's guard.
        assert!(of(LogMelConfig::parakeet(80))?.iter().all(|mel| mel.abs() < 0.2));
        Ok(())
    })
}

#[test]
fn the_shortest_inputs_have_frames_too() -> Outcome {
    let audio: Vec<f32> = (0..161).map(|point| (point as f32 * 0.3).sin()).collect();
    on_every_device(|device| {
        for config in [LogMelConfig::parakeet(80), LogMelConfig::nemotron(80), LogMelConfig::whisper(80)] {
            let front_end = LogMel::new(config.clone(), device)?;
            for length in [0, 1, 159, 160, 161] {
                let got = front_end.forward(row(&audio[..length], device), &[length])?;
                assert_eq!(got.mels.dims(), [1, front_end.frames(length), 80]);
                let got = values(got.mels);
                assert!(got.iter().all(|mel| mel.is_finite()), "{length} samples");
                let worst = largest_difference(&got, &logmel_cpu(&front_end, &audio[..length]));
                assert!(worst < LARGEST, "{length} samples: {worst:e}");
            }
        }
        Ok(())
    })
}

#[test]
fn a_row_alone_and_in_a_batch_is_the_same() -> Outcome {
    let mut numbers = Numbers(23);
    let samples: Vec<f32> = (0..3 * 4_000).map(|_| numbers.sample()).collect();
    let lengths = [4_000, 0, 2_345];
    on_every_device(|device| {
        let front_end = LogMel::new(LogMelConfig::nemotron(80), device)?;
        let batch = Tensor::from_data(TensorData::new(samples.clone(), [3, 4_000]), device);
        let together = front_end.forward(batch, &lengths)?;
        assert_eq!(together.frames, [25, 0, 14]);
        let together = values(together.mels);
        for (index, &length) in lengths.iter().enumerate() {
            let audio = &samples[index * 4_000..][..length];
            let alone = values(front_end.forward(row(audio, device), &[length])?.mels);
            let valid = length / 160 * 80;
            let frames = &together[index * 26 * 80..(index + 1) * 26 * 80];
            assert!(bits(&frames[..valid]).eq(bits(&alone[..valid])), "row {index}");
            assert!(frames[valid..].iter().all(|&mel| mel == 0.0), "row {index}");
        }
        Ok(())
    })
}

#[test]
fn invalid_configurations_are_refused_with_a_reason() -> Outcome {
    let device = Device::flex();
    let odd = LogMelConfig { n_fft: 510, ..LogMelConfig::nemotron(80) };
    assert!(matches!(LogMel::new(odd, &device), Err(LogMelError::Parameter { parameter: "n_fft", value: 510, .. })));
    let parakeet = LogMel::new(LogMelConfig::parakeet(80), &device)?;
    assert!(matches!(LogMelStream::new(&parakeet), Err(LogMelError::NotStreamable(_))));
    let too_long = parakeet.forward(row(&[0.0; 320], &device), &[321]);
    assert!(matches!(too_long, Err(LogMelError::Lengths { row: 0, length: 321, .. })));
    assert!(parakeet.forward(row(&[0.0; 320], &device), &[]).is_err());
    Ok(())
}

/// A tensor of `tests/fixtures/features`.
struct Fixture {
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Fixture {
    fn read(file: &str, tensor: &str) -> Result<Self, Box<dyn Error>> {
        let folder = auricle_tests::fixtures().join("features");
        let bytes = std::fs::read(folder.join(file).with_extension("safetensors"))?;
        let tensors = SafeTensors::deserialize(&bytes)?;
        let view = tensors.tensor(tensor)?;
        let (words, _) = view.data().as_chunks::<4>();
        let values = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
        Ok(Self { shape: view.shape().to_vec(), values })
    }

    /// `[mels, frames]` as `[frames, mels]`.
    fn frame_major(&self) -> Vec<f32> {
        let (mels, frames) = (self.shape[0], self.shape[1]);
        (0..frames).flat_map(|frame| (0..mels).map(move |mel| self.values[mel * frames + frame])).collect()
    }
}

/// Runs a statement on flex, and on wgpu where there is an adapter.
fn on_every_device(statement: impl Fn(&Device) -> Outcome) -> Outcome {
    devices().iter().try_for_each(|(device, _)| statement(device))
}

fn row(audio: &[f32], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(audio.to_vec(), [1, audio.len()]), device)
}

fn values(tensor: Tensor<3>) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().unwrap_or_default()
}

fn bits(values: &[f32]) -> impl Iterator<Item = u32> {
    values.iter().map(|value| value.to_bits())
}

fn largest_difference(got: &[f32], wanted: &[f32]) -> f32 {
    assert_eq!(got.len(), wanted.len());
    got.iter().zip(wanted).map(|(got, wanted)| (got - wanted).abs()).fold(0.0, f32::max)
}

fn close(got: &[f32], wanted: &[f32], what: &str) {
    let largest = largest_difference(got, wanted);
    let differences: Vec<f32> = got.iter().zip(wanted).map(|(got, wanted)| (got - wanted).abs()).collect();
    let mean = differences.iter().sum::<f32>() / differences.len() as f32;
    let far = differences.iter().filter(|&&difference| difference > CLOSE).count();
    println!("{what}: largest difference {largest:.1e}, mean {mean:.1e}, {far} of {} beyond {CLOSE:e}", got.len());
    assert!(largest <= LARGEST && mean <= MEAN && far * 500 <= got.len(), "{what}: see the differences above");
}

/// Repeatable random numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 to `bound`, included.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % (bound as u64 + 1)) as usize
    }

    /// From -1 to 1.
    fn sample(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 8_388_608.0 - 1.0
    }
}
