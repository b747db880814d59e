//! The constants of a front end: window, mel bank, roots of unity.

use super::config::{LogMelConfig, TablePrecision, Window};

/// The mel filters, stored as their nonzero weights: consecutive bins, all below `n_fft / 2`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct MelBank {
    /// Each filter's first bin.
    pub starts: Vec<usize>,
    /// Index of each filter's first weight in `weights`, then the number of all weights.
    pub offsets: Vec<usize>,
    /// The weights of all filters, one after the other.
    pub weights: Vec<f32>,
}

impl MelBank {
    /// Each filter's first bin and weights.
    pub fn bands(&self) -> impl Iterator<Item = (usize, &[f32])> {
        let weights = self.offsets.windows(2).map(|ends| &self.weights[ends[0]..ends[1]]);
        self.starts.iter().copied().zip(weights)
    }
}

/// The window, `win_length` points, as `torch.hann_window` computes it: in f32 throughout, because
/// rounding the near-zero ends to bf16 makes any other precision visible.
pub(crate) fn window(config: &LogMelConfig) -> Vec<f32> {
    let points = config.win_length;
    let period = match config.window {
        Window::PeriodicHann => points,
        Window::SymmetricHann => points - 1,
    };
    let step = (2.0 * std::f64::consts::PI / period as f64) as f32;
    (0..points).map(|point| round(config.tables, f64::from(point as f32 * step).cos() as f32 * -0.5 + 0.5)).collect()
}

/// The Slaney mel bank of librosa and transformers (`mel_filter_bank(norm="slaney", mel_scale="slaney")`), sparse.
pub(crate) fn mel_bank(config: &LogMelConfig) -> MelBank {
    let bins = config.n_fft / 2;
    let top = config.sample_rate / 2;
    let bin_hertz = |bin: usize| bin as f64 * (top as f64 / bins as f64);
    let top_mel = mel(config.sample_rate as f64 / 2.0);
    let edges: Vec<f64> =
        (0..config.mels + 2).map(|edge| hertz(edge as f64 * (top_mel / (config.mels + 1) as f64))).collect();

    let mut bank = MelBank { offsets: vec![0], ..MelBank::default() };
    for edge in edges.windows(3) {
        let area = 2.0 / (edge[2] - edge[0]);
        // The Nyquist bin is the upper edge of the last filter, so it belongs to none: the kernels do not compute it.
        let filter: Vec<f32> = (0..bins)
            .map(|bin| {
                let rising = (bin_hertz(bin) - edge[0]) / (edge[1] - edge[0]);
                let falling = (edge[2] - bin_hertz(bin)) / (edge[2] - edge[1]);
                // f32 first, then the area: the published extractors round twice, and bf16 makes the difference visible.
                let triangle = rising.min(falling).max(0.0) as f32;
                round(config.tables, (f64::from(triangle) * area) as f32)
            })
            .collect();
        let start = filter.iter().position(|&weight| weight > 0.0).unwrap_or(0);
        let end = filter.iter().rposition(|&weight| weight > 0.0).map_or(start, |last| last + 1);
        bank.starts.push(start);
        bank.weights.extend_from_slice(&filter[start..end]);
        bank.offsets.push(bank.weights.len());
    }
    bank
}

/// Cosines and sines of `2 pi k / n_fft` for `k` below `n_fft`.
pub(crate) fn turns(n_fft: usize) -> (Vec<f32>, Vec<f32>) {
    (0..n_fft)
        .map(|k| {
            let angle = 2.0 * std::f64::consts::PI * k as f64 / n_fft as f64;
            (angle.cos() as f32, angle.sin() as f32)
        })
        .unzip()
}

/// Slaney's scale: linear to 1 kHz (15 mel), logarithmic above, 27 mel to a factor of 6.4.
fn mel(hertz: f64) -> f64 {
    if hertz < 1000.0 { 3.0 * hertz / 200.0 } else { 15.0 + (hertz / 1000.0).ln() * (27.0 / 6.4f64.ln()) }
}

fn hertz(mel: f64) -> f64 {
    if mel < 15.0 { 200.0 * mel / 3.0 } else { 1000.0 * (6.4f64.ln() / 27.0 * (mel - 15.0)).exp() }
}

/// Rounds to the tables' precision; bfloat16 to nearest, ties to even.
fn round(precision: TablePrecision, value: f32) -> f32 {
    match precision {
        TablePrecision::F32 => value,
        TablePrecision::Bf16 => {
            let bits = value.to_bits();
            f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff_0000)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_tile_the_spectrum_below_nyquist() {
        for mels in [80, 128] {
            let bank = mel_bank(&LogMelConfig::nemotron(mels));
            assert_eq!(bank.bands().count(), mels);
            assert!(bank.starts.is_sorted());
            assert!(bank.bands().all(|(_, weights)| !weights.is_empty()));
            assert_eq!(bank.bands().last().map(|(start, weights)| start + weights.len()), Some(256));
        }
    }

    #[test]
    fn windows_have_the_ends_of_their_shape() {
        let symmetric = window(&LogMelConfig::parakeet(80));
        assert!(symmetric[0] == 0.0 && symmetric[399] == 0.0);
        let periodic = window(&LogMelConfig::whisper(80));
        assert!(periodic[0] == 0.0 && periodic[399] > 0.0 && periodic[200] == 1.0);
    }

    #[test]
    fn bfloat16_rounds_to_nearest_even() {
        let round = |value| round(TablePrecision::Bf16, value);
        assert_eq!(round(1.0), 1.0);
        assert_eq!(round(1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(round(1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
    }
}
