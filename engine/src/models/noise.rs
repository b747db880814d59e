//! Gaussian noise from a seed.

/// A series of normal values that depends on its seed alone.
#[derive(Clone, Debug)]
pub struct Noise {
    state: u64,
    /// Standard deviation.
    deviation: f32,
}

impl Noise {
    /// Noise of a `temperature`, which is its variance. At 0 there is none.
    pub fn new(seed: u64, temperature: f32) -> Self {
        Self { state: seed, deviation: temperature.sqrt() }
    }

    /// The next `count` values.
    pub fn draw(&mut self, count: usize) -> Vec<f32> {
        let pairs = (0..count.div_ceil(2)).flat_map(|_| {
            // The form of Box and Muller; 1 - u is above 0.
            let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
            let (sin, cos) = (std::f64::consts::TAU * self.uniform()).sin_cos();
            [radius * cos, radius * sin]
        });
        let values: Vec<f64> = pairs.collect();
        values[..count].iter().map(|value| *value as f32 * self.deviation).collect()
    }

    /// From 0 to below 1, by the splitmix64 generator.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_normal_and_depends_on_its_seed() {
        let values = Noise::new(7, 0.49).draw(100_000);
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / values.len() as f32;
        assert!(mean.abs() < 0.01 && (variance - 0.49).abs() < 0.01, "{mean} {variance}");
        let beyond = values.iter().filter(|value| value.abs() > 1.4).count() as f32 / values.len() as f32;
        assert!((beyond - 0.0455).abs() < 0.005, "{beyond} beyond two deviations");
        assert_eq!(Noise::new(7, 0.49).draw(9), values[..9]);
        assert_ne!(Noise::new(8, 0.49).draw(9), values[..9]);
        assert!(Noise::new(7, 0.0).draw(9).iter().all(|value| *value == 0.0));
    }
}
