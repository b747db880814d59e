//! State of one live stream on the worker: buffered input, the turn, and the next step.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backlog::BacklogReporter;
use super::judge::{Asker, TurnJudge};
use super::turn_windows::{TurnWindow, TurnWindows};
use crate::decoding::fusion::Fusion;
use crate::decoding::keyterms::Keyterms;
use crate::decoding::{Beam, Token};
use crate::error::{Error, Result};
use crate::models::fastconformer::Stream;
use crate::models::silero::CHUNK;
use crate::models::smart_turn::SmartTurn;
use crate::pipeline::executors::groups::BatchGroup;
use crate::vad::chunker::WindowLengths;
use crate::vad::endpointer::{Endpoint, Endpointer, EndpointingRules};

/// Mel rows of a turn ahead of the detected speech: 600 ms.
const PRE_ROLL_ROWS: usize = 60;
/// Mel rows that are kept during silence: the pre-roll, and the delay of the detector.
const KEPT_ROWS: usize = PRE_ROLL_ROWS + 40;
/// Samples in a mel row.
const HOP: usize = 160;
/// Most encoder frames of a step: a stream that is behind catches up in long steps.
const MAX_STEP_FRAMES: usize = 112;

/// Options of a live stream.
pub struct LiveRequest {
    /// The streaming model; none where the second pass alone writes the turns, which a detector finds.
    pub group: Option<BatchGroup>,
    /// Lengths of the windows that a second pass takes, if there is one. It needs a detector.
    pub second_pass: Option<WindowLengths>,
    pub endpointing: EndpointingRules,
    /// True if the caller's detector finds the speech.
    pub has_detector: bool,
    /// Detects whether a speaker has finished.
    pub turn_detector: Option<Arc<SmartTurn>>,
    /// Keyterms of a greedy search; those of a beam search are in its fusion.
    pub keyterms: Option<Arc<Keyterms>>,
    /// Shallow fusion for beam search; without it the search is greedy.
    pub fusion: Option<Arc<Fusion>>,
    /// Beam width.
    pub beam: usize,
    /// Gets the end of processed audio.
    pub backlog: BacklogReporter,
}

impl LiveRequest {
    /// The beam; none for greedy search.
    pub fn beam(&self) -> Option<Beam<'_>> {
        self.fusion.as_deref().map(|fusion| Beam { width: self.beam, fusion: Some(fusion) })
    }
}

/// A piece of audio.
#[derive(Debug, Default)]
pub struct LiveAudio {
    /// At 16 kHz, for a turn detector and a second pass; else their number is all that the worker needs.
    pub samples: Vec<f32>,
    /// Speech probabilities of the detector's chunks that the samples complete.
    pub probabilities: Vec<f32>,
    /// Mel rows that the samples complete, `[rows, mels]`.
    pub mel: Vec<f32>,
    /// The caller's ends of turns, each as the number of probabilities before it.
    pub cuts: Vec<usize>,
    /// The caller's questions to the turn detector.
    pub questions: Vec<TurnQuestion>,
}

/// The question whether the speaker has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnQuestion {
    /// Samples of the piece before it.
    pub at: usize,
    /// Samples before it that are of the turn.
    pub turn: usize,
}

/// Output of a step for a live stream.
#[derive(Clone, Debug, Default)]
pub struct StepOutput {
    /// New tokens; their frames count from the turn's beginning.
    pub tokens: Vec<Token>,
    /// Open tokens, which may still change: they replace the open tokens of earlier steps. None after a step without
    /// decoding.
    pub open: Option<Vec<Token>>,
    /// Start of the turn, ms from the start of the session.
    pub turn_ms: u64,
    /// True if the turn is over.
    pub ended: bool,
    /// The caller's ends of turns up to which all tokens are out.
    pub settled: usize,
    /// The turn detector's answer to the caller: the probability that the speaker has finished.
    pub judged: Option<f32>,
    /// Events for the second pass, in order.
    pub windows: Vec<TurnWindow>,
    /// Processed audio of the session, ms.
    pub processed_ms: u64,
    /// End of the decoded audio, ms from the start of the session.
    pub until_ms: u64,
}

pub(super) struct LiveSlot {
    pub request: LiveRequest,
    /// Number of its batch group.
    pub group: Option<usize>,
    /// Speech probabilities that have come since the last step took them.
    heard: Vec<f32>,
    /// Probabilities of the chunks after the processed samples: a turn is encoded to its end before the next one
    /// begins.
    probabilities: VecDeque<f32>,
    received_samples: usize,
    /// Number of samples that the endpointer has processed.
    processed_samples: usize,
    /// Ends of turns by the caller's will, as numbers of samples.
    cuts: VecDeque<usize>,
    /// Those that found no turn and are not reported yet.
    settled: usize,
    /// Mel rows that are not encoded yet, from `first_row` on.
    mel: Vec<f32>,
    first_row: usize,
    mels: usize,
    endpointer: Endpointer,
    pub judge: Option<TurnJudge>,
    second_pass: Option<TurnWindows>,
    turn: Option<Turn>,
    /// Time at which the first unencoded chunk was complete.
    ready_since: Option<Instant>,
    finishing: bool,
}

struct Turn {
    /// None during a step, and without a streaming model.
    stream: Option<Stream>,
    start_row: usize,
    /// Padding rows before the first row.
    lead: usize,
    /// The turn ends before this row.
    end_row: Option<usize>,
    /// Start time of the turn; none after its first token.
    no_token_since: Option<Instant>,
    /// The caller's wishes to end it.
    cuts: usize,
}

/// Input of one slot for an encoder step.
pub(super) struct EncoderInput {
    pub stream: Stream,
    /// `[rows, mels]`
    pub mel: Vec<f32>,
    /// The real rows of `mel`.
    pub valid: std::ops::Range<usize>,
}

impl LiveSlot {
    pub fn new(request: LiveRequest, group: Option<usize>) -> Result<Self> {
        // Rows that no model reads only count.
        let mels = request.group.as_ref().map_or(1, |group| group.model.config().encoder.num_mel_bins);
        let mut slot = Self {
            heard: Vec::new(),
            probabilities: VecDeque::new(),
            received_samples: 0,
            processed_samples: 0,
            cuts: VecDeque::new(),
            settled: 0,
            mel: Vec::new(),
            first_row: 0,
            mels,
            endpointer: Endpointer::new(request.endpointing)?,
            judge: request.turn_detector.clone().map(TurnJudge::new),
            second_pass: request.second_pass.filter(|_| request.has_detector).map(TurnWindows::new),
            turn: None,
            ready_since: None,
            finishing: false,
            request,
            group,
        };
        if !slot.request.has_detector {
            slot.begin_turn(0)?;
        }
        Ok(slot)
    }

    pub fn push(&mut self, input: LiveAudio) {
        if let Some(second_pass) = &mut self.second_pass {
            second_pass.push(&input.samples);
        }
        if let Some(judge) = &mut self.judge {
            let mut pushed = 0;
            for TurnQuestion { at, turn } in input.questions {
                let at = at.clamp(pushed, input.samples.len());
                judge.push(&input.samples[pushed..at]);
                pushed = at;
                judge.ask(judge.end().saturating_sub(turn)..judge.end(), Asker::Caller);
            }
            judge.push(&input.samples[pushed..]);
        }
        if self.request.has_detector {
            let known = self.heard.len() + self.probabilities.len();
            let begin = self.processed_samples + known * CHUNK;
            self.cuts.extend(input.cuts.iter().map(|cut| begin + cut * CHUNK));
            self.heard.extend(input.probabilities);
            self.received_samples += input.samples.len();
            if self.request.group.is_some() {
                self.mel.extend(input.mel);
            } else {
                let rows = (self.received_samples / HOP).saturating_sub(self.first_row);
                self.mel.resize(rows.max(self.mel.len()), 0.0);
            }
        } else {
            self.processed_samples += input.samples.len();
            self.mel.extend(input.mel);
            for _ in &input.cuts {
                self.cut();
            }
        }
        self.update_ready_since();
    }

    pub fn finish(&mut self) {
        self.finishing = true;
        if self.heard.is_empty() {
            self.end_turn_at_last_row();
            self.pass_rows();
        }
        self.update_ready_since();
    }

    fn buffered_end_row(&self) -> usize {
        self.first_row + self.mel.len() / self.mels
    }

    /// True if probabilities or ends of turns wait to be taken.
    pub fn has_heard(&self) -> bool {
        !self.heard.is_empty() || (self.is_cut_due() && !self.is_turn_ending())
    }

    fn is_turn_ending(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.end_row.is_some())
    }

    fn is_cut_due(&self) -> bool {
        self.cuts.front().is_some_and(|cut| *cut <= self.processed_samples)
    }

    /// Ends the turn here, if there is one.
    fn cut(&mut self) {
        self.endpointer.forget_speech();
        if let Some(second_pass) = &mut self.second_pass {
            second_pass.note_cut();
        }
        let row = if self.request.has_detector { self.processed_samples / HOP } else { self.buffered_end_row() };
        self.set_turn_end(row);
        match &mut self.turn {
            Some(turn) => turn.cuts += 1,
            None => self.settled += 1,
        }
    }

    /// True if a question to the turn detector waits.
    pub fn has_question(&self) -> bool {
        self.judge.as_ref().is_some_and(TurnJudge::has_question)
    }

    /// Takes the turn detector's answer to the question that has waited longest.
    pub fn judged(&mut self, probability: f32) -> Result<StepOutput> {
        let question = self.judge.as_mut().and_then(TurnJudge::answered);
        match question.ok_or_else(|| Error::internal("an answer without a question"))?.asker {
            Asker::Caller => Ok(StepOutput { judged: Some(probability), ..self.output(Vec::new()) }),
            Asker::Pause(pause) => {
                self.endpointer.judged(pause, probability);
                self.end_finished_turn();
                self.follow_speech()
            }
        }
    }

    /// Asks the turn detector in a pause.
    fn judge_pause(&mut self) {
        if let (Some(judge), Some(turn)) = (&mut self.judge, &self.turn)
            && let Some(pause) = self.endpointer.next_question()
        {
            judge.ask(turn.start_row * HOP..self.processed_samples, Asker::Pause(pause));
        }
    }

    /// Ends a turn here whose speaker has finished.
    fn end_finished_turn(&mut self) {
        if self.turn.is_some() && !self.is_turn_ending() && self.endpointer.is_finished() {
            self.endpointer.forget_speech();
            self.set_turn_end(self.processed_samples / HOP);
        }
    }

    /// Takes the probabilities that have come.
    pub fn follow_speech(&mut self) -> Result<StepOutput> {
        self.probabilities.extend(std::mem::take(&mut self.heard));
        self.process_probabilities()?;
        if let Some(second_pass) =
            self.second_pass.as_mut().filter(|_| self.turn.as_ref().is_some_and(|turn| turn.end_row.is_none()))
        {
            second_pass.look(self.endpointer.ending_silence_ms());
        }
        self.update_ready_since();
        let settled = std::mem::take(&mut self.settled);
        Ok(StepOutput { settled, ..self.output(Vec::new()) })
    }

    /// Processes the probabilities up to the end of a turn.
    fn process_probabilities(&mut self) -> Result<()> {
        while !self.is_turn_ending() && !self.has_question() {
            if self.is_cut_due() {
                self.cuts.pop_front();
                self.cut();
                continue;
            }
            let Some(probability) = self.probabilities.pop_front() else {
                if self.finishing && self.heard.is_empty() {
                    self.end_turn_at_last_row();
                }
                break;
            };
            self.processed_samples += CHUNK;
            let endpoint = self.endpointer.push(probability);
            if let Some(second_pass) = &mut self.second_pass {
                second_pass.follow(probability);
                // The silence that ends the turn is known from the chunk before.
                if endpoint != Some(Endpoint::Silence) {
                    second_pass.note_silence(self.endpointer.quiet_ms());
                }
            }
            match endpoint {
                Some(Endpoint::Speech { since }) => {
                    if let Some(second_pass) = self.second_pass.as_mut().filter(|_| self.turn.is_none()) {
                        second_pass.begin(since);
                    }
                    self.begin_turn((since / HOP).saturating_sub(PRE_ROLL_ROWS))?;
                }
                Some(Endpoint::Silence) => self.set_turn_end(self.processed_samples / HOP),
                None => {
                    self.judge_pause();
                    self.end_finished_turn();
                }
            }
            self.pass_rows();
        }
        self.pass_rows();
        if let Some(judge) = &mut self.judge {
            judge.forget_before(self.processed_samples);
        }
        self.drop_unneeded_rows();
        Ok(())
    }

    /// Without a streaming model rows pass by as their speech is followed, and the rules of silence and length alone end the
    /// turn.
    fn pass_rows(&mut self) {
        let Some(turn) = self.turn.as_ref().filter(|_| self.request.group.is_none()) else { return };
        let (start_row, end_row) = (turn.start_row, turn.end_row);
        let to = end_row.unwrap_or(self.processed_samples / HOP).clamp(self.first_row, self.buffered_end_row());
        self.drop_rows(to - self.first_row);
        let passed_ms = row_ms(self.first_row - start_row);
        let spoken_ms = passed_ms.saturating_sub(self.endpointer.quiet_ms().unwrap_or_default() as u64);
        if end_row.is_none() && self.endpointer.update(Some(spoken_ms), passed_ms) {
            self.set_turn_end(self.first_row);
        }
    }

    /// At the end of the stream, ends the turn with its last row.
    fn end_turn_at_last_row(&mut self) {
        if self.probabilities.is_empty() {
            self.set_turn_end(self.buffered_end_row());
        }
    }

    /// Begins a turn at this row, or at the first row after it that is still buffered.
    fn begin_turn(&mut self, row: usize) -> Result<()> {
        if self.turn.is_some() {
            return Ok(());
        }
        let row = row.clamp(self.first_row, self.buffered_end_row());
        self.drop_rows(row - self.first_row);
        let group = self.request.group.as_ref();
        let stream = group.map(|BatchGroup { model, look_ahead, language }| model.stream(1, *look_ahead, *language));
        self.turn = Some(Turn {
            stream: stream.transpose()?,
            start_row: row,
            lead: group.map_or(0, |group| group.model.encoder().lead()),
            end_row: None,
            no_token_since: Some(Instant::now()),
            cuts: 0,
        });
        Ok(())
    }

    fn set_turn_end(&mut self, row: usize) {
        let row = row.clamp(self.first_row, self.buffered_end_row());
        if let Some(turn) = &mut self.turn {
            turn.end_row.get_or_insert(row);
        }
    }

    /// Drops rows that no turn needs.
    fn drop_unneeded_rows(&mut self) {
        if self.turn.is_none() {
            let wanted = (self.processed_samples / HOP).saturating_sub(KEPT_ROWS);
            self.drop_rows(wanted.clamp(self.first_row, self.buffered_end_row()) - self.first_row);
        }
    }

    fn drop_rows(&mut self, rows: usize) {
        self.mel.drain(..rows * self.mels);
        self.first_row += rows;
    }

    /// Number of rows that can be encoded now, padding included; true if the turn ends with them.
    fn available(&self) -> Option<(usize, bool)> {
        let turn = self.turn.as_ref()?;
        let end = turn.end_row.unwrap_or_else(|| self.buffered_end_row());
        Some((end.saturating_sub(self.first_row) + turn.lead, turn.end_row.is_some()))
    }

    /// Number of chunks of the next encoder step, a power of two; the last chunk of a turn may be short.
    pub fn step_chunks(&self) -> Option<usize> {
        let BatchGroup { model, look_ahead, .. } = self.request.group.as_ref()?;
        let frames = look_ahead + 1;
        let chunk = frames * model.config().encoder.subsampling_factor;
        let max_chunks = (MAX_STEP_FRAMES / frames).max(1);
        let (rows, ends) = self.available()?;
        let lead = self.turn.as_ref().map_or(0, |turn| turn.lead);
        match rows / chunk {
            0 => (ends && rows > lead).then_some(1),
            whole => Some(1 << whole.min(max_chunks).ilog2()),
        }
    }

    /// Time since which a chunk waits for the encoder; none while probabilities or questions wait to be taken.
    pub fn ready_since(&self) -> Option<Instant> {
        self.ready_since.filter(|_| !self.has_heard() && !self.has_question())
    }

    fn update_ready_since(&mut self) {
        let since = self.ready_since.unwrap_or_else(Instant::now);
        self.ready_since = self.step_chunks().map(|_| since);
    }

    /// True if the turn has its end and is encoded up to it.
    pub fn is_turn_encoded(&self) -> bool {
        let lead = self.turn.as_ref().map_or(0, |turn| turn.lead);
        self.available().is_some_and(|(rows, ends)| ends && rows <= lead)
    }

    /// Takes the slot's input for a step of `rows` rows. The slot keeps the rows until the step is done.
    pub fn take_encoder_input(&mut self, rows: usize) -> Option<EncoderInput> {
        let (available, _) = self.available()?;
        self.ready_since = None;
        let turn = self.turn.as_mut()?;
        let stream = turn.stream.take()?;
        let (lead, real) = (turn.lead, available.min(rows));
        let mut mel = vec![0.0; lead * self.mels];
        mel.extend_from_slice(&self.mel[..(real - lead) * self.mels]);
        mel.resize(rows * self.mels, 0.0);
        Some(EncoderInput { stream, mel, valid: lead..real })
    }

    /// Takes the result of an encoder step.
    pub fn encoded(&mut self, EncoderInput { stream, valid, .. }: EncoderInput, tokens: Vec<Token>) -> StepOutput {
        self.drop_rows(valid.len());
        let (Some(turn), Some(group)) = (&mut self.turn, &self.request.group) else { return StepOutput::default() };
        let open = stream.open();
        (turn.stream, turn.lead) = (Some(stream), 0);
        let last = open.last().or(tokens.last());
        if let Some(since) = turn.no_token_since.take_if(|_| last.is_some()) {
            metrics::histogram!("auricle_first_token_seconds").record(since.elapsed());
        }
        let frame_ms = group.model.frame_ms();
        let last_token_ms = last.map(|token| ((token.frame + 1) as f64 * frame_ms) as u64);
        let encoded_ms = row_ms(self.first_row - turn.start_row);
        if self.endpointer.update(last_token_ms, encoded_ms) && turn.end_row.is_none() {
            turn.end_row = Some(self.first_row);
        }
        self.update_ready_since();
        let output = StepOutput { open: Some(open), ..self.output(tokens) };
        if self.is_turn_encoded() { self.end_turn(output) } else { output }
    }

    /// Takes back the stream of an encoder step that failed. Its search is as it was before the step; its encoder begins again, as
    /// it may have seen a part of the step.
    pub fn restart(&mut self, EncoderInput { mut stream, .. }: EncoderInput) {
        let (Some(turn), Some(BatchGroup { model, look_ahead, .. })) = (&mut self.turn, &self.request.group) else {
            return;
        };
        model.restart_encoder(&mut stream, *look_ahead);
        (turn.stream, turn.lead) = (Some(stream), model.encoder().lead());
        self.update_ready_since();
    }

    /// Ends an encoded turn and completes its output.
    pub fn end_turn(&mut self, mut output: StepOutput) -> StepOutput {
        output.ended = true;
        let turn = self.turn.take();
        if let (Some(second_pass), Some(turn)) = (&mut self.second_pass, &turn) {
            second_pass.end(turn.end_row.unwrap_or(self.first_row) * HOP);
        }
        output.settled += turn.as_ref().map_or(0, |turn| turn.cuts);
        let stream = turn.and_then(|turn| turn.stream);
        if let (Some(mut stream), Some(beam)) = (stream, self.request.beam()) {
            stream.close(beam);
            output.tokens.extend(stream.open());
        }
        output.open = Some(Vec::new());
        let speaking = self.endpointer.end_turn();
        // Speech goes on, or no detector can tell: the next turn begins where this one ended.
        let next = if (speaking || !self.request.has_detector) && self.has_more_input() {
            if let Some(second_pass) = &mut self.second_pass {
                second_pass.begin_at(self.first_row * HOP);
            }
            self.begin_turn(self.first_row)
        } else {
            Ok(())
        };
        if let Err(error) = next.and_then(|()| self.process_probabilities()) {
            debug_assert!(false, "the next turn cannot begin: {error}");
        }
        // The probabilities after the turn may be processed now too, and no other output reports them.
        output.processed_ms = self.processed_ms();
        output.settled += std::mem::take(&mut self.settled);
        self.update_ready_since();
        output
    }

    /// Takes what the second pass is to follow.
    pub fn take_windows(&mut self) -> Vec<TurnWindow> {
        self.second_pass.as_mut().map(TurnWindows::take).unwrap_or_default()
    }

    /// The time between two chunks, if a turn goes on whose speaker speaks.
    pub fn speaking_budget(&self) -> Option<Duration> {
        self.turn.as_ref().filter(|turn| turn.end_row.is_none() && self.endpointer.quiet_ms().is_none())?;
        self.request.group.as_ref().map(chunk_time)
    }

    fn has_more_input(&self) -> bool {
        !self.finishing || !self.heard.is_empty() || !self.probabilities.is_empty()
    }

    pub fn output(&self, tokens: Vec<Token>) -> StepOutput {
        StepOutput {
            tokens,
            open: None,
            turn_ms: self.turn.as_ref().map_or(0, |turn| row_ms(turn.start_row)),
            ended: false,
            settled: 0,
            judged: None,
            windows: Vec::new(),
            processed_ms: self.processed_ms(),
            until_ms: self.encoded_ms().unwrap_or_else(|| self.detected_ms()),
        }
    }

    fn detected_ms(&self) -> u64 {
        (self.processed_samples / (HOP / 10)) as u64
    }

    /// End of the encoded part of the turn, ms.
    fn encoded_ms(&self) -> Option<u64> {
        self.turn.as_ref().map(|_| row_ms(self.first_row))
    }

    fn processed_ms(&self) -> u64 {
        let detected_ms = self.detected_ms();
        self.encoded_ms().map_or(detected_ms, |ms| ms.min(detected_ms))
    }
}

/// Length of the audio in so many mel rows.
fn row_ms(row: usize) -> u64 {
    (row * HOP / 16) as u64
}

/// Length of the audio of a chunk: the time in which its step has to be done.
pub(super) fn chunk_time(group: &BatchGroup) -> Duration {
    Duration::from_millis(((group.look_ahead + 1) as f64 * group.model.frame_ms()) as u64)
}
