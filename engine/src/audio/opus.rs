//! Opus (RFC 6716) for symphonia, which demuxes it and has no decoder for it.

use std::sync::LazyLock;

use ruopus::MultistreamDecoder;
use symphonia::core::audio::{
    AsGenericAudioBufferRef, AudioBuffer, AudioMut, AudioSpec, Channels, GenericAudioBufferRef,
};
use symphonia::core::codecs::CodecInfo;
use symphonia::core::codecs::audio::well_known::CODEC_ID_OPUS;
use symphonia::core::codecs::audio::{AudioCodecParameters, AudioDecoder, AudioDecoderOptions, FinalizeResult};
use symphonia::core::codecs::registry::{CodecRegistry, RegisterableAudioDecoder, SupportedAudioCodec};
use symphonia::core::errors::{Result, decode_error, unsupported_error};
use symphonia::core::packet::PacketRef;

use super::MAX_CHANNELS;

/// All decoders: symphonia's, and Opus.
pub(super) static CODECS: LazyLock<CodecRegistry> = LazyLock::new(|| {
    let mut codecs = CodecRegistry::new();
    symphonia::default::register_enabled_codecs(&mut codecs);
    codecs.register_audio_decoder::<OpusDecoder>();
    codecs
});

/// Opus is decoded at 48 kHz, the rate in which its containers count pre-skip and end.
const RATE: u32 = 48_000;

/// The longest packet: 120 ms.
const MAX_FRAMES: usize = RATE as usize * 120 / 1_000;

struct OpusDecoder {
    params: AudioCodecParameters,
    trims: bool,
    decoder: MultistreamDecoder,
    layout: ChannelLayout,
    buffer: AudioBuffer<f32>,
}

/// The mapping of a packet's streams to channels: RFC 7845, section 5.1.1.
struct ChannelLayout {
    streams: usize,
    /// Number of stereo streams, which come first.
    coupled: usize,
    /// Index of the decoded channel for each output channel; 255 for silence.
    mapping: Vec<u8>,
}

impl ChannelLayout {
    /// Reads `OpusHead`; without it, derives the layout from the container's channel count.
    fn read(params: &AudioCodecParameters) -> Result<Self> {
        let head = params.extra_data.as_deref().filter(|head| head.len() >= 19 && head.starts_with(b"OpusHead"));
        let (channels, family) = match head {
            Some(head) => (usize::from(head[9]), head[18]),
            None => (params.channels.as_ref().map_or(2, Channels::count), 0),
        };
        let layout = match (family, head.and_then(|head| head.get(19..21 + channels))) {
            (0, _) if (1..=2).contains(&channels) => {
                Self { streams: 1, coupled: channels - 1, mapping: (0..channels as u8).collect() }
            }
            (1.., Some([streams, coupled, mapping @ ..])) => {
                Self { streams: usize::from(*streams), coupled: usize::from(*coupled), mapping: mapping.to_vec() }
            }
            _ => return unsupported_error("opus: channel mapping"),
        };
        if layout.is_sound() { Ok(layout) } else { decode_error("opus: invalid channel mapping") }
    }

    /// Checks the invariants that the decoder relies on.
    fn is_sound(&self) -> bool {
        let decoded = self.streams + self.coupled;
        (1..=MAX_CHANNELS).contains(&self.mapping.len())
            && self.streams >= 1
            && self.coupled <= self.streams
            && decoded <= 255
            && self.mapping.iter().all(|slot| *slot == 255 || usize::from(*slot) < decoded)
    }

    fn decoder(&self) -> MultistreamDecoder {
        MultistreamDecoder::with_rate(RATE, self.streams, self.coupled, &self.mapping)
    }
}

impl OpusDecoder {
    fn decode_inner(&mut self, packet: &PacketRef<'_>) -> Result<()> {
        self.buffer.clear();
        if packet.data.is_empty() {
            return decode_error("opus: empty packet");
        }
        let Ok(pcm) = self.decoder.decode_packet(packet.data) else {
            return decode_error("opus: invalid packet");
        };
        let channels = self.layout.mapping.len();
        let frames = pcm.len() / channels;
        if frames > MAX_FRAMES {
            return decode_error("opus: packet longer than 120 ms");
        }
        self.buffer.render_uninit(Some(frames));
        for channel in 0..channels {
            let Some(plane) = self.buffer.plane_mut(channel) else {
                return decode_error("opus: missing plane");
            };
            let samples = pcm.iter().skip(channel).step_by(channels);
            plane.iter_mut().zip(samples).for_each(|(to, from)| *to = *from);
        }
        if self.trims {
            self.buffer.trim(packet.trim_start.get() as usize, packet.trim_end.get() as usize);
        }
        Ok(())
    }
}

impl AudioDecoder for OpusDecoder {
    fn reset(&mut self) {
        self.decoder = self.layout.decoder();
    }

    fn codec_info(&self) -> &CodecInfo {
        &SUPPORTED[0].info
    }

    fn codec_params(&self) -> &AudioCodecParameters {
        &self.params
    }

    fn decode_ref(&mut self, packet: &PacketRef<'_>) -> Result<GenericAudioBufferRef<'_>> {
        if let Err(error) = self.decode_inner(packet) {
            self.buffer.clear();
            return Err(error);
        }
        Ok(self.buffer.as_generic_audio_buffer_ref())
    }

    fn finalize(&mut self) -> FinalizeResult {
        FinalizeResult::default()
    }

    fn last_decoded(&self) -> GenericAudioBufferRef<'_> {
        self.buffer.as_generic_audio_buffer_ref()
    }
}

const SUPPORTED: &[SupportedAudioCodec] = &[SupportedAudioCodec {
    id: CODEC_ID_OPUS,
    info: CodecInfo { short_name: "opus", long_name: "Opus", profiles: &[] },
}];

impl RegisterableAudioDecoder for OpusDecoder {
    fn try_registry_new(params: &AudioCodecParameters, options: &AudioDecoderOptions) -> Result<Box<dyn AudioDecoder>> {
        let layout = ChannelLayout::read(params)?;
        // Loudspeaker positions do not matter, because the channels are mixed.
        let spec = AudioSpec::new(RATE, Channels::Discrete(layout.mapping.len() as u16));
        Ok(Box::new(Self {
            params: params.clone(),
            trims: options.gapless,
            decoder: layout.decoder(),
            layout,
            buffer: AudioBuffer::new(spec, MAX_FRAMES),
        }))
    }

    fn supported_codecs() -> &'static [SupportedAudioCodec] {
        SUPPORTED
    }
}
