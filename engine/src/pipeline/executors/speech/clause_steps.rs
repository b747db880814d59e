//! Steps of models that say a clause at once: its prosody, then its samples in several parts, of one stream each.

use super::clause_voice::ClauseVoice;
use super::phrase::Phrase;
use super::slot::{ClauseSpeaking, Speaking, SpeechOutput, SpeechRequest, SpeechSlot};
use crate::error::{Error, Result};
use crate::models::kokoro::Spoken;
use crate::scheduler::SlotTable;

/// Computes the prosody of a slot's next phrase. The slot changes when all has gone well.
pub fn begin_clause(voice: &ClauseVoice, table: &mut SlotTable<SpeechSlot>, slot: usize) -> Result<()> {
    let slot = table.get_mut(slot)?;
    let Some(Phrase::Phones(phrase)) = slot.phrases.front() else {
        return Err(Error::internal("a step without a phrase"));
    };
    let SpeechRequest { voice: number, speed, .. } = &slot.request;
    let utterance = voice.model.start(number.listed()?, &phrase.symbols, *speed)?;
    let ends = utterance.durations.iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    });
    let ends: Vec<usize> = ends.collect();
    let place = |at: usize| at.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    let word_place = |word: &super::phrase::PhraseWord| place(word.symbols.start)..place(word.symbols.end);
    let words = phrase.words.iter().map(|word| (word.text.clone(), word_place(word))).collect();
    slot.speaking = Some(Speaking::Clause(ClauseSpeaking { utterance, words }));
    slot.phrases.pop_front();
    slot.begin_phrase();
    Ok(())
}

/// Computes the next part of a slot's phrase; the last gives its samples. The slot changes when all has gone well.
pub fn advance_clause(
    voice: &ClauseVoice,
    table: &mut SlotTable<SpeechSlot>,
    slot: usize,
) -> Result<Option<SpeechOutput>> {
    let slot = table.get_mut(slot)?;
    let Some(Speaking::Clause(speaking)) = &mut slot.speaking else {
        return Err(Error::internal("a step without a clause"));
    };
    let mut samples = match voice.model.advance(&speaking.utterance)? {
        Spoken::Unfinished(utterance) => {
            speaking.utterance = utterance;
            return Ok(None);
        }
        Spoken::Samples(samples) => samples,
    };
    let words = std::mem::take(&mut speaking.words);
    slot.speaking = None;
    let total = samples.len();
    slot.finish(&mut samples, 0, Some(total));
    slot.made += total as u64;
    Ok(Some(SpeechOutput { samples, words, ends_phrase: true }))
}
