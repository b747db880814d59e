//! Synthetic recordings, and the sample that ships with the models as raw PCM.

use std::f64::consts::PI;
use std::sync::OnceLock;

use auricle_engine::audio::{AudioStream, SAMPLE_RATE};

/// Silence after the recording of [`spoken`], long enough to end a turn.
const SILENCE_S: f64 = 1.5;

/// A WAV file of 8 kHz mono samples of one byte: `seconds` of silence, to the millisecond.
pub fn silence(seconds: f64) -> Vec<u8> {
    let samples = (seconds * 8000.0).round() as usize;
    wav(8000, 8, &vec![0x80; samples])
}

/// A WAV file of 16 kHz mono PCM16: loud noise, which keeps a model busy.
pub fn noise(seconds: f64) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let samples = (seconds * 16000.0).round() as usize;
    let mut data = Vec::with_capacity(2 * samples);
    for _ in 0..samples {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data.extend_from_slice(&((state >> 48) as i16 / 2).to_le_bytes());
    }
    wav(16000, 16, &data)
}

/// A mono WAV file around its samples.
pub fn wav(rate: u32, bits: u16, data: &[u8]) -> Vec<u8> {
    wav_of(1, rate, bits, data)
}

/// A WAV file around its samples, interleaved.
pub fn wav_of(channels: u16, rate: u32, bits: u16, data: &[u8]) -> Vec<u8> {
    let frame = channels * bits / 8;
    let mut file = Vec::with_capacity(44 + data.len());
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(36 + data.len() as u32).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16_u32.to_le_bytes());
    file.extend_from_slice(&1_u16.to_le_bytes());
    file.extend_from_slice(&channels.to_le_bytes());
    file.extend_from_slice(&rate.to_le_bytes());
    file.extend_from_slice(&(rate * u32::from(frame)).to_le_bytes());
    file.extend_from_slice(&frame.to_le_bytes());
    file.extend_from_slice(&bits.to_le_bytes());
    file.extend_from_slice(b"data");
    file.extend_from_slice(&(data.len() as u32).to_le_bytes());
    file.extend_from_slice(data);
    file
}

/// Samples from -1 to 1 as PCM16.
pub fn pcm(samples: impl IntoIterator<Item = f32>) -> Vec<u8> {
    samples.into_iter().flat_map(|sample| ((sample * 32_767.0) as i16).to_le_bytes()).collect()
}

/// A man, and a woman, who read aloud, at 16 kHz.
pub fn readers() -> [Vec<f32>; 2] {
    ["669-129074-0012.opus", "7312-92432-0003.opus"].map(|name| {
        let path = crate::fixtures().join("alignment").join(name);
        AudioStream::open(path).and_then(|mut audio| audio.read_to_end()).expect("a recording")
    })
}

/// A WAV file in which the man reads, then the woman.
pub fn two_readers() -> Vec<u8> {
    let [man, woman] = readers();
    wav(SAMPLE_RATE, 16, &pcm([man, vec![0.0; 8000], woman].concat()))
}

/// A WAV file in which both read again and again, with pauses of two seconds.
pub fn long_reading(times: usize) -> Vec<u8> {
    let once: Vec<f32> = readers().into_iter().flat_map(|voice| [voice, vec![0.0; 32_000]]).flatten().collect();
    wav(SAMPLE_RATE, 16, &pcm(once.repeat(times)))
}

/// The eleven seconds of speech that ship with the models and a second and a half of digital silence, as PCM16 at a rate.
pub fn spoken(rate: u32) -> Vec<u8> {
    static SAMPLES: OnceLock<Vec<f32>> = OnceLock::new();
    let samples = SAMPLES.get_or_init(|| {
        let mut stream = AudioStream::open(crate::speech()).expect("the recording");
        let mut samples = stream.read_to_end().expect("its samples");
        samples.resize(samples.len() + (SILENCE_S * f64::from(SAMPLE_RATE)) as usize, 0.0);
        samples
    });
    let at_rate = resample(samples, SAMPLE_RATE, rate);
    at_rate.iter().flat_map(|sample| ((sample.clamp(-1.0, 1.0) * 32767.0) as i16).to_le_bytes()).collect()
}

/// Resamples with a windowed sinc of 24 zero crossings on each side.
fn resample(samples: &[f32], from: u32, to: u32) -> Vec<f32> {
    if from == to {
        return samples.to_vec();
    }
    let step = f64::from(from) / f64::from(to);
    let cut = (1.0 / step).min(1.0);
    let reach = 24.0 / cut;
    let one = |n: usize| {
        let centre = n as f64 * step;
        let first = (centre - reach).max(0.0).ceil() as usize;
        let last = ((centre + reach) as usize).min(samples.len() - 1);
        let near = samples[first..=last].iter().enumerate().map(|(at, sample)| {
            let x = (first + at) as f64 - centre;
            let sinc = if x == 0.0 { 1.0 } else { (PI * cut * x).sin() / (PI * cut * x) };
            f64::from(*sample) * cut * sinc * (0.5 + 0.5 * (PI * x / reach).cos())
        });
        near.sum::<f64>() as f32
    };
    (0..(samples.len() as f64 / step) as usize).map(one).collect()
}
