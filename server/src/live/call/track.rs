//! The audio of a call: Opus at 48 kHz in both directions, in packets of 20 ms.

use std::time::{Duration, Instant};

use auricle_engine::audio::RateConversion;
use auricle_engine::converse::VOICE_RATE;
use ruopus::{Bandwidth, OpusDecoder, OpusEncoder};

use crate::live::socket::Playback;

/// The rate of the encoder and of the clock in packets, hertz.
const RATE: u32 = 48_000;
/// Samples of a packet of ours, and its length.
const PACKET: usize = 960;
const PACKET_TIME: Duration = Duration::from_millis(20);
/// Packets in a row that are concealed where they are lost. A longer gap is silence of the client's.
const MAX_LOST: u64 = 5;
/// Bits a second.
const BITRATE: u32 = 32_000;
/// Largest packet, bytes.
const MAX_PACKET: usize = 1_275;

/// Decodes what the client says.
pub struct Microphone {
    decoder: OpusDecoder,
    /// The time of the next packet, in samples at [`RATE`].
    expected: Option<u64>,
}

impl Default for Microphone {
    fn default() -> Self {
        Self { decoder: OpusDecoder::with_rate(VOICE_RATE, 1), expected: None }
    }
}

impl Microphone {
    /// The samples of a packet at `VOICE_RATE`, with those of packets that are lost before it. A broken packet has none.
    pub fn decode(&mut self, time: u64, packet: &[u8]) -> Vec<f32> {
        let mut samples = Vec::new();
        let lost = self.expected.map_or(0, |expected| time.saturating_sub(expected) / PACKET as u64);
        if lost <= MAX_LOST {
            (0..lost).for_each(|_| samples.extend(self.decoder.decode_lost(PACKET / 2)));
        }
        let decoded = self.decoder.decode_packet(packet).unwrap_or_default();
        self.expected = Some(time + decoded.len() as u64 * u64::from(RATE / VOICE_RATE));
        samples.extend(decoded);
        samples
    }
}

/// A packet to the client.
pub struct Packet {
    /// In samples at [`RATE`].
    pub time: u64,
    pub bytes: Vec<u8>,
    /// True for the first one after a pause.
    pub begins: bool,
}

/// Encodes what the client is to play, at the pace of playing.
pub struct Speaker {
    encoder: OpusEncoder,
    conversion: Option<RateConversion>,
    /// Samples at [`RATE`].
    waiting: Vec<f32>,
    began: Instant,
    /// The time at which the next packet is due; none while there is silence.
    due: Option<Instant>,
    is_first: bool,
}

impl Speaker {
    pub fn new(now: Instant) -> Self {
        let mut encoder = OpusEncoder::new(1);
        encoder.set_bandwidth(Bandwidth::FullBand);
        encoder.set_bitrate(Some(BITRATE));
        Self { encoder, conversion: None, waiting: Vec::new(), began: now, due: None, is_first: true }
    }

    /// # Errors
    /// If the filter of the rate fails.
    pub fn take(&mut self, playback: Playback, now: Instant) -> auricle_engine::Result<()> {
        match playback {
            Playback::Samples(samples) => {
                let conversion = match &mut self.conversion {
                    Some(conversion) => conversion,
                    none => none.insert(RateConversion::new(VOICE_RATE, RATE)?),
                };
                self.waiting.extend(conversion.push(&samples)?);
                if self.due.is_none() {
                    // The first samples come in a burst.
                    (self.due, self.is_first) = (Some(now + PACKET_TIME), true);
                }
            }
            Playback::Cleared => {
                self.conversion = None;
                self.waiting.clear();
                self.due = None;
            }
        }
        Ok(())
    }

    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The packet that is due. None at the end of the audio.
    ///
    /// # Errors
    /// As [`Speaker::take`].
    pub fn packet(&mut self) -> auricle_engine::Result<Option<Packet>> {
        let Some(due) = self.due else { return Ok(None) };
        if self.waiting.len() < PACKET
            && let Some(conversion) = self.conversion.take()
        {
            self.waiting.extend(conversion.finish()?);
        }
        if self.waiting.is_empty() {
            self.due = None;
            return Ok(None);
        }
        let mut samples: Vec<f32> = self.waiting.drain(..PACKET.min(self.waiting.len())).collect();
        samples.resize(PACKET, 0.0);
        let time = (due - self.began).as_micros() as u64 * u64::from(RATE / 1_000) / 1_000;
        self.due = Some(due + PACKET_TIME);
        let begins = std::mem::take(&mut self.is_first);
        match self.encoder.encode_auto(&samples, MAX_PACKET) {
            Ok(bytes) => Ok(Some(Packet { time, bytes, begins })),
            Err(error) => {
                tracing::warn!(?error, "audio of a call could not be encoded");
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(rate: u32, length: usize) -> Vec<f32> {
        (0..length).map(|at| (at as f32 * 440.0 * std::f32::consts::TAU / rate as f32).sin() * 0.5).collect()
    }

    fn power(samples: &[f32]) -> f32 {
        samples.iter().map(|sample| sample * sample).sum::<f32>() / samples.len() as f32
    }

    /// All packets that are due, each with its time.
    fn packets(speaker: &mut Speaker) -> Vec<Packet> {
        std::iter::from_fn(|| speaker.packet().unwrap()).collect()
    }

    #[test]
    fn what_is_played_comes_back_through_the_microphone() {
        let now = Instant::now();
        let (mut speaker, mut microphone) = (Speaker::new(now), Microphone::default());
        for piece in tone(VOICE_RATE, 24_000).chunks(1_920) {
            speaker.take(Playback::Samples(piece.to_vec()), now).unwrap();
        }
        assert_eq!(speaker.due(), Some(now + PACKET_TIME));
        let packets = packets(&mut speaker);
        assert!((50..=51).contains(&packets.len()), "{}", packets.len());
        assert!(packets[0].begins && packets[1..].iter().all(|packet| !packet.begins));
        assert!(packets.windows(2).all(|pair| pair[1].time == pair[0].time + PACKET as u64));
        let samples: Vec<f32> =
            packets.iter().flat_map(|packet| microphone.decode(packet.time, &packet.bytes)).collect();
        assert_eq!(samples.len(), packets.len() * PACKET / 2);
        assert!((power(&samples[2_400..20_000]) / power(&tone(VOICE_RATE, 17_600)) - 1.0).abs() < 0.2);
        assert_eq!(speaker.due(), None, "the end");
        // After a pause the clock has gone on.
        let later = now + Duration::from_secs(3);
        speaker.take(Playback::Samples(tone(VOICE_RATE, 1_920)), later).unwrap();
        let packet = speaker.packet().unwrap().unwrap();
        assert_eq!((packet.time, packet.begins), (3 * 48_000 + PACKET as u64, true));
    }

    #[test]
    fn cleared_audio_is_not_played() {
        let now = Instant::now();
        let mut speaker = Speaker::new(now);
        speaker.take(Playback::Samples(tone(VOICE_RATE, 9_600)), now).unwrap();
        assert!(speaker.packet().unwrap().is_some());
        speaker.take(Playback::Cleared, now).unwrap();
        assert!(speaker.packet().unwrap().is_none() && speaker.due().is_none());
    }

    #[test]
    fn lost_packets_are_concealed_and_broken_ones_are_dropped() {
        let now = Instant::now();
        let (mut speaker, mut microphone) = (Speaker::new(now), Microphone::default());
        speaker.take(Playback::Samples(tone(VOICE_RATE, 9_600)), now).unwrap();
        let packets = packets(&mut speaker);
        let mut lengths = |at: usize, bytes: &[u8]| microphone.decode(packets[at].time, bytes).len();
        assert_eq!(lengths(0, &packets[0].bytes), 480);
        assert_eq!(lengths(3, &packets[3].bytes), 3 * 480, "two were lost");
        assert_eq!(lengths(4, &[0xff; 5]), 0, "no packet");
        assert_eq!(microphone.decode(480_000, &packets[5].bytes).len(), 480, "the client was silent");
        assert_eq!(microphone.decode(0, &packets[6].bytes).len(), 480, "its clock went back");
    }
}
