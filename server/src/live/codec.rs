//! Audio of a client, in base64 or as bytes: 16-bit PCM, mu-law and A-law (ITU-T G.711).

use auricle_engine::audio::RateConversion;
use auricle_engine::converse::VOICE_RATE;
use data_encoding::BASE64;

pub use crate::sound_format::Encoding;

/// The form of audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioFormat {
    pub encoding: Encoding,
    /// In hertz.
    pub rate: u32,
}

impl Default for AudioFormat {
    fn default() -> Self {
        Self { encoding: Encoding::Pcm, rate: VOICE_RATE }
    }
}

/// Decodes what the client sends.
pub struct Decoder {
    encoding: Encoding,
    /// The first byte of a sample that a frame has split.
    odd: Option<u8>,
}

impl Decoder {
    pub fn new(format: AudioFormat) -> Self {
        Self { encoding: format.encoding, odd: None }
    }

    /// The samples of a frame, -1 to 1; none if it is not base64.
    pub fn decode(&mut self, base64: &str) -> Option<Vec<f32>> {
        Some(self.samples(&BASE64.decode(base64.as_bytes()).ok()?))
    }

    /// The samples of bytes, -1 to 1.
    pub fn samples(&mut self, bytes: &[u8]) -> Vec<f32> {
        let scale = |sample: i16| f32::from(sample) / 32_768.0;
        match self.encoding {
            Encoding::Mulaw => bytes.iter().map(|byte| scale(from_mulaw(*byte))).collect(),
            Encoding::Alaw => bytes.iter().map(|byte| scale(from_alaw(*byte))).collect(),
            Encoding::Pcm => {
                let joined: Vec<u8> = self.odd.take().into_iter().chain(bytes.iter().copied()).collect();
                let (pairs, odd) = joined.as_chunks::<2>();
                self.odd = odd.first().copied();
                pairs.iter().map(|pair| scale(i16::from_le_bytes(*pair))).collect()
            }
        }
    }
}

/// Encodes a reply for the client.
pub struct Encoder {
    encoding: Encoding,
    conversion: RateConversion,
}

impl Encoder {
    /// # Errors
    /// If there is no filter for the rate.
    pub fn new(format: AudioFormat) -> auricle_engine::Result<Self> {
        Ok(Self { encoding: format.encoding, conversion: RateConversion::new(VOICE_RATE, format.rate)? })
    }

    /// More of the reply; empty while the filter waits for more.
    ///
    /// # Errors
    /// If the filter fails.
    pub fn encode(&mut self, samples: &[f32]) -> auricle_engine::Result<Vec<u8>> {
        Ok(write(self.encoding, &self.conversion.push(samples)?))
    }

    /// The rest of the reply.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn finish(self) -> auricle_engine::Result<Vec<u8>> {
        let Self { encoding, conversion } = self;
        Ok(write(encoding, &conversion.finish()?))
    }
}

fn write(encoding: Encoding, samples: &[f32]) -> Vec<u8> {
    let samples = samples.iter().map(|sample| (sample * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i16);
    match encoding {
        Encoding::Pcm => samples.flat_map(i16::to_le_bytes).collect(),
        Encoding::Mulaw => samples.map(to_mulaw).collect(),
        Encoding::Alaw => samples.map(to_alaw).collect(),
    }
}

/// Added to a magnitude before its segment is found, of 14-bit samples in steps of 4.
const MULAW_BIAS: i32 = 0x84;

fn to_mulaw(sample: i16) -> u8 {
    let sign = if sample < 0 { 0x80 } else { 0 };
    let magnitude = (i32::from(sample).abs() + MULAW_BIAS).min(0x7fff);
    let segment = (magnitude >> 7).max(1).ilog2();
    let step = (magnitude >> (segment + 3)) & 0x0f;
    !(sign | (segment << 4) as u8 | step as u8)
}

fn from_mulaw(byte: u8) -> i16 {
    let byte = !byte;
    let (segment, step) = (u32::from(byte >> 4) & 7, i32::from(byte & 0x0f));
    let magnitude = (((step << 3) + MULAW_BIAS) << segment) - MULAW_BIAS;
    (if byte & 0x80 == 0 { magnitude } else { -magnitude }) as i16
}

fn to_alaw(sample: i16) -> u8 {
    let sign = if sample < 0 { 0 } else { 0x80 };
    // A negative value is counted from -1 on.
    let magnitude = i32::from(if sample < 0 { !sample } else { sample }) >> 3;
    let coded = if magnitude < 0x20 {
        magnitude >> 1
    } else {
        let segment = magnitude.ilog2() - 4;
        ((segment as i32) << 4) | ((magnitude >> segment) & 0x0f)
    };
    (sign | coded as u8) ^ 0x55
}

fn from_alaw(byte: u8) -> i16 {
    let byte = byte ^ 0x55;
    let (segment, step) = (u32::from(byte >> 4) & 7, i32::from(byte & 0x0f));
    let magnitude = match segment {
        0 => (step << 4) + 8,
        segment => ((step << 4) + 0x108) << (segment - 1),
    };
    (if byte & 0x80 == 0 { -magnitude } else { magnitude }) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the tables of ITU-T G.711, as 16-bit samples.
    #[test]
    fn companded_values_are_those_of_the_standard() {
        for (byte, sample) in [(0x00, -32_124), (0x80, 32_124), (0xff, 0), (0x7f, 0), (0x8f, 16_764), (0xf0, 120)] {
            assert_eq!(from_mulaw(byte), sample, "{byte:#x}");
        }
        for (byte, sample) in [(0x55, -8), (0xd5, 8), (0x2a, -32_256), (0xaa, 32_256), (0xd4, 24)] {
            assert_eq!(from_alaw(byte), sample, "{byte:#x}");
        }
    }

    #[test]
    fn every_code_comes_back() {
        for byte in 0..=255_u8 {
            // Mu-law has two zeros.
            if byte != 0x7f {
                assert_eq!(to_mulaw(from_mulaw(byte)), byte, "{byte:#x}");
            }
            assert_eq!(to_alaw(from_alaw(byte)), byte, "{byte:#x}");
        }
        for sample in (i16::MIN..=i16::MAX).step_by(7) {
            let least = i32::from(sample).abs() / 16 + 16;
            for back in [from_mulaw(to_mulaw(sample)), from_alaw(to_alaw(sample))] {
                assert!((i32::from(back) - i32::from(sample)).abs() <= least + 640, "{sample} {back}");
            }
        }
    }

    #[test]
    fn a_sample_may_be_split_between_frames() {
        let mut decoder = Decoder::new(AudioFormat::default());
        assert_eq!(decoder.decode(&BASE64.encode(&[0, 0x40, 0])), Some(vec![0.5]));
        assert_eq!(decoder.decode(&BASE64.encode(&[0x40])), Some(vec![0.5]));
        assert_eq!(decoder.decode("no base64!"), None);
        assert_eq!(decoder.decode(""), Some(Vec::new()));
    }

    #[test]
    fn pcm_at_the_voice_rate_is_the_voice_itself() {
        let mut encoder = Encoder::new(AudioFormat::default()).unwrap();
        assert_eq!(encoder.encode(&[0.5, -1.0, 2.0]).unwrap(), [0, 0x40, 0, 0x80, 0xff, 0x7f]);
        assert!(encoder.finish().unwrap().is_empty());
    }
}
