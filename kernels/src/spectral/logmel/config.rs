//! The parameters of a log-mel front end.

use thiserror::Error;

/// The parameters of a log-mel front end, as in a checkpoint's `preprocessor_config.json`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogMelConfig {
    /// Samples a second; the mel bank spans 0 Hz to half of it.
    pub sample_rate: usize,
    /// Samples of a Fourier transform: at most 2048, even, and half of it a product of 2s and 5s (400, 512, 640, ...).
    pub n_fft: usize,
    /// Samples under the window, centred in `n_fft`; at most `n_fft`.
    pub win_length: usize,
    /// Samples from one frame to the next; at most `win_length`.
    pub hop: usize,
    /// Mel bands.
    pub mels: usize,
    /// `y[t] = x[t] - c * x[t - 1]`, with `y[0] = x[0]`.
    pub preemphasis: Option<f32>,
    /// The window's shape.
    pub window: Window,
    /// Padding before the first and after the last sample. Frames are centred, so each end needs `n_fft / 2` samples.
    pub padding: Padding,
    /// The logarithm and its guard.
    pub log: LogScale,
    /// Normalisation of the frames of a whole utterance, after the logarithm.
    pub normalization: Normalization,
    /// The precision to which the window and the mel bank are rounded; the arithmetic is always f32.
    pub tables: TablePrecision,
    /// Treatment of the last, half empty frame.
    pub tail: Tail,
}

/// The shape of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// Hann over `win_length` points of a period of `win_length` (Whisper).
    PeriodicHann,
    /// Hann over `win_length` points, both end points zero (Parakeet, Nemotron).
    SymmetricHann,
}

/// Padding beyond both ends of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Padding {
    /// Zeros (Parakeet, Nemotron).
    Zero,
    /// The row mirrored at the first and last sample of its whole width, not of its valid part (Whisper).
    Reflect,
}

/// The logarithm and its guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogScale {
    /// `ln(x + 2^-24)` (Parakeet, Nemotron).
    NaturalGuarded,
    /// `log10(max(x, 1e-10))` (Whisper).
    Log10Clamped,
}

/// Normalisation of the frames of a whole utterance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Normalization {
    /// None; the only choice for streams.
    None,
    /// Each mel band to mean 0 and deviation 1 over the valid frames, `(x - mean) / (std + 1e-5)` with the unbiased std
    /// (Parakeet). One valid frame alone gives 0.
    PerFeature,
    /// `(max(x, m - 8) + 4) / 4` with `m` the largest value of the row, padding included (Whisper).
    Whisper,
}

/// The precision that the window and the mel bank are rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TablePrecision {
    /// As computed.
    F32,
    /// Rounded to bfloat16 (`"mel_filters_dtype": "bfloat16"`, Nemotron 3.5).
    Bf16,
}

/// Treatment of the last frame, whose centre is at or beyond the last full hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tail {
    /// Kept in the output, all zero: `samples / hop + 1` frames, `length / hop` of them valid (Parakeet, Nemotron).
    Masked,
    /// Left out: `samples / hop` frames, `ceil(length / hop)` of them valid (Whisper).
    Dropped,
}

/// Errors of a log-mel front end.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum LogMelError {
    /// A parameter is out of its range.
    #[error("log-mel front end: {parameter} is {value}, but must be {wanted}")]
    Parameter {
        /// The field of [`LogMelConfig`].
        parameter: &'static str,
        /// Its value.
        value: usize,
        /// The values that it may have.
        wanted: &'static str,
    },
    /// `lengths` and the audio tensor do not fit each other.
    #[error("log-mel front end: row {row} is {length} samples long in a batch of {rows} rows of {samples} samples")]
    Lengths {
        /// The row with the wrong length, or the number of rows when the number of lengths is wrong.
        row: usize,
        /// Its length, or the number of lengths.
        length: usize,
        /// Rows of the audio tensor.
        rows: usize,
        /// Samples a row of the audio tensor.
        samples: usize,
    },
    /// The front end needs the whole utterance, so it cannot stream.
    #[error("log-mel front end: {0} needs the whole utterance, so it cannot stream")]
    NotStreamable(&'static str),
}

impl LogMelConfig {
    /// The front end of Parakeet (`ParakeetFeatureExtractor`), with 80 or 128 mels.
    #[must_use]
    pub fn parakeet(mels: usize) -> Self {
        Self { normalization: Normalization::PerFeature, ..Self::nemotron(mels) }
    }

    /// The front end of Nemotron streaming (`NemotronAsrStreamingFeatureExtractor`): Parakeet's without normalisation.
    #[must_use]
    pub fn nemotron(mels: usize) -> Self {
        Self {
            sample_rate: 16_000,
            n_fft: 512,
            win_length: 400,
            hop: 160,
            mels,
            preemphasis: Some(0.97),
            window: Window::SymmetricHann,
            padding: Padding::Zero,
            log: LogScale::NaturalGuarded,
            normalization: Normalization::None,
            tables: TablePrecision::F32,
            tail: Tail::Masked,
        }
    }

    /// The front end of Whisper (`WhisperFeatureExtractor`), with 80 or 128 mels. Rows must come padded to 30 s.
    #[must_use]
    pub fn whisper(mels: usize) -> Self {
        Self {
            sample_rate: 16_000,
            n_fft: 400,
            win_length: 400,
            hop: 160,
            mels,
            preemphasis: None,
            window: Window::PeriodicHann,
            padding: Padding::Reflect,
            log: LogScale::Log10Clamped,
            normalization: Normalization::Whisper,
            tables: TablePrecision::F32,
            tail: Tail::Dropped,
        }
    }

    /// Frames of a row of `samples` samples.
    #[must_use]
    pub fn frames(&self, samples: usize) -> usize {
        match self.tail {
            Tail::Masked => samples / self.hop + 1,
            Tail::Dropped => samples / self.hop,
        }
    }

    /// Valid frames of a row of `samples` samples of which the first `length` are valid.
    #[must_use]
    pub fn valid_frames(&self, length: usize, samples: usize) -> usize {
        match self.tail {
            Tail::Masked => length / self.hop,
            Tail::Dropped => length.div_ceil(self.hop).min(samples / self.hop),
        }
    }

    pub(crate) fn validate(&self) -> Result<(), LogMelError> {
        let check = |holds: bool, parameter, value, wanted| match holds {
            true => Ok(()),
            false => Err(LogMelError::Parameter { parameter, value, wanted }),
        };
        check(self.sample_rate >= 2, "sample_rate", self.sample_rate, "2 or more")?;
        check(self.mels >= 1, "mels", self.mels, "1 or more")?;
        check(
            (4..=2048).contains(&self.n_fft) && self.n_fft.is_multiple_of(2) && radices(self.n_fft / 2).is_some(),
            "n_fft",
            self.n_fft,
            "4 to 2048, even, and half of it a product of 2s and 5s",
        )?;
        check((2..=self.n_fft).contains(&self.win_length), "win_length", self.win_length, "2 to n_fft")?;
        check((1..=self.win_length).contains(&self.hop), "hop", self.hop, "1 to win_length")
    }

    /// Samples of the transform before the window begins.
    pub(crate) fn window_offset(&self) -> usize {
        (self.n_fft - self.win_length) / 2
    }

    /// Returns true if frames past the valid ones are not computed and stay 0.
    pub(crate) fn masks_frames(&self) -> bool {
        self.tail == Tail::Masked
    }
}

/// `size` as a product of the radices 5, 4 and 2 that the kernels have butterflies for.
pub(crate) fn radices(mut size: usize) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for radix in [5, 4, 2] {
        while size.is_multiple_of(radix) && size > 1 {
            found.push(radix);
            size /= radix;
        }
    }
    (size == 1).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_of_the_published_front_ends_have_butterflies() {
        assert_eq!(radices(256), Some(vec![4, 4, 4, 4]));
        assert_eq!(radices(200), Some(vec![5, 5, 4, 2]));
        assert_eq!(radices(12), None);
    }

    #[test]
    fn frame_counts_equal_those_of_the_extractors() {
        let nemotron = LogMelConfig::nemotron(80);
        assert_eq!([0, 159, 160, 480_000].map(|n| nemotron.frames(n)), [1, 1, 2, 3001]);
        assert_eq!([0, 159, 160, 480_000].map(|n| nemotron.valid_frames(n, n)), [0, 0, 1, 3000]);
        let whisper = LogMelConfig::whisper(80);
        assert_eq!(whisper.frames(480_000), 3000);
        assert_eq!([0, 1, 160, 161].map(|n| whisper.valid_frames(n, 480_000)), [0, 1, 1, 2]);
    }
}
