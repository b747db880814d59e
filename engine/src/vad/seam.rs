//! Joins the words of windows to those of the recording.

use super::window::Window;
use crate::text::Word;
use crate::text::tokens::{Spoken, joined};

/// Adds the words of a window to those before it.
///
/// After a pause they are appended. Windows that overlap may both have the words of the overlap: the common word
/// nearest to the middle of the overlap is the seam, the first window gives the words before it and the second those
/// after it. A word that the edge of one window cuts is thus taken whole from the other.
pub fn join(spoken: &mut Spoken, mut part: Spoken, window: &Window) {
    for word in &mut part.words {
        word.start += window.start_ms;
        word.end += window.start_ms;
    }
    spoken.language = spoken.language.take().or(part.language);
    if window.overlap_ms > 0 {
        seam(&mut spoken.words, &mut part.words, window);
        spoken.words.append(&mut part.words);
        spoken.text = joined(&spoken.words);
    } else {
        spoken.words.append(&mut part.words);
        if !spoken.text.is_empty() && !part.text.is_empty() {
            spoken.text.push(' ');
        }
        spoken.text.push_str(&part.text);
    }
}

/// Largest distance between the times that two windows give the same word, ms.
const SAME_WORD_MS: u64 = 400;

/// Cuts `before` and `after` at the seam.
fn seam(before: &mut Vec<Word>, after: &mut Vec<Word>, window: &Window) {
    let middle = window.start_ms + window.overlap_ms / 2;
    let end = window.start_ms + window.overlap_ms;
    let centre = |word: &Word| word.start.midpoint(word.end);
    let first_overlapping = before.partition_point(|word| word.end <= window.start_ms);
    let last_overlapping = after.partition_point(|word| word.start < end);
    let mut best: Option<(u64, usize, usize)> = None;
    for (i, left) in before.iter().enumerate().skip(first_overlapping) {
        for (j, right) in after.iter().enumerate().take(last_overlapping) {
            let apart = left.start.abs_diff(right.start);
            if apart > SAME_WORD_MS || !same_word(&left.text, &right.text) {
                continue;
            }
            // For a word said twice in a row, equal times count for more than a place near the middle.
            let cost = centre(left).midpoint(centre(right)).abs_diff(middle) + 10 * apart;
            if best.is_none_or(|(least, _, _)| cost < least) {
                best = Some((cost, i, j));
            }
        }
    }
    match best {
        Some((_, i, j)) => {
            before.truncate(i + 1);
            after.drain(..=j);
        }
        None => {
            // Without a common word the middle is the seam: each window has more context on its side.
            before.retain(|word| centre(word) < middle);
            after.retain(|word| centre(word) >= middle);
        }
    }
}

/// True if the words are equal but for case and punctuation.
fn same_word(a: &str, b: &str) -> bool {
    let letters =
        |text: &str| text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    letters(a) == letters(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str, start: u64, end: u64) -> Word {
        Word { text: text.into(), start, end, confidence: 0.9, speaker: None, speaker_name: None, channel: None }
    }

    #[test]
    fn no_word_is_lost_or_said_twice_wherever_the_cut_falls() {
        // Words of odd lengths, with repeats side by side.
        let names = ["ask", "not", "what", "your", "country", "can", "do", "for", "you", "you", "ask", "what"];
        let mut said = Vec::new();
        let mut t = 0;
        for n in 0..60 {
            let length = 120 + (n * 97) % 450;
            said.push(word(names[n as usize % names.len()], t, t + length));
            t += length + (n * 53) % 180;
        }
        for cut in (3000..t - 1000).step_by(100) {
            let overlap = 3000;
            // Each window recognises whole words, with slightly different times, and distorts words that its edge cuts.
            let recognised = |from: u64, to: u64, shift: u64| -> Vec<Word> {
                said.iter()
                    .filter(|w| w.end > from && w.start < to)
                    .map(|w| {
                        let whole = w.start >= from && w.end <= to;
                        let text = if whole { w.text.clone() } else { format!("{}x", &w.text[..1]) };
                        word(&text, w.start.max(from) + shift, w.end.min(to) + shift)
                    })
                    .collect()
            };
            let mut spoken = Spoken { words: recognised(0, cut, 0), ..Spoken::default() };
            let mut part = recognised(cut - overlap, t, 40);
            part.iter_mut().for_each(|w| {
                w.start -= cut - overlap;
                w.end -= cut - overlap;
            });
            let window =
                Window { start_ms: cut - overlap, samples: Vec::new(), overlap_ms: overlap, probabilities: None };
            join(&mut spoken, Spoken { words: part, ..Spoken::default() }, &window);
            let texts = |words: &[Word]| words.iter().map(|w| w.text.clone()).collect::<Vec<_>>();
            assert_eq!(texts(&spoken.words), texts(&said), "cut at {cut} ms");
        }
    }
}
