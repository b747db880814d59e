//! A loaded checkpoint: features, encoder, head and tokenizer.

use auricle_kernels::product::gemv::Precision;
use std::ops::Range;
use std::path::Path;

use auricle_kernels::thread_pool::{self, ThreadPool};
use burn::tensor::{Device, Tensor, TensorData};

use super::attention::{self, AttentionHead};
use super::config::{Class, Config};
use super::encoder::{Encoder, EncoderState};
use super::preprocessor::Preprocessor;
use super::transducer::{Frames, Prediction, Transducer};
use crate::decoding::keyterms::Keyterms;
use crate::decoding::{self, Beam, BeamState, GreedyState, Search, Token, TransducerRules};
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::language;
use crate::layers::{Bias, Linear};
use crate::models::calibration::Calibration;
use crate::models::emission_delay::{EmissionDelay, EmissionDelays};
use crate::text::tokens::Vocabulary;
use crate::weights::{Scope, Weights};

/// A FastConformer checkpoint on a device.
pub struct FastConformer {
    config: Config,
    encoder: Encoder,
    head: Head,
    preprocessor: Preprocessor,
    vocabulary: Vocabulary,
    emission_delays: EmissionDelays,
    calibration: Calibration,
    device: Device,
    parameters: usize,
    form: String,
}

enum Head {
    Ctc(Box<Linear>),
    Transducer(Box<TransducerHead>),
    Attention(Box<AttentionHead>),
}

struct TransducerHead {
    projector: Linear,
    transducer: Transducer,
    prompt: Option<Prompt>,
    rules: TransducerRules,
}

/// The language prompt of Nemotron 3.5: a table with one row for each language, and the layer that fuses it.
struct Prompt {
    /// `[hidden]` to `[intermediate]`, for the frame's columns of the concatenation.
    frame: Linear,
    /// `[slots, intermediate]`: the one-hot columns, as a table of biases.
    languages: Tensor<2>,
    output: Linear,
}

/// A batch of open streams. Its memory is fixed by the checkpoint, the look-ahead and the number of rows.
pub struct Stream {
    encoder: EncoderState,
    searching: SearchState,
    /// Slot of the language prompt.
    language: usize,
}

/// State of the search over a batch of streams.
#[derive(Clone)]
pub struct SearchState {
    transducer: GreedyState<Prediction>,
    /// Beam of each row, after its first step with beam search.
    beams: Vec<BeamState<Prediction>>,
}

/// Encoder output as input of a search.
#[derive(Clone)]
pub struct Encoded {
    /// `[rows, frames, _]`: CTC scores, or projected frames.
    input: Tensor<3>,
    /// Number of real frames in each row.
    lengths: Vec<usize>,
    /// Slot of the language prompt.
    language: usize,
}

impl Stream {
    /// Bytes of the encoder's state, which is nearly all of a stream.
    pub fn encoder_bytes(&self) -> usize {
        self.encoder.bytes()
    }

    /// For a stream of one row with beam search: the tokens of the best hypothesis beyond those returned. They may
    /// still change.
    pub fn open(&self) -> Vec<Token> {
        self.searching.beams.first().map(BeamState::open).unwrap_or_default()
    }

    /// Likewise ends the search: [`Self::open`] does not change any more, and knows that the text has ended.
    pub fn close(&mut self, beam: Beam) {
        self.searching.beams.iter_mut().for_each(|state| state.close(beam));
    }
}

impl Encoded {
    /// A copy of one row.
    pub fn row(&self, row: usize) -> Self {
        let (input, lengths) = (self.input.clone().narrow(0, row, 1), vec![self.lengths[row]]);
        Self { input, lengths, language: self.language }
    }
}

impl FastConformer {
    /// Loads a checkpoint folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device) -> Result<Self> {
        Self::load_with(dir, device, Precision::F32)
    }

    /// Loads a checkpoint folder. Products are of the given precision: 16 bits on a GPU, the encoder's 8 on a CPU that is faster with
    /// them.
    ///
    /// # Errors
    /// As [`FastConformer::load`].
    pub fn load_with(dir: &Path, device: &Device, precision: Precision) -> Result<Self> {
        let config = Config::read(dir)?;
        let preprocessor = Preprocessor::read(dir, &config, device)?;
        let vocabulary = Vocabulary::read(dir, config.blank)?;
        let emission_delays = EmissionDelays::read(dir)?;
        let calibration = Calibration::read(dir)?;
        let mut weights = Weights::open(dir, device)?;
        if config.class.has_attention() {
            weights = weights.renamed(attention::class_name)?;
        }
        let (parameters, form) = (weights.parameters(), weights.form());
        let encoder = Encoder::load(&weights.scope("encoder"), config.class, &config.encoder, precision)?;
        let head = match &config.attention {
            Some(decoder) => {
                Head::Attention(Box::new(AttentionHead::load(&weights, decoder, &config, &vocabulary, dir, precision)?))
            }
            None => Head::load(&weights, &config, precision)?,
        };
        weights.finish()?;
        let device = device.clone();
        Ok(Self {
            config,
            encoder,
            head,
            preprocessor,
            vocabulary,
            emission_delays,
            calibration,
            device,
            parameters,
            form,
        })
    }

    /// The checkpoint's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The log-mel front end that the checkpoint was trained with.
    pub fn preprocessor(&self) -> &Preprocessor {
        &self.preprocessor
    }

    /// The tokens of the checkpoint.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The device that holds the weights.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The form and types of the weights, such as `safetensors, F32`.
    pub fn form(&self) -> &str {
        &self.form
    }

    /// The prompt slot of a language, to write it or to translate it to English; 0 for checkpoints without one.
    ///
    /// # Errors
    /// [`Error::Language`] for a language that the checkpoint has no slot for, or if it needs one; [`Error::InvalidOption`] if it does
    /// not translate.
    pub fn language_slot(&self, language: Option<&str>, translate: bool) -> Result<usize> {
        if let Head::Attention(head) = &self.head {
            return head.prompts().slot(language, translate);
        }
        if translate {
            return Err(Error::InvalidOption(
                "translation is for Whisper and Canary checkpoints of many languages".into(),
            ));
        }
        let Some(prompt) = self.config().prompt else { return Ok(0) };
        let Some(language) = language else { return Ok(prompt.automatic) };
        let slot = language::find(language, &self.preprocessor().languages).copied();
        slot.ok_or_else(|| Error::Language(format!("the checkpoint has no language {language}")))
    }

    /// Look-ahead in encoder frames: the largest trained one within `wanted_ms`, else the largest trained one.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if no trained look-ahead is short enough, or the checkpoint does not stream.
    pub fn look_ahead(&self, wanted_ms: Option<u32>) -> Result<usize> {
        let preprocessor = self.preprocessor();
        let mut trained = preprocessor.look_aheads.clone();
        if trained.is_empty() {
            trained.push(self.config().encoder.default_num_lookahead_tokens);
        }
        trained.sort_unstable();
        // A frame waits for its chunk: look-ahead r needs (r + 1) frames of audio.
        let latency = |frames: usize| (frames + 1) as f64 * self.frame_ms();
        match wanted_ms {
            None => Ok(trained.last().copied().unwrap_or_default()),
            Some(_) if !self.config().class.is_streaming() => {
                Err(Error::InvalidOption("a look-ahead needs a streaming checkpoint".into()))
            }
            Some(ms) => trained.iter().rev().copied().find(|r| latency(*r) <= f64::from(ms)).ok_or_else(|| {
                Error::InvalidOption(format!("the checkpoint's shortest look-ahead is {} ms", latency(trained[0])))
            }),
        }
    }

    /// The map of the words' confidences.
    pub fn calibration(&self) -> Calibration {
        self.calibration
    }

    /// How late words are emitted at a look-ahead of so many frames.
    pub fn emission_delay(&self, look_ahead: usize) -> EmissionDelay {
        self.emission_delays.at(((look_ahead + 1) as f64 * self.frame_ms()).round() as u64)
    }

    /// Number of values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Milliseconds of audio in an encoder frame.
    pub fn frame_ms(&self) -> f64 {
        self.preprocessor.hop_ms() * self.config.encoder.subsampling_factor as f64
    }

    /// The encoder, for the numeric tests and benches.
    #[doc(hidden)]
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The transducer, for the numeric tests; none for CTC.
    #[doc(hidden)]
    pub fn transducer(&self) -> Option<&Transducer> {
        match &self.head {
            Head::Ctc(_) | Head::Attention(_) => None,
            Head::Transducer(head) => Some(&head.transducer),
        }
    }

    /// The decoder with attention to the audio, of the classes that have one.
    pub fn attention(&self) -> Option<&AttentionHead> {
        match &self.head {
            Head::Attention(head) => Some(head),
            Head::Ctc(_) | Head::Transducer(_) => None,
        }
    }

    /// Encoder frames as input of the head: CTC scores, or projected frames of a transducer.
    #[doc(hidden)]
    pub fn head_input(&self, frames: Tensor<3>, language: usize) -> Tensor<3> {
        match &self.head {
            Head::Ctc(head) => head.forward(frames),
            Head::Transducer(head) => {
                let frames = match &head.prompt {
                    Some(prompt) => prompt.forward(frames, language),
                    None => frames,
                };
                head.projector.forward(frames)
            }
            Head::Attention(head) => head.project(frames),
        }
    }

    /// Recognises whole utterances (Parakeet): `features` `[batch, frames, mels]`, of which `lengths` are real, to the
    /// tokens of each; in the first slot of the language prompt, where there is one.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a streaming checkpoint, or an utterance longer than the checkpoint's positions.
    pub fn recognise(&self, features: Tensor<3>, lengths: &[usize], search: Search) -> Result<Vec<Vec<Token>>> {
        self.search_utterances(&self.encode_utterances(features, lengths, 0)?, &vec![search; lengths.len()])
    }

    /// The encoder part of [`Self::recognise`]; `language` is a prompt slot (0 without a prompt).
    ///
    /// # Errors
    /// As [`Self::recognise`].
    pub fn encode_utterances(&self, features: Tensor<3>, lengths: &[usize], language: usize) -> Result<Encoded> {
        if self.config.class.is_streaming() {
            return Err(Error::InvalidOption("a streaming checkpoint takes its audio in chunks".into()));
        }
        let (frames, lengths) = self.encoder.forward(features, lengths)?;
        Ok(Encoded { input: self.head_input(frames, language), lengths, language })
    }

    /// The search part of [`Self::recognise`], with one of `searches` per row.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn search_utterances(&self, encoded: &Encoded, searches: &[Search]) -> Result<Vec<Vec<Token>>> {
        let Encoded { input, lengths, language } = encoded;
        let head = match &self.head {
            Head::Ctc(_) => return decoding::ctc(input.clone(), lengths, self.config.blank, searches),
            Head::Attention(head) => return head.search(input, lengths, *language, searches),
            Head::Transducer(head) => head,
        };
        let mut searching = self.start_search(head, lengths.len());
        let tokens = self.search(&mut searching, encoded, searches)?;
        let last = self.finish_search(searching, searches);
        Ok(tokens.into_iter().zip(last).map(|(tokens, last)| [tokens, last].concat()).collect())
    }

    /// Opens `rows` streams with a look-ahead in encoder frames; `language` is a prompt slot (0 without a prompt).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a checkpoint that is not cache-aware.
    pub fn stream(&self, rows: usize, look_ahead: usize, language: usize) -> Result<Stream> {
        let searching = self.searching(rows)?;
        Ok(Stream { encoder: self.encoder.start(rows, look_ahead, &self.device), searching, language })
    }

    /// Begins the encoder of a stream of one row again, without the context of earlier chunks. The search goes on.
    pub fn restart_encoder(&self, stream: &mut Stream, look_ahead: usize) {
        stream.encoder = self.encoder.start(1, look_ahead, &self.device);
    }

    /// The initial search state of `rows` streams.
    ///
    /// # Errors
    /// As [`Self::stream`].
    pub fn searching(&self, rows: usize) -> Result<SearchState> {
        match &self.head {
            Head::Transducer(head) if self.config.class.is_streaming() => Ok(self.start_search(head, rows)),
            _ => Err(Error::InvalidOption("this checkpoint transcribes whole utterances only".into())),
        }
    }

    fn start_search(&self, head: &TransducerHead, rows: usize) -> SearchState {
        SearchState { transducer: GreedyState::start(&head.transducer, &head.rules, rows), beams: Vec::new() }
    }

    /// Runs one step of every row: `features` `[rows, 8 n, mels]`, of which `valid` frames are real, to the new tokens
    /// of each row. [`Encoder::forward_chunk`] states the allowed chunks. All steps of a stream use one kind of search;
    /// a beam search delays uncertain tokens to later steps and [`Self::finish`].
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn step(
        &self,
        stream: &mut Stream,
        features: Tensor<3>,
        valid: &[Range<usize>],
        search: Search,
    ) -> Result<Vec<Vec<Token>>> {
        let encoded = self.encode(&mut [&mut *stream], features, valid)?;
        self.search(&mut stream.searching, &encoded, &vec![search; valid.len()])
    }

    /// The encoder part of [`Self::step`], for several streams of one row each with one look-ahead and language, or for
    /// one stream of any number of rows. A stream's frames do not depend on the other streams.
    ///
    /// # Errors
    /// As [`Encoder::forward_chunk`].
    pub fn encode(&self, streams: &mut [&mut Stream], features: Tensor<3>, valid: &[Range<usize>]) -> Result<Encoded> {
        let language = streams.first().map_or(0, |stream| stream.language);
        let mut states: Vec<&mut EncoderState> = streams.iter_mut().map(|stream| &mut stream.encoder).collect();
        let (frames, valid) = self.encoder.forward_chunk(features, valid, &mut states)?;
        let lengths = valid.iter().map(|valid| valid.end).collect();
        Ok(Encoded { input: self.head_input(frames, language), lengths, language })
    }

    /// Greedy search over the output of [`Self::encode`] for several streams of one row each, with one of `keyterms`
    /// per row.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn search_together(
        &self,
        streams: &mut [&mut Stream],
        encoded: &Encoded,
        keyterms: &[Option<&Keyterms>],
    ) -> Result<Vec<Vec<Token>>> {
        let searches: Vec<Search> = keyterms.iter().map(|keyterms| Search::Greedy(*keyterms)).collect();
        if let [stream] = streams {
            return self.search(&mut stream.searching, encoded, &searches);
        }
        let transducers: Vec<&GreedyState<Prediction>> =
            streams.iter().map(|stream| &stream.searching.transducer).collect();
        let mut searching = SearchState { transducer: GreedyState::join(&transducers), beams: Vec::new() };
        let tokens = self.search(&mut searching, encoded, &searches)?;
        for (row, stream) in streams.iter_mut().enumerate() {
            stream.searching.transducer = searching.transducer.row(row);
        }
        Ok(tokens)
    }

    /// Beam search over the output of [`Self::encode`] for several streams of one row each: returns the new tokens that
    /// are certain. On a CPU its threads share the streams. After an error each search is as it was.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn search_beams(
        &self,
        streams: &mut [&mut Stream],
        encoded: &Encoded,
        beams: &[Beam],
    ) -> Result<Vec<Vec<Token>>> {
        let Encoded { input, lengths, .. } = encoded;
        let (head, total) = (self.transducer_head()?, input.dims()[1]);
        let frames = head.transducer.frames(input.clone())?;
        let mut rows: Vec<_> = streams.iter().map(|stream| (stream.searching.clone(), Ok(Vec::new()))).collect();
        let search = |row: usize, (searching, tokens): &mut (SearchState, Result<Vec<Token>>)| {
            let frames = (&frames, row * total..row * total + lengths[row]);
            *tokens = head.search_beam(searching, 0, frames, beams[row]);
        };
        // A GPU has one queue, and for one stream waking threads costs more than it saves.
        if is_cpu(&self.device) && rows.len() > 1 {
            thread_pool::run(|pool| pool.for_each_item(&mut rows, search));
        } else {
            ThreadPool::SINGLE_THREADED.for_each_item(&mut rows, search);
        }
        let (searches, tokens): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let tokens = tokens.into_iter().collect::<Result<_>>()?;
        streams.iter_mut().zip(searches).for_each(|(stream, searching)| stream.searching = searching);
        Ok(tokens)
    }

    /// Continues a search over the next frames: the new tokens of each row. The searches of all rows are greedy, or all
    /// are beams.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn search(
        &self,
        searching: &mut SearchState,
        encoded: &Encoded,
        searches: &[Search],
    ) -> Result<Vec<Vec<Token>>> {
        let head = self.transducer_head()?;
        let (transducer, rules) = (&head.transducer, &head.rules);
        let Encoded { input, lengths, .. } = encoded;
        let total = input.dims()[1];
        let frames = transducer.frames(input.clone())?;
        let keyterms: Option<Vec<_>> = searches.iter().map(Search::as_greedy).collect();
        if let Some(keyterms) = keyterms {
            return searching.transducer.decode(transducer, rules, &frames, total, lengths, &keyterms);
        }
        let mut tokens = Vec::with_capacity(lengths.len());
        for (row, (&length, beam)) in lengths.iter().zip(searches.iter().map(Search::as_beam)).enumerate() {
            let frames = (&frames, row * total..row * total + length);
            tokens.push(head.search_beam(searching, row, frames, beam)?);
        }
        Ok(tokens)
    }

    fn transducer_head(&self) -> Result<&TransducerHead> {
        match &self.head {
            Head::Transducer(head) => Ok(head),
            Head::Ctc(_) | Head::Attention(_) => {
                Err(Error::InvalidOption(format!("{} has no streams", self.config.class.name())))
            }
        }
    }

    /// The last tokens of every row of a stream, which its steps delayed.
    pub fn finish(&self, stream: Stream, search: Search) -> Vec<Vec<Token>> {
        let rows = stream.searching.beams.len();
        self.finish_search(stream.searching, &vec![search; rows])
    }

    /// As [`Self::finish`].
    pub fn finish_search(&self, searching: SearchState, searches: &[Search]) -> Vec<Vec<Token>> {
        let mut beams = searching.beams.into_iter();
        let last = |search: &Search| {
            let mut state = beams.next()?;
            state.close(search.as_beam());
            Some(state.open())
        };
        searches.iter().map(last).map(Option::unwrap_or_default).collect()
    }

    /// Copies mel rows `[frames, mels]` to the device as a tensor `[1, frames, mels]`.
    pub fn features(&self, rows: Vec<f32>) -> Tensor<3> {
        let mels = self.config.encoder.num_mel_bins;
        let frames = rows.len() / mels;
        Tensor::from_data(TensorData::new(rows, [1, frames, mels]), &self.device)
    }
}

impl Head {
    fn load(weights: &Weights, config: &Config, precision: Precision) -> Result<Self> {
        let (size, hidden) = (config.encoder.hidden_size, config.decoder_hidden_size);
        if config.class == Class::ParakeetCtc {
            let head = Linear::load_pointwise(&weights.scope("ctc_head"), size, config.vocab_size, Bias::With)?;
            return Ok(Self::Ctc(Box::new(head.with_wide_precision(precision))));
        }
        Ok(Self::Transducer(Box::new(TransducerHead {
            projector: Linear::load(&weights.scope("encoder_projector"), size, hidden, Bias::With)?
                .with_wide_precision(precision),
            transducer: Transducer::load(&weights.scope("decoder"), &weights.scope("joint"), config, precision)?,
            prompt: match config.prompt {
                Some(_) => Some(Prompt::load(&weights.scope("prompt_projector"), config)?),
                None => None,
            },
            rules: TransducerRules {
                blank: config.blank,
                vocab_size: config.vocab_size,
                max_symbols: config.max_symbols_per_step,
                durations: config.durations.clone(),
            },
        })))
    }
}

impl TransducerHead {
    /// Continues the beam search of a row, which is at most the next one after those that have begun.
    fn search_beam(
        &self,
        searching: &mut SearchState,
        row: usize,
        frames: (&Frames, Range<usize>),
        beam: Beam,
    ) -> Result<Vec<Token>> {
        if row == searching.beams.len() {
            searching.beams.push(BeamState::start(&self.transducer, &self.rules, beam));
        }
        searching.beams[row].decode(&self.transducer, &self.rules, frames, beam)
    }
}

impl Prompt {
    fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let size = config.encoder.hidden_size;
        let (slots, inner) = config.prompt.map_or((0, 0), |p| (p.slots, p.intermediate_size));
        let first = scope.scope("linear_1");
        let weight = first.values("weight", &[inner, size + slots])?;
        let bias = first.values("bias", &[inner])?;
        // Split: the one-hot columns become a table, so that no frame carries 128 zeros.
        let columns = |from: usize, count: usize| -> Vec<f32> {
            (from..from + count)
                .flat_map(|c| (0..inner).map(move |r| (r, c)))
                .map(|(r, c)| weight[r * (size + slots) + c])
                .collect()
        };
        let mut languages = columns(size, slots);
        languages.chunks_mut(inner).for_each(|row| row.iter_mut().zip(&bias).for_each(|(l, b)| *l += b));
        Ok(Self {
            frame: Linear::from_values(columns(0, size), size, inner, None, scope.device()),
            languages: Tensor::from_data(TensorData::new(languages, [slots, inner]), scope.device()),
            output: Linear::load(&scope.scope("linear_2"), inner, size, Bias::With)?,
        })
    }

    /// Applies the prompt of `language` to `[batch, frames, hidden]`; the output has the same shape.
    fn forward(&self, frames: Tensor<3>, language: usize) -> Tensor<3> {
        let language = self.languages.clone().narrow(0, language, 1).unsqueeze_dim::<3>(0);
        self.output.forward(auricle_kernels::activation::relu(self.frame.forward(frames) + language))
    }
}
