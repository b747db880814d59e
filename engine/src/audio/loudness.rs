//! Integrated loudness of mono sound after ITU-R BS.1770-4, in LUFS.

use super::biquad::Biquad;

/// Length of a gating block and the step from one to the next, seconds.
const BLOCK_S: f64 = 0.4;
const STEP_S: f64 = 0.1;
/// Blocks quieter than this count as silence, LUFS.
const ABSOLUTE_GATE: f64 = -70.0;
/// Blocks so far below the mean of the others do not count, LU.
const RELATIVE_GATE: f64 = -10.0;

/// The two filters of the K weighting at a sample rate: a head's shelf, and a high pass. The standard lists them for 48 kHz; these are
/// the analogue filters behind that list.
fn k_weighting(rate: f64) -> [Biquad; 2] {
    let (gain, quality) = (3.999_843_853_973_347, 0.707_175_236_955_419_6);
    let k = (std::f64::consts::PI * 1_681.974_450_955_533 / rate).tan();
    let (high, band) = (10f64.powf(gain / 20.0), 10f64.powf(gain / 20.0).powf(0.499_666_774_154_541_6));
    let shelf = Biquad::new(
        [high + band * k / quality + k * k, 2.0 * (k * k - high), high - band * k / quality + k * k],
        [1.0 + k / quality + k * k, 2.0 * (k * k - 1.0), 1.0 - k / quality + k * k],
    );
    let quality = 0.500_327_037_323_877_3;
    let k = (std::f64::consts::PI * 38.135_470_876_024_44 / rate).tan();
    let scale = 1.0 + k / quality + k * k;
    let pass = Biquad::new([scale, -2.0 * scale, scale], [scale, 2.0 * (k * k - 1.0), 1.0 - k / quality + k * k]);
    [shelf, pass]
}

/// The integrated loudness of sound at a sample rate in hertz, LUFS; none for less than 0.4 s, or silence.
pub(crate) fn integrated(samples: &[f32], rate: u32) -> Option<f64> {
    let rate = f64::from(rate);
    let [mut shelf, mut pass] = k_weighting(rate);
    let squares: Vec<f64> = samples.iter().map(|x| pass.next(shelf.next(f64::from(*x))).powi(2)).collect();
    let (block, step) = ((BLOCK_S * rate) as usize, ((STEP_S * rate) as usize).max(1));
    let powers = squares.windows(block).step_by(step).map(|block| block.iter().sum::<f64>() / block.len() as f64);
    let loud = |power: f64| -0.691 + 10.0 * power.log10();
    let heard: Vec<f64> = powers.filter(|power| loud(*power) > ABSOLUTE_GATE).collect();
    let mean = |powers: &[f64]| powers.iter().sum::<f64>() / powers.len() as f64;
    let gate = loud(mean(&heard)) + RELATIVE_GATE;
    let heard: Vec<f64> = heard.into_iter().filter(|power| loud(*power) > gate).collect();
    (!heard.is_empty()).then(|| loud(mean(&heard)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sine(hertz: f32, peak: f32, rate: u32, seconds: usize) -> Vec<f32> {
        let at = |n: usize| (std::f32::consts::TAU * hertz * n as f32 / rate as f32).sin() * peak;
        (0..seconds * rate as usize).map(at).collect()
    }

    /// EBU Tech 3341: a sine of 1 kHz in one channel has 3.01 LU less than its level in decibels of full scale, and the standard's
    /// constant takes the filter's gain there off.
    #[test]
    fn a_sine_is_as_loud_as_its_level() {
        for rate in [16_000, 24_000, 48_000] {
            let found = integrated(&sine(1_000.0, 0.1, rate, 3), rate).unwrap();
            assert!((found + 23.01).abs() < 0.1, "{found} at {rate}");
        }
    }

    #[test]
    fn silence_between_words_does_not_count() {
        let mut sound = sine(500.0, 0.2, 16_000, 2);
        let alone = integrated(&sound, 16_000).unwrap();
        sound.extend(vec![0.0; 5 * 16_000]);
        let with_silence = integrated(&sound, 16_000).unwrap();
        assert!((alone - with_silence).abs() < 0.5, "{alone} and {with_silence}");
        assert_eq!(integrated(&vec![0.0; 32_000], 16_000), None);
        assert_eq!(integrated(&[0.5; 100], 16_000), None);
    }
}
