//! The waveform of a recording as the drawing of its player.

use std::fmt::Write as _;

use crate::store::Waveform;

/// Half the height of the drawing.
const HALF: usize = 20;

/// A drawing of bars, one unit wide each and 40 high.
pub struct Bars {
    /// The width of the whole recording, in bars.
    pub width: String,
    /// The path of an SVG: a line for each bar.
    pub path: String,
}

impl Bars {
    /// Draws the waveform of a recording of this length. None if there is nothing to draw.
    pub fn new(waveform: &Waveform, duration_ms: i64) -> Option<Self> {
        if waveform.levels.is_empty() || waveform.level_ms <= 0 || duration_ms <= 0 {
            return None;
        }
        // The loudest bar has the whole height, whatever the level of the recording.
        let loudest = waveform.levels.iter().copied().max().unwrap_or_default().max(1);
        let mut path = String::new();
        for (at, level) in waveform.levels.iter().enumerate() {
            let half = (usize::from(*level) * HALF / usize::from(loudest)).max(1);
            // Writing to a string cannot fail.
            let _ = write!(path, "M{at}.5 {}v{}", HALF - half, 2 * half);
        }
        let width = duration_ms as f64 / waveform.level_ms as f64;
        Some(Self { width: format!("{width:.2}"), path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loudest_bar_is_as_high_as_the_drawing() {
        let bars = Bars::new(&Waveform { level_ms: 10, levels: vec![0, 15, 30] }, 25).unwrap();
        assert_eq!((bars.path.as_str(), bars.width.as_str()), ("M0.5 19v2M1.5 10v20M2.5 0v40", "2.50"));
        let silent = Bars::new(&Waveform { level_ms: 10, levels: vec![0, 0] }, 20).unwrap();
        assert_eq!(silent.path, "M0.5 19v2M1.5 19v2");
        assert!(Bars::new(&Waveform::default(), 20).is_none());
        assert!(Bars::new(&Waveform { level_ms: 10, levels: vec![0] }, 0).is_none());
    }
}
