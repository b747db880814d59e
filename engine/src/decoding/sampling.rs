//! The choice of a text's next token from its scores.

use std::collections::HashMap;

use auricle_kernels::sampling::likeliest::likeliest_of;

use crate::error::{Error, Result};

/// How tokens are chosen. Penalties come first, then temperature, top-k, top-p and min-p, each on what the one before has left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingOptions {
    /// 0 takes the likeliest token; the scores are divided by any other.
    pub temperature: f32,
    /// Only the most likely tokens, so many that their probabilities reach this sum; 1 takes all.
    pub top_p: f32,
    /// Only so many of the most likely tokens; 0 takes all.
    pub top_k: usize,
    /// Only tokens of at least this part of the likeliest token's probability; 0 takes all.
    pub min_p: f32,
    /// Divides the score of every token that the prompt or the text has, where it is above 0, else multiplies it; 1 does nothing.
    pub repetition_penalty: f32,
    /// Is taken from the score of every token that the text has.
    pub presence_penalty: f32,
    /// Is taken from the score of a token for each time that the text has it.
    pub frequency_penalty: f32,
    /// Equal seeds give equal texts.
    pub seed: u64,
}

impl Default for SamplingOptions {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: 0,
        }
    }
}

impl SamplingOptions {
    /// # Errors
    /// [`Error::InvalidOption`] for a value that is out of its range.
    pub fn check(&self) -> Result<()> {
        let wrong = |name: &str, value: f32, range: &str| {
            Err(Error::InvalidOption(format!("{name} is {value}; it is {range}")))
        };
        match *self {
            Self { temperature, .. } if !(0.0..=2.0).contains(&temperature) => {
                wrong("temperature", temperature, "from 0 to 2")
            }
            Self { top_p, .. } if !(top_p > 0.0 && top_p <= 1.0) => wrong("top_p", top_p, "above 0, and at most 1"),
            Self { min_p, .. } if !(0.0..=1.0).contains(&min_p) => wrong("min_p", min_p, "from 0 to 1"),
            Self { repetition_penalty, .. } if !(repetition_penalty > 0.0 && repetition_penalty <= 10.0) => {
                wrong("repetition_penalty", repetition_penalty, "above 0, and at most 10")
            }
            Self { presence_penalty, .. } if !(-2.0..=2.0).contains(&presence_penalty) => {
                wrong("presence_penalty", presence_penalty, "from -2 to 2")
            }
            Self { frequency_penalty, .. } if !(-2.0..=2.0).contains(&frequency_penalty) => {
                wrong("frequency_penalty", frequency_penalty, "from -2 to 2")
            }
            _ => Ok(()),
        }
    }
}

/// Chooses the tokens of one text.
#[derive(Clone, Debug)]
pub struct Sampler {
    options: SamplingOptions,
    random: u64,
}

impl Sampler {
    /// A sampler at the beginning of a text.
    pub fn new(options: SamplingOptions) -> Self {
        Self { options, random: options.seed }
    }

    /// True if it takes the likeliest token whatever came before.
    pub fn takes_likeliest(&self) -> bool {
        let SamplingOptions { temperature, repetition_penalty, presence_penalty, frequency_penalty, .. } = self.options;
        temperature == 0.0 && repetition_penalty == 1.0 && presence_penalty == 0.0 && frequency_penalty == 0.0
    }

    /// Chooses from `scores` `[vocabulary]` after `prompt` and the `text` so far; none if no score is a number, or no token is allowed.
    /// A token that may not be chosen has a score of minus infinity.
    pub fn choose(&mut self, scores: &mut [f32], prompt: &[u32], text: &[u32]) -> Option<u32> {
        self.penalize(scores, prompt, text);
        if self.options.temperature == 0.0 {
            let best = likeliest_of(scores)?;
            return u32::try_from(best).ok();
        }
        let candidates = self.candidates(scores);
        let total: f64 = candidates.iter().map(|(_, weight)| weight).sum();
        if !(total > 0.0 && total.is_finite()) {
            return None;
        }
        let mut left = self.uniform() * total;
        for (token, weight) in &candidates {
            left -= weight;
            if left < 0.0 {
                return Some(*token);
            }
        }
        candidates.last().map(|(token, _)| *token)
    }

    /// The tokens that may be drawn, and their probabilities up to a common factor.
    pub fn candidates(&self, scores: &[f32]) -> Vec<(u32, f64)> {
        let SamplingOptions { temperature, top_p, top_k, min_p, .. } = self.options;
        let Some(best) = likeliest_of(scores).map(|at| scores[at]) else { return Vec::new() };
        let weight = |score: f32| (f64::from(score - best) / f64::from(temperature)).exp();
        let weighted = (0u32..).zip(scores).map(|(token, score)| (token, weight(*score)));
        let mut found: Vec<(u32, f64)> = weighted.filter(|(_, weight)| *weight > 0.0 && weight.is_finite()).collect();
        let order = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if top_k > 0 && top_k < found.len() {
            found.select_nth_unstable_by(top_k, order);
            found.truncate(top_k);
        }
        if top_p < 1.0 {
            let total: f64 = found.iter().map(|(_, weight)| weight).sum();
            // All tokens below this together weigh less than what top-p leaves out. So few are sorted.
            let least = (1.0 - f64::from(top_p)) / found.len() as f64;
            found.retain(|(_, weight)| *weight > least);
            found.sort_unstable_by(order);
            let mut sum = 0.0;
            let reached = found.iter().position(|(_, weight)| {
                sum += weight;
                sum >= f64::from(top_p) * total
            });
            found.truncate(reached.map_or(found.len(), |at| at + 1));
        }
        found.retain(|(_, weight)| *weight >= f64::from(min_p));
        found
    }

    fn penalize(&self, scores: &mut [f32], prompt: &[u32], text: &[u32]) {
        let SamplingOptions { repetition_penalty, presence_penalty, frequency_penalty, .. } = self.options;
        if repetition_penalty != 1.0 {
            let mut seen = vec![false; scores.len()];
            for token in prompt.iter().chain(text) {
                let Some(seen) = seen.get_mut(*token as usize) else { continue };
                if !std::mem::replace(seen, true) {
                    let score = &mut scores[*token as usize];
                    *score = if *score > 0.0 { *score / repetition_penalty } else { *score * repetition_penalty };
                }
            }
        }
        if presence_penalty != 0.0 || frequency_penalty != 0.0 {
            let mut counts: HashMap<u32, f32> = HashMap::new();
            text.iter().for_each(|token| *counts.entry(*token).or_default() += 1.0);
            for (token, count) in counts {
                if let Some(score) = scores.get_mut(token as usize) {
                    *score -= presence_penalty + frequency_penalty * count;
                }
            }
        }
    }

    /// The next random number, from 0 up to 1: SplitMix64.
    fn uniform(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperature_0_takes_the_first_of_the_likeliest_and_nothing_that_is_no_number() {
        let mut sampler = Sampler::new(SamplingOptions::default());
        assert_eq!(sampler.choose(&mut [1.0, 3.0, f32::NAN, 3.0, f32::INFINITY], &[], &[]), Some(1));
        assert_eq!(sampler.choose(&mut [f32::NEG_INFINITY, f32::NAN], &[], &[]), None);
        assert_eq!(sampler.choose(&mut [], &[], &[]), None);
    }

    #[test]
    fn presence_and_frequency_count_the_text_alone() {
        let options = SamplingOptions { presence_penalty: 1.0, frequency_penalty: 0.5, ..SamplingOptions::default() };
        let mut scores = [5.0, 5.0, 5.0];
        Sampler::new(options).choose(&mut scores, &[2, 2, 2], &[0, 0, 1]);
        assert_eq!(scores, [3.0, 3.5, 5.0]);
    }

    #[test]
    fn draws_follow_the_probabilities_and_the_seed() {
        let options = SamplingOptions { temperature: 1.0, seed: 5, ..SamplingOptions::default() };
        let scores = [0.5f32.ln(), 0.3f32.ln(), 0.2f32.ln(), f32::NEG_INFINITY];
        let draw = |options| {
            let mut sampler = Sampler::new(options);
            (0..20_000).map(|_| sampler.choose(&mut scores.clone(), &[], &[]).unwrap()).collect::<Vec<u32>>()
        };
        let drawn = draw(options);
        for (token, probability) in [(0, 0.5), (1, 0.3), (2, 0.2), (3, 0.0)] {
            let part = drawn.iter().filter(|drawn| **drawn == token).count() as f64 / drawn.len() as f64;
            assert!((part - probability).abs() < 0.015, "token {token}: {part}");
        }
        assert_eq!(draw(options), drawn);
        assert_ne!(draw(SamplingOptions { seed: 6, ..options }), drawn);
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        let good = SamplingOptions::default();
        good.check().unwrap();
        for (options, name) in [
            (SamplingOptions { temperature: -0.1, ..good }, "temperature"),
            (SamplingOptions { temperature: f32::NAN, ..good }, "temperature"),
            (SamplingOptions { top_p: 0.0, ..good }, "top_p"),
            (SamplingOptions { top_p: 1.1, ..good }, "top_p"),
            (SamplingOptions { min_p: 2.0, ..good }, "min_p"),
            (SamplingOptions { repetition_penalty: 0.0, ..good }, "repetition_penalty"),
            (SamplingOptions { presence_penalty: 3.0, ..good }, "presence_penalty"),
            (SamplingOptions { frequency_penalty: f32::INFINITY, ..good }, "frequency_penalty"),
        ] {
            let error = options.check().unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
