//! The words of a Whisper window, with times from cross-attention.

use std::ops::Range;

use crate::audio::SAMPLE_RATE;
use crate::error::Result;
use crate::models::whisper::{DecodedWindow, SAMPLES_PER_FRAME, SpecialTokens, Whisper, token_times};
use crate::text::Word;
use crate::text::tokens::Spoken;
use crate::vad::speech_filter::SpeechSpans;
use crate::vad::window::Window;

/// Milliseconds of an encoder frame.
pub const FRAME_MS: u64 = 20;
/// Margin on both sides of detected speech, ms.
const MARGIN_MS: u64 = 200;

/// The words of a window, with times from its start, and the number of words dropped because they are far from speech.
///
/// Sentences are kept if the checkpoint's own timestamps place them near speech. Word times come from cross-attention
/// over frames with speech only: attention that strays into a pause would move words there.
///
/// No word lies in `parts` of the window, ms, which are written again.
pub fn words(
    model: &Whisper,
    decoded: &DecodedWindow,
    language: Option<u32>,
    window: &Window,
    speech: &SpeechSpans,
    parts: &[Range<u64>],
) -> Result<(Spoken, usize)> {
    let config = model.config();
    let code = language.and_then(|language| config.special.language(language));
    let end_ms = window.samples.len() as u64 * 1000 / u64::from(SAMPLE_RATE);
    let spelled = model.vocabulary().words(&decoded.tokens);
    let (rows, heads) = (decoded.tokens.len() + 1, config.alignment_heads.len());
    let frames = decoded.weights.len() / (rows * heads.max(1));
    // The kept part of a window may end before its attention weights.
    let mut kept = speech.frames(frames.min(window.samples.len().div_ceil(SAMPLES_PER_FRAME)), FRAME_MS, MARGIN_MS);
    kept.retain(|frame| !parts.iter().any(|part| part.contains(&(*frame as u64 * FRAME_MS))));
    let near_speech =
        tokens_near_speech(&config.special, &decoded.tokens, end_ms, |from, to| speech.is_near(from as f64, to as f64));
    // The last place is the end of the text, where the last word ends.
    let places: Vec<usize> = (0..rows).filter(|place| near_speech.get(*place).copied().unwrap_or(true)).collect();
    let times = match kept.is_empty() || heads == 0 {
        true => vec![0; places.len()],
        false => {
            let mut weights: Vec<f32> = Vec::with_capacity(places.len() * heads * kept.len());
            for place in &places {
                for row in decoded.weights[place * heads * frames..][..heads * frames].chunks_exact(frames.max(1)) {
                    weights.extend(kept.iter().map(|frame| row[*frame]));
                }
            }
            token_times(&weights, places.len(), heads, kept.len(), config.median_filter)
        }
    };
    // Time of a place, or of the next kept place, as an index into `kept`.
    let time = |place: usize| times[places.partition_point(|other| *other < place).min(places.len() - 1)];
    let (mut found, mut dropped) = (Vec::with_capacity(spelled.len()), 0);
    for word in spelled {
        let span = word.sounded;
        if kept.is_empty() || !near_speech.get(span.start).copied().unwrap_or(false) {
            dropped += 1;
            continue;
        }
        let sum: f32 = word.tokens.iter().filter_map(|token| decoded.confidences.get(*token)).sum();
        let (start, end) = longest_run(&kept, time(span.start), time(span.end));
        found.push(Word {
            confidence: sum / word.tokens.len().max(1) as f32,
            text: word.text.trim().to_owned(),
            start: start as u64 * FRAME_MS,
            end: end as u64 * FRAME_MS,
            speaker: None,
            speaker_name: None,
            channel: None,
        });
    }
    config.emission_delay.correct(&mut found);
    config.calibration.apply(&mut found);
    for word in &mut found {
        (word.start, word.end) = (word.start.min(end_ms), word.end.min(end_ms));
    }
    Ok((Spoken { words: found, language: code.map(str::to_owned), ..Spoken::default() }, dropped))
}

/// A flag for each token: true if the text between the timestamps around it lies near speech.
fn tokens_near_speech(
    special: &SpecialTokens,
    tokens: &[u32],
    end_ms: u64,
    near: impl Fn(u64, u64) -> bool,
) -> Vec<bool> {
    let mut near_speech = vec![true; tokens.len()];
    for segment in special.segments(tokens) {
        let to = segment.to_ms.unwrap_or(end_ms.max(segment.from_ms));
        near_speech[segment.tokens].fill(near(segment.from_ms, to));
    }
    near_speech
}

/// The longest run of consecutive frames of a word, which lies between two indexes into `kept`; the first of equal
/// runs.
fn longest_run(kept: &[usize], from: usize, to: usize) -> (usize, usize) {
    let (mut best, mut first) = (from..from, from);
    for at in from..to {
        let breaks = at + 1 == to || kept[at + 1] != kept[at] + 1;
        if breaks {
            if at + 1 - first > best.len() {
                best = first..at + 1;
            }
            first = at + 1;
        }
    }
    match best.is_empty() {
        true => (kept[from], kept[from]),
        false => (kept[best.start], kept[best.end - 1] + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_does_not_reach_over_a_pause() {
        let kept = [0, 1, 2, 3, 50, 51, 52];
        assert_eq!(longest_run(&kept, 1, 3), (1, 3));
        assert_eq!(longest_run(&kept, 2, 4), (2, 4), "it ends where the pause begins");
        assert_eq!(longest_run(&kept, 1, 6), (1, 4));
        assert_eq!(longest_run(&kept, 3, 6), (50, 52));
        assert_eq!(longest_run(&kept, 4, 4), (50, 50));
        assert_eq!(longest_run(&kept, 6, 6), (52, 52));
    }
}
