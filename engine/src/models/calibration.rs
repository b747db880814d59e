//! Calibration of confidences: a checkpoint's map from how narrow its choices were to the share of right words.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::text::Word;

/// The file in a checkpoint's folder that states its map.
const FILE: &str = "confidence.json";

/// Confidences are kept so far from 0 and 1, where log-odds end.
const LEAST: f32 = 1e-4;

/// A line between log-odds, as `recipes.confidence` fits it. Without the file values stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    slope: f32,
    offset: f32,
}

impl Default for Calibration {
    fn default() -> Self {
        Self { slope: 1.0, offset: 0.0 }
    }
}

impl Calibration {
    /// Reads the map of a checkpoint's folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a file that cannot be read, and for a map that does not rise.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let map: Self = match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(bad(error.to_string())),
        };
        let rises = map.slope > 0.0 && map.slope.is_finite() && map.offset.is_finite();
        if rises { Ok(map) } else { Err(bad("slope is above 0, and both numbers are finite".into())) }
    }

    /// Maps the confidences of words.
    pub fn apply(&self, words: &mut [Word]) {
        if *self != Self::default() {
            words.iter_mut().for_each(|word| word.confidence = self.mapped(word.confidence));
        }
    }

    fn mapped(&self, confidence: f32) -> f32 {
        let confidence = confidence.clamp(LEAST, 1.0 - LEAST);
        let odds = (confidence / (1.0 - confidence)).ln();
        1.0 / (1.0 + (-(self.slope * odds + self.offset)).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_keeps_the_order_of_words_and_stays_between_0_and_1() {
        let map = Calibration { slope: 1.3, offset: -2.0 };
        let mapped: Vec<f32> = [0.0, 0.3, 0.8, 0.95, 1.0].map(|value| map.mapped(value)).to_vec();
        assert!(mapped.is_sorted() && mapped.iter().all(|value| (0.0..=1.0).contains(value)), "{mapped:?}");
        assert!((map.mapped(0.5) - 0.119_203).abs() < 1e-5);
        let word = r#"{"text": "a", "start": 0, "end": 1, "confidence": 0.25}"#;
        let mut words: [Word; 1] = [serde_json::from_str(word).unwrap()];
        Calibration::default().apply(&mut words);
        assert_eq!(words[0].confidence, 0.25);
        map.apply(&mut words);
        assert_eq!(words[0].confidence, map.mapped(0.25));
    }

    #[test]
    fn a_folder_states_its_map() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Calibration::read(folder.path()).unwrap(), Calibration::default());
        let read = |text: &str| {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            Calibration::read(folder.path())
        };
        assert_eq!(read(r#"{"slope": 1.3, "offset": -2}"#).unwrap(), Calibration { slope: 1.3, offset: -2.0 });
        for bad in [r#"{"slope": 1.3}"#, r#"{"slope": -1, "offset": 0}"#, r#"{"slope": 1e99, "offset": 0}"#, "[]"] {
            assert!(matches!(read(bad), Err(Error::Checkpoint { .. })), "{bad}");
        }
    }
}
