//! Raw 16-bit PCM from a pipe.

use std::io::{ErrorKind, Read};

use super::mono::Mixer;
use crate::error::{Error, Result};

/// Bytes requested by one read. A pipe returns the bytes that it has, so live audio is not delayed until this is full.
const READ: usize = 32 * 1024;

/// Signed 16-bit little-endian samples, channels interleaved.
pub(super) struct PcmReader {
    reader: Box<dyn Read + Send>,
    rate: u32,
    channels: usize,
    buffer: Vec<u8>,
    /// Bytes of an incomplete frame at the start of `buffer`.
    carried: usize,
    samples: Vec<f32>,
    mixer: Mixer,
    cut: bool,
}

impl PcmReader {
    pub(super) fn new(reader: Box<dyn Read + Send>, rate: u32, channels: usize) -> Self {
        Self {
            reader,
            rate,
            channels,
            buffer: vec![0; READ],
            carried: 0,
            samples: Vec::new(),
            mixer: Mixer::default(),
            cut: false,
        }
    }

    /// Number of channels.
    pub(super) fn channels(&self) -> usize {
        self.channels
    }

    /// Appends mono samples and returns their rate in hertz, or `None` at the end.
    pub(super) fn next_chunk(&mut self, out: &mut Vec<f32>) -> Result<Option<u32>> {
        let frame = 2 * self.channels;
        loop {
            let read = match self.reader.read(&mut self.buffer[self.carried..]) {
                Ok(0) => {
                    self.cut = self.carried > 0;
                    return Ok(None);
                }
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Error::Read { path: "the PCM stream".into(), reason: error.to_string() });
                }
            };
            let filled = self.carried + read;
            let whole = filled - filled % frame;
            self.samples.clear();
            let pairs = self.buffer[..whole].as_chunks::<2>().0;
            self.samples.extend(pairs.iter().map(|pair| f32::from(i16::from_le_bytes(*pair)) / 32_768.0));
            self.buffer.copy_within(whole..filled, 0);
            self.carried = filled - whole;
            if whole > 0 {
                self.mixer.mix(&self.samples, self.channels, self.rate, out);
                return Ok(Some(self.rate));
            }
        }
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let warning = || "the PCM stream ended within a sample".to_owned();
        self.cut.then(warning).into_iter().chain(self.mixer.warning()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte a read, as a slow pipe may.
    struct Drip(std::vec::IntoIter<u8>);

    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let Some(byte) = self.0.next() else { return Ok(0) };
            buffer[0] = byte;
            Ok(1)
        }
    }

    #[test]
    fn frames_survive_any_division_into_reads() {
        let bytes: Vec<u8> = [16_384_i16, -16_384, 8_192, 8_192].iter().flat_map(|s| s.to_le_bytes()).collect();
        let mut pcm = PcmReader::new(Box::new(Drip(bytes.into_iter())), 8_000, 2);
        let mut out = Vec::new();
        while let Some(rate) = pcm.next_chunk(&mut out).unwrap() {
            assert_eq!(rate, 8_000);
        }
        assert_eq!(out, [0.0, 0.25]);
        assert!(pcm.warnings().is_empty());
    }

    #[test]
    fn half_a_sample_at_the_end_is_told() {
        let mut pcm = PcmReader::new(Box::new(&[0_u8, 64, 7][..]), 16_000, 1);
        let mut out = Vec::new();
        while pcm.next_chunk(&mut out).unwrap().is_some() {}
        assert_eq!(out, [0.5]);
        assert_eq!(pcm.warnings().len(), 1);
    }
}
