//! Writes mono sound as an Ogg Opus file (RFC 7845), in constant memory.

use std::io::Write;

use ruopus::ogg::{OpusHead, OpusTags, PageWriter};
use ruopus::{Bandwidth, OpusEncoder};

use super::Resampler;
use crate::error::{Error, Result};

/// Sample rate of the encoder, hertz.
const RATE: u32 = 48_000;
/// Samples of a packet: 20 ms.
const FRAME: usize = 960;
/// Bits a second. Speech is hard to tell from the original.
const BITRATE: u32 = 32_000;
/// Samples by which the decoder is late at this bit rate.
const PRE_SKIP: u16 = 69;
/// Largest packet, bytes.
const MAX_PACKET: usize = 1275;
/// Number of the stream in its file; there is no other.
const SERIAL: u32 = 1;

/// A file that is being written.
pub(super) struct OpusFile<W> {
    out: W,
    encoder: OpusEncoder,
    pages: PageWriter,
    resampler: Resampler,
    /// Samples that are no whole packet yet.
    pending: Vec<f32>,
    /// Samples that came, and those that are in packets.
    taken: u64,
    packed: u64,
}

impl<W: Write> OpusFile<W> {
    /// Begins a file of sound at this sample rate.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn new(out: W, rate: u32) -> Result<Self> {
        let mut encoder = OpusEncoder::new(1);
        encoder.set_bandwidth(Bandwidth::FullBand);
        encoder.set_bitrate(Some(BITRATE));
        let mut file = Self {
            out,
            encoder,
            pages: PageWriter::new(SERIAL),
            resampler: Resampler::between(rate, RATE)?,
            pending: Vec::new(),
            taken: 0,
            packed: 0,
        };
        let head = OpusHead::family0(1, PRE_SKIP, rate).to_bytes();
        let tags = OpusTags { vendor: b"auricle".to_vec(), comments: Vec::new() }.to_bytes();
        for packet in [head, tags] {
            let mut page = Vec::new();
            file.pages.push(&mut page, &packet, 0, false);
            file.pages.flush(&mut page);
            file.write(&page)?;
        }
        Ok(file)
    }

    /// Adds samples.
    ///
    /// # Errors
    /// As [`OpusFile::new`].
    pub fn push(&mut self, samples: &[f32]) -> Result<()> {
        let before = self.pending.len();
        self.resampler.push(samples, &mut self.pending)?;
        self.taken += (self.pending.len() - before) as u64;
        self.pack(false)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// As [`OpusFile::new`].
    pub fn finish(mut self) -> Result<W> {
        let before = self.pending.len();
        self.resampler.finish(&mut self.pending)?;
        self.taken += (self.pending.len() - before) as u64;
        // The decoder is late: its last samples need a packet, too.
        let length = (self.pending.len() + usize::from(PRE_SKIP)).next_multiple_of(FRAME);
        self.pending.resize(length, 0.0);
        self.pack(true)?;
        self.out.flush().map_err(unwritten)?;
        Ok(self.out)
    }

    /// Writes whole packets, all but the last one until the end is known.
    fn pack(&mut self, is_end: bool) -> Result<()> {
        let mut page = Vec::new();
        let mut from = 0;
        while self.pending.len() - from > if is_end { 0 } else { FRAME } {
            let packet = self.encoder.encode_auto(&self.pending[from..from + FRAME], MAX_PACKET);
            let packet = packet.map_err(|error| Error::internal(format!("the sound cannot be encoded: {error:?}")))?;
            from += FRAME;
            let is_last = is_end && from == self.pending.len();
            self.packed += FRAME as u64;
            // The last position says where the sound ends within its packet.
            let position = if is_last { self.taken + u64::from(PRE_SKIP) } else { self.packed };
            self.pages.push(&mut page, &packet, position, is_last);
        }
        self.pending.drain(..from);
        self.write(&page)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(unwritten)
    }
}

fn unwritten(error: std::io::Error) -> Error {
    Error::Write(error.to_string())
}
