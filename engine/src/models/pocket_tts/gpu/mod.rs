//! The network and the audio decoder on GPUs: a frame of several utterances is one step of about a hundred launches, which is recorded when
//! its shape comes again. Latents stay on the device; samples and the logits of the end of speech are read together.
//!
//! A step writes what utterances keep to places of their own, so that one that fails has changed nothing that is seen again.

mod backbone;
mod codec;
mod flow;
mod latents;
mod streams;
mod transformer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use auricle_kernels::attention::paged::{PageTables, StepToken};
use auricle_kernels::cache::ring::{self, RowFrames, StepFrames};
use auricle_kernels::convolution::stream::StreamFrames;
use auricle_kernels::product::gemv::Precision;
use auricle_kernels::thread_pool;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use self::backbone::Backbone;
use self::codec::{Codec, Decoded};
use self::flow::FlowHead;
use self::latents::LatentScale;
use self::streams::{Layout, Memory, Place, Ring, Stack, StepOutput, Streams};
use super::codec_config::CodecConfig;
use super::config::Config;
use super::draw::{Draw, SequenceOptions};
use super::embeddings::Embeddings;
use super::names::in_transformers;
use crate::device::{has_f16, read, read_both};
use crate::error::{Error, Result};
use crate::layers::{StepInputs, pack_together, parts_of, upload};
use crate::models::decoder::{CardPages, PageArena};
use crate::weights::Weights;

/// Network and audio decoder.
#[derive(Debug)]
pub struct GpuNetwork {
    embeddings: Embeddings,
    backbone: Backbone,
    flow: FlowHead,
    codec: Codec,
    scale: LatentScale,
    /// The row of the latent before the first: `[1, 2 latent]`. The audio decoder begins with zeros.
    first: Tensor<2>,
    streams: Arc<Streams>,
    config: Config,
    codec_config: CodecConfig,
    /// Positions that one of the audio decoder sees.
    window: usize,
    device: Device,
    dir: PathBuf,
    parameters: usize,
}

/// A voice as the inputs that all its utterances begin with.
#[derive(Debug)]
pub struct Voice {
    /// Rows of `[size]`.
    inputs: Vec<f32>,
    /// Names of its positions, which no token has.
    ids: Vec<u32>,
}

/// An utterance between its frames.
#[derive(Clone, Debug)]
pub struct Utterance {
    place: Arc<Place>,
    draw: Draw,
    beginning: Arc<Beginning>,
    /// The beginning has been computed.
    begun: bool,
    frames: usize,
}

/// The inputs of an utterance before its first latent.
#[derive(Debug)]
struct Beginning {
    /// Rows of `[size]`, from the first position that no page knows.
    inputs: Vec<f32>,
    known: usize,
    positions: usize,
    /// Of the voice.
    ids: Vec<u32>,
}

/// A frame of an utterance.
#[derive(Clone, Debug, PartialEq)]
pub struct Spoken {
    /// The samples of a latent.
    pub samples: Vec<f32>,
    /// Logit of the end of speech.
    pub end_logit: f32,
    /// No frame follows.
    pub is_last: bool,
}

/// The integers of a step's rows on the device.
struct StepTables {
    backbone: PageTables,
    codec: PageTables,
    /// The steps that streams had before, and with this one.
    steps: [StepFrames; 2],
}

impl GpuNetwork {
    /// True if GPUs compute networks of these widths.
    pub fn fits(config: &Config, codec: &CodecConfig) -> bool {
        config.backbone.heads().fit() && codec.transformer.heads().fit()
    }

    /// Loads the network of a folder, and the audio tokenizer in its `audio_tokenizer`. The backbone has weights of the given precision; with
    /// [`Precision::F16`] keys and values have 16 bits too, where the device computes with them.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device, precision: Precision) -> Result<Self> {
        let (config, codec_dir) = (Config::read(dir)?, dir.join("audio_tokenizer"));
        let weights = in_transformers(Weights::open(dir, device)?)?;
        let model = weights.scope("model");
        let scale = LatentScale::load(&weights, &config)?;
        let mut first = model.values("bos_latent", &[config.latent])?;
        first.resize(2 * config.latent, 0.0);
        let (embeddings, backbone) =
            (Embeddings::load(&model, &config)?, Backbone::load(&weights, &config, precision)?);
        let flow = FlowHead::load(&weights, &config, &scale)?;
        let mut parameters = weights.parameters();
        weights.finish()?;
        let codec_config = CodecConfig::read(&codec_dir)?;
        let weights = Weights::open(&codec_dir, device)?;
        // Each position of the backbone may be a latent's.
        let codec = Codec::load(&weights, codec_config.clone(), config.positions)?;
        parameters += weights.parameters();
        weights.finish()?;
        let dtype = if precision == Precision::F16 && has_f16(device) { DType::F16 } else { DType::F32 };
        let window = codec_config.transformer.window.unwrap_or(config.positions * codec_config.stride);
        let layout = Layout {
            backbone: Stack { layers: config.backbone.layers, heads: config.backbone.heads(), dtype },
            codec: Stack {
                layers: codec_config.transformer.layers,
                heads: codec_config.transformer.heads(),
                dtype: DType::F32,
            },
            codec_pages: PageTables::ring(window, codec_config.stride),
            rings: [vec![Ring::new(1, 2, 2 * config.latent)], codec_config.rings()].concat(),
        };
        Ok(Self {
            embeddings,
            backbone,
            flow,
            codec,
            scale,
            first: Tensor::from_data(TensorData::new(first, [1, 2 * config.latent]), device),
            streams: Arc::new(Streams::new(layout, device)),
            config,
            codec_config,
            window,
            device: device.clone(),
            dir: dir.to_path_buf(),
            parameters,
        })
    }

    /// Number of values in the tensors of both checkpoints.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// A voice, `[frames, voice_width]`. Voices of other numbers or other values share no pages.
    pub fn voice(&self, number: usize, latents: &[f32]) -> Voice {
        let inputs = thread_pool::run(|pool| self.embeddings.of_voice(pool, latents));
        // A page is known by the names of its 32 positions: hashes of all values so far, with a bit that no token has.
        let hash = |hash: u64, value: u64| (hash ^ value).wrapping_mul(0x0100_0000_01b3);
        let mut name = hash(0xcbf2_9ce4_8422_2325, number as u64);
        let frames = inputs.chunks_exact(self.config.backbone.size);
        let ids = frames.map(|frame| {
            name = frame.iter().fold(name, |name, value| hash(name, u64::from(value.to_bits())));
            (1 << 31) | (name >> 33) as u32
        });
        let ids = ids.collect();
        Voice { inputs, ids }
    }

    /// Begins an utterance.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a text of more tokens than the network has positions for; [`Error::Busy`] when other utterances have all memory.
    pub fn start(&self, voice: &Voice, tokens: &[u32], options: SequenceOptions) -> Result<Utterance> {
        let draw = Draw::new(&self.config, voice.ids.len(), tokens.len(), options)?;
        let ids = [voice.ids.as_slice(), tokens].concat();
        let (place, known) = self.streams.open(&ids, ids.len() + draw.most_frames())?;
        let mut inputs = voice.inputs.clone();
        inputs.extend(self.embeddings.of_tokens(tokens));
        inputs.drain(..known * self.config.backbone.size);
        let beginning = Beginning { inputs, known, positions: ids.len(), ids: voice.ids.clone() };
        Ok(Utterance { place: Arc::new(place), draw, beginning: Arc::new(beginning), begun: false, frames: 0 })
    }

    /// Computes the next frame of each utterance; none depends on the others.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when the weights give no numbers; [`Error::Device`] when the device failed.
    pub fn step(&self, utterances: &mut [&mut Utterance]) -> Result<Vec<Spoken>> {
        let [samples, logits] = {
            let mut memory = self.streams.memory();
            self.streams.make_room(&mut memory);
            for utterance in utterances.iter_mut().filter(|utterance| !utterance.begun) {
                self.begin(&mut memory, utterance)?;
            }
            let noise: Vec<f32> = utterances.iter_mut().flat_map(|utterance| self.noise(&mut utterance.draw)).collect();
            read_both(self.frame(&mut memory, utterances, noise)?)?
        };
        if samples.iter().chain(&logits).any(|value| !value.is_finite()) {
            let reason = "the network's values are no numbers".into();
            return Err(Error::Checkpoint { path: self.dir.clone(), reason });
        }
        let samples = samples.chunks_exact(self.codec_config.samples());
        let spoken = utterances.iter_mut().zip(samples.zip(logits)).map(|(utterance, (samples, end_logit))| {
            utterance.frames += 1;
            let is_last = utterance.draw.is_last(end_logit, &self.config.sampling);
            Spoken { samples: samples.to_vec(), end_logit, is_last }
        });
        Ok(spoken.collect())
    }

    /// The row of an utterance's next noise.
    fn noise(&self, draw: &mut Draw) -> Vec<f32> {
        self.scale.row(&draw.noise.draw(self.config.latent))
    }

    /// Computes what is before an utterance's first latent: the hidden states of the positions that no page knew. May run twice.
    fn begin(&self, memory: &mut Memory, utterance: &mut Utterance) -> Result<Tensor<2>> {
        let Beginning { inputs, known, positions, ids } = utterance.beginning.as_ref();
        let tokens: Vec<_> = (*known..*positions).map(|position| StepToken { sequence: 0, position }).collect();
        let tables = PageTables::new(&tokens, &[&utterance.place.pages()], &self.device);
        let inputs = TensorData::new(inputs.clone(), [tokens.len(), self.config.backbone.size]);
        let hidden = self.backbone.forward(Tensor::from_data(inputs, &self.device), &tables, card(&mut memory.pages)?);
        utterance.place.publish(memory, ids);
        let row = RowFrames { slot: utterance.place.slot, written: 0, new: 0..1 };
        self.write_latents(memory, &StepFrames::new(vec![row], &self.device), self.first.clone());
        utterance.begun = true;
        Ok(hidden)
    }

    /// Writes rows of latents to their ring.
    fn write_latents(&self, memory: &mut Memory, steps: &StepFrames, rows: Tensor<2>) {
        let ring = &mut memory.rings[0];
        let shape = ring.dims();
        let [count, width] = rows.dims();
        let stored = ring::store(ring.clone().unsqueeze_dim(1), steps, rows.reshape([count, 1, 1, width]));
        *ring = stored.reshape(shape);
    }

    /// The samples and logits of the utterances' next frames.
    fn frame(&self, memory: &mut Memory, utterances: &[&mut Utterance], noise: Vec<f32>) -> Result<StepOutput> {
        let rows = utterances.len();
        let pages: Vec<Vec<usize>> = utterances.iter().map(|utterance| utterance.place.pages()).collect();
        let pages: Vec<&[usize]> = pages.iter().map(Vec::as_slice).collect();
        // Few shapes occur.
        let width = pages.iter().map(|pages| pages.len()).max().unwrap_or(0).next_power_of_two();
        let tokens = utterances.iter().enumerate().map(|(sequence, utterance)| StepToken {
            sequence,
            position: utterance.beginning.positions + utterance.frames,
        });
        let [tokens, numbers] = PageTables::pack(&tokens.collect::<Vec<_>>(), &pages, width);
        let streams: Vec<(usize, usize)> =
            utterances.iter().map(|utterance| (utterance.place.slot, utterance.frames)).collect();
        let [codec_tokens, codec_numbers] = self.codec_integers(&streams);
        let steps = [0, 1].map(|more| step_rows(&streams, more));
        let [now, next] = [&steps[0], &steps[1]].map(|rows| StepFrames::pack(rows));
        let (integers, places) = pack_together([tokens, numbers, codec_tokens, codec_numbers, now, next]);
        let latent = 2 * self.config.latent;
        let noise = Tensor::from_data(TensorData::new(noise, [rows, 1, 1, latent]), &self.device);
        let Memory { pages, codec_pages, rings, recordings, .. } = memory;
        let pages = card(pages)?;
        let inputs = StepInputs { integers, values: Some(noise) };
        // A step may run twice: it writes the same to the same places.
        recordings.run([rows, width], inputs, &self.device, <[i32]>::to_vec, |input, noise| {
            let [tokens, numbers, codec_tokens, codec_numbers, now, next] = parts_of(&input, &places);
            let [rows_now, rows_next] = steps.clone();
            let tables = StepTables {
                backbone: PageTables::with_packed([tokens, numbers], rows, width),
                codec: self.codec_tables([codec_tokens, codec_numbers], rows),
                steps: [StepFrames::with_packed(rows_now, now), StepFrames::with_packed(rows_next, next)],
            };
            let noise = noise.unwrap_or_else(|| Tensor::zeros([rows, 1, 1, latent], &self.device));
            self.compute([&mut *pages, &mut *codec_pages], rings, &tables, noise.reshape([rows, latent]))
        })
    }

    /// The launches of a step, over the pages of the backbone and of the audio decoder.
    fn compute(
        &self,
        [pages, codec_pages]: [&mut CardPages; 2],
        rings: &[Tensor<3>],
        tables: &StepTables,
        noise: Tensor<2>,
    ) -> StepOutput {
        let [now, next] = &tables.steps;
        let latents = StreamFrames::ring(rings[0].clone(), 1);
        let hidden = self.backbone.forward(self.backbone.embed(&latents, now), &tables.backbone, pages);
        let latents = self.flow.sample(&hidden, noise, [now, next], latents);
        let decoded = self.codec.forward(&latents, [now, next], &rings[1..], &tables.codec, codec_pages);
        [decoded.samples, self.backbone.end_logits(hidden)]
    }

    /// The positions of a step's latents in the audio decoder, and the pages of their slots.
    fn codec_integers(&self, streams: &[(usize, usize)]) -> [Vec<i32>; 2] {
        let stride = self.codec_config.stride;
        let positions = |(sequence, (_, frames)): (usize, &(usize, usize))| {
            (frames * stride..(frames + 1) * stride).map(move |position| StepToken { sequence, position })
        };
        let tokens: Vec<StepToken> = streams.iter().enumerate().flat_map(positions).collect();
        let pages: Vec<Vec<usize>> = streams.iter().map(|(slot, _)| self.streams.codec_pages(*slot)).collect();
        PageTables::pack_rings(&tokens, &pages.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// Tables of what [`GpuNetwork::codec_integers`] gives for so many streams.
    fn codec_tables(&self, packed: [Tensor<1, Int>; 2], rows: usize) -> PageTables {
        let tables = PageTables::with_packed(packed, rows * self.codec_config.stride, self.streams.codec_width());
        tables.with_window(self.window)
    }

    /// Hidden states of a voice and a text before the first latent, for the numeric tests.
    #[doc(hidden)]
    pub fn hidden(&self, voice: &Voice, tokens: &[u32]) -> Result<Vec<f32>> {
        let options = SequenceOptions { seed: 0, greedy: true, frames_after_end: 0 };
        let mut utterance = self.start(voice, tokens, options)?;
        let mut memory = self.streams.memory();
        self.streams.make_room(&mut memory);
        let hidden = self.begin(&mut memory, &mut utterance)?;
        let hidden = read(hidden);
        drop(memory);
        hidden
    }

    /// Latents of hidden states and noise before they are brought to the audio tokenizer's scale, for the numeric tests.
    #[doc(hidden)]
    pub fn sample(&self, hidden: &[f32], noise: &[f32]) -> Result<Vec<f32>> {
        let latent = self.config.latent;
        let rows = noise.len() / latent;
        let upload = |values: Vec<f32>| {
            let width = values.len() / rows;
            Tensor::<2>::from_data(TensorData::new(values, [rows, width]), &self.device)
        };
        let noise = upload(noise.chunks_exact(latent).flat_map(|noise| self.scale.row(noise)).collect());
        let streams: Vec<(usize, usize)> = (0..rows).map(|slot| (slot, 0)).collect();
        let steps = StepFrames::new(step_rows(&streams, 0), &self.device);
        let ring = StreamFrames::ring(Tensor::zeros([rows, 1, 2 * latent], &self.device), 1);
        let latents = self.flow.sample(&upload(hidden.to_vec()), noise, [&steps, &steps], ring);
        read(latents.into_values().narrow(2, 0, latent))
    }

    /// The samples of latents of one stream, `[count, latent]` at the audio tokenizer's scale, and the stage before the convolutions,
    /// for the numeric tests.
    #[doc(hidden)]
    pub fn decode(&self, latents: &[f32]) -> Result<[Vec<f32>; 2]> {
        let (place, _) = self.streams.open(&[], 0)?;
        let mut memory = self.streams.memory();
        self.streams.make_room(&mut memory);
        let mut found = [Vec::new(), Vec::new()];
        for (frame, latent) in latents.chunks_exact(self.config.latent).enumerate() {
            let streams = [(place.slot, frame)];
            let [now, next] = [0, 1].map(|more| StepFrames::new(step_rows(&streams, more), &self.device));
            let row = [latent, latent].concat();
            let row = Tensor::from_data(TensorData::new(row, [1, 2 * self.config.latent]), &self.device);
            if frame == 0 {
                self.write_latents(&mut memory, &now, row.zeros_like());
            }
            self.write_latents(&mut memory, &next, row);
            let tables = self.codec_tables(self.codec_integers(&streams).map(|part| upload(part, &self.device)), 1);
            let Memory { rings, codec_pages, .. } = &mut *memory;
            let ring = StreamFrames::ring(rings[0].clone(), 1);
            let Decoded { samples, transformed } =
                self.codec.forward(&ring, [&now, &next], &rings[1..], &tables, codec_pages);
            let parts = [read(samples)?, read(transformed)?];
            found.iter_mut().zip(parts).for_each(|(all, part)| all.extend(part));
        }
        // The place is given back when nobody has the memory.
        drop(memory);
        Ok(found)
    }

    /// Positions of an utterance that another one had computed, for the numeric tests.
    #[doc(hidden)]
    pub fn known(&self, utterance: &Utterance) -> usize {
        utterance.beginning.known
    }

    /// The last latent of an utterance at the audio tokenizer's scale, for the numeric tests.
    #[doc(hidden)]
    pub fn latent(&self, utterance: &Utterance) -> Result<Vec<f32>> {
        let memory = self.streams.memory();
        let of_slot = memory.rings[0].clone().narrow(0, utterance.place.slot, 1);
        read(of_slot.narrow(1, utterance.frames % 2, 1).narrow(2, self.config.latent, self.config.latent))
    }
}

fn card(pages: &mut PageArena) -> Result<&mut CardPages> {
    pages.card().ok_or_else(|| Error::internal("pages of the CPU for a network on a GPU"))
}

/// Rows of streams, by slot and steps so far, with `more` steps.
fn step_rows(streams: &[(usize, usize)], more: usize) -> Vec<RowFrames> {
    streams.iter().map(|(slot, frames)| RowFrames { slot: *slot, written: frames + more, new: 0..1 }).collect()
}
