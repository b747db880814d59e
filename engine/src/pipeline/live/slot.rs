//! One live stream on the worker: what has come in, where its turn stands, what it is ready for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::decoding::fusion::Fusion;
use crate::decoding::{Beam, Search, Token};
use crate::error::Result;
use crate::models::fastconformer::Stream;
use crate::models::silero::{CHUNK, VadState};
use crate::pipeline::groups::BatchGroup;
use crate::vad::endpointer::{Endpoint, Endpointer, EndpointingRules};

/// Mel rows before the first sign of speech that a turn begins with: 600 ms.
const BEFORE: usize = 60;
/// Mel rows that are kept while nobody speaks: those before, and the time that the detector takes to be sure.
const KEPT: usize = BEFORE + 40;
/// Samples in a mel row.
const HOP: usize = 160;
/// Encoder frames of a step at most: a stream that is behind catches up in long ones.
const MOST_FRAMES: usize = 112;

/// What a stream is opened with.
pub struct LiveRequest {
    pub group: BatchGroup,
    pub endpointing: EndpointingRules,
    /// Whether the detector says where speech is.
    pub detected: bool,
    /// What joins a search with a beam; without it the search is greedy.
    pub fusion: Option<Arc<Fusion>>,
    /// Texts that the beam follows.
    pub beam: usize,
}

impl LiveRequest {
    /// The beam, if there is to be one.
    pub fn beam(&self) -> Option<Beam<'_>> {
        self.fusion.as_deref().map(|fusion| Beam { width: self.beam, fusion: Some(fusion) })
    }
}

/// A piece of audio.
#[derive(Debug, Default)]
pub struct LiveAudio {
    /// At 16 kHz.
    pub samples: Vec<f32>,
    /// The mel rows that they complete, `[rows, mels]`.
    pub mel: Vec<f32>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct StepOutput {
    /// New tokens; their frames count from the turn's beginning.
    pub tokens: Vec<Token>,
    /// Those that follow as it looks now, if it was looked: they take the place of the ones before them.
    pub open: Option<Vec<Token>>,
    /// Where the turn begins, ms from the start of the session.
    pub turn_ms: u64,
    /// Whether the turn is over.
    pub ended: bool,
    /// How much of the session's audio is dealt with, ms.
    pub heard_ms: u64,
    /// Where the audio ends that the tokens were found in, ms from the start of the session.
    pub until_ms: u64,
}

pub(super) struct LiveSlot {
    pub request: LiveRequest,
    /// Number of its group.
    pub group: usize,
    pub memory: VadState,
    /// Samples that the detector has not heard.
    samples: Vec<f32>,
    /// What it said of the chunks after those that count as heard: a turn is encoded to its end before the next one begins.
    chances: VecDeque<f32>,
    /// Samples that count as heard.
    heard: usize,
    /// Mel rows from `first_row` on, not yet encoded.
    mel: Vec<f32>,
    first_row: usize,
    mels: usize,
    endpointer: Endpointer,
    turn: Option<Turn>,
    /// When the first chunk that is not yet encoded was complete.
    whole_since: Option<Instant>,
    finishing: bool,
}

struct Turn {
    /// None while it is in a step.
    stream: Option<Stream>,
    start_row: usize,
    /// Rows that are not real, before the first.
    lead: usize,
    /// It ends before this row.
    end_row: Option<usize>,
    /// When it began, until its first token.
    wordless_since: Option<Instant>,
}

/// Rows of one slot's part of a step.
pub(super) struct Part {
    pub stream: Stream,
    /// `[rows, mels]`
    pub mel: Vec<f32>,
    pub valid: std::ops::Range<usize>,
}

impl LiveSlot {
    pub fn new(request: LiveRequest, group: usize) -> Result<Self> {
        let config = &request.group.model.config().encoder;
        let mut slot = Self {
            memory: VadState::default(),
            samples: Vec::new(),
            chances: VecDeque::new(),
            heard: 0,
            mel: Vec::new(),
            first_row: 0,
            mels: config.num_mel_bins,
            endpointer: Endpointer::new(request.endpointing)?,
            turn: None,
            whole_since: None,
            finishing: false,
            request,
            group,
        };
        if !slot.request.detected {
            slot.begin(0)?;
        }
        Ok(slot)
    }

    pub fn push(&mut self, input: LiveAudio) {
        if self.request.detected {
            self.samples.extend(input.samples);
        } else {
            self.heard += input.samples.len();
        }
        self.mel.extend(input.mel);
        self.note_chunks();
    }

    pub fn finish(&mut self) {
        self.finishing = true;
        if self.samples.is_empty() {
            self.end_at_last();
        }
        self.note_chunks();
    }

    fn past_last_row(&self) -> usize {
        self.first_row + self.mel.len() / self.mels
    }

    /// Whether the detector is to hear something first.
    pub fn is_for_detector(&self) -> bool {
        self.request.detected && self.for_detector().is_some()
    }

    /// Whole chunks for the detector, if it has not heard them; the last one is filled up at the end.
    pub fn for_detector(&self) -> Option<usize> {
        let chunks = if self.finishing { self.samples.len().div_ceil(CHUNK) } else { self.samples.len() / CHUNK };
        (chunks > 0).then_some(chunks * CHUNK)
    }

    /// Those samples.
    pub fn take_samples(&mut self) -> Vec<f32> {
        let wanted = self.for_detector().unwrap_or(0);
        let rest = self.samples.split_off(wanted.min(self.samples.len()));
        let mut samples = std::mem::replace(&mut self.samples, rest);
        samples.resize(wanted, 0.0);
        samples
    }

    /// Takes what the detector made of them.
    pub fn detected(&mut self, chances: &[f32]) -> Result<StepOutput> {
        self.chances.extend(chances);
        self.go_on()?;
        self.note_chunks();
        Ok(self.heard(Vec::new()))
    }

    /// Goes through what the detector said, up to the end of a turn.
    fn go_on(&mut self) -> Result<()> {
        while self.turn.as_ref().is_none_or(|turn| turn.end_row.is_none()) {
            let Some(chance) = self.chances.pop_front() else {
                if self.finishing && self.samples.is_empty() {
                    self.end_at_last();
                }
                break;
            };
            self.heard += CHUNK;
            match self.endpointer.hear(chance) {
                Some(Endpoint::Speech { since }) => self.begin((since / HOP).saturating_sub(BEFORE))?,
                Some(Endpoint::Silence) => self.end_turn(self.heard / HOP),
                None => {}
            }
        }
        self.forget();
        Ok(())
    }

    /// Nothing follows: a turn that goes on ends with what is there.
    fn end_at_last(&mut self) {
        if self.chances.is_empty() {
            self.end_turn(self.past_last_row());
        }
    }

    /// A turn begins at this row, or as soon after it as rows are left.
    fn begin(&mut self, row: usize) -> Result<()> {
        if self.turn.is_some() {
            return Ok(());
        }
        let row = row.clamp(self.first_row, self.past_last_row());
        self.drop_rows(row - self.first_row);
        let BatchGroup { model, look_ahead, language } = &self.request.group;
        let stream = model.stream(1, *look_ahead, *language)?;
        self.turn = Some(Turn {
            stream: Some(stream),
            start_row: row,
            lead: model.encoder().lead(),
            end_row: None,
            wordless_since: Some(Instant::now()),
        });
        Ok(())
    }

    fn end_turn(&mut self, row: usize) {
        let row = row.clamp(self.first_row, self.past_last_row());
        if let Some(turn) = &mut self.turn {
            turn.end_row.get_or_insert(row);
        }
    }

    /// Lets go of rows that no turn will want.
    fn forget(&mut self) {
        if self.turn.is_none() {
            let wanted = (self.heard / HOP).saturating_sub(KEPT);
            self.drop_rows(wanted.clamp(self.first_row, self.past_last_row()) - self.first_row);
        }
    }

    fn drop_rows(&mut self, rows: usize) {
        self.mel.drain(..rows * self.mels);
        self.first_row += rows;
    }

    /// Rows that may be encoded now, those that are not real included; and whether the turn ends with them.
    fn available(&self) -> Option<(usize, bool)> {
        let turn = self.turn.as_ref()?;
        let end = turn.end_row.unwrap_or_else(|| self.past_last_row());
        Some((end.saturating_sub(self.first_row) + turn.lead, turn.end_row.is_some()))
    }

    /// How many chunks an encoder step over this slot takes, a power of two; the last chunk of a turn may be a short one.
    pub fn chunks(&self) -> Option<usize> {
        let BatchGroup { model, look_ahead, .. } = &self.request.group;
        let frames = look_ahead + 1;
        let chunk = frames * model.config().encoder.subsampling_factor;
        let most = (MOST_FRAMES / frames).max(1);
        let (rows, ends) = self.available()?;
        let lead = self.turn.as_ref().map_or(0, |turn| turn.lead);
        match rows / chunk {
            0 => (ends && rows > lead).then_some(1),
            whole => Some(1 << whole.min(most).ilog2()),
        }
    }

    /// Since when the encoder has been waited for: while the detector comes first, too.
    pub fn whole_since(&self) -> Option<Instant> {
        self.whole_since.filter(|_| !self.is_for_detector())
    }

    fn note_chunks(&mut self) {
        let since = self.whole_since.unwrap_or_else(Instant::now);
        self.whole_since = self.chunks().map(|_| since);
    }

    /// Whether the turn is to end and everything of it is encoded.
    pub fn settled(&self) -> bool {
        let lead = self.turn.as_ref().map_or(0, |turn| turn.lead);
        self.available().is_some_and(|(rows, ends)| ends && rows <= lead)
    }

    /// The slot's part of a step of `rows` rows.
    pub fn part(&mut self, rows: usize) -> Option<Part> {
        let (available, _) = self.available()?;
        self.whole_since = None;
        let turn = self.turn.as_mut()?;
        let stream = turn.stream.take()?;
        let lead = std::mem::take(&mut turn.lead);
        let real = available.min(rows);
        let mut mel = vec![0.0; lead * self.mels];
        mel.extend_from_slice(&self.mel[..(real - lead) * self.mels]);
        mel.resize(rows * self.mels, 0.0);
        self.drop_rows(real - lead);
        Some(Part { stream, mel, valid: lead..real })
    }

    /// Takes a step's result.
    pub fn encoded(&mut self, stream: Stream, tokens: Vec<Token>) -> StepOutput {
        let Some(turn) = &mut self.turn else { return StepOutput::default() };
        let open = stream.open();
        turn.stream = Some(stream);
        let last = open.last().or(tokens.last());
        if let Some(since) = turn.wordless_since.take_if(|_| last.is_some()) {
            metrics::histogram!("auricle_first_token_seconds").record(since.elapsed());
        }
        let frame_ms = self.request.group.model.frame_ms();
        let row_ms = self.request.group.model.preprocessor().hop_ms();
        let said = last.map(|token| ((token.frame + 1) as f64 * frame_ms) as u64);
        let encoded_ms = ((self.first_row - turn.start_row) as f64 * row_ms) as u64;
        if self.endpointer.follow(said, encoded_ms) && turn.end_row.is_none() {
            turn.end_row = Some(self.first_row);
        }
        self.note_chunks();
        let heard = StepOutput { open: Some(open), ..self.heard(tokens) };
        if self.settled() { self.settle(heard) } else { heard }
    }

    /// Ends a turn that is settled.
    pub fn settle(&mut self, mut heard: StepOutput) -> StepOutput {
        heard.ended = true;
        let stream = self.turn.take().and_then(|turn| turn.stream);
        if let (Some(stream), Some(beam)) = (stream, self.request.beam()) {
            let model = &self.request.group.model;
            heard.tokens.extend(model.finish(stream, Search::Beam(beam)).into_iter().flatten());
        }
        heard.open = Some(Vec::new());
        let speaking = self.endpointer.turn_over();
        // Speech goes on, or nobody can tell: the next turn begins where this one ended.
        let next = if (speaking || !self.request.detected) && self.more_to_come() {
            self.begin(self.first_row)
        } else {
            Ok(())
        };
        if let Err(error) = next.and_then(|()| self.go_on()) {
            debug_assert!(false, "a stream like the last one cannot be had: {error}");
        }
        // What the detector said of the time after the turn may be dealt with, too: nobody else will tell of it.
        heard.heard_ms = self.heard_ms();
        self.note_chunks();
        heard
    }

    fn more_to_come(&self) -> bool {
        !self.finishing || !self.samples.is_empty() || !self.chances.is_empty()
    }

    pub fn heard(&self, tokens: Vec<Token>) -> StepOutput {
        StepOutput {
            tokens,
            open: None,
            turn_ms: self.turn.as_ref().map_or(0, |turn| self.row_ms(turn.start_row)),
            ended: false,
            heard_ms: self.heard_ms(),
            until_ms: self.encoded_ms().unwrap_or_else(|| self.detected_ms()),
        }
    }

    fn row_ms(&self, row: usize) -> u64 {
        (row as f64 * self.request.group.model.preprocessor().hop_ms()) as u64
    }

    fn detected_ms(&self) -> u64 {
        (self.heard / (HOP / 10)) as u64
    }

    /// How far the turn that goes on is encoded.
    fn encoded_ms(&self) -> Option<u64> {
        self.turn.as_ref().map(|_| self.row_ms(self.first_row))
    }

    fn heard_ms(&self) -> u64 {
        let detected_ms = self.detected_ms();
        self.encoded_ms().map_or(detected_ms, |ms| ms.min(detected_ms))
    }
}
