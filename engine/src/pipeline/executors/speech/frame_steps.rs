//! Steps of models that give one frame after another: each step computes the next frame of several streams.

use super::phrase::Phrase;
use super::slot::{FrameSpeaking, Speaking, SpeechOutput, SpeechSlot};
use crate::error::{Error, Result};
use crate::models::pocket_tts::PocketTts;
use crate::scheduler::SlotTable;

/// Computes the next frame of each slot, the first of its next phrase where it says none. Slots change when all has gone well.
pub fn compute_frames(
    model: &PocketTts,
    table: &mut SlotTable<SpeechSlot>,
    slots: &[usize],
) -> Result<Vec<Option<SpeechOutput>>> {
    let mut speaking = Vec::with_capacity(slots.len());
    for slot in slots {
        let slot = table.find(*slot).ok_or_else(|| Error::internal("a step of a slot that is not there"))?;
        speaking.push(match (&slot.speaking, slot.phrases.front()) {
            (Some(Speaking::Frames(now)), _) => (now.utterance.clone(), None),
            (None, Some(Phrase::Text(phrase))) => {
                let utterance = slot.request.voice.start(model, phrase)?;
                let sample = |character: usize| (character as f32 * slot.request.measures.pace) as usize;
                let words = phrase.words.iter().map(|(word, at)| (word.clone(), sample(at.start)..sample(at.end)));
                (utterance, Some(words.collect()))
            }
            _ => return Err(Error::internal("a step without a phrase")),
        });
    }
    let frames = model.step(&mut speaking.iter_mut().map(|(utterance, _)| utterance).collect::<Vec<_>>())?;
    let mut outputs = Vec::with_capacity(slots.len());
    for ((slot, (utterance, begun)), frame) in slots.iter().zip(speaking).zip(frames) {
        let slot = table.get_mut(*slot)?;
        let mut now = match (slot.speaking.take(), begun) {
            (Some(Speaking::Frames(now)), _) => FrameSpeaking { utterance, ..now },
            (_, words) => {
                slot.phrases.pop_front();
                slot.begin_phrase();
                FrameSpeaking { utterance, words: words.unwrap_or_default(), made: 0 }
            }
        };
        let mut samples = frame.samples;
        let total = frame.is_last.then_some(now.made + samples.len());
        slot.finish(&mut samples, now.made, total);
        slot.made += samples.len() as u64;
        now.made += samples.len();
        let words = now.begun_words(frame.is_last);
        slot.speaking = (!frame.is_last).then_some(Speaking::Frames(now));
        outputs.push(Some(SpeechOutput { samples, words, ends_phrase: frame.is_last }));
    }
    Ok(outputs)
}
