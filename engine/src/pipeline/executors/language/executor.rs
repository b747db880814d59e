//! Texts of language models side by side. A step writes the next token of every text and reads a piece of the prompts that wait, no
//! longer than a bounded time: those of live conversations first, then those of the account for which the least has been computed. Texts get memory for keys and values as they grow; where there is none left, the youngest gives its up
//! and is computed again later. None of this changes a text.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::request::{LanguageOutput, LanguageRequest};
use super::sequence::Sequence;
use crate::error::{Error, Result};
use crate::models::decoder::{ChatModel, PageArena, Piece};
use crate::scheduler::{BatchExecutor, SlotTable};

/// Time that a step takes for prompts.
const STEP_SECONDS: f64 = 0.05;
/// Tokens of prompts that a step reads, whatever they cost.
const FEWEST_TOKENS: usize = 16;
const MOST_TOKENS: usize = 512;
/// Seconds that a token of a prompt is taken to cost before the first step is measured.
const UNKNOWN_COST: f64 = 0.002;
/// Weight of a step in what is known of a token's cost.
const WEIGHT: f64 = 0.3;

/// Texts of one model share a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LanguageBatchKey {
    /// The model's number.
    model: usize,
}

/// The texts that a device writes.
#[derive(Default)]
pub struct LanguageExecutor {
    slots: SlotTable<Sequence>,
    models: SlotTable<ModelState>,
    begun: u64,
    /// Tokens that were computed for each account that has texts. A new one begins with the least of them.
    computed: HashMap<Arc<str>, u64>,
    /// A step has changed some of its texts.
    committing: bool,
}

struct ModelState {
    /// Its texts hold it, and those who keep it loaded.
    model: Weak<ChatModel>,
    /// Kept between texts: the next may begin like one before.
    arena: PageArena,
    /// Seconds of a token of a prompt.
    cost: f64,
}

impl ModelState {
    /// Tokens of prompts that a step may read.
    fn prompt_tokens(&self) -> usize {
        ((STEP_SECONDS / self.cost) as usize).clamp(FEWEST_TOKENS, MOST_TOKENS)
    }
}

impl LanguageExecutor {
    /// Frees the keys and values of models that have been unloaded.
    pub fn forget_unloaded(&mut self) {
        self.models.retain(|_, state| state.model.strong_count() > 0);
    }

    /// Tokens that a step computes of each slot: one of a text that is being written, and pieces of prompts in turn.
    fn plan(&self, number: usize, slots: &[usize], most: usize) -> Vec<(usize, usize)> {
        let Some(model) = self.models.find(number) else { return Vec::new() };
        let sequences = slots.iter().filter_map(|slot| Some((*slot, self.slots.find(*slot)?)));
        let mut sequences: Vec<_> = sequences.filter(|(_, sequence)| !sequence.ended).collect();
        let computed = |account: &Arc<str>| self.computed.get(account).copied().unwrap_or_default();
        sequences.sort_by_key(|(_, sequence)| {
            (sequence.left() > 1, !sequence.live, computed(&sequence.account), sequence.age)
        });
        let mut left = most.max(1);
        let mut prompts = model.prompt_tokens().min(left);
        let mut plan = Vec::with_capacity(sequences.len());
        for (slot, sequence) in sequences {
            let wanted = sequence.left();
            let rows = match wanted {
                _ if sequence.stalled => 0,
                1 => left.min(1),
                // A piece of a prompt fills whole blocks of rows, where it is not the last.
                _ => match wanted.min(prompts).min(left) {
                    rows if rows < wanted && rows > 8 => rows / 8 * 8,
                    rows => rows,
                },
            };
            left -= rows;
            prompts = prompts.saturating_sub(if wanted > 1 { rows } else { 0 });
            plan.push((slot, rows));
        }
        plan
    }

    /// Gives a text memory for its next tokens, and returns for how many there is some.
    fn reserve(&mut self, number: usize, slot: usize, rows: usize) -> Result<usize> {
        let (model, sequence) = (model_state(&mut self.models, number)?, self.slots.get_mut(slot)?);
        if sequence.computed == 0 && sequence.pages.count() == 0 {
            let shared = model.arena.share(&sequence.account, &sequence.tokens, &mut sequence.pages);
            sequence.begin(shared);
        }
        let mut rows = rows.min(sequence.left());
        let room = sequence.pages.room() - sequence.computed;
        let available = model.arena.available() * auricle_kernels::attention::paged::cpu::PAGE;
        rows = rows.min(room + available);
        if rows > 0 && !model.arena.extend(&mut sequence.pages, sequence.computed + rows) {
            return Err(Error::internal("pages that were counted are not there"));
        }
        Ok(rows)
    }

    /// Takes the memory of the youngest text of a model but this one, younger than it where `younger`; false if none has any.
    fn preempt(&mut self, number: usize, but: usize, younger: bool, work: &mut Vec<(usize, usize)>) -> bool {
        let age = self.slots.find(but).map_or(0, |sequence| sequence.age);
        let others = self.slots.iter().filter(|(slot, sequence)| {
            *slot != but && sequence.number == number && sequence.pages.count() > 0 && (!younger || sequence.age > age)
        });
        let Some(victim) = others.max_by_key(|(_, sequence)| sequence.age).map(|(slot, _)| slot) else { return false };
        if let (Some(sequence), Some(model)) = (self.slots.find_mut(victim), self.models.find_mut(number)) {
            model.arena.release(&mut sequence.pages);
            (sequence.computed, sequence.stalled) = (0, true);
        }
        work.retain(|(slot, _)| *slot != victim);
        true
    }

    /// The texts that a step computes, with memory for their tokens.
    fn reserve_all(&mut self, number: usize, plan: &[(usize, usize)]) -> Result<Vec<(usize, usize)>> {
        let mut work: Vec<(usize, usize)> = Vec::with_capacity(plan.len());
        for (slot, rows) in plan.iter().copied().filter(|(_, rows)| *rows > 0) {
            // One before it in the plan may have lost its memory to another.
            if self.slots.find(slot).is_none_or(|sequence| sequence.stalled) {
                continue;
            }
            let is_written = self.slots.find(slot).is_some_and(|sequence| sequence.left() == 1);
            loop {
                match self.reserve(number, slot, rows)? {
                    0 if is_written && self.preempt(number, slot, true, &mut work) => {}
                    0 => {
                        self.slots.get_mut(slot)?.stalled = true;
                        break;
                    }
                    rows => {
                        work.push((slot, rows));
                        break;
                    }
                }
            }
        }
        if work.is_empty()
            && let Some((slot, _)) = plan.first().copied()
        {
            // All wait for memory that each of them holds a part of: the oldest gets it.
            loop {
                match self.reserve(number, slot, FEWEST_TOKENS)? {
                    0 if self.preempt(number, slot, false, &mut work) => {}
                    0 => return Err(Error::internal("a text is longer than the memory for keys and values")),
                    rows => {
                        self.slots.get_mut(slot)?.stalled = false;
                        work.push((slot, rows));
                        break;
                    }
                }
            }
        }
        Ok(work)
    }
}

fn model_state(models: &mut SlotTable<ModelState>, number: usize) -> Result<&mut ModelState> {
    match models.find_mut(number) {
        Some(model) => Ok(model),
        None => Err(Error::internal(format!("language model {number} of a step is unknown"))),
    }
}

impl BatchExecutor for LanguageExecutor {
    type Request = LanguageRequest;
    type Input = ();
    type Output = LanguageOutput;
    type BatchKey = LanguageBatchKey;

    fn open(&mut self, slot: usize, request: LanguageRequest) -> Result<()> {
        let model = Arc::downgrade(&request.model);
        let number = self.models.find_or_insert(
            |state| state.model.ptr_eq(&model),
            || {
                let arena = request.model.arena(request.kv_bytes);
                ModelState { model: model.clone(), arena, cost: UNKNOWN_COST }
            },
        );
        self.begun += 1;
        let least = self.computed.values().copied().min().unwrap_or_default();
        self.computed.entry(request.account.clone()).or_insert(least);
        self.slots.insert(slot, Sequence::new(request, number, self.begun));
        Ok(())
    }

    fn push(&mut self, _: usize, _: ()) {}

    fn finish(&mut self, _: usize) {}

    fn close(&mut self, slot: usize) {
        let Some(mut sequence) = self.slots.remove(slot) else { return };
        if let Some(model) = self.models.find_mut(sequence.number) {
            model.arena.release(&mut sequence.pages);
        }
        if self.slots.iter().all(|(_, other)| other.account != sequence.account) {
            self.computed.remove(&sequence.account);
        }
        // There is memory again.
        for (_, other) in self.slots.iter_mut() {
            other.stalled &= other.number != sequence.number;
        }
    }

    fn next_step(&self, slot: usize) -> Option<LanguageBatchKey> {
        let sequence = self.slots.find(slot)?;
        (!sequence.ended).then_some(LanguageBatchKey { model: sequence.number })
    }

    fn budget(&self, _: LanguageBatchKey) -> Duration {
        Duration::from_millis(250)
    }

    fn max_batch(&self, _: LanguageBatchKey) -> usize {
        usize::MAX
    }

    fn step_name(&self, _: LanguageBatchKey) -> &'static str {
        "language"
    }

    fn family(&self, key: LanguageBatchKey) -> usize {
        key.model
    }

    fn rows(&self, key: LanguageBatchKey, slots: &[usize], most: usize) -> Vec<(usize, usize)> {
        self.plan(key.model, slots, most)
    }

    fn step(&mut self, key: LanguageBatchKey, slots: &[usize], most: usize) -> Result<Vec<Option<LanguageOutput>>> {
        self.committing = false;
        let plan = self.plan(key.model, slots, most);
        let work = self.reserve_all(key.model, &plan)?;
        if work.is_empty() {
            return Ok(slots.iter().map(|_| None).collect());
        }
        let state = model_state(&mut self.models, key.model)?;
        let Some(model) = state.model.upgrade() else {
            return Err(Error::internal("a language model is gone before its texts"));
        };
        let mut pieces = Vec::with_capacity(work.len());
        // A GPU keeps the scores where all texts take the likeliest token.
        let mut take_likeliest = model.is_on_gpu();
        for (slot, rows) in &work {
            let Some(sequence) = self.slots.find(*slot) else { continue };
            let end = sequence.computed + rows;
            take_likeliest &= end < sequence.tokens.len() || sequence.takes_likeliest();
            pieces.push(Piece {
                tokens: &sequence.tokens[sequence.computed..end],
                position: sequence.computed,
                pages: &sequence.pages,
                embedded: None,
                scores: end == sequence.tokens.len(),
            });
        }
        let began = Instant::now();
        let (mut scores, mut likeliest) = match take_likeliest {
            true => (Vec::new(), model.likeliest(&mut state.arena, &pieces)?.into_iter()),
            false => (model.forward(&mut state.arena, &pieces)?, Vec::new().into_iter()),
        };
        let total: usize = work.iter().map(|(_, rows)| rows).sum();
        if total >= FEWEST_TOKENS {
            state.cost += WEIGHT * (began.elapsed().as_secs_f64() / total as f64 - state.cost);
        }
        drop(pieces);
        self.committing = true;
        let mut scored = scores.chunks_exact_mut(model.config().vocabulary);
        let mut outputs: Vec<Option<LanguageOutput>> = slots.iter().map(|_| None).collect();
        for (slot, rows) in work {
            let sequence = self.slots.get_mut(slot)?;
            sequence.computed += rows;
            *self.computed.entry(sequence.account.clone()).or_default() += rows as u64;
            let known = &sequence.tokens[..sequence.computed];
            state.arena.publish(&sequence.account, known, &mut sequence.pages);
            if sequence.left() == 0
                && let Some(at) = slots.iter().position(|other| *other == slot)
            {
                if let Some(token) = likeliest.next() {
                    outputs[at] = sequence.go_on_with(Ok(token));
                } else if let Some(scores) = scored.next() {
                    outputs[at] = sequence.go_on(scores);
                }
            }
        }
        self.committing = false;
        Ok(outputs)
    }

    /// A step changes texts only after everything is computed.
    fn undo(&mut self, _: LanguageBatchKey, _: &[usize]) -> bool {
        !self.committing
    }
}
