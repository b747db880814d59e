//! A loaded checkpoint: features, encoder, head and tokenizer.

use std::ops::Range;
use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};

use super::beam::BeamState;
use super::config::{Class, Config};
use super::decode::{self, Rules, Search, Token, TransducerState};
use super::encoder::{Encoder, EncoderState};
use super::transducer::Transducer;
use crate::error::{Error, Result};
use crate::features::Preprocessor;
use crate::layers::{Bias, Linear};
use crate::text::tokens::Vocabulary;
use crate::weights::{Scope, Weights};

/// A FastConformer checkpoint on a device.
pub struct FastConformer {
    config: Config,
    encoder: Encoder,
    head: Head,
    preprocessor: Preprocessor,
    vocabulary: Vocabulary,
    device: Device,
    parameters: usize,
}

enum Head {
    Ctc(Box<Linear>),
    Transducer(Box<TransducerHead>),
}

struct TransducerHead {
    projector: Linear,
    transducer: Transducer,
    prompt: Option<Prompt>,
    rules: Rules,
}

/// The language prompt of Nemotron 3.5: one row of a table for each language, and the layer that fuses it.
struct Prompt {
    /// `[hidden]` to `[intermediate]`, for the frame's part of the concatenation.
    frame: Linear,
    /// `[slots, intermediate]`: the one-hot part, which is a table of biases.
    languages: Tensor<2>,
    output: Linear,
}

/// A batch of streams in flight. Its memory is fixed by the checkpoint, the look-ahead and the number of rows.
pub struct Stream {
    encoder: EncoderState,
    transducer: TransducerState,
    /// Of each row, once a step was searched with a beam.
    beams: Vec<BeamState>,
    /// Slot of the language prompt.
    language: usize,
}

impl FastConformer {
    /// Loads a checkpoint folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device) -> Result<Self> {
        let config = Config::read(dir)?;
        let preprocessor = Preprocessor::read(dir, &config, device)?;
        let vocabulary = Vocabulary::read(dir, config.blank)?;
        let weights = Weights::open(dir, device)?;
        let parameters = weights.parameters();
        let encoder = Encoder::load(&weights.scope("encoder"), config.class, &config.encoder)?;
        let head = Head::load(&weights, &config)?;
        weights.finish()?;
        Ok(Self { config, encoder, head, preprocessor, vocabulary, device: device.clone(), parameters })
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

    /// Number of values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Milliseconds of audio in an encoder frame.
    pub fn frame_ms(&self) -> f64 {
        self.preprocessor.hop_ms() * self.config.encoder.subsampling_factor as f64
    }

    /// The encoder; a stage that the numeric tests and benches look at.
    #[doc(hidden)]
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// The transducer, if this is one; for the numeric tests.
    #[doc(hidden)]
    pub fn transducer(&self) -> Option<&Transducer> {
        match &self.head {
            Head::Ctc(_) => None,
            Head::Transducer(head) => Some(&head.transducer),
        }
    }

    /// Encoder frames as the head takes them: CTC scores, or projected frames of a transducer.
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
        }
    }

    /// Whole utterances (Parakeet): `features` `[batch, frames, mels]`, of which `lengths` are real, to the tokens of
    /// each.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a streaming checkpoint, or an utterance longer than the checkpoint's positions.
    pub fn recognise(&self, features: Tensor<3>, lengths: &[usize], search: Search) -> Result<Vec<Vec<Token>>> {
        if self.config.class.is_streaming() {
            return Err(Error::InvalidOption("a streaming checkpoint is fed in chunks".into()));
        }
        let (frames, lengths) = self.encoder.forward(features, lengths)?;
        let input = self.head_input(frames, 0);
        match &self.head {
            Head::Ctc(_) => decode::ctc(input, &lengths, self.config.blank, search),
            Head::Transducer(head) => {
                let (transducer, rules) = (&head.transducer, &head.rules);
                match search {
                    Search::Greedy(keyterms) => TransducerState::start(transducer, rules, lengths.len())
                        .decode(transducer, rules, &input, &lengths, keyterms),
                    Search::Beam(beam) => {
                        let utterance = |(row, &length): (usize, &usize)| {
                            let mut state = BeamState::start(transducer, rules, beam);
                            let frames = input.clone().narrow(0, row, 1);
                            let mut tokens = state.decode(transducer, rules, &frames, length, beam)?;
                            tokens.extend(state.finish(beam));
                            Ok(tokens)
                        };
                        lengths.iter().enumerate().map(utterance).collect()
                    }
                }
            }
        }
    }

    /// Opens `rows` streams with a look-ahead in encoder frames; `language` is a prompt slot (0 without a prompt).
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a checkpoint that is not cache-aware.
    pub fn stream(&self, rows: usize, look_ahead: usize, language: usize) -> Result<Stream> {
        match &self.head {
            Head::Transducer(head) if self.config.class.is_streaming() => Ok(Stream {
                encoder: self.encoder.start(rows, look_ahead, &self.device),
                transducer: TransducerState::start(&head.transducer, &head.rules, rows),
                beams: Vec::new(),
                language,
            }),
            _ => Err(Error::InvalidOption("this checkpoint transcribes whole utterances only".into())),
        }
    }

    /// One step of every row: `features` `[rows, 8 n, mels]` of which `valid` frames are real, to the new tokens of
    /// each row. See [`Encoder::forward_chunk`] for what a chunk may be. All steps of a stream are searched in one way; a
    /// beam holds back what it is not sure of, for later steps and [`Self::finish`].
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
        let (frames, valid) = self.encoder.forward_chunk(features, valid, &mut stream.encoder);
        let lengths: Vec<usize> = valid.iter().map(|v| v.end).collect();
        let input = self.head_input(frames, stream.language);
        match &self.head {
            Head::Transducer(head) => {
                let (transducer, rules) = (&head.transducer, &head.rules);
                match search {
                    Search::Greedy(keyterms) => stream.transducer.decode(transducer, rules, &input, &lengths, keyterms),
                    Search::Beam(beam) => {
                        stream.beams.resize_with(lengths.len(), || BeamState::start(transducer, rules, beam));
                        let rows = stream.beams.iter_mut().zip(&lengths).enumerate();
                        rows.map(|(row, (state, &length))| {
                            state.decode(transducer, rules, &input.clone().narrow(0, row, 1), length, beam)
                        })
                        .collect()
                    }
                }
            }
            Head::Ctc(_) => Err(Error::InvalidOption("a CTC checkpoint has no streams".into())),
        }
    }

    /// One step of several streams of one row each, of one look-ahead and language, as [`Self::step`] of one batch; a
    /// stream's tokens are the same whichever others are with it. Greedy.
    ///
    /// # Errors
    /// As [`Self::step`]; the streams are as they were then.
    pub fn step_together(
        &self,
        streams: &mut [&mut Stream],
        features: Tensor<3>,
        valid: &[Range<usize>],
    ) -> Result<Vec<Vec<Token>>> {
        if let [stream] = streams {
            return self.step(stream, features, valid, Search::Greedy(None));
        }
        let encoders: Vec<&EncoderState> = streams.iter().map(|stream| &stream.encoder).collect();
        let transducers: Vec<&TransducerState> = streams.iter().map(|stream| &stream.transducer).collect();
        let Some(encoder) = EncoderState::join(&encoders) else { return Ok(Vec::new()) };
        let language = streams.first().map_or(0, |stream| stream.language);
        let transducer = TransducerState::join(&transducers);
        let mut batch = Stream { encoder, transducer, beams: Vec::new(), language };
        let tokens = self.step(&mut batch, features, valid, Search::Greedy(None))?;
        for (row, stream) in streams.iter_mut().enumerate() {
            stream.encoder = batch.encoder.row(row);
            stream.transducer = batch.transducer.row(row);
        }
        Ok(tokens)
    }

    /// The last tokens of every row of a stream: what its steps held back.
    pub fn finish(&self, stream: Stream, search: Search) -> Vec<Vec<Token>> {
        match search {
            Search::Greedy(_) => Vec::new(),
            Search::Beam(beam) => stream.beams.into_iter().map(|state| state.finish(beam)).collect(),
        }
    }

    /// Mel rows `[frames, mels]` as the device's tensor `[1, frames, mels]`.
    pub fn features(&self, rows: Vec<f32>) -> Tensor<3> {
        let mels = self.config.encoder.num_mel_bins;
        let frames = rows.len() / mels;
        Tensor::from_data(TensorData::new(rows, [1, frames, mels]), &self.device)
    }
}

impl Head {
    fn load(weights: &Weights, config: &Config) -> Result<Self> {
        let (size, hidden) = (config.encoder.hidden_size, config.decoder_hidden_size);
        if config.class == Class::ParakeetCtc {
            let head = Linear::load_pointwise(&weights.scope("ctc_head"), size, config.vocab_size, Bias::With)?;
            return Ok(Self::Ctc(Box::new(head)));
        }
        Ok(Self::Transducer(Box::new(TransducerHead {
            projector: Linear::load(&weights.scope("encoder_projector"), size, hidden, Bias::With)?,
            transducer: Transducer::load(&weights.scope("decoder"), &weights.scope("joint"), config)?,
            prompt: match config.prompt {
                Some(_) => Some(Prompt::load(&weights.scope("prompt_projector"), config)?),
                None => None,
            },
            rules: Rules {
                blank: config.blank,
                vocab_size: config.vocab_size,
                max_symbols: config.max_symbols_per_step,
                durations: config.durations.clone(),
            },
        })))
    }
}

impl Prompt {
    fn load(scope: &Scope, config: &Config) -> Result<Self> {
        let size = config.encoder.hidden_size;
        let (slots, inner) = config.prompt.map_or((0, 0), |p| (p.slots, p.intermediate_size));
        let first = scope.scope("linear_1");
        let weight = first.values("weight", &[inner, size + slots])?;
        let bias = first.values("bias", &[inner])?;
        // Split: the one-hot columns are a table, so that no frame carries 128 zeros.
        let columns = |from: usize, count: usize| -> Vec<f32> {
            (from..from + count)
                .flat_map(|c| (0..inner).map(move |r| (r, c)))
                .map(|(r, c)| weight[r * (size + slots) + c])
                .collect()
        };
        let mut languages = columns(size, slots);
        languages.chunks_mut(inner).for_each(|row| row.iter_mut().zip(&bias).for_each(|(l, b)| *l += b));
        Ok(Self {
            frame: Linear::from_values(columns(0, size), size, inner, None, scope),
            languages: Tensor::from_data(TensorData::new(languages, [slots, inner]), scope.device()),
            output: Linear::load(&scope.scope("linear_2"), inner, size, Bias::With)?,
        })
    }

    /// `[batch, frames, hidden]` to the same shape.
    fn forward(&self, frames: Tensor<3>, language: usize) -> Tensor<3> {
        let language = self.languages.clone().narrow(0, language, 1).unsqueeze_dim::<3>(0);
        self.output.forward(burn::tensor::activation::relu(self.frame.forward(frames) + language))
    }
}
