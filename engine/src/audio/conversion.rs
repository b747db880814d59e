//! Conversion between the rates of live audio.

use super::Resampler;
use crate::error::Result;

/// Converts live mono audio from one rate to another, with a delay of a few milliseconds.
pub struct RateConversion(Resampler);

impl RateConversion {
    /// A conversion between two rates, in hertz.
    ///
    /// # Errors
    /// [`Error::UnsupportedMedia`](crate::Error::UnsupportedMedia) for a rate that no device has.
    pub fn new(from: u32, to: u32) -> Result<Self> {
        Resampler::between(from, to).map(Self)
    }

    /// Takes samples and returns those that can be computed from all so far.
    ///
    /// # Errors
    /// [`Error::UnsupportedMedia`](crate::Error::UnsupportedMedia) if the filter fails.
    pub fn push(&mut self, samples: &[f32]) -> Result<Vec<f32>> {
        let mut out = Vec::new();
        self.0.push(samples, &mut out)?;
        Ok(out)
    }

    /// Ends the audio and returns the rest.
    ///
    /// # Errors
    /// As [`RateConversion::push`].
    pub fn finish(mut self) -> Result<Vec<f32>> {
        let mut out = Vec::new();
        self.0.finish(&mut out)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_keeps_its_pitch_and_length() {
        let tone = |rate: usize| -> Vec<f32> {
            (0..rate).map(|n| (n as f32 * 440.0 * std::f32::consts::TAU / rate as f32).sin() * 0.5).collect()
        };
        for rate in [8_000, 16_000, 24_000, 44_100, 48_000] {
            let mut conversion = RateConversion::new(24_000, rate).unwrap();
            let mut converted = Vec::new();
            for frame in tone(24_000).chunks(1_920) {
                converted.extend(conversion.push(frame).unwrap());
            }
            converted.extend(conversion.finish().unwrap());
            assert_eq!(converted.len(), rate as usize);
            // The ends are the filter's.
            let (from, to) = (rate as usize / 10, rate as usize * 9 / 10);
            let worst = tone(rate as usize)[from..to]
                .iter()
                .zip(&converted[from..to])
                .map(|(wanted, got)| (wanted - got).abs())
                .fold(0.0, f32::max);
            // The filter's delay is taken off to within 0.15 ms.
            let shifted = 0.5 * 440.0 * std::f32::consts::TAU * 1.5e-4;
            assert!(worst < shifted, "{rate} Hz: {worst}");
        }
    }
}
