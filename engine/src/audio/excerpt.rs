//! A part of a recording: what is before it is decoded and dropped, and nothing is decoded after it.

use super::SAMPLE_RATE;

/// The part of a recording that is taken. The default is the whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// Its first moment, ms from the start of the recording.
    pub start_ms: u64,
    /// Its length in ms; none for the rest of the recording.
    pub duration_ms: Option<u64>,
}

impl Excerpt {
    /// The seconds of it in a recording of so many.
    pub(super) fn length_s(self, recording_s: f64) -> f64 {
        let rest = (recording_s - self.start_ms as f64 / 1e3).max(0.0);
        self.duration_ms.map_or(rest, |ms| rest.min(ms as f64 / 1e3))
    }
}

/// Cuts an excerpt out of 16 kHz samples that come in pieces.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    /// Samples before the excerpt that are still to come.
    before: u64,
    /// Samples of the excerpt that are still to come; none for all.
    rest: Option<u64>,
}

impl Cutter {
    pub(super) fn new(excerpt: Excerpt) -> Self {
        let samples = |ms: u64| ms.saturating_mul(u64::from(SAMPLE_RATE)) / 1_000;
        Self { before: samples(excerpt.start_ms), rest: excerpt.duration_ms.map(samples) }
    }

    /// Leaves the samples of the excerpt.
    pub(super) fn cut(&mut self, samples: &mut Vec<f32>) {
        let before = self.before.min(samples.len() as u64);
        self.before -= before;
        samples.drain(..before as usize);
        if let Some(rest) = &mut self.rest {
            samples.truncate(usize::try_from(*rest).unwrap_or(usize::MAX));
            *rest -= samples.len() as u64;
        }
    }

    /// True before the first sample of the excerpt.
    pub(super) fn is_before(&self) -> bool {
        self.before > 0
    }

    /// True after the last sample of the excerpt.
    pub(super) fn is_over(&self) -> bool {
        self.rest == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_as_the_whole_is() {
        let whole: Vec<f32> = (0..64_000).map(|sample| sample as f32).collect();
        for piece in [1, 777, 16_000, 64_000] {
            let mut cutter = Cutter::new(Excerpt { start_ms: 1_500, duration_ms: Some(1_000) });
            let mut got = Vec::new();
            for samples in whole.chunks(piece) {
                let mut samples = samples.to_vec();
                cutter.cut(&mut samples);
                got.append(&mut samples);
            }
            assert_eq!(got, whole[24_000..40_000], "pieces of {piece}");
            assert!(cutter.is_over() && !cutter.is_before());
        }
        let mut cutter = Cutter::new(Excerpt { start_ms: u64::MAX, duration_ms: Some(u64::MAX) });
        cutter.cut(&mut whole.clone());
        assert!(cutter.is_before() && !cutter.is_over());
    }

    #[test]
    fn the_length_is_that_of_the_part_that_is_there() {
        let length_s = |start_ms, duration_ms| Excerpt { start_ms, duration_ms }.length_s(10.0);
        assert_eq!([length_s(0, None), length_s(4_000, None), length_s(4_000, Some(2_500))], [10.0, 6.0, 2.5]);
        assert_eq!([length_s(9_000, Some(2_000)), length_s(20_000, None)], [1.0, 0.0]);
    }
}
