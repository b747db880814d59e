//! The aligner, a checkpoint of its own: the words of a known text to their times, in one step.

use std::ops::Range;
use std::path::Path;

use auricle_kernels::product::gemv::Precision;
use burn::tensor::Device;
use serde_json::Value;

use super::audio_model::{AudioModel, Head};
use crate::decoding::argmax;
use crate::error::{Error, Result};
use crate::models::decoder::{Embedded, PageArena, PageList, Piece};

/// Folder of the aligner within that of a checkpoint.
pub const FOLDER: &str = "aligner";
/// Languages that it is trained for.
const LANGUAGES: [&str; 11] = ["de", "en", "es", "fr", "it", "ja", "ko", "pt", "ru", "yue", "zh"];
const AUDIO_START: &str = "<|audio_start|>";
const AUDIO_END: &str = "<|audio_end|>";
/// Stands twice behind a word: the first tells its start, the second its end.
const TIME: &str = "<timestamp>";
/// Milliseconds of a class, where the folder does not name them.
const CLASS_MS: f64 = 80.0;
/// Times out of order that take the nearest good one; more are spread between the good ones around them.
const MOST_MOVED: usize = 2;

/// `Qwen3ASRForTokenClassification`
pub struct Aligner {
    model: AudioModel,
    /// Milliseconds of a class.
    class_ms: f64,
}

impl Aligner {
    /// Loads a published folder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, device: &Device, precision: Precision) -> Result<Self> {
        let model = AudioModel::load(dir, device, precision, Head::Classes)?;
        let bad = |file: &str, reason: String| Error::Checkpoint { path: dir.join(file), reason };
        for mark in [AUDIO_START, AUDIO_END, TIME] {
            if model.decoder.tokenizer().mark(mark).is_none() {
                return Err(bad("tokenizer.json", format!("the vocabulary has no {mark}")));
            }
        }
        let path = "processor_config.json";
        let file = std::fs::read_to_string(dir.join(path)).unwrap_or_else(|_| "{}".into());
        let file: Value = serde_json::from_str(&file).map_err(|error| bad(path, error.to_string()))?;
        let class_ms = file.get("timestamp_segment_time").map_or(Some(CLASS_MS), Value::as_f64);
        let class_ms = class_ms.filter(|ms| *ms > 0.0 && *ms <= 1000.0);
        let class_ms = class_ms.ok_or_else(|| bad(path, "timestamp_segment_time is no time of a class, ms".into()))?;
        Ok(Self { model, class_ms })
    }

    /// True for a language that it is trained for, and where the language is not known.
    pub fn has(language: Option<&str>) -> bool {
        language.is_none_or(|language| LANGUAGES.contains(&language))
    }

    /// The audio model.
    pub fn model(&self) -> &AudioModel {
        &self.model
    }

    /// The tokens around the audio: those before it and, behind it, those up to each time of each word.
    ///
    /// # Errors
    /// Those of the tokenizer.
    pub fn prompt(&self, words: &[String]) -> Result<(Vec<u32>, Vec<Vec<u32>>)> {
        let tokenizer = self.model.decoder.tokenizer();
        let mut parts = Vec::with_capacity(2 * words.len());
        let mut before = AUDIO_END.to_owned();
        for word in words {
            parts.push(tokenizer.encode(&format!("{before}{}{TIME}", tokenizer.shield(word)))?);
            parts.push(tokenizer.encode(TIME)?);
            before.clear();
        }
        Ok((tokenizer.encode(AUDIO_START)?, parts))
    }

    /// The likeliest class at each time of each word of a window at 16 kHz, of which there are two a word, and the scores of all
    /// classes there: `[2 words, classes]`.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed; those of the tokenizer.
    pub fn classes(&self, arena: &mut PageArena, samples: &[f32], words: &[String]) -> Result<(Vec<usize>, Vec<f32>)> {
        let decoder = &self.model.decoder;
        let vectors = self.model.encode(samples)?;
        let frames = vectors.len() / decoder.config().size;
        let (mut before, mut parts) = self.prompt(words)?;
        let audio = Embedded { first: before.len(), vectors };
        before.extend(std::iter::repeat_n(self.model.config.audio_token, frames));
        if let Some(first) = parts.first_mut() {
            first.splice(0..0, before);
        }
        let mut pages = PageList::default();
        let all: usize = parts.iter().map(Vec::len).sum();
        if all > decoder.config().context || !arena.extend(&mut pages, all) {
            return Err(Error::internal("a text is longer than the aligner's memory"));
        }
        let mut position = 0;
        let mut pieces = Vec::with_capacity(parts.len());
        for tokens in &parts {
            pieces.push(Piece { tokens, position, pages: &pages, embedded: Some(&audio), scores: true });
            position += tokens.len();
        }
        let scores = decoder.forward(arena, &pieces);
        drop(pieces);
        arena.release(&mut pages);
        let scores = scores?;
        Ok((scores.chunks_exact(decoder.config().outputs).map(argmax).collect(), scores))
    }

    /// The times of the words of a window at 16 kHz, ms from its start; none for a word without a letter or digit.
    ///
    /// # Errors
    /// As [`Aligner::classes`].
    pub fn align(&self, arena: &mut PageArena, samples: &[f32], words: &[&str]) -> Result<Vec<Option<Range<u64>>>> {
        let sounded: Vec<String> = words.iter().map(|word| sounded(word)).collect();
        let said: Vec<String> = sounded.iter().filter(|word| !word.is_empty()).cloned().collect();
        if said.is_empty() {
            return Ok(vec![None; words.len()]);
        }
        let (classes, _) = self.classes(arena, samples, &said)?;
        let times = self.times(&classes);
        let mut pairs = times.chunks_exact(2).map(|pair| pair[0]..pair[1]);
        Ok(sounded.iter().map(|word| if word.is_empty() { None } else { pairs.next() }).collect())
    }

    /// Times of classes, ms, which never go back: those of the longest run that does not, and the others between them.
    pub fn times(&self, classes: &[usize]) -> Vec<u64> {
        let raw: Vec<f64> = classes.iter().map(|class| *class as f64 * self.class_ms).collect();
        in_order(&raw).into_iter().map(|ms| ms as u64).collect()
    }
}

/// The spoken characters of a word: letters, digits and apostrophes.
fn sounded(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric() || *c == '\'').collect()
}

/// Moves the values that are not on the longest run that never goes back.
fn in_order(raw: &[f64]) -> Vec<f64> {
    // Of the runs that end with each value: the longest, and the value before it there.
    let mut best: Vec<(usize, Option<usize>)> = Vec::with_capacity(raw.len());
    for (at, value) in raw.iter().enumerate() {
        let mut own = (1, None);
        for before in (0..at).filter(|before| raw[*before] <= *value) {
            if best[before].0 + 1 > own.0 {
                own = (best[before].0 + 1, Some(before));
            }
        }
        best.push(own);
    }
    let longest = best.iter().map(|(length, _)| *length).max().unwrap_or_default();
    let mut place = best.iter().position(|(length, _)| *length == longest);
    let mut good = vec![false; raw.len()];
    while let Some(at) = place {
        good[at] = true;
        place = best[at].1;
    }
    let mut times = raw.to_vec();
    let mut from = 0;
    while from < raw.len() {
        if good[from] {
            from += 1;
            continue;
        }
        let end = (from..raw.len()).find(|at| good[*at]).unwrap_or(raw.len());
        let (left, right) = (from.checked_sub(1).map(|at| times[at]), (end < raw.len()).then(|| raw[end]));
        let count = end - from;
        for at in from..end {
            let done = at - from + 1;
            times[at] = match (left, right) {
                (Some(left), Some(right)) if count > MOST_MOVED => {
                    left + (right - left) / (count + 1) as f64 * done as f64
                }
                (Some(left), Some(right)) => {
                    if done <= end - at {
                        left
                    } else {
                        right
                    }
                }
                (Some(only), None) | (None, Some(only)) => only,
                (None, None) => raw[at],
            };
        }
        from = end;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_out_of_order_move_between_the_good_ones() {
        assert_eq!(in_order(&[1.0, 2.0, 2.0, 5.0]), [1.0, 2.0, 2.0, 5.0]);
        assert_eq!(in_order(&[1.0, 9.0, 2.0, 3.0]), [1.0, 1.0, 2.0, 3.0]);
        assert_eq!(in_order(&[1.0, 9.0, 8.0, 2.0, 3.0]), [1.0, 1.0, 2.0, 2.0, 3.0]);
        assert_eq!(in_order(&[0.0, 9.0, 8.0, 7.0, 4.0, 5.0, 6.0]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(in_order(&[5.0, 1.0, 2.0]), [1.0, 1.0, 2.0]);
        assert_eq!(in_order(&[1.0, 2.0, 0.0]), [1.0, 2.0, 2.0]);
        assert_eq!(in_order(&[]), [0.0; 0]);
    }

    #[test]
    fn marks_are_no_part_of_a_word() {
        assert_eq!(["\"to-day.\"", "o'clock,", "—", "本。"].map(sounded), ["today", "o'clock", "", "本"]);
    }
}
