//! The excitation: sines of the pitch and its harmonics where there is a voice, noise elsewhere, and its spectrum.

use auricle_kernels::channels::Channels;
use auricle_kernels::thread_pool::ThreadPool;

use crate::error::{Error, Result};
use crate::weights::Scope;

/// Samples a second, a constant of the published class.
pub const SAMPLE_RATE: u32 = 24_000;
/// A pitch below this is no voice, hertz.
const VOICED: f32 = 10.0;
/// Amplitude of a sine, and deviation of the noise beside it.
const AMPLITUDE: f32 = 0.1;
const DEVIATION: f32 = 0.003;

/// The source.
#[derive(Debug)]
pub struct Source {
    /// Of each harmonic, the pitch itself first.
    weights: Vec<f32>,
    bias: f32,
    /// `[window]`
    window: Vec<f32>,
    /// Cosines and sines, `[bins, window]`.
    turns: [Vec<f32>; 2],
    hop: usize,
}

/// A periodic Hann window.
pub fn hann(length: usize) -> Vec<f32> {
    let turn = |at: usize| std::f64::consts::TAU * at as f64 / length as f64;
    (0..length).map(|at| (0.5 - 0.5 * turn(at).cos()) as f32).collect()
}

impl Source {
    /// Its spectra have windows of `length` samples, one every `hop`.
    ///
    /// # Errors
    /// As [`Scope::values`].
    pub fn load(scope: &Scope, length: usize, hop: usize) -> Result<Self> {
        let linear = scope.scope("l_linear");
        let harmonics = match linear.shape("weight") {
            Some([1, harmonics]) if *harmonics > 0 => *harmonics,
            _ => return Err(Error::Weights { tensor: linear.name("weight"), reason: "missing, or no row".into() }),
        };
        let turn = |bin: usize, at: usize| std::f64::consts::TAU * (bin * at % length) as f64 / length as f64;
        let table = |of: fn(f64) -> f64| {
            (0..=length / 2).flat_map(|bin| (0..length).map(move |at| of(turn(bin, at)) as f32)).collect()
        };
        Ok(Self {
            weights: linear.values("weight", &[1, harmonics])?,
            bias: linear.values("bias", &[1])?[0],
            window: hann(length),
            turns: [table(f64::cos), table(|turn| -turn.sin())],
            hop,
        })
    }

    /// Of each harmonic, the pitch itself first.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// Samples of the excitation, `frame` for each value of the pitch, with normal `noise`, one value a sample.
    pub fn samples(&self, pitch: &[f32], frame: usize, noise: &[f32]) -> Vec<f32> {
        let turns = self.turns(pitch);
        let levels = self.levels(pitch);
        let mut samples = self.beside(pitch, frame, noise);
        for (at, sample) in samples.iter_mut().enumerate() {
            let level = levels.get(at / frame).copied().unwrap_or(0.0);
            if level > 0.0 {
                let place = ((at as f64 + 0.5) / frame as f64 - 0.5).max(0.0);
                let before = place as usize;
                let (a, b) = (&turns[before], &turns[(before + 1).min(turns.len() - 1)]);
                for ((a, b), weight) in a.iter().zip(b).zip(&self.weights) {
                    let turn = (a + (b - a) * (place - before as f64)) * frame as f64;
                    *sample += weight * level * (std::f64::consts::TAU * turn.fract()).sin() as f32;
                }
            }
            *sample = sample.tanh();
        }
        samples
    }

    /// Turns of each harmonic up to the middle of each value, a sample. In f64: they are multiplied by the samples of a value.
    fn turns(&self, pitch: &[f32]) -> Vec<Vec<f64>> {
        let mut turns = vec![0f64; self.weights.len()];
        let add = |pitch: &f32| {
            for (harmonic, turns) in turns.iter_mut().enumerate() {
                let step = pitch * (harmonic + 1) as f32 / SAMPLE_RATE as f32;
                *turns += f64::from(step.rem_euclid(1.0));
            }
            turns.clone()
        };
        pitch.iter().map(add).collect()
    }

    /// The phase of each harmonic in the middle of each value's samples, and its growth up to the middle of the next one's, in turns:
    /// `[values, harmonics, 2]`.
    pub fn segments(&self, pitch: &[f32], frame: usize) -> Vec<f32> {
        let turns = self.turns(pitch);
        let next = turns.iter().skip(1).chain(turns.last());
        let pairs = turns.iter().zip(next).flat_map(|(a, b)| a.iter().zip(b));
        pairs.flat_map(|(a, b)| [(a * frame as f64).fract(), (b - a) * frame as f64]).map(|turn| turn as f32).collect()
    }

    /// The amplitude of the harmonics of each value: none where there is no voice.
    pub fn levels(&self, pitch: &[f32]) -> Vec<f32> {
        pitch.iter().map(|pitch| if *pitch > VOICED { AMPLITUDE } else { 0.0 }).collect()
    }

    /// The rest of the excitation beside the harmonics, at each sample: `noise` as loud as it is at the sample's value of the pitch, and the
    /// bias. The published class draws noise for each harmonic; their weighted sum is as a single one's.
    pub fn beside(&self, pitch: &[f32], frame: usize, noise: &[f32]) -> Vec<f32> {
        let deviation = self.weights.iter().map(|weight| weight * weight).sum::<f32>().sqrt();
        let value = |(at, noise): (usize, &f32)| {
            let is_voiced = pitch.get(at / frame).is_some_and(|pitch| *pitch > VOICED);
            noise * if is_voiced { DEVIATION } else { AMPLITUDE / 3.0 } * deviation + self.bias
        };
        noise.iter().enumerate().map(value).collect()
    }

    /// Magnitudes, then phases, of the spectra of centred frames: `[2 bins, samples / hop + 1]`.
    pub fn spectra(&self, pool: &ThreadPool, samples: &[f32]) -> Channels {
        let length = self.window.len();
        let bins = length / 2 + 1;
        let frames = samples.len() / self.hop + 1;
        let last = samples.len() - 1;
        // The samples around the utterance are mirrored at its ends.
        let sample = |at: usize| match at.checked_sub(length / 2) {
            None => samples[(length / 2 - at).min(last)],
            Some(at) if at <= last => samples[at],
            Some(at) => samples[(2 * last).saturating_sub(at)],
        };
        let mut rows = vec![0f32; frames * 2 * bins];
        let mut work: Vec<&mut [f32]> = rows.chunks_exact_mut(2 * bins).collect();
        pool.for_each_item(&mut work, |frame, row| {
            let windowed: Vec<f32> =
                self.window.iter().enumerate().map(|(at, window)| window * sample(frame * self.hop + at)).collect();
            let sum = |table: &[f32]| table.iter().zip(&windowed).map(|(turn, x)| turn * x).sum::<f32>();
            let (magnitudes, phases) = row.split_at_mut(bins);
            let [cosines, sines] = &self.turns;
            let tables = cosines.chunks_exact(length).zip(sines.chunks_exact(length)).enumerate();
            for ((bin, (cosines, sines)), (magnitude, phase)) in tables.zip(magnitudes.iter_mut().zip(phases)) {
                // The first and last frequency have no imaginary part.
                let is_real = bin == 0 || bin + 1 == bins;
                let (real, imaginary) = (sum(cosines), if is_real { 0.0 } else { sum(sines) });
                *magnitude = real.hypot(imaginary);
                *phase = imaginary.atan2(real);
            }
        });
        Channels::from_frames(&rows, 2 * bins)
    }
}
