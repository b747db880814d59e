//! Converts any sample rate to 16 kHz, and that of a voice to 24 kHz.
//!
//! Both of rubato's resamplers filter with a windowed sinc (Blackman-Harris squared), and their delay is removed here:
//! output sample 0 is at the time of input sample 0. Recordings use the FFT resampler, which costs a few thousandths of
//! real time and works on blocks of 32 ms and more, up to a second for odd rates. Live audio uses the polyphase
//! resampler, with blocks of 10 ms at any rate.

use std::ops::RangeInclusive;

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{
    Async, Fft, FixedAsync, FixedSync, ResamplerConstructionError, SincInterpolationParameters, WindowFunction,
};

use super::{LIMIT, SAMPLE_RATE};
use crate::error::{Error, Result};

/// Accepted rates, in hertz. No recorder is outside; a corrupt header may be, and would need gigabytes of memory.
pub(super) const RATES: RangeInclusive<u32> = 100..=768_000;

/// Fewest output samples of one transform, 32 ms: long enough for a steep filter, short enough to stay in cache.
const SPAN: usize = 512;

/// Mono `f32` at one rate in, another out.
pub(crate) struct Resampler {
    rate: u32,
    rate_out: u32,
    /// `None` if the rates are equal.
    engine: Option<RateConverter>,
    /// Samples received, and samples returned.
    taken: u64,
    given: u64,
}

struct RateConverter {
    inner: Box<dyn rubato::Resampler<f32> + Send>,
    /// `[up to inner.input_frames_next()]`
    input: Vec<f32>,
    /// `[inner.output_frames_max()]`
    output: Vec<f32>,
    /// Leading output samples still to drop: the delay of the filter.
    delay: usize,
}

/// Length of the polyphase filter, samples: 4 ms to either side at 16 kHz.
const LIVE_TAPS: usize = 128;

impl Resampler {
    /// A resampler for recordings.
    ///
    /// # Errors
    /// [`Error::UnsupportedMedia`] for a rate outside [`RATES`].
    pub(crate) fn new(rate: u32) -> Result<Self> {
        Self::by(rate, SAMPLE_RATE, fft)
    }

    /// A resampler for live audio, with low delay.
    ///
    /// # Errors
    /// As [`Resampler::new`].
    pub(crate) fn live(rate: u32) -> Result<Self> {
        Self::by(rate, SAMPLE_RATE, polyphase)
    }

    /// A resampler with low delay to another rate.
    ///
    /// # Errors
    /// As [`Resampler::new`].
    pub(crate) fn between(rate: u32, rate_out: u32) -> Result<Self> {
        Self::by(rate, rate_out, polyphase)
    }

    fn by(
        rate: u32,
        rate_out: u32,
        engine: fn(usize, usize) -> std::result::Result<RateConverter, ResamplerConstructionError>,
    ) -> Result<Self> {
        if !RATES.contains(&rate) {
            return Err(failed(rate, rate_out, &"the rate is out of range"));
        }
        let engine = (rate != rate_out)
            .then(|| engine(rate as usize, rate_out as usize).map_err(|error| failed(rate, rate_out, &error)))
            .transpose()?;
        Ok(Self { rate, rate_out, engine, taken: 0, given: 0 })
    }

    /// Appends the output computable from the samples so far to `out`. It lags by the filter's length until
    /// [`Resampler::finish`].
    pub(crate) fn push(&mut self, mut samples: &[f32], out: &mut Vec<f32>) -> Result<()> {
        self.taken += samples.len() as u64;
        let before = out.len();
        if let Some(engine) = &mut self.engine {
            let chunk = engine.inner.input_frames_next();
            while !samples.is_empty() {
                let (head, tail) = samples.split_at(samples.len().min(chunk - engine.input.len()));
                engine.input.extend_from_slice(head);
                samples = tail;
                if engine.input.len() == chunk {
                    engine.run(out).map_err(|error| failed(self.rate, self.rate_out, &error))?;
                }
            }
        } else {
            out.extend_from_slice(samples);
        }
        self.given += (out.len() - before) as u64;
        Ok(())
    }

    /// Appends the rest, so that the total output is `round(input * rate_out / rate)` samples.
    pub(crate) fn finish(&mut self, out: &mut Vec<f32>) -> Result<()> {
        let Some(engine) = &mut self.engine else {
            return Ok(());
        };
        let rate = u128::from(self.rate);
        let exact = (u128::from(self.taken) * u128::from(self.rate_out) * 2 + rate) / (2 * rate);
        let missing = usize::try_from(exact.saturating_sub(u128::from(self.given))).unwrap_or(0);
        let end = out.len() + missing;
        while out.len() < end {
            let chunk = engine.inner.input_frames_next();
            engine.input.resize(chunk, 0.0);
            engine.run(out).map_err(|error| failed(self.rate, self.rate_out, &error))?;
        }
        out.truncate(end);
        self.given += missing as u64;
        Ok(())
    }
}

fn fft(rate_in: usize, rate_out: usize) -> std::result::Result<RateConverter, ResamplerConstructionError> {
    // An even number of the shortest exact blocks (441 in, 160 out for 44.1 kHz), so that the delay of half a block is
    // a whole number of samples on both sides.
    let shortest = rate_in / gcd(rate_in, rate_out);
    let wanted = (SPAN * rate_in / rate_out).max(SPAN);
    let chunk = wanted.next_multiple_of(2 * shortest);
    Ok(RateConverter::new(Box::new(Fft::new(rate_in, rate_out, chunk, 1, FixedSync::Both)?)))
}

fn polyphase(rate_in: usize, rate_out: usize) -> std::result::Result<RateConverter, ResamplerConstructionError> {
    let ratio = rate_out as f64 / rate_in as f64;
    let filter = SincInterpolationParameters::new(LIVE_TAPS, WindowFunction::BlackmanHarris2);
    let chunk = (rate_in / 100).max(1);
    Ok(RateConverter::new(Box::new(Async::new_sinc(ratio, 1.0, &filter, chunk, 1, FixedAsync::Input)?)))
}

impl RateConverter {
    fn new(inner: Box<dyn rubato::Resampler<f32> + Send>) -> Self {
        Self {
            input: Vec::with_capacity(inner.input_frames_max()),
            output: vec![0.0; inner.output_frames_max()],
            delay: inner.output_delay(),
            inner,
        }
    }

    fn run(&mut self, out: &mut Vec<f32>) -> std::result::Result<(), String> {
        let (frames_in, frames_out) = (self.input.len(), self.output.len());
        let input = InterleavedSlice::new(&self.input, 1, frames_in).map_err(|error| error.to_string())?;
        let mut output =
            InterleavedSlice::new_mut(&mut self.output, 1, frames_out).map_err(|error| error.to_string())?;
        let (_, made) = self.inner.process_into_buffer(&input, &mut output, None).map_err(|error| error.to_string())?;
        let skip = self.delay.min(made);
        self.delay -= skip;
        // The filter may overshoot near the limit.
        out.extend(self.output[skip..made].iter().map(|sample| sample.clamp(-LIMIT, LIMIT)));
        self.input.clear();
        Ok(())
    }
}

fn failed(rate: u32, rate_out: u32, reason: &dyn std::fmt::Display) -> Error {
    let kilohertz = f64::from(rate_out) / 1000.0;
    Error::UnsupportedMedia(format!("audio at {rate} Hz cannot be converted to {kilohertz} kHz: {reason}"))
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    fn resampled(input: &[f32], rate: u32, piece: usize) -> Vec<f32> {
        through(Resampler::new(rate).unwrap(), input, piece)
    }

    fn through(mut resampler: Resampler, input: &[f32], piece: usize) -> Vec<f32> {
        let mut out = Vec::new();
        for piece in input.chunks(piece) {
            resampler.push(piece, &mut out).unwrap();
        }
        resampler.finish(&mut out).unwrap();
        out
    }

    fn sine(hertz: f64, rate: u32, samples: usize) -> Vec<f32> {
        (0..samples).map(|n| (0.5 * (TAU * hertz * n as f64 / f64::from(rate)).sin()) as f32).collect()
    }

    /// Signal-to-error ratio in decibels without the ends, where the cut-off sine is distorted.
    fn snr(got: &[f32], want: &[f32]) -> f64 {
        let middle = got.len() / 10..got.len() * 9 / 10;
        let (mut signal, mut error) = (0.0, 1e-30);
        for (got, want) in got[middle.clone()].iter().zip(&want[middle]) {
            signal += f64::from(*want).powi(2);
            error += f64::from(got - want).powi(2);
        }
        10.0 * (signal / error).log10()
    }

    #[test]
    fn a_sine_stays_the_same_sine_at_the_same_time() {
        for rate in [8_000, 11_025, 12_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000, 192_000, 384_000] {
            for hertz in [200.0, 1_000.0, 3_400.0] {
                let out = resampled(&sine(hertz, rate, rate as usize), rate, 1_152);
                let quality = snr(&out, &sine(hertz, SAMPLE_RATE, out.len()));
                assert!(quality > 80.0, "{hertz} Hz from {rate} Hz: {quality:.1} dB");
            }
        }
    }

    #[test]
    fn speech_band_passes_and_what_would_alias_does_not() {
        let energy =
            |samples: &[f32]| samples.iter().map(|s| f64::from(*s).powi(2)).sum::<f64>() / samples.len() as f64;
        for rate in [44_100, 48_000, 96_000] {
            let seconds = rate as usize;
            let passed = energy(&resampled(&sine(7_000.0, rate, seconds), rate, 4_096));
            assert!((passed / 0.125 - 1.0).abs() < 0.02, "7 kHz from {rate} Hz: {passed}");
            let stopped = energy(&resampled(&sine(8_400.0, rate, seconds), rate, 4_096)[1_000..15_000]);
            assert!(10.0 * (stopped / 0.125).log10() < -80.0, "8.4 kHz from {rate} Hz: {stopped}");
        }
    }

    #[test]
    fn the_length_is_exact() {
        for rate in [100, 4_000, 7_999, 8_000, 11_025, 15_999, 16_000, 16_001, 22_050, 44_100, 48_000, 384_000, 768_000]
        {
            for samples in [0, 1, 2, 23, 24, 1_000, 44_101, 100_003] {
                let want = (samples as f64 * 16_000.0 / f64::from(rate)).round() as usize;
                assert_eq!(resampled(&vec![0.1; samples], rate, 997).len(), want, "{samples} at {rate} Hz");
            }
        }
    }

    #[test]
    fn the_size_of_the_pieces_makes_no_difference() {
        let input = sine(440.0, 44_100, 50_000);
        let whole = resampled(&input, 44_100, input.len());
        assert_eq!(whole, resampled(&input, 44_100, 1));
        assert_eq!(whole, resampled(&input, 44_100, 1_153));
    }

    /// Level of a sine of this frequency in a signal, dB, and the delay of that sine, s.
    fn fitted(got: &[f32], hertz: f64, rate: u32) -> (f64, f64) {
        let middle = &got[got.len() / 10..got.len() * 9 / 10];
        let angle = |n: usize| TAU * hertz * (n + got.len() / 10) as f64 / f64::from(rate);
        let part = |wave: fn(f64) -> f64| {
            let product = |(n, sample): (usize, &f32)| f64::from(*sample) * wave(angle(n));
            middle.iter().enumerate().map(product).sum::<f64>() * 2.0 / middle.len() as f64
        };
        let (sin, cos) = (part(f64::sin), part(f64::cos));
        let fit: Vec<f32> = (0..middle.len()).map(|n| (sin * angle(n).sin() + cos * angle(n).cos()) as f32).collect();
        (snr(middle, &fit), -cos.atan2(sin) / (TAU * hertz))
    }

    #[test]
    fn live_audio_keeps_its_time_and_length_in_pieces_of_any_size() {
        for rate in [8_000, 11_025, 12_345, 15_999, 22_050, 24_000, 32_000, 44_100, 47_999, 48_000] {
            let input = sine(1_000.0, rate, rate as usize + 77);
            let whole = through(Resampler::live(rate).unwrap(), &input, input.len());
            assert_eq!(whole.len(), (input.len() as f64 * 16_000.0 / f64::from(rate)).round() as usize);
            let (quality, late_s) = fitted(&whole, 1_000.0, SAMPLE_RATE);
            assert!(quality > 60.0, "1 kHz from {rate} Hz: {quality:.1} dB");
            assert!(late_s.abs() < 1.5e-4, "{rate} Hz: {late_s} s late");
            for piece in [1, 97, 4_800] {
                assert_eq!(whole, through(Resampler::live(rate).unwrap(), &input, piece), "{rate} Hz by {piece}");
            }
        }
    }

    #[test]
    fn live_audio_lags_by_less_than_twenty_milliseconds() {
        for rate in [8_000, 12_345, 44_100, 48_000] {
            let (mut resampler, mut out) = (Resampler::live(rate).unwrap(), Vec::new());
            resampler.push(&sine(1_000.0, rate, rate as usize), &mut out).unwrap();
            assert!(out.len() > 16_000 - 320, "{rate} Hz: {} samples of a second", out.len());
        }
    }

    #[test]
    fn a_voice_is_brought_to_another_rate_at_the_same_time() {
        let input = sine(1_000.0, 16_000, 16_000);
        let out = through(Resampler::between(16_000, 24_000).unwrap(), &input, 777);
        assert_eq!(out.len(), 24_000);
        let (quality, late_s) = fitted(&out, 1_000.0, 24_000);
        assert!(quality > 50.0, "{quality:.1} dB");
        assert!(late_s.abs() < 1.5e-4, "{late_s} s late");
        assert_eq!(through(Resampler::between(24_000, 24_000).unwrap(), &input, 777), input);
    }

    #[test]
    fn sixteen_kilohertz_pass_untouched() {
        let input = sine(440.0, 16_000, 12_345);
        assert_eq!(resampled(&input, 16_000, 100), input);
    }

    #[test]
    fn a_rate_of_a_corrupt_header_is_refused() {
        for rate in [0, 99, 768_001, u32::MAX] {
            assert!(Resampler::new(rate).is_err(), "{rate}");
        }
    }
}
