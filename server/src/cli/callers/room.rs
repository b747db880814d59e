//! A simulated room: the caller, echo of the loudspeaker, and noise at the microphone.

use crate::cli::talk::call::RATE;

/// Echo paths: delay in ms, gain. The first is the direct one; the others come from walls.
const PATHS: &[(usize, f32)] = &[(60, 1.0), (83, 0.5), (101, -0.35), (137, 0.2), (173, -0.12)];
/// Level of the noise, dB below full scale.
const NOISE_DB: f32 = -65.0;

/// The room of one call.
pub struct Room {
    /// Gain of all echo paths together; 0 for none.
    echo: f32,
    noise: f32,
    /// The last samples that were played, as long as the longest path.
    played: Vec<f32>,
    at: usize,
    seed: u64,
}

impl Room {
    /// A room whose echo is this many dB louder than what is played: -12 is a quarter of its amplitude. None for headphones.
    pub fn new(echo_db: Option<f32>, seed: u64) -> Self {
        let energy: f32 = PATHS.iter().map(|(_, gain)| gain * gain).sum();
        let longest = PATHS.iter().map(|(delay_ms, _)| *delay_ms).max().unwrap_or(0);
        Self {
            echo: echo_db.map_or(0.0, |db| amplitude(db) / energy.sqrt()),
            noise: amplitude(NOISE_DB),
            played: vec![0.0; samples(longest) + 1],
            at: 0,
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    /// The sound at the microphone while the caller says `spoken` and the loudspeaker plays `played`, which is as long.
    pub fn hear(&mut self, spoken: &[i16], played: &[i16]) -> Vec<i16> {
        let length = self.played.len();
        spoken
            .iter()
            .zip(played)
            .map(|(spoken, played)| {
                self.at = (self.at + 1) % length;
                self.played[self.at] = f32::from(*played);
                let path = |(delay_ms, gain): &(usize, f32)| {
                    gain * self.played[(self.at + length - samples(*delay_ms)) % length]
                };
                let echo: f32 = PATHS.iter().map(path).sum();
                let noise = self.noise * self.random() * 32_768.0;
                (f32::from(*spoken) + self.echo * echo + noise).clamp(-32_768.0, 32_767.0) as i16
            })
            .collect()
    }

    /// A number of even distribution with the mean square 1.
    fn random(&mut self) -> f32 {
        // Xorshift: the same noise in every run.
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let even = (self.seed >> 40) as f32 / (1_u64 << 24) as f32;
        (2.0 * even - 1.0) * 3_f32.sqrt()
    }
}

fn amplitude(db: f32) -> f32 {
    10_f32.powf(db / 20.0)
}

/// Samples of a duration.
pub fn samples(ms: usize) -> usize {
    ms * RATE as usize / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn energy(samples: &[i16]) -> f64 {
        samples.iter().map(|sample| f64::from(*sample).powi(2)).sum()
    }

    #[test]
    fn an_echo_comes_later_and_quieter() {
        // Noise, whose paths do not cancel one another.
        let mut noise = Room::new(None, 7);
        let played: Vec<i16> = (0..RATE).map(|_| (8_000.0 * noise.random()) as i16).collect();
        let silence = vec![0; played.len()];
        let heard = Room::new(Some(-12.0), 1).hear(&silence, &played);
        let before = samples(60) - 1;
        assert!(energy(&heard[..before]) / before as f64 <= f64::from(32_768.0 * amplitude(NOISE_DB)).powi(2) * 1.2);
        let after = samples(200);
        let db = 10.0 * (energy(&heard[after..]) / energy(&played[after..])).log10();
        assert!((db + 12.0).abs() < 0.5, "{db} dB");
        let alone = Room::new(None, 1).hear(&silence, &played);
        assert!(energy(&alone) < energy(&heard) / 1_000.0, "headphones");
    }
}
