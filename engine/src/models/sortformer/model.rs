//! A loaded diarizer: frames of a step to the activity of each speaker.

use std::path::Path;

use auricle_kernels::spectral::logmel::{LogMel, LogMelConfig, LogMelStream};
use burn::tensor::{Device, Tensor, TensorData, activation};

use super::config::{Chunking, Config};
use super::encoder::Encoder;
use super::stream::{Scored, SpeakerStream};
use crate::device::read;
use crate::error::{Error, Result};
use crate::layers::{Bias, Convolution, Linear};
use crate::load_once::Loaded;
use crate::models::fastconformer::front_end;
use crate::weights::Weights;

/// Taps of the convolution that makes mel frames of encoder frames again.
const UPSAMPLING_TAPS: usize = 3;

/// A diarizer.
#[derive(Clone, Debug)]
pub struct Sortformer {
    config: Config,
    device: Device,
    mels: LogMel,
    embed: Linear,
    encoder: Encoder,
    project: Linear,
    upsample: Convolution,
    dense: Linear,
    classify: Linear,
    silence: Vec<f32>,
    parameters: usize,
}

impl Loaded for Sortformer {}

impl Sortformer {
    /// Loads a folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device) -> Result<Self> {
        let config = Config::read(dir)?;
        let mels = front_end(dir, LogMelConfig::nemotron(config.encoder.num_mel_bins))?;
        let bad = |reason: String| Error::Checkpoint { path: dir.join("config.json"), reason };
        let weights = Weights::open(dir, device)?;
        let parameters = weights.parameters();
        let (factor, size) = (config.encoder.subsampling_factor, config.encoder.hidden_size);
        let (width, speakers) = (config.head.hidden_size, config.head.num_speakers);
        let (body, head) = (weights.scope("model"), weights.scope("classifier"));
        let tower = body.scope("audio_tower");
        let group = factor * config.encoder.num_mel_bins;
        let model = Self {
            mels: LogMel::new(mels, device).map_err(|e| bad(e.to_string()))?,
            embed: Linear::load(&tower.scope("embedder.projection"), group, size, Bias::Without)?,
            encoder: Encoder::load(&tower, &config)?,
            project: Linear::load(&body.scope("proj"), size, width, Bias::With)?,
            upsample: Convolution::load(&body.scope("upsampler.conv"), width, factor * width, UPSAMPLING_TAPS)?,
            dense: Linear::load(&head.scope("dense"), width, width, Bias::With)?,
            classify: Linear::load(&head.scope("out_proj"), width, speakers, Bias::With)?,
            silence: weights.root().values("silence_embeds", &[size])?,
            device: device.clone(),
            config,
            parameters,
        };
        weights.finish()?;
        Ok(model)
    }

    /// The checkpoint's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Number of values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Speakers that it tells apart.
    pub fn speakers(&self) -> usize {
        self.config.head.num_speakers
    }

    /// The device that holds the weights.
    pub fn device(&self) -> Device {
        self.device.clone()
    }

    /// Milliseconds from one mel frame to the next.
    pub fn frame_ms(&self) -> f64 {
        let front_end = self.mels.config();
        front_end.hop as f64 * 1000.0 / front_end.sample_rate as f64
    }

    /// The front end for streamed audio.
    ///
    /// # Errors
    /// [`Error::Internal`] if the front end cannot be streamed.
    pub fn log_mels(&self) -> Result<LogMelStream> {
        LogMelStream::new(&self.mels).map_err(|e| Error::internal(e.to_string()))
    }

    /// Starts a recording or live stream.
    pub fn stream(&self, chunking: Chunking) -> SpeakerStream {
        SpeakerStream::new(&self.config, chunking, &self.silence)
    }

    /// Vectors of encoder frames, `[rows, frames, size]`, of their mel frames, `[rows, frames * factor, bands]`.
    pub fn embed(&self, mels: Tensor<3>) -> Tensor<3> {
        let [rows, frames, bands] = mels.dims();
        let factor = self.config.encoder.subsampling_factor;
        self.embed.forward(mels.reshape([rows, frames / factor, factor * bands]))
    }

    /// The encoder's output for frames `[rows, frames, size]`, which [`Sortformer::embed`] has made.
    pub fn encode(&self, frames: Tensor<3>) -> Tensor<3> {
        self.encoder.end(self.encoder.run(self.encoder.start(frames), 0..self.encoder.blocks()))
    }

    /// Logits of encoded frames: `[rows, frames * factor, speakers]`.
    pub fn classify(&self, encoded: Tensor<3>) -> Tensor<3> {
        let [rows, frames, _] = encoded.dims();
        let factor = self.config.encoder.subsampling_factor;
        let x = self.upsample.forward(self.project.forward(encoded));
        let x = x.reshape([rows, frames * factor, self.config.head.hidden_size]);
        self.classify.forward(activation::relu(self.dense.forward(activation::relu(x))))
    }

    /// Runs a step of streams whose parts have equal lengths, as [`Sortformer::start`] and [`StartedStep::finish`] do.
    ///
    /// # Errors
    /// As those.
    pub fn step(&self, rows: &[(Vec<f32>, &[f32])]) -> Result<Vec<Scored>> {
        match rows.is_empty() {
            true => Ok(Vec::new()),
            false => self.start(rows)?.finish(self),
        }
    }

    /// Starts a step of streams whose parts have equal lengths: the frames that each has kept, `[kept][size]`, and the mel frames that
    /// it hears, `[heard * factor][bands]`.
    ///
    /// # Errors
    /// [`Error::Internal`] for no streams, and for parts of several lengths.
    pub fn start(&self, rows: &[(Vec<f32>, &[f32])]) -> Result<StartedStep> {
        let (size, bands) = (self.config.encoder.hidden_size, self.config.encoder.num_mel_bins);
        let Some((kept, heard)) = rows.first().filter(|first| rows.iter().all(|row| lengths(row) == lengths(first)))
        else {
            return Err(Error::internal("a step of diarized streams with parts of several lengths"));
        };
        let tensor = |values: Vec<f32>, length: usize, width: usize| {
            let shape = [rows.len(), length / width, width];
            Tensor::<3>::from_data(TensorData::new(values, shape), &self.device)
        };
        let heard = tensor(rows.iter().flat_map(|row| row.1.iter().copied()).collect(), heard.len(), bands);
        let embedded = self.embed(heard);
        let frames = match kept.is_empty() {
            true => embedded.clone(),
            false => {
                let kept = tensor(rows.iter().flat_map(|row| row.0.iter().copied()).collect(), kept.len(), size);
                Tensor::cat(vec![kept, embedded.clone()], 1)
            }
        };
        Ok(StartedStep { x: self.encoder.start(frames), embedded, blocks: 0 })
    }
}

/// The lengths of a stream's parts.
fn lengths((kept, heard): &(Vec<f32>, &[f32])) -> [usize; 2] {
    [kept.len(), heard.len()]
}

/// A step that has gone through some blocks of the encoder.
#[derive(Clone, Debug)]
pub struct StartedStep {
    /// `[rows, frames, size]`
    x: Tensor<3>,
    /// `[rows, heard, size]`
    embedded: Tensor<3>,
    /// Blocks that are done.
    blocks: usize,
}

impl StartedStep {
    /// Goes through `blocks` more blocks of the encoder, or those that are left. Returns true if none is left then.
    pub fn go_on(&mut self, model: &Sortformer, blocks: usize) -> bool {
        let end = (self.blocks + blocks).min(model.encoder.blocks());
        self.x = model.encoder.run(self.x.clone(), self.blocks..end);
        self.blocks = end;
        end == model.encoder.blocks()
    }

    /// Goes through the blocks that are left: what the step says of each stream.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn finish(mut self, model: &Sortformer) -> Result<Vec<Scored>> {
        self.go_on(model, model.encoder.blocks());
        let rows = self.x.dims()[0];
        let logits = read(model.classify(model.encoder.end(self.x)))?;
        let embedded = read(self.embedded)?;
        let (of_row, of_logits) = (embedded.len() / rows, logits.len() / rows);
        let scored =
            |(embedded, logits): (&[f32], &[f32])| Scored { embedded: embedded.to_vec(), logits: logits.to_vec() };
        Ok(embedded.chunks_exact(of_row).zip(logits.chunks_exact(of_logits)).map(scored).collect())
    }
}
