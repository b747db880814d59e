//! A folder that speaks: network, audio tokenizer, tokenizer and voices.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool;
use burn::tensor::Device;

use super::codec::{Codec, CodecState};
use super::codec_config::CodecConfig;
use super::config::Config;
use super::draw::SequenceOptions;
use super::gpu::{self, GpuNetwork, Spoken};
use super::network::{Latent, Network, Prefix, Sequence};
use super::text::{PreparedText, TextReader};
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::weights::read_only_tensor;

/// Frames of a voice at most.
const LONGEST_VOICE: usize = 4096;

/// A model with its voices.
#[derive(Debug)]
pub struct PocketTts {
    parts: Parts,
    reader: TextReader,
    voices: Vec<Voice>,
    voice_width: usize,
    device: Device,
    sample_rate: u32,
}

/// Network and audio decoder on a device.
#[derive(Debug)]
enum Parts {
    Cpu { network: Box<Network>, codec: Box<Codec> },
    Gpu(Box<GpuNetwork>),
}

/// A voice with what its utterances share.
#[derive(Debug)]
pub struct Voice {
    /// Empty for one of a recording that is in no folder.
    id: String,
    /// Its number in the folder; all others have the one after the last.
    number: usize,
    /// `[frames, voice_width]`
    latents: Vec<f32>,
    /// Computed when the voice is first used, on the CPU and on a GPU.
    prefix: OnceLock<Prefix>,
    inputs: OnceLock<gpu::Voice>,
}

/// An utterance between its frames.
#[derive(Clone, Debug)]
pub struct Utterance(Speaking);

#[derive(Clone, Debug)]
enum Speaking {
    Cpu { sequence: Box<Sequence>, codec: CodecState },
    Gpu(Box<gpu::Utterance>),
}

/// A frame of speech.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The samples of a latent.
    pub samples: Vec<f32>,
    /// No frame follows.
    pub is_last: bool,
}

/// The ids of a folder's voices, which are the names of the files below `voices`, in alphabetical order.
///
/// # Errors
/// [`Error::Checkpoint`] when there is none.
pub fn voice_ids(dir: &Path) -> Result<Vec<String>> {
    let path = dir.join("voices");
    let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
    let files = std::fs::read_dir(&path).map_err(|e| bad(format!("cannot read: {e}")))?;
    let mut ids = Vec::new();
    for file in files {
        let file = file.map_err(|e| bad(format!("cannot read: {e}")))?.path();
        if file.extension().is_some_and(|extension| extension == "safetensors") {
            ids.extend(file.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    ids.sort();
    if ids.is_empty() {
        return Err(bad("there is no voice: a voice is a .safetensors file of its latents".into()));
    }
    Ok(ids)
}

/// The file of a folder's voice.
pub fn voice_path(dir: &Path, id: &str) -> PathBuf {
    dir.join("voices").join(format!("{id}.safetensors"))
}

impl Voice {
    /// Values of its frames.
    pub fn latents(&self) -> &[f32] {
        &self.latents
    }

    fn read(dir: &Path, number: usize, id: String, width: usize) -> Result<Self> {
        let path = voice_path(dir, &id);
        let (shape, latents) = read_only_tensor(&path)?;
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        // A batch of one is as good.
        let frames = match shape.as_slice() {
            [frames, values] | [1, frames, values] if *values == width => *frames,
            _ => return Err(bad(format!("its shape is {shape:?}, and a voice has frames of {width} values"))),
        };
        if frames * width != latents.len() {
            return Err(bad("its shape is not that of its values".into()));
        }
        Self::new(id, number, latents, width).map_err(bad)
    }

    fn new(id: String, number: usize, latents: Vec<f32>, width: usize) -> std::result::Result<Self, String> {
        let frames = latents.len() / width;
        if !(1..=LONGEST_VOICE).contains(&frames) || !latents.len().is_multiple_of(width) {
            return Err(format!("it has {frames} frames, and a voice from 1 to {LONGEST_VOICE} of {width} values"));
        }
        if latents.iter().any(|value| !value.is_finite()) {
            return Err("its values are no numbers".into());
        }
        Ok(Self { id, number, latents, prefix: OnceLock::new(), inputs: OnceLock::new() })
    }
}

impl PocketTts {
    /// Loads the network of a folder, the audio tokenizer in its `audio_tokenizer`, and the voices in its `voices`. The backbone has weights
    /// of the given precision. A network whose heads no kernel for GPUs takes computes on the CPU.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device, precision: Precision) -> Result<Self> {
        let codec_dir = dir.join("audio_tokenizer");
        let (config, codec) = (Config::read(dir)?, CodecConfig::read(&codec_dir)?);
        let (latent, rate) = (codec.latent, codec.sample_rate);
        if latent != config.latent {
            let reason = format!("it reads latents of {latent} values, the network makes {}", config.latent);
            return Err(Error::Checkpoint { path: codec_dir, reason });
        }
        if (f64::from(rate) / codec.samples() as f64 - config.frame_rate).abs() > 1e-3 {
            let reason = format!("its latents have {} samples at {rate} Hz, which is not frame_rate", codec.samples());
            return Err(Error::Checkpoint { path: codec_dir, reason });
        }
        let reader = TextReader::read(dir, config.placeholders.clone(), config.vocabulary)?;
        let width = config.voice_width;
        let ids = voice_ids(dir)?.into_iter().enumerate();
        let voices = ids.map(|(number, id)| Voice::read(dir, number, id, width)).collect::<Result<_>>()?;
        let (parts, device) = if !is_cpu(device) && GpuNetwork::fits(&config, &codec) {
            (Parts::Gpu(Box::new(GpuNetwork::load(dir, device, precision)?)), device.clone())
        } else {
            let (network, codec) = (Box::new(Network::load(dir, precision)?), Box::new(Codec::load(&codec_dir)?));
            (Parts::Cpu { network, codec }, Device::flex())
        };
        Ok(Self { parts, reader, voices, voice_width: width, device, sample_rate: rate })
    }

    /// The device that computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of values in the tensors of network and audio tokenizer.
    pub fn parameters(&self) -> usize {
        match &self.parts {
            Parts::Cpu { network, codec } => network.parameters() + codec.parameters(),
            Parts::Gpu(network) => network.parameters(),
        }
    }

    /// The ids of the voices, in the order of their numbers.
    pub fn voices(&self) -> impl Iterator<Item = &str> {
        self.voices.iter().map(|voice| voice.id.as_str())
    }

    /// Of the samples, hertz.
    pub fn sample_rate(&self) -> u32 {
        self.sample_rate
    }

    /// The tokens of a text; none where nothing of it is text.
    ///
    /// # Errors
    /// [`Error::Internal`] when the tokenizer fails.
    pub fn tokens(&self, text: &str) -> Result<Option<PreparedText>> {
        self.reader.tokens(text)
    }

    /// Begins an utterance of a voice, by its number.
    ///
    /// # Errors
    /// As [`GpuNetwork::start`]; [`Error::Internal`] for a voice that is not there.
    pub fn start(&self, voice: usize, tokens: &[u32], options: SequenceOptions) -> Result<Utterance> {
        let voice = self.voices.get(voice);
        self.start_as(
            voice.ok_or_else(|| Error::internal("an utterance of a voice that is not there"))?,
            tokens,
            options,
        )
    }

    /// The number of the folder's voice with these latents, if it has one.
    pub fn number_of(&self, latents: &[f32]) -> Option<usize> {
        self.voices.iter().position(|voice| voice.latents == latents)
    }

    /// A voice beside those of the folder, `[frames, voice_width]`.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for latents that are none of this model's.
    pub fn recorded_voice(&self, latents: Vec<f32>) -> Result<Voice> {
        let voice = Voice::new(String::new(), self.voices.len(), latents, self.voice_width);
        voice.map_err(|reason| Error::InvalidOption(format!("the voice cannot be used: {reason}")))
    }

    /// Begins an utterance of a voice of this model.
    ///
    /// # Errors
    /// As [`GpuNetwork::start`].
    pub fn start_as(&self, voice: &Voice, tokens: &[u32], options: SequenceOptions) -> Result<Utterance> {
        Ok(Utterance(match &self.parts {
            Parts::Cpu { network, codec } => {
                let prefix = voice.prefix.get_or_init(|| network.prefix(&voice.latents));
                let sequence = Box::new(network.start(prefix, tokens, options)?);
                Speaking::Cpu { sequence, codec: codec.start() }
            }
            Parts::Gpu(network) => {
                let inputs = voice.inputs.get_or_init(|| network.voice(voice.number, &voice.latents));
                Speaking::Gpu(Box::new(network.start(inputs, tokens, options)?))
            }
        }))
    }

    /// Computes the next frame of each utterance; none depends on the others.
    ///
    /// # Errors
    /// As [`GpuNetwork::step`]; [`Error::Internal`] for an utterance of another device.
    pub fn step(&self, utterances: &mut [&mut Utterance]) -> Result<Vec<Frame>> {
        let other_device = || Error::internal("an utterance of another device");
        match &self.parts {
            Parts::Cpu { network, codec } => {
                let speaking = utterances.iter_mut().map(|utterance| match &mut utterance.0 {
                    Speaking::Cpu { sequence, codec } => Some((sequence.as_mut(), codec)),
                    Speaking::Gpu(_) => None,
                });
                let speaking: Option<Vec<_>> = speaking.collect();
                let (mut sequences, mut states): (Vec<_>, Vec<_>) =
                    speaking.ok_or_else(other_device)?.into_iter().unzip();
                step_on_cpu(network, codec, &mut sequences, &mut states)
            }
            Parts::Gpu(network) => {
                let speaking = utterances.iter_mut().map(|utterance| match &mut utterance.0 {
                    Speaking::Gpu(utterance) => Some(utterance.as_mut()),
                    Speaking::Cpu { .. } => None,
                });
                let speaking: Option<Vec<_>> = speaking.collect();
                let spoken = network.step(&mut speaking.ok_or_else(other_device)?)?;
                Ok(spoken.into_iter().map(|Spoken { samples, is_last, .. }| Frame { samples, is_last }).collect())
            }
        }
    }
}

fn step_on_cpu(
    network: &Network,
    codec: &Codec,
    sequences: &mut [&mut Sequence],
    states: &mut [&mut CodecState],
) -> Result<Vec<Frame>> {
    thread_pool::run(|pool| {
        let latents = network.step(pool, sequences)?;
        let values: Vec<&[f32]> = latents.iter().map(|latent| latent.values.as_slice()).collect();
        let samples = codec.forward(pool, &values, states);
        if samples.iter().flatten().any(|sample| !sample.is_finite()) {
            return Err(network.no_numbers());
        }
        let frame = |(samples, Latent { is_last, .. })| Frame { samples, is_last };
        Ok(samples.into_iter().zip(latents).map(frame).collect())
    })
}
