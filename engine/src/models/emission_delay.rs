//! Emission delay: a transducer emits a word once it is sure of it, which is later than it is spoken. Whisper's attention turns to a word
//! before it is spoken: there the delay is below 0.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::text::Word;

/// The file in a checkpoint's folder that states its delays.
const FILE: &str = "emission_delay.json";
/// A shorter time between two words is no pause, ms: the first word lasts until the second begins.
const SHORTEST_PAUSE_MS: u64 = 120;
/// A word's shortest length, ms.
const SHORTEST_WORD_MS: u64 = 20;

/// Median delay of the words at a look-ahead, as `recipes.delay` measures it; below 0 where they are early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmissionDelay {
    #[serde(default)]
    look_ahead_ms: u64,
    start_ms: i64,
    end_ms: i64,
}

/// The delays of a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct EmissionDelays(Vec<EmissionDelay>);

impl EmissionDelays {
    /// Reads the delays of a checkpoint's folder. There are none without the file.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a file that cannot be read.
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        match std::fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map(Self).map_err(|error| bad(error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(bad(error.to_string())),
        }
    }

    /// The delay at the nearest look-ahead; zero where none is stated.
    pub fn at(&self, look_ahead_ms: u64) -> EmissionDelay {
        self.0.iter().min_by_key(|delay| delay.look_ahead_ms.abs_diff(look_ahead_ms)).copied().unwrap_or_default()
    }
}

impl EmissionDelay {
    /// Moves the words of a recording or a turn, in their order, to where they are spoken.
    pub fn correct(&self, words: &mut [Word]) {
        if (self.start_ms, self.end_ms) == (0, 0) {
            return;
        }
        let mut next_start: Option<u64> = None;
        for word in words.iter_mut().rev() {
            let start = word.start.saturating_sub_signed(self.start_ms);
            let moved = word.end.saturating_sub_signed(self.end_ms);
            let mut end = moved.max(start + SHORTEST_WORD_MS).min(word.end.max(moved).max(start));
            if let Some(next) = next_start
                && next < end + SHORTEST_PAUSE_MS
            {
                end = next.max(start);
            }
            (word.start, word.end, next_start) = (start, end, Some(start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(start: u64, end: u64) -> Word {
        Word { text: "a".into(), start, end, confidence: 1.0, speaker: None, speaker_name: None, channel: None }
    }

    fn corrected(words: &[(u64, u64)], start_ms: i64, end_ms: i64) -> Vec<(u64, u64)> {
        let mut words: Vec<Word> = words.iter().map(|(start, end)| word(*start, *end)).collect();
        EmissionDelay { look_ahead_ms: 0, start_ms, end_ms }.correct(&mut words);
        words.iter().map(|word| (word.start, word.end)).collect()
    }

    #[test]
    fn words_move_and_stay_in_order() {
        assert_eq!(corrected(&[(480, 560), (1_600, 1_760)], 240, 130), [(240, 430), (1_360, 1_630)]);
        assert_eq!(corrected(&[(480, 640), (640, 800)], 240, 130), [(240, 400), (400, 670)], "no pause, no gap");
        assert_eq!(corrected(&[(80, 160), (160, 240)], 240, 130), [(0, 0), (0, 110)]);
        assert_eq!(corrected(&[(480, 560)], 0, 0), [(480, 560)]);
        assert_eq!(corrected(&[(400, 400), (400, 480)], 100, 0), [(300, 300), (300, 480)]);
        assert_eq!(
            corrected(&[(0, 300), (300, 420), (900, 900)], -70, -50),
            [(70, 370), (370, 470), (970, 970)],
            "early ones"
        );
    }

    #[test]
    fn the_nearest_look_ahead_counts() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(EmissionDelays::read(folder.path()).unwrap().at(80), EmissionDelay::default());
        let stated = r#"[{"look_ahead_ms": 80, "start_ms": 300, "end_ms": 200}, {"look_ahead_ms": 1120, "start_ms": 240, "end_ms": 130}]"#;
        std::fs::write(folder.path().join(FILE), stated).unwrap();
        let delays = EmissionDelays::read(folder.path()).unwrap();
        assert_eq!([0, 80, 500, 700, 2_000].map(|ms| delays.at(ms).start_ms), [300, 300, 300, 240, 240]);
        std::fs::write(folder.path().join(FILE), "[{}]").unwrap();
        assert!(matches!(EmissionDelays::read(folder.path()), Err(Error::Checkpoint { .. })));
    }
}
